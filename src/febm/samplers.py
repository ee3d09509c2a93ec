"""Posterior samplers on the latent space, one curve at a time; every move is one of BlackJAX's."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from febm.langevin import Affine, LogDensity
from febm.libraries import blackjax
from febm.precision import full_float32

# Optimal acceptance of the two kinds of moves (Roberts & Rosenthal 1998; Beskos et al. 2013).
MALA_ACCEPTANCE = 0.574
HMC_ACCEPTANCE = 0.651
LEAPFROGS = 5


# Where a chain lives: a change of variables, drawn anew for every chain so that chains start in different modes.
Geometry = Callable[[PRNGKeyArray], Affine]


class Sampled(NamedTuple):
    """Draws of several chains, in chain order, and what the sampler says of them."""

    draws: Float[Array, "chains draws latent"]
    acceptance: Float[Array, ""]


class Particles(NamedTuple):
    """Equally weighted particles, the log of the normalising constant, and how the tempering went."""

    draws: Float[Array, "particles latent"]
    log_constant: Float[Array, ""]
    acceptance: Float[Array, ""]
    rungs: Float[Array, ""]
    temperature: Float[Array, ""]  # 1 when the ladder reached its top


def mala(
    log_density: LogDensity,
    geometry: Geometry,
    *,
    chains: int,
    warmup: int,
    draws: int,
    thinning: int = 1,
    key: PRNGKeyArray,
) -> Sampled:
    """Metropolis-corrected Langevin chains whose step size is adapted during warm-up by the acceptance."""
    kernel = blackjax.mala.build_kernel()

    def one(key):
        geometry_key, start_key, warmup_key, key = jax.random.split(key, 4)
        place = geometry(geometry_key)
        target = lambda u: log_density(place(u))  # noqa: E731
        start = blackjax.mala.init(jax.random.normal(start_key, place.centre.shape), target)

        def adapt(carry, inputs):
            state, log_size = carry
            step, step_key = inputs
            state, info = kernel(step_key, state, target, jnp.exp(log_size))
            gain = 5.0 / jnp.sqrt(10.0 + step)  # Robbins–Monro: bold at first, still at the end
            return (state, log_size + gain * (info.acceptance_rate - MALA_ACCEPTANCE)), None

        steps = jnp.arange(warmup), jax.random.split(warmup_key, warmup)
        (state, log_size), _ = jax.lax.scan(adapt, (start, jnp.log(0.3)), steps)

        def move(state, step_key):
            state, info = kernel(step_key, state, target, jnp.exp(log_size))
            return state, info.acceptance_rate

        def draw(state, draw_key):
            state, rates = jax.lax.scan(move, state, jax.random.split(draw_key, thinning))
            return state, (state.position, jnp.mean(rates))

        _, (positions, rates) = jax.lax.scan(draw, state, jax.random.split(key, draws))
        return jax.vmap(place)(positions), jnp.mean(rates)

    positions, rates = jax.vmap(one)(jax.random.split(key, chains))
    return Sampled(positions, jnp.mean(rates))


def nuts(
    log_density: LogDensity,
    geometry: Geometry,
    *,
    chains: int,
    warmup: int,
    draws: int,
    key: PRNGKeyArray,
) -> Sampled:
    """The no-U-turn sampler after BlackJAX's window adaptation."""

    def one(key):
        geometry_key, start_key, warmup_key, key = jax.random.split(key, 4)
        place = geometry(geometry_key)
        target = lambda u: log_density(place(u))  # noqa: E731
        start = jax.random.normal(start_key, place.centre.shape)
        adaptation = blackjax.window_adaptation(blackjax.nuts, target, initial_step_size=0.5)
        (state, parameters), _ = adaptation.run(warmup_key, start, num_steps=warmup)
        kernel = blackjax.nuts(target, **parameters)

        def draw(state, draw_key):
            state, info = kernel.step(draw_key, state)
            return state, (state.position, info.acceptance_rate)

        _, (positions, rates) = jax.lax.scan(draw, state, jax.random.split(key, draws))
        return jax.vmap(place)(positions), jnp.mean(rates)

    positions, rates = jax.vmap(one)(jax.random.split(key, chains))
    return Sampled(positions, jnp.mean(rates))


