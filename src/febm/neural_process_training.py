"""What a neural process maximises: the likelihood of a curve, with an encoder that is told all or some of its points.

    marginal:     E_{q(z|T)} log p(T | z) − KL(q(z|T) ‖ p(z)) − 0.1 KL(q̄(z|T) ‖ q(z|C)),    C ⊂ T of random size
    conditional:  E_{q(z|T)} log p(T | z) − KL(q(z|T) ‖ q(z|C))

The first is the bound of log p(T) and, with q̄ held fixed, a lesson to the encoder in what few points say: contexts
teach it alone and leave decoder and prior to the likelihood. The second is that of the literature (Garnelo et al.,
2018), where contexts shape the decoder too, and the prior is taught by contexts that are empty.
"""

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from febm.neural_process_networks import Diagonal, NeuralProcessNetwork, Pairs
from febm.training import Information, Objective

Bound = Literal["marginal", "conditional"]
BOUNDS: tuple[str, ...] = get_args(Bound)
# Latents behind each held-out score: enough for importance weights to close most of the gap of the bound.
SCORE_SAMPLES = 4
# Few points of a curve are far from saying what all of it says; with its full weight their lesson, of hundreds of nats,
# would drown the bound in the gradients that both share.
LESSON = 0.1


class ContextBound(Objective):
    """One of the bounds above, in nats per observed value.

    Attributes
    ----------
    bound
        "marginal" or "conditional".
    empty
        Share of the curves whose context is empty.
    samples
        Latents for each curve; with more than one the bound is importance-weighted.
    points
        The most points of a curve in one step, drawn anew each time.
    """

    bound: str = eqx.field(static=True, default="marginal")
    empty: float = eqx.field(static=True, default=0.0)
    samples: int = eqx.field(static=True, default=1)
    points: int = eqx.field(static=True, default=64)

    def loss(
        self, model: NeuralProcessNetwork, batch: Pairs, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Information]:
        """The negative bound of a batch."""
        keys = jax.random.split(key, len(batch))
        bounds, counts, divergences = jax.vmap(lambda pairs, own: self._bound(model, pairs, own))(batch, keys)
        return -jnp.sum(bounds) / jnp.sum(counts), {"information": jnp.mean(divergences)}

    def score(self, model: NeuralProcessNetwork, held_out: Pairs, key: PRNGKeyArray) -> Float[Array, ""]:
        """log p(values outside the context | context) for each such value, half of the contexts empty."""
        keys = jax.random.split(key, len(held_out))
        densities, counts = jax.vmap(lambda pairs, own: self._predictive(model, pairs, own))(held_out, keys)
        return jnp.sum(densities) / jnp.sum(counts)

    def groups(self, model: NeuralProcessNetwork) -> PyTree[str]:
        """The noise learns at its own rate."""
        labels = jax.tree.map(lambda _: "networks", model)
        return eqx.tree_at(lambda tree: tree.noise, labels, "noise")

    def _bound(
        self, model: NeuralProcessNetwork, pairs: Pairs, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
        points_key, context_key, latent_key = jax.random.split(key, 3)
        pairs = some_points(pairs, self.points, points_key)
        whole, context = model.encode_both(pairs, _random_context(pairs, self.empty, context_key))
        before = model.prior if self.bound == "marginal" else context
        latents = whole.sample(latent_key, self.samples)
        likelihoods = jax.vmap(lambda z: model.log_likelihood(z, pairs))(latents)
        divergence = whole.divergence(before)
        bound = likelihoods[0] - divergence if self.samples == 1 else _weighted(likelihoods, latents, whole, before)
        if self.bound == "marginal":
            bound -= LESSON * jax.lax.stop_gradient(whole).divergence(context)
        return bound, jnp.sum(pairs.mask), divergence

    def _predictive(
        self, model: NeuralProcessNetwork, pairs: Pairs, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        points_key, context_key, latent_key = jax.random.split(key, 3)
        pairs = some_points(pairs, self.points, points_key)
        kept = _random_context(pairs, 0.5, context_key)
        whole, context = model.encode_both(pairs, kept)
        targets = pairs.keep(~kept)
        latents = whole.sample(latent_key, SCORE_SAMPLES)
        likelihoods = jax.vmap(lambda z: model.log_likelihood(z, targets))(latents)
        return _weighted(likelihoods, latents, whole, context), jnp.sum(targets.mask)


def _weighted(
    likelihoods: Float[Array, " draws"], latents: Float[Array, "draws latent"], drawn_from: Diagonal, before: Diagonal
) -> Float[Array, ""]:
    """log of the importance-weighted mean of the likelihoods under `before`."""
    weights = jax.vmap(before.log_density)(latents) - jax.vmap(drawn_from.log_density)(latents)
    return jax.nn.logsumexp(likelihoods + weights) - jnp.log(len(latents))


def some_points(pairs: Pairs, most: int, key: PRNGKeyArray) -> Pairs:
    """At most so many of the observed points of a curve, at random."""
    count = pairs.mask.shape[0]
    if count <= most:
        return pairs
    absent = ~jnp.any(pairs.mask, axis=-1)
    return pairs[jnp.argsort(absent + jax.random.uniform(key, (count,)))[:most]]


def _random_context(pairs: Pairs, empty: float, key: PRNGKeyArray) -> Bool[Array, " points"]:
    """Points of a context: none with probability `empty`, else each with a probability that is itself uniform."""
    empty_key, share_key, point_key = jax.random.split(key, 3)
    kept = jax.random.uniform(point_key, pairs.mask.shape[:1]) < jax.random.uniform(share_key)
    return kept & ~jax.random.bernoulli(empty_key, empty)
