"""The Gaussian energy-based process: its likelihood, what training does for it, and a process it has to recover."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract import pairs, ragged, surfaces, waves
from scipy.stats import multivariate_normal

import febm
from febm.basis.learned import FeatureNetwork, Learned, StationaryFeatures, evaluate
from febm.likelihoods import Gaussian
from febm.models.ebp import EBP
from febm.models.feature_process import FeatureProcess, FeatureTraining, locate
from febm.networks import ResidualMLP
from febm.precision import float64
from febm.training import Optimisation

BRIEF = FeatureTraining(width=32, waves=4, optimisation=Optimisation(epochs=100, batch_size=64))


def feature_map(curves, features=5, waves=3, stationary=6):
    frequencies = jnp.ones((waves, curves.d_x))
    network = ResidualMLP(
        curves.d_x + 2 * waves, curves.d_y * (features + 1), width=16, activation="silu", key=jax.random.key(0)
    )
    kernel = StationaryFeatures.start(stationary, curves.d_x)
    return FeatureNetwork(frequencies, network, curves.d_y, has_mean=True, stationary=kernel)


@pytest.mark.parametrize("kind", [waves, ragged, pairs, surfaces])
def test_the_likelihood_of_curves_of_every_kind_is_the_dense_one(kind):
    """To float32, the precision of the network."""
    curves = kind(8)
    learned = feature_map(curves)
    found = FeatureProcess(learned, Gaussian(0.5), 0.1).log_densities(locate(curves))
    for curve, value in zip(curves, found, strict=True):
        mean, features = evaluate(learned, curve.x)
        seen = ~np.isnan(curve.y)
        rows = features[seen]
        covariance = rows @ rows.T + 0.26 * np.eye(len(rows))
        assert float(value) == pytest.approx(
            multivariate_normal.logpdf(curve.y[seen], mean[seen], covariance), rel=1e-4
        )


def test_points_that_come_again_or_are_many_have_the_values_they_have_alone(monkeypatch):
    learned = feature_map(surfaces(2))
    x = np.random.default_rng(0).uniform(size=(9, 2))[[3, 0, 8, 3, 5, 1, 7, 2, 3, 6, 4]]
    alone = [evaluate(learned, point[None]) for point in x]
    monkeypatch.setattr(febm.basis.learned, "POINTS_AT_ONCE", 4)
    for found, each in zip(evaluate(learned, x), zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(found, np.concatenate(each))


def test_principal_axes_leave_the_process_as_it_is():
    curves = waves(8)
    basis = Learned(feature_map(curves)).fit(curves)
    x = np.linspace(0, 2, 7)[:, None]
    plain, turned = evaluate(basis.map, x).features[:, 0], basis.features(x)[:, 0]
    np.testing.assert_allclose(turned @ turned.T, plain @ plain.T, atol=1e-9)
    assert (np.diff(basis.spectrum) <= 0).all()
    on_points = basis.features(curves.x)[:, 0]
    np.testing.assert_allclose(on_points.T @ on_points / len(curves.x), np.diag(basis.spectrum), atol=1e-9)


def test_training_raises_the_held_out_likelihood():
    history = EBP(random_state=0, progress=False, features=8, training=BRIEF).fit(waves()).history_
    assert history.score.max() > history.score.iloc[0] + 1


@pytest.mark.slow
def test_a_process_of_low_rank_is_recovered():
    """Three waves and noise: on new curves within 0.1 nats a value of the true process, from 300 curves."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 20)
    truth = np.stack([np.sin(2 * np.pi * x), np.cos(2 * np.pi * x), 0.5 * np.sin(4 * np.pi * x)], axis=1)
    values = x + rng.normal(size=(500, 3)) @ truth.T + 0.1 * rng.normal(size=(500, 20))
    training = FeatureTraining(width=64, waves=8, optimisation=Optimisation(epochs=300, batch_size=128))
    model = EBP(random_state=0, progress=False, features=16, training=training)
    model.fit(febm.Curves.from_grid(x, values[:300]))
    new = febm.Curves.from_grid(x, values[300:])
    best = multivariate_normal.logpdf(values[300:], x, truth @ truth.T + 0.01 * np.eye(20)).mean() / 20
    assert best - 0.1 < model.score(new) < best + 0.02


