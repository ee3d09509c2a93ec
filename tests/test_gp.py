"""Gaussian processes: closed forms that agree with scikit-learn's, an O(n) likelihood, and draws that are functions."""

import jax
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sklearn_kernels

import febm
from febm.curves import Curves
from febm.kernels import (
    Constant,
    Correlation,
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    White,
    kernel_matrix,
    log_likelihoods,
)
from febm.models import gp_posterior
from febm.models.gp import GaussianProcess
from febm.models.gp_field import MeanFunction, build_field
from febm.models.gp_posterior import GaussianPosterior, Solver
from febm.quasiseparable import as_quasiseparable, markov_whitening
from febm.scaling import Scaling, as_scaling

KERNEL = Constant(2.0) * Matern52(0.3)
NOISE = 0.05
REFERENCE = sklearn_kernels.ConstantKernel(2.0) * sklearn_kernels.Matern(0.3, nu=2.5)


HELD = dict(mean="zero", scaling="none", fit_kernel=False, progress=False)
AT = np.linspace(-0.3, 1.2, 16)
OTHERS = ("quadratic", "stocks", "gridwatch")


def draw_curves(kernel=KERNEL, *, curves=5, points=20, d_x=1, d_y=1, noise=NOISE, seed=0):
    """Curves of the process itself, each at points of its own in the unit box."""
    generator = np.random.default_rng(seed)
    xs = [generator.random((points, d_x)) for _ in range(curves)]
    factors = [np.linalg.cholesky(kernel_matrix(kernel, x) + noise * np.eye(points)) for x in xs]
    return Curves.from_arrays(xs, [factor @ generator.standard_normal((points, d_y)) for factor in factors])


def posterior_of(curves, kernel=KERNEL, noise=NOISE, mean=0.0):
    """The posterior of curves that need no scaling."""
    scaling = as_scaling("none").fit(curves)
    field = build_field(kernel, noise, MeanFunction(np.full(curves.d_y, mean)), curves)
    return GaussianPosterior(field, curves, scaling.apply(curves), scaling)


def regressor(curve, kernel=REFERENCE, noise=NOISE, output=0, **options):
    seen = ~np.isnan(curve.y[:, output])
    return GaussianProcessRegressor(kernel, alpha=noise, **{"optimizer": None, **options}).fit(
        curve.x[seen], curve.y[seen, output]
    )


class TestClosedForms:
    @pytest.mark.parametrize("d_x", [1, 2])
    def test_evidence_mean_and_variance_are_those_of_scikit_learn(self, d_x):
        curves = draw_curves(d_x=d_x)
        posterior = posterior_of(curves)
        at = np.random.default_rng(1).random((7, d_x))
        for i, curve in enumerate(curves):
            reference = regressor(curve)
            mean, deviation = reference.predict(at, return_std=True)
            assert posterior.log_evidence[i] == pytest.approx(reference.log_marginal_likelihood_value_, rel=1e-6)
            np.testing.assert_allclose(posterior.mean(at)[i, :, 0], mean, rtol=1e-6)
            np.testing.assert_allclose(posterior.variance(at)[i, :, 0], deviation**2, rtol=1e-6)

    def test_further_values_have_the_density_of_the_joint_gaussian(self):
        curves, further = draw_curves(), draw_curves(points=4, seed=1)
        found = posterior_of(curves).log_density(further)
        for i, (curve, more) in enumerate(zip(curves, further, strict=True)):
            mean, covariance = regressor(curve).predict(more.x, return_cov=True)
            factor = np.linalg.cholesky(covariance + NOISE * np.eye(4))
            white = np.linalg.solve(factor, more.y[:, 0] - mean)
            expected = -0.5 * white @ white - np.log(np.diagonal(factor)).sum() - 2 * np.log(2 * np.pi)
            assert found[i] == pytest.approx(expected, rel=1e-6)

    def test_outputs_are_independent_and_missing_values_are_left_out(self):
        curves = draw_curves(d_y=2)
        values = curves.y.copy()
        values[[0, 3, 25], 1] = np.nan
        curves = curves.replace(y=values)
        posterior = posterior_of(curves)
        at = np.linspace(0, 1, 5)
        for i, curve in enumerate(curves):
            both = [regressor(curve, output=output) for output in (0, 1)]
            evidence = sum(one.log_marginal_likelihood_value_ for one in both)
            assert posterior.log_evidence[i] == pytest.approx(evidence, rel=1e-6)
            expected = np.stack([one.predict(at[:, None]) for one in both], axis=1)
            np.testing.assert_allclose(posterior.mean(at)[i], expected, rtol=1e-6, atol=1e-9)

    def test_intervals_are_quantiles(self):
        posterior = posterior_of(draw_curves())
        at = np.linspace(0, 1, 5)
        lower, upper = posterior.interval(at, 0.9, noise=True)
        spread = 1.6448536269514722 * np.sqrt(posterior.variance(at) + NOISE)
        np.testing.assert_allclose(upper, posterior.mean(at) + spread)
        np.testing.assert_allclose(lower, posterior.mean(at) - spread)

    def test_the_mean_behind_a_logarithm_is_that_of_a_lognormal(self):
        curves = draw_curves()
        curves = curves.replace(y=np.exp(curves.y))
        scaling = Scaling(inputs="none", outputs="none", transform="log").fit(curves)
        scaled = scaling.apply(curves)
        field = build_field(KERNEL, NOISE, MeanFunction(np.zeros(1)), scaled)
        at = np.linspace(0, 1, 5)
        plain = posterior_of(scaled)
        found = GaussianPosterior(field, curves, scaled, scaling).mean(at)
        np.testing.assert_allclose(found, np.exp(plain.mean(at) + 0.5 * plain.variance(at)), rtol=1e-6)

    def test_values_without_noise_that_are_nearly_dependent_are_no_obstacle(self):
        x = np.linspace(0, 1, 60)
        curves = Curves.from_grid(x, np.stack([x**2, 1 + x]))
        posterior = posterior_of(curves, Constant(1.0) * Gaussian(1.0), noise=0.0)
        np.testing.assert_allclose(posterior.mean(x)[0, :, 0], x**2, atol=1e-4)
        assert np.isfinite(posterior.log_evidence).all()


