"""Kernels have the values, the algebra and the fit that their equations say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sklearn_kernels

from febm import kernel_fit
from febm.curves import Curves
from febm.images import grid2d
from febm.kernel_fit import fit_kernel
from febm.kernels import (
    Constant,
    Correlation,
    FeatureMap,
    Gaussian,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
    kernel_from_name,
    kernel_matrix,
    log_likelihoods,
    split_noise,
    starting_kernel,
)
from febm.storage import load, save

KEY = jax.random.key(0)


def draw_curves(
    kernel, *, curves: int, noise: float, seed: int, ragged: bool, d_y: int = 1, level: float = 0.0
) -> Curves:
    generator = np.random.default_rng(seed)
    xs, ys = [], []
    for _ in range(curves):
        x = generator.random(generator.integers(12, 30)) if ragged else np.linspace(0, 1, 25)
        covariance = kernel_matrix(kernel, x[:, None]) + noise * np.eye(len(x))
        xs.append(x)
        ys.append(level + np.linalg.cholesky(covariance) @ generator.standard_normal((len(x), d_y)))
    return Curves.from_arrays(xs, ys)


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (Matern12(0.7), sklearn_kernels.Matern(0.7, nu=0.5)),
        (Matern32(0.7), sklearn_kernels.Matern(0.7, nu=1.5)),
        (Matern52([0.7, 0.2, 3.0]), sklearn_kernels.Matern([0.7, 0.2, 3.0], nu=2.5)),
        (Gaussian([0.7, 0.2, 3.0]), sklearn_kernels.RBF([0.7, 0.2, 3.0])),
        (RationalQuadratic(0.7, 1.5), sklearn_kernels.RationalQuadratic(0.7, 1.5)),
        (Linear(), sklearn_kernels.DotProduct(sigma_0=0.0)),
        (Polynomial(3, offset=1.5), sklearn_kernels.DotProduct(sigma_0=1.5**0.5) ** 3),
        (
            0.5 + 2.0 * Matern52(0.7) * Linear() + Gaussian(0.4),
            sklearn_kernels.ConstantKernel(0.5)
            + 2.0 * sklearn_kernels.Matern(0.7, nu=2.5) * sklearn_kernels.DotProduct(sigma_0=0.0)
            + sklearn_kernels.RBF(0.4),
        ),
    ],
)
def test_kernel_agrees_with_scikit_learn_in_three_inputs(kernel, reference):
    generator = np.random.default_rng(1)
    x1, x2 = generator.standard_normal((9, 3)), generator.standard_normal((5, 3))
    np.testing.assert_allclose(kernel_matrix(kernel, x1, x2), reference(x1, x2), rtol=1e-12, atol=1e-13)


def test_periodic_kernel_agrees_with_scikit_learn_and_repeats():
    x = np.random.default_rng(2).random((7, 1))
    kernel = Periodic(period=0.4, length_scale=0.9)
    reference = sklearn_kernels.ExpSineSquared(length_scale=0.9, periodicity=0.4)
    np.testing.assert_allclose(kernel_matrix(kernel, x), reference(x), rtol=1e-10)
    np.testing.assert_allclose(kernel_matrix(kernel, x, x + 0.4), kernel_matrix(kernel, x), rtol=1e-10)


def test_kernel_algebra_adds_multiplies_and_scales():
    x = np.random.default_rng(3).random((6, 2))
    a, b = kernel_matrix(Matern32(0.5), x), kernel_matrix(Gaussian(2.0), x)
    combined = 2.0 * Matern32(0.5) * Gaussian(2.0) + 0.5 * Gaussian(2.0) + Constant(3.0)
    np.testing.assert_allclose(kernel_matrix(combined, x), 2.0 * a * b + 0.5 * b + 3.0, rtol=1e-12)


def test_white_noise_is_the_same_at_one_point_and_independent_at_two():
    x = np.array([[0.0], [1.0], [0.0]])
    np.testing.assert_array_equal(kernel_matrix(White(0.3), x), 0.3 * np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]]))


def test_a_correlation_has_unit_variance():
    x = np.random.default_rng(5).random((6, 2))
    covariance = kernel_matrix(0.5 + 2.0 * Linear(), x)
    deviation = np.sqrt(np.diagonal(covariance))
    expected = covariance / np.outer(deviation, deviation)
    np.testing.assert_allclose(kernel_matrix(Correlation(0.5 + 2.0 * Linear()), x), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "words",
    [
        "2 * Matern52(0.3) + 0.5 * White(0.01)",
        "(0.5 + Gaussian([0.3, 2])) * Periodic(1, 0.7)",
        "Matern12(0.1) * Matern32(0.25) * RationalQuadratic(1, 2) + 3",
        "Polynomial(2, 1, 0) + Linear(4) + Correlation(1 + Matern52(0.5))",
    ],
)
def test_a_kernel_reads_like_the_algebra_that_made_it(words):
    assert repr(eval(words)) == words


def test_kernels_can_be_summed_as_a_list():
    assert repr(sum([Matern12(0.1), Gaussian(2.0)])) == "Matern12(0.1) + Gaussian(2)"


def test_kernels_of_every_kind_are_saved_and_read(tmp_path):
    kernel = 2.0 * Matern52([0.3, 0.2]) * Periodic(1.0) + Polynomial(3) + Correlation(0.5 + Linear()) + White(0.1)
    save(kernel, tmp_path / "kernel.febm")
    loaded = load(tmp_path / "kernel.febm")
    x = np.random.default_rng(6).random((5, 2))
    assert repr(loaded) == repr(kernel)
    np.testing.assert_array_equal(kernel_matrix(loaded, x), kernel_matrix(kernel, x))


def test_white_terms_of_a_sum_are_its_noise():
    kernel, noise = split_noise(2.0 * Matern52(0.3) + White(0.1) + Gaussian(1.0) + 3.0 * White(0.2))
    assert repr(kernel) == "2 * Matern52(0.3) + Gaussian(1)"
    assert noise == pytest.approx(0.7)
    assert split_noise(Matern52(0.3) * White(0.1)).noise_variance is None


def test_feature_map_kernel_is_the_inner_product_of_the_features():
    network = eqx.nn.MLP(2, 4, 8, 1, key=KEY)
    x = np.random.default_rng(4).random((6, 2))
    features = np.asarray(jax.vmap(network)(jnp.asarray(x, jnp.float32)))
    np.testing.assert_allclose(kernel_matrix(FeatureMap(network), x), features @ features.T, rtol=1e-4, atol=1e-6)


def test_kernel_matrix_is_float64_and_leaves_jax_in_float32():
    assert kernel_matrix(Matern52(), np.zeros((3, 1))).dtype == np.float64
    assert jnp.ones(3).dtype == jnp.float32


def test_unknown_kernel_name_lists_the_names():
    assert isinstance(kernel_from_name("matern52"), Matern52)
    with pytest.raises(ValueError, match=r"no kernel named 'matern'.*gaussian.*matern52"):
        kernel_from_name("matern")


def test_values_that_are_not_positive_are_refused():
    with pytest.raises(ValueError, match="length_scale must be positive"):
        Matern52(0.0)
    with pytest.raises(ValueError, match="value must be at least 0"):
        Constant(-1.0)
    with pytest.raises(ValueError, match=r"degree is 1\.5"):
        Polynomial(1.5)


@pytest.mark.parametrize("ragged", [True, False])
def test_log_likelihoods_agree_with_scikit_learn_curve_by_curve(ragged):
    curves = draw_curves(2.0 * Matern52(0.3), curves=4, noise=0.05, seed=5, ragged=ragged)
    ours = log_likelihoods(1.7 * Matern52(0.25), curves, noise_variance=0.04, mean=0.3)
    reference = 1.7 * sklearn_kernels.Matern(0.25, nu=2.5) + sklearn_kernels.WhiteKernel(0.04)
    theirs = [
        GaussianProcessRegressor(reference, alpha=0.0, optimizer=None)
        .fit(curve.x, curve.y[:, 0] - 0.3)
        .log_marginal_likelihood_value_
        for curve in curves
    ]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_fitted_log_likelihood_is_that_of_scikit_learn_at_the_fitted_values():
    curve = draw_curves(2.0 * Matern52(0.3), curves=1, noise=0.05, seed=6, ragged=True)
    fit = fit_kernel(1.0 * Matern52(0.2), curve, key=KEY)
    amplitude, length = float(fit.kernel.kernel1.value), float(fit.kernel.kernel2.length_scale)
    reference = amplitude * sklearn_kernels.Matern(length, nu=2.5) + sklearn_kernels.WhiteKernel(fit.noise_variance)
    regressor = GaussianProcessRegressor(reference, alpha=0.0, optimizer=None)
    regressor.fit(curve.x, curve.y[:, 0] - fit.mean[0])
    assert fit.log_likelihood == pytest.approx(regressor.log_marginal_likelihood_value_, abs=1e-6)


def test_fit_is_at_least_as_likely_as_the_truth():
    truth = 2.0 * Matern52(0.3)
    curves = draw_curves(truth, curves=20, noise=0.05, seed=7, ragged=True)
    fit = fit_kernel("matern52", curves, key=KEY, mean="zero")
    assert fit.log_likelihood >= log_likelihoods(truth, curves, noise_variance=0.05).sum()


@pytest.mark.slow
def test_hyperparameters_of_simulated_ragged_curves_are_recovered():
    """80 ragged curves. Over 16 simulations the standard errors are 7.5 % for the variance, 3.4 % for the
    length scale, 4.9 % for the noise and 0.10 for the mean; the bounds are four of each, so that the error
    rate is below 1e-3.
    """
    curves = draw_curves(2.0 * Matern52(0.3), curves=80, noise=0.05, seed=8, ragged=True, level=5.0)
    fit = fit_kernel("matern52", curves, key=KEY)
    assert float(fit.kernel.kernel1.value) == pytest.approx(2.0, rel=0.3)
    assert float(fit.kernel.kernel2.length_scale) == pytest.approx(0.3, rel=0.14)
    assert fit.noise_variance == pytest.approx(0.05, rel=0.2)
    assert fit.mean[0] == pytest.approx(5.0, abs=0.4)


def test_curves_of_about_the_same_size_need_no_new_compilation():
    """Three curves of 12 to 16 points, then four: the second search is of the size that the first was compiled for."""
    compiled = kernel_fit._evaluate._cached._cache_size
    generator = np.random.default_rng(16)

    def fit(curves):
        xs = [generator.random(14) for _ in range(curves)]
        return fit_kernel(1.5 * Matern32(0.2), Curves.from_arrays(xs, [np.sin(9 * x) for x in xs]), key=KEY)

    fit(3)
    before = compiled()
    fit(4)
    assert compiled() == before


def test_a_kernel_that_is_held_fixed_stays_and_the_noise_is_fitted():
    curves = draw_curves(2.0 * Matern52(0.3), curves=20, noise=0.05, seed=9, ragged=True)
    fit = fit_kernel(2.0 * Matern52(0.3), curves, key=KEY, mean="zero", fixed=True)
    assert repr(fit.kernel) == "2 * Matern52(0.3)"
    assert fit.noise_variance == pytest.approx(0.05, rel=0.3)


def boxes(number: int) -> Curves:
    """Pictures with a small bright square each."""
    corners = np.random.default_rng(0).uniform(0.05, 0.8, (number, 1, 2))
    inside = np.abs(grid2d(20, 20) - corners - 0.075) < 0.075
    return Curves.from_images(inside.all(axis=2).reshape(number, 20, 20).astype(float))


@pytest.mark.parametrize("name", ["gaussian", "matern52"])
def test_search_that_takes_all_for_noise_is_made_again(name):
    fit = fit_kernel(name, boxes(20), key=KEY)
    assert 0.02 < fit.kernel.kernel2.length_scale < 0.2
    assert fit.noise_variance < 0.5 * fit.kernel.kernel1.value


def test_noise_is_found_to_be_noise():
    values = 2 + 0.5 * np.random.default_rng(1).normal(size=(30, 40))
    fit = fit_kernel("matern52", Curves.from_grid(np.linspace(0, 1, 40), values), key=KEY)
    expected = -0.5 * (np.log(2 * np.pi * values.var()) + 1)
    assert fit.log_likelihood / values.size == pytest.approx(expected, abs=2e-3)


def test_further_starts_leave_a_bad_place(monkeypatch):
    """A search that begins with paths far too rough ends where everything is noise."""
    monkeypatch.setattr(kernel_fit, "FRESH_STARTS", 0)
    curve = draw_curves(2.0 * Matern52(0.3), curves=1, noise=0.01, seed=17, ragged=False)
    options = dict(key=KEY, mean="zero", first_noise=2.0)
    once = fit_kernel(0.1 * Matern52(0.003), curve, **options)
    thrice = fit_kernel(0.1 * Matern52(0.003), curve, **options, starts=3)
    assert thrice.log_likelihood > once.log_likelihood + 1


def test_noise_that_is_given_stays():
    curves = draw_curves(Matern52(0.3), curves=4, noise=0.05, seed=9, ragged=True)
    assert fit_kernel("matern52", curves, key=KEY, noise=0.2).noise_variance == 0.2


def test_noise_free_smooth_curves_are_fitted_without_breakdown():
    x = np.linspace(0, 1, 40)
    curves = Curves.from_grid(x, np.sin(2 * np.pi * (x + np.linspace(0, 1, 5)[:, None])))
    fit = fit_kernel("gaussian", curves, key=KEY, noise=0.0)
    assert np.isfinite(fit.log_likelihood)


def test_two_outputs_share_the_hyperparameters_and_have_their_own_means():
    curves = draw_curves(Matern52(0.3), curves=30, noise=0.05, seed=10, ragged=True, d_y=2)
    curves = curves.replace(y=curves.y + np.array([0.0, 10.0]))
    fit = fit_kernel("matern52", curves, key=KEY)
    assert fit.mean.shape == (2,)
    assert fit.mean[1] - fit.mean[0] == pytest.approx(10.0, abs=1.0)
    parts = [
        log_likelihoods(
            fit.kernel,
            curves.replace(y=curves.y[:, [output]]),
            noise_variance=fit.noise_variance,
            mean=fit.mean[output],
        )
        for output in range(2)
    ]
    assert fit.log_likelihood == pytest.approx(np.sum(parts), abs=1e-6)


def test_missing_value_of_one_output_is_left_out():
    curves = draw_curves(Matern52(0.3), curves=1, noise=0.05, seed=11, ragged=False, d_y=2)
    y = curves.y.copy()
    y[3, 1] = np.nan
    whole = Curves.from_arrays([curves.x], [y])
    first = Curves.from_arrays([curves.x], [y[:, 0]])
    second = Curves.from_arrays([np.delete(curves.x, 3, axis=0)], [np.delete(y[:, 1], 3)])
    options = {"noise_variance": 0.05}
    parts = log_likelihoods(Matern52(0.3), first, **options) + log_likelihoods(Matern52(0.3), second, **options)
    np.testing.assert_allclose(log_likelihoods(Matern52(0.3), whole, **options), parts, atol=1e-9)


def test_long_and_many_curves_are_thinned():
    curves = draw_curves(2.0 * Matern52(0.3), curves=30, noise=0.05, seed=12, ragged=True)
    few = fit_kernel("matern52", curves, key=KEY, max_curves=5, max_points=10)
    again = fit_kernel("matern52", curves, key=KEY, max_curves=5, max_points=10)
    assert few.log_likelihood == again.log_likelihood
    # 5 curves of 10 points: 50 values, where all curves have some 600.
    assert abs(few.log_likelihood) < 200


def test_weights_of_a_feature_map_are_fitted_and_may_be_negative():
    network = eqx.nn.MLP(1, 4, 8, 1, key=KEY)
    curves = draw_curves(2.0 * Matern52(0.5), curves=10, noise=0.05, seed=13, ragged=True)
    start = fit_kernel(FeatureMap(network), curves, key=KEY, max_iterations=1)
    fit = fit_kernel(FeatureMap(network), curves, key=KEY, max_iterations=20)
    assert fit.log_likelihood > start.log_likelihood
    assert np.any(fit.kernel.network.layers[0].weight < 0)


def test_starting_kernel_takes_its_scale_from_the_curves():
    curves = Curves.from_grid(np.linspace(0, 50, 11), 3.0 * np.random.default_rng(14).standard_normal((40, 11)))
    kernel = starting_kernel("matern52", curves)
    assert float(kernel.kernel1.value) == pytest.approx(9.0, rel=0.3)
    assert float(kernel.kernel2.length_scale) == pytest.approx(10.0)


def test_bad_mean_and_noise_are_refused_in_a_sentence():
    curves = Curves.from_grid(np.linspace(0, 1, 5), np.zeros((2, 5)))
    with pytest.raises(ValueError, match="mean must be 'zero' or 'constant'"):
        fit_kernel("matern52", curves, key=KEY, mean="linear")
    with pytest.raises(ValueError, match="noise must be a variance"):
        fit_kernel("matern52", curves, key=KEY, noise=-1.0)
