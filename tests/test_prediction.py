"""Scores of a model's predictions, held against a Gaussian process of which everything is known.

Tests on random numbers allow 4.4 standard errors, which chance passes in about one run of 100,000.
"""

import numpy as np
import pandas as pd
import pytest
from closed_form_process import GRID, ClosedFormPosterior, ClosedFormProcess, observed_in_part
from scipy.stats import multivariate_normal, norm

import febm
from febm.curves import Curves
from febm.datasets import load_quadratic
from febm.evaluation import prediction
from febm.evaluation.prediction import Predictive, predict, predictive_scores, summarise
from febm.evaluation.scoring import crps_gaussian, energy_score
from febm.evaluation.splits import split

COLUMNS = [
    "values",
    "mse",
    "log_density",
    "crps",
    "energy_score",
    "interval_score_90",
    "coverage_50",
    "coverage_90",
    "width_90",
]


@pytest.fixture(scope="module")
def process():
    return ClosedFormProcess()


@pytest.fixture(scope="module")
def parts(process):
    return observed_in_part(process, 40)


@pytest.fixture(scope="module")
def scores(process, parts):
    return predictive_scores(process, *parts, 0, draws=2000)


def exact(process, context, target):
    """Mean and standard deviation of every target value of each curve, and the joint density of them."""
    posterior = ClosedFormPosterior(process, context)
    for i, curve in enumerate(target):
        mean, covariance = posterior.moments(i, curve.x, noise=True)
        mean, covariance, y = mean[:, 0], covariance[0], curve.y[:, 0]
        yield mean, np.sqrt(np.diag(covariance)), y, multivariate_normal.logpdf(y, mean, covariance)


def assert_zero_mean(differences):
    """Independent differences average to zero, within 4.4 standard errors."""
    differences = np.asarray(differences)
    assert abs(differences.mean()) < 4.4 * differences.std(ddof=1) / np.sqrt(len(differences))


# Against closed forms


def test_table_has_one_row_a_curve_and_the_columns_promised(scores, parts):
    assert list(scores.columns) == COLUMNS
    assert scores.index.equals(parts[1].ids)
    assert scores["values"].tolist() == [8] * 40
    assert np.isfinite(scores.to_numpy()).all()


def test_squared_error_is_that_of_the_exact_mean(process, parts, scores):
    expected = [np.mean((mean - y) ** 2) for mean, _, y, _ in exact(process, *parts)]
    np.testing.assert_allclose(scores["mse"], expected, rtol=1e-10)


def test_log_density_is_the_joint_density_per_value(process, parts, scores):
    expected = [log_density / len(y) for *_, y, log_density in exact(process, *parts)]
    np.testing.assert_allclose(scores["log_density"], expected, rtol=1e-8)


def test_crps_averages_to_that_of_the_exact_gaussian(process, parts, scores):
    expected = [crps_gaussian(mean, sd, y).mean() for mean, sd, y, _ in exact(process, *parts)]
    assert_zero_mean(scores["crps"] - expected)
    np.testing.assert_allclose(scores["crps"], expected, rtol=0.2)


def test_width_is_that_of_the_exact_interval(process, parts, scores):
    expected = [2 * norm.ppf(0.95) * sd.mean() for _, sd, *_ in exact(process, *parts)]
    # The sd of an end of a 90 % interval from 2,000 draws is .047 standard deviations, that of the width .06 of 3.29.
    np.testing.assert_allclose(scores["width_90"], expected, rtol=4.4 * 0.06 / 3.29)


def test_coverage_is_the_share_of_values_inside(process, parts, scores):
    predictive = predict(process, *parts, draws=2000, random_state=0)
    lower, upper = np.quantile(predictive.draws, [0.05, 0.95], axis=0, method="weibull")
    inside = ((lower <= predictive.observed) & (predictive.observed <= upper)).reshape(40, 8)
    np.testing.assert_allclose(scores["coverage_90"], inside.mean(axis=1))


def test_intervals_are_the_order_statistics_they_should_be():
    """Draws 1, …, 39 in any order: the interval of 90 % is [2, 38], that of 50 % [10, 30]."""
    observed = np.array([[1.5, 2.0, 9.5, 10.0], [20.0, 30.0, 30.5, 40.0]])
    draws = np.random.default_rng(0).permuted(np.tile(np.arange(1.0, 40.0)[:, None], 8), axis=0)
    table = Predictive(Curves.from_grid(np.arange(4.0), observed), draws.mean(axis=0), draws, np.zeros(2)).scores()
    assert table["coverage_50"].tolist() == [1 / 4, 2 / 4]
    assert table["coverage_90"].tolist() == [3 / 4, 3 / 4]
    np.testing.assert_allclose(table["width_90"], 36)
    # The first curve has one value .5 below its interval, the second one 2 above: 2/.1 for each unit, mean of 4.
    np.testing.assert_allclose(table["interval_score_90"], [36 + 20 * 0.5 / 4, 36 + 20 * 2 / 4])


