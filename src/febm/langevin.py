"""Langevin chains over the latent space: z' = z + h·P∇log p(z) + √(2h)·P^½ ε, tamed or Metropolis-corrected.

The preconditioner P is a change of variables z = centre + factor·u, P = factor·factorᵀ: drift and noise are a true
pair in u, so the same BlackJAX kernel serves every geometry.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from febm.libraries import blackjax
from febm.precision import full_float32

LogDensity = Callable[[Float[Array, " latent"]], Float[Array, ""]]


class StepSize(eqx.Module):
    """Step size h, constant or going linearly from `first` to `last` over the chain."""

    first: float = eqx.field(static=True)
    last: float | None = eqx.field(static=True, default=None)

    def schedule(self, steps: int) -> Float[Array, " steps"]:
        """The step size of each step."""
        last = self.first if self.last is None else self.last
        return jnp.linspace(self.first, last, steps)


class Chain(eqx.Module):
    """How a chain is run: the number of steps, their size, and whether they are Metropolis-corrected."""

    steps: int = eqx.field(static=True, default=100)
    step_size: StepSize = eqx.field(default=StepSize(1e-2))
    metropolis: bool = eqx.field(static=True, default=False)

    def with_steps(self, steps: int) -> "Chain":
        """The same chain with another length."""
        return Chain(steps, self.step_size, self.metropolis)


class Affine(eqx.Module):
    """The change of variables z = centre + factor·u (`factor` None: the identity)."""

    centre: Float[Array, " latent"]
    factor: Float[Array, "latent latent"] | None = None

    @full_float32
    def __call__(self, u: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """From chain coordinates to the latent space."""
        return self.centre + (u if self.factor is None else self.factor @ u)


class ChainInfo(NamedTuple):
    """What a chain has to say about itself."""

    acceptance: Float[Array, ""]
    log_density: Float[Array, ""]


def tamed(drift: Float[Array, " latent"]) -> Float[Array, " latent"]:
    """The drift of one step, kept from exploding: d / (1 + ‖d‖), nothing where it is not finite.

    The tamed unadjusted Langevin algorithm (Brosse, Durmus, Moulines & Sabanis, 2019): the same limit for small steps,
    and no blow-up where the density is steeper than the step size can follow.
    """
    drift = jnp.where(jnp.isfinite(drift), drift, 0.0)
    return drift / (1 + jnp.linalg.norm(drift))


def run_chain(
    log_density: LogDensity,
    start: Float[Array, " latent"],
    *,
    chain: Chain,
    geometry: Affine | None = None,
    key: PRNGKeyArray,
) -> tuple[Float[Array, " latent"], ChainInfo]:
    """Run one chain from `start` (in the coordinates of `geometry`). Batches are the caller's `vmap`."""
    target = log_density if geometry is None else (lambda u: log_density(geometry(u)))
    sizes = chain.step_size.schedule(chain.steps)
    keys = jax.random.split(key, chain.steps)
    if chain.metropolis:
        kernel = blackjax.mala.build_kernel()

        def corrected(state, inputs):
            step_key, size = inputs
            state, info = kernel(step_key, state, target, size)
            return state, info.acceptance_rate

        state, rates = jax.lax.scan(corrected, blackjax.mala.init(start, target), (keys, sizes))
        end, acceptance, value = state.position, jnp.mean(rates), state.logdensity
    else:
        gradient = jax.value_and_grad(target)

        def plain(position, inputs):
            step_key, size = inputs
            value, slope = gradient(position)
            noise = jax.random.normal(step_key, position.shape, position.dtype)
            return position + tamed(size * slope) + jnp.sqrt(2 * size) * noise, value

        end, values = jax.lax.scan(plain, start, (keys, sizes))
        acceptance, value = jnp.ones(()), values[-1]
    return (end if geometry is None else geometry(end)), ChainInfo(acceptance, value)
