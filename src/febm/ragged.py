"""Ragged storage: the checks that flat points have to pass, and the index arithmetic on their offsets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from febm.checks import count, listed
from febm.libraries import comes_from

LARGEST_PLAIN_LENGTH = 64


class FlatCurves(NamedTuple):
    """What another container holds: points sorted by curve, and an id and a row of covariates per curve."""

    x: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    ids: Any = None
    covariates: Any = None


def checked(
    name: str, x: np.ndarray, y: np.ndarray, offsets: np.ndarray, ids: Any, covariates: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, pd.Index, pd.DataFrame | None]:
    """Flat curves to trust: finite points, missing points dropped, no empty curve, matching tables."""
    n = len(offsets) - 1
    if n < 1:
        raise ValueError(f"{name}: there are no curves; at least one is needed.")
    index = as_ids(name, ids, n)
    table = as_covariates(name, covariates, n)
    refuse_empty(name, np.diff(offsets), index)
    _refuse_points(name, "x", "NaN or infinite", ~np.isfinite(x), offsets, index)
    missing = np.isnan(y)
    _refuse_points(name, "y", "infinite", ~(np.isfinite(y) | missing), offsets, index)
    dropped = missing.all(axis=1)
    if dropped.any():
        kept = ~dropped
        offsets = np.append(0, np.cumsum(kept))[offsets]
        refuse_empty(name, np.diff(offsets), index)
        x, y = x[kept], y[kept]
    return x, y, offsets.astype(np.int64), index, table


def as_ids(name: str, ids: Any, n: int) -> pd.Index:
    """The labels of `n` curves; 0, …, n-1 when none are given."""
    if ids is None:
        return pd.RangeIndex(n)
    try:
        index = ids.copy() if isinstance(ids, pd.Index) else pd.Index(ids, copy=True)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: ids must be a sequence of labels, one per curve; got {ids!r}.") from error
    if len(index) != n:
        raise ValueError(f"{name}: ids has {count(len(index), 'label')} for {count(n, 'curve')}; give one per curve.")
    if index.to_frame().isna().to_numpy().any():
        raise ValueError(f"{name}: ids has labels that are missing; give every curve one.")
    return index


def refuse_empty(name: str, lengths: np.ndarray, ids: pd.Index) -> None:
    """Raise when a curve has no observed point."""
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        one = len(empty) == 1
        raise ValueError(
            f"{name}: {count(len(empty), 'curve')} {'has' if one else 'have'} no observed point "
            f"({listed(map(repr, ids[empty].tolist()))}); leave {'it' if one else 'them'} out."
        )


def refuse_unequal_widths(name: str, argument: str, noun: str, widths: list[int]) -> None:
    """Raise when not all entries have as many coordinates, or outputs, as the first."""
    differs = np.flatnonzero(np.asarray(widths) != widths[0])
    if len(differs):
        i = int(differs[0])
        raise ValueError(
            f"{name}: {argument}[0] has {count(widths[0], noun)} but {argument}[{i}] has {widths[i]}; "
            "all curves need as many."
        )


def chosen(key: Any, n: int) -> slice | np.ndarray:
    """What `key` picks of `n` curves: a contiguous slice with plain bounds, or non-negative positions."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool | np.bool_):
        if not -n <= key < n:
            raise IndexError(f"curves[{key}]: there are {count(n, 'curve')}, counted from 0.")
        return slice(int(key) % n, int(key) % n + 1)
    if isinstance(key, slice):
        start, stop, step = key.indices(n)
        if len(range(start, stop, step)) == 0:
            raise ValueError(f"curves[{key}] picks no curves; there are {n}.")
        return slice(start, stop) if step == 1 else np.arange(start, stop, step)
    positions = np.asarray(key)
    if positions.ndim == 1 and positions.size == 0:
        raise ValueError("curves[...] picks no curves: the index is empty.")
    if positions.ndim != 1 or positions.dtype.kind not in "iub":
        raise TypeError(
            "curves[...] takes an integer, a slice, a list of integers or a mask of one truth value per "
            f"curve; got {key!r}."
        )
    if positions.dtype.kind == "b":
        if len(positions) != n:
            raise IndexError(f"curves[mask]: the mask has {len(positions)} truth values for {count(n, 'curve')}.")
        positions = np.flatnonzero(positions)
        if positions.size == 0:
            raise ValueError("curves[mask] picks no curves: the mask is false everywhere.")
        return positions
    positions = positions.astype(np.int64)
    outside = positions[(positions < -n) | (positions >= n)]
    if len(outside):
        raise IndexError(f"curves[...]: there are {count(n, 'curve')}, counted from 0; got {listed(outside)}.")
    return np.where(positions < 0, positions + n, positions)


