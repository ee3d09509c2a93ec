"""The Karhunen–Loève basis has the eigenpairs of its kernel, gives it back, and is cut where asked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from febm.basis import KarhunenLoeve
from febm.curves import Curves
from febm.errors import NotFittedError
from febm.kernels import Gaussian, Kernel, Matern12, Matern32, Matern52, kernel_matrix

KEY = jax.random.key(0)
GRID = np.linspace(0, 1, 11)
CURVES = Curves.from_grid(GRID, np.random.default_rng(0).standard_normal((3, 11)))
# Hardly any of these is a midpoint of cells, and both ends of the domain are among them.
OFF_GRID = np.linspace(0, 1, 101)[:, None]


class Brownian(Kernel):
    def evaluate(self, X1, X2):
        return jnp.minimum(X1[0], X2[0])


def brownian_eigenpairs(rank: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    frequencies = (np.arange(1, rank + 1) - 0.5) * np.pi
    return 1 / frequencies**2, np.sqrt(2) * np.sin(frequencies * t)


def eigenfunction_error(basis: KarhunenLoeve, t: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The largest error of each eigenfunction, whatever its sign."""
    estimated = basis.eigenfunctions(t)[:, 0]
    signs = np.sign(np.sum(estimated * exact, axis=0))
    return np.abs(signs * estimated - exact).max(axis=0)


@pytest.mark.parametrize("interpolation", ["nystrom", "ridge"])
def test_brownian_motion_has_its_known_eigenpairs(interpolation):
    """The midpoint rule has relative error ((k − 1/2)π/l)²/12 in λ_k, 0.0012 for k = 20 and l = 512. The
    bound is 0.2 % for the eigenvalues and 0.005 for the eigenfunctions, of size √2.
    """
    values, functions = brownian_eigenpairs(20, OFF_GRID)
    basis = KarhunenLoeve(Brownian(), rank=20, interpolation=interpolation).fit(CURVES, key=KEY)
    np.testing.assert_allclose(basis.spectrum, values, rtol=2e-3)
    assert np.all(eigenfunction_error(basis, OFF_GRID, functions) < 5e-3)


def test_network_interpolates_brownian_eigenfunctions():
    """Six per cent of the size √2, both ends of the domain included; most of the error is at the ends."""
    values, functions = brownian_eigenpairs(8, OFF_GRID)
    basis = KarhunenLoeve(Brownian(), rank=8, interpolation="network", max_points=128, steps=1500)
    basis = basis.fit(CURVES, key=KEY)
    np.testing.assert_allclose(basis.spectrum, values, rtol=5e-3)
    assert np.all(eigenfunction_error(basis, OFF_GRID, functions) < 0.06 * np.sqrt(2))


def test_small_eigenvalues_of_a_smooth_kernel_keep_accurate_eigenfunctions():
    """Of size down to 1e-9 of the largest: orthonormal on the points to 1e-5, where only rounding comes in,
    and between them to 1e-2, the error of the midpoint rule for functions that are steep at the ends.
    """
    basis = KarhunenLoeve(Gaussian(0.3), rank=12, max_points=200).fit(CURVES, key=KEY)
    assert basis.spectrum[-1] / basis.spectrum[0] < 1e-9
    t = (np.arange(1000)[:, None] + 0.5) / 1000
    for points, tolerance in [(basis.fitted.points, 1e-5), (t, 1e-2)]:
        functions = basis.eigenfunctions(points)[:, 0]
        np.testing.assert_allclose(functions.T @ functions / len(points), np.eye(12), atol=tolerance)


def test_eigenvectors_on_the_points_have_norm_root_l():
    points = np.random.default_rng(1).random((30, 1))
    basis = KarhunenLoeve(Matern32(0.4), rank=10, points=points).fit(CURVES, key=KEY)
    functions = basis.eigenfunctions(points)[:, 0]
    np.testing.assert_allclose(functions.T @ functions, 30 * np.eye(10), atol=1e-8)
    gram = kernel_matrix(Matern32(0.4), points) / 30
    np.testing.assert_allclose(gram @ functions, functions * basis.spectrum, atol=1e-10)


@pytest.mark.parametrize("kernel", [Matern32(0.3), Matern52(0.2), 2.0 * Gaussian(0.1) + Matern52(1.0)])
def test_mercer_sum_gives_the_kernel_back_off_the_points(kernel):
    """With 100 features of 200 points, the kernel to within 0.001 of its variance, in the corners too."""
    basis = KarhunenLoeve(kernel, rank=100, max_points=200).fit(CURVES, key=KEY)
    features = basis.features(OFF_GRID)[:, 0]
    exact = kernel_matrix(kernel, OFF_GRID)
    np.testing.assert_allclose(features @ features.T, exact, atol=1e-3 * exact[0, 0])


