"""The closed forms against dense Gaussian algebra."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from febm.conjugate import (
    Mixture,
    complete_draws,
    condition,
    draw_leading,
    information,
    posterior_mean,
    project,
)

RANK, LEADING, POINTS, NOISE = 6, 3, 9, 0.04


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(POINTS, 1, RANK))
    mask = rng.uniform(size=(4, POINTS, 1)) < 0.7
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