class TestScikitLearn:
    """`GaussianProcess` with everything held fixed is `GaussianProcessRegressor`, one for each curve."""

    @pytest.mark.parametrize(
        ("kernel", "reference"),
        [
            (2.0 * Gaussian(0.3), 2.0 * sklearn_kernels.RBF(0.3)),
            (
                Matern12(0.4) * 1.5 + Matern32(0.4) + 0.5,
                sklearn_kernels.Matern(0.4, nu=0.5) * 1.5
                + sklearn_kernels.Matern(0.4, nu=1.5)
                + sklearn_kernels.ConstantKernel(0.5),
            ),
            (
                Constant(0.3) * Matern52(0.7) + Gaussian(0.2) * Periodic(0.5),
                0.3 * sklearn_kernels.Matern(0.7, nu=2.5)
                + sklearn_kernels.RBF(0.2) * sklearn_kernels.ExpSineSquared(1.0, 0.5),
            ),
        ],
    )
    def test_likelihoods_means_and_variances_are_equal(self, kernel, reference):
        curves = draw_curves(curves=3, points=15)
        references = [regressor(curve, reference) for curve in curves]
        evidence = [one.log_marginal_likelihood_value_ for one in references]
        moments = np.array([one.predict(AT[:, None], return_std=True) for one in references])
        model = GaussianProcess(kernel=kernel, noise=NOISE, **HELD).fit(curves)
        posterior = model.condition(curves)
        np.testing.assert_allclose(model.log_evidence(curves), evidence, rtol=1e-9)
        assert model.history_["log_likelihood"].iloc[0] == pytest.approx(sum(evidence), rel=1e-9)
        np.testing.assert_allclose(posterior.mean(AT)[..., 0], moments[:, 0], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(posterior.variance(AT)[..., 0], moments[:, 1] ** 2, rtol=1e-6)

    def test_a_white_term_of_the_kernel_is_the_noise(self):
        curve = draw_curves(curves=1, points=15)
        reference = regressor(curve, REFERENCE + sklearn_kernels.WhiteKernel(NOISE), noise=0.0)
        model = GaussianProcess(kernel=KERNEL + White(NOISE), **HELD).fit(curve)
        assert model.noise_variance_ == NOISE
        assert model.log_evidence(curve)[0] == pytest.approx(reference.log_marginal_likelihood_value_, rel=1e-9)
        mean, deviation = reference.predict(AT[:, None], return_std=True)
        posterior = model.condition(curve)
        np.testing.assert_allclose(posterior.mean(AT)[0, :, 0], mean, rtol=1e-6, atol=1e-9)
        # There the noise is a part of the function.
        np.testing.assert_allclose(posterior.variance(AT, noise=True)[0, :, 0], deviation**2, rtol=1e-6)

    def test_a_length_for_each_of_two_inputs(self):
        curves = draw_curves(curves=2, d_x=2)
        reference = sklearn_kernels.Matern([0.3, 1.0], nu=1.5)
        model = GaussianProcess(kernel=Matern32([0.3, 1.0]), noise=NOISE, **HELD).fit(curves)
        expected = [regressor(curve, reference).log_marginal_likelihood_value_ for curve in curves]
        np.testing.assert_allclose(model.log_evidence(curves), expected, rtol=1e-9)

    def test_a_model_with_a_kernel_of_its_own_is_saved_and_read(self, tmp_path):
        curves = draw_curves(curves=2)
        model = GaussianProcess(kernel=KERNEL + Periodic(0.5) + White(NOISE), **HELD).fit(curves)
        model.save(tmp_path / "model.febm")
        loaded = febm.load(tmp_path / "model.febm")
        assert repr(loaded.kernel) == "2 * Matern52(0.3) + Periodic(0.5, 1) + White(0.05)"
        assert repr(loaded.kernel_) == "2 * Matern52(0.3) + Periodic(0.5, 1)"
        np.testing.assert_array_equal(loaded.log_evidence(curves), model.log_evidence(curves))

    def test_what_is_said_twice_or_not_at_all_is_refused(self):
        curves = draw_curves(curves=2)
        with pytest.raises(ValueError, match="White term"):
            GaussianProcess(kernel=KERNEL + White(0.1), noise=0.1, **HELD).fit(curves)
        with pytest.raises(ValueError, match="fit_kernel is False and kernel is 'matern52'"):
            GaussianProcess(kernel="matern52", **HELD).fit(curves)


class TestLongCurves:
    @pytest.mark.parametrize(
        "kernel",
        [
            Correlation(Constant(0.5) + 2.0 * Matern32(0.3)),
            pytest.param(Matern12(0.3), marks=pytest.mark.slow),
            pytest.param(Matern52(0.3) * 2.0, marks=pytest.mark.slow),
            pytest.param((0.5 + Matern12(0.2)) * (1.0 + Matern52(0.3)), marks=pytest.mark.slow),
        ],
    )
    def test_the_fast_likelihood_is_the_dense_one(self, kernel):
        """Ragged, unsorted, and with missing values."""
        curves = draw_curves(points=30, d_y=2)
        values = curves.y.copy()
        values[::7, 1] = np.nan
        curves = curves.replace(y=values).select(np.arange(150) % 11 != 0)
        fast = log_likelihoods(kernel, curves, noise_variance=NOISE, whiten=markov_whitening)
        np.testing.assert_allclose(fast, log_likelihoods(kernel, curves, noise_variance=NOISE), rtol=1e-9)

    @pytest.mark.parametrize(
        "kernel",
        [
            0.5 + Matern12(0.2) + 2.0 * Matern52(0.3),
            pytest.param(Matern12(0.3), marks=pytest.mark.slow),
            pytest.param((Matern12(0.1) + Matern52(0.5)) * Matern32(0.4) * 2.0, marks=pytest.mark.slow),
        ],
    )
    def test_the_fast_posterior_is_the_dense_one(self, kernel, monkeypatch):
        """Means, variances and draws, with points asked for between, at and beyond those observed."""
        curves = draw_curves(points=30, d_y=2)
        values = curves.y.copy()
        values[::7, 1] = np.nan
        posterior = posterior_of(curves.replace(y=values), kernel)
        at = np.concatenate([np.linspace(-0.3, 1.3, 13), curves[0].x[:5, 0]])

        def everything():
            drawn = posterior.sample(3, at, random_state=0).y
            return posterior.mean(at), posterior.variance(at), drawn

        dense = everything()
        monkeypatch.setattr(gp_posterior, "LONG_CONTEXT", 0)
        for fast, slow in zip(everything(), dense, strict=True):
            np.testing.assert_allclose(fast, slow, rtol=1e-7, atol=1e-8)

    def test_a_context_too_long_for_a_matrix_has_a_posterior(self):
        """A dense covariance of 100,000 points would take 80 GB."""
        x = np.linspace(0, 1, 100_000)
        curve = Curves.from_grid(x, np.sin(9 * x)[None])
        field = build_field(KERNEL, NOISE, MeanFunction(np.zeros(1)), curve[:1].select(np.arange(100_000) % 2000 == 0))
        scaling = as_scaling("none").fit(curve)
        posterior = GaussianPosterior(field, curve, curve, scaling)
        at = np.linspace(0, 1, 50)
        np.testing.assert_allclose(posterior.mean(at)[0, :, 0], np.sin(9 * at), atol=0.01)

    @pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern52([0.3, 0.2]), Matern52(0.3) * Gaussian(0.2)])
    def test_other_kernels_have_none(self, kernel):
        assert as_quasiseparable(kernel) is None

    def test_a_curve_too_long_for_a_matrix_has_an_evidence(self):
        """A dense covariance of 200,000 points would take 320 GB."""
        x = np.linspace(0, 1, 200_000)
        curve = Curves.from_grid(x, np.sin(9 * x)[None])
        field = build_field(KERNEL, NOISE, MeanFunction(np.zeros(1)), curve[:1].select(np.arange(200_000) < 50))
        assert np.isfinite(Solver(field).log_evidence(curve)).all()

    @pytest.mark.slow
    def test_all_points_of_a_long_curve_are_fitted(self):
        kernel = Constant(1.0) * Matern32(0.1)
        curves = draw_curves(kernel, curves=2, points=400, noise=0.01)
        model = GaussianProcess(kernel=kernel, mean="zero", scaling="none", progress=False, random_state=0).fit(curves)
        reached = log_likelihoods(model.kernel_, curves, noise_variance=model.noise_variance_).sum()
        assert model.history_["log_likelihood"].iloc[0] == pytest.approx(reached, rel=1e-9)
        assert reached >= log_likelihoods(kernel, curves, noise_variance=0.01).sum()


