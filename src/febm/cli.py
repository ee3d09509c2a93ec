"""The command `febm`. Heavy imports stand inside the commands, so that help and version answer at once.

`febm.commands` has those that take tables and models, and says with which code they end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from febm._version import __version__
from febm.commands import options
from febm.commands.compare import compare
from febm.commands.explore import explore
from febm.commands.fit import fit
from febm.commands.help import Command, Group
from febm.commands.impute import impute
from febm.commands.info import info
from febm.commands.report import report
from febm.commands.sample import sample
from febm.commands.targets import check_folder
from febm.commands.terminal import EPILOG, speaking
from febm.commands.two_sample import two_sample
from febm.libraries import how_to_install

if TYPE_CHECKING:
    from febm.demo import DemoResult

app = typer.Typer(
    name="febm",
    cls=Group,
    help="Generative models of functions: new curves, missing parts with uncertainty, any resolution.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"febm {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Generative models of functions: new curves, missing parts with uncertainty, any resolution."""


def _unwrapped(text: str | None) -> str:
    """Paragraphs without the line breaks of the source, so that help fills the width of the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


COMMANDS: dict[str, Callable[..., None]] = {
    "fit": fit,
    "sample": sample,
    "impute": impute,
    "test": two_sample,
    "report": report,
    "compare": compare,
    "info": info,
    "explore": explore,
}
for _name, _command in COMMANDS.items():
    app.command(_name, cls=Command, help=_unwrapped(_command.__doc__))(_command)


@app.command(cls=Command)
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for demo.png and demo.csv.")] = Path("febm-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Decides the data, the training and every draw.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    traceback: options.Traceback = False,
) -> None:
    """Fit a model to curves, draw new ones, fill in missing parts, and judge it, in half a minute."""
    with speaking("demo", as_json=False, quiet=quiet, with_traceback=traceback):
        check_folder(out)

        from febm.demo import run_demo

        result = run_demo(out, random_state=seed, progress=not quiet)
        if not quiet:
            _print_result(result)


@app.command(cls=Command)
def benchmark(
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="power, prediction, calibration, priors, interpolation, images or all; several by commas or by "
            "repeating the option.",
            show_default="all",
        ),
    ] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="quadratic, melbourne, stocks, gridwatch, gp, fashion_mnist; several as above.",
            show_default="all of the tables",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="FEBM, FPCA, GaussianProcess, NeuralProcess, PiVAE, EBP, VIP, or a variant of the tables priors and "
            "interpolation; several as above.",
            show_default="all of the tables",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many: each splits the data, fits and scores anew.",
            show_default="5, with --quick 1",
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="default: the settings that we know to be best; paper: those of the paper's appendix, which train "
            "much longer. The tables priors and interpolation are always of the paper's."
        ),
    ] = "default",
    out: Annotated[
        Path,
        typer.Option(
            file_okay=False, help="Folder of the results. What it already holds is kept and not computed again."
        ),
    ] = Path("febm-benchmark"),
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Run so many jobs at a time, in processes that share the cores of this machine."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Run on the workers of a Dask scheduler, such as tcp://127.0.0.1:8786. Needed: "
            f"{how_to_install('dask')}.".replace("[", r"\["),
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="F-EBM and functional PCA on Quadratic, one seed, where nothing else is said."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    traceback: options.Traceback = False,
) -> None:
    """Fit and score the models on the paper's data: its tables and figures, with the published numbers beside ours.

    Every job (a model, a data set, a seed) leaves its file as it finishes: stop when you like, the same command goes
    on where it was. Jobs that fail do not stop the others, and run again next time. On an accelerator the seeds of a
    model that is all networks are fitted side by side.
    """
    with speaking("benchmark", as_json=False, quiet=quiet, with_traceback=traceback):
        check_folder(out)

        from febm.benchmark.command import Options, run_command

        run_command(
            Options(
                tables=table or (),
                datasets=datasets or (),
                models=models or (),
                seeds=seeds,
                recipe=recipe,
                out=out,
                workers=workers,
                scheduler=scheduler,
                quick=quick,
                quiet=quiet,
            )
        )


def _print_result(result: DemoResult) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning", style="dim")
    for row in result.figures.itertuples(index=False):
        table.add_row(row.name, f"{row.value:.3g}", row.meaning)
    console.print(table)
    console.print()
    # Paths are printed raw: they may hold brackets, and must survive being copied.
    for name, path in (("picture", result.picture), ("table", result.table)):
        console.print(f"{name:8}{path}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    app()
