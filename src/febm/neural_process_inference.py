"""Posteriors over z of a neural process: what the encoder says, or importance sampling around the modes.

p(z | C) ∝ p(C | z) p(z),    proposals: Gaussians at the modes with the Gauss–Newton precision, q(z | C), p(z)
"""

import functools
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from febm.inference import LatentPosterior
from febm.likelihoods import LOG_2PI
from febm.neural_process_networks import Diagonal, NeuralProcessNetwork, Pairs, in_chunks
from febm.precision import full_float32

InferenceMethod = Literal["importance", "amortised"]
METHODS: tuple[str, ...] = get_args(InferenceMethod)
# The best of this many draws of q(z | C) and of the prior, half and half, are where the search for modes begins.
CANDIDATES = 256
MODES = 4
SEARCH_STEPS = 8
# Proposals come from the modes but for these shares, which keep every weight bounded where the modes miss something.
ENCODER_SHARE = 0.1
PRIOR_SHARE = 0.05
# A proposal somewhat wider than the mode has weights with lighter tails.
WIDENING = 1.15


class Weighted(NamedTuple):
    """Latents drawn from a proposal and the logarithms of their weights p(C, z)/proposal(z)."""

    latents: Float[Array, "proposals latent"]
    log_weights: Float[Array, " proposals"]

    @property
    def log_evidence(self) -> Float[Array, ""]:
        """log p(C)."""
        return jax.nn.logsumexp(self.log_weights) - jnp.log(len(self.log_weights))

    @property
    def effective(self) -> Float[Array, ""]:
        """Effective number of proposals."""
        return jnp.exp(2 * jax.nn.logsumexp(self.log_weights) - jax.nn.logsumexp(2 * self.log_weights))

    def resample(self, draws: int, key: PRNGKeyArray) -> Float[Array, "draws latent"]:
        """Equally weighted latents, each proposal as often as its weight says, rounded up or down."""
        edges = jnp.cumsum(jax.nn.softmax(self.log_weights))
        places = (jnp.arange(draws) + jax.random.uniform(key)) / draws
        chosen = jnp.searchsorted(edges, places * edges[-1])
        return self.latents[jnp.minimum(chosen, len(self.latents) - 1)]


def infer(
    network: NeuralProcessNetwork,
    context: Pairs,
    *,
    method: InferenceMethod,
    draws: int,
    proposals: int,
    key: PRNGKeyArray,
) -> LatentPosterior:
    """The posterior over z of every curve, its evidence, and how many proposals carry the weight."""
    keys = jax.random.split(key, len(context))
    found = in_chunks(_infer, network, (context, keys), method, draws, max(proposals, draws))
    drawn, evidence, effective = (np.asarray(part, dtype=float) for part in found)
    return LatentPosterior(drawn, drawn.mean(axis=1), evidence, {"effective": effective})


def predictive_density(
    network: NeuralProcessNetwork, context: Pairs, further: Pairs, *, proposals: int, key: PRNGKeyArray
) -> Float[np.ndarray, " curves"]:
    """log E_{q(z|C)} p(further | z), with proposals from q(z | C) and from the encoder told the further values."""
    together = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), context, further)
    keys = jax.random.split(key, len(context))
    return in_chunks(_predictive, network, (context, further, together, keys), proposals).astype(float)


@eqx.filter_jit
def _infer(network, context, keys, method, draws, proposals):
    one = functools.partial(_infer_one, network, method=method, draws=draws, proposals=proposals)
    return jax.vmap(one)(context, keys)


@eqx.filter_jit
def _predictive(network, context, further, together, keys, proposals):
    def one(own_context, own_further, own_together, key):
        first, second = network.encode(own_context), network.encode(own_together)
        latents = _from_both(first, second, proposals, key)
        log_first, log_second = (jax.vmap(part.log_density)(latents) for part in (first, second))
        likelihoods = jax.vmap(lambda z: network.log_likelihood(z, own_further))(latents)
        weights = likelihoods + log_first - jnp.logaddexp(log_first, log_second) + jnp.log(2.0)
        return jax.nn.logsumexp(weights) - jnp.log(len(weights))

    return jax.vmap(one)(context, further, together, keys)


