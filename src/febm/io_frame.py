"""Curves from and to long tables: one row a point, columns for curve, place, value and covariates."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from febm.io_tables import (
    as_index,
    as_table,
    id_columns,
    in_library,
    named_columns,
    number_columns,
    numbered,
    pandas_columns,
    refuse_repeated_names,
    refuse_rows,
    require_library,
)
from febm.ragged import FlatCurves

if TYPE_CHECKING:
    from febm.curves import Curves

FROM, TO = "Curves.from_frame", "Curves.to_frame"


def read_frame(df: Any, *, curve: Any, x: Any, y: Any, covariates: Any) -> FlatCurves:
    """Flat storage from a long table; curves in order of first appearance, points in row order."""
    table = as_table(df, FROM)
    curve_names, x_names, y_names = (
        named_columns(table, names, role, FROM) for names, role in ((curve, "curve"), (x, "x"), (y, "y"))
    )
    covariate_names = (
        [] if covariates is None else named_columns(table, covariates, "covariates", FROM, may_be_empty=True)
    )
    if len(table) == 0:
        raise ValueError(f"{FROM}: df has no rows; at least one curve with one point is needed.")
    frame = pandas_columns(table, [*curve_names, *x_names, *y_names, *covariate_names])

    codes, first = _curve_codes(frame, curve_names)
    constant = _constant_rows(frame, covariate_names, codes, first, curve_names) if covariate_names else None
    places = number_columns(frame, x_names, FROM, missing_allowed=False)
    values = number_columns(frame, y_names, FROM)
    order = np.argsort(codes, kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(codes))).astype(np.int64)
    return FlatCurves(places[order], values[order], offsets, as_index(frame[curve_names].iloc[first]), constant)


def write_frame(curves: Curves, library: str = "pandas") -> Any:
    """The long table of `curves`; covariates are repeated on every row of their curve."""
    require_library(library, TO)
    if not curves.ids.is_unique:
        raise ValueError(
            f"{TO}: ids repeat, so rows of different curves could not be told apart; "
            "give new ones, such as curves.replace(ids=range(len(curves)))."
        )
    covariates, keys = curves.covariates, id_columns(curves.ids)
    x_names, y_names = numbered("x", curves.d_x), numbered("y", curves.d_y)
    names = [name for name, _ in keys] + x_names + y_names
    refuse_repeated_names(names + ([] if covariates is None else list(covariates.columns)), TO)
    curve_of_row = np.repeat(np.arange(len(curves)), curves.lengths)
    columns: dict[Hashable, Any] = {name: key.take(curve_of_row) for name, key in keys}
    columns |= dict(zip(x_names, curves.x.T, strict=True)) | dict(zip(y_names, curves.y.T, strict=True))
    frame = pd.DataFrame(columns)
    if covariates is not None:
        frame = pd.concat([frame, covariates.take(curve_of_row).reset_index(drop=True)], axis=1)
    return in_library(frame, library, TO)


def _curve_codes(frame: pd.DataFrame, names: list[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """For each row the number of its curve in order of appearance; for each curve its first row."""
    for name in names:
        refuse_rows(frame[name].isna().to_numpy(dtype=bool), name, "missing", "missing", "drop or fix", FROM)
    codes = np.zeros(len(frame), dtype=np.int64)
    for name in names:
        level, level_values = pd.factorize(frame[name])
        # Refactorising after every column keeps codes below the number of rows, so products cannot overflow.
        codes = pd.factorize(codes * len(level_values) + level)[0].astype(np.int64)
    # Codes count up in order of appearance, so a curve first appears where their running maximum steps.
    return codes, np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))


def _constant_rows(
    frame: pd.DataFrame,
    names: list[Hashable],
    codes: np.ndarray,
    first: np.ndarray,
    curve_names: list[Hashable],
) -> pd.DataFrame:
    """The covariates of each curve, which have to be the same on all of its rows."""
    table = frame[names].iloc[first].reset_index(drop=True)
    for name in names:
        values = pd.factorize(frame[name], use_na_sentinel=True)[0]
        differs = np.flatnonzero(values != values[first][codes])
        if len(differs):
            key = frame[curve_names].iloc[differs[0]].tolist()
            shown = repr(key[0]) if len(key) == 1 else repr(tuple(key))
            raise ValueError(
                f"{FROM}: covariate {name!r} changes within curve {shown} (row {differs[0]}); a covariate "
                "has one value per curve. What changes along a curve belongs in x or y."
            )
    return table