def tempered(
    log_reference: LogDensity,
    log_ratio: LogDensity,
    start: Float[Array, "particles latent"],
    *,
    moves: int,
    rungs: int,
    key: PRNGKeyArray,
) -> Particles:
    """Tempered sequential Monte Carlo from reference to reference·exp(log_ratio), with its normalising constant.

    The ladder adapts to half the particles carrying the weight; Hamiltonian moves take the covariance of the particles
    and a step size adapted by the acceptance, so neither scale nor correlation of the target has to be known.
    """
    kernel = blackjax.smc.adaptive_tempered.build_kernel(
        log_reference,
        log_ratio,
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        blackjax.smc.resampling.systematic,
        target_ess=0.5,
    )

    def parameters(state, log_size):
        return {
            "step_size": jnp.exp(log_size)[None],
            "inverse_mass_matrix": _covariance(state.particles, state.weights)[None],
            "num_integration_steps": jnp.asarray([LEAPFROGS]),
        }

    def climb(carry):
        state, log_size, log_constant, key, rung, acceptance = carry
        step_key, key = jax.random.split(key)
        state, info = kernel(step_key, state, moves, parameters(state, log_size))
        rate = jnp.mean(info.update_info.acceptance_rate)
        log_size = jnp.clip(log_size + 2.0 * (rate - HMC_ACCEPTANCE), -6.0, 1.0)
        return state, log_size, log_constant + info.log_likelihood_increment, key, rung + 1, acceptance + rate

    def below(carry):
        return (carry[0].tempering_param < 1.0) & (carry[4] < rungs)

    first_key, last_key = jax.random.split(key)
    initial = blackjax.smc.adaptive_tempered.init(start)
    carry = (initial, jnp.log(0.5), jnp.zeros(()), first_key, jnp.zeros(()), jnp.zeros(()))
    state, log_size, log_constant, _, rung, acceptance = jax.lax.while_loop(below, climb, carry)
    # The last weights are at the top of the ladder but the last moves were one rung below: move once more.
    resample_key, move_key = jax.random.split(last_key)
    chosen = blackjax.smc.resampling.systematic(resample_key, state.weights, len(start))
    settings = {name: value[0] for name, value in parameters(state, log_size).items()}
    finished = _move_particles(
        lambda z: log_reference(z) + state.tempering_param * log_ratio(z),
        state.particles[chosen],
        settings,
        moves,
        move_key,
    )
    return Particles(finished, log_constant, acceptance / rung, rung, state.tempering_param)


def _move_particles(
    log_density: LogDensity,
    particles: Float[Array, "particles latent"],
    settings: dict[str, Array],
    moves: int,
    key: PRNGKeyArray,
) -> Float[Array, "particles latent"]:
    kernel = blackjax.hmc.build_kernel()

    def one(position, key):
        def move(state, move_key):
            return kernel(move_key, state, log_density, **settings)[0], None

        return jax.lax.scan(move, blackjax.hmc.init(position, log_density), jax.random.split(key, moves))[0]

    return jax.vmap(one)(particles, jax.random.split(key, len(particles))).position


@full_float32
def _covariance(
    particles: Float[Array, "particles latent"], weights: Float[Array, " particles"]
) -> Float[Array, "latent latent"]:
    """The particles' covariance, shrunk to its diagonal by as much as there are too few of them to know more."""
    count, latent = particles.shape
    centred = particles - weights @ particles
    covariance = (centred * weights[:, None]).T @ centred
    share = latent / (latent + count)
    diagonal = jnp.diag(jnp.diag(covariance) * (1 + 1e-4) + 1e-10)
    return (1 - share) * covariance + share * diagonal
