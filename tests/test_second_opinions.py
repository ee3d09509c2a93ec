"""What the second opinions promise: their level, and eyes for what a mean discrepancy of ten curves does not see."""

import numpy as np
import pytest
import scipy.stats
from samples import MESH, rough
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from febm.curves import Curves
from febm.evaluation.function_kernels import scaled_to_one
from febm.evaluation.mesh import on_common_mesh
from febm.evaluation.permutation import label_rows, permutation_pvalue
from febm.evaluation.second_opinions import (
    RIDGE,
    classifier_gram,
    classifier_test,
    left_out_smoother,
    margins,
    sliced_distances,
    sliced_wasserstein,
    slicing_directions,
    wasserstein_distances,
)
from febm.evaluation.two_sample import test_power

BOTH = (classifier_test, sliced_wasserstein)


def rejections(draws, sizes, trials, generator, permutations=99, x=MESH):
    """How many trials the classifier and the sliced distance reject at level 0.05, on the same curves and labels."""
    counts = np.zeros(2, dtype=int)
    functions = on_common_mesh(Curves.from_grid(x, np.ones((2, len(x)))), owner="test")
    for _ in range(trials):
        values = tuple(draw(size)[..., None] for draw, size in zip(draws, sizes, strict=True))
        scores = scaled_to_one(functions._replace(values=values))
        labels = label_rows(sizes, permutations, generator)
        statistics = margins(scores, labels, sizes)[0], sliced_distances(scores, labels, sizes, 64, generator)
        counts += [permutation_pvalue(statistic) <= 0.05 for statistic in statistics]
    return counts


# Level


def assert_levels(sizes, trials, permutations):
    generator = np.random.default_rng(sizes[1])
    counts = rejections([lambda n: rough(generator, n)] * 2, sizes, trials, generator, permutations)
    low, high = scipy.stats.binom.interval(1 - 0.01 / 2, trials, 0.05)
    assert ((low <= counts) & (counts <= high)).all()


@pytest.mark.parametrize("sizes", [(10, 10), (8, 18)])
def test_both_keep_their_level(sizes):
    """A right test fails here with probability 0.01 at most, for both together."""
    assert_levels(sizes, 1000, 99)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(30, 30), (20, 45), (60, 15)])
def test_both_keep_their_level_at_other_sizes(sizes):
    """A right test fails here with probability 0.01 at most, for both together."""
    assert_levels(sizes, 2000, 199)


@pytest.mark.parametrize("sizes", [(20, 20), (12, 30)])
def test_a_given_classifier_keeps_the_level(sizes):
    """Areas of few curves are discrete: at most the level; error rate 0.01 from above, 0.01 far below."""
    generator = np.random.default_rng(3)
    found = [
        classifier_test(
            rough(generator, sizes[0]),
            rough(generator, sizes[1]),
            classifier=LogisticRegression(),
            permutations=99,
            random_state=trial,
        ).pvalue
        for trial in range(250)
    ]
    count = sum(pvalue <= 0.05 for pvalue in found)
    assert scipy.stats.binom.ppf(0.01, 250, 0.03) <= count <= scipy.stats.binom.ppf(0.99, 250, 0.05)


def test_accuracy_is_a_half_for_equal_distributions_of_unequal_size():
    """Mean over 200 trials; five standard errors."""
    generator = np.random.default_rng(4)
    found = [
        classifier_test(rough(generator, 8), rough(generator, 24), permutations=1, random_state=0).accuracy
        for _ in range(200)
    ]
    assert abs(np.mean(found) - 0.5) < 5 * np.std(found) / np.sqrt(200)


# Power


def quadratics(generator, n, *, bimodal):
    """a·x² + b with a = ±1 and b ~ N(0, 10²), or the Gaussian process with the same mean and covariance."""
    x = np.linspace(-10, 10, 24)
    a = generator.choice([-1.0, 1.0], size=(n, 1)) if bimodal else generator.normal(size=(n, 1))
    return x, a * x**2 + 10 * generator.normal(size=(n, 1))


def test_two_modes_that_ten_curves_hide_are_found():
    """At n = 10 the usual test has power below 0.2; at n = 150 both second opinions have more than 0.9."""
    generator = np.random.default_rng(5)
    x, modes = quadratics(generator, 600, bimodal=True)
    _, gaussian = quadratics(generator, 600, bimodal=False)
    assert test_power(Curves.from_grid(x, modes), Curves.from_grid(x, gaussian), n=10, trials=300, random_state=0) < 0.2

    draws = [lambda n, bimodal=bimodal: quadratics(generator, n, bimodal=bimodal)[1] for bimodal in (True, False)]
    assert (rejections(draws, (150, 150), 50, generator, x=x) > 0.9 * 50).all()


