"""The tilt by importance-sampled maximum likelihood: no chain, and the normalising constant is known at every step.

    log p(y) − log p₀(y) = log E_{p₀(z|y)} e^{−E(z)} − log E_{p₀(z)} e^{−E(z)}

Both expectations are means over exact draws: of the base posterior of each curve, and of a widened base measure.
"""

from typing import Any

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


class ScoreDraws(eqx.Module):
    """Draws of the leading coordinates from the base posterior of every curve."""

    draws: Float[Array, "curves draws leading"]

    def __len__(self) -> int:
        """Number of curves."""
        return self.draws.shape[0]

    def __getitem__(self, curves: Any) -> "ScoreDraws":
        """Some of the curves."""
        return ScoreDraws(self.draws[curves])


class TiltLikelihood(Objective):
    """Maximise the gain in log-evidence of the tilted over the base measure, in nats per curve.

    Attributes
    ----------
    base
        The base measure of the leading coordinates.
    proposals
        Draws for the normalising constant in every step; the held-out score uses four times as many.
    """

    base: MixturePrior
    proposals: int = eqx.field(static=True, default=4096)

    def loss(self, model: Energy, batch: ScoreDraws, key: PRNGKeyArray) -> tuple[Float[Array, ""], Information]:
        """The negative gain of a batch."""
        log_normaliser, effective = self.log_normaliser(model, key, self.proposals)
        return log_normaliser - jnp.mean(_log_mean_tilt(model, batch.draws)), {"effective": effective}

    def score(self, model: Energy, held_out: ScoreDraws, key: PRNGKeyArray) -> Float[Array, ""]:
        """The gain on held-out curves."""
        log_normaliser, _ = self.log_normaliser(model, key, 4 * self.proposals)
        return jnp.mean(_log_mean_tilt(model, held_out.draws)) - log_normaliser

    def groups(self, model: Energy) -> PyTree[str]:
        """One group: the energy."""
        return jax.tree.map(lambda _: "prior", model)

    def alarm(self, information: dict[str, float]) -> str | None:
        """Too few proposals carry the weight."""
        share = information["effective"]
        return f"only {share:.1%} of the proposals carry weight" if share < 0.01 else None

    def log_normaliser(
        self, energy: Energy, key: PRNGKeyArray, proposals: int
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """log E_{p₀} e^{−E} and the share of proposals that carry the weight (effective sample size)."""
        narrow_key, wide_key = jax.random.split(key)
        base = self.base
        wide = MixturePrior(base.log_weights, base.means, WIDENING * base.factors, base.dim)
        half = proposals // 2
        draws = jnp.concatenate([base.sample(narrow_key, half), wide.sample(wide_key, half)])
        log_base, log_wide = jax.vmap(base.log_density)(draws), jax.vmap(wide.log_density)(draws)
        log_proposal = jnp.logaddexp(log_base, log_wide) - jnp.log(2.0)
        log_weights = log_base - log_proposal - jax.vmap(energy)(draws)
        total = jax.nn.logsumexp(log_weights)
        effective = jnp.exp(2 * total - jax.nn.logsumexp(2 * log_weights)) / proposals
        return total - jnp.log(proposals), effective


def _log_mean_tilt(energy: Energy, draws: Float[Array, "curves draws leading"]) -> Float[Array, " curves"]:
    energies = jax.vmap(jax.vmap(energy))(draws)
    return jax.nn.logsumexp(-energies, axis=1) - np.log(draws.shape[1])
