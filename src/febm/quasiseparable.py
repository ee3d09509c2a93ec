"""Marginal likelihoods of long curves in O(n): a Matérn process of one input is a Markov process.

Its covariance matrix has a lower triangle k(x_i, x_j) = p_i a_i ⋯ a_{j+1} q_j with factors no larger than the state of
the process, and so has its Cholesky factor: tinygp's quasi-separable matrices.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import tinygp.kernels
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float
from tinygp.kernels import Constant, Kernel, quasisep
from tinygp.solvers.quasisep.core import DiagQSM, StrictLowerTriQSM, SymmQSM

from febm.curves import Curves
from febm.kernels import LARGEST_FACTOR, KernelFit, Matern12, Matern32, Matern52
from febm.marginal_likelihood import BLOCK, Design, as_design, in_float64
from febm.precision import float64

# Curves of more points go this way.
LONG_CURVE = 200

MARKOV: dict[type, type[Any]] = {
    Matern12: quasisep.Exp,
    Matern32: quasisep.Matern32,
    Matern52: quasisep.Matern52,
    tinygp.kernels.Exp: quasisep.Exp,
    tinygp.kernels.Matern32: quasisep.Matern32,
    tinygp.kernels.Matern52: quasisep.Matern52,
}


class Correlation(Kernel):
    """κ(x, x′) = k(x, x′)/√(k(x, x) k(x′, x′)): a kernel of unit variance."""

    kernel: Kernel

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        product = self.kernel.evaluate_diag(X1) * self.kernel.evaluate_diag(X2)
        return self.kernel.evaluate(X1, X2) / jnp.sqrt(product)


class Level(quasisep.Quasisep):
    """k = c: the state never changes."""

    value: Array

    def design_matrix(self) -> Array:
        """The state stands still."""
        return jnp.zeros((1, 1))

    def stationary_covariance(self) -> Array:
        """The variance of the level."""
        return jnp.reshape(self.value, (1, 1))

    def observation_model(self, X: Array) -> Array:
        """The state is what is seen."""
        return jnp.ones(1)

    def transition_matrix(self, X1: Array, X2: Array) -> Array:
        """The state stands still."""
        return jnp.ones((1, 1))


def as_quasiseparable(kernel: Any) -> Any:
    """The Markov form of Matérn kernels of one input, of constants, of multiples and sums of them; None of others."""
    if isinstance(kernel, Constant):
        return Level(jnp.reshape(kernel.value, ()))
    if type(kernel) in MARKOV:
        scale = kernel.scale if hasattr(kernel, "scale") else kernel.length_scale
        return MARKOV[type(kernel)](scale=jnp.reshape(scale, ())) if np.size(scale) == 1 else None
    if isinstance(kernel, Correlation):  # of a stationary kernel: a multiple of it
        form = as_quasiseparable(kernel.kernel)
        return None if form is None else _multiple(form, 1.0 / kernel.kernel.evaluate_diag(jnp.zeros(1)))
    if not isinstance(kernel, tinygp.kernels.Product | tinygp.kernels.Sum):
        return None
    first, second = as_quasiseparable(kernel.kernel1), as_quasiseparable(kernel.kernel2)
    if first is None or second is None:
        return None
    if isinstance(kernel, tinygp.kernels.Sum):
        return first + second
    return first * second


def _multiple(form: Any, factor: Array) -> Any:
    """The kernel times a number; a sum, whose states tinygp keeps in blocks, part by part."""
    if isinstance(form, quasisep.Sum):
        return _multiple(form.kernel1, factor) + _multiple(form.kernel2, factor)
    return factor * form


def log_likelihoods(kernel: Kernel, curves: Curves, *, noise_variance: float) -> Float[np.ndarray, " curves"]:
    """The log density of each curve under a process of mean zero, summed over its outputs, in float64.

    It is NaN where rounding takes the covariance of smooth paths without noise for one that is none.
    """
    kernel, noise = in_float64(kernel), np.asarray(noise_variance, dtype=np.float64)
    blocks = []
    with float64():
        for start in range(0, len(curves), BLOCK):
            part = curves[start : start + BLOCK]
            terms = _evaluate(kernel, noise, sorted_design(part))
            blocks.append(np.asarray(terms).reshape(len(part), curves.d_y).sum(axis=1))
    return np.concatenate(blocks)


def improve_fit(found: KernelFit, curves: Curves, *, fit_noise: bool, centred: bool, steps: int = 50) -> KernelFit:
    """Raise the likelihood of all points of `curves` by L-BFGS, from where a fit to fewer points ended.

    All values of the kernel are positive here, and move in log space; see `febm.kernels.fit_kernel`.
    """
    data = sorted_design(curves)
    with float64():
        moving = (in_float64(found.kernel), np.asarray(found.noise_variance) if fit_noise else None)
        vector, unravel = ravel_pytree(jax.tree.map(np.log, moving))

        def log_likelihood(theta: ArrayLike) -> tuple[Array, tuple[Kernel, ArrayLike, Array]]:
            kernel, noise = jax.tree.map(jnp.exp, unravel(jnp.asarray(theta)))
            noise = found.noise_variance if noise is None else noise
            terms, constant = log_densities(kernel, noise, data, centred=centred)
            return jnp.sum(terms), (kernel, noise, constant)

        count = data.mask.sum() * data.y.shape[2]
        gradient_of_loss = jax.jit(jax.value_and_grad(lambda theta: -log_likelihood(theta)[0] / count))

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = (np.asarray(part) for part in gradient_of_loss(theta))
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return 1e10, np.zeros_like(theta)
            return float(value), gradient

        start = np.asarray(vector)
        reach = np.log(LARGEST_FACTOR)
        best = scipy.optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(start - reach, start + reach),
            options={"maxiter": steps, "ftol": 1e-10, "gtol": 1e-6},
        )
        value, (kernel, noise, constant) = jax.jit(log_likelihood)(best.x)
        if not np.isfinite(value):
            return found
        return KernelFit(jax.tree.map(np.asarray, kernel), float(noise), np.array(constant), float(value))


def log_densities(kernel: Kernel, noise: ArrayLike, data: Design, *, centred: bool) -> tuple[Array, Array]:
    """As `febm.marginal_likelihood.log_densities`, for designs whose points rise."""
    form = as_quasiseparable(kernel)
    assert form is not None

    def whiten(x: Array, mask: Array, y: Array) -> tuple[Array, Array, Array]:
        factor = _covariance(form, x, mask, noise).cholesky()
        both = factor.solve(jnp.concatenate([y, mask.astype(y.dtype)[:, None]], axis=1))
        return both[:, :-1], both[:, -1], jnp.sum(jnp.log(factor.diag.d))

    y = jnp.where(data.mask[:, :, None], data.y, 0.0)
    white, ones, half_log_determinant = jax.vmap(whiten)(jnp.asarray(data.x[:, :, 0]), jnp.asarray(data.mask), y)
    constant = jnp.zeros(data.output.shape[-1])
    if centred:
        products = jnp.einsum("gm,gmr,gro->o", ones, white, data.output)
        precisions = jnp.einsum("gm,gm,gro->o", ones, ones, data.output)
        constant = products / jnp.where(precisions > 0, precisions, 1.0)
    residual = white - ones[:, :, None] * (data.output @ constant)[:, None, :]
    counts = jnp.sum(data.mask, axis=1)
    constants = half_log_determinant + 0.5 * counts * jnp.log(2.0 * jnp.pi)
    return -0.5 * jnp.sum(jnp.square(residual), axis=1) - constants[:, None], constant


def sorted_design(curves: Curves) -> Design:
    """The designs of `curves` of one input, their points in rising order."""
    x, mask, y, output = as_design(curves)
    order = np.argsort(x[:, :, 0], axis=1, kind="stable")
    x, y = (np.take_along_axis(part, order[:, :, None], axis=1) for part in (x, y))
    return Design(x, np.take_along_axis(mask, order, axis=1), y, output)


def _covariance(form: quasisep.Quasisep, x: Array, mask: Array, noise: ArrayLike) -> SymmQSM:
    """K + σ²I; a masked point is made an independent N(0, 1), which adds nothing to what depends on k."""
    matrix = form.to_symm_qsm(x)
    seen = mask[:, None]
    lower = StrictLowerTriQSM(
        p=jnp.where(seen, matrix.lower.p, 0.0), q=jnp.where(seen, matrix.lower.q, 0.0), a=matrix.lower.a
    )
    return SymmQSM(diag=DiagQSM(d=jnp.where(mask, matrix.diag.d + noise, 1.0)), lower=lower)


@eqx.filter_jit
def _evaluate(kernel: Kernel, noise: ArrayLike, data: Design) -> Array:
    return log_densities(kernel, noise, data, centred=False)[0]
