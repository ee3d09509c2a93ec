"""Transforms of outputs towards a Gaussian shape, and the choice among them.

    T(y) = s·h(s(y − c)),    s = ±1,    h(d) = log d or d^p

Values with a natural zero have c = 0 and s = 1. Values without one are measured from the end of their range, and below
a knee κ the curve h goes on along its tangent, so that T is defined and increasing on the whole line. Beyond the
farthest value that was seen a transform that the values chose goes on along its tangent too: nothing says that they
grow by factors there, and the mean of functions some of which do would be all about these.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np

if TYPE_CHECKING:
    from febm.curves import Curves

LOGARITHM = 0.0
ROOTS = (1 / 2, 1 / 3, 1 / 4)

HUGE = 1e300
"""Where inverses stop growing, short of overflow."""

GAIN_PER_VALUE = 0.1
"""Nats per value that a transform has to gain over the identity: below that, simplicity wins."""
KNEES = (0.01, 0.05, 0.25)
"""Quantiles of the distances from the end of the range at which a shifted transform may begin."""
LARGEST_GAIN = 3.0
"""One value's gain counts for at most this many nats, so that a few outliers do not decide."""
MOST_VALUES = 100_000
"""Values looked at in the choice; with gains of at most 3 nats their mean is known far better than to 0.1."""
BINS = 32
"""Cells that places are sorted into: fine enough to follow a mean function, coarse enough to fill."""


class Transform(eqx.Module):
    """An increasing function of the values of one output.

    Attributes
    ----------
    exponent
        p of d^p; 0 is the logarithm, and 1 (with all else as it is) the identity.
    origin, sign
        d = sign·(y − origin).
    knee
        Below it the tangent takes over; 0: nowhere, so that d has to be positive, or for a power not negative.
    reach
        Above it the tangent takes over.
    floor
        The slope of a power is infinite at d = 0: it is taken no nearer than here.
    """

    exponent: float = eqx.field(default=1.0, static=True)
    origin: float = eqx.field(default=0.0, static=True)
    sign: float = eqx.field(default=1.0, static=True)
    knee: float = eqx.field(default=0.0, static=True)
    floor: float = eqx.field(default=0.0, static=True)
    reach: float = eqx.field(default=np.inf, static=True)

    @property
    def is_identity(self) -> bool:
        """Whether values stay as they are."""
        return self.exponent == 1.0

    @property
    def is_shifted(self) -> bool:
        """Whether it is defined on the whole line and measures from the end of the range."""
        return self.knee > 0

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """T(y); NaN stays NaN."""
        if self.is_identity:
            return np.array(y, dtype=np.float64)
        distance = self.sign * (y - self.origin)
        return self.sign * (self._curve(np.clip(distance, self.knee, self.reach)) + self._tangents(distance))

    def inverse(self, t: np.ndarray) -> np.ndarray:
        """T⁻¹(t), always a finite value that T accepts again: below any power it is the origin."""
        if self.is_identity:
            return np.array(t, dtype=np.float64)
        reached = self.sign * np.asarray(t, dtype=np.float64)
        if self.exponent == LOGARITHM:
            distance = np.exp(np.clip(reached, -np.log(HUGE), np.log(HUGE)))
        else:
            distance = np.clip(reached, 0.0, HUGE ** min(self.exponent, 1.0)) ** (1 / self.exponent)
        if self.is_shifted:
            beyond = np.minimum(reached - self._curve(np.asarray(self.knee)), 0.0)
            distance = np.where(beyond < 0, self._along(self.knee, beyond), distance)
        if np.isfinite(self.reach):
            beyond = np.maximum(reached - self._curve(np.asarray(self.reach)), 0.0)
            distance = np.where(beyond > 0, self._along(self.reach, beyond), distance)
        return self.origin + self.sign * distance

    def log_derivative(self, y: np.ndarray) -> np.ndarray:
        """log T'(y)."""
        if self.is_identity:
            return np.where(np.isnan(y), np.nan, 0.0)
        distance = self.sign * (y - self.origin)
        return np.log(self._slope(np.clip(distance, max(self.knee, self.floor), self.reach)))

    def outside(self, y: np.ndarray) -> np.ndarray:
        """Where the transform is not defined; NaN is missing, not outside."""
        if self.is_identity or self.is_shifted:
            return np.zeros(np.shape(y), dtype=bool)
        return y <= 0 if self.exponent == LOGARITHM else y < 0

    def _curve(self, distance: np.ndarray) -> np.ndarray:
        return np.log(distance) if self.exponent == LOGARITHM else distance**self.exponent

    def _slope(self, distance: np.ndarray) -> np.ndarray:
        return 1 / distance if self.exponent == LOGARITHM else self.exponent * distance ** (self.exponent - 1)

    def _tangents(self, distance: np.ndarray) -> np.ndarray:
        """What the tangents add to the values at knee and reach; nothing between them."""
        added = np.zeros(np.shape(distance))
        if self.is_shifted:
            added += np.minimum(distance - self.knee, 0.0) * self._slope(np.asarray(self.knee))
        if np.isfinite(self.reach):
            added += np.maximum(distance - self.reach, 0.0) * self._slope(np.asarray(self.reach))
        return added

    def _along(self, start: float, beyond: np.ndarray) -> np.ndarray:
        """The distance where the tangent at `start` has changed by `beyond`."""
        slope = float(self._slope(np.asarray(start)))
        return start + np.clip(beyond, -HUGE * min(slope, 1.0), HUGE * min(slope, 1.0)) / slope