def six_components(generator, n, *, bimodal, which=2, spread=0.3):
    """Six waves of falling variance, one with two modes that have the Gaussian's mean and variance, smooth noise."""
    x = np.linspace(0, 1, 24)
    waves = [np.ones(24)] + [np.sqrt(2) * wave(2 * np.pi * k * x) for k in (1, 2, 3) for wave in (np.sin, np.cos)]
    scores = generator.normal(size=(n, 6))
    if bimodal:
        modes = generator.choice([-1.0, 1.0], size=n)
        scores[:, which] = np.sqrt(1 - spread**2) * modes + spread * scores[:, which]
    noise = np.linalg.cholesky(np.exp(-0.5 * np.square((x[:, None] - x) / 0.05)) + 1e-8 * np.eye(24))
    return (
        scores * np.sqrt([10, 5, 1, 0.8, 0.5, 0.2]) @ np.stack(waves[:6])
        + 0.05 * generator.normal(size=(n, 24)) @ noise.T
    )


@pytest.mark.parametrize("which", [2, 5])
def test_two_modes_of_a_small_component_are_found_by_the_classifier(which):
    """A component with 6 % or 1 % of the variance; n = 150, power above 0.7 (0.88 and 0.90 in other trials)."""
    generator = np.random.default_rng(6)
    draws = [
        lambda n, bimodal=bimodal: six_components(generator, n, bimodal=bimodal, which=which)
        for bimodal in (True, False)
    ]
    assert rejections(draws, (150, 150), 40, generator, x=np.linspace(0, 1, 24))[0] > 0.7 * 40


@pytest.mark.parametrize("test", BOTH)
def test_a_shift_of_the_mean_is_found(test):
    generator = np.random.default_rng(7)
    assert test(rough(generator, 40), rough(generator, 30) + 1.0, random_state=0).pvalue < 0.01


@pytest.mark.parametrize("classifier", [LogisticRegression(), LinearSVC(), RandomForestClassifier(50, random_state=0)])
def test_any_classifier_will_do(classifier):
    generator = np.random.default_rng(8)
    found = classifier_test(
        rough(generator, 60), rough(generator, 50) + 1.5, classifier=classifier, permutations=199, random_state=0
    )
    assert found.pvalue < 0.01
    assert found.accuracy > 0.7
    assert found.statistic > 0.8
    assert found.null.shape == (199,)
    assert abs(found.null.mean() - 0.5) < 0.05


def test_the_pvalue_of_a_given_classifier_counts_its_own_null():
    generator = np.random.default_rng(19)
    found = classifier_test(
        rough(generator, 20), rough(generator, 16), classifier=LogisticRegression(), permutations=60, random_state=0
    )
    assert found.pvalue == (1 + np.sum(found.null >= found.statistic)) / 61


# The statistics


def test_left_out_predictions_are_those_of_refitting_without_the_curve():
    generator = np.random.default_rng(9)
    gram = classifier_gram(generator.normal(size=(15, 3)))
    centred = gram - gram.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    y = generator.choice([0.0, 1.0], size=15)
    expected = []
    for i in range(15):
        others = np.arange(15) != i
        system = centred[np.ix_(others, others)] + RIDGE * np.eye(14)
        expected.append(centred[i, others] @ np.linalg.solve(system, y[others] - y[others].mean()))
    np.testing.assert_allclose(left_out_smoother(gram) @ y, expected, atol=1e-12)


def test_accuracy_and_statistic_are_those_of_the_predictions():
    generator = np.random.default_rng(10)
    scores, labels = generator.normal(size=(12, 2)), label_rows((5, 7), 8, generator)
    statistics, accuracy = margins(scores, labels, (5, 7))
    for row, statistic in zip(labels.astype(bool), statistics, strict=True):
        predicted = left_out_smoother(classifier_gram(scores)) @ row
        np.testing.assert_allclose(statistic, predicted[row].mean() - predicted[~row].mean(), atol=1e-12)
    first = left_out_smoother(classifier_gram(scores)) @ labels[0]
    np.testing.assert_allclose(accuracy, 0.5 * ((first[:5] > 0).mean() + (first[5:] < 0).mean()))


