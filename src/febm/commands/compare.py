"""`febm compare`: every model fitted to a part of the curves, ranked by what it says of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from febm.commands import options
from febm.commands.options import MODELS, TableForm, model_names, words
from febm.commands.targets import check_source, check_table_target
from febm.commands.terminal import REFUSED, UsageError, speaking

SCORES = ("log_density", "crps", "mse")


def compare(
    data: options.Data,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--models",
            metavar="NAMES",
            help=f"all, or some of {', '.join(MODELS)}; several by commas or by repeating.",
            show_default="all",
        ),
    ] = None,
    by: Annotated[str, typer.Option(metavar="SCORE", help=f"Rank by {', '.join(SCORES)}.")] = "log_density",
    hold_out: Annotated[float, typer.Option(metavar="SHARE", help="Share of the curves that judge.")] = 0.2,
    shown: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the points of a judging curve that a model is shown.")
    ] = 0.5,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Most passes of each training over the curves.", show_default="of each model"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Table of the scores: .csv, .csv.gz, .tsv, .parquet or .json.",
            show_default="none",
        ),
    ] = None,
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
    """Fit models to a part of the curves and rank them by what they say of the others.

    A model is shown some random points of each judging curve and predicts the others. Scores are means over the judging
    curves, ± their standard errors; behind is the distance from the best, curve by curve. A model that fails is
    reported, and the exit code is then 1.
    """
    with speaking("compare", as_json=as_json, quiet=quiet, with_traceback=traceback) as terminal:
        form = TableForm.of(curve, x, y, covariate, wide, id)
        given = words(models) or ("all",)
        chosen = MODELS if "all" in map(str.lower, given) else model_names(given, "--models")
        if by not in SCORES:
            raise UsageError(f"--by is {by!r}; choose one of {', '.join(SCORES)}.")
        for option, value in (("--hold-out", hold_out), ("--shown", shown)):
            if not 0 < value < 1:
                raise UsageError(f"{option} is {value}; give a share between 0 and 1, such as 0.5.")
        check_source(data)
        if out is not None:
            check_table_target(out, force=force)

        from febm.commands.curve_tables import read_curve_table
        from febm.commands.tables import write_table

        curves = read_curve_table(data, form, terminal)

        from febm.commands.comparing import Contest, ranked, shown_ranking

        contest = Contest.of(curves.curves(), hold_out=hold_out, shown=shown, seed=seed)
        terminal.say(contest.sentence())
        entries = [contest.enter(name, terminal, epochs=epochs) for name in chosen]
        table = ranked(entries, by)
        if out is not None:
            write_table(table, out)
        failed = {entry.model: entry.error for entry in entries if entry.error}
        result = {
            "out": out,
            "by": by,
            "curves": {"training": len(contest.training), "judging": len(contest.context)},
            "scores": table.to_dict("records"),
            "failed": failed,
            "seed": seed,
        }
        terminal.show(result, *shown_ranking(table, by), *([] if out is None else [str(out)]))
        if failed:
            for name, error in failed.items():
                typer.echo(f"febm compare: {name} failed: {error}", err=True)
            raise typer.Exit(REFUSED)
