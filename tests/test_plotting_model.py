"""What pictures of a model promise: training, basis and energy as they are, in units that can be read."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge

from febm import FEBM, Curves, NotFittedError
from febm.basis import Empirical, KarhunenLoeve
from febm.kernels import Matern32
from febm.plotting import plot_basis, plot_energy, plot_history, plot_spectrum
from febm.plotting.energy import SHARES, _levels, _slice
from febm.priors import Energy, EnergyPrior, GaussianPrior, MixturePrior, TiltedPrior


@pytest.fixture
def axes():
    return Figure(figsize=(4.5, 3.2)).add_subplot()


@pytest.fixture(scope="module")
def model():
    """A Gaussian model of noisy lines with a large level and a wide domain, whose basis has more than it uses."""
    generator = np.random.default_rng(0)
    x = np.linspace(-5, 5, 12)
    lines = 100 + 10 * generator.normal(size=(40, 1)) + 2 * generator.normal(size=(40, 1)) * x
    values = lines + generator.normal(size=lines.shape)
    return FEBM(
        basis=Empirical(rank=4), latent_dim=2, scaling="standard", prior="gaussian", random_state=0, progress=False
    ).fit(Curves.from_grid(x, values))


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


# History


def history(scores, **columns):
    return pd.DataFrame({"epoch": np.arange(len(scores)), "score": scores} | columns)


def test_history_is_drawn_and_the_kept_epoch_marked(axes):
    table = history([0.0, 1.0, 3.0, 2.5, 3.0])
    assert plot_history(table, axes=axes) is axes
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), table[["epoch", "score"]])
    assert axes.collections[0].get_segments()[0][:, 0].tolist() == [2, 2]
    assert legend_of(axes) == ["held-out score (higher is better)", "kept: epoch 2"]


def test_epoch_that_was_taken_back_is_crossed_out_and_never_kept(axes):
    table = history([0.0, 1.0, 9.0, 2.0], event=[None, None, "chains stand still", None])
    plot_history(table, axes=axes)
    (crosses,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert crosses.get_xdata().tolist() == [2]
    assert "kept: epoch 3" in legend_of(axes)


def test_one_wild_epoch_does_not_hide_the_others(axes):
    scores = np.append(np.linspace(5, 6, 20), 6.1)
    scores[1] = -589.0
    plot_history(history(scores), axes=axes)
    bottom, top = axes.get_ylim()
    assert 3 < bottom < 5
    assert top > 6.1
    (triangle,) = [line for line in axes.lines if line.get_marker() == "v"]
    assert triangle.get_xdata().tolist() == [1]
    assert bottom < triangle.get_ydata()[0] < 5


def test_quantities_that_share_a_scale_share_the_axes(axes):
    table = history([1.0, 2.0, 3.0], acceptance=[np.nan, 0.9, 0.8], prior_acceptance=[np.nan, 0.7, 0.6])
    plot_history(table, quantity=("acceptance", "prior_acceptance"), axes=axes)
    first, second = axes.lines
    np.testing.assert_array_equal(first.get_ydata(), table["acceptance"])
    np.testing.assert_array_equal(second.get_ydata(), table["prior_acceptance"])
    assert first._dash_pattern != second._dash_pattern


def test_history_of_a_fitted_model_without_epochs_is_one_point(axes, model):
    plot_history(model, axes=axes)
    assert axes.lines[0].get_xydata().tolist() == [[0, 0]]
    assert axes.lines[0].get_marker() == "o"


def test_history_refuses_what_has_none(axes):
    with pytest.raises(TypeError, match="plot_history: Ridge has no history of training"):
        plot_history(Ridge(), axes=axes)
    table = history([0.0, 1.0], loss=[np.nan, 2.0], noise=np.nan)
    for name in ("speed", "noise"):
        with pytest.raises(ValueError, match=f"quantity is {name}; this history has score, loss"):
            plot_history(table, quantity=name, axes=axes)


# Basis and spectrum


def test_basis_of_a_model_is_drawn_in_the_units_of_the_data(axes, model):
    assert plot_basis(model, functions=2, axes=axes) is axes
    mean, first, second = axes.lines
    x, level = mean.get_xydata().T
    assert (x[0], x[-1]) == (-5, 5)
    scaled = model.scaling_.apply_points(x[:, None])
    unit = model.scaling_.scale[0]
    np.testing.assert_allclose(level, model.scaling_.mean[0] + unit * model.basis_.mean(scaled)[:, 0])
    features = model.basis_.features(scaled)[:, 0]
    for line, feature in zip((first, second), features.T, strict=False):
        np.testing.assert_allclose(line.get_ydata() - level, unit * feature, atol=1e-9)
    shares = model.basis_.spectrum / model.basis_.spectrum.sum()
    assert legend_of(axes)[1] == f"1: {100 * shares[0]:.2g} %"


def test_basis_alone_is_drawn_where_asked_for(axes):
    curves = Curves.from_grid([0.0, 1.0], [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    basis = KarhunenLoeve(Matern32(0.5), rank=3).fit(curves, key=jax.random.key(0))
    at = np.array([0.9, 0.1, 0.5])
    plot_basis(basis, at=at, axes=axes)
    assert len(axes.lines) == 4
    np.testing.assert_array_equal(axes.lines[1].get_xdata(), np.sort(at))
    expected = basis.mean(np.sort(at)[:, None])[:, 0] + basis.features(np.sort(at)[:, None])[:, 0, 0]
    np.testing.assert_allclose(axes.lines[1].get_ydata(), expected)


def test_functions_that_vanish_on_an_output_are_left_out(axes):
    values = np.random.default_rng(0).normal(size=(4, 5, 2))
    basis = KarhunenLoeve(Matern32(0.5), rank=6).fit(
        Curves.from_grid(np.linspace(0, 1, 5), values), key=jax.random.key(0)
    )
    plot_basis(basis, output=1, axes=axes)
    assert [label.split(":")[0] for label in legend_of(axes)] == ["mean", "2", "4", "6"]


def test_basis_of_surfaces_is_a_row_of_images(axes):
    points = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 4), indexing="ij"), axis=-1).reshape(-1, 2)
    curves = Curves.from_grid(points, np.random.default_rng(0).normal(size=(20, 24)))
    basis = Empirical(rank=3).fit(curves, key=jax.random.key(0))
    plot_basis(basis, at=points, axes=axes)
    whole = axes.images[-1].get_array()
    assert whole.shape == (6 + 1 + 6, 4 + 1 + 4)
    np.testing.assert_allclose(whole[:6, :4], basis.mean(points).reshape(6, 4))
    np.testing.assert_allclose(
        whole[7:, 5:], (basis.mean(points)[:, 0] + basis.features(points)[:, 0, 2]).reshape(6, 4)
    )


def test_spectrum_shows_shares_and_what_is_missing_on_a_logarithmic_scale(axes, model):
    assert plot_spectrum(model, axes=axes) is axes
    shares = model.basis_.spectrum / model.basis_.spectrum.sum()
    missing, line, used, unused = axes.lines
    np.testing.assert_allclose(line.get_ydata(), shares)
    np.testing.assert_allclose(missing.get_ydata(), 1 - np.cumsum(shares)[:-1], atol=1e-12)
    assert axes.get_yscale() == "log"
    # The model uses two of the four.
    assert used.get_xdata().tolist() == [1, 2]
    assert unused.get_xdata().tolist() == [3, 4]
    assert unused.get_markerfacecolor() == "white"


def test_spectrum_of_one_function_is_drawn(axes):
    curves = Curves.from_grid([0.0, 1.0], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    plot_spectrum(Empirical(rank=1).fit(curves, key=jax.random.key(0)), axes=axes)
    axes.figure.canvas.draw()
    assert axes.lines[1].get_ydata().tolist() == [1.0]


def test_basis_pictures_refuse_what_has_none(axes, model):
    with pytest.raises(TypeError, match="plot_basis: Ridge has no basis"):
        plot_basis(Ridge(), axes=axes)
    with pytest.raises(NotFittedError, match="plot_spectrum: this FEBM is not fitted yet"):
        plot_spectrum(FEBM(), axes=axes)
    with pytest.raises(NotFittedError, match="Empirical is not fitted yet"):
        plot_spectrum(Empirical(), axes=axes)
    with pytest.raises(ValueError, match="plot_basis: output is 1; there is 1 output"):
        plot_basis(model, output=1, axes=axes)
    with pytest.raises(ValueError, match="plot_basis: 7 functions cannot be told apart"):
        plot_basis(model, functions=7, axes=axes)
    with pytest.raises(ValueError, match="plot_basis: functions is 0"):
        plot_basis(model, functions=0, axes=axes)


# Energy


def bowl(z):
    """An energy that pushes the first coordinate to 1."""
    return 0.5 * jnp.square(z[0] - 1.0)


def tilted(dim=3):
    # exp(−E) N(0, 1) has the integral exp(−1/4)/√2 over the first coordinate.
    return TiltedPrior(GaussianPrior(dim), Energy(bowl, 2), log_normaliser=-0.25 - 0.5 * np.log(2))


def contour_centres(axes, number):
    """The middle of the outermost contour, and how wide it is, of the sets of contours drawn."""
    sets = [each for each in axes.collections if hasattr(each, "get_paths") and each.get_facecolor().size == 0]
    vertices = sets[number].get_paths()[0].vertices
    return vertices.min(axis=0) / 2 + vertices.max(axis=0) / 2, np.ptp(vertices, axis=0)


def test_energy_shows_base_and_tilted_density_where_they_are(axes):
    assert plot_energy(tilted(), axes=axes) is axes
    base, base_width = contour_centres(axes, 0)
    after, after_width = contour_centres(axes, 1)
    np.testing.assert_allclose(base, [0, 0], atol=0.02)
    # N(0, 1) times exp(−(z − 1)²/2) is N(1/2, 1/2); the 99 % contour of a Gaussian in the plane is at 3.03 sd.
    np.testing.assert_allclose(after, [0.5, 0], atol=0.02)
    np.testing.assert_allclose(base_width, 2 * 3.035, rtol=0.03)
    np.testing.assert_allclose(after_width, [2 * 3.035 * np.sqrt(0.5), 2 * 3.035], rtol=0.03)
    assert legend_of(axes) == ["base: 50, 90, 99 %", "tilted: 50, 90, 99 %"]
    assert axes.get_xlabel() == "latent coordinate 0"


def test_directions_choose_the_coordinates(axes):
    plot_energy(tilted(), directions=(2, 0), axes=axes, colorbar=False)
    after, _ = contour_centres(axes, 1)
    np.testing.assert_allclose(after, [0, 0.5], atol=0.02)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("latent coordinate 2", "latent coordinate 0")


def test_contours_hold_their_share_of_the_slice():
    grid = np.linspace(-6, 6, 301)
    log_density = -0.5 * (grid[:, None] ** 2 + grid**2)
    density = np.exp(log_density) / np.exp(log_density).sum()
    for level, share in zip(_levels(log_density), SHARES, strict=True):
        assert density[log_density >= level].sum() == pytest.approx(share, abs=0.001)


def test_other_coordinates_are_at_the_mean_of_the_base():
    means = np.array([[0.0, 0.0, 3.0], [0.0, 0.0, -1.0]])
    base = MixturePrior(np.log([0.75, 0.25]), means, np.stack([np.eye(3)] * 2), 3)
    found = _slice(TiltedPrior(base, Energy(lambda z: z[2], 3)), (0, 1))
    np.testing.assert_allclose(found.energy, 0.75 * 3 - 0.25, rtol=1e-6)
    assert (found.first[0], found.first[-1]) == pytest.approx((-4, 4))


def test_energy_without_a_base_has_one_density(axes):
    energy = Energy(lambda z: 0.5 * jnp.sum(jnp.square(z)), 2)
    plot_energy(EnergyPrior(energy, 2), axes=axes, colorbar=False)
    assert legend_of(axes) == ["density: 50, 90, 99 %"]
    assert len(axes.figure.axes) == 1


def test_colour_bar_stands_beside_the_axes(axes):
    plot_energy(tilted(), axes=axes)
    _, bar = axes.figure.axes
    assert bar.get_ylabel() == "energy + log Z (nats)"


def test_energy_refuses_what_has_none(axes, model):
    with pytest.raises(TypeError, match="plot_energy: a GaussianPrior has no energy"):
        plot_energy(model, axes=axes)
    with pytest.raises(TypeError, match="plot_energy: Ridge has no energy"):
        plot_energy(Ridge(), axes=axes)
    with pytest.raises(ValueError, match=r"plot_energy: directions is \(0, 3\); give two different .* from 0 to 2"):
        plot_energy(tilted(), directions=(0, 3), axes=axes)
    with pytest.raises(ValueError, match=r"plot_energy: directions is \(1, 1\)"):
        plot_energy(tilted(), directions=(1, 1), axes=axes)
    for directions in ((0.5, 1), 1):
        with pytest.raises(ValueError, match=r"plot_energy: directions is .*; give two different coordinates"):
            plot_energy(tilted(), directions=directions, axes=axes)
    with pytest.raises(ValueError, match="the latent has 1 coordinate, and the picture needs two"):
        plot_energy(TiltedPrior(GaussianPrior(1), Energy(bowl, 1)), axes=axes)


def test_nothing_of_pyplot_is_touched_when_axes_are_given(model):
    pyplot.close("all")
    plot_history(history([0.0, 1.0]), axes=Figure().add_subplot())
    plot_basis(model, axes=Figure().add_subplot())
    plot_spectrum(model, axes=Figure().add_subplot())
    plot_energy(tilted(), axes=Figure().add_subplot())
    assert pyplot.get_fignums() == []
