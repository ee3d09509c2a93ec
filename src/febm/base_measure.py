"""The base measure of a linear model: a tail, and a mixture on the leading coordinates in front of it.

Base measure and noise have an exact evidence (`conjugate`), so everything about them is chosen by the evidence of
curves that neither the basis nor the mixture has seen: first the tail (`tails`), then the mixtures in front of it. Some
hundred curves seldom tell how many components there should be, so that is not chosen: fits of several numbers are
averaged.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Float
from numpy import ndarray

from febm import conjugate, gaps
from febm.conjugate import Mixture, Projection
from febm.gaps import Filled
from febm.mixture import Shrinkage, fit_mixture
from febm.priors import MixturePrior
from febm.tails import Fold, Tail, TailSearch, tail_evidence

# A component with fewer curves has no covariance to speak of.
CURVES_PER_COMPONENT = 5
# A mixture of few components leaves the most for a tilt to say.
FEW_COMPONENTS = 2
# Of more components there are two fits from starts of their own, which are averaged: where one has overfitted the
# other has not. A number of components with less than this share of the average is left out.
STARTS = 2
LEAST_SHARE = 0.03
STACKING_STEPS = 500
# Intervals of this level hold in the gaps of held-out curves, with a caution of at most so much.
LEVEL, MOST_CAUTION = 0.9, 3.0
# Least variances of components, of coordinates that have unit variance: few curves ask for the first, and where curves
# have no noise one direction of a component may have none at all.
THICK, THIN = 1e-2, 1e-8


@dataclasses.dataclass(frozen=True)
class BaseSearch:
    """The base measures that are tried; one value in a tuple fixes it, no components leave the standard normal."""

    tail: TailSearch
    leading: tuple[int, ...] = (10, 6, 16)
    components: tuple[int, ...] = (1, 2, 4, 8, 16)
    shrinkages: tuple[Shrinkage, ...] = (Shrinkage(10.0, THICK), Shrinkage(10.0, THIN))


class BaseChoice(NamedTuple):
    """The base measure that held-out curves prefer: mixtures of so many components, averaged with these shares."""

    tail: Tail
    leading: int
    components: tuple[int, ...]
    shrinkage: Shrinkage
    evidence: float  # held-out nats per curve
    caution: float = 0.0  # with which intervals in gaps hold; see `conjugate.growth`
    shares: tuple[float, ...] = (1.0,)

    @property
    def rank(self) -> int:
        """Functions of the basis that are used."""
        return self.tail.rank

    @property
    def noise_variance(self) -> float:
        """Of a curve of average roughness."""
        return self.tail.noise_variance


def choose_bases(folds: Sequence[Fold], search: BaseSearch, tail: Tail) -> list[BaseChoice]:
    """The base measure of choice and, where that has many components, one of two for a tilt to start from."""
    evidence = float(np.mean(tail_evidence(folds, search.tail, tail)))
    folds = [fold.weigh(tail.weights(fold.fitted, search.tail.outputs)) for fold in folds]
    leading = list(dict.fromkeys(min(tail.rank, wanted) for wanted in search.leading))
    choice = BaseChoice(tail, leading[0], (1,), search.shrinkages[0], evidence)
    if not search.components:
        return [choice]
    tried = _mixtures(folds, choice, leading, _affordable(folds, search.components), search.shrinkages)
    choices = [_average(folds, tried)]
    if max(choices[0].components) > FEW_COMPONENTS:
        choices += [choice for choice, _ in tried if choice.components == (FEW_COMPONENTS,)]
    return choices


def fit_base(projection: Projection, choice: BaseChoice, starts: int = STARTS) -> Mixture:
    """The chosen base measure of the leading coordinates, fitted to all curves on the chosen functions."""
    observed = conjugate.information(projection, choice.noise_variance, choice.leading)
    rough, shrinkage = choice.tail.roughness, choice.shrinkage

    def fit(components: int) -> Mixture:
        seeds = range(starts if components > FEW_COMPONENTS else 1)
        fits = [fit_mixture(observed, components, roughness=rough, shrinkage=shrinkage, seed=seed) for seed in seeds]
        return Mixture.mean(fits)

    return Mixture.mean([fit(components) for components in choice.components], choice.shares)


def as_prior(mixture: Mixture, dim: int) -> MixturePrior:
    """A mixture on the leading coordinates, the roughness behind them, as the prior of a latent of length `dim`."""
    means, factors = mixture.means, mixture.factors
    if mixture.roughness is not None:
        means = np.concatenate([means, mixture.roughness.means[:, None]], axis=1)
        factors = np.pad(factors, ((0, 0), (0, 1), (0, 1)))
        factors[:, -1, -1] = mixture.roughness.scales
    return MixturePrior(mixture.log_weights, means, factors, dim)


class Judged(NamedTuple):
    """What held-out curves say of a base measure."""

    mixtures: list[Mixture]  # of every fold
    evidence: Float[ndarray, " curves"]
    score: float  # what is chosen by: the mean evidence with the densities of the values in gaps added to it
    caution: float  # that these densities are with


def _judge(folds: Sequence[Fold], choice: BaseChoice, mixtures: list[Mixture]) -> Judged:
    """Judge a base measure as it will be used: in gaps with the caution that it needs there."""
    evidence, filled = [], []
    for fold, mixture in zip(folds, mixtures, strict=True):
        observed = conjugate.information(fold.held_out, choice.noise_variance, choice.leading)
        evidence.append(conjugate.condition(mixture, observed).log_evidence)
        filled.append([gaps.fill(gap, choice.noise_variance, mixture) for gap in fold.gaps])
    caution = _choose_caution([gap for part in filled for gap in part])
    scores = [
        own + sum(gap.widened(caution).log_density for gap in part) for own, part in zip(evidence, filled, strict=True)
    ]
    return Judged(mixtures, np.concatenate(evidence), float(np.mean(np.concatenate(scores))), caution)


def _choose_caution(filled: Sequence[Filled]) -> float:
    """The least caution with which intervals in the gaps of held-out curves hold as many values as they should."""

    def lacking(caution: float) -> float:
        return LEVEL - float(np.mean([one.widened(caution).coverage(LEVEL) for one in filled]))

    if not filled or lacking(0.0) <= 0:
        return 0.0
    return MOST_CAUTION if lacking(MOST_CAUTION) > 0 else scipy.optimize.bisect(lacking, 0.0, MOST_CAUTION, xtol=0.02)


def _mixtures(
    folds: Sequence[Fold],
    start: BaseChoice,
    leading: list[int],
    components: list[int],
    shrinkages: tuple[Shrinkage, ...],
) -> list[tuple[BaseChoice, Judged]]:
    """Mixtures of all numbers of components; one thing after the other about them is varied, from the best so far."""
    tried: dict[tuple[tuple[int, ...], int, Shrinkage], Judged] = {}

    def judge(choice: BaseChoice) -> Judged:
        known = choice.components, choice.leading, choice.shrinkage
        if known not in tried:
            mixtures = [fit_base(fold.fitted, choice) for fold in folds]
            tried[known] = _judge(folds, choice, mixtures)
        return tried[known]

    def score(choice: BaseChoice) -> float:
        return judge(choice).score

    best = max((start._replace(components=(number,)) for number in components), key=score)
    best = max((best._replace(leading=number) for number in leading), key=score)
    best = max((best._replace(shrinkage=shrinkage) for shrinkage in shrinkages), key=score)
    found = [best._replace(components=(number,)) for number in components]
    return [(_told(choice, judge(choice)), judge(choice)) for choice in found]


def _average(folds: Sequence[Fold], tried: Sequence[tuple[BaseChoice, Judged]]) -> BaseChoice:
    """The mean of the mixtures that were tried, with the shares that held-out curves give them."""
    shares = _stack(np.stack([judged.evidence for _, judged in tried]))
    kept = np.flatnonzero(shares).tolist()
    first, _ = tried[0]
    components = tuple(number for i in kept for number in tried[i][0].components)
    choice = first._replace(components=components, shares=tuple(shares[kept].tolist()))
    fits = zip(*(tried[i][1].mixtures for i in kept), strict=True)
    return _told(choice, _judge(folds, choice, [Mixture.mean(of_fold, choice.shares) for of_fold in fits]))


def _told(choice: BaseChoice, judged: Judged) -> BaseChoice:
    return choice._replace(evidence=float(np.mean(judged.evidence)), caution=judged.caution)


def _stack(evidence: Float[ndarray, "densities curves"]) -> Float[ndarray, " densities"]:
    """Shares with which the mean of densities is largest at held-out curves (Smyth and Wolpert, 1999).

    By expectation–maximisation, as if each density were sure of one curve more.
    """
    densities, curves = evidence.shape
    shares = np.full(densities, 1 / densities)
    for _ in range(STACKING_STEPS):
        parts = scipy.special.softmax(np.log(shares)[:, None] + evidence, axis=0)
        shares = (np.sum(parts, axis=1) + 1) / (curves + densities)
    shares[shares < LEAST_SHARE] = 0.0
    return shares / np.sum(shares)


def _affordable(folds: Sequence[Fold], components: tuple[int, ...]) -> list[int]:
    """Numbers of components with at least `CURVES_PER_COMPONENT` curves for each; a single number is obeyed."""
    if len(components) == 1:
        return list(components)
    curves = min(len(fold.fitted.size) for fold in folds)
    return [number for number in components if number == 1 or number * CURVES_PER_COMPONENT <= curves]
