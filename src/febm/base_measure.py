"""The base measure of a linear model: a tail, and a mixture on the leading coordinates in front of it.

Base measure and noise have an exact evidence (`conjugate`), so everything about them is chosen by the evidence of
curves that neither the basis nor the mixture has seen: first the tail (`tails`), then the mixture in front of it.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize

from febm import conjugate, gaps
from febm.conjugate import Mixture, Projection
from febm.gaps import Filled
from febm.mixture import Shrinkage, fit_mixture
from febm.priors import MixturePrior
from febm.tails import Fold, Tail, TailSearch, simplest, tail_evidence

# A component with fewer curves has no covariance to speak of.
CURVES_PER_COMPONENT = 5
# A mixture of few components leaves the most for a tilt to say.
FEW_COMPONENTS = 2
# Of more components there are several fits from starts of their own, and the base measure is their mean: where one
# fit has overfitted another has not.
STARTS, STARTS_TO_CHOOSE = 5, 2
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
    """The base measure that held-out curves prefer."""

    tail: Tail
    leading: int
    components: int
    shrinkage: Shrinkage
    evidence: float  # held-out nats per curve
    caution: float = 0.0  # with which intervals in gaps hold; see `conjugate.growth`

    @property
    def rank(self) -> int:
        """Functions of the basis that are used."""
        return self.tail.rank

    @property
    def noise_variance(self) -> float:
        """Of a curve of average roughness."""
        return self.tail.noise_variance


def choose_bases(folds: Sequence[Fold], search: BaseSearch, tail: Tail) -> list[BaseChoice]:
    """The base measure of choice and, where that has many components, the best one of two for a tilt to start from."""
    evidence = float(np.mean(tail_evidence(folds, search.tail, tail)))
    folds = [fold.weigh(tail.weights(fold.fitted, search.tail.outputs)) for fold in folds]
    leading = list(dict.fromkeys(min(tail.rank, wanted) for wanted in search.leading))
    choice = BaseChoice(tail, leading[0], 1, search.shrinkages[0], evidence)
    if not search.components:
        return [choice]
    tried = _mixtures(folds, choice, leading, _affordable(folds, search.components), search.shrinkages)
    best, _ = simplest(tried, lambda choice: choice.components)
    choices = [best]
    if best.components > FEW_COMPONENTS:
        few = [pair for pair in tried if pair[0].components == FEW_COMPONENTS]
        choices += [choice for choice, _ in sorted(few, key=lambda pair: -np.mean(pair[1]))[:1]]
    return choices


def fit_base(projection: Projection, choice: BaseChoice, starts: int = STARTS) -> Mixture:
    """The chosen base measure of the leading coordinates, fitted to all curves on the chosen functions."""
    observed = conjugate.information(projection, choice.noise_variance, choice.leading)
    fits = [
        fit_mixture(
            observed, choice.components, roughness=choice.tail.roughness, shrinkage=choice.shrinkage, seed=start
        )
        for start in range(starts if choice.components > FEW_COMPONENTS else 1)
    ]
    return Mixture.mean(fits)


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

    evidence: np.ndarray  # of every curve
    scores: np.ndarray  # what is chosen by: with the densities of the values in gaps added to it
    caution: float  # that these densities are with


def _judge(folds: Sequence[Fold], choice: BaseChoice) -> Judged:
    """Judge a base measure as it will be used: in gaps with the caution that it needs there."""
    evidence, filled = [], []
    for fold in folds:
        mixture = fit_base(fold.fitted, choice, starts=STARTS_TO_CHOOSE)
        observed = conjugate.information(fold.held_out, choice.noise_variance, choice.leading)
        evidence.append(conjugate.condition(mixture, observed).log_evidence)
        filled.append([gaps.fill(gap, choice.noise_variance, mixture) for gap in fold.gaps])
    caution = _choose_caution([gap for part in filled for gap in part])
    scores = [
        own + sum(gap.widened(caution).log_density for gap in part) for own, part in zip(evidence, filled, strict=True)
    ]
    return Judged(np.concatenate(evidence), np.concatenate(scores), caution)


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
) -> list[tuple[BaseChoice, np.ndarray]]:
    """Mixtures and their scores on held-out curves: one thing after the other is varied, from the best so far."""
    tried: list[tuple[BaseChoice, Judged]] = []

    def score(choice: BaseChoice) -> float:
        known = [judged for other, judged in tried if other[1:] == choice[1:]]
        if not known:
            known = [_judge(folds, choice)]
            tried.append((choice, known[0]))
        return float(np.mean(known[0].scores))

    best = max((start._replace(components=number) for number in components), key=score)
    best = max((best._replace(leading=number) for number in leading), key=score)
    best = max((best._replace(shrinkage=shrinkage) for shrinkage in shrinkages), key=score)
    for number in components:
        score(best._replace(components=number))
    return [
        (choice._replace(evidence=float(np.mean(judged.evidence)), caution=judged.caution), judged.scores)
        for choice, judged in tried
    ]


def _affordable(folds: Sequence[Fold], components: tuple[int, ...]) -> list[int]:
    """Numbers of components with at least `CURVES_PER_COMPONENT` curves for each; a single number is obeyed."""
    if len(components) == 1:
        return list(components)
    curves = min(len(fold.fitted.size) for fold in folds)
    return [number for number in components if number == 1 or number * CURVES_PER_COMPONENT <= curves]
