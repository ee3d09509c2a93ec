"""Random Fourier features stand for a Gaussian kernel, and sums of bases for sums of processes."""

import jax
import numpy as np
import pytest

from febm.basis import KarhunenLoeve, RandomFourier, SumBasis
from febm.curves import Curves
from febm.errors import NotFittedError
from febm.kernels import Gaussian, Linear, Matern52, kernel_matrix

KEY = jax.random.key(0)
GRID = np.linspace(0, 1, 15)


def noisy_curves(d_y: int = 1, level: float = 0.0) -> Curves:
    return Curves.from_grid(GRID, level + np.random.default_rng(0).standard_normal((20, 15, d_y)))


def test_fourier_features_approximate_a_gaussian_kernel():
    """4000 frequencies: each entry has a standard error of at most 0.012, and the bound is five of them."""
    x = np.random.default_rng(1).random((40, 2))
    curves = Curves.from_arrays([x], [np.random.default_rng(2).standard_normal(40)])
    basis = RandomFourier(8000, scale=0.6).fit(curves, key=KEY)
    features = basis.features(x)[:, 0]
    exact = np.var(curves.y) * kernel_matrix(Gaussian(1 / (2 * np.pi * 0.6)), x)
    np.testing.assert_allclose(features @ features.T, exact, atol=0.06 * np.var(curves.y))


def test_fourier_features_have_the_variance_of_the_curves_everywhere():
    curves = noisy_curves(level=3.0)
    basis = RandomFourier(16, scale=2.0).fit(curves, key=KEY)
    variances = np.sum(basis.features(GRID[:, None])[:, 0] ** 2, axis=1)
    np.testing.assert_allclose(variances, np.var(curves.y), rtol=1e-12)
    assert basis.spectrum.sum() == pytest.approx(np.var(curves.y))
    np.testing.assert_allclose(basis.mean(GRID[:, None]), np.mean(curves.y))


def test_fourier_waves_go_from_slow_to_fast_and_serve_two_outputs():
    basis = RandomFourier(32, scale=2.0).fit(noisy_curves(d_y=2), key=KEY)
    assert np.all(np.diff(np.abs(basis.fitted.frequencies[:, 0])) >= 0)
    features = basis.features(GRID[:, None])
    assert features.shape == (15, 2, 64)
    assert not features[:, 0, 1::2].any()
    np.testing.assert_array_equal(features[:, 0, 0::2], features[:, 1, 1::2])


def test_fourier_scale_is_found_from_the_curves_when_not_given():
    """60 curves of 15 points: some nine of each tell of the noise, a standard error of √(2/540), 6 %; all of
    the length scale, a few per cent. The bounds of 40 % and 20 % are five of each or more.
    """
    factor = np.linalg.cholesky(kernel_matrix(Gaussian(0.25), GRID[:, None]) + 0.01 * np.eye(15))
    curves = Curves.from_grid(GRID, np.random.default_rng(3).standard_normal((60, 15)) @ factor.T)
    basis = RandomFourier(4000).fit(curves, key=KEY)
    # The root mean square of 2000 frequencies is s within two per cent.
    scale = np.sqrt(np.mean(basis.fitted.frequencies**2))
    assert 1 / (2 * np.pi * scale) == pytest.approx(0.25, rel=0.2)
    assert basis.noise_variance == pytest.approx(0.01, rel=0.4)
    assert RandomFourier(scale=1.0).fit(curves, key=KEY).noise_variance is None


def test_fourier_frequencies_follow_the_key():
    first, second = (RandomFourier(8, scale=1.0).fit(noisy_curves(), key=KEY) for _ in range(2))
    other = RandomFourier(8, scale=1.0).fit(noisy_curves(), key=jax.random.key(1))
    np.testing.assert_array_equal(first.fitted.frequencies, second.fitted.frequencies)
    assert np.all(first.fitted.frequencies != other.fitted.frequencies)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": 7}, "features must be an even number"),
        ({"scale": 0.0}, "scale must be a positive number"),
    ],
)
def test_bad_fourier_arguments_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        RandomFourier(**arguments)


def test_sum_of_bases_has_the_sum_of_the_kernels():
    basis = KarhunenLoeve(Matern52(0.3), rank=60, max_points=100) + KarhunenLoeve(
        2.0 * Linear(1.0), rank=1, max_points=100
    )
    basis = basis.fit(noisy_curves(), key=KEY)
    x = np.linspace(0, 1, 31)[:, None]
    features = basis.features(x)[:, 0]
    exact = kernel_matrix(Matern52(0.3) + 2.0 * Linear(1.0), x)
    np.testing.assert_allclose(features @ features.T, exact, atol=1e-3)


def test_columns_of_a_sum_are_sorted_by_eigenvalue():
    basis = KarhunenLoeve(0.5 * Matern52(0.3), rank=5, max_points=100) + KarhunenLoeve(
        Gaussian(0.2), rank=5, max_points=100
    )
    basis = basis.fit(noisy_curves(), key=KEY)
    assert basis.rank == 10
    assert np.all(np.diff(basis.spectrum) <= 0)
    t = (np.arange(400)[:, None] + 0.5) / 400
    np.testing.assert_allclose(np.mean(basis.features(t)[:, 0] ** 2, axis=0), basis.spectrum, rtol=1e-2)


def test_sum_counts_the_mean_once():
    curves = noisy_curves(level=7.0)
    part = KarhunenLoeve(Matern52(0.3), rank=3, max_points=100, mean="constant")
    fitted = (part + part + RandomFourier(4, scale=1.0)).fit(curves, key=KEY)
    np.testing.assert_allclose(fitted.mean(GRID[:, None]), np.mean(curves.y))


def test_later_part_carries_the_mean_that_the_first_leaves():
    curves = noisy_curves(level=7.0)
    without = KarhunenLoeve(Matern52(0.3), rank=3, max_points=100, mean="zero")
    fitted = (without + RandomFourier(4, scale=1.0)).fit(curves, key=KEY)
    np.testing.assert_allclose(fitted.mean(GRID[:, None]), np.mean(curves.y))


def test_sum_is_cut_by_number_and_by_share():
    parts = (
        KarhunenLoeve(Matern52(0.3), rank=20, max_points=100),
        KarhunenLoeve(Gaussian(0.2), rank=20, max_points=100),
    )
    whole = SumBasis(*parts).fit(noisy_curves(), key=KEY)
    by_number = SumBasis(*parts, rank=6).fit(noisy_curves(), key=KEY)
    np.testing.assert_array_equal(by_number.spectrum, whole.spectrum[:6])
    assert by_number.features(GRID[:, None]).shape == (15, 1, 6)
    by_share = SumBasis(*parts, rank=0.9).fit(noisy_curves(), key=KEY)
    assert by_share.spectrum.sum() >= 0.9 * whole.spectrum.sum() > by_share.spectrum[:-1].sum()


def test_sum_of_three_is_flat_and_not_fitted_before_its_parts():
    part = KarhunenLoeve(Matern52(0.3), rank=3, max_points=100)
    basis = part + part + part
    assert len(basis.parts) == 3
    assert not basis.is_fitted
    assert basis.noise_variance is None
    with pytest.raises(NotFittedError, match="SumBasis is not fitted yet"):
        basis.features(GRID[:, None])


def test_only_bases_can_be_summed():
    with pytest.raises(TypeError):
        SumBasis(KarhunenLoeve(Matern52(0.3)), 3)
    with pytest.raises(TypeError):
        KarhunenLoeve(Matern52(0.3)) + 3