def test_draws_have_the_moments_of_the_exact_posterior(process, parts):
    """z-scores of the 320 means of 2,000 draws: the largest passes 5 in fewer than one run of 5,000."""
    predictive = predict(process, *parts, draws=2000, random_state=1)
    mean = np.concatenate([mean for mean, *_ in exact(process, *parts)])
    sd = np.concatenate([sd for _, sd, *_ in exact(process, *parts)])
    assert np.abs((predictive.draws.mean(axis=0) - mean) / (sd / np.sqrt(2000))).max() < 5
    np.testing.assert_allclose(predictive.draws.std(axis=0), sd, rtol=5 / np.sqrt(2 * 2000))
    np.testing.assert_allclose(predictive.mean, mean)


def test_joint_score_is_of_all_values_of_a_curve(process, parts, scores):
    predictive = predict(process, *parts, draws=2000, random_state=0)
    first = energy_score(predictive.draws[:, :8], predictive.observed[:8])
    assert scores["energy_score"].iloc[0] == pytest.approx(first)


# Where the density comes from


def test_density_by_the_chain_rule_is_that_of_the_posterior(parts, scores):
    chained = predictive_scores(ClosedFormProcess(density="evidence"), *parts, 0, draws=20)
    np.testing.assert_allclose(chained["log_density"], scores["log_density"], rtol=1e-8)


def test_model_without_any_density_gets_nan_and_a_warning(parts):
    with pytest.warns(UserWarning, match=r"log_density is NaN for 40 curves .*neither .*\(no evidence either\)"):
        table = predictive_scores(ClosedFormProcess(density="nowhere"), *parts, 0, draws=20)
    assert table["log_density"].isna().all()
    assert table.drop(columns="log_density").notna().all(axis=None)


# Curves of every kind


def test_missing_outputs_are_left_out_of_every_score():
    process = ClosedFormProcess(outputs=2)
    curves = process.sample(6, GRID, noise=True, random_state=0)
    holes = curves.y.copy()
    holes[::3, 1] = np.nan
    context, target = split(curves.replace(y=holes), "downsample", 1 / 4)
    predictive = predict(process, context, target, draws=50, random_state=0)
    seen = ~np.isnan(target.y)
    assert not seen.all()
    assert predictive.draws.shape == (50, seen.sum())
    means = process.condition(context).mean(target)
    np.testing.assert_allclose(predictive.mean, means.y[seen])
    table = predictive.scores()
    owner = np.repeat(np.arange(6), target.lengths)
    assert table["values"].tolist() == np.bincount(owner, seen.sum(axis=1)).astype(int).tolist()
    errors = np.where(seen, (means.y - target.y) ** 2, 0).sum(axis=1)
    np.testing.assert_allclose(table["mse"], np.bincount(owner, errors) / table["values"])
    assert np.isfinite(table.to_numpy()).all()


def test_draws_of_a_point_keep_its_outputs_apart():
    process = ClosedFormProcess(outputs=2, noise=0.01)
    curves = process.sample(5, np.linspace(0, 1, 13), random_state=0)
    predictive = predict(process, *split(curves, "downsample", 1 / 2), draws=200, random_state=0)
    # Half of the points of a smooth function leave little doubt: an output or a point in a wrong place would show.
    np.testing.assert_allclose(predictive.draws.mean(axis=0), predictive.observed, atol=0.1)


def test_curves_of_different_lengths_and_labels_keep_theirs():
    rng = np.random.default_rng(0)
    xs = [np.sort(rng.uniform(size=m)) for m in (6, 15, 9)]
    ids = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["site", "day"])
    curves = Curves.from_arrays(xs, [np.sin(3 * x) for x in xs], ids=ids)
    context, target = split(curves, "middle", 1 / 2)
    table = predictive_scores(ClosedFormProcess(), context, target, 0, draws=50)
    assert table.index.equals(ids)
    assert table["values"].tolist() == target.lengths.tolist()


def test_surfaces_are_scored_like_curves():
    axes = np.linspace(0, 1, 6)
    pixels = np.stack(np.meshgrid(axes, axes, indexing="ij"), axis=-1).reshape(-1, 2)
    process = ClosedFormProcess()
    table = predictive_scores(process, *split(process.sample(3, pixels, random_state=0), "downsample", 1 / 4), 0)
    assert table["values"].tolist() == [27] * 3


