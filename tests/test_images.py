"""Images are functions on the unit square; they stay bytes until somebody looks, and nobody can tell."""

import copy
import pickle

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import febm
from febm.basis import Empirical, RandomFourier
from febm.gridded import GriddedCurves
from febm.langevin import Chain, StepSize
from febm.models.settings import Langevin, Networks
from febm.observations import StoredObservations, observe, observe_stored, project, project_curves
from febm.training import Optimisation

BYTES = np.random.default_rng(0).integers(0, 256, size=(5, 4, 3), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 5])


@pytest.fixture
def images() -> febm.Curves:
    return febm.Curves.from_images(BYTES, LABELS)


@pytest.fixture
def plain() -> febm.Curves:
    """The same curves, stored as any others."""
    return febm.Curves.from_grid(
        febm.grid2d(4, 3), BYTES.reshape(5, 12) / 255, covariates=pd.DataFrame({"label": LABELS})
    )


# Points


def test_pixels_are_the_centres_of_cells_row_by_row():
    points = febm.grid2d(2, 4)
    assert points.shape == (8, 2)
    np.testing.assert_array_equal(points[:4, 0], 0.25)
    np.testing.assert_array_equal(points[:4, 1], [0.125, 0.375, 0.625, 0.875])


def test_finer_grids_hold_no_pixel_of_coarser_ones_but_odd_ones_do():
    """A pixel of 28 × 28 is the middle one of the 3 × 3 that 84 × 84 has in its place."""
    coarse, fine = febm.grid2d(28, 28), febm.grid2d(84, 84).reshape(84, 84, 2)
    np.testing.assert_allclose(fine[1::3, 1::3].reshape(-1, 2), coarse, rtol=1e-14)


@pytest.mark.parametrize(("side", "sentence"), [(0, "height is 0"), (2.5, "height is 2.5")])
def test_sides_that_are_no_numbers_of_pixels_are_refused(side, sentence):
    with pytest.raises(ValueError, match=sentence):
        febm.grid2d(side, 3)


# In and out


def test_bytes_become_values_between_0_and_1_with_labels(images, plain):
    np.testing.assert_allclose(images.y, plain.y, rtol=1e-15)
    np.testing.assert_array_equal(images.x, plain.x)
    assert images.covariates["label"].tolist() == LABELS.tolist()
    assert repr(images) == repr(plain)


@given(arrays.arrays(np.uint8, st.tuples(*[st.integers(1, 5)] * 3)))
def test_bytes_come_back_exactly(pixels):
    found = febm.Curves.from_images(pixels).to_images()
    np.testing.assert_array_equal(np.rint(found * 255).astype(np.uint8), pixels)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_stay_as_they_are(dtype):
    pixels = np.random.default_rng(1).normal(size=(2, 3, 5)).astype(dtype)
    np.testing.assert_array_equal(febm.Curves.from_images(pixels).to_images(), pixels)


def test_colours_are_outputs():
    pixels = np.random.default_rng(1).integers(0, 256, size=(2, 3, 5, 3), dtype=np.uint8)
    curves = febm.Curves.from_images(pixels)
    assert (curves.d_x, curves.d_y) == (2, 3)
    np.testing.assert_allclose(curves.to_images(), pixels / 255, rtol=1e-15)
    np.testing.assert_allclose(curves[1].y[0], pixels[1, 0, 0] / 255, rtol=1e-15)


def test_missing_pixels_are_missing_points():
    pixels = np.arange(12.0).reshape(2, 2, 3)
    pixels[0, 1, 2] = np.nan
    curves = febm.Curves.from_images(pixels)
    assert curves.lengths.tolist() == [5, 6]
    np.testing.assert_array_equal(curves.to_images(), pixels)


def test_the_array_of_the_caller_can_change_later():
    pixels = BYTES.copy()
    curves = febm.Curves.from_images(pixels)
    pixels[:] = 0
    assert curves.y.max() > 0


def test_covariates_and_ids_stand_beside_labels():
    curves = febm.Curves.from_images(BYTES, LABELS, ids=list("abcde"), covariates={"size": range(5)})
    assert list(curves.covariates.columns) == ["label", "size"]
    assert curves[[1, 3]].ids.tolist() == ["b", "d"]


