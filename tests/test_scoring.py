"""Scores against closed forms; the truth scores best; coverage and PIT are unbiased for any number of draws.

Tests on random numbers allow 4.4 standard errors, which chance passes in about one run of 100,000.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, norm

from febm.evaluation import scoring
from febm.evaluation.scoring import (
    central_interval,
    coverage_of,
    crps_from_draws,
    crps_gaussian,
    draws_needed,
    energy_score,
    energy_score_gaussian,
    interval_score,
    level_log_score,
    pit_values,
)

repeatable = settings(deadline=None, derandomize=True, max_examples=40)


def assert_mean_is(values, expected):
    """`expected` lies within 4.4 standard errors of the mean of independent values."""
    values = np.asarray(values, dtype=float)
    assert abs(values.mean() - expected) < 4.4 * values.std(ddof=1) / np.sqrt(len(values))


# The continuous ranked probability score


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 1000))
@repeatable
def test_crps_by_sorting_is_the_double_sum(number, values, seed):
    rng = np.random.default_rng(seed)
    draws, observed = rng.integers(-4, 5, size=(number, values)) / 2, rng.normal(size=values)
    pairs = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / (number * (number - 1))
    expected = np.abs(draws - observed).mean(axis=0) - pairs / 2
    np.testing.assert_allclose(crps_from_draws(draws, observed), expected, atol=1e-12)


@pytest.mark.parametrize("number", [2, 3, 20])
def test_crps_of_few_draws_is_unbiased(number):
    rng = np.random.default_rng(number)
    scores = crps_from_draws(rng.normal(1.0, 2.0, size=(number, 100_000)), np.full(100_000, 0.3))
    assert_mean_is(scores, crps_gaussian(1.0, 2.0, 0.3))


@pytest.mark.parametrize(("mean", "sd", "observed"), [(0.0, 1.0, 0.0), (1.0, 0.5, 3.0), (-2.0, 3.0, -7.0)])
def test_gaussian_crps_is_the_integral_that_defines_it(mean, sd, observed):
    def squared_gap(t):
        return (norm.cdf(t, mean, sd) - (t >= observed)) ** 2

    low, high = min(mean, observed) - 12 * sd, max(mean, observed) + 12 * sd
    expected = quad(squared_gap, low, observed)[0] + quad(squared_gap, observed, high)[0]
    assert crps_gaussian(mean, sd, observed) == pytest.approx(expected, abs=1e-7)


def test_crps_of_a_large_level_keeps_its_digits():
    rng = np.random.default_rng(0)
    draws, observed = rng.integers(0, 100, size=(50, 3)) / 4, rng.integers(0, 100, size=3) / 4
    np.testing.assert_allclose(
        crps_from_draws(draws + 2.0**40, observed + 2.0**40), crps_from_draws(draws, observed), rtol=1e-12
    )


# The energy score


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 1000))
@repeatable
def test_energy_score_by_products_is_the_double_sum(number, values, seed):
    rng = np.random.default_rng(seed)
    draws, observed = rng.normal(5.0, 1.0, size=(number, values)), rng.normal(size=values)
    pairs = np.linalg.norm(draws[:, None] - draws[None], axis=2).sum() / (number * (number - 1))
    expected = np.linalg.norm(draws - observed, axis=1).mean() - pairs / 2
    assert energy_score(draws, observed) == pytest.approx(expected, abs=1e-10)


def test_energy_score_of_one_value_is_its_crps():
    draws = np.random.default_rng(0).normal(size=(200, 1))
    assert energy_score(draws, np.array([0.4])) == pytest.approx(crps_from_draws(draws, np.array([0.4]))[0])
    assert energy_score_gaussian(np.zeros(1), 2.0, np.array([1.5])) == pytest.approx(crps_gaussian(0.0, 2.0, 1.5))


@pytest.mark.parametrize("dimension", [2, 7])
def test_energy_score_of_gaussian_draws_averages_to_the_closed_form(dimension):
    rng = np.random.default_rng(dimension)
    mean, observed = np.ones(dimension), np.linspace(-1, 2, dimension)
    scores = [energy_score(rng.normal(mean, 1.5, size=(20, dimension)), observed) for _ in range(2000)]
    assert_mean_is(scores, energy_score_gaussian(mean, 1.5, observed))


@pytest.mark.parametrize("unit", [1e300, 1e150, 1e-170, 1e-300])
def test_energy_score_is_in_the_units_of_the_values(unit):
    draws, observed = np.random.default_rng(0).normal(size=(50, 4)), np.ones(4)
    assert energy_score(unit * draws, unit * observed) / unit == pytest.approx(energy_score(draws, observed), rel=1e-12)
    gaussian = energy_score_gaussian(np.zeros(4), unit, unit * observed)
    assert gaussian / unit == pytest.approx(energy_score_gaussian(np.zeros(4), 1.0, observed), rel=1e-12)


def test_draws_that_are_the_observation_have_no_energy_score():
    assert energy_score(np.zeros((5, 2)), np.zeros(2)) == 0


@pytest.mark.parametrize("away", [1e7, 1e9, 1e40, 1e200])
def test_energy_score_far_out_is_the_distance(away):
    """E‖X − y‖ is the distance there, and the spread, √2·E‖X‖/2 = E‖X‖/√2 with E‖X‖ = √(8/π), is taken off."""
    found = energy_score_gaussian(np.zeros(3), 1.0, np.array([0.0, away, 0.0]))
    assert found == pytest.approx(away - np.sqrt(8 / np.pi) / np.sqrt(2), rel=1e-13)


def test_distances_in_blocks_are_the_same_distances(monkeypatch):
    draws, observed = np.random.default_rng(0).normal(size=(37, 5)), np.zeros(5)
    whole = energy_score(draws, observed)
    monkeypatch.setattr(scoring, "DISTANCES_AT_ONCE", 100)
    assert energy_score(draws, observed) == pytest.approx(whole, rel=1e-12)


# Intervals, coverage, probability integral transform


def test_interval_score_of_the_true_interval_has_its_expected_value():
    """E = 4φ(u)/α for the interval ±u of a standard normal, by partial integration."""
    rng = np.random.default_rng(0)
    u = norm.ppf(0.95)
    assert_mean_is(interval_score(-u, u, rng.normal(size=200_000), 0.9), 4 * norm.pdf(u) / 0.1)


def test_interval_score_is_the_width_and_what_is_missed():
    np.testing.assert_allclose(interval_score(0.0, 2.0, np.array([1.0, -0.5, 2.25]), 0.5), [2, 4, 3])


@pytest.mark.parametrize("number", [39, 40, 511])
def test_coverage_does_not_depend_on_the_number_of_draws(number):
    rng = np.random.default_rng(number)
    inside = coverage_of(rng.normal(size=(number, 40_000)), rng.normal(size=40_000), [0.5, 0.9])
    assert_mean_is(inside[0], 0.5)
    assert_mean_is(inside[1], 0.9)


def test_ends_of_an_interval_are_order_statistics():
    draws = np.random.default_rng(0).permutation(np.arange(1.0, 40.0))[:, None]
    lower, upper = central_interval(draws, 0.9)
    assert (lower.item(), upper.item()) == (pytest.approx(2), pytest.approx(38))
    assert coverage_of(draws, np.array([38.0]), [0.8, 0.9]).ravel().tolist() == [False, True]


def test_interval_needs_an_order_statistic_in_each_tail():
    assert [draws_needed(level) for level in (0.5, 0.9, 0.95, 0.99)] == [3, 19, 39, 199]


@pytest.mark.parametrize("kind", ["continuous", "ties"])
@pytest.mark.parametrize("number", [1, 5, 100])
def test_pit_of_the_true_distribution_is_uniform(kind, number):
    """Kolmogorov's test at level 1/1,000."""
    rng = np.random.default_rng(number)
    draw = rng.normal if kind == "continuous" else lambda size: rng.poisson(1.5, size=size).astype(float)
    pit = pit_values(draw(size=(number, 20_000)), draw(size=20_000), rng)
    assert kstest(pit, "uniform").pvalue > 1e-3


