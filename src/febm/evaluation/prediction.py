"""How well a model tells the rest of a curve: proper scores of p(target | context), curve by curve."""

import functools
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, PRNGKeyArray
from numpy import ndarray

from febm.checks import count, listed, whole_number
from febm.curves import Curves
from febm.door import as_curves
from febm.evaluation.scoring import (
    central_interval,
    check_levels,
    crps_from_draws,
    energy_score,
    interval_score,
)
from febm.models.base import Posterior, Process
from febm.randomness import RandomState, as_key

# So many drawn values are made at a time: 32 MB, of which a posterior and a score hold a few copies.
VALUES_AT_ONCE = 1 << 22
# The wider of the two intervals that are scored; fewer draws than it needs are refused before any work is done.
WIDE, NARROW = 0.9, 0.5


@dataclass(frozen=True, eq=False)
class Predictive:
    """What a process says of the target values of every curve, given their contexts.

    Attributes
    ----------
    target : Curves
        What was observed; its ids name the curves.
    mean : (values,)
        The posterior mean of every observed target value, curve after curve, outputs of a point side by side.
    draws : (draws, values)
        Joint draws of those values.
    log_density : (curves,)
        log p(target values | context) of every curve, jointly, in nats; NaN where the model does not offer it. Always a
        density of observations, noise included, also where the draws have none.
    noise : bool
        Whether the draws hold observation noise.
    """

    target: Curves
    mean: Float[ndarray, " values"]
    draws: Float[ndarray, "draws values"]
    log_density: Float[ndarray, " curves"]
    noise: bool = True

    def __repr__(self) -> str:
        kind = "observations" if self.noise else "functions"
        values = count(len(self.observed), "value")
        return f"<Predictive: {count(len(self.draws), 'draw')} of {kind}, {values} of {count(len(self), 'curve')}>"

    def __len__(self) -> int:
        """Number of curves."""
        return len(self.target)

    @property
    def ids(self) -> pd.Index:
        """What the curves are called."""
        return self.target.ids

    @functools.cached_property
    def observed(self) -> Float[ndarray, " values"]:
        """The target values that were observed."""
        return self.target.y[~np.isnan(self.target.y)]

    @functools.cached_property
    def offsets(self) -> Int[ndarray, " curves+1"]:
        """Curve i has the values `offsets[i]:offsets[i + 1]`."""
        return _value_offsets(self.target)

    def scores(self) -> pd.DataFrame:
        """The scores of every curve; see `predictive_scores`."""
        return pd.concat([_scores(part) for part in self.in_blocks()])

    def in_blocks(self) -> Iterator["Predictive"]:
        """The same curves, few enough at a time for scores to need little memory."""
        for part in _blocks(self.target, len(self.draws)):
            values = slice(self.offsets[part.start], self.offsets[part.stop])
            yield Predictive(
                self.target[part], self.mean[values], self.draws[:, values], self.log_density[part], self.noise
            )


def predict(
    process: Process,
    context: Any,
    target: Any,
    *,
    draws: int = 512,
    noise: bool = True,
    random_state: RandomState = None,
) -> Predictive:
    """Condition on the contexts and draw the targets, once for scores and calibration alike.

    Parameters
    ----------
    process : Process
        Fitted, of any kind.
    context, target : Curves
        The same curves in the same order: what is shown, and what is asked for. `split` makes them. Arrays have one
        curve a row on the model's own grid, NaN where nothing is shown or asked for. A target may lie at a point of the
        context: what is asked for is then another observation at that point.
    draws : int
        Joint draws of the target values of each curve.
    noise : bool
        Whether the draws hold observation noise. They must where the targets are observations; give False where the
        targets are the functions themselves, without noise.
    random_state : int, key or None

    Returns
    -------
    Predictive
        It holds all draws, 8 bytes for each value of each draw; `predictive_scores` and `check_calibration` go curve by
        curve where that is too much.

    Examples
    --------
    >>> import febm
    >>> x = np.linspace(0, 1, 20)
    >>> waves = np.random.default_rng(0).normal(size=(40, 2)) @ np.stack([np.sin(3 * x), np.cos(3 * x)])
    >>> curves = febm.Curves.from_grid(x, waves)
    >>> model = febm.FPCA(random_state=0, progress=False).fit(curves[:30])
    >>> context, target = febm.evaluation.split(curves[30:], "middle", 1 / 2)
    >>> predictive = predict(model, context, target, draws=100, random_state=0)
    >>> len(predictive), predictive.draws.shape
    (10, (100, 100))
    """
    context, target = matching(process, context, target, draws, "predict")
    offsets = _value_offsets(target)
    # Those of a value lie side by side, which is what sorting wants.
    drawn = np.empty((offsets[-1], draws))
    mean, log_density = np.empty(offsets[-1]), np.empty(len(target))
    first = 0
    for part in predict_in_blocks(
        process, context, target, draws=draws, noise=noise, random_state=random_state, owner="predict"
    ):
        last = first + len(part)
        values = slice(offsets[first], offsets[last])
        drawn[values], mean[values], log_density[first:last] = part.draws.T, part.mean, part.log_density
        first = last
    return Predictive(target, mean, drawn.T, log_density, noise)


