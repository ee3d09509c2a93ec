"""An honest model is found honest, a wrong one wrong; every statement holds for any number of draws.

Tests on random numbers allow 4.4 standard errors, which chance passes in about one run of 100,000; Kolmogorov's test is
at level 1/1,000.
"""

import numpy as np
import pandas as pd
import pytest
from closed_form_process import GRID, ClosedFormPosterior, ClosedFormProcess, observed_in_part
from scipy.stats import kstest, norm

from febm.curves import Curves
from febm.evaluation import prediction
from febm.evaluation.calibration import LEVELS, Calibration, check_calibration, simultaneous_band
from febm.evaluation.prediction import Predictive, predict


@pytest.fixture(scope="module")
def process():
    return ClosedFormProcess()


@pytest.fixture(scope="module")
def parts(process):
    return observed_in_part(process, 300)


@pytest.fixture(scope="module")
def honest(process, parts):
    return check_calibration(process, *parts, draws=300, random_state=0)


def by_hand(observed, draws):
    """A Predictive from `observed` (curves, values) and `draws` (draws, curves, values)."""
    curves, values = observed.shape
    target = Curves.from_grid(np.arange(values), observed)
    flat = draws.reshape(len(draws), curves * values)
    return Predictive(target, flat.mean(axis=0), flat, np.zeros(curves))


# An honest model


def test_coverage_of_an_honest_model_is_the_level(honest):
    table = honest.coverage
    assert list(table.columns) == ["level", "coverage", "standard_error"]
    assert table["level"].tolist() == [*(round(0.05 * i, 2) for i in range(1, 20)), 0.99]
    assert (np.abs(table["coverage"] - table["level"]) < 4.4 * table["standard_error"]).all()
    assert honest.error < 4.4 * honest.chance_error


def test_simultaneous_coverage_of_an_honest_model_is_the_level(honest):
    table = honest.simultaneous
    assert list(table.columns) == ["level", "coverage", "standard_error"]
    expected_error = np.sqrt(table["level"] * (1 - table["level"]) / 300)
    assert (np.abs(table["coverage"] - table["level"]) < 4.4 * expected_error).all()
    assert honest.pvalue > 1e-3


@pytest.mark.parametrize("draws", [19, 200])
def test_ranks_of_curves_are_uniform_for_any_number_of_draws(draws):
    rng = np.random.default_rng(draws)
    walk = np.cumsum(rng.standard_t(3, size=(draws + 1, 2000, 6)), axis=2)
    found = check_calibration(by_hand(walk[0], walk[1:]), levels=[0.5], random_state=0)
    assert found.pvalue > 1e-3
    assert found.pvalue == pytest.approx(kstest(found.ranks, "uniform").pvalue)


def test_pit_of_an_honest_model_is_uniform():
    """With one target value a curve, so that the values are independent."""
    process = ClosedFormProcess()
    curves = process.sample(500, GRID[:4], noise=True, random_state=2)
    context, target = curves.select(np.tile([1, 1, 1, 0], 500) == 1), curves.select(np.tile([0, 0, 0, 1], 500) == 1)
    found = check_calibration(process, context, target, draws=200, random_state=0)
    assert len(found.pit) == 500
    assert kstest(found.pit, "uniform").pvalue > 1e-3
    assert found.pit_distance == pytest.approx(kstest(found.pit, "uniform").statistic)


def test_mean_predictive_distribution_is_the_mixture_of_all_targets(process, parts, honest):
    table = honest.predictive_cdf
    context, target = parts
    posterior = ClosedFormPosterior(process, context)
    means, sds = [], []
    for i, curve in enumerate(target):
        mean, covariance = posterior.moments(i, curve.x, noise=True)
        means.append(mean[:, 0])
        sds.append(np.sqrt(np.diag(covariance[0])))
    exact = norm.cdf(table["value"].to_numpy()[:, None], np.concatenate(means), np.concatenate(sds)).mean(axis=1)
    # 300 curves times 300 draws: even if the values of a draw were one value, 4.4 standard errors are below this.
    np.testing.assert_allclose(table["predicted"], exact, atol=4.4 * 0.5 / np.sqrt(300 * 300))
    shares = [(target.y[:, 0] <= value).mean() for value in table["value"]]
    np.testing.assert_allclose(table["observed"], shares, atol=1e-12)
    assert table["observed"].iloc[[0, -1]].tolist() == [0, 1]
    assert honest.marginal_distance == pytest.approx(np.abs(table["predicted"] - table["observed"]).max())


