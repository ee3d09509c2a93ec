"""What samplers say of themselves: agreement of runs, effective sizes, and the gap to longer chains."""

import copy

import numpy as np
import pytest
from test_febm import QUICK, waves

import febm
from febm.evaluation.chains import chain_gap, chain_report, convergence, posterior_gap
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
    return febm.FEBM(**QUICK, **settings).fit(waves())


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

    @pytest.mark.parametrize("shape", [(4, 10), (1, 10, 2), (4, 3, 2)])
    def test_too_little_is_refused(self, shape):
        with pytest.raises(ValueError, match="two chains of four draws"):
            convergence(np.zeros(shape))


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
        """Means of two times 512 draws differ by 1/16 of a standard deviation; twice that is allowed."""
        at = np.linspace(0, 2, 9)
        assert posterior_gap(tilted, waves(4, 3, seed=5), at=at, random_state=0) < 2 / np.sqrt(256)

    def test_more_work_moves_a_posterior_that_has_not_arrived(self, short_run):
        at = np.linspace(0, 2, 9)
        assert posterior_gap(short_run, waves(4, 12, seed=5), at=at, random_state=0) > 0.5


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
        assert np.isfinite(report["value"]).all()

    @pytest.mark.slow
    def test_real_chains_bring_their_own_diagnostics(self, tilted):
        model = copy.copy(tilted).set_params(inference="mala", effort=QUICK["effort"])
        report = chain_report(model, waves(3, seed=5), random_state=0)
        assert value(report, "posterior", "rhat") >= 1
        assert value(report, "posterior", "ess_tail") > 0
        assert 0 < value(report, "posterior", "acceptance") <= 1

    def test_a_model_without_chains_has_none(self, exact):
        assert chain_report(exact, waves(3)) is None

    @pytest.mark.slow
    def test_the_same_seed_gives_the_same_report(self, tilted):
        first, second = (chain_report(tilted, waves(2, seed=5), random_state=3) for _ in range(2))
        assert first.equals(second)
