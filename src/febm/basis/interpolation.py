"""Functions known at points, asked for anywhere: f(x) = Σ_j W_j(x) f(x_j), the same W for every function.

Beyond the box of the known points every function goes on along its secant over the outer tenth of the
box and levels off: f(x) = f(c) + (1 − e^{−t}) (f(c) − f(inner)), c the nearest point of the box, t the
distance to it in tenths of the box.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist

STENCIL = 5  # points in a finite-difference slope: fourth order, as the cubic pieces themselves
AMPLIFICATION = 3.0  # bound on Σ|W_j(x)| along an axis; even spacing stays below it by itself
REACH = 0.1  # share of the box over which an extension levels off
CHUNK = 4096  # rows at a time where a dense matrix over all points is formed

Points: TypeAlias = Float[np.ndarray, "points inputs"]
Values: TypeAlias = Float[np.ndarray, "points columns"]


class Interpolant(eqx.Module):
    """Columns of `values (U, C)` at `points (U, d_x)`, interpolated; exact at the points themselves.

    One input, or points that fill a rectangular grid: cubic Hermite pieces with slopes from five-point
    differences (a tensor product over the axes), blended with linear interpolation where uneven
    spacing would amplify values more than threefold. Other points: thin-plate splines (r² log r and a
    linear part) in the unit box, and a lookup for the points themselves.

    Everything is linear in the values, so interpolating features interpolates the functions they span.
    """

    points: np.ndarray
    values: np.ndarray  # of a grid: in the order of the axes' product
    axes: tuple[np.ndarray, ...] | None
    coefficients: np.ndarray | None

    def __init__(self, points: Points, values: Values) -> None:
        self.points = np.array(points, dtype=np.float64)
        values = np.array(values, dtype=np.float64)
        self.axes = grid_axes(self.points)
        if self.axes is not None:
            order = np.lexsort(self.points.T[::-1])
            self.points, self.values = self.points[order], values[order]
            self.coefficients = None
        else:
            self.values = values
            self.coefficients = _thin_plate_coefficients(self._unit_box(self.points), values)

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corner of the known points."""
        return self.points.min(axis=0), self.points.max(axis=0)

    def __call__(self, x: Points) -> Values:
        """The columns at `x (m, d_x)`: shape `(m, C)`, continuous and finite everywhere."""
        return extended(self._inside, x, *self.box)

    def _inside(self, x: Points) -> Values:
        if self.axes is not None:
            return _grid_weights(self.axes, x) @ self.values
        result = np.empty((len(x), self.values.shape[1]))
        for start in range(0, len(x), CHUNK):
            rows = slice(start, start + CHUNK)
            result[rows] = _thin_plate_design(self._unit_box(x[rows]), self._unit_box(self.points)) @ self.coefficients
        place = match_rows(self.points, x)
        known = place >= 0
        result[known] = self.values[place[known]]
        return result

    def _unit_box(self, x: Points) -> Points:
        lower, upper = self.box
        return (x - lower) / np.where(upper > lower, upper - lower, 1.0)


def extended(
    inside: Callable[[Points], Values],
    x: Points,
    lower: Float[np.ndarray, " inputs"],
    upper: Float[np.ndarray, " inputs"],
) -> Values:
    """Evaluate `inside`, which knows the box from `lower` to `upper` only, at any `x`."""
    nearest = np.clip(x, lower, upper)
    values = inside(nearest)
    beyond = np.any(nearest != x, axis=1)
    if not beyond.any():
        return values
    # A constant coordinate has no tenth of its own: distances along it are taken as they are.
    reach = REACH * np.where(upper > lower, upper - lower, 1.0)
    step = (x[beyond] - nearest[beyond]) / reach
    distance = np.abs(step).max(axis=1, keepdims=True)
    inner = np.clip(nearest[beyond] - reach * step / distance, lower, upper)
    values[beyond] += -np.expm1(-distance) * (values[beyond] - inside(inner))
    return values


def grid_axes(points: Points) -> tuple[np.ndarray, ...] | None:
    """The axes of the rectangular grid that distinct `points` fill; None if they do not."""
    axes = tuple(np.unique(column) for column in points.T)
    return axes if np.prod([len(axis) for axis in axes], dtype=float) == len(points) else None


def cell_weights(points: Points) -> Float[np.ndarray, " points"]:
    """Quadrature weights of sum 1: the length of each point's cell, products on a grid, equal if scattered.

    The outermost cells count as long as the gap beside them, so even spacing gives equal weights.
    """
    equal = np.full(len(points), 1 / len(points))
    axes = grid_axes(points)
    if axes is None:
        return equal
    weights = np.ones(len(points))
    for axis, column in zip(axes, points.T, strict=True):
        if len(axis) > 1:
            gaps = np.diff(axis)
            cells = (np.append(gaps[0], gaps) + np.append(gaps, gaps[-1])) / 2
            weights *= cells[np.searchsorted(axis, column)]
    weights /= weights.sum()
    # Rounding in the points must not turn an even grid into an almost even one.
    return equal if np.allclose(weights, equal, rtol=1e-6, atol=0) else weights