IDENTITY = Transform()


def natural(exponent: float, y: np.ndarray) -> Transform:
    """The logarithm or a power of values with a natural zero; `y` are the training values of the output."""
    if exponent == LOGARITHM:
        return Transform(LOGARITHM)
    smallest = np.min(y, where=y > 0, initial=np.inf)
    return Transform(exponent, floor=float(smallest) / 2 if np.isfinite(smallest) else 1.0)


def choose_transform(curves: Curves, output: int, kinds: tuple[str, ...]) -> Transform:
    """The transform of largest mean log-likelihood among `kinds` of "identity", "log", "power" and "shifted".

    Only transforms defined for all values take part, and shifted ones beside others only where values are negative:
    zero is then no end of their range. Leaving the identity takes a gain of `GAIN_PER_VALUE`. The likelihood is
    Gaussian with a mean and a variance for each bin of places, Jacobian included. Bins whose values (nearly) agree say
    nothing about shape and have no vote.
    """
    y = curves.y[:, output]
    rows = np.flatnonzero(~np.isnan(y))
    if len(rows) > MOST_VALUES:
        # A fixed subset: regular strides could keep meeting the same place of a common grid.
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_VALUES, replace=False))
    possible = _candidates(y[~np.isnan(y)], kinds)
    y, bins = y[rows], _bins(curves.x[rows])
    voters = _spread_out(y, bins)
    best, best_gain = possible[0], 0.0
    if len(possible) == 1 or not voters.any():
        return best
    reference = _log_likelihood(y, bins, possible[0])
    threshold = GAIN_PER_VALUE if possible[0].is_identity else 0.0
    for candidate in possible[1:]:
        # Zeros have no density under a power.
        voting = voters if candidate.is_shifted else voters & (y > 0)
        if not voting.any():
            continue
        gains = _log_likelihood(y, bins, candidate) - reference
        gain = np.clip(gains[voting], -LARGEST_GAIN, LARGEST_GAIN).mean() - threshold
        if gain > best_gain:
            best, best_gain = candidate, gain
    return best


def _candidates(y: np.ndarray, kinds: tuple[str, ...]) -> list[Transform]:
    """The transforms of the kinds asked for that are defined for all values; the simplest is the first."""
    candidates = [IDENTITY] if "identity" in kinds else []
    exponents = (LOGARITHM,) * ("log" in kinds) + ROOTS * ("power" in kinds)
    defined = [one for p in exponents if not (one := natural(p, y)).outside(y).any()]
    candidates += [dataclasses.replace(one, reach=_farthest(y, one)) for one in defined]
    if "shifted" in kinds and (len(kinds) == 1 or y.min() < 0):
        candidates += _shifted(y)
    return candidates or [IDENTITY]


def _shifted(y: np.ndarray) -> list[Transform]:
    found = []
    for sign, origin in ((1.0, y.min()), (-1.0, y.max())):
        knees = np.quantile(sign * (y - origin), KNEES)
        # A knee far below the spread is in the rounding of the values, or among many that are equal.
        knees = [float(knee) for knee in knees if knee > 1e-6 * y.std()]
        plain = [Transform(p, float(origin), sign, knee) for knee in knees for p in (LOGARITHM, *ROOTS)]
        found += [dataclasses.replace(one, reach=_farthest(y, one)) for one in plain]
    return found


def _farthest(y: np.ndarray, transform: Transform) -> float:
    """The largest distance of a value; no bound where there is none but the origin."""
    return float(np.max(transform.sign * (y - transform.origin))) or np.inf


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
