"""The variational implicit process: two distributions with the same moments, one to draw from and one to condition."""

import jax
import numpy as np
import pytest
from contract import waves
from scipy.stats import multivariate_normal

import febm
from febm.basis.learned import FunctionSampler, evaluate
from febm.models.feature_process import FeatureTraining
from febm.models.vip import VIP
from febm.networks import ResidualMLP
from febm.training import Optimisation

BRIEF = FeatureTraining(width=32, waves=4, optimisation=Optimisation(epochs=100, batch_size=64))
QUICK = dict(random_state=0, progress=False, functions=48, latent_dim=4, training=BRIEF)


@pytest.fixture(scope="module")
def model():
    return VIP(**QUICK).fit(waves())


def sampler(functions=30):
    network = ResidualMLP(3 + 2, 2, width=16, activation="silu", key=jax.random.key(0))
    key = jax.random.key(1)
    return FunctionSampler(np.ones((1, 1), np.float32), network, jax.random.normal(key, (functions, 2)))


def test_mean_and_features_are_the_moments_of_its_functions():
    drawn, x = sampler(), np.linspace(0, 1, 6)[:, None]
    functions = np.asarray(drawn.functions(x.astype(np.float32), drawn.latents), dtype=float)
    mean, features = evaluate(drawn, x)
    np.testing.assert_allclose(mean, functions.mean(axis=0), atol=1e-5)
    flat = features.reshape(12, -1)
    np.testing.assert_allclose(flat @ flat.T, np.cov(functions.reshape(30, 12).T, bias=True), atol=1e-5)


def test_functions_are_drawn_anew_in_training_and_fixed_after():
    drawn = sampler()
    first, second = (drawn.redrawn(jax.random.key(seed)).latents for seed in (2, 3))
    assert (first != second).any()
    assert (drawn.latents == sampler().latents).all()


def test_training_raises_the_held_out_likelihood(model):
    assert model.history_.score.max() > model.history_.score.iloc[0] + 0.5


def test_evidence_is_that_of_the_gaussian_process_with_the_moments_of_its_functions(model):
    curves = waves(3, seed=9)
    scaled = model.scaling_.apply(curves)
    mean, features = evaluate(model.basis_.map, scaled[0].x)
    covariance = features[:, 0] @ features[:, 0].T + float(model.model_.likelihood.variance) * np.eye(15)
    dense = multivariate_normal.logpdf(scaled.y.reshape(3, 15), mean[:, 0], covariance)
    np.testing.assert_allclose(model.log_evidence(curves), dense + model.scaling_.log_jacobian(curves), rtol=1e-5)


def test_samples_of_both_kinds_have_the_same_moments(model):
    """The mean of 48 functions is within 4 standard errors of that of all, at 15 places: wrong once in a thousand."""
    gaussian = VIP(**QUICK, samples="gaussian").fit(waves())
    implicit, drawn = (kind.sample(2000, random_state=1).y.reshape(2000, 15) for kind in (model, gaussian))
    spread = drawn.std(axis=0)
    assert (np.abs(implicit.mean(axis=0) - drawn.mean(axis=0)) < 4 * spread / np.sqrt(48)).all()
    assert 1 / 1.3 < implicit.std(axis=0).mean() / spread.mean() < 1.3


def test_latents_are_those_that_samples_are_made_of(model):
    assert model.sample_latents(5, random_state=0).draws.shape == (5, 4)
    gaussian = VIP(**QUICK, samples="gaussian").fit(waves())
    assert gaussian.sample_latents(5, random_state=0).draws.shape == (5, gaussian.basis_.rank)


def test_an_interrupted_fit_goes_on_to_the_same_end(tmp_path):
    def fitted(epochs, checkpoint=None):
        training = FeatureTraining(width=16, optimisation=Optimisation(epochs=epochs, batch_size=16))
        model = VIP(random_state=0, progress=False, functions=8, latent_dim=2, training=training, checkpoint=checkpoint)
        return model.fit(waves(20))

    fitted(2, str(tmp_path / "run"))
    taken_up, at_once = fitted(5, str(tmp_path / "run")), fitted(5)
    np.testing.assert_array_equal(taken_up.history_.score, at_once.history_.score)
    np.testing.assert_array_equal(taken_up.sample(3, random_state=1).y, at_once.sample(3, random_state=1).y)


@pytest.mark.slow
def test_a_process_of_low_rank_is_recovered():
    """Two waves and noise: on new curves within 0.15 nats a value of the true process, from 300 curves."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 12)
    truth = np.stack([np.sin(2 * np.pi * x), np.cos(2 * np.pi * x)], axis=1)
    values = x + rng.normal(size=(500, 2)) @ truth.T + 0.2 * rng.normal(size=(500, 12))
    training = FeatureTraining(width=32, waves=4, optimisation=Optimisation(epochs=300, batch_size=128))
    model = VIP(random_state=0, progress=False, functions=64, latent_dim=4, training=training)
    model.fit(febm.Curves.from_grid(x, values[:300]))
    best = multivariate_normal.logpdf(values[300:], x, truth @ truth.T + 0.04 * np.eye(12)).mean() / 12
    assert best - 0.15 < model.score(febm.Curves.from_grid(x, values[300:])) < best + 0.02


def test_the_paper_has_512_silu_units():
    training = VIP.paper("stocks", random_state=0).training
    assert (training.width, training.depth, training.activation, training.waves) == (512, 3, "silu", 0)


def test_bad_arguments_are_refused_in_a_sentence():
    for wrong, sentence in [
        (dict(functions=1), "VIP: functions is 1"),
        (dict(latent_dim=0), "VIP: latent_dim"),
        (dict(samples="both"), "VIP: samples is 'both'"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            VIP(progress=False, **wrong).fit(waves())
