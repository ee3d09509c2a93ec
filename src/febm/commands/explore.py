"""`febm explore`: a page in the browser to look into models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from febm.commands import options
from febm.commands.options import TableForm
from febm.commands.targets import check_source
from febm.commands.terminal import speaking


def explore(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL…", show_default=False, help="One model or more.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="Table of curves to show beside the models.", show_default="none"),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine (127.0.0.1); 0 takes a free one.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open nothing.")] = False,
    curve: options.Curve = None,
    x: options.X = None,
    y: options.Y = None,
    covariate: options.Covariate = None,
    wide: options.Wide = False,
    id: options.Id = None,
    traceback: options.Traceback = False,
) -> None:
    """Look into models in the browser: draw curves, drag points, see what the model makes of them."""
    with speaking("explore", as_json=False, quiet=False, with_traceback=traceback) as terminal:
        form = TableForm.of(curve, x, y, covariate, wide, id)
        for path in (*models, *(() if data is None else (data,))):
            check_source(path)

        from febm.commands.models import SavedModel

        saved = [SavedModel(path) for path in models]
        table = None
        if data is not None:
            from febm.commands.curve_tables import read_curve_table

            table = read_curve_table(data, form, terminal, saved[0].notes)

        from febm.exploring.command import Options, run_command

        curves = None if table is None else table.curves()
        run_command(Options(models=tuple(models), port=port, browser=not no_browser, data=curves))
