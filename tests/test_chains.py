"""What samplers say of themselves: agreement of runs, effective sizes, and the gap to longer chains."""

import copy
import dataclasses

import numpy as np
import pytest
from closed_form_process import ClosedFormProcess
from test_febm import QUICK, waves

import febm
from febm.errors import NotFittedError
from febm.evaluation import chains
from febm.evaluation.chains import chain_gap, chain_report, convergence, moved_means, posterior_gap
from febm.inference import Effort
from febm.langevin import Chain, StepSize
from febm.latent import LatentModel
from febm.models.settings import Langevin
from febm.priors import Energy, TiltedPrior

THOROUGH = {**QUICK, "effort": Effort(draws=512, proposals=2048)}


@pytest.fixture(scope="module")
def tilted():
    return febm.FEBM(**THOROUGH).fit(waves())


@pytest.fixture(scope="module")
def short_run():
    """Two steps are too few to arrive anywhere: what such chains give changes with their length."""
    chains = dict(posterior=Chain(2, StepSize(1e-6)), prior=Chain(2, StepSize(1e-3)))
    langevin = Langevin(**chains, precondition=False)
    settings = dict(training="langevin", generator="linear", inference="langevin", langevin=langevin)
    effort = dataclasses.replace(QUICK["effort"], draws=512)
    return febm.FEBM(**{**QUICK, "effort": effort}, **settings).fit(waves())


@pytest.fixture(scope="module")
def narrow(short_run):
    """The same with a prior far narrower than where its chains start."""
    model, prior = copy.copy(short_run), short_run.model_.prior
    tilted = TiltedPrior(prior.base, Energy(prior.energy.network, prior.energy.dim, confinement=200.0))
    model.model_ = LatentModel(model.model_.generator, tilted, model.model_.likelihood)
    return model


@pytest.fixture(scope="module")
def exact():
    return febm.FEBM(**QUICK, prior="mixture").fit(waves())


def value(report, chain, quantity):
    row = report[(report["chain"] == chain) & (report["quantity"] == quantity)]
    assert len(row) == 1
    return float(row["value"].iloc[0])


class TestConvergence:
    def test_independent_draws_agree_and_count_in_full(self):
        """R-hat of 50 quantities of 4 × 512 independent draws stays below 1.02, their sizes within 25 % of 2048."""
        found = convergence(np.random.default_rng(0).normal(size=(4, 512, 50)))
        assert found.rhat.max() < 1.02
        assert found.ess_bulk.min() > 0.75 * 2048
        assert found.ess_tail.min() > 0.75 * 2048

    def test_a_chain_elsewhere_is_noticed(self):
        draws = np.random.default_rng(1).normal(size=(4, 512, 2))
        draws[3, :, 1] += 1
        found = convergence(draws)
        assert found.rhat[0] < 1.02 < 1.1 < found.rhat[1]

    def test_sticky_chains_are_worth_less(self):
        """An autoregression of coefficient .9 is worth 1/19 of its length in the bulk."""
        rng = np.random.default_rng(2)
        draws = rng.normal(size=(4, 2000, 1))
        for step in range(1, 2000):
            draws[:, step] = 0.9 * draws[:, step - 1] + np.sqrt(1 - 0.81) * draws[:, step]
        np.testing.assert_allclose(convergence(draws).ess_bulk, 8000 / 19, rtol=0.4)

    def test_what_never_varies_agrees(self):
        found = convergence(np.ones((4, 16, 3)))
        np.testing.assert_array_equal(found.rhat, 1)
        np.testing.assert_array_equal(found.ess_bulk, 64)

    @pytest.mark.parametrize(("level", "unit"), [(100, 1e-9), (1e8, 1.0), (0, 1e300), (0, 1e-60)])
    def test_level_and_unit_change_nothing(self, level, unit):
        """Ranks of values and of distances from their median are the same; few of them are tied by rounding."""
        draws = np.random.default_rng(3).normal(size=(4, 100, 2))
        draws[0, :, 1] *= 3
        for plain, moved in zip(convergence(draws), convergence(level + unit * draws), strict=True):
            np.testing.assert_allclose(moved, plain, rtol=1e-3)

    def test_one_wild_draw_does_not_hide_the_others(self):
        draws = np.random.default_rng(4).normal(size=(4, 512, 1))
        draws[3] += 1
        plain = convergence(draws).rhat
        draws[0, 0] = 1e30
        np.testing.assert_allclose(convergence(draws).rhat, plain, rtol=0.01)

    def test_a_quantity_says_the_same_alone_and_among_many(self):
        draws = np.random.default_rng(5).normal(size=(4, 32, 150))
        draws[1, :, 140] += 1
        draws[:, :, 7] = 3.0
        together = convergence(draws)
        for quantity in (0, 7, 140, 149):
            alone = convergence(draws[:, :, [quantity]])
            for many, one in zip(together, alone, strict=True):
                np.testing.assert_allclose(many[quantity], one[0], rtol=1e-4)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_draws_that_are_no_numbers_are_refused(self, value):
        draws = np.zeros((4, 10, 2))
        draws[1, 2, 0] = value
        with pytest.raises(ValueError, match="convergence: 1 draw of 80 are NaN or infinite"):
            convergence(draws)

    @pytest.mark.parametrize("shape", [(4, 10), (1, 10, 2), (4, 3, 2), (4, 10, 0)])
    def test_too_little_is_refused(self, shape):
        with pytest.raises(ValueError, match="two chains of four draws"):
            convergence(np.zeros(shape))


