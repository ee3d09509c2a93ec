"""The default recipe on the paper's Quadratic data: 200 training curves, seed fixed."""

import numpy as np
import pytest

import febm
from febm.datasets import load_quadratic
from febm.evaluation import split

# Predictive squared error of F-EBM in the paper's table: split, share of the points seen, error.
PUBLISHED = [
    ("downsample", 1 / 4, 0.005),
    ("downsample", 1 / 3, 0.004),
    ("downsample", 1 / 2, 0.003),
    ("middle", 1 / 4, 0.044),
    ("middle", 1 / 2, 0.008),
    ("middle", 3 / 4, 0.006),
    ("random", 1 / 4, 0.008),
    ("random", 1 / 2, 0.005),
    ("random", 3 / 4, 0.004),
]


@pytest.fixture(scope="module")
def data():
    return load_quadratic(random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return febm.FEBM(random_state=0, progress=False).fit(data.train)


@pytest.mark.parametrize(("kind", "share", "published"), PUBLISHED)
def test_prediction_is_at_least_as_good_as_published(model, data, kind, share, published):
    context, target = split(data.evaluation[:60], kind, share, random_state=0)
    assert np.mean((model.condition(context).mean(target).y - target.y) ** 2) <= published


@pytest.mark.parametrize("steps", [50, 500])
def test_both_signs_appear_however_long_the_chain(model, data, steps):
    """1,000 samples of a fair coin leave 40–60 % less often than once in a billion times."""
    x, _ = data.train.to_grid()
    _, values = model.sample(1000, at=x, random_state=0, steps=steps).to_grid()
    leading = np.polyfit(x, values[..., 0].T, 2)[0]
    assert 0.4 < np.mean(leading > 0) < 0.6
    assert np.mean(np.abs(leading) < 0.5) < 0.1


@pytest.mark.parametrize("name", ["n_train", "n_evaluation", "points"])
@pytest.mark.parametrize("number", [-5, 0, 2.5, True, "30"])
def test_numbers_that_count_nothing_are_refused(name, number):
    with pytest.raises(ValueError, match=f"load_quadratic: {name} is .*; give a whole number of at least 1"):
        load_quadratic(**{name: number})


def test_data_are_the_quadratics_they_claim_to_be(data):
    x, values = data.evaluation.to_grid()
    leading, slope, intercept = np.polyfit(x, values[..., 0].T, 2)
    np.testing.assert_allclose(leading, data.evaluation.covariates["a"], atol=1e-9)
    np.testing.assert_allclose(intercept, data.evaluation.covariates["b"], atol=1e-7)
    np.testing.assert_allclose(slope, 0, atol=1e-9)
    assert set(np.round(leading)) == {-1.0, 1.0}
    assert (len(data.train), len(data.evaluation), len(x)) == (200, 200, 30)
