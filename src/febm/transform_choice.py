"""Which transform an output gets: what its values say one by one, and then what whole curves say.

One by one, values are Gaussian about the mean of their place. That finds the end of the range to measure from, and
whether there is anything to gain. How strong a transform should be it cannot tell: what is left of a curve once its
other values are known is often quite unlike the spread of curves at one place. So curves that share their points choose
among the exponents by their held-out evidence under a linear model.
"""

from collections.abc import Sequence

import jax
import numpy as np

from febm.basis import Empirical
from febm.curves import Curves
from febm.folding import fold_basis
from febm.tails import TailSearch, choose_tail, ladder, simplest, tail_evidence
from febm.transforms import Transform, candidates

GAIN_PER_VALUE = 0.1
"""Nats per value that a transform has to gain over the identity: below that, simplicity wins."""
LARGEST_GAIN = 3.0
"""One value's gain counts for at most this many nats, so that a few outliers do not decide."""
MOST_VALUES = 100_000
"""Values looked at one by one; with gains of at most 3 nats their mean is known far better than to 0.1."""
BINS = 32
"""Cells that places are sorted into: fine enough to follow a mean function, coarse enough to fill."""
FEWEST_CURVES, MOST_CURVES, MOST_POINTS = 20, 1000, 200
"""Different curves that choose the exponent, and their points: few cannot tell, many take long."""
VALIDATION = 0.2
"""Share of the curves that judge a linear model which has not seen them."""


def choose_transform(curves: Curves, output: int, kinds: tuple[str, ...]) -> Transform:
    """The best transform for one output among `kinds` of "identity", "log", "power" and "shifted".

    The points of the curves are in the unit box, as they are for the basis of a linear model.

    Only transforms defined for all values take part, and shifted ones beside others only where values are negative:
    zero is then no end of their range. Leaving the identity takes a gain of `GAIN_PER_VALUE`, value by value.
    """
    shortlist = _shortlist(curves, output, kinds)
    best = max(shortlist, key=shortlist.__getitem__)
    if best.is_identity or len(shortlist) == 1 or not _can_choose(curves, output, best):
        return best
    return _by_evidence(curves, output, list(shortlist))


def _shortlist(curves: Curves, output: int, kinds: tuple[str, ...]) -> dict[Transform, float]:
    """The best transform of every exponent, with what it gains per value in log-likelihood, less the threshold.

    The likelihood is Gaussian with a mean and a variance for each bin of places, Jacobian included. Bins whose values
    (nearly) agree say nothing about shape and have no vote.
    """
    y = curves.y[:, output]
    rows = np.flatnonzero(~np.isnan(y))
    first, *others = candidates(y[rows], kinds)
    if len(rows) > MOST_VALUES:
        # A fixed subset: regular strides could keep meeting the same place of a common grid.
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_VALUES, replace=False))
    y, bins = y[rows], _bins(curves.x[rows])
    voters = _spread_out(y, bins)
    reference = _log_likelihood(y, bins, first)
    threshold = GAIN_PER_VALUE if first.is_identity else 0.0
    found = {first.exponent: (first, 0.0)}
    for candidate in others:
        # Zeros have no density under a power.
        voting = voters if candidate.is_shifted else voters & (y > 0)
        if not voting.any():
            continue
        gains = _log_likelihood(y, bins, candidate) - reference
        gain = float(np.clip(gains[voting], -LARGEST_GAIN, LARGEST_GAIN).mean()) - threshold
        if gain > found.get(candidate.exponent, (candidate, -np.inf))[1]:
            found[candidate.exponent] = candidate, gain
    return dict(found.values())


def _can_choose(curves: Curves, output: int, best: Transform) -> bool:
    """Whether curves are enough, and of one grid; zeros have no density under a power, so they cannot compare any."""
    points, y = curves.common_points, curves.y[:, output]
    if points is None or np.isnan(y).any():
        return False
    different = len(np.unique(y.reshape(len(curves), -1), axis=0))
    return different >= FEWEST_CURVES and (best.is_shifted or bool((y > 0).all()))


def _by_evidence(curves: Curves, output: int, shortlist: Sequence[Transform]) -> Transform:
    """The transform under which held-out curves have the largest evidence in a linear model, Jacobian included.

    The identity stays where it is within one standard error of the best.
    """
    if len(curves) > MOST_CURVES:
        curves = curves[np.sort(np.random.default_rng(0).choice(len(curves), MOST_CURVES, replace=False))]
    size = int(curves.lengths[0])
    if size > MOST_POINTS:
        some = np.isin(np.arange(size), np.linspace(0, size - 1, MOST_POINTS).astype(int))
        curves = curves.select(np.tile(some, len(curves)))
    own = curves.replace(y=curves.y[:, output])
    tried = [(transform, _held_out_evidence(own, transform)) for transform in shortlist]
    return simplest(tried, lambda transform: not transform.is_identity)[0]


def _held_out_evidence(curves: Curves, transform: Transform) -> np.ndarray:
    """The log evidence of held-out curves, fold after fold, in the units of their values."""
    values = transform(curves.y[:, 0])
    mean, scale = values.mean(), values.std()
    slopes = (transform.log_derivative(curves.y[:, 0]) - np.log(scale)).reshape(len(curves), -1).sum(axis=1)
    basis, folds, held_out = fold_basis(
        Empirical(), curves.replace(y=(values - mean) / scale), VALIDATION, None, jax.random.key(0)
    )
    search = TailSearch(ladder(basis.rank))
    tail = choose_tail(folds, search)
    return tail_evidence(folds, search, tail) + np.concatenate([slopes[judging] for judging in held_out])


def _bins(x: np.ndarray) -> np.ndarray:
    """The cell of each point in a grid of about `BINS` cells between quantiles of each coordinate."""
    per_coordinate = max(2, round(BINS ** (1 / x.shape[1])))
    codes = np.zeros(len(x), dtype=np.int64)
    for coordinate in x.T:
        edges = np.unique(np.quantile(coordinate, np.linspace(0, 1, per_coordinate + 1)[1:-1]))
        codes = codes * (per_coordinate + 1) + np.searchsorted(edges, coordinate, side="right")
    return np.unique(codes, return_inverse=True)[1]


def _moments(t: np.ndarray, bins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    counts = np.bincount(bins)
    mean = np.bincount(bins, t) / counts
    return mean, np.bincount(bins, (t - mean[bins]) ** 2) / counts


def _spread_out(y: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Values in bins with enough of them, and differing by more than a thousandth of their overall spread."""
    variance = _moments(y, bins)[1]
    return ((np.bincount(bins) >= 5) & (variance > 1e-6 * y.var()))[bins]


def _log_likelihood(y: np.ndarray, bins: np.ndarray, transform: Transform) -> np.ndarray:
    """Log-density of each value under the Gaussian of its bin, in the scale of y (constants left out)."""
    t = transform(y)
    mean, variance = _moments(t, bins)
    variance = np.maximum(variance, np.finfo(np.float64).tiny)
    return -0.5 * ((t - mean[bins]) ** 2 / variance[bins] + np.log(variance[bins])) + transform.log_derivative(y)
