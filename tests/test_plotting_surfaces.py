"""What maps of surfaces promise: every value in its place, uncertainty beside it, and points seen where they lie."""

import numpy as np
import pytest
from closed_form_process import ClosedFormProcess
from matplotlib import pyplot
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

import febm
from febm import Curves
from febm.plotting import plot_posterior_maps, plot_surface

EAST, NORTH = np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0])
GRID = np.stack(np.meshgrid(EAST, NORTH, indexing="ij"), axis=-1).reshape(-1, 2)
AT = febm.grid2d(6, 5)


@pytest.fixture
def axes():
    return Figure().add_subplot()


@pytest.fixture
def three():
    return tuple(Figure(figsize=(9, 3)).subplots(1, 3))


def surface(outputs=1):
    return Curves.from_grid(GRID, np.random.default_rng(0).normal(size=(2, 6, outputs)))


def seen(outputs=1, curves=2, points=7):
    """Points of its own for every curve."""
    generator = np.random.default_rng(1)
    return Curves.from_arrays(
        generator.uniform(size=(curves, points, 2)), generator.normal(size=(curves, points, outputs))
    )


def known(context):
    return ClosedFormProcess(lengthscale=0.5, outputs=context.d_y).condition(context)


def only(axes, kind):
    (found,) = [each for each in axes.collections if isinstance(each, kind)]
    return found


def centres(mesh):
    """Where the values of a map lie: across and up."""
    corners = mesh.get_coordinates()
    return (corners[0, :-1, 0] + corners[0, 1:, 0]) / 2, (corners[:-1, 0, 1] + corners[1:, 0, 1]) / 2


def test_on_a_map_the_first_input_runs_to_the_right_and_the_second_up(axes):
    curves = surface()
    assert plot_surface(curves, curve=1, axes=axes) is axes
    mesh = only(axes, QuadMesh)
    np.testing.assert_array_equal(mesh.get_array(), curves[1].y.reshape(3, 2).T)
    across, up = centres(mesh)
    np.testing.assert_allclose(across, EAST)
    np.testing.assert_allclose(up, NORTH)
    assert not axes.yaxis_inverted()


def test_in_an_image_the_first_input_runs_down(axes):
    curves = surface()
    plot_surface(curves, layout="image", axes=axes)
    np.testing.assert_array_equal(only(axes, QuadMesh).get_array(), curves[0].y.reshape(3, 2))
    assert axes.yaxis_inverted()


def test_scattered_points_lie_where_they_were_measured(axes):
    curves = seen()
    plot_surface(curves, axes=axes)
    points = only(axes, PathCollection)
    np.testing.assert_array_equal(points.get_offsets(), curves[0].x)
    np.testing.assert_array_equal(points.get_array(), curves[0].y[:, 0])


def test_two_outputs_are_arrows_on_a_map_of_their_length(axes):
    curves = surface(2)
    plot_surface(curves, axes=axes)
    lengths = np.linalg.norm(curves[0].y, axis=1)
    mesh, arrows = only(axes, QuadMesh), only(axes, Quiver)
    np.testing.assert_allclose(mesh.get_array(), lengths.reshape(3, 2).T)
    assert mesh.get_clim() == (0.0, pytest.approx(lengths.max()))
    np.testing.assert_allclose(arrows.U / arrows.V, curves[0].y[:, 0] / curves[0].y[:, 1])


def test_arrows_of_an_image_follow_its_inputs(axes):
    curves = Curves.from_grid(GRID, np.tile([1.0, 0.0], (1, 6, 1)))
    plot_surface(curves, layout="image", axes=axes)
    arrows = only(axes, Quiver)
    assert np.all(arrows.U == 0)  # the first input runs down, and so do these
    assert np.all(arrows.V > 0)


def test_arrows_of_a_fine_grid_are_fewer_than_its_points(axes):
    plot_surface(Curves.from_grid(febm.grid2d(60, 60), np.ones((1, 3600, 2))), axes=axes)
    assert 100 <= len(only(axes, Quiver).U) <= 14**2


def test_posterior_maps_are_its_mean_and_its_standard_deviation(three):
    posterior = known(seen())
    panels = plot_posterior_maps(posterior, AT, curve=1, draws=4000, axes=three[:2])
    assert [panel.get_title() for panel in panels] == ["posterior mean", "standard deviation"]
    mean, spread = (only(panel, QuadMesh).get_array() for panel in panels)
    expected, covariance = posterior.moments(1, AT, noise=False)
    np.testing.assert_allclose(mean, expected.reshape(6, 5).T)
    # 4,000 draws: a relative error of 1/√8000 = 0.011; six of these in 30 values happen once in 10⁷ times.
    np.testing.assert_allclose(spread, np.sqrt(np.diagonal(covariance[0])).reshape(6, 5).T, rtol=0.07)


