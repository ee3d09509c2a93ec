"""Bases with a covariance shrunk to that of a random walk, who gets one, and the mixture in front of it."""

import jax
import numpy as np
import pytest

import febm
from febm import conjugate
from febm.basis import Empirical
from febm.basis.enriched import lowest_orders
from febm.basis.shrinkage import shrink_to_walk, walk_covariance
from febm.basis_choice import choose_core
from febm.conjugate import Mixture
from febm.folding import fold_basis
from febm.mixture import LEAST_LEFT, Shrinkage, _towards_unit, fit_mixture
from febm.observations import observe, project
from febm.tails import TailSearch, ladder

KEY = jax.random.key(0)
X = np.linspace(0, 1, 60)


class TestShrunkBasis:
    def test_its_features_have_the_shrunk_covariance(self):
        values = np.cumsum(np.random.default_rng(0).normal(size=(30, 12)), axis=1)
        x = np.linspace(0, 2, 12)
        basis = Empirical(rank=12, shrinkage="walk").fit(febm.Curves.from_grid(x, values), key=KEY)
        features = basis.features(x)[:, 0]
        shrunk = shrink_to_walk(values - values.mean(axis=0), np.zeros((12, 12)), np.arange(12))
        np.testing.assert_allclose(features @ features.T, shrunk, atol=1e-8)

    def test_it_keeps_fine_detail(self):
        curves = gridded(walks(100))
        plain, shrunk = (Empirical(shrinkage=kind).fit(curves, key=KEY) for kind in (None, "walk"))
        assert plain.rank < 100 < shrunk.rank

    def test_missing_values_are_filled_in_first(self):
        values = np.cumsum(np.random.default_rng(0).normal(size=(200, 12)), axis=1)
        holes = np.where(np.random.default_rng(1).random(values.shape) < 0.1, np.nan, values)
        x = np.linspace(0, 2, 12)
        full, filled = (
            Empirical(rank=12, shrinkage="walk").fit(febm.Curves.from_grid(x, y), key=KEY) for y in (values, holes)
        )
        np.testing.assert_allclose(filled.spectrum[:3], full.spectrum[:3], rtol=0.15)  # three standard deviations

    def test_surfaces_have_none(self):
        grid, rng = febm.grid2d(5, 5), np.random.default_rng(0)
        surfaces = febm.Curves.from_grid(grid, rng.normal(size=(40, 3)) @ rng.normal(size=(3, 25)))
        plain, asked = (Empirical(rank=3, shrinkage=kind).fit(surfaces, key=KEY) for kind in (None, "walk"))
        np.testing.assert_array_equal(plain.spectrum, asked.spectrum)
        assert not asked.is_shrunk

    def test_very_long_curves_have_none(self):
        """A matrix of all pairs of their points would be the largest thing in memory."""
        curves = febm.Curves.from_grid(np.arange(1025), np.random.default_rng(0).normal(size=(5, 1025)))
        assert not Empirical(shrinkage="walk").fit(curves, key=KEY).is_shrunk
        assert Empirical(shrinkage="walk").fit(curves.select(curves.x[:, 0] < 1024), key=KEY).is_shrunk

    @pytest.mark.parametrize("kind", ["waltz", 0.5])
    def test_there_is_one_kind(self, kind):
        with pytest.raises(ValueError, match="shrinkage must be None or 'walk'"):
            Empirical(shrinkage=kind)


def chosen(curves):
    cosines = lowest_orders(40, 1)
    return choose_core(
        Empirical(),
        lambda basis: fold_basis(basis, curves, 0.2, None, KEY, cosines),
        lambda core: TailSearch(ladder(core.rank), cosines=cosines),
    )


def walks(count, points=150, seed=3):
    """Sums of independent steps: with more points than curves there is no doubt about their covariance."""
    return np.cumsum(np.random.default_rng(seed).normal(size=(count, points)), axis=1) / np.sqrt(points)


def gridded(values):
    return febm.Curves.from_grid(np.linspace(0, 1, values.shape[1]), values)