def part_size(size: Any, n: int) -> int:
    """The number of curves in a part, from a number of curves or a fraction of `n`."""
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0:
        return int(size)
    if isinstance(size, float | np.floating) and 0.0 < size < 1.0 and round(size * n) > 0:
        return round(size * n)
    raise ValueError(
        "Curves.split: a size must be a positive number of curves or a fraction between 0 and 1 that is at "
        f"least one of the {count(n, 'curve')}; got {size!r}."
    )


def bucket(longest: int, multiple: int) -> int:
    """`longest` rounded up to a multiple of a step that doubles with every doubling of the length.

    The step is `multiple` up to twice `LARGEST_PLAIN_LENGTH`. With the usual 8 there are eight lengths to a
    doubling, so at most an eighth of a long batch is padding and a compiled function meets few shapes.
    """
    step = multiple
    while longest > 2 * LARGEST_PLAIN_LENGTH * (step // multiple):
        step *= 2
    return -(-longest // step) * step


def sorted_union(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each point its place among the distinct points, and those in lexicographic order."""
    codes, points = np.zeros(len(x), dtype=np.int64), np.empty((1, 0))
    for coordinate in x.T:
        # Hashing (factorize) is linear in the points where np.unique would sort them; + 0.0 joins -0 and 0.
        level, values = pd.factorize(coordinate + 0.0, sort=True)
        # Codes stay below the number of points after every coordinate, so the product cannot overflow.
        codes, pairs = pd.factorize(codes * len(values) + level, sort=True)
        points = np.column_stack([points[pairs // len(values)], values[pairs % len(values)]])
    return codes, points


def concatenate_tables(tables: list[pd.DataFrame | None], sizes: list[int]) -> pd.DataFrame | None:
    """The tables one below the other, with a missing value where a table lacks a column."""
    starts = np.append(0, np.cumsum(sizes))
    columns: dict[Any, list[pd.Series]] = {}
    for table, start in zip(tables, starts[:-1], strict=True):
        if table is None:
            continue
        for name in table.columns:
            columns.setdefault(name, []).append(table[name].set_axis(range(start, start + len(table))))
    if not columns:
        return None
    # Joining what is there and then making room for the rest keeps the type of a column no table lacks.
    return pd.DataFrame({name: pd.concat(pieces).reindex(range(starts[-1])) for name, pieces in columns.items()})


def as_covariates(name: str, covariates: Any, n: int) -> pd.DataFrame | None:
    """The table of what is known of `n` curves, copied; None where there is none."""
    if covariates is None:
        return None
    if comes_from(covariates, "polars"):
        from febm.io_polars import as_pandas

        covariates = as_pandas(covariates)
    elif not isinstance(covariates, pd.DataFrame) and hasattr(covariates, "to_pandas"):
        covariates = covariates.to_pandas()
    if not isinstance(covariates, pd.DataFrame | dict):
        raise TypeError(
            f"{name}: covariates must be a DataFrame of one row per curve; got {type(covariates).__name__}."
        )
    try:
        table = pd.DataFrame(covariates).reset_index(drop=True).copy()
    except ValueError as error:
        raise ValueError(f"{name}: covariates do not form a table of one row per curve ({error}).") from error
    if len(table) != n:
        raise ValueError(
            f"{name}: covariates has {count(len(table), 'row')} for {count(n, 'curve')}; give one row per curve."
        )
    return table if table.shape[1] else None


def _refuse_points(name: str, argument: str, fault: str, bad: np.ndarray, offsets: np.ndarray, ids: pd.Index) -> None:
    if not bad.any():
        return
    rows = np.flatnonzero(bad.any(axis=1))
    curves = np.searchsorted(offsets, rows, side="right") - 1
    places = (
        f"point {row - offsets[i]} of curve {ids[i]!r}" for row, i in zip(rows.tolist(), curves.tolist(), strict=True)
    )
    way_out = "drop or fix it" if len(rows) == 1 else "drop or fix them"
    if argument == "y":
        way_out += ", or give NaN for a missing value"
    raise ValueError(f"{name}: {argument} is {fault} at {count(len(rows), 'point')} ({listed(places)}); {way_out}.")