class TestFit:
    def test_one_curve_is_fitted_as_well_as_by_scikit_learn(self):
        curve = draw_curves(curves=1, points=40)
        start = Constant(1.0) * Matern52(0.2)
        model = GaussianProcess(kernel=start, mean="zero", scaling="none", progress=False, random_state=0).fit(curve)
        free = sklearn_kernels.ConstantKernel(1.0) * sklearn_kernels.Matern(0.2, nu=2.5)
        free = free + sklearn_kernels.WhiteKernel(0.01)
        reference = regressor(
            curve, free, noise=1e-12, optimizer="fmin_l_bfgs_b", n_restarts_optimizer=3, random_state=0
        )
        assert model.log_evidence(curve)[0] >= reference.log_marginal_likelihood_value_ - 1e-3

    @pytest.mark.slow
    def test_many_curves_are_fitted_as_well_as_from_the_truth(self):
        curves = draw_curves(curves=30)
        options = dict(mean="zero", scaling="none", progress=False, random_state=0)
        found = GaussianProcess(kernel=Constant(1.0) * Matern52(0.1), **options).fit(curves)
        assert found.log_evidence(curves).sum() >= log_likelihoods(KERNEL, curves, noise_variance=NOISE).sum()
        again = GaussianProcess(kernel=Constant(5.0) * Matern52(1.0), **options).fit(curves)
        assert again.log_evidence(curves).sum() == pytest.approx(found.log_evidence(curves).sum(), abs=0.01)

    @pytest.mark.slow
    def test_a_named_kernel_has_the_variance_of_the_curves(self):
        generator = np.random.default_rng(0)
        x = np.linspace(0, 1, 20)
        curves = Curves.from_grid(x, 3 + generator.standard_normal((50, 1)) + generator.standard_normal((50, 1)) * x**2)
        model = GaussianProcess(mean="constant", scaling="none", progress=False, random_state=0).fit(curves)
        total = model.field_.variance(np.zeros((1, 1)))[0] + model.noise_variance_
        assert total == pytest.approx(curves.y.var(), rel=0.05)

    @pytest.mark.slow
    def test_a_free_variance_is_at_least_as_likely(self):
        """Up to what it costs that the search sees residuals about an estimated mean."""
        curves = draw_curves(curves=20)
        bound, free = (
            GaussianProcess(variance=variance, progress=False, random_state=0).fit(curves)
            for variance in ("curves", "likelihood")
        )
        assert free.log_evidence(curves).mean() > bound.log_evidence(curves).mean() - 0.01

    def test_noise_that_is_given_stays(self):
        model = GaussianProcess(noise=0.3, progress=False, random_state=0).fit(draw_curves())
        assert model.noise_variance_ == pytest.approx(0.3)

    def test_the_smooth_mean_is_that_of_the_curves(self):
        x = np.linspace(0, 1, 12)
        curves = Curves.from_grid(x, np.sin(6 * x) + 0.1 * np.random.default_rng(0).standard_normal((40, 12)))
        model = GaussianProcess(kernel=KERNEL, noise=NOISE, **{**HELD, "mean": "smooth"}).fit(curves)
        mean = model.scaling_.invert_values(model.field_.mean(x[:, None]))
        np.testing.assert_allclose(mean[:, 0], curves.y.reshape(40, 12).mean(axis=0), atol=1e-9)

    @pytest.mark.parametrize("dataset", ["melbourne", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
    def test_the_papers_baseline_has_a_constant_mean(self, dataset):
        curves = draw_curves(curves=10)
        model = GaussianProcess.paper(dataset, progress=False, random_state=0).fit(curves)
        assert np.ptp(model.field_.mean(np.linspace(0, 1, 5)[:, None])) == 0
        assert np.isfinite(model.log_evidence(curves)).all()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"mean": "linear"}, "mean is 'linear'"),
            ({"variance": 1.0}, "variance is 1.0"),
            ({"kernel": "matern"}, "no kernel named"),
        ],
    )
    def test_settings_that_do_not_exist_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            GaussianProcess(progress=False, **options).fit(draw_curves())


