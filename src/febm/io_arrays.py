"""Curves from and to NumPy arrays: a list with one entry a curve, a common grid, or the product of several axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from febm.checks import as_columns, as_numbers, count, listed
from febm.ragged import FlatCurves, as_ids, refuse_empty, refuse_unequal_widths, sorted_union

if TYPE_CHECKING:
    from febm.curves import Curves

# Values that a product of axes may have: 2 GiB of them.
LARGEST_GRID = 1 << 28


def read_arrays(xs: Any, ys: Any, ids: Any, covariates: Any) -> FlatCurves:
    """Flat storage from lists with one entry per curve."""
    name = "Curves.from_arrays"
    places, values = list(xs), list(ys)
    if len(places) != len(values):
        raise ValueError(f"{name}: xs has {len(places)} curves but ys has {len(values)}; give one y per x.")
    if not places:
        raise ValueError(f"{name}: there are no curves; xs and ys need at least one entry.")
    places = [as_columns(x, f"{name}: xs[{i}]") for i, x in enumerate(places)]
    values = [as_columns(y, f"{name}: ys[{i}]") for i, y in enumerate(values)]
    lengths = np.array([len(x) for x in places])
    unequal = np.flatnonzero(lengths != [len(y) for y in values])
    if len(unequal):
        i = unequal[0]
        raise ValueError(
            f"{name}: xs[{i}] has {lengths[i]} points but ys[{i}] has {len(values[i])}; "
            "give one value per point, with NaN for a missing value."
        )
    refuse_empty(name, lengths, as_ids(name, ids, len(places)))
    refuse_unequal_widths(name, "xs", "coordinate", [x.shape[1] for x in places])
    refuse_unequal_widths(name, "ys", "output", [y.shape[1] for y in values])
    offsets = np.append(0, np.cumsum(lengths))
    return FlatCurves(np.concatenate(places), np.concatenate(values), offsets, ids, covariates)


def read_grid(x: Any, Y: Any, ids: Any, covariates: Any) -> FlatCurves:
    """Flat storage from values on a common grid; Y is copied, once."""
    name = "Curves.from_grid"
    grid = as_columns(x, f"{name}: x")
    values = as_numbers(Y, f"{name}: Y", copy=True)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"{name}: Y must be (n, m) or (n, m, d_y), one row per curve; got shape {values.shape}. "
            "A single curve is Y.reshape(1, -1)."
        )
    n, m = values.shape[:2]
    if m != len(grid):
        hint = ", so Y seems to need a transpose" if n == len(grid) else ""
        raise ValueError(
            f"{name}: Y has {count(m, 'column')} but x has {count(len(grid), 'point')}; each row of "
            f"Y is a curve on the points of x{hint}."
        )
    bad = np.flatnonzero(~np.isfinite(grid).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{name}: x is NaN or infinite at {count(len(bad), 'point')} ({listed(bad)}); drop or fix "
            "them together with their columns of Y."
        )
    outputs = values.shape[2] if values.ndim == 3 else 1
    return flat_grid(grid, values.reshape(n, m, outputs), ids, covariates)


def flat_grid(
    grid: Float64[np.ndarray, "points d_x"], values: Float64[np.ndarray, "curves points d_y"], ids: Any, covariates: Any
) -> FlatCurves:
    """Flat storage of values, which are not copied, at the same points for all curves."""
    n, m, outputs = values.shape
    return FlatCurves(np.tile(grid, (n, 1)), values.reshape(n * m, outputs), np.arange(n + 1) * m, ids, covariates)


def product(axes: Sequence[np.ndarray]) -> Float64[np.ndarray, "points d_x"]:
    """The points with every combination of coordinates, the last one running fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def write_arrays(curves: Curves) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The points and the values of each curve, as views."""
    cuts = curves.offsets[1:-1]
    return np.split(curves.x, cuts), np.split(curves.y, cuts)


def write_grid(
    curves: Curves, owner: str = "Curves.to_grid"
) -> tuple[np.ndarray, Float64[np.ndarray, "curves points d_y"]]:
    """The sorted union of all points, and the values there."""
    codes, points = sorted_union(curves.x)
    values = _filled(curves, codes, len(points), lambda cell: points[cell], owner)
    return points[:, 0] if curves.d_x == 1 else points, values


def write_axes(curves: Curves, owner: str) -> tuple[list[np.ndarray], Float64[np.ndarray, "curves *axes d_y"]]:
    """The distinct coordinates along each axis, sorted, and the values on their product, NaN where unobserved.

    The values are a read-only view of those of the curves where these have all points of the product, in its order.
    """
    common = curves.common_points
    axes = [np.unique(coordinate) for coordinate in (curves.x if common is None else common).T]
    shape = tuple(len(axis) for axis in axes)
    size = math.prod(shape)
    if common is not None and len(common) == size and np.array_equal(common, product(axes)):
        return axes, curves.y.reshape(len(curves), *shape, curves.d_y)
    if len(curves) * size * curves.d_y > LARGEST_GRID:
        sides = " × ".join(f"{side:,}" for side in shape)
        raise ValueError(
            f"{owner}: a grid of all coordinates would have {sides} points for each of {count(len(curves), 'curve')}, "
            f"which together have {count(len(curves.x), 'point')}; leave `kind` out."
        )
    places = [np.searchsorted(axis, coordinate) for axis, coordinate in zip(axes, curves.x.T, strict=True)]
    codes = np.ravel_multi_index(places, shape)
    values = _filled(curves, codes, size, lambda cell: product(axes)[cell], owner)
    return axes, values.reshape(len(curves), *shape, curves.d_y)


def share_a_grid(curves: Curves) -> bool:
    """Whether all curves have the same points, which are distinct and fill the product of their coordinates."""
    points = curves.common_points
    if points is None or len(sorted_union(points)[1]) < len(points):
        return False
    return math.prod(len(np.unique(coordinate)) for coordinate in points.T) == len(points)


def _filled(
    curves: Curves, codes: np.ndarray, size: int, place: Callable[[int], np.ndarray], owner: str
) -> Float64[np.ndarray, "curves points d_y"]:
    """Values at the `size` points of a grid, of which `codes` say which one each point is."""
    cells = np.repeat(np.arange(len(curves)) * size, curves.lengths) + codes
    observed = np.zeros(len(curves) * size, dtype=bool)
    observed[cells] = True
    if np.count_nonzero(observed) != len(cells):
        i, cell = divmod(int(cells[np.flatnonzero(pd.Series(cells).duplicated())[0]]), size)
        raise ValueError(
            f"{owner}: curve {curves.ids[i]!r} has more than one value at x = {place(cell).tolist()}; "
            "a grid holds one. Average repeated points first."
        )
    values = np.full((len(observed), curves.d_y), np.nan)
    values[cells] = curves.y
    return values.reshape(len(curves), size, curves.d_y)
