"""What a model is shown and what it has to say: every curve split into a context and a target."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from febm.checks import count, listed, share
from febm.curves import Curves
from febm.door import as_curves
from febm.randomness import RandomState, as_key, numpy_generator

Kind = Literal["downsample", "middle", "random"]
KINDS = ("downsample", "middle", "random")
# How far p may be from the reciprocal of a whole number: 0.33 is meant to be a third, 0.3 is not.
RECIPROCAL_SLACK = 0.025
SMALLEST_RECIPROCAL = 2.0**-53  # floats are whole numbers one by one up to its inverse


def split(curves: Any, kind: Kind, p: float, random_state: RandomState = None) -> tuple[Curves, Curves]:
    """Split every curve into a context, about the share `p` of its points, and a target, all the others.

    For a curve of m points, in the order of x (points at the same x in the order they are stored):

    - "downsample": the context is every k-th point beginning with the first, k = round(1/p).
    - "middle": the context is the first and the last round(m·p/2) points, the target is the block between.
    - "random": the context is round(m·p) points without replacement, drawn for each curve on its own.

    Where x has d > 1 coordinates:

    - "downsample": the points of every curve must fill a product grid; the context is every k-th grid line along each
      axis beginning with the first, k = round(p^(−1/d)). An image of 28 × 28 with p = 1/4 leaves 14 × 14.
    - "middle": the target is the round(m·(1−p)) points nearest to the middle of the domain of all curves, in the
      maximum norm of the domain as a unit box; of points as near, those nearer in the Euclidean norm come first, then
      those stored first.
    - "random": as above.

    `round` is Python's: a half goes to the even number. Points keep the order they are stored in, curves their ids
    and covariates. A point of which some outputs are missing is a point like any other.

    Parameters
    ----------
    curves : Curves or 2-D array
    kind : "downsample", "middle" or "random"
    p : float
        The share of points in the context, between 0 and 1; "downsample" needs 1/k (in d dimensions 1/k^d) for a whole
        number k of at least 2.
    random_state : int, key or None
        Only "random" draws.

    Returns
    -------
    context, target : Curves

    Examples
    --------
    >>> context, target = split(Curves.from_grid(range(8), [range(8)]), "downsample", 1 / 4)
    >>> context.x[:, 0].tolist(), target.x[:, 0].tolist()
    ([0.0, 4.0], [1.0, 2.0, 3.0, 5.0, 6.0, 7.0])
    """
    curves = as_curves(curves, "split: curves")
    p = share("split: p", p)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"split: kind is {kind!r}; choose 'downsample', 'middle' or 'random'.")
    if kind == "downsample":
        context = _downsample(curves, p)
    elif kind == "middle":
        context = _outside_the_middle(curves, p)
    else:
        context = _drawn(curves, p, numpy_generator(as_key(random_state)))
    _refuse_one_sided(curves, context, kind, p)
    return curves.select(context), curves.select(~context)


def _downsample(curves: Curves, p: float) -> Bool[ndarray, " points"]:
    step = _step(p, curves.d_x)
    if curves.d_x == 1:
        return _rank(curves, curves.x[:, 0]) % step == 0
    return (_grid_lines(curves) % step == 0).all(axis=1)


def _step(p: float, d_x: int) -> int:
    if p < SMALLEST_RECIPROCAL:
        raise ValueError(
            f"split: p is {p:.6g}, but kind='downsample' keeps every k-th point, k = 1/p, and no curve has so many; "
            "take a larger p."
        )
    step = round(p ** (-1 / d_x))
    if step < 2 or abs(p * step**d_x - 1) > RECIPROCAL_SLACK:
        power = "" if d_x == 1 else f"^{d_x}"
        examples = ", ".join(f"1/{k**d_x}" for k in (2, 3, 4))
        raise ValueError(
            f"split: p is {p:.6g}, but kind='downsample' keeps every k-th {'point' if d_x == 1 else 'grid line'}, "
            f"so p must be 1/k{power} for a whole number k of at least 2 ({examples}, ...); "
            "kind='random' takes any share."
        )
    return step


def _outside_the_middle(curves: Curves, p: float) -> Bool[ndarray, " points"]:
    lengths = curves.lengths
    if curves.d_x == 1:
        rank, side = _rank(curves, curves.x[:, 0]), _per_point(curves, np.rint(lengths * p / 2))
        return (rank < side) | (rank >= _per_point(curves, lengths) - side)
    lower, upper = curves.domain
    width = np.where(upper > lower, upper - lower, 1.0)
    # Distances that differ by rounding alone are the same distance.
    away = np.abs((curves.x - (lower + upper) / 2) / width)
    nearness = np.round(away.max(axis=1), 12), np.round(np.linalg.norm(away, axis=1), 12)
    return _rank(curves, *nearness) >= _per_point(curves, np.rint(lengths * (1 - p)))


def _drawn(curves: Curves, p: float, generator: np.random.Generator) -> Bool[ndarray, " points"]:
    # Sorting curve + U shuffles every curve inside its own stretch of points: one sort for all of them.
    curve = np.repeat(np.arange(len(curves)), curves.lengths)
    shuffled = np.argsort(curve + generator.uniform(size=len(curve)))
    context = np.empty(len(curve), dtype=bool)
    context[shuffled] = _place(curves) < _per_point(curves, np.rint(curves.lengths * p))
    return context


def _rank(curves: Curves, *keys: Float[ndarray, " points"]) -> Int[ndarray, " points"]:
    """The place of every point in its curve, in the order of the first key, then the second, then as stored."""
    curve, place = np.repeat(np.arange(len(curves)), curves.lengths), _place(curves)
    inside = curve[1:] == curve[:-1]
    if len(keys) == 1 and (np.diff(keys[0])[inside] >= 0).all():
        return place
    rank = np.empty_like(place)
    rank[np.lexsort((*keys[::-1], curve))] = place
    return rank


def _grid_lines(curves: Curves) -> Int[ndarray, "points d_x"]:
    """On which grid line of its curve every point lies, along each axis."""
    curve = np.repeat(np.arange(len(curves)), curves.lengths)
    starts = np.repeat(curves.offsets[:-1], curves.lengths)
    lines = np.empty(curves.x.shape, dtype=np.int64)
    sides = np.empty((len(curves), curves.d_x), dtype=np.int64)
    for axis, coordinate in enumerate(curves.x.T):
        order = np.lexsort((coordinate, curve))
        ordered = coordinate[order]
        new = np.append(True, (ordered[1:] != ordered[:-1]) | (curve[1:] != curve[:-1]))
        line = np.cumsum(new)
        lines[order, axis] = line - line[starts]
        sides[:, axis] = np.add.reduceat(new, curves.offsets[:-1])
    # A product grid has one point where any lines meet: as many points as meetings, no two at the same one.
    complete = sides.prod(axis=1, dtype=float) == curves.lengths
    meeting = np.zeros(len(curve), dtype=np.int64)
    for axis in range(curves.d_x):
        meeting = meeting * np.repeat(sides[:, axis], curves.lengths) + lines[:, axis]
    known = complete[curve]
    taken = np.bincount((starts + meeting)[known], minlength=len(curve))
    repeated = np.unique(curve[taken > 1])
    complete[repeated] = False
    if not complete.all():
        wrong = curves.ids[~complete].tolist()
        raise ValueError(
            f"split: the points of {count(len(wrong), 'curve')} ({listed(map(repr, wrong))}) do not fill a product "
            f"grid, which kind='downsample' needs in {curves.d_x} dimensions; use kind='random' or 'middle'."
        )
    return lines


def _place(curves: Curves) -> Int[ndarray, " points"]:
    """The place of every point in its curve as stored."""
    return np.arange(len(curves.x)) - _per_point(curves, curves.offsets[:-1])


def _per_point(curves: Curves, values: ndarray) -> ndarray:
    return np.repeat(values, curves.lengths)


def _refuse_one_sided(curves: Curves, context: Bool[ndarray, " points"], kind: str, p: float) -> None:
    shown = np.add.reduceat(context, curves.offsets[:-1], dtype=np.int64)
    for side, empty, remedy in (
        ("context", shown == 0, "larger"),
        ("target", shown == curves.lengths, "smaller"),
    ):
        if empty.any():
            names, lengths = curves.ids[empty].tolist(), curves.lengths[empty]
            points = count(int(lengths.min()), "point")
            if lengths.min() != lengths.max():
                points = f"{lengths.min()} to {lengths.max()} points"
            raise ValueError(
                f"split: {count(len(names), 'curve')} of {points} would have no {side} ({listed(map(repr, names))}) "
                f"under kind={kind!r}, p={p:.6g}; leave out curves with so few points, or take a {remedy} p."
            )
