"""Values that pile up at the low end of their range stand for whatever lies beyond it: y = max(f, bound).

Black pixels, days without rain, empty streets. Between two such curves a mean blurs the outline where each leaves the
bound; a mean of functions that go on beyond it has an outline of its own, in between. So f is given where y is at the
bound: it falls with the distance from the nearest point above, as steeply as curves come up there, to a certain depth.
"""

from __future__ import annotations

import equinox as eqx
import numpy as np
import scipy.ndimage
from jaxtyping import Float
from scipy.spatial import KDTree

from febm.curves import Curves
from febm.images import grid_shape

# An output is censored where at least this share of its training values are the smallest, and this many, and the others
# are at least as many different ones.
PILE, FEWEST = 0.2, 20
# How far functions go on, in standard deviations of the values.
DEPTH = 1.5
# Values that are counted, and curves that the steepness is learnt from.
MOST_VALUES = 100_000
CURVES_TO_LEARN_FROM = 200


class Censoring(eqx.Module):
    """How the values of one output go on beyond the low end of their range.

    Attributes
    ----------
    bound, top
        The range of the values; functions that leave it come back to its ends.
    slope
        How steeply functions fall beyond the bound, by the distance in the units of the points.
    depth
        How far they fall.
    """

    bound: float = eqx.field(static=True)
    top: float = eqx.field(static=True)
    slope: float = eqx.field(static=True)
    depth: float = eqx.field(static=True)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """What is seen of a function."""
        return np.clip(values, self.bound, self.top)

    def scaled(self, scale: float, shift: float) -> Censoring:
        """The same for values times `scale` plus `shift`."""
        bound, top = (float(scale * end + shift) for end in (self.bound, self.top))
        return Censoring(bound, top, float(scale * self.slope), float(scale * self.depth))

    def continued(
        self, points: Float[np.ndarray, "points d_x"], values: Float[np.ndarray, "curves points"]
    ) -> Float[np.ndarray, "curves points"]:
        """The functions behind the values of curves at common points, NaN where nothing was observed."""
        at_bound = values <= self.bound
        shape = _even_grid(points)
        if shape is None or np.isnan(values).any():
            distances = np.stack([_from_nearest(points, own, row) for own, row in zip(at_bound, values, strict=True)])
        else:
            sampling = [np.ptp(axis) / max(side - 1, 1) for axis, side in zip(points.T, shape, strict=True)]
            spacing = min(step for step in sampling if step > 0)
            distances = np.stack([_from_outline(own.reshape(shape), sampling) for own in at_bound]) - spacing / 2
        return np.where(at_bound, self.bound - np.minimum(self.slope * distances, self.depth), values)


def choose_censoring(curves: Curves, points: Float[np.ndarray, "points d_x"], output: int) -> Censoring | None:
    """The censoring of an output whose values pile up at their low end; None where they do not.

    `points` are those of the curves in the units that distances are to have.
    """
    y = curves.y[:, output]
    known = y[~np.isnan(y)]
    bound, top = float(known.min()), float(known.max())
    pile = int(np.sum(known == bound))
    if pile < max(FEWEST, PILE * len(known)) or len(np.unique(known[:MOST_VALUES])) <= FEWEST:
        return None
    chosen = np.unique(np.linspace(0, len(curves) - 1, CURVES_TO_LEARN_FROM).astype(int))
    rates = [
        _rise(points[first:last], y[first:last], bound)
        for first, last in ((curves.offsets[i], curves.offsets[i + 1]) for i in chosen)
    ]
    steep = np.concatenate(rates)
    depth = DEPTH * float(known.std())
    return Censoring(bound, top, float(np.median(steep)) if len(steep) else depth, depth)


def _rise(points: np.ndarray, values: np.ndarray, bound: float) -> np.ndarray:
    """How steeply a curve comes up from the bound, at every point there with a neighbour above."""
    above = values > bound
    at_bound = values <= bound
    if not (above.any() and at_bound.any()):
        return np.zeros(0)
    distance, nearest = KDTree(points[above]).query(points[at_bound])
    close = distance <= 1.5 * _spacing(points)
    return (values[above][nearest[close]] - bound) / np.maximum(distance[close], np.finfo(float).tiny)


def _spacing(points: np.ndarray) -> float:
    """How far the nearest other point is, typically."""
    if len(points) < 2:
        return 0.0
    return float(np.median(KDTree(points).query(points, k=2)[0][:, 1]))


def _from_nearest(points: np.ndarray, at_bound: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of every point, how far the nearest point above the bound is, less half of the way between neighbours."""
    above = ~at_bound & ~np.isnan(values)
    if not above.any():
        return np.full(len(points), np.inf)
    observed = points[~np.isnan(values)]
    return KDTree(points[above]).query(points)[0] - _spacing(observed) / 2


def _from_outline(at_bound: np.ndarray, sampling: list[float]) -> np.ndarray:
    """The same distances on a grid, before half of the way is taken off."""
    if at_bound.all():
        return np.full(at_bound.size, np.inf)
    return scipy.ndimage.distance_transform_edt(at_bound, sampling=sampling).ravel()


def _even_grid(points: np.ndarray) -> tuple[int, ...] | None:
    """The shape of an evenly spaced grid whose points come row by row; None where they are not one."""
    if points.shape[1] == 1:
        shape: tuple[int, ...] | None = (len(points),)
    else:
        shape = grid_shape(points) if points.shape[1] == 2 else None
    if shape is None or len(points) < 2:
        return None
    axes = [np.linspace(axis.min(), axis.max(), side) for axis, side in zip(points.T, shape, strict=True)]
    expected = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(points.shape)
    return shape if np.allclose(points, expected, rtol=0, atol=1e-9 * np.ptp(points, axis=0).max()) else None
