"""Shrinking a covariance to that of a random walk: the walk, the eigenvalues, and both together."""

import numpy as np
import pytest

from febm.basis.shrinkage import shrink_to_walk, shrunk_eigenvalues, walk_covariance


def sample_covariance(points, outputs=1, seed=0):
    draws = np.random.default_rng(seed).normal(size=(200, points * outputs))
    return np.cov(np.cumsum(draws, axis=1).T)


def walk_by_hand(covariance):
    """From the left end, its first value and its steps; and the mirror image of that."""
    points = len(covariance)
    sums = np.tril(np.ones((points, points)))
    differences = np.linalg.inv(sums)

    def left(covariance):
        return sums @ np.diag(np.diag(differences @ covariance @ differences.T)) @ sums.T

    return 0.5 * (left(covariance) + left(covariance[::-1, ::-1])[::-1, ::-1])


class TestWalk:
    def test_its_steps_are_as_large_as_those_of_the_curves_and_independent(self):
        covariance = sample_covariance(7)
        np.testing.assert_allclose(walk_covariance(covariance, np.arange(7)), walk_by_hand(covariance), rtol=1e-10)

    def test_points_may_come_in_any_order(self):
        covariance, order = sample_covariance(7), np.random.default_rng(1).permutation(7)
        shuffled = covariance[np.ix_(order, order)]
        found = walk_covariance(shuffled, np.argsort(order))
        np.testing.assert_allclose(found, walk_covariance(covariance, np.arange(7))[np.ix_(order, order)])

    def test_outputs_take_their_steps_together(self):
        """Any sum of the outputs walks as it would alone."""
        covariance, mix = sample_covariance(6, outputs=2), np.array([0.7, -1.3])
        sums = np.kron(np.eye(6), mix)
        both = walk_covariance(covariance, np.arange(6))
        np.testing.assert_allclose(sums @ both @ sums.T, walk_by_hand(sums @ covariance @ sums.T), rtol=1e-9)


def sample_and_oracle(truth, curves, seed):
    """Eigenvalues of a sample covariance, rising, and what their directions really have."""
    draws = np.random.default_rng(seed).normal(size=(curves, len(truth))) * np.sqrt(truth)
    values, vectors = np.linalg.eigh(np.cov(draws.T))
    return values, np.sum(vectors**2 * truth[:, None], axis=0)


def loss(found, oracle):
    """Nats a curve: of a Gaussian with the same axes, against the one with what these really have."""
    return 0.5 * np.sum(oracle / found - 1 - np.log(oracle / found))


class TestEigenvalues:
    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("curves", [60, 100, 101, 102, 105, 150, 1000])
    @pytest.mark.parametrize("truth", [np.ones(100), np.geomspace(0.1, 10, 100), np.r_[np.ones(97), 20, 50, 100]])
    def test_they_are_near_what_their_directions_have(self, truth, curves, seed):
        """Those of the sample lose ten times as much and more, unless curves are many."""
        values, oracle = sample_and_oracle(truth, curves, seed)
        shrunk = shrunk_eigenvalues(values, curves - 1)
        assert loss(shrunk, oracle) < 2.5
        assert curves > 200 or loss(np.maximum(values, 1e-3), oracle) > 20
        assert shrunk.sum() == pytest.approx(values.sum())

    @pytest.mark.parametrize("curves", [100, 101, 102, 105])
    def test_none_is_far_too_small_where_there_are_about_as_many_curves_as_values(self, curves):
        """There the least of the sample is nearly zero, and says nothing about its direction."""
        values, oracle = sample_and_oracle(np.ones(100), curves, seed=0)
        assert values.min() < 0.01
        assert (shrunk_eigenvalues(values, curves - 1) / oracle).min() > 0.5

    def test_very_many_curves_change_nothing(self):
        values, _ = sample_and_oracle(np.geomspace(0.1, 10, 20), 100_000, seed=0)
        np.testing.assert_allclose(shrunk_eigenvalues(values, 99_999), values, rtol=0.01)

    def test_they_rise(self):
        """A gap in the spectrum, where the smoothed density is all noise, is where they would not."""
        values, _ = sample_and_oracle(np.r_[np.ones(97), 20, 50, 100], 60, seed=0)
        assert np.diff(shrunk_eigenvalues(values, 59)).min() >= 0

    def test_a_copy_of_a_curve_does_not_speak_for_all_directions(self):
        """Nearly zero among 59 eigenvalues, it would bring the 41 that were not seen next to zero."""
        rng = np.random.default_rng(0)
        curves = rng.normal(size=(60, 100))
        alone = np.linalg.eigvalsh(np.cov(curves.T))
        copied = np.linalg.eigvalsh(np.cov(np.r_[curves[:-1], curves[:1]].T))
        unseen = [shrunk_eigenvalues(values, 59)[0] for values in (alone, copied)]
        assert unseen[1] > 0.5 * unseen[0]

    def test_directions_without_variance_keep_none(self):
        """200 curves in three directions of 50."""
        values = np.r_[np.zeros(47), 1.0, 2.0, 4.0]
        shrunk = shrunk_eigenvalues(values, 199)
        assert shrunk[:47].max() < 1e-10
        np.testing.assert_allclose(shrunk[47:], values[47:], rtol=0.05)


