"""What a classifier and a close look say of sampled pictures."""

import numpy as np
import pytest
import scipy.ndimage

import febm
from febm.evaluation import PictureJudge, frechet_distance, total_variation

SIDE = 10


def shapes(count, seed):
    """Discs, squares and bars somewhere in the picture, more or less bright, and which each is."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=count)
    away = np.abs(febm.grid2d(SIDE, SIDE) - rng.uniform(0.35, 0.65, (count, 1, 2)))
    size = rng.uniform(0.2, 0.3, (count, 1))
    inside = np.stack(
        [
            np.linalg.norm(away, axis=2) < size,
            away.max(axis=2) < size,
            (away[..., 0] < size / 3) & (away[..., 1] < 2 * size),
        ]
    )[kind, np.arange(count)]
    return (inside * rng.uniform(0.6, 1, (count, 1))).reshape(count, SIDE, SIDE), kind


@pytest.fixture(scope="module")
def judge():
    return PictureJudge(*shapes(3000, 0))


@pytest.fixture(scope="module")
def data():
    return shapes(600, 1)[0]


def test_pictures_of_the_data_pass(judge, data):
    """Shares of 600 have standard errors of at most 0.02."""
    found = judge.score(shapes(600, 2)[0], data)
    assert found.sure == pytest.approx(found.sure_data, abs=0.08)
    assert found.sure_data > 0.8
    np.testing.assert_allclose(found.shares, 1 / 3, atol=0.08)
    assert found.variation == pytest.approx(found.variation_data, rel=0.08)
    assert found.frechet < 3 * found.frechet_data


def test_a_mix_of_kinds_leaves_the_judge_unsure_and_blur_has_little_variation(judge, data):
    first, second = shapes(600, 3)[0], shapes(600, 4)[0]
    found = judge.score(0.5 * (first + second), data)
    assert found.sure < found.sure_data - 0.2
    blurred = scipy.ndimage.gaussian_filter(first, (0, 1.5, 1.5))
    assert judge.score(blurred, data).variation < 0.8 * found.variation_data
    assert found.frechet > 4 * found.frechet_data


def test_a_kind_that_is_missing_is_missed(judge, data):
    pictures, kind = shapes(600, 5)
    assert judge.score(pictures[kind != 1], data).shares[1] < 0.1


def test_copies_are_near(judge, data):
    found = judge.score(shapes(3000, 0)[0][:100], data)
    assert found.nearest == pytest.approx(0.0, abs=1e-3)
    assert found.nearest_data > 0.01


def test_noise_has_variation(data):
    noisy = data + np.random.default_rng(0).normal(size=data.shape)
    assert total_variation(noisy) > 2 * total_variation(data)
    assert total_variation(np.array([[[0.0, 1.0], [0.0, 3.0]]])) == 1 + 3 + 0 + 2


def test_frechet_distance_is_that_of_gaussians():
    """N(0, 1) and N(2, 9) in two dimensions: 2·(4 + (3 − 1)²), for features with exactly these moments."""
    rng = np.random.default_rng(0)
    white = rng.normal(size=(500, 2))
    white -= white.mean(axis=0)
    white = white @ np.linalg.inv(np.linalg.cholesky(np.cov(white, rowvar=False))).T
    assert frechet_distance(white, 2 + 3 * white) == pytest.approx(16.0)
    assert frechet_distance(white, white[::-1]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda judge: PictureJudge(np.zeros((3, 2, 2)), np.zeros(2)), "3 pictures but 2 labels"),
        (lambda judge: judge.score(np.zeros((5, SIDE, SIDE)), np.zeros((3, SIDE, SIDE))), "give at least 4"),
    ],
)
def test_mistakes_are_told(judge, attempt, sentence):
    with pytest.raises(ValueError, match=sentence):
        attempt(judge)