def test_arrays_are_read_on_the_grid_of_the_model(process, parts):
    """NaN where nothing is shown or asked for."""
    gridded = ClosedFormProcess()
    gridded.grid_ = GRID[:, None]
    arrays = [part.to_grid()[1][..., 0] for part in parts]
    found = predictive_scores(gridded, *arrays, 0, draws=50)
    pd.testing.assert_frame_equal(found, predictive_scores(process, *parts, 0, draws=50))
    with pytest.raises(ValueError, match=r"predict: context is an array of 3 columns, .* a grid of 12 points"):
        predict(gridded, ONE, ONE)


def test_targets_without_noise_have_narrower_draws_and_the_same_density(process, parts):
    noisy = predictive_scores(process, *parts, 0, draws=200)
    smooth = predictive_scores(process, *parts, 0, draws=200, noise=False)
    assert (smooth["width_90"] < noisy["width_90"]).all()
    np.testing.assert_allclose(smooth["log_density"], noisy["log_density"])
    np.testing.assert_allclose(smooth["mse"], noisy["mse"])


# One conditioning for everything, in little memory


def test_scores_are_those_of_the_predictive(process, parts):
    predictive = predict(process, *parts, draws=100, random_state=5)
    assert isinstance(predictive, Predictive)
    assert repr(predictive) == "<Predictive: 100 draws of observations, 320 values of 40 curves>"
    pd.testing.assert_frame_equal(predictive.scores(), predictive_scores(process, *parts, 5, draws=100))


def test_blocks_of_curves_give_the_same_table(process, parts, monkeypatch):
    whole = predictive_scores(process, *parts, 0, draws=100)
    monkeypatch.setattr(prediction, "VALUES_AT_ONCE", 100 * 8 * 7)
    sizes = []

    def spy(context, **options):
        sizes.append(len(context))
        return ClosedFormProcess.condition(process, context, **options)

    monkeypatch.setattr(process, "condition", spy, raising=False)
    blocked = predict(process, *parts, draws=100, random_state=0)
    assert sizes == [7, 7, 7, 7, 7, 5]
    assert [len(part) for part in blocked.in_blocks()] == sizes
    for name in ("mse", "log_density"):
        np.testing.assert_allclose(blocked.scores()[name], whole[name], rtol=1e-10)
    pd.testing.assert_frame_equal(predictive_scores(process, *parts, 0, draws=100), blocked.scores())


def test_same_random_state_gives_the_same_numbers(process, parts):
    once, again = (predictive_scores(process, *parts, 7, draws=50) for _ in range(2))
    pd.testing.assert_frame_equal(once, again)
    assert not once["crps"].equals(predictive_scores(process, *parts, 8, draws=50)["crps"])


# Propriety

ALTERNATIVES = {"wrong mean": {"shift": 0.8}, "too narrow": {"inflation": 0.5}, "too wide": {"inflation": 2.0}}
SMALLER_IS_BETTER = ["mse", "crps", "energy_score", "interval_score_90"]


@pytest.fixture(scope="module")
def many(process):
    parts = observed_in_part(process, 600, random_state=1)
    return parts, predictive_scores(process, *parts, 0, draws=100)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_truth_scores_best(many, alternative):
    """By more than 4.4 standard errors of the difference over 600 curves; the same mean has the same squared error."""
    parts, truth = many
    other = predictive_scores(ClosedFormProcess(**ALTERNATIVES[alternative]), *parts, 0, draws=100)
    worse = other[SMALLER_IS_BETTER] - truth[SMALLER_IS_BETTER]
    worse["log_density"] = truth["log_density"] - other["log_density"]
    if alternative != "wrong mean":
        np.testing.assert_allclose(worse.pop("mse"), 0, atol=1e-12)
    for name, difference in worse.items():
        assert difference.mean() > 4.4 * difference.std(ddof=1) / np.sqrt(len(difference)), name


# The model of this library


def test_febm_fills_in_quadratics_it_was_fitted_to():
    data = load_quadratic(random_state=0, n_train=60, n_evaluation=20)
    # Without an energy, whose training would take most of the time; its posteriors come by the same way.
    model = febm.FEBM(rank=4, prior="mixture", components=2, random_state=0, progress=False)
    model.fit(data.train)
    context, target = split(data.evaluation, "downsample", 1 / 3)
    table = predictive_scores(model, context, target, 0, draws=100)
    assert np.isfinite(table.to_numpy()).all()
    # A quadratic is known from ten of its points: the error is far below the variance of the data, about 1,000.
    assert table["mse"].mean() < 1
    constant = norm.logpdf(target.y, data.train.y.mean(), data.train.y.std()).mean()
    assert table["log_density"].mean() > constant + 2
    pd.testing.assert_frame_equal(table, predictive_scores(model, context, target, 0, draws=100))


