"""What a neural process maximises: reconstruction less the information that the targets add to the context.

    E_{q(z|T)} Σ_T log p(y | x, z) − KL(q(z|T) ‖ q(z|C)),    C ⊂ T of random size, often empty

With C empty this is the variational bound of log p(T); the other contexts teach the encoder what few points say.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from febm.neural_process_networks import NeuralProcessNetwork, Pairs
from febm.training import Information, Objective

# Latents behind each held-out score: enough for importance weights to close most of the gap of the bound.
SCORE_SAMPLES = 16


class ContextBound(Objective):
    """The bound above, in nats per observed value.

    Attributes
    ----------
    empty
        Share of the curves whose context is empty.
    samples
        Latents for each curve; with more than one the bound is importance-weighted.
    """

    empty: float = eqx.field(static=True, default=0.5)
    samples: int = eqx.field(static=True, default=1)

    def loss(
        self, model: NeuralProcessNetwork, batch: Pairs, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Information]:
        """The negative bound of a batch."""
        keys = jax.random.split(key, len(batch))
        bounds, divergences = jax.vmap(lambda pairs, own: self._bound(model, pairs, own))(batch, keys)
        values = jnp.sum(batch.mask)
        return -jnp.sum(bounds) / values, {"information": jnp.mean(divergences)}

    def score(self, model: NeuralProcessNetwork, held_out: Pairs, key: PRNGKeyArray) -> Float[Array, ""]:
        """log p(values outside the context | context) for each such value, contexts drawn as in training."""
        keys = jax.random.split(key, len(held_out))
        densities, counts = jax.vmap(lambda pairs, own: self._predictive(model, pairs, own))(held_out, keys)
        return jnp.sum(densities) / jnp.sum(counts)

    def groups(self, model: NeuralProcessNetwork) -> PyTree[str]:
        """The noise learns at its own rate."""
        labels = jax.tree.map(lambda _: "networks", model)
        return eqx.tree_at(lambda tree: tree.noise, labels, "noise")

    def _bound(
        self, model: NeuralProcessNetwork, pairs: Pairs, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        context_key, latent_key = jax.random.split(key)
        kept = _random_context(pairs, self.empty, context_key)
        whole, context = model.encode(pairs), model.encode(pairs.keep(kept))
        latents = whole.sample(latent_key, self.samples)
        likelihoods = jax.vmap(lambda z: model.log_likelihood(z, pairs))(latents)
        divergence = whole.divergence(context)
        if self.samples == 1:
            return likelihoods[0] - divergence, divergence
        weights = jax.vmap(context.log_density)(latents) - jax.vmap(whole.log_density)(latents)
        return _log_mean_exp(likelihoods + weights), divergence

    def _predictive(
        self, model: NeuralProcessNetwork, pairs: Pairs, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        context_key, latent_key = jax.random.split(key)
        kept = _random_context(pairs, self.empty, context_key)
        targets = pairs.keep(~kept)
        whole, context = model.encode(pairs), model.encode(pairs.keep(kept))
        latents = whole.sample(latent_key, SCORE_SAMPLES)
        likelihoods = jax.vmap(lambda z: model.log_likelihood(z, targets))(latents)
        weights = jax.vmap(context.log_density)(latents) - jax.vmap(whole.log_density)(latents)
        return _log_mean_exp(likelihoods + weights), jnp.sum(targets.mask)


def _random_context(pairs: Pairs, empty: float, key: PRNGKeyArray) -> Bool[Array, " points"]:
    """Points of a context: none with probability `empty`, else each with a probability that is itself uniform."""
    empty_key, share_key, point_key = jax.random.split(key, 3)
    kept = jax.random.uniform(point_key, pairs.mask.shape[:1]) < jax.random.uniform(share_key)
    return kept & ~jax.random.bernoulli(empty_key, empty)


def _log_mean_exp(values: Float[Array, " draws"]) -> Float[Array, ""]:
    return jax.nn.logsumexp(values) - jnp.log(len(values))
