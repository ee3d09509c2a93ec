"""`febm impute`: the missing parts of curves, with their uncertainty."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from febm.commands import options
from febm.commands.options import TableForm
from febm.commands.targets import check_model, check_source, check_table_target
from febm.commands.terminal import UsageError, speaking


def impute(
    model: options.Model,
    partial: Annotated[
        Path,
        typer.Argument(
            metavar="PARTIAL",
            show_default=False,
            help="Table of partly observed curves; a row with an empty y asks for a value.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            show_default=False,
            help="Table of the values to write: .csv, .csv.gz, .tsv, .parquet or .json (records).",
        ),
    ] = None,
    filled: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write PARTIAL with the means in its gaps, long or wide as it is and all else unchanged.",
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(metavar="SHARE", help="Probability that the interval holds, at each point.")
    ] = 0.9,
    draws: Annotated[int, typer.Option(min=0, help="Joint draws to write beside the interval.")] = 0,
    at: options.At = None,
    noise: options.Noise = False,
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
    """Fill in the missing values of partly observed curves: mean, interval and, with --draws, draws.

    Values are asked for where y is empty in PARTIAL, or for every curve at the points --at. The table --out is long,
    with a row for each value: curve, x, mean, lower, upper, draw_0, draw_1, …; with several outputs, the column output
    names the y of a row. The table --filled is PARTIAL itself, with means alone. Give one of the two, or both.
    """
    with speaking("impute", as_json=as_json, quiet=quiet, with_traceback=traceback) as terminal:
        form = TableForm.of(curve, x, y, covariate, wide, id)
        if not 0 < level < 1:
            raise UsageError(f"--level is {level}; give a share between 0 and 1, such as 0.9.")
        if out is None and filled is None:
            raise UsageError("there is nothing to write; give --out, --filled, or both.")
        if filled is not None and at:
            raise UsageError("--filled fills the gaps of PARTIAL, and --at asks for other points; give one of them.")
        if filled is not None and out is not None and filled.absolute() == out.absolute():
            raise UsageError("--filled and --out name the same file; name two.")
        check_model(model)
        check_source(partial)
        for option, target in (("--out", out), ("--filled", filled)):
            if target is not None:
                check_table_target(target, force=force, option=option)

        from febm.checks import count
        from febm.commands.curve_tables import read_curve_table
        from febm.commands.models import SavedModel
        from febm.commands.points import parse_points
        from febm.commands.tables import as_written, read_table, write_table

        saved = SavedModel(model)
        points = parse_points(at, saved.columns.x)
        table = read_curve_table(partial, form, terminal, saved.notes)
        if points is None:
            table.require_missing()

        from febm.commands.imputing import at_missing_places, at_points, fill_table, impute_at

        asked = at_missing_places(table) if points is None else at_points(table, points)
        found = impute_at(saved.process, asked, level=level, draws=draws, noise=noise, seed=seed)
        if out is not None:
            write_table(found, out)
        if filled is not None:
            whole = read_table(partial)
            spelled = as_written(whole, partial, list(whole.columns))
            write_table(fill_table(whole, spelled, found, table.columns), filled)
        result = {
            "out": out,
            "filled": filled,
            "curves": len(asked.context),
            "values": len(found),
            "level": level,
            "draws": draws,
            "noise": noise,
            "seed": seed,
            "columns": list(found.columns)[: len(found.columns) - draws],
        }
        values, curves = count(len(found), "value"), count(len(asked.context), "curve")
        shown = [] if out is None else [f"{out}: {values} of {curves}, with {level:.0%} intervals"]
        if filled is not None:
            shown.append(f"{filled}: {partial.name}, {values} of {curves} filled in")
        terminal.show(result, *shown)
