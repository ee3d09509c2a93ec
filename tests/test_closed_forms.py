"""With a Gaussian prior and a linear generator F-EBM is a Gaussian process."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import febm
from febm.kernels import Matern52, kernel_matrix
from febm.likelihoods import Gaussian

NOISE = 0.1


def gp_curves(kind, count=12):
    rng = np.random.default_rng(4)
    if kind == "regular":
        xs = [np.linspace(0, 1, 9)[:, None]] * count
    elif kind == "ragged":
        xs = [np.sort(rng.uniform(size=(rng.integers(4, 12), 1)), axis=0) for _ in range(count)]
    else:
        xs = [rng.uniform(size=(10, 2)) for _ in range(count)]
    kernel = Matern52(0.5)
    ys = []
    for x in xs:
        covariance = kernel_matrix(kernel, x, x) + NOISE**2 * np.eye(len(x))
        ys.append(rng.multivariate_normal(np.zeros(len(x)), covariance))
    return kernel, febm.Curves.from_arrays(xs, ys)


@pytest.fixture(scope="module", params=["regular", "ragged", "two-dimensional"])
def fitted(request):
    kernel, curves = gp_curves(request.param)
    model = febm.FEBM(
        kernel=kernel,
        rank=100,
        prior="gaussian",
        generator="linear",
        likelihood=Gaussian(NOISE, fixed=True),
        scaling="none",
        random_state=0,
        progress=False,
    )
    return kernel, curves, model.fit(curves)


def gp_posterior(kernel, x, y, at):
    gram = kernel_matrix(kernel, x, x) + NOISE**2 * np.eye(len(x))
    cross = kernel_matrix(kernel, at, x)
    mean = cross @ np.linalg.solve(gram, y)
    return mean, kernel_matrix(kernel, at, at) - cross @ np.linalg.solve(gram, cross.T)


def targets(curves):
    return np.random.default_rng(5).uniform(size=(7, curves.d_x))


def test_posterior_mean_is_that_of_the_gaussian_process(fitted):
    kernel, curves, model = fitted
    at = targets(curves)
    found = model.condition(curves).mean(at)
    for curve, mean in zip(curves, found, strict=True):
        expected, _ = gp_posterior(kernel, curve.x, curve.y[:, 0], at)
        np.testing.assert_allclose(mean[:, 0], expected, atol=0.01)  # what 100 eigenfunctions leave out


def test_posterior_variance_is_that_of_the_gaussian_process(fitted):
    """512 draws: 84 variances within 6 standard errors, wrong 1 time in a million."""
    kernel, curves, model = fitted
    at = targets(curves)
    draws = model.condition(curves).sample(512, at, random_state=0).to_grid()
    values = draws[1].reshape(len(curves), 512, -1)
    order = np.lexsort(at.T[::-1])  # to_grid sorts the points
    for curve, sampled in zip(curves, values, strict=True):
        _, covariance = gp_posterior(kernel, curve.x, curve.y[:, 0], at[order])
        np.testing.assert_allclose(sampled.var(axis=0), np.diag(covariance), rtol=6 * np.sqrt(2 / 512), atol=2e-3)


def test_log_evidence_is_that_of_the_gaussian_process(fitted):
    kernel, curves, model = fitted
    found = model.log_evidence(curves)
    for curve, evidence in zip(curves, found, strict=True):
        covariance = kernel_matrix(kernel, curve.x, curve.x) + NOISE**2 * np.eye(len(curve.x))
        expected = multivariate_normal(np.zeros(len(curve.x)), covariance).logpdf(curve.y[:, 0])
        np.testing.assert_allclose(evidence, expected, atol=0.1)


def test_density_of_further_values_is_that_of_the_gaussian_process(fitted):
    kernel, curves, model = fitted
    at, rng = targets(curves), np.random.default_rng(7)
    exact = []
    for curve in curves:
        mean, covariance = gp_posterior(kernel, curve.x, curve.y[:, 0], at)
        exact.append(multivariate_normal(mean, covariance + NOISE**2 * np.eye(len(at))))
    values = np.stack([predictive.rvs(random_state=rng) for predictive in exact])
    found = model.condition(curves).log_density(febm.Curves.from_grid(at, values))
    expected = [predictive.logpdf(row) for predictive, row in zip(exact, values, strict=True)]
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_samples_have_the_covariance_of_the_kernel(fitted):
    """20,000 draws: 28 covariances within 6 standard errors, wrong 1 time in 10 million."""
    kernel, curves, model = fitted
    at = targets(curves)
    at = at[np.lexsort(at.T[::-1])]
    _, values = model.sample(20_000, at, random_state=1).to_grid()
    expected = kernel_matrix(kernel, at, at)
    np.testing.assert_allclose(np.cov(values[..., 0].T), expected, atol=6 * np.sqrt(2 / 20_000) + 2e-3)


def test_log_evidence_is_in_the_units_of_the_data():
    """Rescaling inputs and outputs is undone by the Jacobian: evidence of 10·y is that of y minus m·log 10."""
    rng = np.random.default_rng(6)
    x = np.linspace(0, 5, 8)
    values = np.cumsum(rng.normal(size=(40, 8)), axis=1)
    small, large = (febm.Curves.from_grid(x, factor * values) for factor in (1.0, 10.0))
    settings = dict(prior="mixture", remainder=False, components=2, scaling="standard", random_state=0, progress=False)
    models = [febm.FEBM(**settings).fit(curves) for curves in (small, large)]
    difference = models[0].log_evidence(small) - models[1].log_evidence(large)
    np.testing.assert_allclose(difference, 8 * np.log(10), atol=1e-4)


@pytest.mark.parametrize("scaling", ["standard", "curve", "log"])
def test_density_of_further_values_integrates_to_one(scaling):
    """Over one further value, on a fine grid, in the units of the data; the grid leaves out next to nothing."""
    rng = np.random.default_rng(8)
    x = np.linspace(0, 5, 8)
    curves = febm.Curves.from_grid(x, np.exp(2 + 0.3 * np.cumsum(rng.normal(size=(40, 8)), axis=1)))
    settings = dict(prior="mixture", components=2, scaling=scaling, random_state=0, progress=False)
    model = febm.FEBM(**settings).fit(curves)
    posterior = model.condition(curves[:3].select(np.tile(np.arange(8) != 4, 3)))
    drawn = posterior.sample(512, [x[4]], noise=True, random_state=0).y.reshape(3, 512)
    values = np.linspace(*np.quantile(drawn, [0.0001, 0.9999], axis=1), 101)  # a grid of its own for each curve
    values = values.mean(axis=0) + 1.5 * (values - values.mean(axis=0))
    values = np.maximum(values, 1e-6) if scaling == "log" else values
    found = [posterior.log_density(febm.Curves.from_grid([x[4]], row[:, None])) for row in values]
    np.testing.assert_allclose(np.trapezoid(np.exp(found), values, axis=0), 1, atol=0.02)