def predictive_scores(
    process: Process,
    context: Any,
    target: Any,
    random_state: RandomState = None,
    *,
    draws: int = 512,
    noise: bool = True,
) -> pd.DataFrame:
    """The scores of a process on the targets given the contexts: one row for each curve, indexed by its id.

    The arguments are those of `predict`. A score is a mean over the observed target values of the curve where it is not
    said otherwise; lower is better for all but the log density and the coverages. The columns are

    - values: the number of observed target values;
    - mse: squared distance of the posterior mean, in squared units of the data;
    - log_density: log p(target | context), jointly, in nats per value: on the scale of `Process.score`. It is the
      density of observations, noise included, also with `noise=False`, and NaN, with a warning, where the
      model has none;
    - crps: continuous ranked probability score, fair in the number of draws;
    - energy_score: its counterpart for all values of the curve jointly; it grows with the number of values;
    - interval_score_90: of the central 90 % interval;
    - coverage_50, coverage_90: the share of values inside the central intervals, which should be .5 and .9;
    - width_90: the width of the 90 % interval.

    Examples
    --------
    >>> import febm
    >>> x = np.linspace(0, 1, 20)
    >>> waves = np.random.default_rng(0).normal(size=(40, 2)) @ np.stack([np.sin(3 * x), np.cos(3 * x)])
    >>> curves = febm.Curves.from_grid(x, waves)
    >>> model = febm.FPCA(random_state=0, progress=False).fit(curves[:30])
    >>> context, target = febm.evaluation.split(curves[30:], "middle", 1 / 2)
    >>> scores = predictive_scores(model, context, target, random_state=0, draws=100)
    >>> bool(scores["mse"].mean() < 0.01 * target.y.var())
    True
    """
    context, target = matching(process, context, target, draws, "predictive_scores")
    check_levels(WIDE, draws, "predictive_scores")
    parts = predict_in_blocks(
        process, context, target, draws=draws, noise=noise, random_state=random_state, owner="predictive_scores"
    )
    return pd.concat([_scores(part) for part in parts])


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """One row for each score: its mean over the curves, every curve counting the same, and its standard error.

    That error is over curves, as values within a curve are dependent; it is NaN for a single curve. A score
    that some curves lack (NaN) is summarised over the others, and `curves` says how many those are. Columns that hold
    no numbers, such as names, are left out.

    Examples
    --------
    >>> scores = pd.DataFrame({"mse": [1.0, 2.0, 3.0], "values": [5, 5, 5]})
    >>> summarise(scores).round(2)
         mean  standard_error  curves
    mse   2.0            0.58       3
    """
    if not isinstance(scores, pd.DataFrame) or scores.empty:
        raise ValueError("summarise: scores must be a table of one row per curve, as `predictive_scores` gives.")
    table = scores.drop(columns="values", errors="ignore").select_dtypes("number")
    if not len(table.columns):
        raise ValueError(f"summarise: none of the columns {listed(scores.columns)} is a score; give numbers.")
    known = table.notna().sum()
    # A density of zero (−∞) has a mean but no standard error.
    with np.errstate(invalid="ignore"):
        standard_error = table.std(ddof=1) / np.sqrt(known)
    return pd.DataFrame({"mean": table.mean(), "standard_error": standard_error, "curves": known})


def predict_in_blocks(
    process: Process,
    context: Curves,
    target: Curves,
    *,
    draws: int,
    noise: bool,
    random_state: RandomState,
    owner: str,
    densities: bool = True,
) -> Iterator[Predictive]:
    """`predict` for few curves at a time, so that any number of them needs little memory; see `matching`.

    Densities may take far longer than draws where only chains know the posterior: without them, they are NaN.
    """
    key = as_key(random_state)
    for part in _blocks(target, draws):
        shown, asked = context[part], target[part]
        condition_key, sample_key = jax.random.split(jax.random.fold_in(key, part.start))
        posterior = process.condition(shown, random_state=condition_key)
        mean = posterior.mean(asked)
        present = ~np.isnan(asked.y)
        values = _finite(mean.y if isinstance(mean, Curves) else np.asarray(mean), asked, 1, "mean", process)[present]
        drawn = _draws(process, posterior, asked, draws, noise, sample_key)
        density = _log_density(process, posterior, shown, asked, owner) if densities else np.full(len(asked), np.nan)
        yield Predictive(asked, values, drawn, density, noise)


def _draws(
    process: Process, posterior: Posterior, target: Curves, draws: int, noise: bool, key: PRNGKeyArray
) -> Float[ndarray, "draws values"]:
    sampled = posterior.sample(draws, target, noise=noise, random_state=key).y
    sampled = _finite(sampled, target, draws, "draws", process)
    present, offsets = ~np.isnan(target.y), _value_offsets(target)
    drawn = np.empty((offsets[-1], draws))
    for i, (first, last) in enumerate(itertools.pairwise(target.offsets)):
        curve = sampled[draws * first : draws * last].reshape(draws, -1)
        drawn[offsets[i] : offsets[i + 1]] = curve[:, present[first:last].ravel()].T
    return drawn.T


