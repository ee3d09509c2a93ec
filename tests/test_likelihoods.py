import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from febm.likelihoods import (
    Bernoulli,
    ContinuousBernoulli,
    Gaussian,
    Poisson,
    StudentT,
    as_likelihood,
)

ALL = [Gaussian(), StudentT(), ContinuousBernoulli(), Bernoulli(), Poisson()]
LOGITS = [0.0, 1e-4, -1e-4, 0.1, 0.499, 0.501, -0.5, 2.0, -5.0, 30.0, -30.0, 50.0]
# Gauss–Legendre nodes on [0, 1], dense at the ends: exact for the densities below well past float32.
NODES, WEIGHTS = (0.5 * part for part in np.polynomial.legendre.leggauss(100))
NODES = NODES + 0.5

key = jax.random.key(0)


def each(likelihood):
    return type(likelihood).__name__


def f32(values):
    return jnp.asarray(values, jnp.float32)


def test_gaussian_density_is_scipys():
    y, f = f32([0.3, -1.0, 4.0]), f32([0.0, -1.0, 3.5])
    np.testing.assert_allclose(Gaussian(0.7).log_density(y, f), scipy.stats.norm.logpdf(y, f, 0.7), rtol=1e-5)


def test_gaussian_counts_half_log_variance_once_per_value():
    values = jnp.zeros((3, 4))
    narrow, wide = Gaussian(0.1), Gaussian(0.2)
    difference = jnp.sum(narrow.log_density(values, values) - wide.log_density(values, values))
    expected = 12 * 0.5 * (np.log(wide.variance) - np.log(narrow.variance))
    np.testing.assert_allclose(difference, expected, rtol=1e-5)


def test_gaussian_scale_variance_and_with_scale_agree():
    likelihood = Gaussian(0.3, fixed=True).with_scale(0.2)
    np.testing.assert_allclose(likelihood.variance, 0.04, rtol=1e-6)
    np.testing.assert_allclose(likelihood.scale, 0.2, rtol=1e-6)
    assert likelihood.fixed


def test_student_t_density_is_scipys():
    y, f = f32([0.3, -1.0, 40.0]), f32([0.0, -1.0, 3.5])
    np.testing.assert_allclose(StudentT(3.0, 0.7).log_density(y, f), scipy.stats.t.logpdf(y, 3.0, f, 0.7), rtol=1e-5)
    assert StudentT(3.0, 0.7, fixed=True).with_scale(0.2).degrees == 3.0


@pytest.mark.parametrize("kind", [Gaussian, StudentT])
def test_a_fixed_scale_gets_no_gradient_and_a_free_one_does(kind):
    def scale_gradient(likelihood):
        loss = eqx.filter_grad(lambda model: jnp.sum(model.log_density(f32([1.0, 2.0]), f32([0.0, 0.0]))))
        return float(loss(likelihood).log_scale)

    assert scale_gradient(kind(scale=0.5, fixed=True)) == 0
    assert scale_gradient(kind(scale=0.5)) > 0


def test_bernoulli_probability_is_scipys():
    f = f32([-30.0, -1.0, 0.0, 2.0, 30.0])
    probability = 1 / (1 + np.exp(-np.asarray(f, dtype=float)))
    np.testing.assert_allclose(
        Bernoulli().log_density(jnp.ones(5), f),
        scipy.stats.bernoulli.logpmf(1, probability),
        rtol=1e-5,
        atol=1e-7,
    )
    np.testing.assert_allclose(
        Bernoulli().log_density(jnp.zeros(5), f)[:4],
        scipy.stats.bernoulli.logpmf(0, probability[:4]),
        rtol=1e-5,
        atol=1e-12,
    )


@pytest.mark.parametrize("count", [0, 1, 5, 15, 16, 17, 200, 10_000, 1_000_000])
def test_poisson_probability_is_scipys_even_for_large_counts(count):
    f = f32(np.log(count + 0.5) + np.array([-1.0, -1e-3, 0.0, 1e-3, 0.5]))
    expected = scipy.stats.poisson.logpmf(count, np.exp(np.asarray(f, dtype=float)))
    # log y itself is rounded to float32, which moves the score y·(exp(t) − 1) by that much.
    tolerance = 1e-5 + 2e-6 * np.abs(count - np.exp(np.asarray(f, dtype=float)))
    assert np.all(np.abs(Poisson().log_density(jnp.full(5, float(count)), f) - expected) < tolerance)


