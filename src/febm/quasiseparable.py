"""Long curves in O(n): a Matérn process of one input is a Markov process, f(x) = h·s(x), s(x′) = A s(x) + noise.

Its covariance matrix has a lower triangle k(x_i, x_j) = p_i a_i ⋯ a_{j+1} q_j with factors no larger than the state s,
and so has its Cholesky factor: tinygp's quasi-separable matrices. Posteriors are a filter there and a smoother back.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tinygp.kernels
from jaxtyping import Array, ArrayLike, Float
from tinygp.kernels import Constant, Kernel, quasisep
from tinygp.solvers.quasisep.core import DiagQSM, StrictLowerTriQSM, SymmQSM

from febm.kernels import Correlation, Matern12, Matern32, Matern52

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
        return None if form is None else _product(Level(1.0 / kernel.kernel.evaluate_diag(jnp.zeros(1))), form)
    if not isinstance(kernel, tinygp.kernels.Product | tinygp.kernels.Sum):
        return None
    first, second = as_quasiseparable(kernel.kernel1), as_quasiseparable(kernel.kernel2)
    if first is None or second is None:
        return None
    return first + second if isinstance(kernel, tinygp.kernels.Sum) else _product(first, second)


def _product(first: Any, second: Any) -> Any:
    """Part by part for sums, whose states tinygp keeps in blocks; a constant needs no state of its own."""
    for one, other in ((first, second), (second, first)):
        if isinstance(one, quasisep.Sum):
            return _product(one.kernel1, other) + _product(one.kernel2, other)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, Level):
            return one.value * other
    return first * second


def markov_whitening(kernel: Kernel, noise: ArrayLike, x: Array, mask: Array, columns: Array) -> tuple[Array, Array]:
    """L⁻¹ times columns and log|L|, where LLᵀ = K + σ²I at the points in rising order; see `marginal_likelihood`."""
    form = as_quasiseparable(kernel)
    assert form is not None
    order = jnp.argsort(x[:, 0])
    factor = _covariance(form, x[order, 0], mask[order], noise).cholesky()
    return factor.solve(columns[order]), jnp.sum(jnp.log(factor.diag.d))


@eqx.filter_jit
def smooth(
    kernel: Kernel, noise: ArrayLike, x: ArrayLike, mask: ArrayLike, y: ArrayLike
) -> tuple[Float[Array, "points columns"], Float[Array, " points"]]:
    """Posterior means and variances at points `x (n, 1)`, given the values `y (n, columns)` where `mask` is true.

    The smoother is that of Bierman (1973), which goes back without the inverse of a state covariance: those of smooth
    paths at near points are singular in floating point.
    """
    form = as_quasiseparable(kernel)
    x, mask, y = jnp.asarray(x), jnp.asarray(mask), jnp.asarray(y)
    order = jnp.argsort(x[:, 0])
    place = x[order, 0]
    prior = _dense(form.stationary_covariance())
    steps = jax.vmap(lambda first, second: _dense(form.transition_matrix(first, second)).T)(
        jnp.append(place[:1], place[:-1]), place
    )
    views = jax.vmap(form.observation_model)(place)
    seen = jnp.where(mask[order][:, None], views, 0.0)
    values = jnp.where(mask[order][:, None], y[order], 0.0)
    identity = jnp.eye(len(prior))

    def forward(state: tuple[Array, Array], point: tuple[Array, Array, Array]) -> Any:
        mean, covariance = state
        step, view, value = point
        mean = step @ mean
        covariance = prior + step @ (covariance - prior) @ step.T
        spread = jnp.where(jnp.any(view != 0), view @ covariance @ view + noise, 1.0)
        gain = covariance @ view / spread
        surprise = value - view @ mean
        kept = identity - jnp.outer(gain, view)
        mean = mean + jnp.outer(gain, surprise)
        covariance = kept @ covariance @ kept.T + noise * jnp.outer(gain, gain)
        return (mean, covariance), (mean, covariance, kept, surprise / spread, jnp.outer(view, view) / spread)

    def backward(pull: tuple[Array, Array], point: Any) -> Any:
        first, second = pull
        step, view, shown, mean, covariance, kept, surprise, information = point
        there = shown @ (mean - covariance @ first)
        across = covariance @ shown
        variance = shown @ across - across @ second @ across
        first = step.T @ (kept.T @ first - jnp.outer(view, surprise))
        second = step.T @ (kept.T @ second @ kept + information) @ step
        return (first, second), (there, variance)

    start = (jnp.zeros((len(prior), y.shape[1])), prior)
    _, filtered = jax.lax.scan(forward, start, (steps, seen, values))
    end = (jnp.zeros_like(start[0]), jnp.zeros_like(prior))
    _, (means, variances) = jax.lax.scan(backward, end, (steps, seen, views, *filtered), reverse=True)
    back = jnp.argsort(order)
    return means[back], variances[back]


def _dense(matrix: Any) -> Array:
    """A matrix; tinygp keeps those of sums in blocks, and those of sums of sums in blocks of blocks."""
    return jax.scipy.linalg.block_diag(*map(_dense, matrix.blocks)) if hasattr(matrix, "blocks") else matrix


def _covariance(form: quasisep.Quasisep, x: Array, mask: Array, noise: ArrayLike) -> SymmQSM:
    """K + σ²I; a masked point is made an independent N(0, 1), which adds nothing to what depends on k."""
    matrix = form.to_symm_qsm(x)
    seen = mask[:, None]
    lower = StrictLowerTriQSM(
        p=jnp.where(seen, matrix.lower.p, 0.0), q=jnp.where(seen, matrix.lower.q, 0.0), a=matrix.lower.a
    )
    return SymmQSM(diag=DiagQSM(d=jnp.where(mask, matrix.diag.d + noise, 1.0)), lower=lower)
