"""The report of a run: its tables as Markdown and LaTeX, its figures as PNG, and one HTML page over all of them."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from febm.benchmark import figures, figures_images, figures_prediction, standing
from febm.benchmark.cells import tidy_results
from febm.benchmark.figures import Drawn
from febm.benchmark.formats import GROUP, latex, markdown, page_table
from febm.benchmark.published import published
from febm.benchmark.shelf import Fitted, fitted_models
from febm.benchmark.tables import Sheet, sheets
from febm.checks import count
from febm.reporting.findings import Finding
from febm.reporting.page import (
    Block,
    Code,
    Facts,
    Gallery,
    Paragraph,
    Section,
    guarded,
    picture_of,
    png_of,
    render,
    table_of,
    versions,
    write,
)
from febm.reporting.words import cut, in_a_sentence

# Tables that are longer and wider are shown one data set after the other.
LONGEST, WIDEST = 14, 6
TITLE = "Benchmark"


def write_report(out: Path, results: pd.DataFrame, *, command: str | None = None) -> Path:
    """Write the tables, the figures and the page of a run into its folder.

    Parameters
    ----------
    out
        The folder of the run: models in `models` are drawn, tracebacks in `errors` listed. `tables`, `figures` and
        `index.html` are written.
    results
        All scores: `table`, `dataset`, `model`, `recipe`, `seed`, `split`, `p`, `metric`, `n`, `value`.
    command
        What was typed to make the run; None: what this process was called by, if that is `febm`.

    Returns
    -------
    Path
        Of the page.
    """
    out = Path(out)
    for folder in ("tables", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    run = _Run(out, tidy_results(results), fitted_models(out))
    sections, seconds = [], []
    for anchor, title, make in run.plan():
        started = time.perf_counter()
        section = guarded(anchor, title, make)
        if section.blocks:
            sections.append(section)
            seconds.append((title, f"{time.perf_counter() - started:.1f}"))
    sections.append(run.made(command or _typed(), seconds))
    path = out / "index.html"
    write(path, render(TITLE, run.lead(), sections, wide=True))
    return path


class _Run:
    """What the sections are made of, each when it is asked for."""

    def __init__(self, out: Path, rows: pd.DataFrame, models: Sequence[Fitted]) -> None:
        self.out, self.rows, self.models = out, rows, models
        self.paper = published()
        self.sheets = {sheet.name: sheet for sheet in sheets(rows, self.paper)}
        self.failures = sorted((out / "errors").glob("*.txt"))

    def plan(self) -> list[tuple[str, str, Callable[[], Section]]]:
        """Anchor, title and maker of every section; one without blocks is left out."""
        models, rows = self.models, self.rows
        samples = (
            lambda: figures.draw_samples(models),
            lambda: figures.draw_maps(models, "pca"),
            lambda: figures.draw_maps(models, "tsne"),
        )
        calibration = (
            lambda: figures_prediction.draw_coverage(rows),
            lambda: figures_prediction.draw_gp(models),
        )
        images: tuple[Callable[[], Drawn | None], ...] = (
            lambda: figures_images.draw_images(models),
            *(functools.partial(figures_images.draw_part, models, name) for name in figures_images.PARTS),
            lambda: figures_images.draw_image_samples(models),
            lambda: figures_images.draw_scaled_samples(models),
        )
        return [
            ("standing", "Where F-EBM stands", self.standing),
            self._part("prediction", "Prediction", ["prediction"], [lambda: figures_prediction.draw_splits(models)]),
            self._part("samples", "Samples", ["power"], samples),
            self._part("density", "Density", ["log_density", "crps"]),
            self._part("calibration", "Calibration", ["coverage", "calibration"], calibration),
            self._part("priors", "Priors", ["priors"]),
            self._part("interpolation", "Interpolation", ["interpolation"]),
            self._part("images", "Images", ["images"], images),
            self._part("cost", "Cost", ["cost"]),
            ("failures", "Failed jobs", self.failed),
        ]

    def _part(
        self, anchor: str, title: str, names: Sequence[str], draw: Iterable[Callable[[], Drawn | None]] = ()
    ) -> tuple[str, str, Callable[[], Section]]:
        def make() -> Section:
            tables = [block for name in names if name in self.sheets for block in self.tables(self.sheets[name])]
            pictures = [block for each in draw for block in self.picture(each)]
            return Section(anchor, title, tuple(pictures + tables if anchor == "samples" else tables + pictures))

        return anchor, title, make

    def standing(self) -> Section:
        """The verdict: F-EBM beside the paper and beside the best of the others, losses as plainly as wins."""
        anchor, title = "standing", "Where F-EBM stands"
        found = standing.judge(self.rows, self.paper)
        if not found:
            text = "F-EBM is not among the models of this run, so that there is nothing to compare with it."
            return Section(anchor, title, (Paragraph(text),) if len(self.rows) else ())
        parts = standing.standing_sheets(self.rows, self.paper)
        return Section(anchor, title, tuple(block for sheet in parts for block in self.tables(sheet)), tuple(found))

    def failed(self) -> Section:
        """Jobs that have no scores, and why."""
        anchor, title = "failures", "Failed jobs"
        if not self.failures:
            return Section(anchor, title, ())
        rows = [(path.stem, _last_line(path)) for path in self.failures]
        number = count(len(rows), "job")
        table = table_of(rows, ("job", "error"), "Their whole tracebacks are in the folder errors")
        finding = Finding(
            anchor, "bad", f"{number} failed and {'is' if len(rows) == 1 else 'are'} missing from the tables."
        )
        return Section(anchor, title, (table,), (finding,))

    def made(self, command: str | None, seconds: Sequence[tuple[str, str]]) -> Section:
        """What was run, with what, and when."""
        rows = self.rows
        facts = [
            ("models", ", ".join(dict.fromkeys(rows["label"])) or "none"),
            ("data sets", ", ".join(dict.fromkeys(rows["dataset"])) or "none"),
            ("seeds", _seeds(rows)),
            ("recipes", ", ".join(sorted(set(rows["recipe"]))) or "none"),
            ("scores", f"{len(rows):,}"),
            ("models kept", str(len(self.models))),
            ("failed jobs", str(len(self.failures))),
        ]
        machine = f"{platform.system()} {platform.machine()}, {count(os.cpu_count() or 1, 'core')}"
        today = datetime.datetime.now(datetime.UTC)
        page = [*versions(), ("python", platform.python_version()), ("machine", machine)]
        page.append(("date", f"{today:%Y-%m-%d %H:%M} UTC"))
        blocks: list[Block] = [] if command is None else [Code(command)]
        blocks += [
            Facts("The run", tuple(facts)),
            Facts("This page", tuple(page)),
            table_of(seconds, ("section", "seconds"), "Time taken for this page"),
        ]
        return Section("made", "What was run", tuple(blocks))

    def lead(self) -> str:
        """One paragraph that says what the page is about."""
        rows = self.rows
        if rows.empty:
            return "No scores yet."
        models, datasets = (len(set(rows[name])) for name in ("label", "dataset"))
        failed = f", {count(len(self.failures), 'job')} failed" if self.failures else ""
        return (
            f"{count(models, 'model')} on {count(datasets, 'data set')}, {_seeds_in_words(rows)}: {len(rows):,} scores"
            f"{failed}. Published numbers are those of Lim, Vollmer, Wolf and Duncan (AISTATS 2023)."
        )

    def tables(self, sheet: Sheet) -> list[Block]:
        """Write a table as Markdown and LaTeX, and give the blocks that show it."""
        write(self.out / "tables" / f"{sheet.name}.md", markdown(sheet.table))
        write(self.out / "tables" / f"{sheet.name}.tex", latex(sheet.table))
        table, text = sheet.table, Paragraph(sheet.caption)
        if len(table) <= LONGEST or len(table.columns) <= WIDEST or GROUP not in table.columns:
            return [text, page_table(table, sheet.title)]
        parts = table.groupby(GROUP, sort=False)
        return [text, *(page_table(part.drop(columns=GROUP), f"{sheet.title}, {name}") for name, part in parts)]

    def picture(self, draw: Callable[[], Drawn | None]) -> list[Block]:
        """Draw a figure, write it, and give the block that shows it; what cannot be drawn says so."""
        try:
            drawn = draw()
            if drawn is None:
                return []
            png = png_of(drawn.figure)
        except Exception as error:  # one picture must not cost the others and the tables
            return [Paragraph(f"A picture could not be drawn. {in_a_sentence(error)}")]
        write(self.out / "figures" / f"{drawn.name}.png", png)
        return [Gallery((picture_of(png, alt=drawn.alt, caption=drawn.caption),), wide=True)]


def _typed() -> str | None:
    """The command line of this process, if it is that of `febm`."""
    name, *arguments = sys.argv or [""]
    return shlex.join(["febm", *arguments]) if Path(name).stem == "febm" else None


def _last_line(path: Path) -> str:
    lines = path.read_text("utf-8", errors="replace").strip().splitlines()
    return cut(lines[-1]) if lines else "no message"


def _seeds(rows: pd.DataFrame) -> str:
    seeds = sorted({int(seed) for seed in rows["seed"]})
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds)) or "none"


def _seeds_in_words(rows: pd.DataFrame) -> str:
    return f"seed{'' if rows['seed'].nunique() == 1 else 's'} {_seeds(rows)}"