@pytest.mark.parametrize("count", [0.0, 3.0, 16.0, 500.0])
def test_poisson_gradient_is_the_count_minus_the_rate(count):
    for f in (-20.0, 0.0, 6.0):
        gradient = jax.grad(lambda value: Poisson().log_density(f32(count), value))(f32(f))
        np.testing.assert_allclose(gradient, count - np.exp(f), rtol=1e-5)


@pytest.mark.parametrize("logit", LOGITS)
def test_continuous_bernoulli_integrates_to_one(logit):
    density = jnp.exp(ContinuousBernoulli().log_density(f32(NODES), jnp.full(100, logit, jnp.float32)))
    np.testing.assert_allclose(WEIGHTS @ np.asarray(density, dtype=float), 1, atol=1e-5)


@pytest.mark.parametrize("logit", [0.0, 1e-4, 0.3, -2.0, 8.0, 30.0])
def test_continuous_bernoulli_density_is_the_textbook_formula(logit):
    log_constant = np.log(logit / np.tanh(logit / 2)) if logit else np.log(2)
    y = np.linspace(0, 1, 5)
    expected = logit * y - np.logaddexp(0, logit) + log_constant
    actual = ContinuousBernoulli().log_density(f32(y), jnp.full(5, logit, jnp.float32))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("logit", LOGITS)
def test_continuous_bernoulli_mean_is_that_of_its_density(logit):
    density = ContinuousBernoulli().log_density(f32(NODES), jnp.full(100, logit, jnp.float32))
    expected = WEIGHTS @ (NODES * np.exp(np.asarray(density, dtype=float)))
    np.testing.assert_allclose(ContinuousBernoulli().mean(f32(logit)), expected, atol=1e-5)


@pytest.mark.parametrize("logit", [*LOGITS, -50.0, 500.0])
def test_continuous_bernoulli_gradient_is_finite_and_the_observation_minus_the_mean(logit):
    for y in (0.0, 0.4, 1.0):
        gradient = jax.grad(lambda f, y=y: ContinuousBernoulli().log_density(f32(y), f))(f32(logit))
        assert jnp.isfinite(gradient)
        np.testing.assert_allclose(gradient, y - ContinuousBernoulli().mean(f32(logit)), atol=1e-6)
    slope = jax.grad(ContinuousBernoulli().mean)(f32(logit))
    assert jnp.isfinite(slope)
    assert slope > 0


@pytest.mark.parametrize("logit", [0.0, 1e-40, 1e-4, 1.0, -8.0, 50.0, -50.0])
def test_continuous_bernoulli_draws_follow_its_density(logit):
    """Kolmogorov–Smirnov against the exact distribution; error rate 1e-3 a case, the seed is fixed."""
    draws = np.asarray(ContinuousBernoulli().sample(jnp.full(4000, logit, jnp.float32), jax.random.key(1)), float)
    assert draws.min() >= 0
    assert draws.max() <= 1

    def distribution(y):
        return y if abs(logit) < 1e-30 else np.expm1(logit * y) / np.expm1(logit)

    assert scipy.stats.kstest(draws, distribution).pvalue > 1e-3


@pytest.mark.parametrize("likelihood", [Gaussian(0.5), StudentT(5.0, 0.5), Bernoulli(), Poisson()], ids=each)
def test_draws_have_the_mean_of_the_likelihood(likelihood):
    """Four standard errors: error rate 6e-5 a value, the seed is fixed."""
    f = f32([-1.0, 0.0, 1.5])
    draws = np.asarray(likelihood.sample(jnp.broadcast_to(f, (4000, 3)), key), dtype=float)
    error = draws.std(axis=0) / np.sqrt(4000)
    assert np.all(np.abs(draws.mean(axis=0) - likelihood.mean(f)) < 4 * error)


