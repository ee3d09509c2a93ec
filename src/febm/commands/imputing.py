"""The work of `febm impute`: which values are asked for, and what a model says of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from febm.checks import parse_numbers
from febm.commands.columns import Columns, as_place
from febm.commands.curve_tables import CurveTable, id_frame
from febm.curves import Curves
from febm.io_tables import as_index
from febm.models import Process
from febm.randomness import as_key


class Asked(NamedTuple):
    """What is known of some curves, where more is asked for, and which outputs there."""

    context: Curves
    places: Curves
    wanted: Bool[np.ndarray, "points d_y"]
    columns: Columns


def at_missing_places(table: CurveTable) -> Asked:
    """The points of the table whose values are missing, of the curves that have any."""
    columns, wanted, curves = table.columns, table.missing, table.curves()
    rows = wanted.any(axis=1)
    asking = table.frame.loc[rows]
    # Curve by curve, in the order that the curves have in the table.
    order = np.argsort(curves.ids.get_indexer(as_index(asking[list(columns.curve)])), kind="stable")
    asking = asking.iloc[order].assign(**dict.fromkeys(columns.y, 0.0))
    places = CurveTable(asking.reset_index(drop=True), columns).curves()
    return Asked(curves[curves.ids.get_indexer(places.ids)], places, wanted[rows][order], columns)


def at_points(table: CurveTable, points: Float64[np.ndarray, "points d_x"]) -> Asked:
    """The same points for every curve of the table."""
    context = table.curves()
    values = np.zeros((len(context), len(points), context.d_y))
    places = Curves.from_grid(points, values, ids=context.ids)
    return Asked(context, places, np.ones(places.y.shape, dtype=bool), table.columns)


def impute_at(model: Process, asked: Asked, *, level: float, draws: int, noise: bool, seed: int) -> pd.DataFrame:
    """Mean, ends of the interval and draws of every value that is asked for, a row each."""
    _refuse_taken_names(asked.columns, draws)
    condition_key, sample_key = jax.random.split(as_key(seed))
    posterior = model.condition(asked.context, random_state=condition_key)
    places, columns = asked.places, asked.columns
    lower, upper = posterior.interval(places, level, noise=noise)
    point, output = np.nonzero(asked.wanted)
    owner = np.repeat(np.arange(len(places)), places.lengths)[point]
    found = id_frame(places.ids, columns).take(owner).reset_index(drop=True)
    for position, name in enumerate(columns.x):
        found[name] = places.x[point, position]
    if len(columns.y) > 1:
        found["output"] = np.array(columns.y)[output]
    mean: Any = posterior.mean(places)
    for name, curves in (("mean", mean), ("lower", lower), ("upper", upper)):
        found[name] = curves.y[point, output]
    if not draws:
        return found
    drawn = posterior.sample(draws, places, noise=noise, random_state=sample_key).y
    values = [
        drawn[draws * first : draws * last].reshape(draws, last - first, -1)
        for first, last in zip(places.offsets[:-1], places.offsets[1:], strict=True)
    ]
    together = np.concatenate(values, axis=1)[:, point, output].T
    return pd.concat([found, pd.DataFrame(together, columns=_draw_names(draws))], axis=1)


def fill_table(frame: pd.DataFrame, spelled: pd.DataFrame, found: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """A table as it is `spelled`, with the mean in place of every missing value that was found."""
    outputs = found["output"] if "output" in found else [columns.y[0]] * len(found)
    keys = zip(outputs, *(found[name] for name in (*columns.curve, *columns.x)), strict=True)
    means = dict(zip(keys, found["mean"], strict=True))
    ids = [spelled[name].to_numpy() for name in columns.curve if name in spelled] or [np.arange(len(frame))]
    filled = {}
    for name in columns.headers if columns.wide else columns.y:
        output = columns.y[0] if columns.wide else name
        places = (
            [np.full(len(frame), as_place(name))] if columns.wide else [parse_numbers(frame[x])[0] for x in columns.x]
        )
        gaps = np.flatnonzero(np.isnan(parse_numbers(frame[name])[0])).tolist()
        asked = {row: (output, *(part[row] for part in (*ids, *places))) for row in gaps}
        known = {row: means[key] for row, key in asked.items() if key in means}
        if known:
            column = spelled[name] if pd.api.types.is_float_dtype(spelled[name]) else spelled[name].astype(object)
            filled[name] = column.mask(np.isin(np.arange(len(frame)), list(known)), pd.Series(known))
    return spelled.assign(**filled)


def _draw_names(draws: int) -> list[str]:
    return [f"draw_{number}" for number in range(draws)]


def _refuse_taken_names(columns: Columns, draws: int) -> None:
    own = {"mean", "lower", "upper", "output", *_draw_names(draws)}
    taken = [name for name in (*columns.curve, *columns.x) if name in own]
    if taken:
        raise ValueError(f"column {taken[0]!r} has the name of one that is to be written; rename it in the table.")