class TestDraws:
    def test_prior_draws_have_the_covariance_of_the_kernel(self):
        """On and between nodes: 4000 draws, entries within 6 standard errors (about 1e-6 for all of 100)."""
        curves = draw_curves()
        field = build_field(KERNEL, NOISE, MeanFunction(np.zeros(1)), curves)
        x = np.concatenate([curves.x[:5], np.array([[0.123], [0.456], [-0.3], [1.2], [0.7]])])
        values = field.draw(4000, jax.random.key(0)).values(field.at(x))[:, :, 0]
        np.testing.assert_allclose(values.T @ values / 4000, kernel_matrix(KERNEL, x), atol=6 * 2.0 * np.sqrt(2 / 4000))

    def test_posterior_draws_have_the_moments_of_the_closed_form(self):
        """4000 draws, means and variances within 6 standard errors."""
        posterior = posterior_of(draw_curves(curves=2))
        at = np.linspace(-0.2, 1.1, 9)
        drawn = posterior.sample(4000, at, random_state=0).y.reshape(2, 4000, 9, 1)
        variance = posterior.variance(at)
        assert (np.abs(drawn.mean(axis=1) - posterior.mean(at)) < 6 * np.sqrt(variance / 4000)).all()
        np.testing.assert_allclose(drawn.var(axis=1), variance, rtol=6 * np.sqrt(2 / 4000))

    @pytest.mark.parametrize("kernel", [KERNEL, Matern12(0.1)])
    def test_a_draw_has_one_value_at_a_point_whatever_else_is_asked_for(self, kernel):
        posterior = posterior_of(draw_curves(kernel, curves=2), kernel)
        coarse, fine = np.linspace(-0.5, 1.5, 7), np.linspace(-0.5, 1.5, 61)
        few = posterior.sample(3, coarse, random_state=0).y.reshape(6, 7)
        many = posterior.sample(3, fine, random_state=0).y.reshape(6, 61)
        np.testing.assert_allclose(many[:, ::10], few, atol=1e-5)

    def test_draws_outside_the_domain_are_functions_too(self):
        field = build_field(KERNEL, NOISE, MeanFunction(np.zeros(1)), draw_curves())
        x = np.linspace(1.0, 1.9, 200)[:, None]
        values = field.draw(5, jax.random.key(0)).values(field.at(x))[:, :, 0]
        assert np.abs(np.diff(values, axis=1)).max() < 0.2

    def test_two_inputs(self):
        curves = draw_curves(d_x=2, d_y=2)
        posterior = posterior_of(curves)
        drawn = posterior.sample(500, curves, random_state=0).y
        assert drawn.shape == (5 * 500 * 20, 2)
        centre = drawn.reshape(5, 500, 20, 2).mean(axis=1).reshape(100, 2)
        np.testing.assert_allclose(centre, posterior.mean(curves).y, atol=0.1)