def test_distances_along_directions_are_wasserstein_distances():
    generator = np.random.default_rng(11)
    projections, labels = generator.normal(size=(12, 3)), label_rows((5, 7), 6, generator)
    found = wasserstein_distances(projections, labels, (5, 7))
    for row, label in enumerate(labels.astype(bool)):
        for direction in range(3):
            values = projections[:, direction]
            expected = scipy.stats.wasserstein_distance(values[label], values[~label])
            np.testing.assert_allclose(found[direction, row], expected)


def test_blocks_of_permutations_change_nothing(monkeypatch):
    generator = np.random.default_rng(12)
    projections, labels = generator.normal(size=(12, 3)), label_rows((5, 7), 20, generator)
    whole = wasserstein_distances(projections, labels, (5, 7))
    monkeypatch.setattr("febm.evaluation.second_opinions.BLOCK_ENTRIES", 50)
    np.testing.assert_allclose(wasserstein_distances(projections, labels, (5, 7)), whole)


@pytest.mark.parametrize("test", BOTH)
def test_pvalue_counts_the_permutations_that_reach_the_statistic(test):
    generator = np.random.default_rng(13)
    found = test(rough(generator, 9), rough(generator, 14), permutations=60, random_state=0)
    observed = found.statistic if test is classifier_test else found.distance
    assert found.pvalue == (1 + np.sum(found.null >= observed)) / 61
    assert found.sizes == (9, 14)


@pytest.mark.parametrize("test", BOTH)
def test_units_and_sides_change_nothing(test):
    generator = np.random.default_rng(14)
    a, b = (Curves.from_grid(MESH, rough(generator, n)) for n in (9, 14))
    plain = test(a, b, permutations=9, random_state=0)
    moved = [curves.replace(x=1000 * curves.x - 7, y=1e-3 * curves.y + 5) for curves in (b, a)]
    other = test(*moved, permutations=9, random_state=0)
    measured = [found.statistic if test is classifier_test else found.distance for found in (plain, other)]
    np.testing.assert_allclose(measured[0], measured[1], rtol=1e-6)


@pytest.mark.parametrize("test", BOTH)
def test_the_order_of_curves_changes_nothing(test):
    generator = np.random.default_rng(15)
    a, b = rough(generator, 9), rough(generator, 14)
    measured = [
        found.statistic if test is classifier_test else found.distance
        for found in (test(x, b, permutations=9, random_state=0) for x in (a, a[::-1]))
    ]
    np.testing.assert_allclose(measured[0], measured[1], rtol=1e-8)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_identical_curves_are_not_told_apart(value):
    curves = np.full((4, 6), value) * np.arange(1, 7)
    told = classifier_test(curves, curves, permutations=99, random_state=0)
    assert (told.statistic, told.pvalue, told.accuracy) == (0.0, 1.0, 0.5)
    sliced = sliced_wasserstein(curves, curves, permutations=99, random_state=0)
    assert (sliced.distance, sliced.pvalue) == (0.0, 1.0)
    given = classifier_test(curves, curves, classifier=LogisticRegression(), permutations=9, random_state=0)
    assert (given.pvalue, given.statistic) == (1.0, 0.5)


def test_distance_is_between_the_mean_and_the_largest_of_the_directions():
    generator = np.random.default_rng(18)
    scores, labels = generator.normal(size=(30, 3)), label_rows((12, 18), 5, generator)
    distances = sliced_distances(scores, labels, (12, 18), 6, np.random.default_rng(0))
    directions, weights = slicing_directions(3, 6, np.random.default_rng(0))
    along = wasserstein_distances(scores @ directions.T, labels, (12, 18))
    assert (weights @ along <= distances).all()
    assert (distances <= along.max(axis=0)).all()


def test_distance_is_the_fourth_root_of_the_mean_fourth_power():
    """Direction by direction with SciPy; the axes together count as much as the random directions together."""
    generator = np.random.default_rng(20)
    scores, labels = generator.normal(size=(25, 3)), label_rows((9, 16), 4, generator)
    directions, _ = slicing_directions(3, 10, np.random.default_rng(0))
    found = sliced_distances(scores, labels, (9, 16), 10, np.random.default_rng(0))
    for label, distance in zip(labels.astype(bool), found, strict=True):
        fourth = []
        for direction in directions:
            along = [float(score @ direction) for score in scores]
            groups = [[value for value, first in zip(along, label, strict=True) if first == side] for side in (1, 0)]
            fourth.append(scipy.stats.wasserstein_distance(*groups) ** 4)
        expected = (0.5 * sum(fourth[:3]) / 3 + 0.5 * sum(fourth[3:]) / 7) ** 0.25
        np.testing.assert_allclose(distance, expected, rtol=1e-10)