def test_mercer_sum_gives_the_kernel_back_in_two_inputs():
    generator = np.random.default_rng(2)
    curves = Curves.from_arrays([generator.random((150, 2)) for _ in range(4)], list(np.zeros((4, 150))))
    kernel = Gaussian([0.5, 0.8])
    basis = KarhunenLoeve(kernel, max_points=300).fit(curves, key=KEY)
    x = 0.05 + 0.9 * generator.random((50, 2))
    features = basis.features(x)[:, 0]
    np.testing.assert_allclose(features @ features.T, kernel_matrix(kernel, x), atol=1e-2)
    assert basis.fitted.points.shape == (300, 2)


def test_points_of_two_inputs_are_the_training_points_when_few():
    x = np.random.default_rng(3).random((20, 2))
    curves = Curves.from_arrays([x, x[:10]], [np.zeros(20), np.zeros(10)])
    basis = KarhunenLoeve(Matern52(0.5)).fit(curves, key=KEY)
    np.testing.assert_array_equal(basis.fitted.points, np.unique(x, axis=0))


def test_chosen_subset_of_many_points_is_spread_out():
    """Thirty of 1500 points, nearly all in one corner: farthest-point selection still covers the square."""
    generator = np.random.default_rng(4)
    x = np.concatenate([0.1 * generator.random((1400, 2)), generator.random((100, 2))])
    basis = KarhunenLoeve(Matern52(0.5), max_points=30).fit(Curves.from_arrays([x], [x[:, 0]]), key=KEY)
    points = basis.fitted.points
    assert points.shape == (30, 2)
    assert np.mean(np.all(points < 0.1, axis=1)) < 0.2


def test_rank_by_share_explains_that_share_and_not_one_column_more():
    basis = KarhunenLoeve(Matern12(0.3), rank=0.95, max_points=100).fit(CURVES, key=KEY)
    assert basis.spectrum.sum() >= 0.95
    assert basis.spectrum[:-1].sum() < 0.95


def test_default_rank_explains_nearly_everything_with_at_most_128_features():
    assert KarhunenLoeve(Matern52(0.3), max_points=150).fit(CURVES, key=KEY).spectrum.sum() >= 0.9999
    assert KarhunenLoeve(Matern12(0.05), max_points=150).fit(CURVES, key=KEY).rank == 128


def test_eigenvalues_that_are_rounding_errors_are_left_out():
    basis = KarhunenLoeve(Gaussian(1.0), rank=100, max_points=150).fit(CURVES, key=KEY)
    assert basis.rank < 20
    assert np.isfinite(basis.features(OFF_GRID)).all()
    assert np.abs(basis.features(OFF_GRID)[:, 0]).max() < 2


def test_two_outputs_are_independent_copies_with_falling_spectrum():
    y = np.random.default_rng(5).standard_normal((3, 11, 2))
    curves = Curves.from_grid(GRID, y)
    one = KarhunenLoeve(Matern52(0.3), rank=4, max_points=50).fit(CURVES, key=KEY)
    two = KarhunenLoeve(Matern52(0.3), rank=7, max_points=50).fit(curves, key=KEY)
    features = two.features(OFF_GRID)
    assert features.shape == (101, 2, 7)
    assert np.all(np.diff(two.spectrum) <= 0)
    np.testing.assert_allclose(features[:, 0, 0::2], one.features(OFF_GRID)[:, 0], atol=1e-12)
    np.testing.assert_allclose(features[:, 1, 1::2], one.features(OFF_GRID)[:, 0, :3], atol=1e-12)
    assert not features[:, 0, 1::2].any()
    assert not features[:, 1, 0::2].any()


def test_network_serves_two_outputs():
    curves = Curves.from_grid(GRID, np.zeros((2, 11, 2)))
    basis = KarhunenLoeve(Matern52(0.5), rank=5, interpolation="network", max_points=32, steps=10)
    assert basis.fit(curves, key=KEY).features(OFF_GRID).shape == (101, 2, 5)