# Means and their errors


def test_summary_has_the_mean_and_error_over_curves(scores):
    table = summarise(scores)
    assert list(table.columns) == ["mean", "standard_error", "curves"]
    assert list(table.index) == COLUMNS[1:]
    assert table.loc["crps", "mean"] == pytest.approx(scores["crps"].mean())
    assert table.loc["crps", "standard_error"] == pytest.approx(scores["crps"].std(ddof=1) / np.sqrt(40))
    assert (table["curves"] == 40).all()


def test_summary_leaves_out_what_is_no_number(scores):
    named = scores.assign(site=["a", "b"] * 20, day=pd.Timestamp(0))
    pd.testing.assert_frame_equal(summarise(named), summarise(scores))


def test_summary_says_how_many_curves_have_a_score(scores):
    partial = scores.assign(log_density=[np.nan, -np.inf, *scores["log_density"][2:]])
    row = summarise(partial).loc["log_density"]
    assert (row["mean"], row["curves"]) == (-np.inf, 39)
    assert np.isnan(row["standard_error"])
    single = summarise(scores.iloc[:1])
    assert single["mean"].notna().all()
    assert single["standard_error"].isna().all()


# Errors are sentences


class Broken(ClosedFormPosterior):
    def mean(self, at):
        values = super().mean(at)
        return values.select(np.arange(len(values.x)) > 0) if isinstance(values, Curves) else values


class BrokenProcess(ClosedFormProcess):
    def condition(self, curves, *, random_state=None):
        return Broken(self, curves)


ONE, TWO = np.zeros((1, 3)), np.zeros((2, 3))
NAMED = Curves.from_grid(GRID, np.zeros((2, 12)), ids=["a", "b"])
PLAIN = ClosedFormProcess()
BAD_INPUT = {
    "other number": (lambda: predict(PLAIN, ONE, TWO), "predict: context has 1 curve but target has 2; give two parts"),
    "other ids": (
        lambda: predictive_scores(PLAIN, NAMED, NAMED.replace(ids=["a", "c"])),
        "predictive_scores: curve 1 is 'b' in the context but 'c' in the target",
    ),
    "ids of other kinds": (
        lambda: predict(PLAIN, NAMED.replace(ids=[0, 1]), NAMED.replace(ids=["0", "1"])),
        "curve 0 is 0 in the context but '0' in the target",
    ),
    "other order": (lambda: predict(PLAIN, NAMED, NAMED[::-1]), "curve 0 is 'a' in the context but 'b' in the target"),
    "other inputs": (
        lambda: predict(PLAIN, NAMED, Curves([[0, 1], [0, 1]], [0, 1], [0, 1, 2], ["a", "b"])),
        "context has 1 coordinate but target has 2",
    ),
    "other outputs": (
        lambda: predict(PLAIN, NAMED, Curves([0, 1], [[0, 1], [0, 1]], [0, 1, 2], ["a", "b"])),
        "context has 1 output but target has 2",
    ),
    "not curves": (lambda: predict(PLAIN, np.zeros(3), TWO), "predict: context must be Curves or a 2-D array"),
    "no draws": (lambda: predict(PLAIN, TWO, TWO, draws=0), "draws is 0; give a whole number of at least 2"),
    "half a draw": (lambda: predict(PLAIN, TWO, TWO, draws=2.5), "draws is 2.5"),
    "few draws": (lambda: predictive_scores(PLAIN, TWO, TWO, draws=5), r"level 0\.9 needs at least 19 draws; got 5"),
    "seed": (lambda: predict(PLAIN, TWO, TWO, random_state=-1), "random_state must be"),
    "no scores": (lambda: summarise(pd.DataFrame()), "summarise: scores must be a table of one row per curve"),
    "only text": (lambda: summarise(pd.DataFrame({"site": ["a"]})), "none of the columns site is a score"),
    "a dictionary": (lambda: summarise({"crps": [1.0]}), "summarise: scores must be a table"),
    "missing points": (
        lambda: predict(BrokenProcess(), NAMED, NAMED, draws=20),
        "BrokenProcess: the posterior mean of curves 'a' to 'b' should be 24 finite points",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, sentence = BAD_INPUT[case]
    with pytest.raises(ValueError, match=sentence):
        attempt()


def test_something_that_cannot_condition_is_no_process():
    with pytest.raises(TypeError, match=r"predict: process must be a fitted model such as febm\.FEBM; got Curves"):
        predict(NAMED, NAMED, NAMED)


def test_model_that_is_not_fitted_says_so():
    with pytest.raises(febm.NotFittedError, match="not fitted yet"):
        predict(febm.FEBM(), NAMED, NAMED)
