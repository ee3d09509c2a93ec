"""Functional PCA of curves that share their points: the spectrum of their covariance.

With quadrature weights w of sum 1, λ and e solve Σ_t w_t C(s, t) e(t) = λ e(s), Σ_t w_t e(t)² = 1, where C
divides by n − 1. Missing values are filled in by the law of a factor model, y = μ + Lu + ε, fitted by EM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

FACTORS = 50  # the most columns of L
FACTOR_CURVES = 2000  # the most curves that L is fitted to
STEPS = 40
TOLERANCE = 1e-3  # relative change of σ² that ends the iteration
NOISE_FLOOR = 1e-8  # of the variance
NEGLIGIBLE = 1e-13  # of the largest eigenvalue: rounding
EXACT_SIZE = 4_000_000  # entries up to which singular values are worth their time; beyond, the smaller Gram matrix

Table = Float[np.ndarray, "curves values"]


class Eigenpairs(NamedTuple):
    """Mean `(p,)`, eigenvectors e `(p, r)` and falling eigenvalues λ `(r,)`."""

    mean: np.ndarray
    vectors: np.ndarray
    values: np.ndarray


def grid_eigenpairs(
    table: Table,
    weights: Float[np.ndarray, " values"],
    generator: np.random.Generator,
    covariance_of: Callable[[Table, np.ndarray], np.ndarray] | None = None,
) -> Eigenpairs:
    """Eigenpairs of the sample covariance of the rows, or of another; NaN is missing.

    `covariance_of` gets the centred rows, and what has to be added to their covariance for missing values.
    """
    root, missing = np.sqrt(weights), np.isnan(table).any()
    if missing or covariance_of is not None:
        mean, centred, unknown = filled_in(table, generator) if missing else _nothing_missing(table)
        covariance = (covariance_of or _sample_covariance)(centred, unknown)
        values, vectors = scipy.linalg.eigh(covariance * root * root[:, None])
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        mean = table.mean(axis=0)
        values, vectors = _complete_eigenpairs((table - mean) * root / np.sqrt(len(table) - 1))
    kept = values > NEGLIGIBLE * max(values[0], 0.0)
    return Eigenpairs(mean, vectors[:, kept] / root[:, None], values[kept])


def streamed_eigenpairs(blocks: Callable[[], Iterable[Table]], weights: Float[np.ndarray, " values"]) -> Eigenpairs:
    """The same of rows without gaps, and more of them than values, that `blocks` gives some at a time, twice."""
    root, total, rows = np.sqrt(weights), np.zeros(len(weights)), 0
    for table in blocks():
        total, rows = total + table.sum(axis=0), rows + len(table)
    mean, scatter = total / rows, np.zeros((len(weights), len(weights)))
    for table in blocks():
        centred = (table - mean) * root
        scatter += centred.T @ centred
    values, vectors = scipy.linalg.eigh(scatter / (rows - 1))
    kept = values > NEGLIGIBLE * max(values[-1], 0.0)
    return Eigenpairs(mean, vectors[:, kept][:, ::-1] / root[:, None], values[kept][::-1])


def _complete_eigenpairs(table: Table) -> tuple[np.ndarray, np.ndarray]:
    n, p = table.shape
    if table.size <= EXACT_SIZE:
        _, roots, vectors = scipy.linalg.svd(table, full_matrices=False)
        return roots**2, vectors.T
    values, vectors = scipy.linalg.eigh(table.T @ table if p <= n else table @ table.T)
    values, vectors = values[::-1], vectors[:, ::-1]
    if p > n:
        kept = values > NEGLIGIBLE * values[0]
        values, vectors = values[kept], table.T @ (vectors[:, kept] / np.sqrt(values[kept]))
    return values, vectors


def _sample_covariance(centred: Table, unknown: np.ndarray) -> np.ndarray:
    return centred.T @ centred / (len(centred) - 1) + unknown


def _nothing_missing(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean = table.mean(axis=0)
    return mean, table - mean, np.zeros((len(mean), len(mean)))


def filled_in(table: Table, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of rows with missing values, the centred rows, and what their covariance lacks.

    A factor model says what the missing values are likely to be; the covariance is then that of the rows so
    filled, plus what remains unknown of them. With a fifth of the values missing, its distance to the complete
    data's covariance is a third (rough or noisy curves) to a hundredth or less (smooth ones) of that of the
    covariance of the pairs that are there.
    """
    n, p = table.shape
    observed = ~np.isnan(table)
    centre = np.nanmean(table, axis=0)
    values = np.where(observed, table - centre, 0.0)
    chosen = generator.permutation(n)[:FACTOR_CURVES]
    model = _fit_factors(values[chosen], observed[chosen].astype(np.float64))

    filled = np.empty((n, p))
    unknown = np.zeros((model.factor.shape[1],) * 2)
    for start in range(0, n, FACTOR_CURVES):
        rows = slice(start, start + FACTOR_CURVES)
        scores, covariance = _scores(values[rows], observed[rows].astype(np.float64), model)
        filled[rows] = np.where(observed[rows], values[rows], model.mean + scores @ model.factor.T)
        unknown += covariance.sum(axis=0) / n
    shift = filled.mean(axis=0)
    filled -= shift
    missing = (~observed).astype(np.float64)
    together = missing.T @ missing
    # The product of two positive semi-definite matrices, entry by entry, is one again.
    uncertain = together * (model.factor @ unknown @ model.factor.T) + np.diag(missing.sum(axis=0) * model.noise)
    return centre + shift, filled, uncertain / (n - 1)