def walks(curves, points, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=(curves, points)), axis=1)


def shrink(values, order=None):
    size = values.shape[1]
    return shrink_to_walk(
        values - values.mean(axis=0), np.zeros((size, size)), np.arange(size) if order is None else order
    )


def correlations(covariance):
    scale = np.sqrt(np.diagonal(covariance))
    return covariance / scale / scale[:, None]


def steps(covariance):
    return np.diff(np.diff(covariance, axis=0), axis=1)


class TestShrinking:
    def test_few_walks_have_steps_that_are_nearly_independent(self):
        values = walks(50, 100)
        found, sample = steps(shrink(values)), steps(np.cov(values.T))
        far = ~np.eye(99, dtype=bool)
        assert np.abs(found[far]).mean() < 0.2 * np.abs(sample[far]).mean()

    def test_what_all_steps_share_stays(self):
        """A trend of its own size for every curve is a direction that few curves show clearly enough: 1 is a walk's."""
        rng = np.random.default_rng(1)
        trend = np.linspace(0, 1, 100)
        values = walks(60, 100) + 60 * rng.normal(size=(60, 1)) * trend
        along = np.gradient(trend) / np.linalg.norm(np.gradient(trend))
        found, sample = (along[1:] @ steps(c) @ along[1:] for c in (shrink(values), np.cov(values.T)))
        assert 10 < 0.5 * sample < found < 1.1 * sample

    def test_units_do_not_matter(self):
        values = walks(30, 20)
        np.testing.assert_allclose(shrink(1e-3 * values), 1e-6 * shrink(values), rtol=1e-6)

    def test_points_may_come_in_any_order(self):
        values, order = walks(30, 20), np.random.default_rng(2).permutation(20)
        shuffled = shrink(values[:, order], np.argsort(order))
        np.testing.assert_allclose(shuffled, shrink(values)[np.ix_(order, order)], rtol=1e-6)

    def test_one_rough_curve_does_not_make_itself_the_shape_of_all(self):
        values = walks(60, 40)
        wild = values.copy()
        wild[0] *= 30
        before, after = correlations(steps(shrink(values))), correlations(steps(shrink(wild)))
        sample = correlations(steps(np.cov(wild.T)))
        off = ~np.eye(39, dtype=bool)
        assert np.abs(after - before)[off].max() < 0.4 < 0.9 < np.abs(sample)[off].max()

    def test_curves_that_agree_at_some_points_do_so_in_it(self):
        values = walks(30, 20)
        values[:, 0] = 1.0
        values[:, 8] = values[:, 7]
        found = shrink(values)
        np.testing.assert_allclose(found[7], found[8], atol=1e-6)
        assert np.linalg.eigvalsh(found).min() > -1e-8

    @pytest.mark.parametrize("curves", [2, 3, 11])
    def test_two_curves_are_enough(self, curves):
        found = shrink(walks(curves, 10))
        assert np.linalg.eigvalsh(found).min() > 0

    def test_curves_that_are_all_the_same_have_none(self):
        assert not shrink(np.tile(np.arange(10.0), (5, 1))).any()

    def test_a_curve_that_is_the_mean_is_no_trouble(self):
        values = walks(20, 10)
        values = np.concatenate([values, values.mean(axis=0)[None]])
        assert np.isfinite(shrink(values)).all()

    def test_outputs_keep_what_they_have_to_do_with_each_other(self):
        rng = np.random.default_rng(3)
        first = rng.normal(size=(200, 15))
        both = np.stack([first, 0.8 * first + 0.6 * rng.normal(size=(200, 15))], axis=2)
        values = np.cumsum(both, axis=1).reshape(200, 30)
        found = shrink_to_walk(values - values.mean(axis=0), np.zeros((30, 30)), np.arange(15))
        assert correlations(found)[28, 29] == pytest.approx(0.8, abs=0.1)

    def test_what_is_unknown_of_missing_values_is_added(self):
        values = walks(40, 10)
        centred = values - values.mean(axis=0)
        plain = shrink_to_walk(centred, np.zeros((10, 10)), np.arange(10))
        more = shrink_to_walk(centred, 5 * np.eye(10), np.arange(10))
        assert np.trace(more) > np.trace(plain) + 25