@pytest.fixture(scope="module")
def draws():
    """Two times 512 independent draws of 4,000 independent values."""
    return np.random.default_rng(0).normal(size=(2, 40, 512, 50, 2))


class TestMovedMeans:
    def test_chance_alone_is_taken_off(self, draws):
        """The mean square of 4,000 ratios has a standard error of √(2/4000)·2/512; 4.4 of them are allowed."""
        assert moved_means(*draws) < np.sqrt(4.4 * np.sqrt(2 / 4000) * 2 / 512)

    def test_a_true_move_is_measured_in_standard_deviations(self, draws):
        """Of .3; the standard error of its square is 2·.3·√(2/512)/√4000, which is far below the tolerance."""
        short, long = draws
        assert moved_means(short, long + 0.3) == pytest.approx(0.3, abs=0.01)
        assert moved_means(7 * short, 7 * (long + 0.3)) == pytest.approx(0.3, abs=0.01)

    @pytest.mark.parametrize(("level", "unit"), [(1e3, 1e-6), (-1e8, 1.0), (0.0, 1e-30)])
    def test_level_and_unit_change_nothing(self, draws, level, unit):
        short, long = draws[:, :4]
        moved = moved_means(level + unit * short, level + unit * (long + 0.5))
        assert moved == pytest.approx(moved_means(short, long + 0.5), rel=1e-3)

    def test_outputs_of_unlike_units_are_judged_each_by_its_own(self, draws):
        short, long = draws[0, :4], draws[1, :4] + 0.5
        units = np.array([1.0, 1e9])
        assert moved_means(units * short, units * long) == pytest.approx(moved_means(short, long))

    def test_a_value_that_is_known_may_not_move(self, draws):
        short, long = draws[:, :4].copy()
        short[:, :, 0], long[:, :, 0] = 2.0, 2.0 + 1e-12
        assert moved_means(short, long) < 0.1
        long[:, :, 0] = 2.01
        assert moved_means(short, long) == np.inf

    def test_nothing_moves_where_everything_is_known(self):
        assert moved_means(np.full((2, 8, 3, 1), 0.1), np.full((2, 8, 3, 1), 0.1)) == 0


class TestGap:
    def test_exact_samples_have_none(self, exact):
        assert chain_gap(exact) is None

    def test_longer_chains_of_a_convergent_model_change_nothing(self, tilted):
        """Wrong 1 time in 1,000 when they do not."""
        gap = chain_gap(tilted, random_state=0)
        assert gap.pvalue > 0.001
        assert gap.distance < 0.2

    def test_longer_chains_of_a_short_run_model_are_noticed(self, narrow):
        assert chain_gap(narrow, random_state=0).pvalue <= 0.001

    def test_more_work_moves_an_exact_posterior_within_its_own_error(self, tilted):
        """At least four independent differences: their mean square passes 4.6 times its mean once in 1,000 runs."""
        at = np.linspace(0, 2, 9)
        assert posterior_gap(tilted, waves(4, 3, seed=5), at=at, random_state=0) < np.sqrt(3.6 * 2 / 512)

    def test_more_work_moves_a_posterior_that_has_not_arrived(self, short_run):
        at = np.linspace(0, 2, 9)
        context = waves(4, 12, seed=5)
        moved = posterior_gap(short_run, context, at=at, random_state=0)
        assert moved > 0.5
        # The same model of the same curves in other units, a small spread about a large level.
        scaling, unit, level = short_run.scaling_, 1e-6, 1e3
        other = copy.copy(short_run)
        other.scaling_ = dataclasses.replace(scaling, mean=level + unit * scaling.mean, scale=unit * scaling.scale)
        again = posterior_gap(other, context.replace(y=level + unit * context.y), at=at, random_state=0)
        assert again == pytest.approx(moved, rel=1e-3)

    def test_conditioning_and_choosing_draws_have_seeds_of_their_own(self, exact, monkeypatch):
        seeds = []
        condition = febm.FEBM.condition

        def spied(self, context, *, random_state=None):
            posterior = condition(self, context, random_state=random_state)
            sample = posterior.sample

            def spied_sample(n, at, *, random_state=None):
                seeds.append((condition_seed, random_state))
                return sample(n, at, random_state=random_state)

            condition_seed = random_state
            posterior.sample = spied_sample
            return posterior

        monkeypatch.setattr(febm.FEBM, "condition", spied)
        posterior_gap(exact, waves(2, seed=5), at=[0.0, 1.0], random_state=0)
        assert len({seed for pair in seeds for seed in pair}) == 4

    @pytest.mark.parametrize("factor", [0, 1, 1.5, True])
    def test_longer_means_at_least_twice(self, exact, factor):
        with pytest.raises(ValueError, match=r"chain_gap: factor is .*; give a whole number of at least 2"):
            chain_gap(exact, factor=factor)
        with pytest.raises(ValueError, match=r"posterior_gap: factor is .*; give a whole number of at least 2"):
            posterior_gap(exact, waves(2), at=[0.0], factor=factor)

    def test_curves_at_unlike_numbers_of_points_are_refused(self, exact):
        at = febm.Curves.from_arrays([[0.0], [0.0, 1.0]], [[0.0], [0.0, 1.0]])
        with pytest.raises(ValueError, match="posterior_gap: the curves of `at` have different numbers of points"):
            posterior_gap(exact, waves(2), at=at)