def match_rows(points: Points, x: Points) -> Int[np.ndarray, " queries"]:
    """For each row of `x` its place among the distinct rows of `points`, or -1."""
    place = np.zeros(len(x), dtype=np.int64)
    known = np.ones(len(x), dtype=bool)
    codes = np.zeros(len(points), dtype=np.int64)
    for column, asked in zip(points.T, x.T, strict=True):
        axis, code = np.unique(column, return_inverse=True)
        at = np.minimum(np.searchsorted(axis, asked), len(axis) - 1)
        known &= axis[at] == asked
        # Codes are compressed after each column, so that they cannot overflow.
        seen, codes = np.unique(codes * len(axis) + code, return_inverse=True)
        place = place * len(axis) + at
        at = np.minimum(np.searchsorted(seen, place), len(seen) - 1)
        known &= seen[at] == place
        place = at
    row_of_code = np.empty(len(points), dtype=np.int64)
    row_of_code[codes] = np.arange(len(points))
    return np.where(known, row_of_code[place], -1)


def _grid_weights(axes: tuple[np.ndarray, ...], x: Points) -> scipy.sparse.csr_array:
    """The sparse matrix that takes values on the grid to values at `x`, all inside it."""
    index, weight = np.zeros((len(x), 1), dtype=np.int64), np.ones((len(x), 1))
    for axis, column in zip(axes, x.T, strict=True):
        axis_index, axis_weight = _axis_weights(axis, column)
        index = (index[:, :, None] * len(axis) + axis_index[:, None, :]).reshape(len(x), -1)
        weight = (weight[:, :, None] * axis_weight[:, None, :]).reshape(len(x), -1)
    rows = np.arange(0, index.size + 1, index.shape[1])
    shape = (len(x), int(np.prod([len(axis) for axis in axes])))
    return scipy.sparse.csr_array((weight.ravel(), index.ravel(), rows), shape=shape)


def _axis_weights(axis: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which points of `axis` matter to each `x` inside it, and how much: two arrays `(m, width)`."""
    if len(axis) == 1:
        return np.zeros((len(x), 1), dtype=np.int64), np.ones((len(x), 1))
    stencil = min(STENCIL, len(axis))
    first = np.clip(np.arange(len(axis)) - stencil // 2, 0, len(axis) - stencil)
    slopes = _difference_weights(axis, first[:, None] + np.arange(stencil))

    left = np.clip(np.searchsorted(axis, x, side="right") - 1, 0, len(axis) - 2)
    length = axis[left + 1] - axis[left]
    u = (x - axis[left]) / length
    rows = np.arange(len(x))[:, None]
    linear = np.zeros((len(x), stencil + 1))
    cubic = np.zeros_like(linear)
    offset = left - first[left]
    linear[rows[:, 0], offset], linear[rows[:, 0], offset + 1] = 1 - u, u
    cubic[rows[:, 0], offset], cubic[rows[:, 0], offset + 1] = (1 + 2 * u) * (1 - u) ** 2, u**2 * (3 - 2 * u)
    columns = np.arange(stencil)
    cubic[rows, columns] += (length * u * (1 - u) ** 2)[:, None] * slopes[left]
    shift = (first[left + 1] - first[left])[:, None]
    cubic[rows, columns + shift] -= (length * u**2 * (1 - u))[:, None] * slopes[left + 1]

    # Σ|W| is continuous in x, hence the blend is, and it never exceeds the bound.
    excess = np.maximum(np.abs(cubic).sum(axis=1, keepdims=True) - 1, AMPLIFICATION - 1)
    weight = linear + (AMPLIFICATION - 1) / excess * (cubic - linear)
    index = np.minimum(first[left][:, None] + np.arange(stencil + 1), len(axis) - 1)
    return index, weight


def _difference_weights(axis: np.ndarray, stencils: np.ndarray) -> np.ndarray:
    """Weights of the derivative, at each point of `axis`, of the polynomial through its stencil."""
    offsets = axis[stencils] - axis[:, None]
    scale = np.abs(offsets).max(axis=1, keepdims=True)
    powers = np.arange(stencils.shape[1])
    vandermonde = (offsets / scale)[:, None, :] ** powers[None, :, None]
    slope = np.zeros((len(axis), stencils.shape[1], 1))
    slope[:, 1] = 1.0
    return np.linalg.solve(vandermonde, slope)[:, :, 0] / scale


def _thin_plate_design(x: Points, centres: Points) -> np.ndarray:
    distance = cdist(x, centres)
    plates = np.where(distance > 0, distance**2 * np.log(np.where(distance > 0, distance, 1.0)), 0.0)
    return np.concatenate([plates, np.ones((len(x), 1)), x], axis=1)


def _thin_plate_coefficients(points: Points, values: Values) -> np.ndarray:
    design = _thin_plate_design(points, points)
    count = len(points)
    system = np.zeros((design.shape[1],) * 2)
    system[:count] = design
    system[count:, :count] = design[:, count:].T
    target = np.concatenate([values, np.zeros((design.shape[1] - count, values.shape[1]))])
    # Points on a line or plane leave the linear part undetermined: then the smallest solution.
    if np.linalg.matrix_rank(design[:, count:]) < design.shape[1] - count:
        return scipy.linalg.lstsq(system, target)[0]
    return np.linalg.solve(system, target)
