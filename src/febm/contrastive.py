"""The paper's loss: chains for posterior and prior, stop-gradients on what they give.

    L(θ) = −E_{Λ(p^k(z|Y))} log p(Y | z, X) + E_{Λ(p^k(z|Y))} E(z) − E_{Λ(p^k(z))} E(z)

Its gradient is the gradient of the negative log marginal likelihood when the chains have converged.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from febm.langevin import Affine, Chain, ChainInfo, run_chain
from febm.latent import LatentModel
from febm.likelihoods import Gaussian, StudentT
from febm.networks import NetworkGenerator, RoughGenerator
from febm.observations import Observations
from febm.precision import full_float32
from febm.priors import EnergyPrior, TiltedPrior
from febm.training import FROZEN, Information, Objective

# Below this acceptance a Metropolis-corrected chain stands still, and what it hands to the loss is where it started.
LEAST_ACCEPTANCE = 0.05
# The energy is a correction of the base in nats; one that reaches this size no longer corrects but replaces it.
LARGEST_ENERGY = 1000.0


class Contrastive(Objective):
    """Minimise the paper's loss; judge by prediction of hidden values of held-out curves.

    Attributes
    ----------
    posterior, prior
        The chains that draw from p(z | Y) and p(z).
    precondition
        Start and shape the posterior chain by the posterior of the linear model w = z.
    penalty
        Weight of E² on both ends, which keeps the energy tame.
    draws
        Posterior draws per held-out curve in the score.
    """

    posterior: Chain
    prior: Chain
    precondition: bool = eqx.field(static=True)
    penalty: float = eqx.field(static=True, default=0.0)
    draws: int = eqx.field(static=True, default=8)

    def loss(self, model: LatentModel, batch: Observations, key: PRNGKeyArray) -> tuple[Float[Array, ""], Information]:
        """The paper's loss on a batch of curves."""
        posterior_key, prior_key = jax.random.split(key)
        # The chains see frozen parameters: no gradient is ever taken through them.
        frozen = jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, model)
        latents, chain = self.posterior_draws(frozen, batch, posterior_key)
        log_likelihood = batch.each(lambda curve, z: model.log_likelihood(z, curve), latents)
        loss = -jnp.mean(log_likelihood)
        information = {"log_likelihood": -loss}
        if self.posterior.metropolis:
            information["acceptance"] = jnp.mean(chain.acceptance)
        if isinstance(model.prior, EnergyPrior | TiltedPrior):
            dreams, dream_chain = self.prior_draws(frozen, len(batch), prior_key)
            energy = jax.vmap(model.prior.energy)
            awake, asleep = energy(latents), energy(dreams)
            loss += jnp.mean(awake) - jnp.mean(asleep)
            loss += self.penalty * (jnp.mean(awake**2) + jnp.mean(asleep**2))
            information |= {"energy_posterior": jnp.mean(awake), "energy_prior": jnp.mean(asleep)}
            if self.prior.metropolis:
                information["prior_acceptance"] = jnp.mean(dream_chain.acceptance)
        return loss, information

    def score(self, model: LatentModel, held_out: Observations, key: PRNGKeyArray) -> Float[Array, ""]:
        """Mean log predictive density of hidden values given the other half of each curve's values."""
        hide_key, key = jax.random.split(key)
        hidden = jax.random.bernoulli(hide_key, 0.5, held_out.mask.shape[:2])[..., None] & held_out.mask
        context = held_out.hide(hidden)
        latents, _ = jax.vmap(lambda draw: self.posterior_draws(model, context, draw))(
            jax.random.split(key, self.draws)
        )
        log_densities = jax.vmap(lambda draw: held_out.each(lambda curve, z: model.log_densities(z, curve), draw))(
            latents
        )
        predictive = jax.nn.logsumexp(log_densities, axis=0) - jnp.log(self.draws)
        return jnp.sum(jnp.where(hidden, predictive, 0.0)) / jnp.maximum(jnp.sum(hidden), 1)

    def groups(self, model: LatentModel) -> PyTree[str]:
        """The paper's θ_gen and θ_prior (the energy), with the noise in a group of its own."""
        labels = jax.tree.map(lambda _: FROZEN, model)
        labels = eqx.tree_at(lambda tree: tree.generator, labels, _label(model.generator, "generator"))
        labels = eqx.tree_at(lambda tree: tree.likelihood, labels, _label(model.likelihood, "noise"))
        if isinstance(model.prior, EnergyPrior | TiltedPrior):
            energy = _label(model.prior.energy, "prior")
            labels = eqx.tree_at(lambda tree: tree.prior.energy, labels, energy)
        return labels

    def alarm(self, information: dict[str, float]) -> str | None:
        """Chains that stand still, or an energy that runs away."""
        acceptance = min(information.get("acceptance", 1.0), information.get("prior_acceptance", 1.0))
        if acceptance < LEAST_ACCEPTANCE:
            return f"the chains accept only {acceptance:.2f} of their steps"
        gap = abs(information.get("energy_posterior", 0.0) - information.get("energy_prior", 0.0))
        return f"the energy differs by {gap:.0f} between data and model" if gap > LARGEST_ENERGY else None

    def posterior_draws(
        self, model: LatentModel, observed: Observations, key: PRNGKeyArray
    ) -> tuple[Float[Array, "curves latent"], ChainInfo]:
        """One draw of the posterior chain for each curve."""
        start_key, key = jax.random.split(key)
        start = jax.random.normal(start_key, (len(observed), model.generator.latent_dim))

        def draw(curve, start, key):
            centre_key, key = jax.random.split(key)
            geometry = linear_geometry(model, curve, centre_key) if self.precondition else None
            log_density = lambda z: model.log_joint(z, curve)  # noqa: E731
            return run_chain(log_density, start, chain=self.posterior, geometry=geometry, key=key)

        return observed.each(draw, start, jax.random.split(key, len(observed)))

    def prior_draws(
        self, model: LatentModel, count: int, key: PRNGKeyArray
    ) -> tuple[Float[Array, "count latent"], ChainInfo]:
        """Draws of the prior chain, started at the reference measure."""
        start_key, key = jax.random.split(key)
        start = model.prior.reference.sample(start_key, count)

        def draw(start, key):
            return run_chain(model.prior.log_density, start, chain=self.prior, key=key)

        return jax.vmap(draw)(start, jax.random.split(key, count))


