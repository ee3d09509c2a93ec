"""Mean and covariance functions from curves with points of their own, by the likelihood of a mixed model.

y_i = B_i (θ + α_i) + ε, α_i ~ N(0, M), ε ~ N(0, σ²I), B_i a dictionary of smooth functions at the points of
curve i. Then C(s, t) = b(s)ᵀ M b(t), and σ² is what the diagonal of the covariance holds and its
neighbourhood does not. Long curves enter through the triangular factor of B_i, no larger than the dictionary.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import numpy as np
import scipy.linalg
from jaxtyping import Float

from febm.basis.base import Rank, columns_for_share
from febm.basis.dictionary import Dictionary, dictionary_for
from febm.basis.interpolation import extended
from febm.curves import Curves

SIZES = {1: (5, 8, 12, 18, 27, 40, 60), 2: (4, 9, 16, 30, 55, 100)}  # one input, and more
LARGEST = 100  # functions, times outputs
FOLDS = 3
SCORED_CURVES = 400  # the most curves that choose the size
WORK = 2e8  # curves × points × functions² in a step; of more curves a random part is used, at least 500
STEPS, SCORING_STEPS, POLISH = 50, 20, 15  # of EM: at last, while choosing, after truncation
TOLERANCE = 1e-5  # nats per value: smaller gains of a step end the iteration
WORTHWHILE = 2e-3  # nats per held-out value that a larger dictionary or rank must gain
NOISE_FLOOR = 1e-8  # of the variance
KEPT_LEVELS = (1.0, 0.1, 0.0)  # candidates for the smallest λ kept, in units of the noise of a score, σ²/m


class Statistics(NamedTuple):
    """All that the likelihood needs of each curve: B = QR, the length of y along Q and off it.

    Rows of zeros fill curves up to the same number of rows; the equations below need no mask for them.
    """

    design: Float[np.ndarray, "curves rows functions"]  # R
    target: Float[np.ndarray, "curves rows"]  # Qᵀy
    remainder: Float[np.ndarray, " curves"]  # ‖y‖² − ‖Qᵀy‖²
    values: Float[np.ndarray, " curves"]  # how many

    def curves(self, chosen: np.ndarray) -> Statistics:
        """Those of some curves."""
        return Statistics(*(part[chosen] for part in self))

    def functions(self, chosen: np.ndarray) -> Statistics:
        """Those of a smaller dictionary."""
        design = self.design[:, :, chosen]
        if design.shape[1] <= len(chosen):
            return self._replace(design=design)
        directions, design = np.linalg.qr(design)
        target = np.einsum("nqr,nq->nr", directions, self.target)
        off = (self.target**2).sum(axis=1) - (target**2).sum(axis=1)
        return Statistics(design, target, self.remainder + np.maximum(off, 0.0), self.values)


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
    smallest, *larger = SIZES[min(curves.d_x, 2)]
    limit = min(LARGEST // curves.d_y, len(curves.x) // 2)
    sizes = [smallest] + [size for size in larger if size <= limit]
    dictionary = dictionary_for(curves, sizes[-1], generator)
    sizes = [size for size in sizes if size < dictionary.size] + [dictionary.size]

    order = generator.permutation(len(curves))
    scored = _statistics(curves[order[:SCORED_CURVES]], dictionary)
    size, level = _choose(scored, dictionary, sizes, spread)
    dictionary = dictionary.leading(size)
    functions = size * curves.d_y
    points = min(int(curves.lengths.max()) * curves.d_y, functions)
    enough = max(500, int(WORK / (points * functions**2)))
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
        covariance = gained.covariance + gained.mean.T @ gained.mean / len(gained.mean)
        covariance -= np.outer(shift, shift)
        noise = max(float(gained.residual.sum() / statistics.values.sum()), NOISE_FLOOR)
        model = MixedModel(model.mean + model.factor @ shift, model.factor @ _root(covariance), noise)
    return model


def leading_columns(spectrum: np.ndarray, rank: int | float) -> int:
    """How many of the eigenvalues a rank, or a share of the variance, keeps."""
    return columns_for_share(spectrum, rank) if isinstance(rank, float) else min(rank, len(spectrum))


class _Posterior(NamedTuple):
    mean: np.ndarray  # of u, for each curve
    covariance: np.ndarray  # of u, averaged over the curves
    residual: np.ndarray  # E‖y − B(θ + Lu)‖²
    log_density: np.ndarray


def _posterior(statistics: Statistics, model: MixedModel) -> _Posterior:
    """Law of u given each curve, and log p(y), by V = KKᵀ + σ²I with K = RL and a = V⁻¹(Qᵀy − Rθ).

    E u = Kᵀa, Cov u = I − KᵀV⁻¹K, the residual is σ²a and its expected square σ⁴‖a‖² + σ² tr(I − σ²V⁻¹).
    """
    design, target, remainder, values = statistics
    n, rows, _ = design.shape
    difference = target - design @ model.mean
    loadings = design @ model.factor
    marginal = loadings @ loadings.transpose(0, 2, 1) + model.noise * np.eye(rows)
    precision = np.linalg.inv(marginal)
    weighted = np.einsum("nab,nb->na", precision, difference)
    mean = np.einsum("nak,na->nk", loadings, weighted)
    explained = loadings.reshape(n * rows, -1).T @ (precision @ loadings).reshape(n * rows, -1) / n
    residual = remainder + model.noise**2 * (weighted**2).sum(axis=1)
    residual += model.noise * (rows - model.noise * np.trace(precision, axis1=1, axis2=2))
    log_density = -0.5 * (
        np.einsum("na,na->n", difference, weighted)
        + remainder / model.noise
        + np.linalg.slogdet(marginal)[1]
        + (values - rows) * np.log(model.noise)
        + values * np.log(2 * np.pi)
    )
    return _Posterior(mean, np.eye(mean.shape[1]) - explained, residual, log_density)


def _choose(statistics: Statistics, dictionary: Dictionary, sizes: list[int], spread: np.ndarray) -> tuple[int, float]:
    """Size of the dictionary and smallest eigenvalue to keep, by the likelihood of held-out curves."""
    n = len(statistics.values)
    fold_of = np.arange(n) % min(FOLDS, n)
    folds = [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in np.unique(fold_of)]
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
    enough = max(scores) - WORTHWHILE * statistics.values.sum()
    return best, next(level for level, score in zip(KEPT_LEVELS, scores, strict=True) if score >= enough)


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
    rows = statistics.design.reshape(-1, len(smooth))
    weighted = (statistics.design * weight[:, None, None]).reshape(rows.shape)
    mean = np.linalg.solve(weighted.T @ rows + np.diag(1e-2 / smooth), weighted.T @ statistics.target.ravel())
    return MixedModel(mean, np.diag(np.sqrt(smooth)), 0.1)


def _statistics(curves: Curves, dictionary: Dictionary) -> Statistics:
    n, size, d_y = len(curves), dictionary.size, curves.d_y
    observed = ~np.isnan(curves.y)
    values = np.add.reduceat(observed.sum(axis=1), curves.offsets[:-1])
    rows = min(int(values.max()), d_y * size)
    design, target = np.zeros((n, rows, d_y * size)), np.zeros((n, rows))
    for i, (start, stop) in enumerate(zip(curves.offsets[:-1], curves.offsets[1:], strict=True)):
        functions = dictionary(curves.x[start:stop])
        seen = [observed[start:stop, output] for output in range(d_y)]
        blocks = scipy.linalg.block_diag(*(functions[rows] for rows in seen))
        y = np.concatenate([curves.y[start:stop, output][rows] for output, rows in enumerate(seen)])
        if len(y) > rows:
            directions, blocks = np.linalg.qr(blocks)
            y = directions.T @ y
        design[i, : len(y)], target[i, : len(y)] = blocks, y
    square = np.add.reduceat(np.where(observed, curves.y**2, 0.0).sum(axis=1), curves.offsets[:-1])
    remainder = np.maximum(square - (target**2).sum(axis=1), 0.0)
    return Statistics(design, target, remainder, values.astype(np.float64))


def _sub_statistics(statistics: Statistics, dictionary: Dictionary, size: int, d_y: int) -> Statistics:
    return statistics.functions((np.arange(d_y)[:, None] * dictionary.size + np.arange(size)).ravel())


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
