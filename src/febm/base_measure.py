"""The base measure of a linear model, chosen by what held-out curves say.

Base measure and noise have an exact evidence (`conjugate`), so everything about them is chosen by the evidence of
curves that neither the basis nor the mixture has seen: first the tail, that is, how many functions of the basis are
used, the remainder beside them, the noise, and whether curves differ in roughness; then the mixture on the leading
coordinates.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.optimize

from febm import conjugate, gaps
from febm.basis.enriched import Remainder
from febm.conjugate import Mixture, Projection
from febm.gaps import Gap
from febm.mixture import Shrinkage, fit_mixture
from febm.priors import MixturePrior

T = TypeVar("T")

# Shares of the mean square of the values: less noise is below what float64 algebra can tell from none.
NOISE_RANGE = (1e-8, 1.0)
# A component with fewer curves has no covariance to speak of.
CURVES_PER_COMPONENT = 5
# A mixture of few components leaves the most for a tilt to say.
FEW_COMPONENTS = 2
# The tail is chosen with so many standard normal coordinates in front of it, and by so many held-out curves a fold.
TAIL_LEADING = 8
TAIL_CURVES = 200
DISTINCT_DESIGNS = 32
# A function of the basis is left out where remainder and noise explain all but this share of its variance.
NEGLIGIBLE_SHARE = 0.01
# Curves with less noise than this many times the least have none, and nothing in their tail to be learned.
NOISELESS = 100.0
# How much filling gaps counts beside the evidence when a tail is chosen.
GAPS = 1.0
# The search of a tail: evaluations for each number; where length and smoothness of the remainder and the spread of the
# log-roughness begin, and how far they may go.
EVALUATIONS = 25
START = {"length": 0.2, "smoothness": 1.0, "roughness": 0.4}
LIMITS = {
    name: tuple(np.log(pair))
    for name, pair in {"length": (1e-3, 10.0), "smoothness": (0.2, 10.0), "roughness": (0.02, 2.0)}.items()
}


class Fold(NamedTuple):
    """Curves that fit a base measure, and curves that judge it, on a basis that has not seen the latter."""

    fitted: Projection
    held_out: Projection
    gaps: tuple[Gap, ...] = ()  # of the latter

    def weigh(self, weights: np.ndarray) -> "Fold":
        """The same curves on basis functions multiplied by `weights`."""
        gaps = tuple(gap.weigh(weights) for gap in self.gaps)
        return Fold(self.fitted.weigh(weights), self.held_out.weigh(weights), gaps)


class Tail(NamedTuple):
    """What is beyond the leading coordinates: functions of the basis that are used, remainder, noise, roughness."""

    rank: int
    noise_variance: float
    remainder: Remainder | None = None
    roughness: float = 0.0  # standard deviation of the log-roughness of curves
    protected: int = 1  # the first functions of the basis are never left out

    @property
    def is_plain(self) -> bool:
        """Whether there is neither a remainder nor roughness."""
        return self.remainder is None and not self.roughness

    def weights(self, projection: Projection, outputs: int = 1) -> np.ndarray:
        """Of the functions of a projection, the last of which are a remainder's cosines, if any, for each output.

        The variance that remainder and noise have along a function of the basis is taken off what the curves have
        there: its eigenvalue was estimated from their sum.
        """
        gram = np.average(projection.gram, axis=0, weights=np.bincount(projection.design))
        cosines = np.zeros(0) if self.remainder is None else np.repeat(self.remainder.weights, outputs)
        weights = np.concatenate([np.zeros(projection.rank - len(cosines)), cosines])
        weights[: self.rank] = 1.0
        if not self.is_plain:
            own = np.diagonal(gram)[: self.rank]
            others = gram[: self.rank, projection.rank - len(cosines) :]
            share = (others**2 @ cosines**2 + self.noise_variance * own) / own**2
            left = np.where(np.arange(self.rank) < self.protected, NEGLIGIBLE_SHARE, 0.0)
            weights[: self.rank] = np.sqrt(np.where(share < 1 - NEGLIGIBLE_SHARE, 1 - share, left))
        return weights


@dataclasses.dataclass(frozen=True)
class BaseSearch:
    """The base measures that are tried; one value in a tuple fixes it, no components leave the standard normal.

    Attributes
    ----------
    ranks
        Numbers of functions of the basis.
    noise_variance
        None: chosen too.
    cosines
        The remainder's; they are the last columns of the projections. None: no remainder.
    outputs
        Number of outputs, each with cosines of its own.
    roughness
        Whether curves may differ in roughness.
    leading, components, shrinkages
        Of the mixture.
    """

    ranks: tuple[int, ...]
    noise_variance: float | None = None
    cosines: np.ndarray | None = None
    outputs: int = 1
    roughness: bool = False
    leading: tuple[int, ...] = (10, 6, 16)
    components: tuple[int, ...] = (1, 2, 4, 8, 16)
    shrinkages: tuple[Shrinkage, ...] = (Shrinkage(10.0, 1e-2), Shrinkage(10.0, 1e-4))


class BaseChoice(NamedTuple):
    """The base measure that held-out curves prefer."""

    tail: Tail
    leading: int
    components: int
    shrinkage: Shrinkage
    evidence: float  # held-out nats per curve

    @property
    def rank(self) -> int:
        """Functions of the basis that are used."""
        return self.tail.rank

    @property
    def noise_variance(self) -> float:
        """Of a curve of average roughness."""
        return self.tail.noise_variance


def choose_base(folds: Sequence[Fold], search: BaseSearch) -> BaseChoice:
    """Choose the tail, then the leading coordinates and components of the mixture."""
    return choose_bases(folds, search)[0]


def choose_bases(folds: Sequence[Fold], search: BaseSearch) -> list[BaseChoice]:
    """The base measure of choice and, where that has many components, the best one of two for a tilt to start from."""
    tail = choose_tail(folds, search)
    evidence = float(np.mean(_judge(folds, search, tail)))
    folds = [fold.weigh(tail.weights(fold.fitted, search.outputs)) for fold in folds]
    leading = list(dict.fromkeys(min(tail.rank, wanted) for wanted in search.leading))
    choice = BaseChoice(tail, leading[0], 1, search.shrinkages[0], evidence)
    if not search.components:
        return [choice]
    tried = _mixtures(folds, choice, leading, _affordable(folds, search.components), search.shrinkages)
    best, _ = _simplest(tried, lambda choice: choice.components)
    if best.components <= FEW_COMPONENTS:
        return [best]
    few = [pair for pair in tried if pair[0].components == FEW_COMPONENTS]
    return [best, *(choice for choice, _ in sorted(few, key=lambda pair: -np.mean(pair[1]))[:1])]


def fit_base(projection: Projection, choice: BaseChoice) -> Mixture:
    """The chosen base measure of the leading coordinates, fitted to all curves on the chosen functions."""
    return fit_mixture(
        conjugate.information(projection, choice.noise_variance, choice.leading),
        choice.components,
        roughness=choice.tail.roughness,
        shrinkage=choice.shrinkage,
    )


def as_prior(mixture: Mixture, dim: int) -> MixturePrior:
    """A mixture on the leading coordinates, the roughness behind them, as the prior of a latent of length `dim`."""
    means, factors = mixture.means, mixture.factors
    if mixture.roughness is not None:
        means = np.concatenate([means, mixture.roughness.means[:, None]], axis=1)
        factors = np.pad(factors, ((0, 0), (0, 1), (0, 1)))
        factors[:, -1, -1] = mixture.roughness.scales
    return MixturePrior(mixture.log_weights, means, factors, dim)


def ladder(rank: int) -> tuple[int, ...]:
    """Ranks worth trying up to `rank`, each about a third more than the one before."""
    steps = np.unique(np.round(1.3 ** np.arange(100)).astype(int))
    return (*steps[steps < rank].tolist(), rank)


def choose_noise(projection: Projection) -> float:
    """The noise variance with the largest evidence under standard normal coordinates."""
    (tail, _) = _plain([Fold(projection, projection)], BaseSearch((projection.rank,)))
    return tail.noise_variance


def choose_tail(folds: Sequence[Fold], search: BaseSearch) -> Tail:
    """The simplest tail within one standard error of the best, with the numbers that also fill gaps best."""
    folds = [fold._replace(held_out=_some(fold.held_out)) for fold in folds]
    core = min(fold.fitted.rank for fold in folds) - _cosines(search)
    search = dataclasses.replace(search, ranks=tuple(sorted({min(rank, core) for rank in search.ranks})))
    tried = [_plain(folds, search)]
    if tried[0][0].noise_variance > NOISELESS * NOISE_RANGE[0] * _mean_square(folds):
        for remainder, rough in ((False, True), (True, False), (True, True)):
            if (not remainder or search.cosines is not None) and (not rough or search.roughness):
                tried.append(_enriched(folds, search, tried[0][0], remainder=remainder, rough=rough))
    tail, _ = _simplest(tried, lambda tail: (tail.remainder is not None) + (tail.roughness > 0))
    if not tail.is_plain and all(fold.gaps for fold in folds):
        tail = _refined(folds, search, tail)
    return tail


def _plain(folds: Sequence[Fold], search: BaseSearch) -> tuple[Tail, np.ndarray]:
    """Standard normal coordinates and noise: the best rank and noise."""
    tried = []
    for rank in search.ranks:
        judge = functools.partial(_judge, folds, search)
        if search.noise_variance is not None:
            tail = Tail(rank, search.noise_variance)
        else:
            loss = lambda log_noise: -float(np.mean(judge(Tail(rank, np.exp(log_noise)))))  # noqa: B023, E731
            limits = np.log(NOISE_RANGE) + np.log(_mean_square(folds))
            tail = Tail(rank, float(np.exp(_minimum(loss, *limits))))
        tried.append((tail, judge(tail)))
    return max(tried, key=lambda pair: np.mean(pair[1]))


def _enriched(
    folds: Sequence[Fold], search: BaseSearch, plain: Tail, *, remainder: bool, rough: bool
) -> tuple[Tail, np.ndarray]:
    """The tail with a remainder, roughness or both that has the largest evidence."""
    process = None
    if remainder:
        assert search.cosines is not None
        size = 2 * float(np.sqrt(plain.noise_variance))
        process = Remainder(search.cosines, size, START["length"], START["smoothness"])
    roughness = START["roughness"] if rough else 0.0
    start = Tail(search.ranks[-1], plain.noise_variance, process, roughness, max(*search.leading, TAIL_LEADING))
    tail = _downhill(folds, search, start, lambda tail: _judge(folds, search, tail), step=0.6)
    return tail, _judge(folds, search, tail)


def _refined(folds: Sequence[Fold], search: BaseSearch, tail: Tail) -> Tail:
    """The tail nearby that is best by evidence and gaps together."""

    def both(tail: Tail) -> np.ndarray:
        mixture = Mixture.standard_normal(min(tail.rank, TAIL_LEADING), tail.roughness)
        hidden = [fold.weigh(tail.weights(fold.fitted, search.outputs)) for fold in folds]
        filled = np.concatenate([_filling(fold, tail.noise_variance, mixture) for fold in hidden])
        return np.mean(_judge(folds, search, tail)) + GAPS * filled

    return _downhill(folds, search, tail, both, step=0.3)


def _filling(fold: Fold, noise_variance: float, mixture: Mixture) -> np.ndarray | float:
    """The log-densities of the hidden values of every held-out curve, summed over its gaps."""
    return sum((gaps.log_density(gap, noise_variance, mixture) for gap in fold.gaps), start=0.0)


def _downhill(
    folds: Sequence[Fold], search: BaseSearch, start: Tail, score: Callable[[Tail], np.ndarray], step: float
) -> Tail:
    """The tail with the largest mean score, by a downhill simplex over the logarithms of its free numbers."""
    low, high = 0.5 * (np.log(NOISE_RANGE) + np.log(_mean_square(folds)))
    begin, bounds = [], []
    if search.noise_variance is None:
        begin, bounds = [0.5 * np.log(start.noise_variance)], [(low, high)]
    if start.remainder is not None:
        numbers = start.remainder.size, start.remainder.length, start.remainder.smoothness
        begin += list(np.log(numbers))
        bounds += [(low, high), LIMITS["length"], LIMITS["smoothness"]]
    if start.roughness:
        begin += [np.log(start.roughness)]
        bounds += [LIMITS["roughness"]]

    def tail(numbers: np.ndarray) -> Tail:
        values = iter(np.exp(numbers).tolist())
        noise = start.noise_variance if search.noise_variance is not None else next(values) ** 2
        process = start.remainder and Remainder(start.remainder.orders, next(values), next(values), next(values))
        return start._replace(noise_variance=noise, remainder=process, roughness=start.roughness and next(values))

    limits = np.array(bounds)
    centre = np.clip(begin, limits[:, 0], limits[:, 1])
    steps = np.where(centre + step < limits[:, 1], step, -step)
    simplex = np.clip(centre + np.vstack([0 * centre, np.diag(steps)]), limits[:, 0], limits[:, 1])
    found = scipy.optimize.minimize(
        lambda numbers: -float(np.mean(score(tail(numbers)))),
        centre,
        method="Nelder-Mead",
        bounds=limits,
        options={
            "initial_simplex": simplex,
            "maxfev": EVALUATIONS * len(centre),
            "fatol": 0.01,
            "xatol": 0.03,
        },
    )
    return tail(found.x)


def _judge(folds: Sequence[Fold], search: BaseSearch, tail: Tail) -> np.ndarray:
    """The log evidence of every held-out curve with standard normal leading coordinates, fold after fold."""
    leading = min(tail.rank, TAIL_LEADING)
    mixture = Mixture.standard_normal(leading, tail.roughness)
    parts = []
    for fold in folds:
        weights = tail.weights(fold.fitted, search.outputs)
        observed = conjugate.information(fold.held_out.weigh(weights), tail.noise_variance, leading)
        parts.append(conjugate.condition(mixture, observed).log_evidence)
    return np.concatenate(parts)


def _mixtures(
    folds: Sequence[Fold],
    start: BaseChoice,
    leading: list[int],
    components: list[int],
    shrinkages: tuple[Shrinkage, ...],
) -> list[tuple[BaseChoice, np.ndarray]]:
    """Mixtures and their scores on held-out curves: one thing after the other is varied, from the best so far."""
    known: dict[tuple[int, int, Shrinkage], tuple[float, np.ndarray]] = {}
    noise_variance = start.noise_variance

    def judged(choice: BaseChoice) -> tuple[float, np.ndarray]:
        """Mean evidence, and what is chosen by: evidence and gaps of every held-out curve."""
        place = choice[1:4]
        if place not in known:
            evidence, scores = [], []
            for fold in folds:
                mixture = fit_base(fold.fitted, choice)
                observed = conjugate.information(fold.held_out, noise_variance, choice.leading)
                evidence.append(conjugate.condition(mixture, observed).log_evidence)
                scores.append(evidence[-1] + GAPS * _filling(fold, noise_variance, mixture))
            known[place] = float(np.mean(np.concatenate(evidence))), np.concatenate(scores)
        return known[place]

    score = lambda choice: float(np.mean(judged(choice)[1]))  # noqa: E731
    best = max((start._replace(components=number) for number in components), key=score)
    best = max((best._replace(leading=number) for number in leading), key=score)
    best = max((best._replace(shrinkage=shrinkage) for shrinkage in shrinkages), key=score)
    for number in components:
        judged(best._replace(components=number))
    return [(BaseChoice(start.tail, *place, evidence), scores) for place, (evidence, scores) in known.items()]


def _simplest(tried: Sequence[tuple[T, np.ndarray]], complexity: Callable[[T], int]) -> tuple[T, np.ndarray]:
    """The simplest choice whose evidence is within one standard error of the best, curve by curve.

    What a few components leave unsaid the tilt can say; components that held-out curves hardly ask for only stand
    in its way.
    """
    best = max((evidence for _, evidence in tried), key=np.mean)

    def within(evidence: np.ndarray) -> bool:
        loss = best - evidence
        return float(np.mean(loss)) <= float(np.std(loss)) / np.sqrt(len(loss))

    close = [pair for pair in tried if within(pair[1])]
    return min(close, key=lambda pair: (complexity(pair[0]), -float(np.mean(pair[1]))))


def _minimum(loss: Callable[[float], float], low: float, high: float) -> float:
    """The least of a function of one number: a grid, then a search between the neighbours of its best."""
    grid = np.linspace(low, high, 9)
    values = [loss(value) for value in grid]
    best = int(np.argmin(values))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = scipy.optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.05})
    return float(found.x) if found.fun < values[best] else float(grid[best])


def _some(projection: Projection) -> Projection:
    """The first curves: fewer where every curve has points, and so a factorisation, of its own."""
    limit = TAIL_CURVES if len(projection.gram) <= DISTINCT_DESIGNS else TAIL_CURVES // 4
    return projection.take(np.arange(min(limit, len(projection.size))))


def _cosines(search: BaseSearch) -> int:
    return 0 if search.cosines is None else len(search.cosines) * search.outputs


def _mean_square(folds: Sequence[Fold]) -> float:
    """The mean square of the values about the mean function."""
    square = sum(float(np.sum(fold.fitted.square)) for fold in folds)
    return max(square / sum(int(np.sum(fold.fitted.size)) for fold in folds), np.finfo(float).tiny)


def _affordable(folds: Sequence[Fold], components: tuple[int, ...]) -> list[int]:
    """Numbers of components with at least `CURVES_PER_COMPONENT` curves for each; a single number is obeyed."""
    if len(components) == 1:
        return list(components)
    curves = min(len(fold.fitted.size) for fold in folds)
    return [number for number in components if number == 1 or number * CURVES_PER_COMPONENT <= curves]