def test_stationary_features_are_those_of_a_matern_kernel():
    """Of smoothness 1/2, so with correlation exp(−r/ℓ) away from the ends, where the cosines reflect it."""
    start = StationaryFeatures.start(2000, 1)
    with float64():
        kernel = StationaryFeatures(start.orders, jnp.log(1.5), jnp.log(0.05), jnp.log(0.5))
        x = np.linspace(0, 1, 801)[:, None]
        features = np.asarray(kernel(x))
    assert np.mean(np.sum(features**2, axis=1)) == pytest.approx(1.5**2, rel=0.02)
    inner = slice(240, 561, 40)
    covariance = features[inner] @ features[inner].T
    np.testing.assert_allclose(covariance / covariance[0, 0], np.exp(-np.abs(x - x.T)[inner, inner] / 0.05), atol=0.01)


def test_stationary_features_of_pairs_are_independent_between_outputs():
    curves = pairs(4)
    features = evaluate(feature_map(curves, stationary=6), curves.x).features[..., 5:]
    assert features.shape[-1] == 12
    np.testing.assert_array_equal(features[:, 0] @ features[:, 1].T, 0.0)


@pytest.mark.slow
def test_rough_curves_are_what_the_stationary_features_are_for():
    """Random walks: on new ones, the network alone is at least 0.1 nats a value behind."""
    rng = np.random.default_rng(1)
    walks = np.cumsum(rng.normal(size=(160, 40)), axis=1) / np.sqrt(40)
    walks, new = (febm.Curves.from_grid(np.linspace(0, 1, 40), part) for part in (walks[:80], walks[80:]))
    scores = [
        EBP(random_state=0, progress=False, features=8, stationary=rank, training=BRIEF).fit(walks).score(new)
        for rank in (40, 0)
    ]
    assert scores[0] > scores[1] + 0.1


def test_an_interrupted_fit_goes_on_to_the_same_end(tmp_path):
    def fitted(epochs, checkpoint=None):
        training = FeatureTraining(width=16, optimisation=Optimisation(epochs=epochs, batch_size=16))
        model = EBP(random_state=0, progress=False, features=4, stationary=8, training=training, checkpoint=checkpoint)
        return model.fit(waves(20))

    fitted(2, str(tmp_path / "run"))
    taken_up, at_once = fitted(5, str(tmp_path / "run")), fitted(5)
    np.testing.assert_array_equal(taken_up.history_.score, at_once.history_.score)
    np.testing.assert_array_equal(taken_up.sample(3, random_state=1).y, at_once.sample(3, random_state=1).y)


def test_without_a_mean_it_is_zero_on_scaled_outputs():
    model = EBP(random_state=0, progress=False, features=8, mean="zero", scaling="standard", training=BRIEF)
    model.fit(waves(count=20))
    np.testing.assert_array_equal(model.basis_.mean(np.linspace(0, 1, 5)[:, None]), 0.0)


def test_the_paper_has_mean_zero_and_512_units():
    model = EBP.paper("melbourne", random_state=0)
    assert (model.mean, model.training.width, model.training.depth, model.training.waves) == ("zero", 512, 3, 0)
    with pytest.raises(ValueError, match="dataset is 'mnist'; choose one of 'quadratic'"):
        EBP.paper("mnist")


def test_bad_arguments_are_refused_in_a_sentence():
    for wrong, sentence in [
        (dict(features=0), "EBP: features"),
        (dict(stationary=-1), "EBP: stationary is -1"),
        (dict(checkpoint="no/such/folder/run"), "EBP: checkpoint is"),
        (dict(mean="constant"), "EBP: mean is 'constant'"),
        (dict(validation=1.5), "EBP: validation is 1.5"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            EBP(progress=False, **wrong).fit(waves())
