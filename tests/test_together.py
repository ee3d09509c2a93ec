"""Several models trained side by side: each to the end that it would have alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closed_form_process import ClosedFormProcess
from contract import SMALL, waves
from test_training import LeastSquares, Line, Plug, Points, PulledPlugError

import febm
from febm import fitting
from febm.inference import Effort
from febm.langevin import Chain, StepSize
from febm.models.settings import Langevin, Networks
from febm.neural_process_networks import Architecture
from febm.progress import Silent
from febm.replicas import alike
from febm.training import Group, Optimisation, Training, memory_needed, train_together

BRIEF = Optimisation(epochs=3, batch_size=16)
FEATURES = dataclasses.replace(SMALL, optimisation=BRIEF)


def training(seed, *, breaks=2.0, curves=150, checkpoint=None, progress=Silent(), **settings):
    """A line to find, with another slope for every seed: some diverge, and each stops at an epoch of its own."""
    x = jax.random.normal(jax.random.key(seed), (curves + 50,))
    points = Points(x, (1 + 0.3 * seed) * x)
    options = dict(epochs=40, batch_size=32, averaging=0.5, patience=5, plateau=3) | settings
    return Training(
        LeastSquares(breaks),
        Line(jnp.zeros(()), jnp.zeros(())),
        points[:curves],
        points[curves:],
        groups={"slope": Group(rate=0.1, factor=0.5, minimum=1e-6)},
        settings=Optimisation(**options),
        key=jax.random.key(seed),
        checkpoint=checkpoint,
        progress=progress,
    )


def decisions(trained):
    """How long a training went on, when it was rescued, and how its rates fell."""
    history = trained.history
    return len(history), list(history.index[history["event"].notna()]), list(history["rate_slope"][1:])


@pytest.fixture(scope="module")
def alone():
    return [train_together([training(seed)])[0] for seed in range(5)]


class TestTrainings:
    """The loop, on a problem without chance."""

    def test_the_ends_are_those_of_each_alone(self, alone):
        for one, other in zip(train_together([training(seed) for seed in range(5)]), alone, strict=True):
            np.testing.assert_allclose(one.model.slope, other.model.slope, rtol=1e-5)
            np.testing.assert_allclose(one.history["score"], other.history["score"], rtol=1e-3, atol=1e-5)

    def test_stops_rescues_and_rates_are_decided_for_each(self, alone):
        together = train_together([training(seed) for seed in range(5)])
        assert [decisions(one) for one in together] == [decisions(one) for one in alone]
        assert len({len(one.history) for one in alone}) > 2
        assert {bool(decisions(one)[1]) for one in alone} == {True, False}

    def test_one_stopped_together_goes_on_alone(self, alone, tmp_path):
        files = [tmp_path / str(seed) for seed in range(3)]
        with pytest.raises(PulledPlugError):
            train_together([training(seed, checkpoint=file, progress=Plug(4)) for seed, file in enumerate(files)])
        for seed, file in enumerate(files):
            (again,) = train_together([training(seed, checkpoint=file)])
            assert decisions(again) == decisions(alone[seed])

    def test_some_may_be_further_than_others(self, alone, tmp_path):
        with pytest.raises(PulledPlugError):
            train_together([training(0, checkpoint=tmp_path / "first", progress=Plug(4))])
        first, other = train_together([training(0, checkpoint=tmp_path / "first"), training(3)])
        assert decisions(first) == decisions(alone[0])
        assert decisions(other) == decisions(alone[3])


class TestRoom:
    """How many go side by side."""

    def test_more_of_them_need_more_memory(self):
        few, many = (memory_needed([training(seed) for seed in range(count)]) for count in (2, 6))
        assert 2 * few < many < 4 * few

    @pytest.mark.parametrize(("of_what_all_need", "count"), [(1.0, 5), (0.99, 3), (0.5, 2), (0.1, 1)])
    def test_memory_decides(self, monkeypatch, of_what_all_need, count):
        trainings = [training(seed) for seed in range(5)]
        free = of_what_all_need * memory_needed(trainings) / fitting.USABLE_MEMORY
        monkeypatch.setattr(fitting, "_free_memory", lambda: free)
        assert fitting.room(trainings) == count

    def test_a_processor_takes_one_after_the_other(self):
        assert fitting.room([training(seed) for seed in range(2)]) == 1


@pytest.mark.parametrize("other", [training(1, curves=149), training(1, breaks=3.0), training(1, epochs=41)])
def test_unlike_trainings_are_told_apart(other):
    found = fitting._alike([training(0), other, training(2)])
    assert found == [[0, 2], [1]]


def test_trees_that_differ_in_values_only_are_alike():
    assert alike({"a": jnp.zeros(3), "b": "x"}, {"a": jnp.ones(3), "b": "x"})
    assert not alike({"a": jnp.zeros(3), "b": "x"}, {"a": jnp.ones(3, int), "b": "x"})
    assert not alike({"a": jnp.zeros(3), "b": "x"}, {"a": jnp.ones(3), "c": "x"})


def chains(seed, prior="gaussian"):
    """F-EBM as in the paper, in small."""
    chain = Chain(4, StepSize(1e-2))
    return febm.FEBM(
        training="langevin",
        generator="mlp",
        prior=prior,
        inference="langevin",
        rank=4,
        latent_dim=2,
        networks=Networks(width=8, depth=1),
        langevin=Langevin(posterior=chain, prior=chain, precondition=False),
        optimisation=BRIEF,
        effort=Effort(draws=16, particles=16, moves=1),
        random_state=seed,
        progress=False,
    )


MODELS = {
    "FEBM": lambda seed: chains(seed, prior="tilted"),
    "EBP": lambda seed: febm.EBP(features=8, training=FEATURES, random_state=seed, progress=False),
    "VIP": lambda seed: febm.VIP(functions=16, latent_dim=3, training=FEATURES, random_state=seed, progress=False),
    "NeuralProcess": lambda seed: febm.NeuralProcess(
        latent_dim=3,
        architecture=Architecture(width=16, depth=2),
        repeats=2,
        optimisation=BRIEF,
        random_state=seed,
        progress=False,
    ),
}


def check_same(make, monkeypatch, seeds=2):
    """Seeds, each on curves of its own, in one call of the loop, against as many fits."""
    curves = [waves(40, 12, seed=seed) for seed in range(seeds)]
    apart = [make(seed).fit(own) for seed, own in enumerate(curves)]
    groups = []
    monkeypatch.setattr(fitting, "train_together", lambda group: groups.append(len(group)) or train_together(group))
    together = febm.fit_together([make(seed) for seed in range(seeds)], curves, at_once=seeds)
    assert groups == [seeds]
    samples = []
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.history_["score"], other.history_["score"], rtol=1e-4, atol=1e-4)
        samples.append(one.sample(20, random_state=0).y)
        np.testing.assert_allclose(samples[-1], other.sample(20, random_state=0).y, atol=1e-3)
        assert one.posterior_key_ == other.posterior_key_
    assert np.max(np.abs(samples[0] - samples[1])) > 0.1, "one model for all seeds would pass"


def test_seeds_are_those_of_separate_fits(monkeypatch):
    check_same(chains, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_seeds_of_every_kind_are_those_of_separate_fits(name, monkeypatch):
    check_same(MODELS[name], monkeypatch, seeds=3)


def test_models_of_any_kind_are_fitted():
    """What cannot go side by side goes one after the other."""
    models = [febm.FPCA(rank=2, random_state=0, progress=False), ClosedFormProcess()]
    fitted = febm.fit_together(models, waves(20, 8))
    assert all(one is other for one, other in zip(fitted, models, strict=True))
    alone = febm.FPCA(rank=2, random_state=0, progress=False).fit(waves(20, 8))
    np.testing.assert_array_equal(fitted[0].transform(waves(3, 8)), alone.transform(waves(3, 8)))


class TestRefusals:
    @pytest.mark.parametrize("curves", [[], [waves(10)]])
    def test_curves_that_do_not_match(self, curves):
        with pytest.raises(ValueError, match=f"2 models but curves for {len(curves)}"):
            febm.fit_together([febm.FPCA(), febm.FPCA()], curves)

    def test_a_model_given_twice(self):
        model = febm.FPCA()
        with pytest.raises(ValueError, match="more than once"):
            febm.fit_together([model, model], waves(10))

    def test_no_model(self):
        with pytest.raises(TypeError, match=r"models\[1\] is a str"):
            febm.fit_together([febm.FPCA(), "FPCA"], waves(10))

    def test_none_at_once(self):
        with pytest.raises(ValueError, match="at_once"):
            febm.fit_together([febm.FPCA()], waves(10), at_once=0)