class _Factors(NamedTuple):
    mean: np.ndarray
    factor: np.ndarray
    noise: float


def _fit_factors(values: Table, observed: Table) -> _Factors:
    """EM for y = μ + Lu + ε, u ~ N(0, I), on the observed values; start from the pairs seen together."""
    n, p = values.shape
    rank = max(1, min(FACTORS, n // 2, p // 2))
    variance = (values**2).sum() / observed.sum()
    pairs = (values.T @ values) / np.maximum(observed.T @ observed, 1.0)
    spectrum, vectors = scipy.linalg.eigh(pairs, subset_by_index=(p - rank, p - 1))
    factor = vectors * np.sqrt(np.maximum(spectrum, 1e-6 * variance))
    model = _Factors(np.zeros(p), factor, max((np.trace(pairs) - spectrum.sum()) / p, 1e-2 * variance))
    identity = np.eye(rank)
    for _ in range(STEPS):
        scores, covariance = _scores(values, observed, model)
        second = covariance + scores[:, :, None] * scores[:, None]
        # Every output value has a regression of its own on (u, 1), over the curves where it was observed.
        moments = np.empty((p, rank + 1, rank + 1))
        moments[:, :rank, :rank] = (observed.T @ second.reshape(n, -1)).reshape(p, rank, rank)
        moments[:, rank, :rank] = moments[:, :rank, rank] = observed.T @ scores
        moments[:, rank, rank] = observed.sum(axis=0)
        target = np.column_stack([values.T @ scores, values.sum(axis=0)])
        ridge = 1e-9 * np.trace(moments, axis1=1, axis2=2)[:, None, None] * np.eye(rank + 1)
        solution = np.linalg.solve(moments + ridge, target[:, :, None])[:, :, 0]
        residual = (values**2).sum() - 2 * (solution * target).sum()
        residual += np.einsum("pa,pab,pb->", solution, moments, solution)
        noise = max(float(residual / observed.sum()), NOISE_FLOOR * variance)
        # u is brought back to mean zero and unit covariance, which speeds EM up.
        centre = scores.mean(axis=0)
        spread = np.linalg.cholesky(second.mean(axis=0) - np.outer(centre, centre) + 1e-12 * identity)
        change = abs(noise / model.noise - 1)
        model = _Factors(solution[:, rank] + solution[:, :rank] @ centre, solution[:, :rank] @ spread, noise)
        if change < TOLERANCE:
            break
    return model


def _scores(values: Table, observed: Table, model: _Factors) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of u given each row's observed values."""
    p, rank = model.factor.shape
    squares = (model.factor[:, :, None] * model.factor[:, None]).reshape(p, -1)
    precision = np.eye(rank) + (observed @ squares).reshape(-1, rank, rank) / model.noise
    covariance = np.linalg.inv(precision)
    remaining = (values - observed * model.mean) @ model.factor
    return np.einsum("nab,nb->na", covariance, remaining) / model.noise, covariance
