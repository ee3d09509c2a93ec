"""`febm report`: every yardstick applied to a model, on one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from febm.commands import options
from febm.commands.options import TableForm
from febm.commands.targets import check_source, check_target
from febm.commands.terminal import speaking


def report(
    model: options.ModelOrTable,
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", show_default=False, help="HTML page to write.")],
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Heading of the page.", show_default="names the model")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A first look in less than half the time: fewer curves and ways to hide points, no table of power, "
            "no maps, samplers not examined.",
        ),
    ] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    curve: options.Curve = None,
    x: options.X = None,
    y: options.Y = None,
    covariate: options.Covariate = None,
    wide: options.Wide = False,
    id: options.Id = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> None:
    """Judge a model by curves that it has not seen, or one table of curves by another: one HTML page.

    After febm fit --hold-out, give the same table: the curves that were held out are the judges.
    """
    with speaking("report", as_json=as_json, quiet=quiet, with_traceback=traceback) as terminal:
        form = TableForm.of(curve, x, y, covariate, wide, id)
        check_source(model)
        check_source(data)
        check_target(out, force=force)

        from febm.commands.judging import as_findings, judges

        judged, curves = judges(model, data, form, terminal)

        from febm.reporting import report as write_report
        from febm.reporting.subject import ReportEffort

        effort = ReportEffort.quick() if quick else ReportEffort()
        if quick:
            terminal.say(effort.less())
        found = write_report(judged, curves, out, random_state=seed, title=title, effort=effort)
        terminal.show(as_findings(found), str(found))
