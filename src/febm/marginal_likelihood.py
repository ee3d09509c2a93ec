"""The marginal likelihood of curves under a Gaussian process: Σ_i log N(y_i; m, K(x_i, x_i) + σ²I)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float
from tinygp.kernels import Kernel

from febm.curves import Curves
from febm.precision import float64
from febm.ragged import bucket

# Curves whose covariance matrices are held at once.
BLOCK = 256

# (kernel, noise variance, points, mask, columns) → L⁻¹ times columns and log|L|, where LLᵀ = K + σ²I.
Whitening: TypeAlias = Callable[[Kernel, ArrayLike, Array, Array, Array], tuple[Array, Array]]


def log_likelihoods(
    kernel: Kernel,
    curves: Curves,
    *,
    noise_variance: float,
    mean: ArrayLike = 0.0,
    whiten: Whitening | None = None,
) -> Float[np.ndarray, " curves"]:
    """The log density of each curve, summed over its outputs, in float64; `mean` is a number or `(d_y,)`.

    `whiten` is how covariances are factored. The density is NaN where rounding takes the covariance of smooth paths
    without noise for one that is none.
    """
    whiten = whiten or dense_whitening
    curves = curves.replace(y=curves.y - np.asarray(mean, dtype=np.float64))
    kernel, noise = in_float64(kernel), np.asarray(noise_variance, dtype=np.float64)
    blocks = []
    with float64():
        for start in range(0, len(curves), BLOCK):
            part = curves[start : start + BLOCK]
            terms = _evaluate_log_densities(kernel, noise, as_design(part), whiten)
            # One design holds all curves, several hold one each: both flatten to (curves, outputs).
            blocks.append(np.asarray(terms).reshape(len(part), curves.d_y).sum(axis=1))
    return np.concatenate(blocks)


def in_float64(kernel: Kernel) -> Kernel:
    """The kernel with each floating-point value as a float64 array: new values need no new compilation."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf, dtype=np.float64) if eqx.is_inexact_array_like(leaf) else leaf, kernel
    )


class Design(NamedTuple):
    """Curves as designs with replicates: all curves on one common grid, or else one curve and output each."""

    x: Float[np.ndarray, "designs points d_x"]
    mask: Bool[np.ndarray, "designs points"]
    y: Float[np.ndarray, "designs points replicates"]
    output: Float[np.ndarray, "designs replicates d_y"]  # one-hot: the output that a replicate is of

    @property
    def values(self) -> int:
        """Number of observed values."""
        return int(self.mask.sum()) * self.y.shape[2]


def as_design(curves: Curves) -> Design:
    """The designs of `curves`; curves on one grid, with nothing missing, share one matrix and its factor."""
    x, y, mask = (np.asarray(part) for part in curves.padded())
    n, m, d_y = y.shape
    output = np.tile(np.eye(d_y), (n, 1))
    if np.all(x == x[:1]) and np.all(mask == mask[:1, :, :1]):
        return Design(x[:1], mask[:1, :, 0], np.moveaxis(y, 1, 0).reshape(1, m, n * d_y), output[None])
    y, mask = (np.moveaxis(part, 2, 1).reshape(n * d_y, m) for part in (y, mask))
    return Design(np.repeat(x, d_y, axis=0), mask, y[:, :, None], output[:, None])


def thinned(design: Design, max_points: int, generator: np.random.Generator) -> Design:
    """At most `max_points` random points of each design: marginals of a process are exact, so no bias."""
    x, mask, y, output = design
    if mask.sum(axis=1).max() <= max_points:
        return design
    order = np.argsort(np.where(mask, generator.random(mask.shape), 2.0), axis=1)[:, :max_points]
    x, y = (np.take_along_axis(part, order[:, :, None], axis=1) for part in (x, y))
    return Design(x, np.take_along_axis(mask, order, axis=1), y, output)


def rounded(design: Design) -> Design:
    """Designs and replicates rounded up in number, by empty ones of no weight, so that few sizes ever occur."""
    designs, replicates = (bucket(size, min(8, 1 << (size - 1).bit_length())) for size in design.output.shape[:2])
    more, extra = designs - design.output.shape[0], replicates - design.output.shape[1]
    return Design(
        np.pad(design.x, ((0, more), (0, 0), (0, 0)), mode="edge"),
        np.pad(design.mask, ((0, more), (0, 0))),
        np.pad(design.y, ((0, more), (0, 0), (0, extra))),
        np.pad(design.output, ((0, more), (0, extra), (0, 0))),
    )


def dense_whitening(kernel: Kernel, noise: ArrayLike, x: Array, mask: Array, columns: Array) -> tuple[Array, Array]:
    """L⁻¹ times columns and log|L|, where LLᵀ = K + σ²I."""
    # A masked point is made an independent N(0, 1), observed at 0: it adds nothing to what depends on k.
    covariance = jnp.where(mask[:, None] & mask[None, :], kernel(x, x), 0.0)
    factor = jnp.linalg.cholesky(covariance + jnp.diag(jnp.where(mask, noise, 1.0)))
    white = jax.scipy.linalg.solve_triangular(factor, columns, lower=True)
    return white, jnp.sum(jnp.log(jnp.diagonal(factor)))


def log_densities(
    kernel: Kernel, noise: ArrayLike, data: Design, *, centred: bool, whiten: Whitening = dense_whitening
) -> tuple[Array, Array]:
    """The log densities `(designs, replicates)`, and the means `(d_y,)`, which are zero unless `centred`."""

    def whiten_one(x: Array, mask: Array, y: Array) -> tuple[Array, Array, Array]:
        both = jnp.concatenate([y, mask.astype(y.dtype)[:, None]], axis=1)
        both, half_log_determinant = whiten(kernel, noise, x, mask, both)
        return both[:, :-1], both[:, -1], half_log_determinant

    y = jnp.where(data.mask[:, :, None], data.y, 0.0)
    white, ones, half_log_determinant = jax.vmap(whiten_one)(jnp.asarray(data.x), jnp.asarray(data.mask), y)
    constant = jnp.zeros(data.output.shape[-1])
    if centred:
        products = jnp.einsum("gm,gmr,gro->o", ones, white, data.output)
        precisions = jnp.einsum("gm,gm,gro->o", ones, ones, data.output)
        # An output that was never observed has precision 0; its mean is then 0.
        constant = products / jnp.where(precisions > 0, precisions, 1.0)
    residual = white - ones[:, :, None] * (data.output @ constant)[:, None, :]
    counts = jnp.sum(data.mask, axis=1)
    constants = half_log_determinant + 0.5 * counts * jnp.log(2.0 * jnp.pi)
    terms = -0.5 * jnp.sum(jnp.square(residual), axis=1) - constants[:, None]
    return jnp.where(jnp.any(data.output > 0, axis=2), terms, 0.0), constant


@eqx.filter_jit
def _evaluate_log_densities(kernel: Kernel, noise: ArrayLike, data: Design, whiten: Whitening) -> Array:
    return log_densities(kernel, noise, data, centred=False, whiten=whiten)[0]
