"""The command `febm`. Heavy imports stand inside the commands, so that help and version answer at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from febm._version import __version__

if TYPE_CHECKING:
    from febm.demo import DemoResult

app = typer.Typer(
    name="febm",
    help="Generative models of functions: new curves, missing parts with uncertainty, any resolution.",
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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for demo.png and demo.csv.")] = Path("febm-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Decides the data, the training and every draw.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Fit a model to curves, draw new ones, fill in missing parts, and judge it, in half a minute."""
    from febm.demo import run_demo

    result = run_demo(out, random_state=seed, progress=not quiet)
    if not quiet:
        _print_result(result)


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
