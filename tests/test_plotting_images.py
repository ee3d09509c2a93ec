"""What pictures of surfaces promise: every pixel in its place, the missing ones seen to be missing."""

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from febm import Curves
from febm.plotting import plot_images
from febm.plotting.images import MISSING, montage

ROWS, COLUMNS = np.array([0.0, 1.0, 5.0]), np.array([-1.0, 0.5])
GRID = np.stack(np.meshgrid(ROWS, COLUMNS, indexing="ij"), axis=-1).reshape(-1, 2)


@pytest.fixture
def axes():
    return Figure().add_subplot()


def pictures(n, outputs=1, *, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, 6, outputs))


def shuffled(values):
    """The same surfaces with their points in another order for every one."""
    generator = np.random.default_rng(1)
    orders = [generator.permutation(6) for _ in values]
    return Curves.from_arrays([GRID[order] for order in orders], [v[o] for v, o in zip(values, orders, strict=True)])


def test_first_input_runs_down_and_second_to_the_right(axes):
    values = pictures(1)
    assert plot_images(shuffled(values), axes=axes) is axes
    drawn = axes.images[-1]
    np.testing.assert_array_equal(drawn.get_array(), values[0, :, 0].reshape(3, 2))
    # Row 0 is at the top.
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert len(axes.get_xticks()) == len(axes.get_yticks()) == 0


def test_images_stand_in_rows_with_gaps_between(axes):
    values = pictures(5)
    plot_images(shuffled(values), columns=3, axes=axes)
    whole = axes.images[-1].get_array()
    assert whole.shape == (3 + 1 + 3, 2 + 1 + 2 + 1 + 2)
    for i, (top, left) in enumerate([(0, 0), (0, 3), (0, 6), (4, 0), (4, 3)]):
        np.testing.assert_array_equal(whole[top : top + 3, left : left + 2], values[i, :, 0].reshape(3, 2))
    assert np.ma.getmaskarray(whole)[3].all()


def test_one_scale_for_all_images_unless_another_is_given(axes):
    values = pictures(4) * 7 - 2
    curves = shuffled(values)
    plot_images(curves, axes=axes)
    assert axes.images[-1].get_clim() == (values.min(), values.max())
    plot_images(curves, limits=(0, 1), axes=axes)
    assert axes.images[-1].get_clim() == (0, 1)


def test_missing_pixels_have_a_colour_of_their_own(axes):
    values = pictures(2)
    values[0, 3], values[1, 0], values[:, 5] = np.nan, np.nan, np.nan
    plot_images(Curves.from_grid(GRID, values), columns=2, axes=axes)
    behind, drawn = (image.get_array() for image in axes.images)
    missing = np.isnan(montage(values.reshape(2, 3, 2, 1), 2)[..., 0])
    missing[:, 2] = False  # the gap
    np.testing.assert_array_equal(behind[missing], np.tile(to_rgba(MISSING), (missing.sum(), 1)))
    assert np.all(behind[~missing][:, 3] == 0)
    assert np.ma.getmaskarray(drawn)[missing].all()


def test_rows_that_no_curve_has_are_drawn_where_pixels_say_so(axes):
    curves = Curves.from_grid(GRID[:4], pictures(1)[:, :4])  # the last row was never observed
    plot_images(curves, pixels=GRID, axes=axes)
    behind, drawn = (image.get_array() for image in axes.images)
    assert drawn.shape == (3, 2)
    np.testing.assert_array_equal(drawn[:2], curves.y.reshape(2, 2))
    np.testing.assert_array_equal(behind[2], np.tile(to_rgba(MISSING), (2, 1)))
    assert np.ma.getmaskarray(drawn)[2].all()


def test_three_outputs_are_a_colour(axes):
    values = pictures(1, 3)
    plot_images(shuffled(values), axes=axes)
    np.testing.assert_allclose(axes.images[-1].get_array()[..., :3], values[0].reshape(3, 2, 3))
    assert (axes.images[-1].get_array()[..., 3] == 1).all()


def test_bytes_of_a_colour_image_are_scaled(axes):
    values = np.round(255 * pictures(2, 3))
    plot_images(Curves.from_grid(GRID, values), limits=(0, 255), columns=1, axes=axes)
    np.testing.assert_allclose(axes.images[-1].get_array()[:3, :, :3], values[0].reshape(3, 2, 3) / 255)


def test_one_output_of_several_is_drawn_where_asked_for(axes):
    values = pictures(1, 2)
    plot_images(Curves.from_grid(GRID, values), output=1, axes=axes)
    np.testing.assert_array_equal(axes.images[-1].get_array(), values[0, :, 1].reshape(3, 2))


def test_flat_images_need_only_their_shape(axes):
    flat = np.arange(12.0).reshape(2, 6)
    plot_images(flat, shape=(2, 3), columns=2, axes=axes)
    np.testing.assert_array_equal(axes.images[-1].get_array()[:, :3], [[0, 1, 2], [3, 4, 5]])


