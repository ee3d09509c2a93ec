"""Mean and covariance functions from curves with points of their own, by the likelihood of a mixed model.

y_i = B_i (θ + α_i) + ε, α_i ~ N(0, M), ε ~ N(0, σ²I), B_i a dictionary of smooth functions at the points of
curve i. Then C(s, t) = b(s)ᵀ M b(t), and σ² is what the diagonal of C(s, s) + σ² holds and its neighbourhood
does not. Each curve enters only through B_iᵀB_i and B_iᵀy_i, whatever its length.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from febm.basis.base import Rank, columns_for_share
from febm.basis.dictionary import Dictionary, dictionary_for
from febm.basis.interpolation import extended
from febm.curves import Curves

SIZES = {1: (5, 8, 12, 18, 27, 40, 60), 2: (4, 9, 16, 30, 55, 100)}  # one input, and more
LARGEST = 100  # functions, times outputs
FOLDS = 3
SCORED_CURVES = 400  # the most curves that choose the size
WORK = 2e8  # curves × functions³ that a step may touch; of more curves a random part is used, at least 500
STEPS, SCORING_STEPS, POLISH = 50, 20, 15  # of EM: at last, while choosing, after truncation
TOLERANCE = 1e-5  # nats per value: smaller gains of a step end the iteration
WORTHWHILE = 2e-3  # nats per value that a larger dictionary must gain on held-out curves
NOISE_FLOOR = 1e-8  # of the variance
KEPT_LEVELS = (1.0, 0.1, 0.0)  # candidates for the smallest λ kept, in units of the noise of a score, σ²/m


class Statistics(NamedTuple):
    """All that the likelihood needs of each curve: BᵀB, Bᵀy, yᵀy and how many values."""

    gram: Float[np.ndarray, "curves functions functions"]
    projection: Float[np.ndarray, "curves functions"]
    square: Float[np.ndarray, " curves"]
    values: Float[np.ndarray, " curves"]

    def curves(self, chosen: np.ndarray) -> Statistics:
        """Those of some curves."""
        return Statistics(*(part[chosen] for part in self))

    def functions(self, chosen: np.ndarray) -> Statistics:
        """Those of a smaller dictionary."""
        return Statistics(
            self.gram[:, chosen][:, :, chosen], self.projection[:, chosen], self.square, self.values
        )


class MixedModel(NamedTuple):
    """y = B(θ + L u) + ε with u ~ N(0, I), ε ~ N(0, σ²): M = L Lᵀ."""

    mean: Float[np.ndarray, " functions"]
    factor: Float[np.ndarray, "functions columns"]
    noise: float


class SmoothFunctions(eqx.Module):
    """Columns that are combinations of the functions of a dictionary, asked for anywhere."""

    dictionary: Dictionary
    coefficients: np.ndarray

    def __call__(self, x: Float[np.ndarray, "points inputs"]) -> Float[np.ndarray, "points columns"]:
        """The columns at `x (m, d_x)`: shape `(m, C)`, continuous and finite everywhere."""
        dictionary = self.dictionary
        return extended(
            lambda inside: dictionary.design(inside) @ self.coefficients,
            x,
            dictionary.lower,
            dictionary.upper,
        )


class SmoothEstimate(NamedTuple):
    """Mean coefficients `(K, d_y)`, eigenfunction coefficients `(K, d_y, r)`, eigenvalues and noise."""

    dictionary: Dictionary
    mean: np.ndarray
    eigenvectors: np.ndarray
    eigenvalues: np.ndarray
    noise: float


def smooth_estimate(curves: Curves, generator: np.random.Generator, rank: Rank = None) -> SmoothEstimate:
    """Fit the mixed model; held-out likelihood chooses the size of the dictionary and, if None, the rank."""
    centre = np.nanmean(curves.y, axis=0)
    scale = float(np.sqrt(np.nanmean((curves.y - centre) ** 2)))
    curves = curves.replace(y=(curves.y - centre) / scale)
    spread = np.nanmean(curves.y**2, axis=0)
    sizes = [
        size
        for size in SIZES[min(curves.d_x, 2)]
        if size * curves.d_y <= max(LARGEST, 4 * curves.d_y) and size <= max(4, len(curves.x) // 2)
    ]
    dictionary = dictionary_for(curves, sizes[-1], generator)
    sizes = [size for size in sizes if size < dictionary.size] + [dictionary.size]

    order = generator.permutation(len(curves))
    scored = _statistics(curves[order[:SCORED_CURVES]], dictionary)
    size, level = _choose(scored, dictionary, sizes, spread)
    dictionary = dictionary.leading(size)
    enough = max(500, int(WORK / (size * curves.d_y) ** 3))
    statistics = _statistics(curves[order[:enough]], dictionary)
    model = fit_mixed_model(statistics, _start(dictionary, spread, statistics))
    if rank is None:
        model = _without_weak(model, statistics, level)
    else:
        spectrum = np.linalg.svd(model.factor, compute_uv=False) ** 2
        model = _truncated(model, statistics, leading_columns(spectrum, rank))

    vectors, roots, _ = np.linalg.svd(model.factor, full_matrices=False)
    eigenvalues = roots**2 * len(statistics.values) / (len(statistics.values) - 1)
    kept = eigenvalues > 1e-12 * eigenvalues[0]
    mean = scale * model.mean.reshape(curves.d_y, size).T
    mean[0] += centre  # the first function is the constant
    return SmoothEstimate(
        dictionary,
        mean,
        vectors[:, kept].reshape(curves.d_y, size, -1).transpose(1, 0, 2),
        scale**2 * eigenvalues[kept],
        scale**2 * model.noise,
    )


def fit_mixed_model(statistics: Statistics, model: MixedModel, steps: int = STEPS) -> MixedModel:
    """Raise the likelihood by EM steps from `model`; M keeps to the span of its factor.

    Few steps from a smooth start are a regularisation as well: directions of which the curves say
    nothing keep the smooth variance they started with.
    """
    last = -np.inf
    for _ in range(steps):
        gained = _posterior(statistics, model)
        likelihood = gained.log_density.sum() / statistics.values.sum()
        if likelihood - last < TOLERANCE:
            break
        last = likelihood
        # θ absorbs the average of the α_i, which the plain EM step would move there only slowly.
        shift = gained.mean.mean(axis=0)
        covariance = gained.covariance.mean(axis=0) + gained.mean.T @ gained.mean / len(gained.mean)
        covariance -= np.outer(shift, shift)
        noise = max(float(gained.residual.sum() / statistics.values.sum()), NOISE_FLOOR)
        model = MixedModel(model.mean + model.factor @ shift, model.factor @ _root(covariance), noise)
    return model


def leading_columns(spectrum: np.ndarray, rank: int | float) -> int:
    """How many of the eigenvalues a rank, or a share of the variance, keeps."""
    return columns_for_share(spectrum, rank) if isinstance(rank, float) else min(rank, len(spectrum))


class _Posterior(NamedTuple):
    mean: np.ndarray
    covariance: np.ndarray
    residual: np.ndarray  # E‖y − B(θ + Lu)‖²
    log_density: np.ndarray


def _posterior(statistics: Statistics, model: MixedModel) -> _Posterior:
    """Law of u given each curve: A⁻¹Lᵀr/σ² and A⁻¹ with A = I + LᵀGL/σ², r = Bᵀ(y − Bθ); and log p(y)."""
    gram, projection, square, count = statistics
    remaining = (projection - gram @ model.mean) @ model.factor
    size = square - (2 * projection - gram @ model.mean) @ model.mean
    inner = model.factor.T @ gram @ model.factor
    precision = np.eye(inner.shape[1]) + inner / model.noise
    covariance = np.linalg.inv(precision)
    mean = np.einsum("nab,nb->na", covariance, remaining) / model.noise
    explained = np.einsum("na,na->n", mean, remaining)
    residual = (
        size - 2 * explained + np.einsum("nab,nab->n", inner, covariance + mean[:, :, None] * mean[:, None])
    )
    log_density = -0.5 * (
        (size - explained) / model.noise
        + count * np.log(2 * np.pi * model.noise)
        + np.linalg.slogdet(precision)[1]
    )
    return _Posterior(mean, covariance, residual, log_density)


def _choose(
    statistics: Statistics, dictionary: Dictionary, sizes: list[int], spread: np.ndarray
) -> tuple[int, float]:
    """Size of the dictionary and smallest eigenvalue to keep, by the likelihood of held-out curves."""
    n = len(statistics.values)
    fold_of = np.arange(n) % min(FOLDS, n)
    folds = [
        (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in np.unique(fold_of)
    ]
    best, best_score, best_fits, worse = sizes[0], -np.inf, [], 0
    for size in sizes:
        smaller = _sub_statistics(statistics, dictionary, size, len(spread))
        start = _start(dictionary.leading(size), spread, smaller)
        fits = [fit_mixed_model(smaller.curves(train), start, SCORING_STEPS) for train, _ in folds]
        score = sum(_score(smaller.curves(held), fit) for fit, (_, held) in zip(fits, folds, strict=True))
        if score > best_score + WORTHWHILE * statistics.values.sum():
            best, best_score, best_fits, worse = size, score, fits, 0
        else:
            worse += 1
        if worse == 2:
            break
    smaller = _sub_statistics(statistics, dictionary, best, len(spread))
    scores = []
    for level in KEPT_LEVELS:
        pairs = zip(best_fits, folds, strict=True)
        scores.append(
            sum(
                _score(smaller.curves(held), _without_weak(fit, smaller.curves(train), level))
                for fit, (train, held) in pairs
            )
        )
    return best, KEPT_LEVELS[int(np.argmax(scores))]


def _score(held: Statistics, model: MixedModel) -> float:
    return float(_posterior(held, model).log_density.sum())


def _without_weak(model: MixedModel, statistics: Statistics, level: float) -> MixedModel:
    """Drop eigenfunctions whose variance is below `level` times the noise of a score, and settle again."""
    if level == 0:
        return model
    spectrum = np.linalg.svd(model.factor, compute_uv=False) ** 2
    strong = np.count_nonzero(spectrum >= level * model.noise / statistics.values.mean())
    return _truncated(model, statistics, max(int(strong), 1))


def _truncated(model: MixedModel, statistics: Statistics, rank: int) -> MixedModel:
    """Keep the leading eigenfunctions and let the noise take in the others."""
    vectors, roots, _ = np.linalg.svd(model.factor, full_matrices=False)
    if rank >= len(roots):
        return model
    return fit_mixed_model(statistics, model._replace(factor=(vectors * roots)[:, :rank]), POLISH)


def _start(dictionary: Dictionary, spread: np.ndarray, statistics: Statistics) -> MixedModel:
    """A smooth process of the observed size; a mean by penalised least squares, every curve counting once."""
    smooth = np.concatenate([dictionary.decay * share / dictionary.decay.sum() for share in spread])
    smooth = np.maximum(smooth, 1e-6)
    weight = 1 / statistics.values
    normal = np.einsum("n,nab->ab", weight, statistics.gram) + np.diag(1e-2 / smooth)
    mean = np.linalg.solve(normal, weight @ statistics.projection)
    return MixedModel(mean, np.diag(np.sqrt(smooth)), 0.1)


def _statistics(curves: Curves, dictionary: Dictionary) -> Statistics:
    n, size, d_y = len(curves), dictionary.size, curves.d_y
    gram, projection = np.zeros((n, d_y * size, d_y * size)), np.zeros((n, d_y * size))
    observed = ~np.isnan(curves.y)
    values = np.where(observed, curves.y, 0.0)
    for i, (start, stop) in enumerate(zip(curves.offsets[:-1], curves.offsets[1:], strict=True)):
        functions = dictionary(curves.x[start:stop])
        for output in range(d_y):
            rows = observed[start:stop, output]
            block = slice(output * size, (output + 1) * size)
            gram[i, block, block] = functions[rows].T @ functions[rows]
            projection[i, block] = values[start:stop, output] @ functions
    square = np.add.reduceat((values**2).sum(axis=1), curves.offsets[:-1])
    count = np.add.reduceat(observed.sum(axis=1), curves.offsets[:-1]).astype(np.float64)
    return Statistics(gram, projection, square, count)


def _sub_statistics(statistics: Statistics, dictionary: Dictionary, size: int, d_y: int) -> Statistics:
    return statistics.functions((np.arange(d_y)[:, None] * dictionary.size + np.arange(size)).ravel())


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
