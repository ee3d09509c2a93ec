"""What pictures of curves promise: what is drawn is what was given, into the axes that were given."""

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from febm import FEBM, Curves
from febm.plotting import plot_curves, plot_posterior, plot_samples_beside_data, plot_split
from febm.plotting.style import OBSERVED, SERIES, SMALLEST_TYPE


@pytest.fixture
def axes():
    return Figure(figsize=(4.5, 3.2)).add_subplot()


@pytest.fixture
def two_outputs():
    return Curves.from_grid([0.0, 1.0], [[[0.0, 5.0], [1.0, 6.0]], [[2.0, 7.0], [3.0, np.nan]]])


@pytest.fixture(scope="module")
def posterior():
    """Of two straight lines seen at two points each, under a Gaussian model."""
    generator = np.random.default_rng(0)
    x = np.linspace(0, 1, 8)
    lines = generator.normal(size=(30, 1)) + generator.normal(size=(30, 1)) * x
    values = lines + 0.1 * generator.normal(size=lines.shape)
    model = FEBM(rank=2, prior="gaussian", random_state=0, progress=False).fit(Curves.from_grid(x, values))
    return model.condition(Curves.from_grid([0.4, 0.6], [[1.0, 1.0], [-1.0, -1.0]]), random_state=0)


def surface():
    points = np.stack(np.meshgrid([0.0, 1.0], [0.0, 1.0]), axis=-1).reshape(-1, 2)
    return Curves.from_grid(points, np.arange(8.0).reshape(2, 4))


def test_the_output_asked_for_is_drawn(axes, two_outputs):
    assert plot_curves(two_outputs, output=1, axes=axes) is axes
    first, second = axes.collections[0].get_segments()
    np.testing.assert_array_equal(first, [[0, 5], [1, 6]])
    # Where the output was not observed there is no point of it.
    np.testing.assert_array_equal(second, [[0, 7]])


def test_limits_hold_every_point(axes):
    plot_curves(Curves.from_grid([-3.0, 8.0], [[-50.0, 20.0]]), axes=axes)
    assert axes.get_xlim()[0] <= -3 < 8 <= axes.get_xlim()[1]
    assert axes.get_ylim()[0] <= -50 < 20 <= axes.get_ylim()[1]


def test_nothing_of_pyplot_is_touched_when_axes_are_given(axes, two_outputs, posterior):
    pyplot.close("all")
    plot_curves(two_outputs, axes=axes)
    plot_split(two_outputs, two_outputs, axes=axes)
    plot_posterior(posterior, [0.0, 1.0], axes=axes)
    plot_samples_beside_data(two_outputs, two_outputs, axes=tuple(Figure().subplots(1, 2)))
    assert pyplot.get_fignums() == []


def test_without_axes_the_current_ones_of_pyplot_are_used(two_outputs):
    figure = pyplot.figure()
    try:
        assert plot_curves(two_outputs) is figure.gca()
    finally:
        pyplot.close(figure)


def test_samples_beside_data_are_of_the_same_output(two_outputs):
    left, right = plot_samples_beside_data(two_outputs, two_outputs, output=1, axes=tuple(Figure().subplots(1, 2)))
    for each in (left, right):
        np.testing.assert_array_equal(each.collections[0].get_segments()[0], [[0, 5], [1, 6]])


def test_split_shows_both_parts_of_the_curve_asked_for(axes):
    x = np.arange(6.0)
    curves = Curves.from_grid(x, [x, 10 * x], ids=["a", "b"])
    given = np.tile([True, False, False], 4)
    context, target = curves.select(given), curves.select(~given)
    assert plot_split(context, target, curve=1, axes=axes) is axes
    whole, seen, hidden = axes.lines
    np.testing.assert_array_equal(whole.get_xydata(), np.column_stack([x, 10 * x]))
    np.testing.assert_array_equal(seen.get_xydata(), [[0, 0], [3, 30]])
    np.testing.assert_array_equal(hidden.get_xydata(), [[1, 10], [2, 20], [4, 40], [5, 50]])
    assert seen.get_marker() != hidden.get_marker()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["context, given", "target, predicted"]


def test_legend_stands_above_the_data(axes):
    x = np.linspace(0, 1, 20)
    curves = Curves.from_grid(x, [np.full(20, 3.0)])
    plot_split(curves, curves, axes=axes)
    axes.figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    highest = axes.transData.transform((0, 3.0))[1]
    assert legend.y0 > highest
    assert all(text.get_fontsize() >= SMALLEST_TYPE for text in axes.get_legend().get_texts())


