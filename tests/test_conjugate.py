"""The closed forms against dense Gaussian algebra."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from febm.conjugate import (
    Mixture,
    Projection,
    complete_draws,
    condition,
    draw_leading,
    information,
    posterior_mean,
    project,
)
from febm.roughness import Roughness

RANK, LEADING, POINTS, NOISE = 6, 3, 9, 0.04


@pytest.fixture(params=[0.7, 1.0], ids=["points of their own", "common points"])
def setting(request):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(POINTS, 1, RANK))
    mask = rng.uniform(size=(4, POINTS, 1)) < request.param
    residual = np.where(mask, rng.normal(size=(4, POINTS, 1)), np.nan)
    roots = rng.normal(size=(2, LEADING, LEADING)) + 2 * np.eye(LEADING)
    factors = np.linalg.cholesky(roots @ np.swapaxes(roots, 1, 2))
    mixture = Mixture(np.log([0.3, 0.7]), rng.normal(size=(2, LEADING)), factors)
    return features, residual, mask, mixture


def dense(features, residual, mask, mixture, curve):
    """Weights, means, covariances and log evidence of one curve by dense algebra on all coordinates."""
    seen = mask[curve].reshape(-1)
    phi, y = features.reshape(-1, RANK)[seen], residual[curve].reshape(-1)[seen]
    parts = []
    for log_weight, mean, factor in zip(*mixture[:3], strict=True):
        full_mean = np.concatenate([mean, np.zeros(RANK - LEADING)])
        full = np.eye(RANK)
        full[:LEADING, :LEADING] = factor @ factor.T
        covariance = phi @ full @ phi.T + NOISE * np.eye(len(y))
        gain = full @ phi.T @ np.linalg.inv(covariance)
        log_joint = log_weight + multivariate_normal(phi @ full_mean, covariance).logpdf(y)
        parts.append((log_joint, full_mean + gain @ (y - phi @ full_mean), full - gain @ phi @ full))
    log_joint = np.array([part[0] for part in parts])
    evidence = logsumexp(log_joint)
    weights = np.exp(log_joint - evidence)
    mean = sum(weight * part[1] for weight, part in zip(weights, parts, strict=True))
    second = sum(weight * (part[2] + np.outer(part[1], part[1])) for weight, part in zip(weights, parts, strict=True))
    return weights, mean, second - np.outer(mean, mean), evidence


def test_evidence_and_mean_equal_dense_algebra(setting):
    features, residual, mask, mixture = setting
    observed = information(project(features, residual, mask), NOISE, LEADING)
    posterior = condition(mixture, observed)
    mean = posterior_mean(posterior, observed)
    for curve in range(4):
        weights, expected_mean, _, evidence = dense(*setting, curve)
        np.testing.assert_allclose(np.exp(posterior.component_log_weights[curve]), weights, rtol=1e-9)
        np.testing.assert_allclose(posterior.log_evidence[curve], evidence, rtol=1e-10)
        np.testing.assert_allclose(mean[curve], expected_mean, rtol=1e-8, atol=1e-10)


def test_features_shared_or_per_curve_give_the_same(setting):
    features, residual, mask, mixture = setting
    own = np.broadcast_to(features, (4, *features.shape))
    shared = condition(mixture, information(project(features, residual, mask), NOISE, LEADING))
    each = condition(mixture, information(project(own, residual, mask), NOISE, LEADING))
    np.testing.assert_allclose(shared.log_evidence, each.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(shared.given(1)[0], each.given(1)[0], rtol=1e-9)


def test_curves_with_the_same_points_share_one_factorisation():
    projection = project(np.ones((5, 1, 2)), np.zeros((7, 5, 1)), np.ones((7, 5, 1), dtype=bool))
    assert projection.gram.shape == (1, 2, 2)


def test_draws_have_the_moments_of_the_posterior(setting):
    """Mean and covariance of 40,000 draws; a bound of 5 standard errors on 28 figures fails 1 time in 60,000."""
    features, residual, mask, mixture = setting
    generator = np.random.default_rng(1)
    observed = information(project(features, residual, mask), NOISE, LEADING)
    draws = complete_draws(observed, draw_leading(condition(mixture, observed), 40_000, generator), generator)
    _, mean, covariance, _ = dense(*setting, 2)
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(draws[2].mean(axis=0) - mean), 5 * spread / 200)
    error = np.abs(np.cov(draws[2].T) - covariance) / np.outer(spread, spread)
    assert error.max() < 5 * np.sqrt(3) / 200


def test_mixture_without_tail_and_noise_near_zero_stay_finite():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(8, 1, 3))
    y = (features @ np.ones(3))[None]
    observed = information(project(features, y, np.ones((1, 8, 1), dtype=bool)), 1e-8, 3)
    posterior = condition(Mixture.standard_normal(3), observed)
    np.testing.assert_allclose(posterior_mean(posterior, observed)[0], np.ones(3), atol=1e-6)
    assert np.isfinite(posterior.log_evidence).all()


class TestRoughness:
    """y = m + Φ_l z + e^t (Φ_t u + σε): everything against numerical integration over t."""

    @pytest.fixture
    def rough(self, setting):
        features, residual, mask, mixture = setting
        return (
            features,
            residual,
            mask,
            mixture._replace(roughness=Roughness(np.array([0.2, -0.3]), np.array([0.4, 0.3]))),
        )

    @staticmethod
    def integrated(features, residual, mask, mixture, curve):
        """Log evidence, mean of the weights and mean of t of one curve: dense algebra on a fine grid of t."""
        seen = mask[curve].reshape(-1)
        phi, y = features.reshape(-1, RANK)[seen], residual[curve].reshape(-1)[seen]
        grid = np.linspace(-2.5, 2.5, 801)
        joint, means = [], []
        for k in range(2):
            mean, scale = mixture.roughness.means[k], mixture.roughness.scales[k]
            full_mean = np.concatenate([mixture.means[k], np.zeros(RANK - LEADING)])
            for t in grid:
                full = np.eye(RANK) * np.exp(2 * t)
                full[:LEADING, :LEADING] = mixture.factors[k] @ mixture.factors[k].T
                covariance = phi @ full @ phi.T + np.exp(2 * t) * NOISE * np.eye(len(y))
                prior = mixture.log_weights[k] - 0.5 * ((t - mean) / scale) ** 2 - np.log(scale * np.sqrt(2 * np.pi))
                joint.append(prior + multivariate_normal(phi @ full_mean, covariance).logpdf(y))
                means.append(full_mean + full @ phi.T @ np.linalg.solve(covariance, y - phi @ full_mean))
        evidence = logsumexp(joint)
        weights = np.exp(np.array(joint) - evidence)
        return evidence + np.log(grid[1] - grid[0]), weights @ np.array(means), weights @ np.tile(grid, 2)

    def test_evidence_and_means_equal_numerical_integration(self, rough):
        features, residual, mask, mixture = rough
        observed = information(project(features, residual, mask), NOISE, LEADING)
        posterior = condition(mixture, observed)
        found = posterior_mean(posterior, observed)
        for curve in range(2):
            evidence, mean, roughness = self.integrated(*rough, curve)
            assert posterior.log_evidence[curve] == pytest.approx(evidence, abs=2e-3)
            np.testing.assert_allclose(found[curve], mean, atol=2e-3)
            share = np.exp(posterior.log_weights[curve])
            assert np.sum(share * posterior.nodes[curve]) == pytest.approx(roughness, abs=2e-3)

    def test_draws_have_the_means_of_the_posterior(self, rough):
        """40,000 draws; a bound of 5 standard errors on 7 figures fails 1 time in 250,000."""
        features, residual, mask, mixture = rough
        generator = np.random.default_rng(3)
        observed = information(project(features, residual, mask), NOISE, LEADING)
        leading = draw_leading(condition(mixture, observed), 40_000, generator)
        draws = complete_draws(observed, leading, generator)
        assert draws.shape == (4, 40_000, RANK + 1)
        _, mean, roughness = self.integrated(*rough, 1)
        t = draws[1, :, LEADING]
        weights = np.concatenate([draws[1, :, :LEADING], np.exp(t)[:, None] * draws[1, :, LEADING + 1 :]], axis=1)
        for values, expected in zip([*weights.T, t], [*mean, roughness], strict=True):
            assert abs(values.mean() - expected) < 5 * values.std() / 200 + 2e-3

    def test_a_spike_does_not_make_a_curve_rougher_than_the_prior_allows(self, setting):
        features, residual, mask, mixture = setting
        spiked = residual.copy()
        spiked[0, np.flatnonzero(mask[0, :, 0])[0]] = 1e4
        roughness = Roughness(np.zeros(2), np.full(2, 0.3))
        observed = information(project(features, spiked, mask), NOISE, LEADING)
        posterior = condition(mixture._replace(roughness=roughness), observed)
        assert posterior.nodes.max() <= 4 * 0.3 + 1e-12
        assert np.isfinite(posterior.log_evidence).all()

    @pytest.mark.parametrize("scale", [0.4, 2.0])
    def test_the_roughness_of_very_long_curves_is_found(self, scale):
        """A hundred thousand values of noise alone: t is known to 0.002, a thousandth of what the prior allows."""
        size, variance, places = 100_000, 0.04, np.array([0.9, -1.1, 0.02]) * scale
        square = size * variance * np.exp(2 * places)
        one = np.ones(3, dtype=int)
        noise_alone = Projection(np.zeros((1, 1, 1)), 0 * one, np.zeros((3, 1)), square, size * one)
        mixture = Mixture.standard_normal(1, roughness=scale)
        found = condition(mixture, information(noise_alone, variance, 1)).log_evidence
        t = places[:, None] + np.linspace(-0.05, 0.05, 20_001)
        joint = -size * t - 0.5 * square[:, None] / variance * np.exp(-2 * t) - 0.5 * (t / scale) ** 2 - np.log(scale)
        constant = -0.5 * size * np.log(2 * np.pi * variance) - 0.5 * np.log(2 * np.pi)
        expected = logsumexp(joint, axis=1) + np.log(t[0, 1] - t[0, 0]) + constant
        np.testing.assert_allclose(found, expected, atol=1e-3)
