"""Functions of curves that have points of their own, evaluated together."""

import jax
import numpy as np
import pytest

import febm
from febm.likelihoods import Gaussian
from febm.models import functions


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 12)
    values = rng.normal(size=(30, 1)) * np.sin(3 * x) + rng.normal(size=(30, 1)) * x + 0.05 * rng.normal(size=(30, 12))
    return febm.FPCA(random_state=0, progress=False).fit(febm.Curves.from_grid(x, values))


@pytest.fixture
def ragged():
    rng = np.random.default_rng(1)
    xs = [np.sort(rng.uniform(0, 1, size)) for size in (3, 8, 1, 5, 40, 2)]
    return febm.Curves.from_arrays(xs, [np.sin(3 * x) for x in xs])


@pytest.mark.parametrize("at_once", [1 << 24, 30, 1])
def test_curves_that_are_evaluated_together_have_the_values_of_each_alone(model, ragged, at_once, monkeypatch):
    monkeypatch.setattr(functions, "BLOCK_VALUES", at_once * model.basis_.rank)
    posterior = model.condition(ragged)
    means, draws = posterior.mean(ragged), posterior.sample(3, ragged, random_state=0)
    assert draws.lengths.tolist() == np.repeat(ragged.lengths, 3).tolist()
    assert draws.ids.tolist() == [(curve, draw) for curve in range(6) for draw in range(3)]
    for curve in range(6):
        x = ragged[[curve]].x
        np.testing.assert_allclose(means[[curve]].y, posterior.mean(x)[curve], rtol=1e-9, atol=1e-12)
        alone = posterior.sample(3, x, random_state=0)[3 * curve : 3 * curve + 3]
        np.testing.assert_allclose(draws[3 * curve : 3 * curve + 3].y, alone.y, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(draws[[3 * curve]].x, x)


def test_noise_of_curves_of_many_lengths_needs_few_programs():
    traced = []

    class Counting(Gaussian):
        def sample(self, f, key):
            traced.append(f.shape)
            return super().sample(f, key)

    likelihood = Counting(0.1)
    for points in range(1, 60):
        noisy = functions._with_noise(likelihood, np.zeros((4, points, 1)), jax.random.key(points))
        assert noisy.shape == (4, points, 1)
        assert 0 < np.abs(noisy).max() < 1
    assert len(traced) <= 2


def test_points_beyond_the_domain_are_warned_of_once_for_all_curves(model):
    far = febm.Curves.from_arrays([[0.5, 3.0], [0.2], [2.0, 0.1]], [[0.0, 0.0], [0.0], [0.0, 0.0]])
    with pytest.warns(UserWarning, match="2 of 5 points lie outside") as told:
        model.sample(3, far, random_state=0)
    assert len(told) == 1
    assert told[0].filename == __file__
