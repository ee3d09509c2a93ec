"""Whether a model's uncertainty is honest: what it gives probability p should happen with frequency p.

Gneiting, Balabdaoui & Raftery (2007) name the ways to look: coverage and the probability integral transform of single
values, the mean predictive distribution F̄(t) = mean of P(Y ≤ t) beside that of the data, and here, for whole curves,

    D = max_j |y_j − m_j| / s_j,    the rank of the observed D among those of the draws.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Float
from numpy import ndarray

from febm.checks import count, whole_number
from febm.curves import Curves
from febm.evaluation.prediction import Predictive, matching, predict_in_blocks
from febm.evaluation.scoring import check_levels, coverage_of, pit_values
from febm.models.base import Posterior, Process
from febm.randomness import RandomState, as_key, numpy_generator

LEVELS = (*(round(0.05 * i, 2) for i in range(1, 20)), 0.99)
# The stream of randomness for ranks, which no block of curves has: the draws are those of `predict` with the same key.
RANK_STREAM = 2**32 - 1
# Places at which the mean predictive distribution function is taken, and how far beyond the data they reach.
CDF_PLACES, CDF_MARGIN = 101, 0.1
# The correction of a band for few draws is not for fewer than a 90 % interval needs, whatever the level.
BAND_DRAWS = 19


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How often what the model said would happen did happen.

    Attributes
    ----------
    coverage : DataFrame
        `level`, `coverage` (the share of all target values inside their central interval) and `standard_error`, which
        treats the values of a curve as dependent and curves as independent; NaN for a single curve.
    pit : (values,)
        The probability integral transform of every target value: uniform on [0, 1] for an honest model.
    predictive_cdf : DataFrame
        `value`, and there the mean predictive distribution function, `predicted`, and the share of target values that
        are at most so large, `observed`.
    simultaneous : DataFrame
        `level`, `coverage` (the share of curves that lie inside their simultaneous band with all target values) and
        `standard_error`.
    ranks : (curves,)
        The level of the narrowest simultaneous band that holds all target values of each curve: independent and
        uniform for an honest model.
    """

    coverage: pd.DataFrame
    pit: Float[ndarray, " values"]
    predictive_cdf: pd.DataFrame
    simultaneous: pd.DataFrame
    ranks: Float[ndarray, " curves"]

    def __repr__(self) -> str:
        return (
            f"<Calibration: {count(len(self.pit), 'value')} of {count(len(self.ranks), 'curve')}, coverage off by "
            f"{self.error:.3f} on average, {self.chance_error:.3f} by chance>"
        )

    @property
    def error(self) -> float:
        """The mean absolute gap between coverage and level."""
        return float(np.abs(self.coverage["coverage"] - self.coverage["level"]).mean())

    @property
    def chance_error(self) -> float:
        """What `error` would be about for an honest model on so many curves: √(2/π) mean standard errors."""
        return float(math.sqrt(2 / math.pi) * self.coverage["standard_error"].mean())

    @property
    def pit_distance(self) -> float:
        """The largest gap between the distribution function of the PIT and the uniform one (Kolmogorov)."""
        return float(scipy.stats.ks_1samp(self.pit, scipy.stats.uniform.cdf).statistic)

    @property
    def marginal_distance(self) -> float:
        """The largest gap between the mean predictive distribution function and that of the data."""
        return float(np.abs(self.predictive_cdf["predicted"] - self.predictive_cdf["observed"]).max())

    @property
    def pvalue(self) -> float:
        """Kolmogorov's test that the ranks of whole curves are uniform; exact, as curves are independent."""
        return float(scipy.stats.ks_1samp(self.ranks, scipy.stats.uniform.cdf).pvalue)


