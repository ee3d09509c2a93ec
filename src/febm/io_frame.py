"""Curves from and to long tables: one row a point, columns for curve, place, value and covariates."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from febm.checks import are, count, listed, parse_numbers

if TYPE_CHECKING:
    from febm.curves import Curves

FROM = "Curves.from_frame"


class FlatCurves(NamedTuple):
    """What a long table holds: points sorted by curve, and one id and one row of covariates per curve."""

    x: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    ids: pd.Index
    covariates: pd.DataFrame | None


def read_frame(frame: Any, *, curve: Any, x: Any, y: Any, covariates: Any) -> FlatCurves:
    """Flat storage from a long table; curves in order of first appearance, points in row order."""
    if not isinstance(frame, pd.DataFrame):
        if not hasattr(frame, "to_pandas"):
            raise TypeError(f"{FROM}: df must be a pandas or polars DataFrame; got {type(frame).__name__}.")
        frame = frame.to_pandas()
    curve_names, x_names, y_names = (
        _columns(frame, names, role) for names, role in ((curve, "curve"), (x, "x"), (y, "y"))
    )
    covariate_names = [] if covariates is None else _columns(frame, covariates, "covariates", may_be_empty=True)
    if len(frame) == 0:
        raise ValueError(f"{FROM}: df has no rows; at least one curve with one point is needed.")

    codes, first = _curve_codes(frame, curve_names)
    table = _constant_rows(frame, covariate_names, codes, first, curve_names) if covariate_names else None
    places = _numbers(frame, x_names, missing_allowed=False)
    values = _numbers(frame, y_names, missing_allowed=True)
    order = np.argsort(codes, kind="stable")
    keys = frame[curve_names].iloc[first]
    ids = pd.Index(keys.iloc[:, 0]) if len(curve_names) == 1 else pd.MultiIndex.from_frame(keys)
    return FlatCurves(
        places[order], values[order], np.append(0, np.cumsum(np.bincount(codes))).astype(np.int64), ids, table
    )


def write_frame(curves: Curves) -> pd.DataFrame:
    """The long table of `curves`; covariates are repeated on every row of their curve."""
    if not curves.ids.is_unique:
        raise ValueError(
            "Curves.to_frame: ids repeat, so rows of different curves could not be told apart; "
            "give new ones, such as curves.replace(ids=range(len(curves)))."
        )
    covariates = curves.covariates
    points = [*_numbered("x", curves.x), *_numbered("y", curves.y)]
    names = [name for name, _ in _id_columns(curves.ids)] + [name for name, _ in points]
    names += [] if covariates is None else list(covariates.columns)
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"Curves.to_frame: two columns would be called {listed(map(repr, repeated))}; "
            "rename the covariate or the level of the ids with curves.replace(...)."
        )
    curve_of_row = np.repeat(np.arange(len(curves)), curves.lengths)
    columns: dict[Hashable, Any] = {name: key.take(curve_of_row) for name, key in _id_columns(curves.ids)}
    frame = pd.DataFrame({**columns, **dict(points)})
    if covariates is None:
        return frame
    return pd.concat([frame, covariates.take(curve_of_row).reset_index(drop=True)], axis=1)


def _columns(frame: pd.DataFrame, names: Any, role: str, *, may_be_empty: bool = False) -> list[Hashable]:
    single = isinstance(names, str) or not isinstance(names, list | tuple | pd.Index)
    if single or (isinstance(names, tuple) and names in frame.columns):
        names = [names]
    names = list(names)
    if not names and not may_be_empty:
        raise ValueError(f"{FROM}: {role} must name at least one column; got an empty list.")
    absent = [name for name in names if name not in frame.columns]
    if absent:
        noun = "column" if len(absent) == 1 else "columns"
        raise ValueError(
            f"{FROM}: {role} names {noun} {listed(map(repr, absent))}, which df does not have; "
            f"its columns are {', '.join(map(repr, frame.columns))}."
        )
    repeated = [name for name in names if list(frame.columns).count(name) > 1]
    if repeated:
        raise ValueError(f"{FROM}: df has more than one column {repeated[0]!r}; rename or drop the others.")
    return names


def _numbers(frame: pd.DataFrame, names: list[Hashable], *, missing_allowed: bool) -> np.ndarray:
    columns = np.empty((len(frame), len(names)))
    for position, name in enumerate(names):
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(object)
        if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
            raise ValueError(
                f"{FROM}: column {name!r} holds dates or durations ({column.dtype}); turn it into a number "
                "first, such as hours since the curve began."
            )
        numbers, not_numbers = parse_numbers(column)
        _refuse_rows(not_numbers, name, "not a number", "not numbers", "drop or fix")
        _refuse_rows(np.isinf(numbers), name, "infinite", "infinite", "drop or fix")
        if not missing_allowed:
            _refuse_rows(np.isnan(numbers), name, "missing", "missing", "every point needs a place: drop or fix")
        columns[:, position] = numbers
    return columns


def _refuse_rows(bad: np.ndarray, name: Hashable, one: str, many: str, way_out: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        single = len(rows) == 1
        raise ValueError(
            f"{FROM}: column {name!r} has {count(len(rows), 'value')} that {are(len(rows))} "
            f"{one if single else many} ({'row' if single else 'rows'} {listed(rows)}); "
            f"{way_out} {'it' if single else 'them'}."
        )


def _curve_codes(frame: pd.DataFrame, names: list[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """For each row the number of its curve in order of appearance; for each curve its first row."""
    for name in names:
        _refuse_rows(frame[name].isna().to_numpy(dtype=bool), name, "missing", "missing", "drop or fix")
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


def _id_columns(ids: pd.Index) -> list[tuple[Hashable, pd.Index]]:
    if not isinstance(ids, pd.MultiIndex):
        return [("curve", ids)]
    names = [f"curve{level}" if name is None else name for level, name in enumerate(ids.names)]
    return [(name, ids.get_level_values(level)) for level, name in enumerate(names)]


def _numbered(name: str, values: np.ndarray) -> list[tuple[Hashable, np.ndarray]]:
    width = values.shape[1]
    return [(name if width == 1 else f"{name}{column}", values[:, column]) for column in range(width)]