# A wrong one


@pytest.mark.parametrize(("wrong", "side"), [({"inflation": 0.6}, -1), ({"inflation": 1.7}, 1)])
def test_wrong_spread_shows_in_coverage_and_bands(parts, wrong, side):
    found = check_calibration(ClosedFormProcess(**wrong), *parts, draws=200, levels=[0.3, 0.5, 0.9], random_state=0)
    for table in (found.coverage, found.simultaneous):
        gap = side * (table["coverage"] - table["level"])
        assert (gap > 4.4 * table["standard_error"]).all()
    assert found.error > 4.4 * found.chance_error
    assert found.pvalue < 1e-6


def test_wrong_mean_shows_in_pit_and_marginal(parts, honest):
    found = check_calibration(ClosedFormProcess(shift=1.0), *parts, draws=200, random_state=0)
    # A shift by one standard deviation moves the PIT by Φ(½) − Φ(−½) = .38 where it moves it most.
    assert found.pit_distance == pytest.approx(norm.cdf(0.5) - norm.cdf(-0.5), abs=0.06)
    assert found.pit.mean() < 0.35
    assert found.marginal_distance > 4 * honest.marginal_distance


# Errors of means


def test_dependent_values_of_a_curve_count_as_one():
    rng = np.random.default_rng(0)
    observed, draws = rng.normal(size=(200, 1)), rng.normal(size=(100, 200, 1))
    once = check_calibration(by_hand(observed, draws), levels=[0.5, 0.9], random_state=0)
    copied = by_hand(np.repeat(observed, 7, axis=1), np.repeat(draws, 7, axis=2))
    pd.testing.assert_frame_equal(once.coverage, check_calibration(copied, levels=[0.5, 0.9], random_state=0).coverage)
    share = once.coverage["coverage"]
    np.testing.assert_allclose(once.coverage["standard_error"], np.sqrt(share * (1 - share) / 199))