def test_distance_of_constant_functions_is_that_of_their_levels():
    """One direction, both ways: the Wasserstein distance in standard deviations of all levels."""
    levels = np.random.default_rng(21).normal(size=30)
    found = sliced_wasserstein(*np.split(levels[:, None] * np.ones(5), [12]), permutations=9, random_state=0)
    expected = scipy.stats.wasserstein_distance(levels[:12], levels[12:]) / np.std(levels)
    np.testing.assert_allclose(found.distance, expected, rtol=1e-10)


def test_directions_are_unit_vectors_with_the_axes_first():
    directions, weights = slicing_directions(3, 10, np.random.default_rng(16))
    np.testing.assert_array_equal(directions[:3], np.eye(3))
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0)
    np.testing.assert_allclose([weights[:3].sum(), weights[3:].sum()], 0.5)
    assert slicing_directions(50, 10, np.random.default_rng(0))[0].shape == (10, 50)
    assert slicing_directions(2, 1, np.random.default_rng(0))[1].tolist() == [1.0]


def test_ragged_curves_are_compared():
    generator = np.random.default_rng(17)
    xs = [np.sort(generator.uniform(size=generator.integers(8, 15))) for _ in range(40)]
    curves = [rough(generator, 1, x)[0] + (i < 20) * 2.0 for i, x in enumerate(xs)]
    a, b = Curves.from_arrays(xs[:20], curves[:20]), Curves.from_arrays(xs[20:], curves[20:])
    for test in BOTH:
        found = test(a, b, random_state=0)
        assert found.pvalue < 0.01
        assert found.reconstructed
        assert repr(found).endswith("20 against 20 curves, reconstructed>")


@pytest.mark.parametrize("test", BOTH)
@pytest.mark.parametrize("scale", [2.0**1015, 2.0**520, 2.0**-900])
def test_size_changes_nothing_as_long_as_there_are_numbers(test, scale):
    generator = np.random.default_rng(22)
    a, b = rough(generator, 9), rough(generator, 14)
    plain, other = (
        test(a, b, permutations=19, random_state=0),
        test(scale * a, scale * b, permutations=19, random_state=0),
    )
    np.testing.assert_allclose(other.null, plain.null, rtol=1e-9)
    assert other.pvalue == plain.pvalue
    assert not other.reconstructed


@pytest.mark.parametrize("test", BOTH)
def test_an_array_beside_curves_is_on_their_grid(test):
    generator = np.random.default_rng(23)
    x = MESH**2
    a, b = rough(generator, 9), rough(generator, 14)
    whole = test(Curves.from_grid(x, a), Curves.from_grid(x, b), permutations=9, random_state=0)
    assert not whole.reconstructed
    for pair in ((Curves.from_grid(x, a), b), (a, Curves.from_grid(x, b))):
        np.testing.assert_array_equal(test(*pair, permutations=9, random_state=0).null, whole.null)
    with pytest.raises(ValueError, match=r"b is an array of 11 columns, but .* a grid of 12 points"):
        test(Curves.from_grid(x, a), b[:, :11])


# What is refused


@pytest.mark.parametrize("test", BOTH)
def test_bad_arguments_are_told_what_to_do(test):
    curves = np.ones((3, 4))
    with pytest.raises(ValueError, match=f"{test.__name__}: permutations is 0"):
        test(curves, curves, permutations=0)
    with pytest.raises(ValueError, match="b has 1 curve"):
        test(curves, curves[:1])


def test_bad_directions_and_classifiers_are_told_what_to_do():
    curves = np.ones((3, 4))
    with pytest.raises(ValueError, match="directions is 0"):
        sliced_wasserstein(curves, curves, directions=0)
    with pytest.raises(TypeError, match="give a scikit-learn classifier"):
        classifier_test(curves, curves, classifier="svm")


class Undecided(LogisticRegression):
    """A classifier whose scores are no numbers."""

    def decision_function(self, scores):
        return np.full(len(scores), np.nan)


def test_a_classifier_without_scores_has_no_pvalue():
    generator = np.random.default_rng(24)
    with pytest.raises(ValueError, match=r"classifier_test: .* NaN or infinite, so there is no p-value"):
        classifier_test(rough(generator, 8), rough(generator, 8), classifier=Undecided())
