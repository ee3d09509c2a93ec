"""Samplers of the latent posterior against closed forms, and against a posterior with two modes."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from febm.condensing import leading_mixture
from febm.inference import Effort, draw_prior, exact, infer, log_normaliser
from febm.langevin import Chain, StepSize
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.networks import LinearGenerator, ResidualGenerator, ResidualMLP
from febm.observations import Observations
from febm.priors import Energy, GaussianPrior, MixturePrior, TiltedPrior

RANK, POINTS, CURVES = 3, 5, 2
EFFORT = Effort(draws=800, proposals=4000, chains=4, warmup=200, particles=800, moves=3)
CHAIN = Chain(60, StepSize(0.3), metropolis=True)


def curves(seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(CURVES, POINTS, 1))
    mask = rng.uniform(size=values.shape) < 0.8
    return Observations(np.zeros((POINTS, 1)), rng.normal(size=(POINTS, 1, RANK)), values, mask, shared=True)


def linear_model(prior):
    return LatentModel(LinearGenerator(RANK, RANK), prior, Gaussian(0.4))


@pytest.mark.parametrize("method", ["langevin", "mala", "nuts", "smc"])
def test_samplers_agree_with_the_closed_form(method):
    """About 400 effective draws: 6 means and 12 second moments within 5 standard errors, wrong 1 time in 100,000."""
    model, observed = linear_model(GaussianPrior(RANK)), curves()
    expected = exact(model, observed, effort=Effort(draws=20_000), key=jax.random.key(0))
    found = infer(model, observed, method=method, effort=EFFORT, chain=CHAIN, key=jax.random.key(1))
    for curve in range(CURVES):
        spread = expected.draws[curve].std(axis=0)
        np.testing.assert_array_less(np.abs(found.mean[curve] - expected.mean[curve]), 5 * spread / 20)
        difference = np.cov(found.draws[curve].T) - np.cov(expected.draws[curve].T)
        assert np.max(np.abs(difference) / np.outer(spread, spread)) < 5 * np.sqrt(2) / 20


def test_tempering_gives_the_log_evidence():
    """Six repeats have a spread of about 0.1; the closed form lies within 0.3 of their mean."""
    model, observed = linear_model(GaussianPrior(RANK)), curves()
    expected = exact(model, observed, effort=Effort(), key=jax.random.key(0)).log_evidence
    found = [
        infer(model, observed, method="smc", effort=EFFORT, chain=CHAIN, key=jax.random.key(seed)).log_evidence
        for seed in range(6)
    ]
    np.testing.assert_allclose(np.mean(found, axis=0), expected, atol=0.3)


def test_caution_widens_posteriors_by_what_a_curve_tells_and_leaves_means_and_evidence():
    """The same draws about the same means; a curve without values is as unknown as before."""
    observed = curves()
    observed = dataclasses.replace(observed, mask=observed.mask & (np.arange(CURVES) > 0)[:, None, None])
    plain = linear_model(MixturePrior(np.zeros(1), np.zeros((1, RANK)), np.eye(RANK)[None], RANK))
    own, wider = (
        exact(model, observed, effort=Effort(), key=jax.random.key(0))
        for model in (plain, dataclasses.replace(plain, caution=0.7))
    )
    seen = observed.features[observed.mask[1, :, 0], 0]
    left = np.linalg.inv(np.eye(RANK) + seen.T @ seen / 0.4**2)
    known = np.array([0.0, 1 - np.trace(left) / RANK])
    ratio = (wider.draws - wider.mean[:, None]) / (own.draws - own.mean[:, None])
    np.testing.assert_allclose(ratio, np.broadcast_to(np.sqrt(1 + 0.7 * known)[:, None, None], ratio.shape), rtol=1e-4)
    np.testing.assert_allclose(wider.mean, own.mean, atol=1e-12)
    np.testing.assert_allclose(wider.log_evidence, own.log_evidence)


def test_of_many_components_the_likely_ones_tell_the_posterior(monkeypatch):
    """Forty components far from each other: with a few of them for each curve, means and evidence stay the same."""
    rng = np.random.default_rng(5)
    factors = 0.3 * np.linalg.cholesky(np.stack([np.cov(rng.normal(size=(RANK, 20))) for _ in range(40)]))
    model = linear_model(MixturePrior(np.zeros(40), 3 * rng.normal(size=(40, RANK)), factors, RANK))
    observed = curves(7)
    whole = exact(model, observed, effort=Effort(), key=jax.random.key(0))
    monkeypatch.setattr("febm.inference.LARGEST_SYSTEMS", 0)
    few = exact(model, observed, effort=Effort(), key=jax.random.key(0))
    np.testing.assert_allclose(few.log_evidence, whole.log_evidence, atol=0.01)
    np.testing.assert_allclose(few.mean, whole.mean, atol=0.01)
    np.testing.assert_allclose(few.draws.std(axis=1), whole.draws.std(axis=1), rtol=0.3)


class QuadraticEnergy(eqx.Module):
    """E(z) = ½ Σ a_i z_i² + Σ b_i z_i: tilting N(0, I) by it gives N(−b/(1+a), 1/(1+a))."""

    a: jax.Array
    b: jax.Array

    def __call__(self, z):
        return jnp.sum(0.5 * self.a * z**2 + self.b * z)


A, B = np.array([0.8, -0.2]), np.array([0.5, 0.3])


def tilted_prior():
    energy = Energy(QuadraticEnergy(jnp.asarray(A, jnp.float32), jnp.asarray(B, jnp.float32)), 2)
    prior = TiltedPrior(GaussianPrior(RANK), energy)
    return prior.with_log_normaliser(float(np.sum(0.5 * B**2 / (1 + A) - 0.5 * np.log(1 + A))))


def equivalent_prior():
    """The same prior written as a Gaussian."""
    factor = np.diag(1 / np.sqrt(1 + A))[None]
    return MixturePrior(np.zeros(1), (-B / (1 + A))[None], factor, RANK)


@pytest.mark.parametrize("method", ["exact", "smc"])
def test_tilted_posterior_and_evidence_are_those_of_the_equivalent_gaussian(method):
    """Means within 5 standard errors of 400 effective draws; the evidence within 0.2 nats."""
    observed = curves(3)
    expected = exact(linear_model(equivalent_prior()), observed, effort=Effort(), key=jax.random.key(0))
    found = infer(
        linear_model(tilted_prior()), observed, method=method, effort=EFFORT, chain=CHAIN, key=jax.random.key(1)
    )
    np.testing.assert_array_less(np.abs(found.mean - expected.mean), 5 * expected.draws.std(axis=1) / 20)
    np.testing.assert_allclose(found.log_evidence, expected.log_evidence, atol=0.2)


@pytest.mark.parametrize("largest", [1 << 26, 4, 0])
def test_alike_every_curve_is_as_by_itself(largest, monkeypatch):
    """Draws included, however many curves are taken at once."""
    monkeypatch.setattr("febm.inference.LARGEST_SYSTEMS", largest)
    model, observed = linear_model(tilted_prior()), curves(3)
    given = dict(effort=Effort(draws=50, proposals=200), key=jax.random.key(0))
    together = exact(model, observed, **given, alike=True)
    for curve in range(CURVES):
        alone = exact(model, observed[curve : curve + 1], **given)
        np.testing.assert_allclose(together.draws[curve], alone.draws[0], atol=1e-6)
        np.testing.assert_allclose(together.mean[curve], alone.mean[0], atol=1e-6)
        np.testing.assert_allclose(together.log_evidence[curve], alone.log_evidence[0], atol=1e-6)


def test_normaliser_of_a_tilted_prior_is_found_by_tempering():
    prior = tilted_prior()
    found = log_normaliser(linear_model(prior), EFFORT, jax.random.key(0))
    np.testing.assert_allclose(found, prior.log_normaliser, atol=0.1)


@pytest.mark.parametrize("steps", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_prior_draws_have_the_tilted_moments_however_long_the_chain(steps):
    """1,000 draws: six moments within 5 standard errors, wrong 1 time in 300,000."""
    draws, _ = draw_prior(tilted_prior(), 1000, steps=steps, key=jax.random.key(2))
    means, scales = np.append(-B / (1 + A), 0.0), np.append(1 / np.sqrt(1 + A), 1.0)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - means), 5 * scales / np.sqrt(1000))
    np.testing.assert_allclose(draws.std(axis=0), scales, rtol=5 / np.sqrt(2 * 1000))


def test_automatic_inference_finds_both_modes_of_a_nonlinear_posterior():
    """w₁ = z₁ + r(z₁) with r even in z₁: z₁² is seen, its sign is not; each mode gets a third of 800 draws or more."""

    class Square(ResidualMLP):
        def __call__(self, z):
            return z**2 - z

    square = Square(1, 1, width=2, key=jax.random.key(0))
    model = LatentModel(ResidualGenerator(square, 1, leading=1), GaussianPrior(1), Gaussian(0.05))
    observed = Observations(np.zeros((3, 1)), np.ones((3, 1, 1)), np.ones((1, 3, 1)), np.ones((1, 3, 1), bool), True)
    found = infer(model, observed, method="auto", effort=EFFORT, chain=CHAIN, key=jax.random.key(0))
    share = np.mean(found.draws[0, :, 0] > 0)
    assert 1 / 3 < share < 2 / 3
    np.testing.assert_allclose(np.abs(found.draws[0, :, 0]).mean(), 1.0, atol=0.05)


def test_chains_report_their_convergence():
    found = infer(
        linear_model(GaussianPrior(RANK)), curves(), method="nuts", effort=EFFORT, chain=CHAIN, key=jax.random.key(0)
    )
    assert np.all(found.diagnostics["rhat"] < 1.05)
    assert np.all(found.diagnostics["ess_bulk"] > 200)


def test_mixture_is_extended_to_what_the_energy_sees():
    base = MixturePrior(np.zeros(2), np.zeros((2, 2)), np.stack([np.eye(2)] * 2), 5)
    energy = Energy(ResidualMLP(4, "scalar", width=4, key=jax.random.key(0)), 4)
    mixture = leading_mixture(LatentModel(LinearGenerator(5, 5), TiltedPrior(base, energy), Gaussian(0.1)))
    assert mixture.leading == 4
    np.testing.assert_array_equal(mixture.factors[1], np.eye(4))