def test_at_most_so_many_images_are_drawn(axes):
    plot_images(Curves.from_grid(GRID, pictures(9)), limit=2, columns=5, axes=axes)
    assert axes.images[-1].get_array().shape == (3, 5)


def test_surface_of_one_value_is_drawn(axes):
    plot_images(Curves.from_grid(GRID, np.full((1, 6), 3.0)), axes=axes)
    axes.figure.canvas.draw()
    low, high = axes.images[-1].get_clim()
    assert low == 3 < high


def test_scattered_points_are_drawn_where_they_lie(axes):
    generator = np.random.default_rng(0)
    xs = [generator.uniform([0, 0], [1, 1000], size=(40, 2)) for _ in range(3)]
    curves = Curves.from_arrays(xs, [x[:, 0] for x in xs])
    assert plot_images(curves, scatter=True, columns=2, axes=axes) is axes
    (points,) = [each for each in axes.collections if len(each.get_offsets()) > 1]
    np.testing.assert_array_equal(points.get_array(), curves.y[:, 0])
    across, down = points.get_offsets().T
    tiles = [(patch.get_x(), patch.get_y()) for patch in axes.patches]
    assert len(tiles) == 3
    for i, (left, top) in enumerate(tiles):
        rows = slice(40 * i, 40 * (i + 1))
        assert np.corrcoef(down[rows], xs[i][:, 0])[0, 1] > 1 - 1e-9
        assert np.corrcoef(across[rows], xs[i][:, 1])[0, 1] > 1 - 1e-9
        assert ((across[rows] >= left - 1e-9) & (across[rows] <= left + 1 + 1e-9)).all()
        assert ((down[rows] >= top - 1e-9) & (down[rows] <= top + 1 + 1e-9)).all()
    assert axes.yaxis_inverted()


def test_nothing_of_pyplot_is_touched_when_axes_are_given(axes):
    pyplot.close("all")
    plot_images(Curves.from_grid(GRID, pictures(2)), axes=axes)
    assert pyplot.get_fignums() == []


def scattered():
    x = np.random.default_rng(0).normal(size=(50, 2))
    return Curves.from_grid(x, x.T[:1])


BAD = {
    "one input": (lambda: plot_images(np.zeros((2, 6))), "d_x=1; an image has two inputs. Flat images need"),
    "three inputs": (lambda: plot_images(Curves(np.eye(3), np.zeros(3), [0, 3])), "d_x=3; an image has two inputs"),
    "scattered": (lambda: plot_images(scattered()), "the 50 points of the curves do not fill a grid.*scatter=True"),
    "two outputs": (
        lambda: plot_images(Curves.from_grid(GRID, pictures(1, 2))),
        "2 outputs, which are neither a grey value nor a colour; choose one with `output`",
    ),
    "output": (lambda: plot_images(Curves.from_grid(GRID, pictures(1)), output=1), "output is 1; there is 1 output"),
    "shape": (
        lambda: plot_images(Curves.from_grid(GRID, pictures(1)), shape=(2, 3)),
        r"shape is \(2, 3\), but the curves have a grid of 3 × 2",
    ),
    "flat shape": (lambda: plot_images(np.zeros((2, 6)), shape=(2, 2)), r"shape is \(2, 2\), but .* 6 points"),
    "three sides": (
        lambda: plot_images(np.zeros((2, 6)), shape=(1, 2, 3)),
        r"shape is \(1, 2, 3\); give the numbers of rows and columns",
    ),
    "one side": (lambda: plot_images(np.zeros((2, 6)), shape=6), "shape is 6; give the numbers of rows and columns"),
    "half a side": (lambda: plot_images(np.zeros((2, 6)), shape=(1.5, 4)), r"shape is \(1.5, 4\); give the numbers"),
    "three sides of a grid": (
        lambda: plot_images(Curves.from_grid(GRID, pictures(1)), shape=(3, 2, 1)),
        r"shape is \(3, 2, 1\); give the numbers",
    ),
    "columns": (lambda: plot_images(Curves.from_grid(GRID, pictures(1)), columns=0), "columns is 0"),
    "limit": (lambda: plot_images(Curves.from_grid(GRID, pictures(1)), limit=0), "limit is 0"),
    "limits": (lambda: plot_images(Curves.from_grid(GRID, pictures(1)), limits=(1, 1)), r"limits are \(1, 1\)"),
    "pixels": (
        lambda: plot_images(Curves.from_grid(GRID, pictures(1)), pixels=GRID[:4]),
        "pixels has not all rows and columns that the curves have",
    ),
    "scattered line": (lambda: plot_images(np.zeros((2, 6)), scatter=True), "scatter=True draws points of two"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, sentence = BAD[case]
    with pytest.raises(ValueError, match=f"plot_images: .*{sentence}"):
        attempt()