def _infer_one(
    network: NeuralProcessNetwork,
    context: Pairs,
    key: PRNGKeyArray,
    *,
    method: InferenceMethod,
    draws: int,
    proposals: int,
) -> tuple[Float[Array, "draws latent"], Float[Array, ""], Float[Array, ""]]:
    propose_key, draw_key = jax.random.split(key)
    encoded = network.encode(context)
    if method == "importance":
        weighted = _around_modes(network, context, encoded, proposals, propose_key)
        return weighted.resample(draws, draw_key), weighted.log_evidence, weighted.effective
    latents = _from_both(encoded, network.prior, proposals, propose_key)
    log_encoded, log_prior = (jax.vmap(part.log_density)(latents) for part in (encoded, network.prior))
    likelihoods = jax.vmap(lambda z: network.log_likelihood(z, context))(latents)
    weighted = Weighted(latents, likelihoods + log_prior - jnp.logaddexp(log_encoded, log_prior) + jnp.log(2.0))
    return encoded.sample(draw_key, draws), weighted.log_evidence, weighted.effective


def _from_both(first: Diagonal, second: Diagonal, draws: int, key: PRNGKeyArray) -> Float[Array, "draws latent"]:
    keys = jax.random.split(key)
    half = draws // 2
    return jnp.concatenate([first.sample(keys[0], half), second.sample(keys[1], draws - half)])