def _finite(values: ndarray, target: Curves, copies: int, name: str, process: Process) -> ndarray:
    """The values of a model, refused where points are missing (NaN points are dropped from `Curves`) or not finite."""
    if values.shape != (copies * len(target.x), target.d_y) or not np.isfinite(values).all():
        raise ValueError(
            f"{type(process).__name__}: the posterior {name} of curves {target.ids[0]!r} to {target.ids[-1]!r} should "
            f"be {copies * len(target.x):,} finite points of {count(target.d_y, 'output')}, but some are missing or "
            "not finite; the model cannot be scored there."
        )
    return values


def _log_density(
    process: Process, posterior: Posterior, context: Curves, target: Curves, owner: str
) -> Float[ndarray, " curves"]:
    """log p(target | context): as the posterior knows it, or by the chain rule from two evidences."""
    try:
        found = np.asarray(posterior.log_density(target), dtype=float)
        reason = "its log_density is NaN there"
    except NotImplementedError:
        try:
            found = process.log_evidence(context.merge(target)) - process.log_evidence(context)
            reason = "its log_evidence is NaN there"
        except NotImplementedError as error:
            found = np.full(len(target), np.nan)
            reason = f"it offers neither log_density nor log_evidence ({error})"
    unknown = int(np.isnan(found).sum())
    if unknown:
        warnings.warn(
            f"{owner}: log_density is NaN for {count(unknown, 'curve')} of a {type(process).__name__}: {reason}.",
            stacklevel=3,
        )
    return found


def _scores(part: Predictive) -> pd.DataFrame:
    observed, offsets = part.observed, part.offsets
    values = np.diff(offsets)

    def per_curve(scores: ndarray) -> ndarray:
        return np.add.reduceat(np.asarray(scores, dtype=float), offsets[:-1]) / values

    def inside(interval: tuple[ndarray, ndarray]) -> Bool[ndarray, " values"]:
        return (interval[0] <= observed) & (observed <= interval[1])

    wide, narrow = central_interval(part.draws, WIDE), central_interval(part.draws, NARROW)
    joint = [energy_score(part.draws[:, a:b], observed[a:b]) for a, b in itertools.pairwise(offsets)]
    return pd.DataFrame(
        {
            "values": values,
            "mse": per_curve((part.mean - observed) ** 2),
            "log_density": part.log_density / values,
            "crps": per_curve(crps_from_draws(part.draws, observed)),
            "energy_score": joint,
            "interval_score_90": per_curve(interval_score(*wide, observed, WIDE)),
            "coverage_50": per_curve(inside(narrow)),
            "coverage_90": per_curve(inside(wide)),
            "width_90": per_curve(wide[1] - wide[0]),
        },
        index=part.ids,
    )


def _blocks(target: Curves, draws: int) -> Iterator[slice]:
    """Runs of curves of about `VALUES_AT_ONCE` drawn values, of equal size so that compiled models see few shapes."""
    curves_at_once = max(1, VALUES_AT_ONCE // (draws * int(target.lengths.max()) * target.d_y))
    number = -(-len(target) // curves_at_once)
    size = -(-len(target) // number)
    return (slice(first, min(first + size, len(target))) for first in range(0, len(target), size))


def _value_offsets(target: Curves) -> Int[ndarray, " curves+1"]:
    present = np.append(0, np.cumsum((~np.isnan(target.y)).sum(axis=1)))
    return present[target.offsets]


def matching(process: Any, context: Any, target: Any, draws: Any, owner: str) -> tuple[Curves, Curves]:
    """The two parts of the same curves, or a sentence that says how they differ."""
    if isinstance(process, type) or not callable(getattr(process, "condition", None)):
        what = f"the class {process.__name__}" if isinstance(process, type) else type(process).__name__
        raise TypeError(f"{owner}: process must be a fitted model such as febm.FEBM; got {what}.")
    whole_number(f"{owner}: draws", draws, least=2)
    grid = getattr(process, "grid_", None)
    context = as_curves(context, f"{owner}: context", like=grid)
    target = as_curves(target, f"{owner}: target", like=grid)
    if len(context) != len(target):
        raise ValueError(
            f"{owner}: context has {count(len(context), 'curve')} but target has {len(target)}; give two parts of the "
            "same curves, as `split` makes them."
        )
    if not context.ids.equals(target.ids):
        # Plain values of Python, so that an id is not told from its equal by the NumPy type it came in.
        pairs = enumerate(zip(context.ids.tolist(), target.ids.tolist(), strict=True))
        i, (a, b) = next(((i, (a, b)) for i, (a, b) in pairs if a != b), (0, (context.ids[0], target.ids[0])))
        raise ValueError(
            f"{owner}: curve {i} is {a!r} in the context but {b!r} in the target; give the same curves in the same "
            "order."
        )
    for name, noun in (("d_x", "coordinate"), ("d_y", "output")):
        a, b = getattr(context, name), getattr(target, name)
        if a != b:
            raise ValueError(f"{owner}: context has {count(a, noun)} but target has {b}; they must be as many.")
    return context, target
