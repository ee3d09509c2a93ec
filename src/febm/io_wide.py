"""Curves from and to wide tables: one row a curve, one column a point, which is named by its place."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from febm.checks import as_columns, count, listed
from febm.io_arrays import flat_grid, write_grid
from febm.io_dates import names_of_dates
from febm.io_tables import (
    as_index,
    as_table,
    id_columns,
    in_library,
    named_columns,
    number_columns,
    pandas_columns,
    refuse_repeated_names,
    require_library,
)
from febm.ragged import FlatCurves

if TYPE_CHECKING:
    from febm.curves import Curves

FROM, TO = "Curves.from_wide", "Curves.to_wide"


def read_wide(df: Any, *, x: Any, ids: Any, covariates: Any) -> FlatCurves:
    """Flat storage from a wide table; what is neither an id nor a covariate is a point."""
    table = as_table(df, FROM)
    id_names = [] if ids is None else named_columns(table, ids, "ids", FROM)
    covariate_names = (
        [] if covariates is None else named_columns(table, covariates, "covariates", FROM, may_be_empty=True)
    )
    labels = [label for label in table.columns if label not in id_names and label not in covariate_names]
    if not labels:
        raise ValueError(f"{FROM}: df has no columns of values; each column that is no id or covariate is a point.")
    named_columns(table, labels, "x", FROM)
    grid = _places(labels, [*id_names, *covariate_names]) if x is None else as_columns(x, f"{FROM}: x")
    if len(grid) != len(labels):
        raise ValueError(
            f"{FROM}: x has {count(len(grid), 'point')} for {count(len(labels), 'column')} of values; give one for "
            "each column that is neither in ids nor in covariates."
        )
    frame = pandas_columns(table, [*id_names, *covariate_names, *labels])
    keys = as_index(frame[id_names]) if id_names else frame.index
    known = frame[covariate_names] if covariate_names else None
    return flat_grid(grid, number_columns(frame, labels, FROM)[:, :, None], keys, known)


def write_wide(curves: Curves, library: str = "pandas") -> Any:
    """The wide table of `curves`: ids are the index, or columns in polars, then covariates, then points in order."""
    require_library(library, TO)
    if curves.d_x > 1 or curves.d_y > 1:
        raise ValueError(
            f"{TO}: a wide table has one input and one output; these curves have d_x={curves.d_x}, d_y={curves.d_y}. "
            "Use to_frame, or one output at a time: curves.replace(y=curves.y[:, 0])."
        )
    grid, values = write_grid(curves, TO)
    covariates = curves.covariates
    keys = id_columns(curves.ids) if library == "polars" else []
    # A float's shortest text is read back as the same float.
    labels: list[Hashable] = [repr(place) if library == "polars" else place for place in grid.tolist()]
    known = [name for name, _ in keys] + ([] if covariates is None else list(covariates.columns))
    refuse_repeated_names(known + labels, TO)
    frame = pd.DataFrame(values[:, :, 0], columns=labels)
    if covariates is not None:
        frame = pd.concat([covariates, frame], axis=1)
    for place, (name, key) in enumerate(keys):
        frame.insert(place, name, key)
    return in_library(frame if keys else frame.set_axis(_named(curves.ids)), library, TO)


def _places(labels: list[Hashable], others: list[Hashable]) -> np.ndarray:
    """Where the columns of values, beside which there are `others`, were observed, by their names."""
    places, not_places = [], []
    for label in labels:
        try:
            places.append(float(label) if isinstance(label, str | int | float | np.number) else np.nan)
        except ValueError:
            places.append(np.nan)
        if isinstance(label, bool) or not np.isfinite(places[-1]):
            not_places.append(label)
    if not_places:
        dates = names_of_dates(labels, others) if len(not_places) == len(labels) else None
        if dates is not None:
            raise ValueError(
                f"{FROM}: columns are named by dates or durations, such as {not_places[0]!r}; say with x at which "
                f"numbers they were observed. In pandas, {dates}."
            )
        raise ValueError(
            f"{FROM}: {count(len(not_places), 'column')} not named by a number ({listed(map(repr, not_places))}); name "
            "them in ids or covariates, or say with x where the columns of values were observed."
        )
    return np.array(places)[:, None]


def _named(ids: pd.Index) -> pd.Index:
    """The ids with names where they have none."""
    return ids.set_names([own or name for own, (name, _) in zip(ids.names, id_columns(ids), strict=True)])
