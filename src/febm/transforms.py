"""Transforms of outputs by their exponent (1: identity, 0: logarithm, p: y**p), and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from febm.curves import Curves

IDENTITY = 1.0
LOGARITHM = 0.0
ROOTS = (1 / 2, 1 / 3, 1 / 4)

HUGE = 1e300
"""Where inverses stop growing, short of overflow."""

GAIN_PER_VALUE = 0.1
"""Nats per value that a transform has to gain over the identity: below that, simplicity wins."""
LARGEST_GAIN = 3.0
"""One value's gain counts for at most this many nats, so that a few outliers do not decide."""
MOST_VALUES = 100_000
"""Values looked at in the choice; with gains of at most 3 nats their mean is known far better than to 0.1."""
BINS = 32
"""Cells that places are sorted into: fine enough to follow a mean function, coarse enough to fill."""


def transformed(y: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """T(y), output by output along the last axis; NaN stays NaN."""
    return _by_output(y, exponents, lambda values, p: np.log(values) if p == LOGARITHM else values**p)


def inverse(t: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """T⁻¹(t), output by output along the last axis; always a finite value that T accepts again."""

    def invert(values: np.ndarray, p: float) -> np.ndarray:
        if p == LOGARITHM:
            return np.exp(np.clip(values, -np.log(HUGE), np.log(HUGE)))
        return np.clip(values, 0.0, HUGE ** min(p, 1.0)) ** (1 / p)

    return _by_output(t, exponents, invert)


def log_derivative(y: np.ndarray, exponents: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """log|dT/dy|, output by output along the last axis; a power's slope is taken at `floor` below it."""
    slopes = np.zeros_like(y)
    for output, p in enumerate(exponents):
        if p == IDENTITY:
            continue
        values = y[..., output]
        if p == LOGARITHM:
            slopes[..., output] = -np.log(values)
        else:
            slopes[..., output] = np.log(p) + (p - 1) * np.log(np.maximum(values, floor[output]))
    return slopes


def outside_support(y: np.ndarray, exponent: float) -> np.ndarray:
    """Where the transform is not defined; NaN is missing, not outside."""
    if exponent == IDENTITY:
        return np.zeros(y.shape, dtype=bool)
    return y <= 0 if exponent == LOGARITHM else y < 0


def choose_exponent(curves: Curves, output: int, candidates: Sequence[float]) -> float:
    """The candidate of largest mean log-likelihood; leaving the identity takes a gain of `GAIN_PER_VALUE`.

    Only candidates defined for all values take part. The likelihood is Gaussian with a mean and a variance
    for each bin of places, Jacobian included. Bins whose values (nearly) agree say nothing about shape and
    have no vote.
    """
    y = curves.y[:, output]
    rows = np.flatnonzero(~np.isnan(y))
    smallest = y[rows].min(keepdims=True)
    possible = [p for p in candidates if not outside_support(smallest, p).any()]
    if len(possible) < 2:
        return possible[0]
    if len(rows) > MOST_VALUES:
        # A fixed subset: regular strides could keep meeting the same place of a common grid.
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_VALUES, replace=False))
    y, bins = y[rows], _bins(curves.x[rows])
    voters = (y > 0) & _spread_out(y, bins)
    if not voters.any():
        return possible[0]
    reference = _log_likelihood(y, bins, possible[0])[voters]
    threshold = GAIN_PER_VALUE if possible[0] == IDENTITY else 0.0
    gains = [
        np.clip(_log_likelihood(y, bins, p)[voters] - reference, -LARGEST_GAIN, LARGEST_GAIN).mean() - threshold
        for p in possible[1:]
    ]
    best = int(np.argmax(gains))
    return possible[1 + best] if gains[best] > 0 else possible[0]


def _by_output(
    values: np.ndarray, exponents: np.ndarray, function: Callable[[np.ndarray, float], np.ndarray]
) -> np.ndarray:
    result = np.array(values, dtype=np.float64)
    for output, p in enumerate(exponents):
        if p != IDENTITY:
            result[..., output] = function(result[..., output], float(p))
    return result


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


def _log_likelihood(y: np.ndarray, bins: np.ndarray, exponent: float) -> np.ndarray:
    """Log-density of each value under the Gaussian of its bin, in the scale of y (constants left out)."""
    exponents = np.array([exponent])
    t = transformed(y[:, None], exponents)[:, 0]
    mean, variance = _moments(t, bins)
    variance = np.maximum(variance, np.finfo(np.float64).tiny)
    positive = y[y > 0]
    floor = np.array([positive.min() if len(positive) else 1.0])
    slope = log_derivative(y[:, None], exponents, floor)[:, 0]
    return -0.5 * ((t - mean[bins]) ** 2 / variance[bins] + np.log(variance[bins])) + slope
