"""What is beyond the leading coordinates of a linear model, chosen by what held-out curves say.

How many functions of the basis are used, the remainder beside them, the noise, and whether curves differ in roughness:
all by the exact evidence (`conjugate`) of curves that the basis has not seen, and by the errors with which parts of
them are filled in (`gaps`).
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

T = TypeVar("T")

# Shares of the mean square of the values: less noise is below what float64 algebra can tell from none.
NOISE_RANGE = (1e-8, 1.0)
# The tail is chosen with so many standard normal coordinates in front of it, and by so many held-out curves a fold.
TAIL_LEADING = 8
TAIL_CURVES = 200
DISTINCT_DESIGNS = 32
# A function of the basis is left out where remainder and noise explain all but this share of its variance.
NEGLIGIBLE_SHARE = 0.01
# Curves with less noise than this many times the least have none, and nothing in their tail to be learned.
NOISELESS = 100.0
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
class TailSearch:
    """The tails that are tried; one rank fixes it.

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
    protected
        So many of the first functions are never left out: there may be a mixture on them.
    """

    ranks: tuple[int, ...]
    noise_variance: float | None = None
    cosines: np.ndarray | None = None
    outputs: int = 1
    roughness: bool = False
    protected: int = 16


def ladder(rank: int) -> tuple[int, ...]:
    """Ranks worth trying up to `rank`, each about a third more than the one before."""
    steps = np.unique(np.round(1.3 ** np.arange(100)).astype(int))
    return (*steps[steps < rank].tolist(), rank)


def choose_noise(projection: Projection) -> float:
    """The noise variance with the largest evidence under standard normal coordinates."""
    (tail, _) = _plain([Fold(projection, projection)], TailSearch((projection.rank,)))
    return tail.noise_variance


def choose_tail(folds: Sequence[Fold], search: TailSearch) -> Tail:
    """The simplest tail within one standard error of the best, with the numbers that also fill gaps best."""
    folds = [fold._replace(held_out=_some(fold.held_out)) for fold in folds]
    core = min(fold.fitted.rank for fold in folds) - _cosines(search)
    search = dataclasses.replace(search, ranks=tuple(sorted({min(rank, core) for rank in search.ranks})))
    tried = [_plain(folds, search)]
    if tried[0][0].noise_variance > NOISELESS * NOISE_RANGE[0] * _mean_square(folds):
        for remainder, rough in ((False, True), (True, False), (True, True)):
            if (not remainder or search.cosines is not None) and (not rough or search.roughness):
                tried.append(_enriched(folds, search, tried[0][0], remainder=remainder, rough=rough))
    tail, _ = simplest(tried, lambda tail: (tail.remainder is not None) + (tail.roughness > 0))
    if not tail.is_plain and all(fold.gaps for fold in folds):
        tail = _refined(folds, search, tail)
    return tail


def tail_evidence(folds: Sequence[Fold], search: TailSearch, tail: Tail) -> np.ndarray:
    """The log evidence of every held-out curve with standard normal leading coordinates, fold after fold."""
    leading = min(tail.rank, TAIL_LEADING)
    mixture = Mixture.standard_normal(leading, tail.roughness)
    parts = []
    for fold in folds:
        weights = tail.weights(fold.fitted, search.outputs)
        observed = conjugate.information(fold.held_out.weigh(weights), tail.noise_variance, leading)
        parts.append(conjugate.condition(mixture, observed).log_evidence)
    return np.concatenate(parts)


def gap_errors(folds: Sequence[Fold], search: TailSearch, tail: Tail) -> np.ndarray:
    """The mean squared errors in the gaps of held-out curves, fold after fold, with the same leading coordinates."""
    return _over_gaps(folds, search, tail, lambda *given: gaps.fill(*given).squared_error)


def simplest(tried: Sequence[tuple[T, np.ndarray]], complexity: Callable[[T], int]) -> tuple[T, np.ndarray]:
    """The simplest choice whose score is within one standard error of the best, curve by curve.

    What a few components leave unsaid the tilt can say; components that held-out curves hardly ask for only stand
    in its way.
    """
    best = max((scores for _, scores in tried), key=np.mean)

    def within(scores: np.ndarray) -> bool:
        loss = best - scores
        return float(np.mean(loss)) <= float(np.std(loss)) / np.sqrt(len(loss))

    close = [pair for pair in tried if within(pair[1])]
    return min(close, key=lambda pair: (complexity(pair[0]), -float(np.mean(pair[1]))))


def _plain(folds: Sequence[Fold], search: TailSearch) -> tuple[Tail, np.ndarray]:
    """Standard normal coordinates and noise: the best rank and noise."""
    tried = []
    for rank in search.ranks:
        judge = functools.partial(tail_evidence, folds, search)
        if search.noise_variance is not None:
            tail = Tail(rank, search.noise_variance)
        else:
            loss = lambda log_noise: -float(np.mean(judge(Tail(rank, np.exp(log_noise)))))  # noqa: B023, E731
            limits = np.log(NOISE_RANGE) + np.log(_mean_square(folds))
            tail = Tail(rank, float(np.exp(_minimum(loss, *limits))))
        tried.append((tail, judge(tail)))
    return max(tried, key=lambda pair: np.mean(pair[1]))


def _enriched(
    folds: Sequence[Fold], search: TailSearch, plain: Tail, *, remainder: bool, rough: bool
) -> tuple[Tail, np.ndarray]:
    """The tail with a remainder, roughness or both that has the largest evidence."""
    process = None
    if remainder:
        assert search.cosines is not None
        size = 2 * float(np.sqrt(plain.noise_variance))
        process = Remainder(search.cosines, size, START["length"], START["smoothness"])
    roughness = START["roughness"] if rough else 0.0
    start = Tail(search.ranks[-1], plain.noise_variance, process, roughness, search.protected)
    tail = _downhill(folds, search, start, lambda tail: tail_evidence(folds, search, tail), step=0.6)
    return tail, tail_evidence(folds, search, tail)


def _refined(folds: Sequence[Fold], search: TailSearch, tail: Tail) -> Tail:
    """The tail nearby that is best by evidence and by its errors in gaps together."""

    def both(tail: Tail) -> np.ndarray:
        likelihoods = _over_gaps(folds, search, tail, gaps.error_likelihood)
        return tail_evidence(folds, search, tail) + np.sum(likelihoods) / len(folds)

    return _downhill(folds, search, tail, both, step=0.3)


def _over_gaps(
    folds: Sequence[Fold], search: TailSearch, tail: Tail, judge: Callable[[Gap, float, Mixture], float]
) -> np.ndarray:
    mixture = Mixture.standard_normal(min(tail.rank, TAIL_LEADING), tail.roughness)
    weighed = [fold.weigh(tail.weights(fold.fitted, search.outputs)) for fold in folds]
    return np.array([judge(gap, tail.noise_variance, mixture) for fold in weighed for gap in fold.gaps])


def _downhill(
    folds: Sequence[Fold],
    search: TailSearch,
    start: Tail,
    score: Callable[[Tail], np.ndarray],
    step: float,
    roughness: bool = True,
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


def _cosines(search: TailSearch) -> int:
    return 0 if search.cosines is None else len(search.cosines) * search.outputs


def _mean_square(folds: Sequence[Fold]) -> float:
    """The mean square of the values about the mean function, of all curves: the least noise is a share of it."""
    parts = [part for fold in folds for part in (fold.fitted, fold.held_out)]
    square = sum(float(np.sum(part.square)) for part in parts)
    return max(square / sum(int(np.sum(part.size)) for part in parts), np.finfo(float).tiny)
