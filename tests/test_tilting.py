"""A tilt learns from curves what its base measure does not say, and knows its normalising constant."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from febm.conjugate import Mixture, condition, information, project
from febm.progress import Silent
from febm.tilting import STEPS_BETWEEN, TiltTraining, fit_tilt, try_tilt
from febm.training import Group

NOISE = 0.01
SHORT = TiltTraining(
    width=16,
    depth=2,
    steps=240,
    patience=240,
    proposals=512,
    blocks=8,
    networks=2,
    group=Group(rate=1e-2, factor=0.5, minimum=1e-4, weight_decay=0.1),
)


@pytest.fixture(scope="module")
def curves():
    """Scores with two humps in the first of two coordinates, of the mean and covariance of a standard normal."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 2))
    scores[:, 0] = 0.95 * rng.choice([-1, 1], 300) + 0.3 * scores[:, 0]
    features = rng.normal(size=(6, 1, 2))
    values = np.einsum("por,cr->cpo", features, scores) + np.sqrt(NOISE) * rng.normal(size=(300, 6, 1))
    return project(features, values, np.ones(values.shape, dtype=bool))


@pytest.fixture(scope="module")
def held_out():
    return np.arange(300) % 5 == 0


def attempt(curves, held_out, training=SHORT):
    base = Mixture.standard_normal(2)
    return try_tilt(
        base, curves, NOISE, held_out, training=training, key=jax.random.key(1), progress=Silent(), checkpoint=None
    )


def test_held_out_curves_say_what_a_tilt_gains_and_when_to_stop(curves, held_out):
    trial = attempt(curves, held_out)
    base = condition(Mixture.standard_normal(2), information(curves, NOISE, 2)).log_evidence[held_out].mean()
    assert trial.evidence - base > 0.2
    # Twelve passes over 240 curves are 22.5 batches of 128.
    assert trial.passes == 12 * trial.history.epoch[trial.history.score.idxmax()]
    assert len(trial.history) - 1 <= SHORT.steps // 23


@pytest.mark.parametrize(("steps", "epochs", "passes"), [(3, 1, 3), (2 * STEPS_BETWEEN, 2, STEPS_BETWEEN)])
def test_few_curves_are_passed_over_once_in_a_step(curves, steps, epochs, passes):
    few = curves.take(np.arange(20))
    trial = attempt(few, np.arange(20) < 5, dataclasses.replace(SHORT, steps=steps, patience=500))
    assert len(trial.history) - 1 == epochs
    assert trial.passes == passes * trial.history.epoch[trial.history.score.idxmax()]


def test_a_fitted_tilt_is_low_at_the_humps_and_integrates_to_one(curves):
    energy, constant = fit_tilt(Mixture.standard_normal(2), curves, NOISE, 120, training=SHORT, key=jax.random.key(2))
    at = jnp.array([[-0.95, 0.0], [0.0, 0.0], [0.95, 0.0]])
    left, between, right = energy.each(at)
    assert between > max(left, right) + 1
    # With 20,000 draws of weights of this size the mean has a standard error below 0.02.
    weights = jnp.exp(-energy.each(jax.random.normal(jax.random.key(3), (20_000, 2))) - constant)
    assert abs(float(weights.mean()) - 1) < 0.06


def test_a_tilt_that_gained_nothing_is_none(curves):
    energy, constant = fit_tilt(Mixture.standard_normal(2), curves, NOISE, 0, training=SHORT, key=jax.random.key(2))
    np.testing.assert_allclose(energy.each(jnp.ones((3, 2))), energy.each(jnp.zeros((3, 2))), atol=1e-6)
    np.testing.assert_allclose(constant, -energy(jnp.zeros(2)), atol=0.02)  # by 16,000 weighted draws: seven errors