class TestChoice:
    def test_few_rough_curves_shrink_it_and_know_their_steps_better(self):
        truth = np.minimum.outer(np.arange(150), np.arange(150)) / 150 + 1 / 150
        curves = gridded(walks(50))
        errors, steps = [], []
        for basis in (Empirical().fit(curves, key=KEY), chosen(curves).folded.basis):
            features = basis.features(np.linspace(0, 1, 150))[:, 0]
            error = features @ features.T - truth
            errors.append(np.linalg.norm(error))
            steps.append(np.linalg.norm(np.diff(np.diff(error, axis=0), axis=1)))
        assert steps[1] < 0.7 * steps[0]
        # The price of it is a level that is freer than that of the curves, as that of a walk is.
        price = np.linalg.norm(walk_covariance(truth, np.arange(150)) - truth)
        assert errors[0] < errors[1] < 1.2 * price

    def test_many_rough_curves_have_no_need_of_it(self):
        assert not chosen(gridded(walks(600, 15))).folded.basis.is_shrunk

    def test_smooth_curves_do_not(self):
        rng = np.random.default_rng(4)
        waves = np.stack([np.sin(2 * np.pi * X), np.cos(3 * X), X**2])
        values = rng.normal(size=(50, 3)) @ waves + 0.05 * rng.normal(size=(50, len(X)))
        assert not chosen(febm.Curves.from_grid(X, values)).folded.basis.is_shrunk

    def test_curves_with_points_of_their_own_have_no_covariance_to_shrink(self):
        rng = np.random.default_rng(5)
        own = [np.sort(rng.random(15)) for _ in range(40)]
        curves = febm.Curves.from_arrays(own, [np.sin(6 * x) * rng.normal() + 0.1 * rng.normal(size=15) for x in own])
        assert not chosen(curves).folded.basis.is_shrunk

    def test_nor_have_those_that_are_smoothed(self):
        """One point of a common grid is missing in half of the curves: the gaps are there, the grid is not."""
        values = walks(16, 20)
        values[::2, 7] = np.nan
        core = chosen(febm.Curves.from_grid(X[:20], values))
        assert core.folded.basis.fitted.method == "smooth"
        assert all(fold.gaps for fold in core.folded.folds)

    def test_a_model_of_rough_curves_has_it(self):
        data = gridded(walks(40))
        model = febm.FEBM(prior="mixture", components=2, random_state=0, progress=False).fit(data)
        assert model.basis_.core.is_shrunk

    def test_a_shrunk_model_is_saved(self, tmp_path):
        data = gridded(walks(40, 60))
        basis = Empirical(rank=5, shrinkage="walk")
        model = febm.FEBM(basis=basis, prior="mixture", components=1, random_state=0, progress=False).fit(data)
        model.save(tmp_path / "walks.febm")
        again = febm.load(tmp_path / "walks.febm")
        assert again.basis_.is_shrunk
        np.testing.assert_array_equal(again.basis_.spectrum, model.basis_.spectrum)


class TestMixtureDrawnToItsBasis:
    @pytest.fixture
    def observed(self):
        values = np.cumsum(np.random.default_rng(6).normal(size=(80, len(X))), axis=1)
        curves = febm.Curves.from_grid(X, values)
        projection = project(observe(Empirical(rank=6).fit(curves, key=KEY), curves))
        return conjugate.information(projection, 1.0, 4)

    @pytest.mark.parametrize("components", [1, 3])
    def test_it_keeps_the_covariance_of_the_basis(self, observed, components):
        def departure(share):
            mixture = fit_mixture(observed, components, shrinkage=Shrinkage(basis=share))
            weights = np.exp(mixture.log_weights)
            return np.linalg.norm(mixture.within + (weights * mixture.means.T) @ mixture.means - np.eye(4))

        assert departure(1.0) < 1e-8 < 0.3 * departure(0.0)
        assert departure(1.0) < departure(0.7) < departure(0.0)

    def test_components_far_apart_keep_a_thickness(self):
        """Means alone have more spread than the basis knows of."""
        far = Mixture(np.log([0.5, 0.5]), np.array([[1.5], [-1.5]]), np.full((2, 1, 1), 0.3))
        (first, second) = _towards_unit(far, 1.0).factors[:, 0, 0]
        assert first == second == pytest.approx(np.sqrt(LEAST_LEFT))

    def test_it_is_fitted_until_nothing_changes(self, observed):
        fits = [fit_mixture(observed, 3, shrinkage=Shrinkage(basis=0.7), iterations=n) for n in (200, 1000)]
        np.testing.assert_array_equal(*(fit.means for fit in fits))
        again = fit_mixture(observed, 3, shrinkage=Shrinkage(basis=0.7), tolerance=1e-9, iterations=1000)
        evidence = [float(np.mean(conjugate.condition(fit, observed).log_evidence)) for fit in (fits[0], again)]
        assert evidence[0] == pytest.approx(evidence[1], abs=0.05)


def test_components_without_thickness_are_found():
    """±x² + b without noise: within a component one direction has no variance at all, and held-out curves say so."""
    data = febm.datasets.load_quadratic(n_train=100, n_evaluation=1, random_state=0).train
    model = febm.FEBM(prior="mixture", random_state=0, progress=False).fit(data)
    factors = np.asarray(model.model_.prior.factors, dtype=float)
    assert np.linalg.svd(factors, compute_uv=False).min() < 1e-3
