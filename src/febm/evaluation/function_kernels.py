"""Kernels between functions on a mesh: k(f, g) = exp(−‖Tf − Tg‖²/2γ²), γ the median of the pooled distances.

id        Tf = f.
fpca      Tf = Σ √λ_i ⟨f, e_i⟩ e_i, with the pooled sample's principal components up to 95 % of its variance.
sqr       Tf = (f, f²), a bandwidth for each: k = exp(−‖f − g‖²/2γ₁² − ‖f² − g²‖²/2γ₂²).
cexp      Tf(s) = ∫ κ(s, t) f(t) dt, κ = [Σ_{k<20} cos 2πk(s − t)]·exp(−(s − t)²/20) on the domain scaled to [0, 1].
whitened  Tf = the scores on the pooled principal components up to 99 % of the variance, each of variance 1.
cov       k(f, g) = ⟨f, g⟩² instead: second moments only, no bandwidth. They are raw moments, not about the mean: a
          large level that all curves have hides how they differ, so subtract the mean of the pooled curves first.

Functions are divided by a power of two near their largest value before any of this, so that no product of values leaves
the range of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from febm.evaluation.mesh import (
    OnMesh,
    embedded,
    functions_of_unit_size,
    leading,
    principal_components,
    principal_scores,
    unit_size,
)

Bandwidth: TypeAlias = "float | tuple[float, float] | None"
FunctionKernel: TypeAlias = "str | Callable[[np.ndarray, np.ndarray], Any]"
Coordinates: TypeAlias = Float[np.ndarray, "curves coordinates"]

FPCA_SHARE = 0.95
FREQUENCIES = 20
CEXP_VARIANCE = 10.0
# Whitened curves in as many dimensions as there are curves are all equally far apart; with four curves or more to a
# dimension their distances still say something.
CURVES_PER_DIMENSION = 4
ROUNDING = 1e-14  # of the squared norms: squared distances below are 0


class Gram(NamedTuple):
    """The kernel between all pairs of the pooled curves, and the bandwidth that it used.

    The kernel is `matrix` · 2**exponent.
    """

    matrix: Float[np.ndarray, "curves curves"]
    bandwidth: Bandwidth
    exponent: int = 0


def gram_matrix(kernel: FunctionKernel, functions: OnMesh, owner: str) -> Gram:
    """The Gram matrix of all samples together; what it estimates, it estimates from them together."""
    if callable(kernel):
        (matrix,), exponent = unit_size(_called(kernel, functions, owner))
        return Gram(matrix, None, exponent)
    functions, exponent = functions_of_unit_size(functions)
    definition = KERNELS[kernel]
    gram = definition.gram(functions)
    return Gram(
        gram.matrix,
        _in_own_units(gram.bandwidth, definition.bandwidth_degrees, exponent),
        definition.degree * exponent,
    )


def check_kernel(kernel: Any, owner: str) -> str:
    """The name of a kernel, or of the function that is one."""
    if callable(kernel):
        return getattr(kernel, "__name__", type(kernel).__name__)
    if not isinstance(kernel, str) or kernel not in KERNELS:
        names = ", ".join(f"'{name}'" for name in KERNELS)
        raise ValueError(f"{owner}: kernel is {kernel!r}; give one of {names}, or a function of two arrays of curves.")
    return kernel


def scaled_to_one(functions: OnMesh) -> Coordinates:
    """Principal scores of variance 1, in few enough dimensions for distances to differ."""
    size = sum(len(values) for values in functions.values)
    return np.concatenate(principal_scores(functions, largest_rank=size // CURVES_PER_DIMENSION))


def squared_distances(coordinates: Coordinates) -> Float[np.ndarray, "curves curves"]:
    """Squared Euclidean distances; exactly zero between points that are the same but for rounding."""
    centred = coordinates - coordinates.mean(axis=0)
    products = centred @ centred.T
    norms = np.diagonal(products).copy()
    squared = norms[:, None] + norms
    floor = ROUNDING * squared
    # The mean of equal numbers may differ from them in the last digit.
    floor += coordinates.shape[1] * np.square(1e-15 * np.abs(coordinates).max())
    products *= -2.0
    squared += products
    squared[squared <= floor] = 0.0
    np.fill_diagonal(squared, 0.0)
    return squared


def median_distance(squared: Float[np.ndarray, "curves curves"]) -> float:
    """The median of the distances that are not zero; 0 if all are."""
    # Every pair counts twice here, which leaves the median what it is.
    apart = squared[squared > 0]
    return float(np.median(np.sqrt(apart, out=apart), overwrite_input=True)) if len(apart) else 0.0


def gaussian(squared: Float[np.ndarray, "curves curves"], bandwidth: float) -> Float[np.ndarray, "curves curves"]:
    """exp(−d²/2γ²), in place; 1 everywhere for curves that are all the same."""
    squared *= -0.5 / bandwidth**2 if bandwidth > 0 else 0.0
    return np.exp(squared, out=squared)


def _gaussian_gram(coordinates: Coordinates) -> Gram:
    squared = squared_distances(coordinates)
    bandwidth = median_distance(squared)
    return Gram(gaussian(squared, bandwidth), bandwidth)


def _identity(functions: OnMesh) -> Gram:
    return _gaussian_gram(np.concatenate(embedded(functions)))


def _fpca(functions: OnMesh) -> Gram:
    scores, variances = principal_components(np.concatenate(embedded(functions)))
    rank = leading(variances, FPCA_SHARE)
    return _gaussian_gram(scores[:, :rank] * np.sqrt(variances[:rank]))


def _whitened(functions: OnMesh) -> Gram:
    return _gaussian_gram(scaled_to_one(functions))


def _squared(functions: OnMesh) -> Gram:
    values, first, _ = _identity(functions)
    squares, second, _ = _identity(functions._replace(values=tuple(np.square(part) for part in functions.values)))
    assert isinstance(first, float)
    assert isinstance(second, float)
    return Gram(values * squares, (first, second))


def _cosine_exponential(functions: OnMesh) -> Gram:
    points, weights, samples, _ = functions
    values = np.concatenate(samples)
    operator = _cexp_matrix(points) * weights
    transformed = np.einsum("st,nto->nso", operator, values, optimize=True)
    return _gaussian_gram(np.concatenate(embedded(functions._replace(values=(transformed,)))))


def _cexp_matrix(points: Float[np.ndarray, "mesh d_x"]) -> Float[np.ndarray, "mesh mesh"]:
    lower, upper = points.min(axis=0), points.max(axis=0)
    matrix = np.ones((len(points), len(points)))
    for x in ((points - lower) / np.where(upper > lower, upper - lower, 1.0)).T:
        angles = 2 * np.pi * np.arange(FREQUENCIES)[:, None] * x
        # Σ_k cos(k(s − t)) is a product of two thin matrices.
        waves = np.cos(angles).T @ np.cos(angles) + np.sin(angles).T @ np.sin(angles)
        matrix *= waves * np.exp(-0.5 * np.square(x[:, None] - x) / CEXP_VARIANCE)
    return matrix


def _covariance(functions: OnMesh) -> Gram:
    coordinates = np.concatenate(embedded(functions))
    return Gram(np.square(coordinates @ coordinates.T), None)


class _Definition(NamedTuple):
    """A kernel, and the powers of a factor of all functions that its bandwidths and the kernel itself take on."""

    gram: Callable[[OnMesh], Gram]
    bandwidth_degrees: tuple[int, ...]
    degree: int = 0


KERNELS: dict[str, _Definition] = {
    "id": _Definition(_identity, (1,)),
    "fpca": _Definition(_fpca, (2,)),
    "sqr": _Definition(_squared, (1, 2)),
    "cexp": _Definition(_cosine_exponential, (1,)),
    "cov": _Definition(_covariance, (), degree=4),
    "whitened": _Definition(_whitened, (0,)),
}


def _in_own_units(bandwidth: Bandwidth, degrees: tuple[int, ...], exponent: int) -> Bandwidth:
    if bandwidth is None:
        return None
    with np.errstate(over="ignore"):
        scaled = np.ldexp(np.atleast_1d(bandwidth), exponent * np.array(degrees)).tolist()
    return scaled[0] if len(scaled) == 1 else (scaled[0], scaled[1])


def _called(kernel: Callable[[np.ndarray, np.ndarray], Any], functions: OnMesh, owner: str) -> np.ndarray:
    flat = np.concatenate([values.reshape(len(values), -1) for values in functions.values])
    matrix = np.array(kernel(flat, flat), dtype=np.float64)
    name, wanted = check_kernel(kernel, owner), (len(flat), len(flat))
    if matrix.shape != wanted:
        raise ValueError(f"{owner}: kernel {name} gave shape {matrix.shape}; a Gram matrix of them is {wanted}.")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{owner}: kernel {name} gave values that are not finite; check it on these curves.")
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * np.abs(matrix).max()):
        raise ValueError(f"{owner}: kernel {name} is not symmetric, k(f, g) must be k(g, f).")
    return matrix