def test_standard_error_is_the_spread_over_repetitions():
    """Of 400 repetitions with 60 ragged curves each: the ratio of the two has a standard error of about .05."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, size=60)
    rows = np.arange(8) < lengths[:, None]
    shares, errors = [], []
    for _ in range(400):
        level = rng.normal(size=(1, 60, 1))
        draws = rng.normal(size=(40, 60, 1)) + 0.3 * rng.normal(size=(40, 60, 8))
        target = Curves.from_grid(np.arange(8), np.where(rows, (level + 0.3 * rng.normal(size=(60, 8)))[0], np.nan))
        flat = draws[:, rows]
        found = check_calibration(
            Predictive(target, flat.mean(axis=0), flat, np.zeros(60)), levels=[0.7], random_state=0
        )
        shares.append(found.coverage["coverage"][0])
        errors.append(found.coverage["standard_error"][0])
    assert np.std(shares) / np.mean(errors) == pytest.approx(1, abs=4.4 * 0.05)


def test_single_curve_has_no_standard_error():
    rng = np.random.default_rng(0)
    found = check_calibration(
        by_hand(rng.normal(size=(1, 5)), rng.normal(size=(50, 1, 5))), levels=[0.5], random_state=0
    )
    assert np.isnan(found.coverage["standard_error"]).all()
    assert np.isfinite(found.coverage["coverage"]).all()


# Values without spread


def test_value_on_which_all_agree_decides_nothing():
    rng = np.random.default_rng(0)
    observed, draws = rng.normal(size=(50, 3)), rng.normal(size=(40, 50, 3))
    plain = check_calibration(by_hand(observed, draws), levels=[0.5], random_state=0)
    sure = by_hand(np.pad(observed, ((0, 0), (0, 1)), constant_values=0.1), np.pad(draws, ((0, 0),) * 2 + ((0, 1),)))
    sure.draws[:, 3::4] = 0.1
    ranks = check_calibration(sure, levels=[0.5], random_state=0).ranks
    # What comes after the whole rank is drawn anew.
    np.testing.assert_array_equal(np.floor(41 * ranks), np.floor(41 * plain.ranks))


def test_value_that_all_draws_miss_puts_the_curve_outside_every_band():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(40, 20, 3))
    draws[:, :, 1] = 0.1
    found = check_calibration(by_hand(np.full((20, 3), 0.2), draws), levels=[0.5, 0.9], random_state=0)
    assert (found.ranks >= 40 / 41).all()
    assert found.simultaneous["coverage"].tolist() == [0, 0]


def test_curve_that_is_certain_and_right_has_a_uniform_rank():
    found = check_calibration(by_hand(np.full((400, 3), 0.1), np.full((40, 400, 3), 0.1)), levels=[0.5], random_state=0)
    assert found.pvalue > 1e-3
    assert found.coverage["coverage"].tolist() == [1]


# The same from a model and from what was predicted


def test_predictive_gives_what_the_model_gives(process, parts, honest, monkeypatch):
    predictive = predict(process, *parts, draws=300, random_state=0)
    again = check_calibration(predictive, random_state=0)
    assert isinstance(again, Calibration)
    pd.testing.assert_frame_equal(again.coverage, honest.coverage)
    pd.testing.assert_frame_equal(again.simultaneous, honest.simultaneous)
    pd.testing.assert_frame_equal(again.predictive_cdf, honest.predictive_cdf)
    np.testing.assert_array_equal(again.pit, honest.pit)
    monkeypatch.setattr(prediction, "VALUES_AT_ONCE", 300 * 8 * 70)
    blocked = check_calibration(predictive, random_state=0)
    pd.testing.assert_frame_equal(blocked.coverage, honest.coverage)
    pd.testing.assert_frame_equal(blocked.predictive_cdf, honest.predictive_cdf)


def test_arrays_are_read_on_the_grid_of_the_model(process, parts):
    """NaN where nothing is shown or asked for."""
    gridded = ClosedFormProcess()
    gridded.grid_ = GRID[:, None]
    context, target = (part[:40].to_grid() for part in parts)
    found = check_calibration(gridded, context[1][..., 0], target[1][..., 0], draws=200, random_state=0)
    wanted = check_calibration(process, *(part[:40] for part in parts), draws=200, random_state=0)
    pd.testing.assert_frame_equal(found.coverage, wanted.coverage)
    np.testing.assert_array_equal(found.pit, wanted.pit)


def test_repr_tells_the_error_beside_that_of_chance(honest):
    expected = f"coverage off by {honest.error:.3f} on average, {honest.chance_error:.3f} by chance>"
    assert repr(honest) == f"<Calibration: 2,400 values of 300 curves, {expected}"


# Bands


@pytest.mark.parametrize("noise", [False, True])
def test_band_holds_whole_functions_as_often_as_it_says(process, parts, noise):
    """Over 300 posteriors with one fresh function each: a share with a standard error of √(.8·.2/300)."""
    posterior = process.condition(parts[0])
    at = np.linspace(0, 1, 30)
    lower, upper = simultaneous_band(posterior, at, 0.8, draws=400, noise=noise, random_state=0)
    assert lower.shape == upper.shape == (300, 30, 1)
    fresh = posterior.sample(1, at, noise=noise, random_state=1).y.reshape(300, 30, 1)
    share = ((lower <= fresh) & (fresh <= upper)).all(axis=(1, 2)).mean()
    assert abs(share - 0.8) < 4.4 * np.sqrt(0.8 * 0.2 / 300)


@pytest.mark.parametrize(("level", "draws"), [(0.3, 19), (0.8, 24)])
def test_band_of_few_draws_holds_as_many(level, draws):
    """Ten independent values, 4,000 posteriors: 4.4 standard errors, and a hundredth as the form is not quite exact."""

    class Independent(ClosedFormPosterior):
        def moments(self, i, points, *, noise):
            return np.zeros((len(points), 1)), np.eye(len(points))[None]

    context = Curves.from_grid([0.0], np.zeros((4000, 1)))
    posterior = Independent(ClosedFormProcess(), context)
    lower, upper = simultaneous_band(posterior, np.arange(10.0), level, draws=draws, random_state=0)
    fresh = np.random.default_rng(0).normal(size=(4000, 10, 1))
    share = ((lower <= fresh) & (fresh <= upper)).all(axis=(1, 2)).mean()
    assert abs(share - level) < 4.4 * np.sqrt(level * (1 - level) / 4000) + 0.01


def test_band_is_wider_than_the_interval_at_each_point(process, parts):
    posterior = process.condition(parts[0][:5])
    at = np.linspace(0, 1, 20)
    lower, upper = simultaneous_band(posterior, at, random_state=0)
    inner_lower, inner_upper = posterior.interval(at, 0.9)
    assert (upper - lower > inner_upper - inner_lower).all()


def test_points_of_each_curve_give_bands_as_curves(process, parts):
    context, target = parts[0][:3], parts[1][:3]
    lower, upper = simultaneous_band(process.condition(context), target, noise=True, random_state=0)
    for band in (lower, upper):
        np.testing.assert_array_equal(band.x, target.x)
        assert band.ids.equals(target.ids)
    assert (lower.y < upper.y).all()


def test_band_closes_where_the_function_is_known():
    class Pinned(ClosedFormPosterior):
        def sample(self, n, at, *, noise=False, random_state=None):
            drawn = super().sample(n, at, noise=noise, random_state=random_state)
            return drawn.replace(y=np.where(drawn.x == 0.5, 0.1, drawn.y))

    curves = Curves.from_grid(GRID, np.zeros((2, 12)))
    lower, upper = simultaneous_band(Pinned(ClosedFormProcess(), curves), [0.0, 0.5, 1.0], random_state=0)
    np.testing.assert_array_equal(lower[:, 1, 0], [0.1, 0.1])
    np.testing.assert_array_equal(upper[:, 1, 0], [0.1, 0.1])
    assert (upper[:, [0, 2]] > lower[:, [0, 2]]).all()


# Errors are sentences

NAMED = Curves.from_grid(GRID, np.zeros((2, 12)), ids=["a", "b"])
PLAIN = ClosedFormProcess()
READY = by_hand(np.zeros((2, 3)), np.random.default_rng(0).normal(size=(50, 2, 3)))
BAD_INPUT = {
    "no target": (lambda: check_calibration(PLAIN, NAMED), "check_calibration: give context and target with a model"),
    "too much": (lambda: check_calibration(READY, NAMED, NAMED), "a Predictive has its context and target"),
    "ids": (
        lambda: check_calibration(PLAIN, NAMED, NAMED[::-1]),
        "curve 0 is 'a' in the context but 'b'",
    ),
    "levels": (
        lambda: check_calibration(READY, levels=[0.5, 1.2]),
        r"check_calibration: level is 1\.2; give a",
    ),
    "no levels": (lambda: check_calibration(READY, levels=[]), "check_calibration: levels is"),
    "few draws": (lambda: check_calibration(READY), r"level 0\.99 needs at least 199 draws; got 50"),
    "draws": (lambda: check_calibration(PLAIN, NAMED, NAMED, draws="many"), "check_calibration: draws is 'many'"),
    "band level": (lambda: simultaneous_band(PLAIN.condition(NAMED), GRID, 90), "simultaneous_band: level is 90"),
    "band draws": (lambda: simultaneous_band(PLAIN.condition(NAMED), GRID, draws=5), "draws is 5; .* at least 19"),
    "narrow band draws": (
        lambda: simultaneous_band(PLAIN.condition(NAMED), GRID, 0.3, draws=18),
        "simultaneous_band: draws is 18; give a whole number of at least 19",
    ),
    "wide band draws": (lambda: simultaneous_band(PLAIN.condition(NAMED), GRID, 0.99, draws=50), "at least 199 draws"),
    "class": (lambda: check_calibration(ClosedFormProcess, NAMED, NAMED), "got the class ClosedFormProcess"),
    "no band draws": (
        lambda: simultaneous_band(PLAIN.condition(NAMED), GRID, draws=0),
        "band: draws is 0",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, sentence = BAD_INPUT[case]
    with pytest.raises((TypeError, ValueError), match=sentence):
        attempt()


def test_something_that_cannot_condition_is_no_process():
    with pytest.raises(TypeError, match="check_calibration: process must be a fitted model"):
        check_calibration(NAMED, NAMED, NAMED)


def test_default_number_of_draws_is_enough_for_the_default_levels(process, parts):
    found = check_calibration(process, parts[0][:3], parts[1][:3], random_state=0)
    assert found.coverage["level"].tolist() == list(LEVELS)
