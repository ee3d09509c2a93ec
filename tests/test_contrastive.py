"""The paper's loss against a model whose normalising constant is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from febm.contrastive import Contrastive, linear_geometry
from febm.langevin import Chain, StepSize
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.networks import LinearGenerator, NetworkGenerator, ResidualMLP
from febm.observations import Observations
from febm.priors import Energy, GaussianPrior, TiltedPrior

CURVES, POINTS, RANK = 4000, 6, 2


class QuadraticEnergy(eqx.Module):
    """E(z) = ½ Σ a_i z_i² + Σ b_i z_i: tilting N(0, I) by it gives N(−b/(1+a), 1/(1+a))."""

    a: jax.Array
    b: jax.Array

    def __call__(self, z):
        return jnp.sum(0.5 * self.a * z**2 + self.b * z)


@pytest.fixture
def model():
    energy = Energy(QuadraticEnergy(jnp.array([0.8, -0.3]), jnp.array([0.5, 0.2])), RANK)
    return LatentModel(LinearGenerator(RANK, RANK), TiltedPrior(GaussianPrior(RANK), energy), Gaussian(0.5))


@pytest.fixture
def observed():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(POINTS, 1, RANK)).astype(np.float32)
    values = rng.normal(size=(1, POINTS, 1)).astype(np.float32)
    values = jnp.broadcast_to(values, (CURVES, POINTS, 1))
    mask = jnp.ones(values.shape, dtype=bool).at[:, 2].set(False)
    return Observations(jnp.zeros((POINTS, 1)), jnp.asarray(features), values, mask, shared=True)


def log_marginal(model, observed):
    """log p(y) in closed form."""
    a, b = model.prior.energy.network.a, model.prior.energy.network.b
    seen = np.array(observed.mask[0, :, 0])
    phi, y = observed.features[seen, 0], observed.values[0, seen, 0]
    mean = phi @ (-b / (1 + a))
    covariance = (phi / (1 + a)) @ phi.T + model.likelihood.variance * jnp.eye(len(y))
    return jax.scipy.stats.multivariate_normal.logpdf(y, mean, covariance)


def test_gradient_of_the_loss_is_the_gradient_of_the_log_marginal_likelihood(model, observed):
    """4,000 converged chains: 5 figures within 5 standard errors (about 0.05 each), wrong 1 time in 300,000."""
    chain = Chain(60, StepSize(0.4), metropolis=True)
    objective = Contrastive(posterior=chain, prior=chain, precondition=True)
    loss = lambda tree: objective.loss(tree, observed, jax.random.key(0))[0]  # noqa: E731
    found = eqx.filter_grad(loss)(model)
    expected = eqx.filter_grad(lambda tree: -log_marginal(tree, observed))(model)
    for name, get in {
        "a": lambda tree: tree.prior.energy.network.a,
        "b": lambda tree: tree.prior.energy.network.b,
        "noise": lambda tree: tree.likelihood.log_scale,
    }.items():
        scale = 0.05 if name != "noise" else 0.25
        np.testing.assert_allclose(get(found), get(expected), atol=scale, err_msg=name)
        assert np.max(np.abs(get(expected))) > 2 * scale, "a gradient of nothing would pass"


def test_no_gradient_is_taken_through_the_chains(model, observed):
    """The loss with its latents held fixed has the same gradient: the chains contribute none."""
    chain = Chain(5, StepSize(0.1))
    objective = Contrastive(posterior=chain, prior=chain, precondition=False)
    key = jax.random.key(1)
    posterior_key, prior_key = jax.random.split(key)
    few = observed[jnp.arange(8)]
    latents, _ = objective.posterior_draws(model, few, posterior_key)
    dreams, _ = objective.prior_draws(model, 8, prior_key)

    def held(tree):
        likelihood = few.each(lambda curve, z: tree.log_likelihood(z, curve), latents)
        energy = jax.vmap(tree.prior.energy)
        return -jnp.mean(likelihood) + jnp.mean(energy(latents)) - jnp.mean(energy(dreams))

    found = eqx.filter_grad(lambda tree: objective.loss(tree, few, key)[0])(model)
    expected = eqx.filter_grad(held)(model)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_masked_values_can_hold_anything_and_reach_no_gradient(model, observed):
    chain = Chain(5, StepSize(0.1), metropolis=True)
    objective = Contrastive(posterior=chain, prior=chain, precondition=True)
    few = observed[jnp.arange(4)]
    spoiled = eqx.tree_at(lambda tree: tree.values, few, few.values.at[:, 2].set(jnp.nan))
    loss = lambda tree, data: objective.loss(tree, data, jax.random.key(2))[0]  # noqa: E731
    clean, dirty = (eqx.filter_value_and_grad(loss)(model, data) for data in (few, spoiled))
    for one, other in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True):
        np.testing.assert_array_equal(one, other)


def test_linear_geometry_is_the_posterior_of_the_linear_model(model, observed):
    curve = Observations(observed.mean, observed.features, observed.values[0], observed.mask[0], shared=True)
    geometry = linear_geometry(model, curve, jax.random.key(0))
    seen = np.array(observed.mask[0, :, 0])
    phi, y = np.array(observed.features[seen, 0], float), np.array(observed.values[0, seen, 0], float)
    system = np.eye(RANK) + phi.T @ phi / 0.25
    np.testing.assert_allclose(geometry.centre, np.linalg.solve(system, phi.T @ y / 0.25), rtol=1e-4)
    np.testing.assert_allclose(geometry.factor @ geometry.factor.T, np.linalg.inv(system), rtol=1e-4)


def test_linear_geometry_has_no_meaning_for_a_network_generator(observed):
    network = ResidualMLP(3, RANK, width=8, key=jax.random.key(0))
    model = LatentModel(NetworkGenerator(network), GaussianPrior(3), Gaussian())
    assert linear_geometry(model, observed, jax.random.key(0)) is None


def test_alarm_names_chains_that_stand_still_and_energies_that_run_away():
    chain = Chain(5, StepSize(0.1), metropolis=True)
    objective = Contrastive(posterior=chain, prior=chain, precondition=False)
    assert "accept" in objective.alarm({"acceptance": 0.6, "prior_acceptance": 0.01})
    assert "energy" in objective.alarm({"energy_posterior": -1500.0, "energy_prior": 3.0})
    assert objective.alarm({"acceptance": 0.6, "energy_posterior": 1.0, "energy_prior": 0.0}) is None
