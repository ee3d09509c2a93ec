"""Transforms of outputs towards a Gaussian shape.

    T(y) = s·h(s(y − c)),    s = ±1,    h(d) = log d or d^p

Values with a natural zero have c = 0 and s = 1. Values without one are measured from the end of their range, and below
a knee κ the curve h goes on along its tangent, so that T is defined and increasing on the whole line. Beyond the
farthest value that was seen a transform that the values chose goes on along its tangent too: nothing says that they
grow by factors there, and the mean of functions some of which do would be all about these.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import numpy as np

LOGARITHM = 0.0
ROOTS = (1 / 2, 1 / 3)

HUGE = 1e300
"""Where inverses stop growing, short of overflow."""

KNEES = (0.01, 0.05, 0.25)
"""Quantiles of the distances from the end of the range at which a shifted transform may begin."""


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


def candidates(y: np.ndarray, kinds: tuple[str, ...]) -> list[Transform]:
    """The transforms of the kinds asked for that are defined for all values; the simplest is the first."""
    found = [IDENTITY] if "identity" in kinds else []
    exponents = (LOGARITHM,) * ("log" in kinds) + ROOTS * ("power" in kinds)
    defined = [one for p in exponents if not (one := natural(p, y)).outside(y).any()]
    found += [dataclasses.replace(one, reach=_farthest(y, one)) for one in defined]
    if "shifted" in kinds and (len(kinds) == 1 or y.min() < 0):
        found += _shifted(y)
    return found or [IDENTITY]


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
