"""What `febm benchmark` does with its options: choose the jobs and the engine, run, report, and say what was found."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from febm.benchmark.engines import Cluster, Engine, Here, Processes
from febm.benchmark.experiments import TABLES
from febm.benchmark.folder import RunFolder
from febm.benchmark.grid import GridResult, last_line, plan, run_grid
from febm.benchmark.jobs import Job
from febm.benchmark.report import write_report
from febm.benchmark.summary import summarise_results
from febm.checks import count

# What runs where nothing else is said: everything, or what takes some minutes on two cores.
DEFAULT_SEEDS, QUICK_SEEDS = 5, 1
QUICK_TABLES, QUICK_DATASETS, QUICK_MODELS = ("power", "prediction", "calibration"), ("quadratic",), ("FEBM", "FPCA")
# How the columns of the summary are headed and written.
HEADINGS = {
    "dataset": ("data", ""),
    "model": ("model", ""),
    "recipe": ("recipe", ""),
    "seeds": ("seeds", "d"),
    "cells": ("cells", ">6"),
    "mse": ("mse", ".2g"),
    "log_density": ("density", ".2f"),
    "coverage_90": ("90 %", ".2f"),
    "power": ("power", ".2f"),
    "power_published": ("paper", ".2f"),
    "floor": ("floor", ".2f"),
    "seconds": ("fit s", ".0f"),
}
LEGEND = (
    "cells: errors at or below the published ones; mse, log density and coverage of 90 % intervals over all splits; "
    "power of tests of 10 curves, beside the paper's and the floor"
)
INTERRUPTED = 130  # what shells expect after Ctrl-C


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of the command; None or nothing where the user said nothing."""

    tables: Sequence[str]
    datasets: Sequence[str]
    models: Sequence[str]
    seeds: int | None
    recipe: str
    out: Path
    workers: int | None
    scheduler: str | None
    quick: bool
    quiet: bool

    def jobs(self) -> list[Job]:
        """The grid that the options ask for."""
        tables = listed_words(self.tables) or (list(QUICK_TABLES) if self.quick else ["all"])
        datasets = listed_words(self.datasets) or (list(QUICK_DATASETS) if self.quick else None)
        models = listed_words(self.models) or (list(QUICK_MODELS) if self.quick else None)
        seeds = self.seeds or (QUICK_SEEDS if self.quick else DEFAULT_SEEDS)
        return plan(list(TABLES) if "all" in tables else tables, datasets, models, seeds, self.recipe)

    def engine(self) -> Engine:
        """Where the jobs run."""
        if self.scheduler and self.workers:
            raise ValueError("--workers and --scheduler are both given; take processes of this machine or a cluster.")
        if self.scheduler:
            return Cluster(self.scheduler)
        return Processes(self.workers) if self.workers else Here()


def run_command(options: Options) -> None:
    """Run the grid, write the report, print the main results; exits with 1 when jobs failed, 130 after Ctrl-C."""
    try:
        jobs, engine = options.jobs(), options.engine()
        RunFolder(options.out).make()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        found = run_grid(jobs, options.out, engine, progress=not options.quiet)
    except KeyboardInterrupt:
        _say_how_to_go_on(jobs, options.out)
        raise typer.Exit(INTERRUPTED) from None
    except (ImportError, ConnectionError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    page = write_report(options.out, found.results) if len(found.results) else None
    if not options.quiet:
        _print_found(found, options.out, page)
    if found.failed:
        _say_what_failed(found.failed, options.out)
        raise typer.Exit(1)


def listed_words(given: Iterable[str]) -> list[str]:
    """The words of an option that is repeated, holds commas, or both."""
    return [word.strip() for value in given for word in value.split(",") if word.strip()]


def _print_found(found: GridResult, out: Path, page: Path | None) -> None:
    console = Console()
    if len(found.results):
        console.print(_as_table(summarise_results(found.results)))
        console.print(LEGEND, style="dim", highlight=False)
        console.print()
    computed, failed = count(found.computed - len(found.failed), "job"), len(found.failed)
    console.print(f"{computed} computed, {found.kept} there already, {failed} failed", highlight=False)
    folder = RunFolder(out)
    # Paths are printed raw: they may hold brackets, and must survive being copied.
    for name, path in (("page", page), ("table", folder.results_csv), ("parquet", folder.results_parquet)):
        if path is not None:
            console.print(f"{name:8}{path}", markup=False, highlight=False, soft_wrap=True)


def _as_table(summary: pd.DataFrame) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    if summary["recipe"].nunique() == 1:
        summary = summary.drop(columns="recipe")
    for name in summary:
        heading, form = HEADINGS[name]
        table.add_column(heading, justify="right" if form else "left", no_wrap=name != "model", overflow="fold")
    for row in summary.to_dict("records"):
        cells = (("" if pd.isna(value) else format(value, HEADINGS[name][1])) for name, value in row.items())
        table.add_row(*cells)
    return table


def _say_how_to_go_on(jobs: Sequence[Job], out: Path) -> None:
    folder = RunFolder(out)
    done = sum(not folder.missing(job) for job in jobs)
    typer.echo(
        f"Stopped: {done} of {count(len(jobs), 'job')} are done and kept in {out}. "
        "Run the same command again to go on.",
        err=True,
    )


def _say_what_failed(failed: Sequence[Job], out: Path) -> None:
    folder = RunFolder(out)
    typer.echo(f"{count(len(failed), 'job')} failed; the same command runs them again:", err=True)
    for job in failed:
        path = folder.error_path(job)
        typer.echo(f"  {job.name}: {last_line(path.read_text())}\n    {path}", err=True)