class Mode(NamedTuple):
    """A mode of p(z | C): its place, the Cholesky factor of its precision and its share by Laplace's method."""

    place: Float[Array, " latent"]
    factor: Float[Array, "latent latent"]
    log_mass: Float[Array, ""]

    def sample(self, noise: Float[Array, " latent"]) -> Float[Array, " latent"]:
        """A draw from the widened Gaussian at the mode."""
        return self.place + WIDENING * jax.scipy.linalg.solve_triangular(self.factor.T, noise, lower=False)

    @full_float32
    def log_density(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """Density of the widened Gaussian at the mode."""
        standard = self.factor.T @ (z - self.place) / WIDENING
        determinant = jnp.sum(jnp.log(jnp.diagonal(self.factor))) - len(z) * jnp.log(WIDENING)
        return determinant - 0.5 * jnp.sum(jnp.square(standard)) - 0.5 * len(z) * LOG_2PI


def _around_modes(
    network: NeuralProcessNetwork, context: Pairs, encoded: Diagonal, proposals: int, key: PRNGKeyArray
) -> Weighted:
    """Importance sampling with Gaussians at several modes, the encoder and the prior as proposals."""
    start_key, which_key, noise_key, encoder_key, prior_key = jax.random.split(key, 5)
    prior = network.prior

    def log_joint(z):
        return network.log_likelihood(z, context) + prior.log_density(z)

    candidates = jnp.concatenate([encoded.mean[None], _from_both(encoded, prior, CANDIDATES, start_key)])
    _, best = jax.lax.top_k(jax.vmap(log_joint)(candidates), MODES)
    modes = jax.vmap(lambda z: climb(network, context, z))(candidates[best])
    # Several searches may end in one mode; each of them then carries a part of it.
    log_shares = jnp.log(0.9 * jax.nn.softmax(modes.log_mass) + 0.1 / MODES)
    from_encoder, from_prior = (max(1, round(share * proposals)) for share in (ENCODER_SHARE, PRIOR_SHARE))
    from_modes = proposals - from_encoder - from_prior
    which = jax.random.categorical(which_key, log_shares, shape=(from_modes,))
    noise = jax.random.normal(noise_key, (from_modes, network.latent_dim))
    at_modes = jax.vmap(lambda mode, e: jax.tree.map(lambda part: part[mode], modes).sample(e))(which, noise)
    latents = jnp.concatenate(
        [at_modes, encoded.sample(encoder_key, from_encoder), prior.sample(prior_key, from_prior)]
    )
    parts = jax.vmap(lambda z: jax.vmap(lambda mode: mode.log_density(z))(modes))(latents) + log_shares
    shares = np.log(np.array([from_modes, from_encoder, from_prior]) / proposals)
    log_proposal = jax.nn.logsumexp(
        jnp.stack(
            [
                jax.nn.logsumexp(parts, axis=1) + shares[0],
                jax.vmap(encoded.log_density)(latents) + shares[1],
                jax.vmap(prior.log_density)(latents) + shares[2],
            ]
        ),
        axis=0,
    )
    return Weighted(latents, jax.vmap(log_joint)(latents) - log_proposal)


class Climbed(NamedTuple):
    """Where a search stands: log p(C, z), its gradient and the Fisher information, all from one linearisation."""

    place: Float[Array, " latent"]
    value: Float[Array, ""]
    gradient: Float[Array, " latent"]
    precision: Float[Array, "latent latent"]


def climb(network: NeuralProcessNetwork, context: Pairs, start: Float[Array, " latent"]) -> Mode:
    """Levenberg–Marquardt steps to a mode, with the Fisher information as curvature."""

    def look(z):
        def decoded(z):
            mean, scale = network.decode(z, context.x)
            return (mean, jnp.log(scale)), (mean, scale)

        (mean_slope, scale_slope), (mean, scale) = jax.jacfwd(decoded, has_aux=True)(z)
        standard = jnp.where(context.mask, context.y - mean, 0.0) / scale
        # The Fisher information of a Gaussian with mean f and scale s is f'²/s² + 2 (log s)'².
        mean_slope = jnp.where(context.mask, 1 / scale, 0.0)[..., None] * mean_slope
        scale_slope = jnp.where(context.mask[..., None], scale_slope, 0.0)
        parts = jnp.concatenate([mean_slope, jnp.sqrt(2.0) * scale_slope]).reshape(-1, len(z))
        gradient = jnp.einsum("po,poz->z", standard, mean_slope) - z
        gradient += jnp.einsum("po,poz->z", jnp.square(standard) - 1, scale_slope)
        densities = jnp.where(context.mask, -0.5 * jnp.square(standard) - jnp.log(scale) - 0.5 * LOG_2PI, 0.0)
        value = jnp.sum(densities) + network.prior.log_density(z)
        return Climbed(z, value, gradient, jnp.eye(len(z)) + parts.T @ parts)

    def step(_, state):
        best, damping, proposal = state
        seen = look(proposal)
        better = seen.value > best.value
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), seen, best)
        damping = jnp.clip(damping * jnp.where(better, 0.2, 5.0), 1e-4, 1e4)
        damped = best.precision + damping * jnp.diag(jnp.diagonal(best.precision))
        return best, damping, best.place + jax.scipy.linalg.solve(damped, best.gradient, assume_a="pos")

    # The first look is at the start, which is better than nothing.
    nothing = Climbed(start, -jnp.asarray(jnp.inf), jnp.zeros_like(start), jnp.eye(len(start)))
    best, _, _ = jax.lax.fori_loop(0, SEARCH_STEPS + 1, step, (nothing, jnp.asarray(0.1), start))
    factor = jnp.linalg.cholesky(_well_conditioned(best.precision))
    return Mode(best.place, factor, best.value - jnp.sum(jnp.log(jnp.diagonal(factor))))


def _well_conditioned(precision: Float[Array, "latent latent"]) -> Float[Array, "latent latent"]:
    # Single precision holds seven digits: a direction 1e-6 of the stiffest is lost in the rounding of the others.
    return precision + 1e-6 * jnp.trace(precision) * jnp.eye(len(precision))