def test_pit_follows_the_rank():
    draws = np.array([[0.0], [1.0], [1.0], [3.0]])
    rng = np.random.default_rng(0)
    at = {value: pit_values(np.tile(draws, 500), np.full(500, value), rng) for value in (-1.0, 1.0, 5.0)}
    assert (at[-1.0] < 1 / 5).all()
    assert ((at[1.0] > 1 / 5) & (at[1.0] < 4 / 5)).all()
    assert (at[5.0] > 4 / 5).all()


# Levels

THIRDS = np.array([0.0, 1.0, 2.0, 3.0])


def test_level_has_the_share_of_its_draws_and_of_one_more():
    draws = np.array([[0.5, 0.5], [1.5, 0.5], [1.0, 0.5]])
    expected = np.log([(2 + 1 / 3) / 4, (1 / 3) / 4])
    np.testing.assert_allclose(level_log_score(draws, np.array([1.2, 2.5]), THIRDS), expected)


def test_outer_levels_hold_what_is_beyond_them():
    draws = np.array([[-7.0], [0.5], [9.0]])
    lowest, highest = (level_log_score(draws, np.array([value]), THIRDS) for value in (-1.0, 30.0))
    np.testing.assert_allclose([lowest, highest], np.log([[7 / 12], [4 / 12]]))


