"""Very many curves: a mixture of local Gaussians, and F-EBM of images with it."""

import numpy as np
import pytest
import scipy.ndimage
from scipy.stats import multivariate_normal

import febm
from febm.conjugate import Mixture
from febm.local_mixture import PSEUDO_CURVES, _log_density, fit_local

PIXELS = 12


def groups(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[-6, 0, 0], [6, 0, 0], [0, 6, 0]])
    roots = np.stack([np.diag([1, 0.5, 0.2]), np.diag([0.3, 1, 1]), np.array([[1, 0, 0], [0.9, 0.3, 0], [0, 0, 1]])])
    kind = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    return centres[kind] + np.einsum("nij,nj->ni", roots[kind], rng.normal(size=(count, 3))), centres, roots, kind


def discs(count, seed):
    """Bright discs on black, with soft edges: images as a test can write them."""
    rng = np.random.default_rng(seed)
    place, radius = rng.uniform(0.3, 0.7, (count, 1, 2)), rng.uniform(0.15, 0.3, count)
    light = rng.uniform(0.5, 1, count)
    distance = np.linalg.norm(febm.grid2d(PIXELS, PIXELS) - place, axis=2)
    bright = light[:, None] * np.clip(8 * (radius[:, None] - distance) + 0.5, 0, 1)
    return np.round(255 * bright).astype(np.uint8).reshape(count, PIXELS, PIXELS)


class TestMixture:
    def test_separate_groups_get_their_means_weights_and_covariances(self):
        """Covariances of 600 to 1,500 curves, drawn towards each other by 80 at most: within 0.15."""
        scores, centres, roots, kind = groups()
        held_out = np.arange(len(scores)) % 10 == 0
        found = fit_local(scores, np.ones(3), held_out, components=3).mixture
        order = [int(np.argmin(np.linalg.norm(found.means - centre, axis=1))) for centre in centres]
        np.testing.assert_allclose(found.means[order], centres, atol=0.15)
        np.testing.assert_allclose(np.exp(found.log_weights[order]), np.bincount(kind) / len(kind), atol=0.002)
        covariances = found.factors @ np.swapaxes(found.factors, 1, 2)
        np.testing.assert_allclose(covariances[order], roots @ np.swapaxes(roots, 1, 2), atol=0.15)

    def test_density_is_that_of_the_mixture(self):
        scores, centres, roots, _ = groups(50)
        weights = np.array([0.2, 0.5, 0.3])
        expected = sum(
            weight * multivariate_normal(centre, root @ root.T).pdf(scores)
            for weight, centre, root in zip(weights, centres, roots, strict=True)
        )
        found = _log_density(Mixture(np.log(weights), centres.astype(float), roots), scores)
        np.testing.assert_allclose(found, np.log(expected), rtol=1e-9)

    @pytest.mark.parametrize(("alike", "expected"), [(True, PSEUDO_CURVES[-1]), (False, PSEUDO_CURVES[0])])
    def test_covariances_are_pooled_where_components_are_alike(self, alike, expected):
        """Twelve coordinates, 25 curves for each component: with one covariance for all, pooling is best."""
        rng = np.random.default_rng(2)
        centres = 30 * rng.normal(size=(20, 12))
        roots = rng.normal(size=(20, 12, 12)) * np.exp(3 * rng.normal(size=(20, 12, 1)))
        roots = np.broadcast_to(np.eye(12), roots.shape) if alike else roots
        kind = np.repeat(np.arange(20), 25)
        scores = centres[kind] + np.einsum("nij,nj->ni", roots[kind], rng.normal(size=(500, 12)))
        found = fit_local(scores, np.ones(12), np.arange(500) % 5 == 0, components=20)
        assert found.pseudo_curves == expected

    def test_how_many_components_there_are_follows_from_how_many_curves(self):
        scores = groups(900)[0]
        assert len(fit_local(scores, np.ones(3), np.arange(900) % 5 == 0).mixture.means) == 6


@pytest.fixture(scope="module")
def model():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("febm.gridded.LARGE", 100_000)
        patch.setattr("febm.models.recipes.MOST_COORDINATES", 40)
        yield febm.FEBM(random_state=0, progress=False).fit(febm.Curves.from_images(discs(1500, 0)))


class TestImages:
    def test_samples_look_like_the_images(self, model):
        """Range, share of black and total variation of 400 samples; the standard error of the latter two is 2 %."""
        images, samples = discs(1000, 1) / 255, model.sample(400, random_state=0).to_images()
        assert samples.min() == 0
        assert samples.max() <= 1
        assert np.mean(samples == 0) == pytest.approx(np.mean(images == 0), rel=0.1)

        def variation(pictures):
            return sum(np.abs(np.diff(pictures, axis=axis)).sum(axis=(1, 2)).mean() for axis in (1, 2))

        assert variation(samples) == pytest.approx(variation(images), rel=0.12)

    def test_few_images_of_many_pixels_are_many_values_too(self, monkeypatch):
        monkeypatch.setattr("febm.gridded.LARGE", 1000)
        images = febm.Curves.from_images(discs(100, 4))
        model = febm.FEBM(random_state=0, progress=False).fit(images)
        assert len(model.model_.prior.log_weights) == 1
        samples = model.sample(200, random_state=0)
        assert samples.y.std() == pytest.approx(images.y.std(), rel=0.15)

    def test_a_sample_is_one_function_at_every_resolution(self, model):
        """Every third pixel of a grid three times as fine has the place of one of the coarse."""
        coarse = model.sample(5, febm.grid2d(PIXELS, PIXELS), random_state=3).to_images()
        fine = model.sample(5, febm.grid2d(3 * PIXELS, 3 * PIXELS), random_state=3).to_images()
        np.testing.assert_allclose(fine[:, 1::3, 1::3], coarse, atol=1e-9)

    def test_pixels_between_those_given_are_told_better_than_by_splines(self, model):
        truth = discs(100, 2) / 255
        seen = truth[:, ::2, ::2]
        places = febm.grid2d(PIXELS, PIXELS).reshape(PIXELS, PIXELS, 2)[::2, ::2].reshape(-1, 2)
        posterior = model.condition(febm.Curves.from_grid(places, seen.reshape(100, -1)), random_state=0)
        grid = febm.grid2d(PIXELS, PIXELS)
        mean = posterior.mean(grid).reshape(truth.shape)
        spline = np.stack(
            [
                scipy.ndimage.map_coordinates(image, np.mgrid[:PIXELS, :PIXELS] / 2, order=3, mode="nearest")
                for image in seen
            ]
        )
        assert np.mean((mean - truth) ** 2) < 0.7 * np.mean((np.clip(spline, 0, 1) - truth) ** 2)
        low, high = (end.reshape(truth.shape) for end in posterior.interval(grid, noise=True))
        assert 0.85 < np.mean((low <= truth) & (truth <= high)) <= 1.0

    def test_halves_are_completed(self, model):
        """Given the left half, the right one has less error than the mean image has."""
        truth = discs(100, 3) / 255
        grid = febm.grid2d(PIXELS, PIXELS)
        left = grid[:, 1] < 0.5
        context = febm.Curves.from_grid(grid[left], truth.reshape(100, -1)[:, left])
        mean = model.condition(context, random_state=0).mean(grid[~left])[..., 0]
        hidden = truth.reshape(100, -1)[:, ~left]
        assert np.mean((mean - hidden) ** 2) < 0.5 * np.mean((hidden.mean(axis=0) - hidden) ** 2)