def test_uncertainty_of_arrows_adds_the_variances_of_both(three):
    posterior = known(seen(2))
    *_, spread = plot_posterior_maps(posterior, AT, draws=4000, axes=three[:2])
    covariance = posterior.moments(0, AT, noise=False)[1]
    expected = np.sqrt(sum(np.diagonal(part) for part in covariance))
    np.testing.assert_allclose(only(spread, QuadMesh).get_array(), expected.reshape(6, 5).T, rtol=0.07)


def test_truth_stands_first_in_the_colours_of_the_mean(three):
    context = seen()
    truth = Curves.from_grid(AT, 9 * np.ones((2, 30)))
    panels = plot_posterior_maps(known(context), AT, truth=truth, axes=three)
    assert panels == three
    true, mean = (only(panel, QuadMesh) for panel in panels[:2])
    assert true.get_clim() == mean.get_clim() == (pytest.approx(mean.get_array().min()), 9.0)


def test_points_seen_are_marked_on_mean_and_uncertainty(three):
    context = seen()
    _, *marked = plot_posterior_maps(known(context), AT, context=context, truth=context, axes=three)
    for panel in marked:
        (points,) = panel.lines
        np.testing.assert_array_equal(points.get_xydata(), context[0].x)
    assert not three[0].lines


def test_maps_compare_where_the_darkest_colour_is_given(three):
    *_, spread = plot_posterior_maps(known(seen()), AT, largest_deviation=2.5, axes=three[:2])
    assert only(spread, QuadMesh).get_clim() == (0.0, 2.5)


def test_a_colour_bar_is_there_unless_it_is_not_wanted(axes):
    plot_surface(surface(), colorbar=False, axes=axes)
    assert not axes.child_axes
    plot_surface(surface(), axes=axes)
    assert len(axes.child_axes) == 1


def test_same_random_state_gives_the_same_map(three):
    maps = [plot_posterior_maps(known(seen()), AT, draws=5, axes=Figure().subplots(1, 2)) for _ in range(2)]
    one, other = (only(panels[1], QuadMesh).get_array() for panels in maps)
    np.testing.assert_array_equal(one, other)


def test_nothing_of_pyplot_is_touched_when_axes_are_given(axes, three):
    pyplot.close("all")
    plot_surface(surface(), axes=axes)
    plot_posterior_maps(known(seen()), AT, axes=three[:2])
    assert pyplot.get_fignums() == []


def test_a_figure_of_its_own_has_a_panel_for_each_map():
    pyplot.close("all")
    panels = plot_posterior_maps(known(seen()), AT)
    panels[0].figure.canvas.draw()
    assert len(panels) == 2
    pyplot.close("all")


def test_maps_of_very_different_inputs_are_not_drawn_to_scale(axes):
    plot_surface(Curves.from_grid(GRID * [1, 1000], np.ones((1, 6))), axes=axes)
    assert axes.get_aspect() == "auto"


LINES = Curves.from_grid([0.0, 1.0], np.zeros((2, 2)))
BAD = {
    "array": (lambda: plot_surface(np.zeros((2, 6))), TypeError, "curves must be Curves with two inputs; got ndarray"),
    "one input": (lambda: plot_surface(LINES), ValueError, "d_x=1; a map has two inputs. plot_curves"),
    "layout": (lambda: plot_surface(surface(), layout="globe"), ValueError, "layout is 'globe'; choose 'map'"),
    "curve": (lambda: plot_surface(surface(), curve=2), ValueError, "curve is 2; give a position among 2 curves"),
    "output": (lambda: plot_surface(surface(), output=1), ValueError, "output is 1; there is 1 output"),
    "colours": (lambda: plot_surface(surface(3)), ValueError, "3 outputs, which are neither one value nor an arrow"),
    "limits": (lambda: plot_surface(surface(), limits=(1, 1)), ValueError, r"limits are \(1, 1\)"),
    "model": (lambda: plot_posterior_maps(febm.FPCA, AT), TypeError, "posterior must be what `condition"),
    "points of each": (lambda: plot_posterior_maps(known(seen()), seen()), TypeError, "`at` is Curves; give the"),
    "scattered": (
        lambda: plot_posterior_maps(known(seen()), seen()[0].x),
        ValueError,
        "the 7 points of `at` fill no grid",
    ),
    "one draw": (lambda: plot_posterior_maps(known(seen()), AT, draws=1), ValueError, "draws is 1"),
    "fewer curves": (
        lambda: plot_posterior_maps(known(seen()), AT, context=seen(curves=1)),
        ValueError,
        "context has 1 curve, but the posterior is of 2",
    ),
    "lines as truth": (lambda: plot_posterior_maps(known(seen()), AT, truth=LINES), ValueError, "truth have d_x=1"),
    "one axes": (
        lambda: plot_posterior_maps(known(seen()), AT, axes=(Figure().add_subplot(),)),
        ValueError,
        "axes has 1; give 2, for mean and standard deviation",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, error, sentence = BAD[case]
    with pytest.raises(error, match=f"plot_(surface|posterior_maps): .*{sentence}"):
        attempt()
