"""What an embedding promises: the plane of the data for PCA, equal numbers for t-SNE, the same seed the same plane."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from febm import FEBM, Curves
from febm.evaluation.embedding import embed

GRID = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0)), axis=-1).reshape(-1, 2)


def curves(n, *, seed, shift=0.0, x=None):
    x = np.linspace(0, 1, 20) if x is None else x
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(n, 3)) * [3.0, 1.0, 0.1]
    return Curves.from_grid(x, scores @ np.stack([np.ones_like(x), np.cos(3 * x), np.sin(7 * x)]) + shift)


def test_pca_on_a_grid_is_that_of_scikit_learn():
    """On a grid of two inputs all points have the same weight, 1/12, so that nothing but the scale differs."""
    generator = np.random.default_rng(0)
    data, samples = generator.normal(size=(30, 12)), 5 + generator.normal(size=(20, 12))
    found = embed(Curves.from_grid(GRID, data), Curves.from_grid(GRID, samples))
    plane = PCA(n_components=2).fit(data)
    for points, values in ((found.data, data), (found.samples, samples)):
        expected = plane.transform(values) / np.sqrt(12)
        signs = np.sign(np.sum(points * expected, axis=0))
        np.testing.assert_allclose(points, signs * expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.explained, plane.explained_variance_ratio_)
    assert found.method == "pca"


def test_distances_in_the_plane_are_those_between_functions():
    """Constant functions c and c' are |c − c'| apart in L² of a domain of measure 1, on any mesh of one input."""
    levels = np.array([0.0, 1.0, 3.0, 7.0])
    uneven = np.array([0.0, 0.01, 0.02, 0.5, 1.0])
    data = Curves.from_grid(uneven, np.repeat(levels[:, None], 5, axis=1))
    found = embed(data, data)
    np.testing.assert_allclose(np.abs(np.diff(found.data[:, 0])), np.diff(levels))
    np.testing.assert_allclose(found.data[:, 1], 0, atol=1e-9)
    assert found.explained[0] == pytest.approx(1)


def test_explained_shares_are_of_the_data_alone():
    data = curves(60, seed=0)
    near, far = embed(data, curves(60, seed=1)), embed(data, curves(60, seed=1, shift=100.0))
    assert near.explained == far.explained
    np.testing.assert_array_equal(near.data, far.data)
    assert 1 > near.explained[0] > near.explained[1] > 0
    assert sum(near.explained) <= 1
    # A shift of all samples by 100 is seen as one, up to what lies outside the plane.
    assert np.linalg.norm(far.samples.mean(axis=0) - near.samples.mean(axis=0)) > 90


def test_plain_arrays_are_curves_too():
    values = np.random.default_rng(0).normal(size=(8, 5))
    assert embed(values, values).data.shape == (8, 2)


def test_curves_with_points_of_their_own_are_compared_on_a_mesh():
    generator = np.random.default_rng(0)
    xs = [np.sort(generator.uniform(size=12)) for _ in range(12)]
    slopes = generator.normal(size=12)
    ragged = Curves.from_arrays(xs, [slope * x for slope, x in zip(slopes, xs, strict=True)])
    found = embed(ragged, ragged, mesh=np.linspace(0.2, 0.8, 7))
    assert abs(np.corrcoef(found.data[:, 0], slopes)[0, 1]) > 0.99
    np.testing.assert_allclose(found.data, found.samples)


def test_tsne_places_equally_many_of_each_and_the_same_for_the_same_seed():
    data, samples = curves(25, seed=0), curves(18, seed=1)
    first, second = (embed(data, samples, method="tsne", random_state=3) for _ in range(2))
    assert first.data.shape == first.samples.shape == (18, 2)
    assert np.isfinite(first.data).all()
    np.testing.assert_array_equal(first.data, second.data)
    np.testing.assert_array_equal(first.samples, second.samples)
    assert first.explained is None
    assert not np.array_equal(first.data, embed(data, samples, method="tsne", random_state=4).data)


def test_tsne_keeps_two_far_groups_apart():
    data, samples = curves(30, seed=0), curves(30, seed=1, shift=100.0)
    found = embed(data, samples, method="tsne", random_state=0)
    middle = (found.data.mean(axis=0) + found.samples.mean(axis=0)) / 2
    direction = found.data.mean(axis=0) - found.samples.mean(axis=0)
    assert ((found.data - middle) @ direction > 0).all()
    assert ((found.samples - middle) @ direction < 0).all()


def test_tsne_of_very_few_curves_works():
    found = embed(curves(3, seed=0), curves(3, seed=1), method="tsne", random_state=0)
    assert np.isfinite(found.data).all()


@pytest.mark.parametrize("scale", [2.0**1000, 2.0**-1000])
def test_size_of_the_curves_is_the_size_of_the_plane(scale):
    data, samples = curves(20, seed=0), curves(20, seed=1)
    plain = embed(data, samples)
    found = embed(data.replace(y=scale * data.y), samples.replace(y=scale * samples.y))
    np.testing.assert_allclose(found.data / scale, plain.data, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.samples / scale, plain.samples, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.explained, plain.explained)


@pytest.mark.parametrize("scale", [2.0**1000, 2.0**-1000])
def test_tsne_does_not_see_the_size_of_the_curves(scale):
    data, samples = curves(12, seed=0), curves(12, seed=1)
    plain = embed(data, samples, method="tsne", random_state=0)
    large = [part.replace(y=scale * part.y) for part in (data, samples)]
    np.testing.assert_array_equal(embed(*large, method="tsne", random_state=0).data, plain.data)


def test_tsne_places_groups_of_equal_curves():
    """Curves of two kinds, and one that is far larger than all others."""
    groups = np.repeat(np.random.default_rng(0).normal(size=(2, 6)), 10, axis=0)
    assert np.isfinite(embed(groups, groups, method="tsne", random_state=0).data).all()
    groups[0] *= 1e160
    assert np.isfinite(embed(groups, groups, method="tsne", random_state=0).data).all()


def test_an_array_beside_curves_is_on_their_grid():
    x = np.array([0.0, 0.01, 0.02, 0.5, 1.0])
    values = np.random.default_rng(0).normal(size=(8, 5))
    whole = embed(Curves.from_grid(x, values), Curves.from_grid(x, values))
    np.testing.assert_array_equal(embed(values, Curves.from_grid(x, values)).data, whole.data)
    np.testing.assert_array_equal(embed(Curves.from_grid(x, values), values).samples, whole.samples)


def test_limit_is_a_random_choice_in_the_plane_of_all_data():
    data, samples = curves(40, seed=0), curves(50, seed=1)
    whole = embed(data, samples)
    part = embed(data, samples, limit=10, random_state=0)
    assert part.data.shape == part.samples.shape == (10, 2)
    assert part.explained == whole.explained
    rows = [np.flatnonzero(np.isclose(whole.data, row, atol=1e-9).all(axis=1)).item() for row in part.data]
    assert rows == sorted(rows)
    assert rows != list(range(10))
    assert whole.data.shape == (40, 2)
    assert whole.samples.shape == (50, 2)
    np.testing.assert_array_equal(embed(data, samples, limit=10, random_state=0).data, part.data)


BAD = {
    "method": (lambda: embed(curves(9, seed=0), curves(9, seed=1), method="umap"), "method is 'umap'; choose 'pca'"),
    "limit": (lambda: embed(curves(9, seed=0), curves(9, seed=1), limit=2), "limit is 2; .* at least 3"),
    "few data": (lambda: embed(curves(2, seed=0), curves(9, seed=1)), "data has 2 curves; give at least 3"),
    "few samples": (lambda: embed(curves(9, seed=0), curves(1, seed=1)), "samples has 1 curve; give at least 3"),
    "equal data": (lambda: embed(np.ones((5, 4)), np.zeros((5, 4))), "all curves of data are the same"),
    "equal curves": (
        lambda: embed(np.full((5, 4), 0.1), np.full((5, 4), 0.1), method="tsne"),
        "all curves of data and samples are the same",
    ),
    "method array": (lambda: embed(np.ones((5, 4)), np.ones((5, 4)), method=np.array(["pca", "tsne"])), "method is"),
    "too large": (
        lambda: embed(1.7e308 * np.outer([1, -1, 1, 0], np.ones(5)), np.full((3, 5), 1.7e308)),
        "beyond the range of numbers; divide",
    ),
    "no grid": (
        lambda: embed(curves(9, seed=0), np.ones((9, 5))),
        r"samples is an array of 5 columns, but .*give Curves\.from_grid",
    ),
    "one value": (lambda: embed(np.arange(5.0)[:, None], np.arange(5.0)[:, None]), "share a single value"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, sentence = BAD[case]
    with pytest.raises(ValueError, match=f"embed: .*{sentence}"):
        attempt()


def test_a_model_is_no_sample():
    with pytest.raises(TypeError, match=r"embed: samples is a model; give curves, such as those of model\.sample"):
        embed(curves(9, seed=0), FEBM())