@pytest.mark.parametrize(
    ("images", "labels", "error", "sentence"),
    [
        (np.zeros((3, 3)), None, ValueError, "One image is image"),
        (np.zeros((0, 3, 3)), None, ValueError, "shape"),
        (np.zeros((2, 3, 3), dtype=int), None, TypeError, "give bytes"),
        (np.zeros((2, 3, 3)), [1], ValueError, "one label for each of 2 images"),
    ],
)
def test_what_are_no_images_is_refused(images, labels, error, sentence):
    with pytest.raises(error, match=sentence):
        febm.Curves.from_images(images, labels)


def test_scattered_points_are_no_image():
    scattered = febm.Curves.from_arrays([np.random.default_rng(0).uniform(size=(7, 2))], [np.zeros(7)])
    with pytest.raises(ValueError, match="fill no grid"):
        scattered.to_images()
    with pytest.raises(ValueError, match="two inputs; these curves have 1"):
        febm.Curves.from_grid([0, 1], [[1, 2]]).to_images()


# Nobody can tell


def test_images_do_whatever_curves_do(images, plain):
    close = lambda one, other: np.testing.assert_allclose(one.y, other.y, rtol=1e-14)  # noqa: E731
    for action in (
        lambda curves: curves[2],
        lambda curves: curves[[4, 0]],
        lambda curves: curves[::2],
        lambda curves: curves[curves.covariates["label"] == 1],
        lambda curves: curves.select(np.arange(60) % 3 > 0),
        lambda curves: febm.Curves.concatenate([curves, curves[:1]]),
        lambda curves: curves.split(2, random_state=0)[0],
        lambda curves: curves.replace(y=2 * curves.y),
        lambda curves: curves.merge(curves),
    ):
        found, expected = action(images), action(plain)
        close(found, expected)
        np.testing.assert_array_equal(found.x, expected.x)
        np.testing.assert_array_equal(found.offsets, expected.offsets)
        assert found.ids.equals(expected.ids)
        assert (found.covariates is None) == (expected.covariates is None)
    for one, other in zip(images.padded(), plain.padded(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
    pd.testing.assert_frame_equal(images.to_frame(), plain.to_frame())


def test_a_grid_comes_back_sorted_whatever_the_order_of_the_points():
    points = febm.grid2d(2, 2)[::-1]
    curves = GriddedCurves(points, np.arange(4)[None, :, None], pd.RangeIndex(1))
    found, values = curves.to_grid()
    np.testing.assert_array_equal(found, febm.grid2d(2, 2))
    np.testing.assert_array_equal(values[0, :, 0], [3, 2, 1, 0])


def test_images_survive_copies_and_pickles_and_cannot_be_changed(images):
    for found in (copy.copy(images), copy.deepcopy(images), pickle.loads(pickle.dumps(images))):
        assert found == images
        assert found.stored.dtype == np.uint8
    with pytest.raises(AttributeError, match="read-only"):
        images.stored = BYTES
    with pytest.raises(ValueError, match="read-only"):
        images.y[0] = 1.0


def test_picking_and_scaling_leave_bytes_alone(images, plain):
    scaling = febm.Scaling(transform="identity").fit(images)
    scaled = scaling.apply(images[[0, 2, 3]])
    assert isinstance(scaled, GriddedCurves)
    assert scaled.stored.dtype == np.uint8
    expected = febm.Scaling(transform="identity").fit(plain).apply(plain[[0, 2, 3]])
    np.testing.assert_allclose(scaled.y, expected.y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scaled.x, expected.x, rtol=1e-12)
    assert np.shares_memory(images[1:4].stored, images.stored)


# Some at a time


@pytest.fixture
def many() -> febm.Curves:
    """Smooth images with a little noise, as bytes."""
    generator = np.random.default_rng(3)
    x = febm.grid2d(8, 8)
    shapes = np.stack([np.sin(3 * x[:, 0]), np.cos(4 * x[:, 1]), x[:, 0] * x[:, 1]])
    values = 0.5 + 0.1 * generator.normal(size=(300, 3)) @ shapes + 0.01 * generator.normal(size=(300, 64))
    return febm.Curves.from_images((255 * np.clip(values, 0, 1)).astype(np.uint8).reshape(-1, 8, 8))


def as_plain(curves: febm.Curves) -> febm.Curves:
    return febm.Curves(curves.x, curves.y, curves.offsets)


def test_a_basis_of_images_seen_some_at_a_time_is_that_of_all_at_once(many, monkeypatch):
    expected = Empirical(rank=5).fit(as_plain(many), key=jax.random.key(0))
    monkeypatch.setattr("febm.gridded.LARGE", 0)
    monkeypatch.setattr("febm.gridded.CURVES_AT_ONCE", 70)
    found = Empirical(rank=5).fit(many, key=jax.random.key(0))
    np.testing.assert_allclose(found.spectrum, expected.spectrum, rtol=1e-9)
    np.testing.assert_allclose(found.mean(many.points), expected.mean(many.points), rtol=1e-9)
    one, other = (basis.features(many.points)[:, 0] for basis in (found, expected))
    np.testing.assert_allclose(np.abs(np.sum(one * other, axis=0)), np.sum(other**2, axis=0), rtol=1e-6)


def test_images_all_alike_have_no_basis(monkeypatch):
    monkeypatch.setattr("febm.gridded.LARGE", 0)
    with pytest.raises(ValueError, match="no variation"):
        Empirical().fit(febm.Curves.from_images(np.full((3, 2, 2), 7, np.uint8)), key=jax.random.key(0))


def test_images_are_observed_as_other_curves_are(many):
    basis = Empirical(rank=3).fit(many, key=jax.random.key(0))
    found, expected = observe(basis, many), observe(basis, as_plain(many))
    assert found.shared
    for name in ("mean", "features", "values", "mask"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


def test_statistics_of_images_are_those_of_curves(many, monkeypatch):
    monkeypatch.setattr("febm.gridded.CURVES_AT_ONCE", 70)
    basis = Empirical(rank=5).fit(many, key=jax.random.key(0))
    found, expected = project_curves(basis, many, 3), project(observe(basis, as_plain(many)), 3)
    for name in found._fields:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)


def test_a_model_of_images_is_that_of_the_same_curves(many):
    settings = dict(random_state=0, progress=False, prior="mixture", scaling="standard")
    found, expected = (febm.FEBM(**settings).fit(curves) for curves in (many, as_plain(many)))
    at = febm.grid2d(4, 4)
    np.testing.assert_allclose(
        found.condition(many[:3]).mean(at), expected.condition(many[:3]).mean(at), rtol=1e-3, atol=1e-4
    )


def test_batches_of_what_is_stored_are_those_of_all_values(many):
    basis = Empirical(rank=3).fit(many, key=jax.random.key(0))
    stored, expected = observe_stored(basis, many), observe(basis, many)[np.array([4, 2])]
    assert stored.stored.dtype == np.uint8
    assert len(stored) == len(many)
    batch = stored[np.array([4, 2])]
    for name in ("mean", "features", "values", "mask"):
        np.testing.assert_allclose(getattr(batch, name), getattr(expected, name), atol=1e-5)


def test_chains_learn_from_images_that_stay_bytes(many, monkeypatch):
    monkeypatch.setattr("febm.gridded.LARGE", 0)
    monkeypatch.setattr("febm.models.recipes.ENOUGH_CURVES", 40)
    chain = Chain(5, StepSize(1e-3), metropolis=False)
    model = febm.FEBM(
        basis=RandomFourier(16, scale=1.0),
        likelihood="continuous_bernoulli",
        generator="mlp",
        latent_dim=3,
        networks=Networks(width=16, depth=1),
        langevin=Langevin(posterior=chain, prior=chain, precondition=False),
        optimisation=Optimisation(epochs=15, batch_size=32),
        random_state=0,
        progress=False,
    )
    training = next(model._fitting(many))
    assert isinstance(training.data, StoredObservations)
    assert (len(training.data), len(training.held_out)) == (260, 40)
    scores = model.fit(many).history_["score"]
    assert scores.max() > scores.iloc[0] + 0.02