WANTED = {
    "chain_report": lambda model: chain_report(model, waves(2)),
    "chain_gap": chain_gap,
    "posterior_gap": lambda model: posterior_gap(model, waves(2), at=[0.0]),
}


class TestModel:
    @pytest.mark.parametrize("name", WANTED)
    @pytest.mark.parametrize("model", [None, waves(2), febm.FEBM], ids=["None", "curves", "class"])
    def test_what_is_no_model_is_refused(self, name, model):
        with pytest.raises(TypeError, match=f"{name}: model must be a fitted model such as febm.FEBM; got"):
            WANTED[name](model)

    @pytest.mark.parametrize("name", WANTED)
    def test_a_model_that_is_not_fitted_is_told_so(self, name):
        with pytest.raises(NotFittedError, match=f"{name}: this FEBM is not fitted yet"):
            WANTED[name](febm.FEBM())

    def test_another_model_has_no_chains(self):
        assert chain_report(ClosedFormProcess(), waves(2)) is None
        with pytest.raises(TypeError, match="chain_gap: ClosedFormProcess has no chains"):
            chain_gap(ClosedFormProcess())


class TestReport:
    def test_a_healthy_sampler_says_so(self, tilted):
        report = chain_report(tilted, waves(4, seed=5), random_state=0)
        assert set(report["chain"]) == {"prior", "posterior"}
        for chain in ("prior", "posterior"):
            assert value(report, chain, "rhat") < 1.05
            assert value(report, chain, "ess_bulk") > 500
            assert value(report, chain, "effective") > 100
        assert 0.1 < value(report, "prior", "acceptance") <= 1
        assert report["meaning"].str.len().min() > 20
        between_runs = report["meaning"][report["quantity"] == "rhat"]
        assert between_runs.str.contains("independent runs, and only the gap speaks of the length of chains").all()
        assert np.isfinite(report["value"]).all()

    @pytest.mark.slow
    def test_real_chains_bring_their_own_diagnostics(self, tilted):
        model = copy.copy(tilted).set_params(inference="mala", effort=QUICK["effort"])
        report = chain_report(model, waves(3, seed=5), random_state=0)
        assert value(report, "posterior", "rhat") >= 1
        assert value(report, "posterior", "ess_tail") > 0
        assert 0 < value(report, "posterior", "acceptance") <= 1

    def test_arrays_are_read_on_the_grid_of_the_model(self, tilted, monkeypatch):
        monkeypatch.setattr(chains, "_prior_rows", lambda *_: [])
        seen = []
        monkeypatch.setattr(chains, "_posterior_rows", lambda model, context, *_: seen.append(context) or [])
        array = waves(2, seed=5).to_grid()[1][..., 0]
        assert chain_report(tilted, array) is None
        assert seen[0] == waves(2, seed=5)

    def test_a_model_without_chains_has_none(self, exact):
        assert chain_report(exact, waves(3)) is None

    @pytest.mark.slow
    def test_the_same_seed_gives_the_same_report(self, tilted):
        first, second = (chain_report(tilted, waves(2, seed=5), random_state=3) for _ in range(2))
        assert first.equals(second)
