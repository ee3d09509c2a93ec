"""What pictures of the yardsticks promise: they show the figures of the yardstick, told apart without colour."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import binom

from febm.evaluation.embedding import Embedding
from febm.plotting import plot_calibration, plot_embedding, plot_null, plot_pit, plot_predictive_cdf

LEVELS = np.array([0.2, 0.5, 0.9])


def coverage(shift):
    return pd.DataFrame({"level": LEVELS, "coverage": LEVELS + shift, "standard_error": [0.02, 0.03, 0.06]})


def calibration(*, shift=0.05, spread=1.0, centre=0.0):
    value = np.linspace(-3, 3, 31)
    step = 1 / (1 + np.exp(-(value - centre)))
    return SimpleNamespace(
        coverage=coverage(shift),
        simultaneous=coverage(-0.1),
        pit=np.linspace(0, 1, 400) ** 2,
        predictive_cdf=pd.DataFrame({"value": value, "predicted": 1 / (1 + np.exp(-value / spread)), "observed": step}),
    )


@pytest.fixture
def axes():
    return Figure(figsize=(4.5, 3.2), layout="constrained").add_subplot()


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_calibration_shows_coverage_against_level_with_two_standard_errors(axes):
    assert plot_calibration(calibration(), axes=axes, label="ours") is axes
    diagonal, line = axes.lines
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    np.testing.assert_allclose(line.get_xydata(), np.column_stack([LEVELS, LEVELS + 0.05]))
    vertices = axes.collections[0].get_paths()[0].vertices
    ends = [np.sort(np.unique(vertices[vertices[:, 0] == level, 1])) for level in LEVELS]
    # A share cannot be above 1, and the band ends there.
    np.testing.assert_allclose(ends, [[0.21, 0.29], [0.49, 0.61], [0.83, 1.0]])
    assert axes.get_xlim() == axes.get_ylim() == (0, 1)
    assert legend_of(axes) == ["honest", "ours"]


def test_coverage_of_whole_curves_is_a_second_line(axes):
    plot_calibration(calibration(), axes=axes, simultaneous=True)
    _, points, curves = axes.lines
    np.testing.assert_allclose(curves.get_ydata(), LEVELS - 0.1)
    assert points.get_marker() != curves.get_marker()
    assert points.get_linestyle() != curves.get_linestyle()
    assert legend_of(axes) == ["honest", "at single points", "of whole curves"]


def test_several_calibrations_are_told_apart_by_marker_and_dash(axes):
    plot_calibration({name: calibration() for name in "abc"}, axes=axes)
    lines = axes.lines[1:]
    assert len({line.get_marker() for line in lines}) == 3
    assert len({str(line._dash_pattern) for line in lines}) == 3
    assert legend_of(axes) == ["honest", "a", "b", "c"]


def test_coverage_without_a_standard_error_is_drawn_without_a_band(axes):
    single = calibration()
    single.coverage["standard_error"] = np.nan
    plot_calibration(single, axes=axes)
    axes.figure.canvas.draw()
    np.testing.assert_allclose(axes.lines[1].get_ydata(), LEVELS + 0.05)


def test_pit_is_a_density_with_the_binomial_band_about_one(axes):
    found = calibration()
    assert plot_pit(found, bins=8, axes=axes) is axes
    counts = np.histogram(found.pit, bins=8, range=(0, 1))[0]
    heights = [bar.get_height() for bar in axes.containers[0]]
    np.testing.assert_allclose(heights, counts * 8 / 400)
    assert axes.lines[0].get_ydata()[0] == 1
    (band,) = [patch for patch in axes.patches if patch not in list(axes.containers[0])]
    low, high = binom.ppf([0.025, 0.975], 400, 1 / 8) * 8 / 400
    np.testing.assert_allclose([band.get_y(), band.get_y() + band.get_height()], [low, high])
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > max(heights)


def test_predictive_cdf_shows_the_data_once_and_every_model(axes):
    models = {"narrow": calibration(spread=0.5), "wide": calibration(spread=2.0)}
    assert plot_predictive_cdf(models, axes=axes) is axes
    observed, *predicted = axes.lines
    np.testing.assert_array_equal(observed.get_ydata(), models["wide"].predictive_cdf["observed"])
    for line, (name, each) in zip(predicted, models.items(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), each.predictive_cdf["predicted"])
        assert line.get_label() == name
    assert legend_of(axes) == ["observed", "narrow", "wide"]


def test_single_predictive_cdf_has_the_name_given_to_it(axes):
    plot_predictive_cdf(calibration(), axes=axes, label="ours")
    assert legend_of(axes) == ["observed", "ours"]


def test_embedding_tells_data_and_samples_apart_by_marker_and_fill(axes):
    data, samples = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(4, 2) + 20
    assert plot_embedding(Embedding(data, samples, "pca", (0.925, 0.0004)), axes=axes) is axes
    filled, empty = axes.lines
    np.testing.assert_array_equal(filled.get_xydata(), samples)
    np.testing.assert_array_equal(empty.get_xydata(), data)
    assert filled.get_marker() != empty.get_marker()
    assert empty.get_markerfacecolor() == "none"
    assert axes.get_xlabel() == "component 1 (92 % of variance)"
    assert axes.get_ylabel() == "component 2 (0.04 % of variance)"
    assert legend_of(axes) == ["data", "samples"]


def test_embedding_without_units_has_no_ticks(axes):
    plot_embedding(Embedding(np.eye(2), np.eye(2), "tsne", None), axes=axes, labels=("days", "model"))
    assert len(axes.get_xticks()) == len(axes.get_yticks()) == 0
    assert legend_of(axes) == ["days", "model"]


@pytest.mark.parametrize("name", ["statistic", "distance"])
def test_null_sample_is_counted_whole_and_the_observed_value_is_in_sight(axes, name):
    null = np.random.default_rng(0).normal(size=999)
    test = SimpleNamespace(null=null, pvalue=0.001, **{name: 25.0})
    assert plot_null(test, axes=axes) is axes
    assert sum(bar.get_height() for bar in axes.patches) == 999
    (line,) = axes.collections
    assert line.get_segments()[0][:, 0].tolist() == [25.0, 25.0]
    assert axes.get_xlim()[0] < null.min()
    assert axes.get_xlim()[1] > 25
    assert legend_of(axes)[1] == "observed 25, p = 0.001"
    assert axes.get_xlabel() == name


@pytest.mark.parametrize("null", [np.full(99, 0.5), np.repeat([0.4, 0.5], [1, 998])])
def test_null_sample_with_ties_is_drawn(axes, null):
    plot_null(SimpleNamespace(null=null, statistic=0.5, pvalue=1.0), axes=axes)
    assert sum(bar.get_height() for bar in axes.patches) == len(null)
    assert len(axes.patches) <= 40


def test_nothing_of_pyplot_is_touched_when_axes_are_given():
    pyplot.close("all")
    found = calibration()
    plot_calibration(found, axes=Figure().add_subplot())
    plot_pit(found, axes=Figure().add_subplot())
    plot_predictive_cdf(found, axes=Figure().add_subplot())
    plot_embedding(Embedding(np.eye(2), np.eye(2), "pca", (0.5, 0.5)), axes=Figure().add_subplot())
    plot_null(SimpleNamespace(null=np.arange(9.0), statistic=1.0, pvalue=0.5), axes=Figure().add_subplot())
    assert pyplot.get_fignums() == []


def broken_pit(value):
    found = calibration()
    found.pit = value
    return found


BAD = {
    "no calibration": (lambda axes: plot_calibration({}, axes=axes), "plot_calibration: there is no calibration"),
    "too many": (
        lambda axes: plot_predictive_cdf({i: calibration() for i in range(9)}, axes=axes),
        "plot_predictive_cdf: 9 calibrations cannot be told apart in one picture; draw at most 8",
    ),
    "bins": (lambda axes: plot_pit(calibration(), bins=1, axes=axes), "plot_pit: bins is 1"),
    "NaN": (lambda axes: plot_pit(broken_pit([0.5, np.nan]), axes=axes), "plot_pit: .* 1 value outside"),
    "empty": (lambda axes: plot_pit(broken_pit([]), axes=axes), "plot_pit: the calibration has no values"),
    "unlike data": (
        lambda axes: plot_predictive_cdf({"a": calibration(), "b": calibration(centre=1.0)}, axes=axes),
        "'a' and 'b' were judged by different observations",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_what_is_wrong(case, axes):
    attempt, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence):
        attempt(axes)


@pytest.mark.parametrize("picture", [plot_calibration, plot_pit, plot_predictive_cdf])
def test_what_is_no_calibration_is_refused(picture, axes):
    with pytest.raises(TypeError, match=f"{picture.__name__}: NoneType is no calibration; give what .*check_calibrat"):
        picture(None, axes=axes)
    assert not axes.has_data()


@pytest.mark.parametrize("picture", [plot_calibration, plot_predictive_cdf])
def test_name_without_a_calibration_is_refused(picture, axes):
    with pytest.raises(TypeError, match=f"{picture.__name__}: float is no calibration"):
        picture({"ours": calibration(), "theirs": 0.5}, axes=axes)


def test_bars_of_several_calibrations_are_refused(axes):
    with pytest.raises(TypeError, match="plot_pit: bars of several calibrations hide each other"):
        plot_pit({"ours": calibration()}, axes=axes)


def test_what_is_no_embedding_is_refused(axes):
    with pytest.raises(TypeError, match="plot_embedding: ndarray is no embedding"):
        plot_embedding(np.zeros((3, 2)), axes=axes)


def test_null_of_something_else_is_refused(axes):
    with pytest.raises(TypeError, match="plot_null: SimpleNamespace has no null sample"):
        plot_null(SimpleNamespace(pvalue=0.5), axes=axes)
