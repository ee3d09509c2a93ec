"""`febm sample`: new curves drawn from a model, at any points."""

from __future__ import annotations

from typing import Annotated

import typer

from febm.commands import options
from febm.commands.targets import check_model, check_table_target
from febm.commands.terminal import speaking


def sample(
    model: options.Model,
    out: options.TableOut,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many curves.")] = 100,
    at: options.At = None,
    noise: options.Noise = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="Write one curve a row, x in the headers (one input, one output).")
    ] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> None:
    """Draw new curves from a model, at the points --at or else at the model's own.

    The same seed gives the same curves, whatever their points.
    """
    with speaking("sample", as_json=as_json, quiet=quiet, with_traceback=traceback) as terminal:
        check_model(model)
        check_table_target(out, force=force)

        from febm.checks import count
        from febm.commands.curve_tables import named_frame, wide_frame
        from febm.commands.models import SavedModel
        from febm.commands.points import check_one_row, parse_points
        from febm.commands.tables import write_table

        saved = SavedModel(model)
        points = parse_points(at, saved.columns.x)
        if wide:
            check_one_row(points, saved.columns)
        curves = saved.process.sample(number, points, noise=noise, random_state=seed)
        write_table((wide_frame if wide else named_frame)(curves, saved.columns), out)
        result = {
            "out": out,
            "curves": number,
            "points": int(curves.lengths[0]),
            "noise": noise,
            "seed": seed,
            "columns": {"x": saved.columns.x, "y": saved.columns.y},
        }
        terminal.show(result, f"{out}: {count(number, 'curve')} at {count(int(curves.lengths[0]), 'point')} each")