def test_probabilities_of_all_levels_add_up():
    draws = np.random.default_rng(0).normal(1.5, 1.0, size=(50, 1))
    assert sum(np.exp(level_log_score(draws, np.array([value]), THIRDS)) for value in (0.5, 1.5, 2.5)) == pytest.approx(
        1
    )


# Propriety

ALTERNATIVES = {"wrong mean": (0.7, 1.0), "too narrow": (0.0, 0.5), "too wide": (0.0, 2.0)}


def scores_of(shift, spread, observed):
    """Scores of N(shift, spread²) in five independent dimensions, one row a curve."""
    rng = np.random.default_rng(1)
    found = {"crps": [], "energy": [], "interval": [], "level": []}
    for row in observed:
        draws = rng.normal(shift, spread, size=(200, len(row)))
        found["crps"].append(crps_from_draws(draws, row).mean())
        found["energy"].append(energy_score(draws, row))
        found["interval"].append(interval_score(*central_interval(draws, 0.9), row, 0.9).mean())
        found["level"].append(-level_log_score(draws, row, np.linspace(-3, 3, 13)).mean())
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_truth_scores_best(alternative):
    """By at least 4.4 standard errors of the difference over 600 curves, where about 13 or more are expected."""
    observed = np.random.default_rng(0).normal(size=(600, 5))
    truth, other = scores_of(0.0, 1.0, observed), scores_of(*ALTERNATIVES[alternative], observed)
    for name in truth:
        difference = other[name] - truth[name]
        assert difference.mean() > 4.4 * difference.std(ddof=1) / np.sqrt(len(difference)), name


# Errors are sentences

FIVE = np.random.default_rng(0).normal(size=(5, 2))
BAD_INPUT = {
    "shapes": (
        lambda: crps_from_draws(FIVE, np.zeros(3)),
        r"crps_from_draws: .*got \(5, 2\) and \(3,\)",
    ),
    "flat draws": (lambda: energy_score(np.zeros(3), np.zeros(3)), r"energy_score: draws must be \(draws, values\)"),
    "one draw": (lambda: crps_from_draws(FIVE[:1], np.zeros(2)), "there are 1 draws; at least 2 are needed"),
    "NaN draws": (lambda: energy_score(FIVE * np.nan, np.zeros(2)), "energy_score: draws holds NaN or infinite"),
    "NaN observed": (
        lambda: pit_values(FIVE, np.array([0, np.nan]), np.random.default_rng(0)),
        "pit_values: observed holds NaN",
    ),
    "few draws": (lambda: central_interval(FIVE, 0.9), r"level 0\.9 needs at least 19 draws; got 5"),
    "level": (lambda: coverage_of(FIVE, np.zeros(2), [0.5, 1.0]), r"coverage_of: level is 1\.0; give a share between"),
    "level in percent": (lambda: interval_score(0, 1, 0.5, 90), "interval_score: level is 90"),
    "level text": (lambda: central_interval(FIVE, "most"), "level is 'most'"),
    "no levels": (lambda: coverage_of(FIVE, np.zeros(2), []), "levels is .*; give numbers between 0 and 1"),
    "NaN in a CRPS": (lambda: crps_gaussian(0.0, 1.0, [0.0, np.nan]), "crps_gaussian: observed holds NaN"),
    "NaN mean": (lambda: crps_gaussian(np.nan, 1.0, 0.0), "crps_gaussian: mean holds NaN"),
    "NaN Gaussian": (
        lambda: energy_score_gaussian(np.zeros(2), 1.0, np.array([0.0, np.nan])),
        "energy_score_gaussian: observed holds NaN",
    ),
    "NaN in an interval": (lambda: interval_score(0.0, 1.0, np.nan, 0.9), "interval_score: observed holds NaN"),
    "NaN end": (lambda: interval_score([0.0, np.nan], 1.0, 0.5, 0.9), "interval_score: an end of an interval is NaN"),
    "NaN interval": (lambda: central_interval(np.full((20, 1), np.nan), 0.9), "central_interval: draws holds NaN"),
    "beyond numbers": (
        lambda: energy_score(np.array([[1.7e308], [1.6e308]]), np.array([-1.7e308])),
        r"energy_score: values of 1\.7e\+308 have a score beyond all numbers",
    ),
    "ends": (lambda: interval_score([0.0, 1.0], [1.0, 0.0], 0.5, 0.9), "upper is below lower"),
    "sd": (lambda: crps_gaussian(0.0, [1.0, 0.0], 0.0), "sd holds numbers that are not positive"),
    "NaN sd": (lambda: crps_gaussian(0.0, np.nan, 0.0), "sd holds numbers that are not positive"),
    "negative sd": (lambda: energy_score_gaussian(np.zeros(2), -1.0, np.zeros(2)), "sd is -1.0; give a positive"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, sentence = BAD_INPUT[case]
    with pytest.raises(ValueError, match=sentence):
        attempt()