def test_no_two_series_share_a_colour_a_marker_or_a_dash():
    for field in zip(*SERIES, strict=True):
        assert len(set(map(str, field))) == len(SERIES)
    assert OBSERVED not in {style.color for style in SERIES}


def test_simultaneous_band_is_the_one_of_the_yardsticks_and_wider(posterior):
    from febm.evaluation.calibration import simultaneous_band

    at = np.linspace(0, 1, 9)
    bands = {}
    for band in ("pointwise", "simultaneous"):
        drawn = plot_posterior(posterior, at, curve=1, band=band, draws=0, axes=Figure().add_subplot())
        vertices = drawn.collections[0].get_paths()[0].vertices
        bands[band] = [[vertices[vertices[:, 0] == x, 1].min(), vertices[vertices[:, 0] == x, 1].max()] for x in at]
    wanted = simultaneous_band(posterior, at[:, None], 0.9, random_state=0)
    np.testing.assert_allclose(bands["simultaneous"], np.stack([end[1, :, 0] for end in wanted], axis=1))
    assert np.all(np.ptp(bands["simultaneous"], axis=1) > np.ptp(bands["pointwise"], axis=1))


BAD = {
    "surface": (lambda axes: plot_curves(surface(), axes=axes), "plot_curves: .* use plot_images"),
    "surfaces": (
        lambda axes: plot_samples_beside_data(surface(), surface()),
        "plot_samples_beside_data: the curves have d_x=2, d_y=1",
    ),
    "split surface": (lambda axes: plot_split(surface(), surface(), axes=axes), "plot_split: .* use plot_images"),
    "output": (
        lambda axes: plot_curves(Curves([0.0], [0.0], [0, 1]), output=1, axes=axes),
        "output is 1; there is 1 output, counted from 0",
    ),
    "limit": (lambda axes: plot_samples_beside_data(surface(), surface(), limit=0), "limit is 0"),
    "half a curve": (lambda axes: plot_samples_beside_data(surface(), surface(), limit=2.5), "limit is 2.5"),
    "array": (lambda axes: plot_curves(np.zeros((2, 3)), axes=axes), "plot_curves: curves must be Curves, .*from_grid"),
    "unlike parts": (
        lambda axes: plot_split(Curves([0.0], [0.0], [0, 1], ids=["a"]), Curves([0.0], [0.0], [0, 1], ids=["b"])),
        "plot_split: context and target have different ids",
    ),
    "curve": (
        lambda axes: plot_split(Curves([0.0], [0.0], [0, 1]), Curves([0.0], [0.0], [0, 1]), curve=1, axes=axes),
        "plot_split: curve is 1; give a position among 1 curve",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_what_is_wrong(case, axes):
    attempt, sentence = BAD[case]
    with pytest.raises((TypeError, ValueError), match=sentence):
        attempt(axes)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"at": np.zeros((4, 2))}, "`at` has two inputs.*plot_images"),
        ({"at": [0.0, 1.0], "band": "wide"}, "band is 'wide'; choose 'pointwise' or 'simultaneous'"),
        ({"at": [0.0, 1.0], "curve": 2}, "curve is 2; give a position among 2 curves"),
        ({"at": [0.0, 1.0], "output": 1}, "output is 1; there is 1 output"),
        ({"at": Curves([0.0], [0.0], [0, 1])}, r"`at` is Curves; give the points \(m,\)"),
        ({"at": [0.0, 1.0], "draws": 2.5}, "draws is 2.5; give a whole number of at least 0"),
        ({"at": [0.0, 1.0], "draws": -1}, "draws is -1; give a whole number of at least 0"),
        ({"at": [0.0, 1.0], "level": 1}, "level is 1; give a share between 0 and 1"),
        ({"at": [0.0, 1.0], "context": np.zeros((2, 2))}, "context: curves must be Curves.*got ndarray"),
        ({"at": [0.0, 1.0], "truth": np.zeros((2, 2))}, "truth: curves must be Curves.*got ndarray"),
        ({"at": [0.0, 1.0], "context": Curves([0.0], [0.0], [0, 1])}, "context has 1 curve, but the posterior is of 2"),
    ],
)
def test_posterior_that_cannot_be_drawn_is_refused(posterior, axes, arguments, sentence):
    with pytest.raises((TypeError, ValueError), match=f"plot_posterior: {sentence}"):
        plot_posterior(posterior, axes=axes, **arguments)
    assert not axes.has_data()


@pytest.mark.parametrize("what", [FEBM(), FEBM, None, surface()], ids=["model", "class", "None", "curves"])
def test_what_is_no_posterior_is_refused(axes, what):
    with pytest.raises(TypeError, match="plot_posterior: posterior must be what `condition"):
        plot_posterior(what, [0.0, 1.0], axes=axes)
