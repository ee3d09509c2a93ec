"""Chains against densities that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from febm.langevin import Affine, Chain, StepSize, run_chain

COVARIANCE = jnp.array([[1.0, 0.6], [0.6, 2.0]])
MEAN = jnp.array([0.5, -1.0])


def log_density(z):
    return -0.5 * (z - MEAN) @ jnp.linalg.solve(COVARIANCE, z - MEAN)


@pytest.mark.parametrize("metropolis", [False, True])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_chains_reach_their_target(metropolis, preconditioned):
    """4,000 chains; 5 standard errors (plus the step-size bias of plain chains) on 5 figures: 1 in 300,000."""
    step = 0.3 if metropolis else 0.02
    geometry = Affine(MEAN, jnp.linalg.cholesky(COVARIANCE)) if preconditioned else None
    chain = Chain(100 if metropolis else 500, StepSize(step), metropolis)
    keys = jax.random.split(jax.random.key(0), 4000)
    start = jnp.zeros((4000, 2))
    draws, _ = jax.vmap(lambda s, k: run_chain(log_density, s, chain=chain, geometry=geometry, key=k))(start, keys)
    bias = 0.0 if metropolis else 2 * step
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=5 * np.sqrt(2 / 4000))
    np.testing.assert_allclose(np.cov(draws.T), COVARIANCE, atol=5 * np.sqrt(8 / 4000) + bias)


def test_step_size_goes_linearly_from_first_to_last():
    np.testing.assert_allclose(StepSize(1e-2, 1e-3).schedule(4), [1e-2, 7e-3, 4e-3, 1e-3], rtol=1e-6)
    np.testing.assert_allclose(StepSize(0.5).schedule(3), [0.5, 0.5, 0.5])


def test_plain_step_has_drift_and_noise_as_a_pair():
    """One step from 0 on a flat density is √(2h)·ε: its variance over 20,000 chains is 2h within 5 standard errors."""
    chain = Chain(1, StepSize(0.1))
    keys = jax.random.split(jax.random.key(1), 20_000)
    ends, _ = jax.vmap(lambda k: run_chain(lambda z: 0.0 * jnp.sum(z), jnp.zeros(1), chain=chain, key=k))(keys)
    assert abs(float(jnp.var(ends)) - 0.2) < 5 * 0.2 * np.sqrt(2 / 20_000)


def test_plain_chain_survives_a_density_that_is_too_steep_for_its_step():
    """With h·curvature = 1000 a plain step would double the error a thousandfold at every step."""
    chain = Chain(200, StepSize(0.1))
    end, _ = run_chain(lambda z: -0.5e4 * jnp.sum(z**2), jnp.full(3, 5.0), chain=chain, key=jax.random.key(0))
    assert float(jnp.max(jnp.abs(end))) < 5


def test_acceptance_of_a_corrected_chain_is_reported():
    chain = Chain(50, StepSize(50.0), metropolis=True)
    _, info = run_chain(log_density, jnp.zeros(2), chain=chain, key=jax.random.key(2))
    assert 0 <= float(info.acceptance) < 0.2
