"""The tilt by importance-sampled maximum likelihood: no chain, and the normalising constant is known at every step.

    log p(y) − log p₀(y) = log E_{p₀(z|y)} e^{−E(z)} − log E_{p₀(z)} e^{−E(z)}

Both expectations are means over exact draws: of the base posterior of each curve, and of a widened base measure.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from febm.priors import Energy, MixturePrior
from febm.training import Information, Objective

# Half of the proposals come from the base with this many times its spread, so that no weight explodes where the
# energy moves mass into the tails.
WIDENING = 1.3
# The weight of the squared log normaliser in the loss: nothing else says at which level the energy is, and what is
# bounded is its fall below zero.
LEVEL = 0.1


class ScoreDraws(eqx.Module):
    """Draws of the leading coordinates from the base posterior of every curve."""

    draws: Float[Array, "curves draws leading"]

    def __len__(self) -> int:
        """Number of curves."""
        return self.draws.shape[0]

    def __getitem__(self, curves: Any) -> "ScoreDraws":
        """Some of the curves."""
        return ScoreDraws(self.draws[curves])


class Proposals(NamedTuple):
    """Draws of the base measure, half of them of one that is wider, in blocks; weighted they are draws of the base."""

    draws: Float[Array, "*blocks proposals leading"]
    log_weights: Float[Array, "*blocks proposals"]


@eqx.filter_jit
def propose(base: MixturePrior, key: PRNGKeyArray, blocks: int, size: int) -> Proposals:
    """Draw `blocks` of proposals, `size` in each."""
    wide = MixturePrior(base.log_weights, base.means, WIDENING * base.factors, base.dim)

    def block(key: PRNGKeyArray) -> Proposals:
        narrow_key, wide_key = jax.random.split(key)
        draws = jnp.concatenate([base.sample(narrow_key, size // 2), wide.sample(wide_key, size - size // 2)])
        log_base, log_wide = jax.vmap(base.log_density)(draws), jax.vmap(wide.log_density)(draws)
        return Proposals(draws, log_base - (jnp.logaddexp(log_base, log_wide) - jnp.log(2.0)))

    return jax.lax.map(block, jax.random.split(key, blocks))


def log_normaliser(energy: Energy, proposals: Proposals) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log E_{p₀} e^{−E} and the share of proposals that carry the weight (effective sample size)."""
    return _weigh(proposals.log_weights - energy.each(proposals.draws))


class TiltLikelihood(Objective):
    """Maximise the gain in log-evidence of the tilted over the base measure, in nats per curve.

    Attributes
    ----------
    training
        For the normalising constant: every step takes a block of them.
    judging
        For the held-out score: all of them, the same every time.
    """

    training: Proposals
    judging: Proposals

    def loss(self, model: Energy, batch: ScoreDraws, key: PRNGKeyArray) -> tuple[Float[Array, ""], Information]:
        """The negative gain of a batch, and what keeps the level of the energy."""
        block = jax.random.randint(key, (), 0, len(self.training.draws))
        proposals: Proposals = jax.tree.map(lambda array: array[block], self.training)
        curves, draws, seen = batch.draws.shape
        # One pass through the network for both: products of a few large matrices rather than of many small ones.
        energies = jax.vmap(model)(jnp.concatenate([batch.draws.reshape(-1, seen), proposals.draws]))
        of_curves, of_proposals = jnp.split(energies, [curves * draws])
        constant, effective = _weigh(proposals.log_weights - of_proposals)
        gain = jnp.mean(_log_mean_tilt(of_curves.reshape(curves, draws))) - constant
        return LEVEL * constant**2 - gain, {"effective": effective}

    def score(self, model: Energy, held_out: ScoreDraws, key: PRNGKeyArray) -> Float[Array, ""]:
        """The gain on held-out curves."""
        return jnp.mean(_log_mean_tilt(model.each(held_out.draws))) - log_normaliser(model, self.judging)[0]

    def groups(self, model: Energy) -> PyTree[str]:
        """One group: the energy."""
        return jax.tree.map(lambda _: "prior", model)

    def alarm(self, information: dict[str, float]) -> str | None:
        """Too few proposals carry the weight."""
        share = information["effective"]
        return f"only {share:.1%} of the proposals carry weight" if share < 0.01 else None


def _weigh(log_weights: Float[Array, "*proposals"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The logarithm of the mean weight, and the share of the proposals that carry it."""
    total = jax.nn.logsumexp(log_weights)
    effective = jnp.exp(2 * total - jax.nn.logsumexp(2 * log_weights)) / log_weights.size
    return total - jnp.log(log_weights.size), effective


def _log_mean_tilt(energies: Float[Array, "curves draws"]) -> Float[Array, " curves"]:
    return jax.nn.logsumexp(-energies, axis=1) - np.log(energies.shape[1])