def test_without_a_kernel_hyperparameters_and_noise_are_fitted():
    """40 curves of 25 points. By the standard errors of the recovery test for 80 curves, scaled, 35 % is four
    of them or more: an error rate below 1e-3.
    """
    generator = np.random.default_rng(6)
    x = np.linspace(0, 1, 25)
    factor = np.linalg.cholesky(kernel_matrix(Matern52(0.3), x[:, None]) + 0.02 * np.eye(25))
    curves = Curves.from_grid(x, 4.0 + generator.standard_normal((40, 25)) @ factor.T)
    basis = KarhunenLoeve(mean="constant", max_points=50).fit(curves, key=KEY)
    assert basis.noise_variance == pytest.approx(0.02, rel=0.35)
    assert float(basis.fitted.kernel.kernel2.length_scale) == pytest.approx(0.3, rel=0.35)
    np.testing.assert_allclose(basis.mean(OFF_GRID), 4.0, atol=0.6)


def test_a_given_kernel_is_used_as_it_is_unless_asked():
    basis = KarhunenLoeve(Matern52(0.123), max_points=50).fit(CURVES, key=KEY)
    assert float(basis.fitted.kernel.length_scale) == 0.123
    assert basis.noise_variance is None
    fitted = KarhunenLoeve(Matern52(0.123), fit_hyperparameters=True, max_points=50).fit(CURVES, key=KEY)
    assert float(fitted.fitted.kernel.length_scale) != 0.123
    assert fitted.noise_variance > 0


def test_mean_is_zero_or_the_level_of_each_output():
    curves = Curves.from_grid(GRID, np.full((2, 11, 2), [1.0, -3.0]))
    assert not KarhunenLoeve(Matern52(), max_points=50, mean="zero").fit(curves, key=KEY).mean(OFF_GRID).any()
    mean = KarhunenLoeve(Matern52(), max_points=50, mean="constant").fit(curves, key=KEY).mean(OFF_GRID)
    np.testing.assert_allclose(mean, np.tile([1.0, -3.0], (101, 1)))


def test_ridge_shrinks_the_nystrom_estimator_by_its_penalty():
    nystrom = KarhunenLoeve(Matern52(0.3), rank=10, max_points=50).fit(CURVES, key=KEY)
    ridge = KarhunenLoeve(Matern52(0.3), rank=10, max_points=50, interpolation="ridge", ridge=0.01).fit(CURVES, key=KEY)
    shrinkage = nystrom.spectrum / (nystrom.spectrum + 0.01)
    np.testing.assert_allclose(ridge.features(OFF_GRID), nystrom.features(OFF_GRID) * shrinkage, atol=1e-9)


def test_ridge_is_the_kernel_ridge_regression_of_scikit_learn():
    from sklearn.kernel_ridge import KernelRidge

    points = np.random.default_rng(7).random((25, 1))
    basis = KarhunenLoeve(Matern52(0.3), rank=6, points=points, interpolation="ridge", ridge=1e-3)
    basis = basis.fit(CURVES, key=KEY)
    exact = KarhunenLoeve(Matern52(0.3), rank=6, points=points).fit(CURVES, key=KEY)
    regression = KernelRidge(alpha=25 * 1e-3, kernel="precomputed")
    regression.fit(kernel_matrix(Matern52(0.3), points), exact.eigenfunctions(points)[:, 0])
    expected = regression.predict(kernel_matrix(Matern52(0.3), OFF_GRID, points))
    np.testing.assert_allclose(basis.eigenfunctions(OFF_GRID)[:, 0], expected, atol=1e-8)


def test_same_key_gives_the_same_basis_and_fit_leaves_the_specification_alone():
    specification = KarhunenLoeve("matern32", rank=5, max_points=50)
    first, second = (specification.fit(CURVES, key=KEY) for _ in range(2))
    np.testing.assert_array_equal(first.features(OFF_GRID), second.features(OFF_GRID))
    assert not specification.is_fitted
    refitted = first.fit(CURVES, key=KEY)
    np.testing.assert_array_equal(first.features(OFF_GRID), refitted.features(OFF_GRID))


def test_unfitted_basis_says_what_to_do():
    for ask in (
        lambda basis: basis.features(OFF_GRID),
        lambda basis: basis.mean(OFF_GRID),
        lambda basis: basis.rank,
    ):
        with pytest.raises(NotFittedError, match=r"KarhunenLoeve is not fitted yet: call `KarhunenLoeve.fit"):
            ask(KarhunenLoeve())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 0}, "rank must be a positive integer"),
        ({"rank": 1.5}, "rank must be a positive integer"),
        ({"interpolation": "spline"}, "interpolation must be one of nystrom, ridge, network; got 'spline'"),
        ({"mean": "linear"}, "mean must be 'zero' or 'constant'"),
        ({"kernel": "cubic"}, "no kernel named 'cubic'"),
        ({"ridge": -1.0}, "ridge must be at least 0"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        KarhunenLoeve(**arguments)