def check_calibration(
    process_or_predictive: Process | Predictive,
    context: Any = None,
    target: Any = None,
    *,
    levels: Sequence[float] = LEVELS,
    draws: int = 512,
    noise: bool = True,
    random_state: RandomState = None,
) -> Calibration:
    """Compare what a model says of the targets with what they were.

    Parameters
    ----------
    process_or_predictive : Process or Predictive
        A fitted model together with `context` and `target`, or what `predict` made of them.
    context, target : Curves
        The same curves in the same order, as for `predict`; arrays are read on the model's own grid.
    levels : sequence of float
        The probabilities whose intervals and bands are checked.
    draws, noise
        As for `predict`; a Predictive has its own.
    random_state : int, key or None
        Also decides the random part of the PIT within the rank of a value among the draws.

    Notes
    -----
    Every target value counts the same, in the coverage, the PIT and the mean predictive distribution. Whole curves are
    judged by the rank of their largest standardised deviation D among those of the draws, all S + 1 standardised by
    the mean and standard deviation of all S + 1. Nothing tells the observed curve from a draw when the model is right,
    so the ranks are exactly uniform for any number of draws. A value at which all draws and the observation agree
    deviates by nothing; where the draws agree on another value, no draw deviates more than the observation.

    Examples
    --------
    >>> import febm
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 20)
    >>> waves = np.random.default_rng(0).normal(size=(40, 2)) @ np.stack([np.sin(3 * x), np.cos(3 * x)])
    >>> curves = febm.Curves.from_grid(x, waves)
    >>> model = febm.FPCA(random_state=0, progress=False).fit(curves[:30])
    >>> context, target = febm.evaluation.split(curves[30:], "middle", 1 / 2)
    >>> calibration = check_calibration(model, context, target, draws=100, levels=[0.5, 0.9], random_state=0)
    >>> calibration.coverage["level"].tolist()
    [0.5, 0.9]
    """
    key = as_key(random_state)
    parts: Iterable[Predictive]
    if isinstance(process_or_predictive, Predictive):
        if context is not None or target is not None:
            raise ValueError("check_calibration: a Predictive has its context and target; leave these two out.")
        predictive = process_or_predictive
        target, draws, parts = predictive.target, len(predictive.draws), predictive.in_blocks()
    elif context is None or target is None:
        raise ValueError("check_calibration: give context and target with a model, or what `predict` made of them.")
    else:
        context, target = matching(process_or_predictive, context, target, draws, "check_calibration")
        parts = predict_in_blocks(
            process_or_predictive,
            context,
            target,
            draws=draws,
            noise=noise,
            random_state=key,
            owner="check_calibration",
        )
    checked = check_levels(levels, draws, "check_calibration")
    return _compare(parts, target, checked, numpy_generator(jax.random.fold_in(key, RANK_STREAM)))


def simultaneous_band(
    posterior: Posterior,
    at: Any,
    level: float = 0.9,
    *,
    draws: int = 1000,
    noise: bool = False,
    random_state: RandomState = None,
) -> tuple[Any, Any]:
    """The band, around the mean, that holds `level` of whole functions: all points and outputs of them at once.

    It is m(x) ± c·s(x), mean and standard deviation of the draws, with c the quantile of the largest standardised
    deviation of a draw from the other draws, so that few draws do not make it too narrow. Where all draws agree its
    width is 0.

    Parameters
    ----------
    posterior : Posterior
    at : points, or Curves with points of each curve
    level : float
        The probability that a function lies inside.
    draws : int
        Functions drawn for each curve, at least 19.
    noise : bool
        Whether the band is for observations rather than for the function.
    random_state : int, key or None

    Returns
    -------
    lower, upper : (curves, points, outputs), or Curves where `at` is Curves

    Examples
    --------
    >>> import febm
    >>> x = np.linspace(0, 1, 20)
    >>> waves = np.random.default_rng(0).normal(size=(40, 2)) @ np.stack([np.sin(3 * x), np.cos(3 * x)])
    >>> curves = febm.Curves.from_grid(x, waves)
    >>> model = febm.FPCA(random_state=0, progress=False).fit(curves[:30])
    >>> posterior = model.condition(curves[30:].select(np.tile(x < 0.3, 10)))
    >>> lower, upper = simultaneous_band(posterior, x, 0.9, draws=100, random_state=0)
    >>> lower.shape, bool((lower <= upper).all())
    ((10, 20, 1), True)
    """
    draws = whole_number("simultaneous_band: draws", draws, least=BAND_DRAWS)
    checked = float(check_levels(level, draws, "simultaneous_band")[0])
    sampled = posterior.sample(draws, at, noise=noise, random_state=random_state)
    starts = sampled.offsets[::draws]
    lower, upper = [], []
    for first, last in itertools.pairwise(starts):
        values = sampled.y[first:last].reshape(draws, -1, sampled.d_y)
        mean, sd = _moments(values)
        largest = np.sort(_deviations(values - mean, sd).max(axis=(1, 2)))
        # A new function is below the k-th largest deviation of S draws with probability k/(S+1).
        factor = _left_out(largest[math.ceil((draws + 1) * checked) - 1], draws)
        lower.append(mean - factor * sd)
        upper.append(mean + factor * sd)
    if not isinstance(at, Curves):
        return np.stack(lower), np.stack(upper)
    xs = [curve.x for curve in at]
    return Curves.from_arrays(xs, lower, ids=posterior.ids), Curves.from_arrays(xs, upper, ids=posterior.ids)