def test_gaussian_and_student_t_draws_have_their_scale():
    """Kolmogorov–Smirnov, error rate 1e-3 each; the seed is fixed."""
    zero = jnp.zeros(4000)
    assert scipy.stats.kstest(Gaussian(0.3).sample(zero, key), scipy.stats.norm(0, 0.3).cdf).pvalue > 1e-3
    assert scipy.stats.kstest(StudentT(3.0, 0.3).sample(zero, key), scipy.stats.t(3, 0, 0.3).cdf).pvalue > 1e-3


@pytest.mark.parametrize("likelihood", ALL, ids=each)
def test_everything_is_elementwise_in_float32(likelihood):
    f = jnp.zeros((2, 3), jnp.float32)
    for values in (
        likelihood.log_density(jnp.ones((2, 3)), f),
        likelihood.mean(f),
        likelihood.sample(f, key),
    ):
        assert values.shape == (2, 3)
        assert values.dtype == jnp.float32
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(likelihood))


@pytest.mark.parametrize("likelihood", ALL, ids=each)
def test_links_are_finite_increasing_and_keep_missing_values(likelihood):
    y = np.array([0.0, 1.0]) if isinstance(likelihood, Bernoulli) else np.linspace(0, 1, 11)
    linked = likelihood.link(y)
    assert linked.dtype == np.float64
    assert np.isfinite(linked).all()
    assert np.all(np.diff(linked) > 0)
    assert np.isnan(likelihood.link([np.nan])).all()


def test_the_link_of_the_continuous_bernoulli_nearly_inverts_its_mean():
    y = np.linspace(0, 1, 11)
    mean = ContinuousBernoulli().mean(f32(ContinuousBernoulli().link(y)))
    np.testing.assert_allclose(mean, 0.5 + 0.9 * (y - 0.5), atol=0.01)


def test_only_location_families_may_rescale_outputs():
    assert [likelihood.scales_outputs for likelihood in ALL] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("likelihood", "possible", "impossible", "sentence"),
    [
        (Gaussian(), [-3.0, np.nan, 2.5], [1.0, np.inf], r"1 of 2 observed values are not finite \(inf\)"),
        (StudentT(), [-3.0, np.nan, 2.5], [1.0, -np.inf], "StudentT: 1 of 2"),
        (ContinuousBernoulli(), [0.0, np.nan, 1.0], [0.5, 1.2], r"between 0 and 1 \(1.2\); rescale"),
        (Bernoulli(), [0.0, 1.0, np.nan], [0.5, 1.0, np.nan], r"1 of 2 .* not 0 or 1 \(0.5\)"),
        (Poisson(), [0.0, 7.0, np.nan], [-1.0, 2.5, 3.0], r"2 of 3 .* not counts .*\(-1, 2.5\); fix them"),
    ],
    ids=lambda value: each(value) if isinstance(value, eqx.Module) else "",
)
def test_impossible_observations_are_named_in_a_sentence(likelihood, possible, impossible, sentence):
    likelihood.check_support(possible)
    with pytest.raises(ValueError, match=sentence):
        likelihood.check_support(impossible)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gaussian", Gaussian),
        ("student_t", StudentT),
        ("continuous_bernoulli", ContinuousBernoulli),
        ("bernoulli", Bernoulli),
        ("poisson", Poisson),
    ],
)
def test_likelihoods_are_known_by_name(name, kind):
    assert type(as_likelihood(name)) is kind


def test_a_likelihood_passes_as_itself_and_nonsense_is_refused():
    likelihood = Gaussian(0.5)
    assert as_likelihood(likelihood) is likelihood
    with pytest.raises(ValueError, match="likelihood is 'normal'; give one of 'gaussian'"):
        as_likelihood("normal")


def test_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"Gaussian: scale is 0.0; give a finite number above 0"):
        Gaussian(0.0)
    with pytest.raises(ValueError, match=r"StudentT: degrees is 1.0; .*so that the mean exists"):
        StudentT(1.0)
