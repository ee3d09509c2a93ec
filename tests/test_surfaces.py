"""What models promise of surfaces and images: any basis, any number of outputs, one function at every resolution."""

import runpy
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import febm
from febm.basis import Empirical, KarhunenLoeve
from febm.kernels import Gaussian, Matern52

SIDE = 9  # odd, so that 27 × 27 pixels have these among them
EXAMPLE = Path(__file__).parents[1] / "examples" / "surfaces.py"
# Closed forms only: what is promised here does not depend on how long a model is trained.
QUICK = dict(prior="mixture", components=1, scaling="standard", random_state=0, progress=False)
BASES = {
    "empirical": Empirical(rank=6),
    "karhunen-loeve": KarhunenLoeve(Matern52(1.0), rank=60, mean="constant"),
}


def coloured(number: int = 60, seed: int = 0) -> np.ndarray:
    """Images of a spot on a slope, in three colours that know of each other."""
    generator = np.random.default_rng(seed)
    x = febm.grid2d(SIDE, SIDE)
    size, slope = generator.normal(size=(2, number, 1))
    spot = np.exp(-np.sum((x - 0.5) ** 2, axis=1) / 0.1)
    red, green = 0.5 + 0.1 * size * spot, 0.5 + 0.1 * slope * x[:, 0]
    pixels = np.stack([red, green, red - green + 0.5], axis=-1)
    return np.clip(pixels, 0, 1).reshape(number, SIDE, SIDE, 3)


@pytest.fixture(scope="module", params=BASES)
def model(request):
    return febm.FEBM(basis=BASES[request.param], **QUICK).fit(febm.Curves.from_images(coloured()))


# Bases of images


def test_sampled_colour_images_are_those_of_the_data_in_size_and_spread(model):
    drawn = model.sample(200, febm.grid2d(SIDE, SIDE), random_state=1).to_images()
    assert drawn.shape == (200, SIDE, SIDE, 3)
    # The middle varies with the spot. A standard deviation of 200 draws has a relative error of 0.05.
    middle = (slice(None), SIDE // 2, SIDE // 2)
    np.testing.assert_allclose(drawn[middle].std(axis=0), coloured(2000)[middle].std(axis=0), rtol=0.35)


def test_one_function_has_one_value_at_a_point_whatever_the_resolution(model):
    coarse, fine = (model.sample(2, febm.grid2d(side, side), random_state=3).to_images() for side in (SIDE, 3 * SIDE))
    np.testing.assert_allclose(fine[:, 1::3, 1::3], coarse, atol=1e-6)


def test_half_a_colour_image_is_completed(model):
    truth = coloured(5, seed=9)
    whole = febm.Curves.from_images(truth)
    posterior = model.condition(whole.select(whole.x[:, 0] < 0.5))
    found = posterior.mean(febm.grid2d(SIDE, SIDE)).reshape(truth.shape)
    hidden = slice(SIDE // 2 + 1, None)
    spread = (truth - coloured(2000).mean(axis=0))[:, hidden].std()
    assert np.sqrt(np.mean((found - truth)[:, hidden] ** 2)) < 0.5 * spread


def test_a_colour_that_was_not_seen_follows_from_the_others():
    """Only a basis of the colours together knows that: a kernel's has copies for each output."""
    model = febm.FEBM(basis=Empirical(rank=6), **QUICK).fit(febm.Curves.from_images(coloured()))
    truth = coloured(5, seed=9)
    seen = truth.copy()
    seen[..., 2] = np.nan
    found = model.condition(febm.Curves.from_images(seen)).mean(febm.grid2d(SIDE, SIDE)).reshape(truth.shape)
    np.testing.assert_allclose(found[..., 2], truth[..., 2], atol=0.02)


def test_a_product_kernel_on_a_grid_has_products_for_eigenfunctions():
    """λ_ij = λ_i·λ_j and e_ij(s, t) = e_i(s)·e_j(t): what a tensor product of two bases would give."""
    side, length = 14, 0.3
    line = (np.arange(side) + 0.5) / side
    single = np.exp(-0.5 * (line[:, None] - line) ** 2 / length**2) / side
    values, vectors = np.linalg.eigh(single)
    products = np.sort(np.outer(values, values).ravel())[::-1]
    curves = febm.Curves.from_images(np.random.default_rng(0).uniform(size=(3, side, side)))
    basis = KarhunenLoeve(Gaussian(length), rank=10).fit(curves, key=jax.random.key(0))
    np.testing.assert_allclose(basis.spectrum, products[:10], rtol=1e-8)
    # The first and the last but one are simple: equal eigenvalues, of e_ij and e_ji, leave a rotation open.
    first = np.outer(vectors[:, -1], vectors[:, -1]).ravel() * side
    found = basis.features(febm.grid2d(side, side))[:, 0, 0] / np.sqrt(basis.spectrum[0])
    np.testing.assert_allclose(np.abs(found), np.abs(first), rtol=1e-6)


def test_a_kernel_basis_of_many_images_asks_for_the_points_of_one(monkeypatch):
    curves = febm.Curves.from_images(np.zeros((3, 5, 5), np.uint8))
    monkeypatch.setattr(type(curves), "x", property(lambda self: pytest.fail("the points of all images were made")))
    basis = KarhunenLoeve(Matern52(0.5), rank=4).fit(curves, key=jax.random.key(0))
    np.testing.assert_array_equal(basis.fitted.points, febm.grid2d(5, 5))


def test_the_basis_of_a_given_kernel_leaves_noise_to_be_found_of_many_images_too(monkeypatch):
    """Of 5,120 hidden values 90 % intervals hold 0.87 to 0.93, five standard errors of values in tens that depend."""
    monkeypatch.setattr("febm.gridded.LARGE", 0)
    generator = np.random.default_rng(3)
    x = febm.grid2d(8, 8)
    shapes = np.stack([np.sin(3 * x[:, 0]), np.cos(4 * x[:, 1]), x[:, 0] * x[:, 1]])
    values = 0.5 + 0.1 * generator.normal(size=(520, 3)) @ shapes + 0.03 * generator.normal(size=(520, 64))
    images = febm.Curves.from_images(values.reshape(-1, 8, 8))
    basis = KarhunenLoeve(Matern52(1.0), rank=20, mean="constant")
    model = febm.FEBM(basis=basis, prior="mixture", components=2, scaling="standard", random_state=0, progress=False)
    model.fit(images[:360])
    context, target = febm.evaluation.split(images[360:], "random", 0.5, random_state=0)
    lower, upper = model.condition(context, random_state=0).interval(target, 0.9, noise=True)
    assert 0.87 < np.mean((lower.y <= target.y) & (target.y <= upper.y)) < 0.93


# The example


def test_the_example_draws_maps_and_scores_them(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["surfaces.py", "--small", "--out", str(tmp_path)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    table = pd.read_csv(tmp_path / "surfaces_scores.csv").set_index(["model", "buoys"])
    errors = table["error, cm/s"].unstack()
    assert (errors[30] < errors[4]).all()
    assert errors.loc["FEBM", 12] < errors.loc["GaussianProcess", 12]
    for name in ("surfaces_days.png", "surfaces_posterior.png"):
        assert (tmp_path / name).stat().st_size > 10_000
