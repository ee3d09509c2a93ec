"""Proper scores of a predictive distribution known through draws X₁ … X_S, as functions of arrays.

The fair scores replace E|X − X'| by its mean over distinct draws, so their expectation does not depend on S:

    CRPS(F, y) = E|X − y| − ½·E|X − X'|,    ES(F, y) = E‖X − y‖ − ½·E‖X − X'‖,    X, X' ~ F independent

See Gneiting & Raftery (2007) for the scores and Ferro (2014) for their fair versions.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.stats import norm

from febm.checks import share

# Rows of the matrix of distances between draws are made so many values at a time.
DISTANCES_AT_ONCE = 1 << 22
# Standard deviations away, for each √dimension, from which E‖X − y‖ and ‖y − μ‖ have the same 16 digits.
FAR = 1e8


def crps_from_draws(
    draws: Float[ndarray, "draws values"], observed: Float[ndarray, " values"]
) -> Float[ndarray, " values"]:
    """The fair continuous ranked probability score of every value: lower is better, in the units of the data.

    With the draws sorted, Σ_{i≠j} |X_i − X_j| = 2·Σ_k (2k − S − 1)·X_(k), so the cost is that of sorting.
    """
    draws, observed = _checked(draws, observed, "crps_from_draws", least=2)
    number = len(draws)
    # Around the observed value, so that a large common level does not cost digits.
    away = draws - observed
    away.sort(axis=0)
    spread = (2.0 * np.arange(1, number + 1) - number - 1) @ away
    return np.abs(away).mean(axis=0) - spread / (number * (number - 1))


def crps_gaussian(mean: Any, sd: Any, observed: Any) -> Float[ndarray, "..."]:
    """The continuous ranked probability score of N(mean, sd²): σ·(z·(2Φ(z) − 1) + 2φ(z) − 1/√π), z = (y − μ)/σ."""
    sd = np.asarray(sd, dtype=float)
    if not (np.isfinite(sd).all() and (sd > 0).all()):
        raise ValueError("crps_gaussian: sd holds numbers that are not positive; a standard deviation is above 0.")
    mean, observed = _finite(mean, "crps_gaussian: mean"), _finite(observed, "crps_gaussian: observed")
    z = (observed - mean) / sd
    return sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / math.sqrt(math.pi))


def level_log_score(
    draws: Float[ndarray, "draws values"], observed: Float[ndarray, " values"], edges: Float[ndarray, " edges"]
) -> Float[ndarray, " values"]:
    """The log probability of the level that each value is in, in nats: higher is better.

    Levels are the intervals between `edges`; the first and the last one hold what lies beyond them too. So models can
    be compared that have a density and such that give single values a probability. A draw more, spread evenly over the
    levels, keeps a level that no draw is in from having none.
    """
    draws, observed = _checked(draws, observed, "level_log_score", least=1)
    inner = np.asarray(edges, dtype=float)[1:-1]
    own = np.searchsorted(inner, observed, side="right")
    same = np.count_nonzero(np.searchsorted(inner, draws, side="right") == own, axis=0)
    return np.log((same + 1 / (len(inner) + 1)) / (len(draws) + 1))


def energy_score(draws: Float[ndarray, "draws values"], observed: Float[ndarray, " values"]) -> float:
    """The fair energy score of all values together, with the Euclidean norm: lower is better.

    It grows with the number of values about as its square root: compare it between models on the same targets.
    """
    draws, observed = _checked(draws, observed, "energy_score", least=2)
    number = len(draws)
    # In units in which no square overflows or vanishes, a power of 2 so that no digit is lost.
    largest = max(float(np.abs(array).max(initial=0.0)) for array in (draws, observed))
    unit = math.ldexp(1.0, math.frexp(largest)[1] - 1)
    away = draws / unit - observed / unit
    to_observed = np.linalg.norm(away, axis=1).mean()
    centred = away - away.mean(axis=0)
    squares = np.einsum("sv,sv->s", centred, centred)
    rows = max(1, DISTANCES_AT_ONCE // number)
    total = 0.0
    for first in range(0, number, rows):
        part = slice(first, min(first + rows, number))
        distances = centred[part] @ centred.T
        distances *= -2
        distances += squares[part, None] + squares
        distances[np.arange(part.stop - first), np.arange(first, part.stop)] = 0.0
        np.maximum(distances, 0, out=distances)
        total += float(np.sqrt(distances, out=distances).sum())
    score = unit * float(to_observed - total / (2 * number * (number - 1)))
    if not math.isfinite(score):
        raise ValueError(f"energy_score: values of {largest:.3g} have a score beyond all numbers; use larger units.")
    return score


def energy_score_gaussian(mean: Float[ndarray, " values"], sd: float, observed: Float[ndarray, " values"]) -> float:
    """The energy score of N(mean, sd²·I) in d dimensions; for d = 1 it is `crps_gaussian`.

    E‖X − y‖ = c·₁F₁(−½; d/2; −‖y − μ‖²/(2σ²)) and E‖X − X'‖ = √2·c, where c = √2·σ·Γ((d+1)/2)/Γ(d/2) is E‖X − μ‖.
    """
    if not (np.isfinite(sd) and sd > 0):
        raise ValueError(f"energy_score_gaussian: sd is {sd!r}; give a positive number.")
    mean = _finite(mean, "energy_score_gaussian: mean")
    observed = _finite(observed, "energy_score_gaussian: observed")
    z = np.atleast_1d(observed - mean) / sd
    half, away = z.size / 2, math.hypot(*z)
    typical = math.sqrt(2) * sd * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    # Far out the spread adds nothing to the distance, and the function gives up.
    far = away > FAR * math.sqrt(z.size)
    to_observed = sd * away if far else typical * scipy.special.hyp1f1(-0.5, half, -(away**2) / 2)
    return float(to_observed - typical / math.sqrt(2))


def interval_score(lower: Any, upper: Any, observed: Any, level: float) -> Float[ndarray, "..."]:
    """The score of a central interval (Gneiting & Raftery, 2007): its width, and 2/α for each unit it misses by.

    α = 1 − level. Lower is better; the true quantiles are best in expectation.
    """
    alpha = 1 - share("interval_score: level", level)
    observed = _finite(observed, "interval_score: observed")
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    if np.isnan(lower).any() or np.isnan(upper).any():
        raise ValueError("interval_score: an end of an interval is NaN; leave out the values that have no interval.")
    if (upper < lower).any():
        raise ValueError("interval_score: upper is below lower in places; give the lower end first.")
    missed = np.maximum(lower - observed, 0) + np.maximum(observed - upper, 0)
    return upper - lower + 2 / alpha * missed


def central_interval(
    draws: Float[ndarray, "draws values"], level: float
) -> tuple[Float[ndarray, " values"], Float[ndarray, " values"]]:
    """The ends of the interval that holds `level` of the probability and leaves as much on either side.

    Quantile q is the order statistic X_(q·(S+1)), interpolated in between ("weibull" in NumPy): of S + 1 exchangeable
    values the one observed is below X_(k) with probability exactly k/(S+1), so coverage is unbiased for any number of
    draws, where the usual quantile, X_(1 + q·(S−1)), makes intervals that cover too little.
    """
    ends = _interval_ends(_finite(draws, "central_interval: draws"), [level], "central_interval")
    return ends[0, 0], ends[1, 0]


def coverage_of(
    draws: Float[ndarray, "draws values"], observed: Float[ndarray, " values"], levels: Sequence[float] | ndarray
) -> Bool[ndarray, "levels values"]:
    """Whether each value lies in its central interval (ends included) of each level; see `central_interval`."""
    draws, observed = _checked(draws, observed, "coverage_of", least=1)
    lower, upper = _interval_ends(draws, levels, "coverage_of")
    return (lower <= observed) & (observed <= upper)


def pit_values(
    draws: Float[ndarray, "draws values"], observed: Float[ndarray, " values"], generator: np.random.Generator
) -> Float[ndarray, " values"]:
    """The probability integral transform of each value, from its rank among the draws.

    u = (#{X < y} + U·(#{X = y} + 1))/(S + 1) with U uniform on [0, 1]: exactly uniform where y and the draws are
    exchangeable, whatever S and however many ties.
    """
    draws, observed = _checked(draws, observed, "pit_values", least=1)
    below = np.count_nonzero(draws < observed, axis=0)
    ties = np.count_nonzero(draws == observed, axis=0)
    return (below + generator.uniform(size=len(observed)) * (ties + 1)) / (len(draws) + 1)


def draws_needed(level: float) -> int:
    """The fewest draws that have a central interval of this level: both tails must hold an order statistic."""
    return math.ceil(round(2 / (1 - level) - 1, 6))


def check_levels(levels: Any, draws: int, owner: str) -> Float[ndarray, " levels"]:
    """Refuse levels outside (0, 1), and levels that so few draws say nothing about."""
    given = np.atleast_1d(np.asarray(levels, dtype=object))
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"{owner}: levels is {levels!r}; give numbers between 0 and 1, such as [0.5, 0.9].")
    checked = np.array([share(f"{owner}: level", level) for level in given])
    needed = draws_needed(checked.max())
    if draws < needed:
        raise ValueError(
            f"{owner}: a central interval of level {checked.max():.6g} needs at least {needed} draws; got {draws}."
        )
    return checked


def _interval_ends(draws: ndarray, levels: Sequence[float] | ndarray, owner: str) -> Float[ndarray, "2 levels values"]:
    checked = check_levels(levels, len(draws), owner)
    tails = np.stack([(1 - checked) / 2, (1 + checked) / 2])
    return np.quantile(draws, tails, axis=0, method="weibull")


def _checked(draws: Any, observed: Any, owner: str, *, least: int) -> tuple[ndarray, ndarray]:
    # No copy and no change of layout: draws are large, and sorting wants those of a value side by side.
    draws, observed = np.asarray(draws, dtype=float), np.asarray(observed, dtype=float)
    if draws.ndim != 2 or observed.shape != draws.shape[1:]:
        raise ValueError(
            f"{owner}: draws must be (draws, values) and observed (values,); got {draws.shape} and {observed.shape}."
        )
    if len(draws) < least:
        raise ValueError(f"{owner}: there are {len(draws)} draws; at least {least} are needed.")
    return _finite(draws, f"{owner}: draws"), _finite(observed, f"{owner}: observed")


def _finite(value: Any, name: str) -> ndarray:
    array = np.asarray(value, dtype=float)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite numbers; leave out the values that are missing.")
    return array
