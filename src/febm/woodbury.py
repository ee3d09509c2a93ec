"""Marginal likelihoods of linear models by Woodbury's identity: y = Φw + ε with w ~ N(0, I) and ε ~ N(0, σ²I).

With A = σ²I + ΦᵀΦ = LLᵀ and b = L⁻¹Φᵀy, for n values and K features,

    log p(y) = −½ [(‖y‖² − ‖b‖²)/σ² + (n − K) log σ² + 2 Σ log L_kk + n log 2π].

With more features than values the n × n covariance is the smaller system, and is taken instead. The algebra is in
float64 whatever precision the features come in: when σ² is small, ‖y‖² and ‖b‖² agree in most of their digits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Bool, Float

from febm.precision import in_float64

LOG_2PI = 1.8378770664093453


def log_densities(
    features: Float[Array, "*own values rank"],
    residual: Float[Array, "curves values"],
    mask: Bool[Array, "*each values"],
    noise_variance: Float[Array, ""],
) -> Float[Array, " curves"]:
    """log N(residual; 0, ΦΦᵀ + σ²I) of every curve over its unmasked values.

    `features` and `mask` have a curve axis each, or none where they are the same for all curves. If neither has one,
    all curves share one factorisation. A masked entry may hold anything, and no gradient reaches it.
    """
    residual = jnp.where(mask, residual, 0.0)
    # Rows of zeros say nothing of the weights, so that a masked row needs no further care.
    features = jnp.where(mask[..., None], features, 0.0)
    size = jnp.broadcast_to(jnp.sum(mask, axis=-1), residual.shape[:1]).astype(residual.dtype)
    return _double_precision(features, residual, size, noise_variance)


class Solved(NamedTuple):
    """Curves with the same features, with C = ΦΦᵀ + σ²I."""

    log_density: Float[Array, " curves"]
    whitened: Float[Array, "curves values"]  # C⁻¹y
    gain: Float[Array, "values rank"]  # C⁻¹Φ
    trace: Float[Array, " curves"]  # of C⁻¹, over the values that are observed


@jax.custom_vjp
def _double_precision(
    features: Float[Array, "*own values rank"],
    residual: Float[Array, "curves values"],
    size: Float[Array, " curves"],
    noise_variance: Float[Array, ""],
) -> Float[Array, " curves"]:
    """The log densities in the precision of the residual, worked out in float64."""
    # Its derivative is a rule of its own because differentiation from outside would lose the float64 of the inside.
    return _forward(features, residual, size, noise_variance)[0]


@in_float64
def _forward(
    features: Array, residual: Array, size: Array, noise_variance: Array
) -> tuple[Array, tuple[Array, Array, Solved]]:
    wide = [jnp.asarray(part).astype(jnp.float64) for part in (features, residual, size, noise_variance)]
    if features.ndim == 2:
        solved = _solve(*wide)
    else:
        each = jax.vmap(_solve, in_axes=(0, 0, 0, None))
        solved = each(wide[0], wide[1][:, None], wide[2][:, None], wide[3])
    found = solved.log_density.reshape(-1).astype(residual.dtype)
    return found, (features, noise_variance, solved)


@in_float64
def _backward(kept: tuple[Array, Array, Solved], cotangent: Array) -> tuple[Array, Array, None, Array]:
    """∂Φ = Σ_i c_i (C⁻¹y_i y_iᵀC⁻¹ − C⁻¹)Φ, ∂y_i = −c_i C⁻¹y_i and ∂σ² = ½ Σ_i c_i (‖C⁻¹y_i‖² − tr C⁻¹)."""
    features, noise_variance, solved = kept
    weights = cotangent.astype(jnp.float64).reshape(solved.log_density.shape)
    weighted = weights[..., None] * solved.whitened
    pulled = solved.whitened @ features.astype(jnp.float64)
    by_features = jnp.swapaxes(weighted, -1, -2) @ pulled
    by_features = by_features - jnp.sum(weights, axis=-1)[..., None, None] * solved.gain
    by_noise = 0.5 * (jnp.sum(weighted * solved.whitened) - jnp.sum(weights * solved.trace))
    by_residual = -weighted.reshape(cotangent.size, -1)
    return (
        by_features.astype(features.dtype),
        by_residual.astype(cotangent.dtype),
        None,
        by_noise.astype(noise_variance.dtype),
    )


_double_precision.defvjp(_forward, _backward)


def _solve(
    features: Float[Array, "values rank"],
    residual: Float[Array, "curves values"],
    size: Float[Array, " curves"],
    noise_variance: Float[Array, ""],
) -> Solved:
    """Rows of zero features and zero residuals are not there: `size` says how many values of a curve are."""
    values, rank = features.shape
    smaller = min(values, rank)
    root = features.T if rank <= values else features
    factor = jnp.linalg.cholesky(root @ root.T + noise_variance * jnp.eye(smaller))
    if rank <= values:
        gain = cho_solve((factor, True), features.T).T  # C⁻¹Φ = ΦA⁻¹
        whitened = (residual - (residual @ features) @ gain.T) / noise_variance
    else:
        both = cho_solve((factor, True), jnp.concatenate([features, residual.T], axis=1))
        gain, whitened = both[:, :rank], both[:, rank:].T
    # Either way the system has `smaller` directions; each that no value stands for adds log σ² to its determinant.
    log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(factor))) + (size - smaller) * jnp.log(noise_variance)
    log_density = -0.5 * (jnp.sum(residual * whitened, axis=1) + log_determinant + size * LOG_2PI)
    return Solved(log_density, whitened, gain, (size - jnp.sum(gain * features)) / noise_variance)