@full_float32
def linear_geometry(model: LatentModel, curve: Observations, key: PRNGKeyArray) -> Affine | None:
    """The posterior of the linear model w = z ~ N(μ, W) as a change of variables; None where it has no meaning.

    W is the covariance within components of the reference measure, μ the mean of one of them, drawn by how well it
    explains the curve. With A = W⁻¹ + ΦᵀΦ/σ² the posterior is N(A⁻¹b, A⁻¹), b = W⁻¹μ + Φᵀ(y − m)/σ²: where the
    generator is close to linear a chain in these coordinates sees a density close to N(0, I) within a mode, however
    small the noise.
    """
    if isinstance(model.generator, NetworkGenerator) or not isinstance(model.likelihood, Gaussian | StudentT):
        return None
    generator, latent = model.generator, model.generator.latent_dim
    mask = curve.mask.reshape(-1)
    features = jnp.where(mask[:, None], curve.features.reshape(mask.size, -1)[:, :latent], 0.0)
    residual = jnp.where(mask, (curve.values - curve.mean).reshape(-1), 0.0)
    scale, reference = model.likelihood.scale, model.prior.reference
    precision = reference.within_precision
    if isinstance(generator, RoughGenerator):
        # The function does not depend on the roughness, but n values tell it with a precision of 2n.
        features = jnp.insert(features, generator.leading, 0.0, axis=1)[:, :latent]
        precision = precision.at[generator.leading, generator.leading].add(2.0 * jnp.sum(mask))
    system = precision + (features / scale).T @ (features / scale)
    factor = jnp.linalg.cholesky(system)
    log_weights, means = reference.components
    prior_pull = means @ precision
    pull = prior_pull + features.T @ residual / scale**2
    root = jax.scipy.linalg.solve_triangular(factor, jnp.eye(latent), lower=True).T
    log_evidence = 0.5 * jnp.sum((pull @ root) ** 2, axis=1) - 0.5 * jnp.sum(prior_pull * means, axis=1)
    chosen = jax.random.categorical(key, log_weights + log_evidence)
    return Affine(root @ (root.T @ pull[chosen]), root)


def _label(tree: PyTree, name: str) -> PyTree[str]:
    return jax.tree.map(lambda _: name, tree)