def _compare(
    parts: Iterable[Predictive], target: Curves, levels: Float[ndarray, " levels"], generator: np.random.Generator
) -> Calibration:
    observed = target.y[~np.isnan(target.y)]
    lowest, highest = observed.min(), observed.max()
    margin = CDF_MARGIN * (highest - lowest or 1.0)
    places = np.linspace(lowest - margin, highest + margin, CDF_PLACES)
    inside, values, pit, ranks, below, drawn = [], [], [], [], np.zeros(CDF_PLACES), 0
    for part in parts:
        starts = part.offsets[:-1]
        covered = coverage_of(part.draws, part.observed, levels)
        inside.append(np.add.reduceat(covered, starts, axis=1, dtype=np.int64))
        values.append(np.diff(part.offsets))
        pit.append(pit_values(part.draws, part.observed, generator))
        ranks.append(_ranks(part, generator))
        # Counted from the first place that is not below the draw; what lies above all places has none.
        first = np.searchsorted(places, part.draws.ravel(order="K"))
        below += np.cumsum(np.bincount(first, minlength=CDF_PLACES + 1)[:CDF_PLACES])
        drawn += part.draws.size
    rank = np.concatenate(ranks)
    at_most = np.searchsorted(np.sort(observed), places, side="right") / len(observed)
    return Calibration(
        coverage=_shares(levels, np.concatenate(inside, axis=1), np.concatenate(values)),
        pit=np.concatenate(pit),
        predictive_cdf=pd.DataFrame({"value": places, "predicted": below / drawn, "observed": at_most}),
        simultaneous=_shares(levels, rank <= levels[:, None], np.ones(len(rank))),
        ranks=rank,
    )


def _ranks(part: Predictive, generator: np.random.Generator) -> Float[ndarray, " curves"]:
    """The randomised rank of the observed largest deviation of each curve among those of its draws."""
    largest = np.empty((len(part.draws), len(part)))
    of_observed = np.empty(len(part))
    for i, (first, last) in enumerate(itertools.pairwise(part.offsets)):
        # Around the observed values, so that a draw that agrees with them deviates by exactly nothing.
        pool = np.zeros((len(part.draws) + 1, last - first))
        np.subtract(part.draws[:, first:last], part.observed[first:last], out=pool[1:])
        mean, sd = _moments(pool)
        deviation = _deviations(pool - mean, sd).max(axis=1)
        of_observed[i], largest[:, i] = deviation[0], deviation[1:]
    return pit_values(largest, of_observed, generator)


def _moments(values: Float[ndarray, "draws ..."]) -> tuple[ndarray, ndarray]:
    """Mean and standard deviation over draws; where all draws agree it is exactly 0, without rounding."""
    agree = (values == values[0]).all(axis=0)
    mean = np.where(agree, values[0], values.mean(axis=0))
    return mean, np.where(agree, 0.0, values.std(axis=0, ddof=1))


def _deviations(away: Float[ndarray, "draws ..."], sd: Float[ndarray, "..."]) -> Float[ndarray, "draws ..."]:
    """|away| / sd, and 0 where there is no spread."""
    return np.abs(away) / np.where(sd > 0, sd, 1.0)


def _left_out(deviation: float, draws: int) -> float:
    """The deviation of a draw from the mean and standard deviation of the other draws, from that of all of them.

    A draw pulls the mean its way and widens the spread, a new function does not. The relation rises, so the largest
    deviation over points stays the largest. It has no end where one draw alone makes the spread: there it is cut off.
    """
    rest = draws - 1 - deviation**2 * draws / (draws - 1)
    return deviation * draws / (draws - 1) * math.sqrt((draws - 2) / max(rest, 1e-9 * draws))


def _shares(levels: Float[ndarray, " levels"], inside: ndarray, values: Float[ndarray, " curves"]) -> pd.DataFrame:
    """The share of values inside at each level; its error is that of a ratio of two sums over independent curves."""
    curves, total = len(values), values.sum()
    coverage = inside.sum(axis=1) / total
    residual = inside - coverage[:, None] * values
    error = np.full(len(levels), np.nan)
    if curves > 1:
        error = np.sqrt(curves / (curves - 1) * (residual**2).sum(axis=1)) / total
    return pd.DataFrame({"level": levels, "coverage": coverage, "standard_error": error})
