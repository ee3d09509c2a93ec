"""The one training loop: best state by held-out score, rescue, early stop, plateaus."""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from listening import Listener

from febm.errors import FormatError
from febm.progress import Silent
from febm.training import FROZEN, Group, Objective, Optimisation, run_epoch, start_state, train


class Line(eqx.Module):
    """y = slope·x, with a parameter that nobody trains."""

    slope: jax.Array
    fixed: jax.Array


class Points(eqx.Module):
    """Pairs of numbers."""

    x: jax.Array
    y: jax.Array

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return Points(self.x[index], self.y[index])


class LeastSquares(Objective):
    """Squared error; from `breaks` steps of size on, the loss is not a number."""

    breaks: float = eqx.field(static=True, default=np.inf)

    def loss(self, model, batch, key):
        error = jnp.mean((batch.y - model.slope * batch.x - model.fixed) ** 2)
        return jnp.where(jnp.abs(model.slope) > self.breaks, jnp.nan, error), {"slope": model.slope}

    def score(self, model, held_out, key):
        return -jnp.mean((held_out.y - model.slope * held_out.x) ** 2)

    def groups(self, model):
        return Line("slope", FROZEN)


@pytest.fixture
def data():
    x = jax.random.normal(jax.random.key(0), (200,))
    points = Points(x, 2.0 * x)
    return points[:150], points[150:]


def run(objective, data, rate=0.05, checkpoint=None, progress=Silent(), **settings):
    options = dict(epochs=60, batch_size=32, averaging=0.5) | settings
    return train(
        objective,
        Line(jnp.zeros(()), jnp.zeros(())),
        *data,
        groups={"slope": Group(rate=rate, factor=0.5, minimum=1e-6)},
        settings=Optimisation(**options),
        key=jax.random.key(1),
        progress=progress,
        checkpoint=checkpoint,
    )


def test_training_finds_the_minimum_and_leaves_frozen_parameters(data):
    trained = run(LeastSquares(), data)
    np.testing.assert_allclose(trained.model.slope, 2.0, atol=1e-2)
    assert trained.model.fixed == 0


def test_the_best_held_out_state_is_what_comes_back(data):
    trained = run(LeastSquares(), data, rate=0.5, epochs=30)
    score = LeastSquares().score(trained.model, data[1], jax.random.key(0))
    np.testing.assert_allclose(score, trained.history["score"].max(), atol=1e-9)


def test_training_that_diverges_goes_back_slows_down_and_says_so(data):
    trained = run(LeastSquares(breaks=1.0), data, rate=0.3, rescues=8)
    assert np.isfinite(trained.model.slope)
    events = trained.history["event"].dropna()
    assert len(events) > 0
    assert "not finite" in events.iloc[0]
    rates = trained.history["rate_slope"].dropna()
    assert rates.iloc[-1] < rates.iloc[0]


def test_training_that_cannot_be_rescued_stops_at_its_best_state(data):
    trained = run(LeastSquares(breaks=-1.0), data, rescues=2)
    assert trained.model.slope == 0
    assert len(trained.history) == 1 + 3


def test_training_stops_early_and_reduces_rates_when_the_score_stands_still(data):
    trained = run(LeastSquares(), data, epochs=500, patience=20, plateau=3)
    assert len(trained.history) < 400
    rates = trained.history["rate_slope"].dropna()
    assert rates.iloc[-1] <= rates.iloc[0] / 4


@pytest.mark.parametrize(
    ("breaks", "settings", "why"),
    [
        (None, dict(epochs=3), "ran 3 epochs"),
        (None, dict(epochs=500, patience=20, plateau=3), "the score no longer rose"),
        (-1.0, dict(rescues=2), "left the rails too often"),
    ],
)
def test_training_says_why_it_ended(data, breaks, settings, why):
    listener = Listener()
    run(LeastSquares() if breaks is None else LeastSquares(breaks=breaks), data, progress=listener, **settings)
    assert why in listener.heard[-1]


def test_fewer_curves_than_a_batch_are_one_batch(data):
    trained = run(LeastSquares(), (data[0][:7], data[1]), batch_size=64, epochs=200)
    np.testing.assert_allclose(trained.model.slope, 2.0, atol=0.05)


class Watched(LeastSquares):
    """Squared error that tells of the points it was given."""

    def loss(self, model, batch, key):
        error, information = super().loss(model, batch, key)
        return error, information | {"mean": jnp.mean(batch.x), "square": jnp.mean(batch.x) ** 2}


def test_every_curve_is_seen_once_in_every_pass_of_an_epoch(data):
    mean = float(np.mean(data[0].x))
    for batch_size in (50, 150):
        seen = run(Watched(), data, epochs=1, batch_size=batch_size, passes=3).history.iloc[-1]
        np.testing.assert_allclose(seen["mean"], mean, atol=1e-5)
    # Where a pass is a step, all steps have the mean of all curves.
    np.testing.assert_allclose(seen["square"], mean**2, rtol=1e-4)


@pytest.mark.parametrize(("curves", "passes", "steps"), [(10, 1, 1), (160, 1, 2), (160, 19, 24), (300, 2, 5)])
def test_an_epoch_has_the_steps_that_its_passes_fill(curves, passes, steps):
    settings = Optimisation(batch_size=128, passes=passes).step
    assert settings.batches(curves) == steps
    x = jnp.ones(curves)
    state = start_state(LeastSquares(), Line(jnp.zeros(()), jnp.zeros(())), (("slope", Group()),), settings)
    rates = {"slope": jnp.asarray(0.1)}
    after, _ = run_epoch(LeastSquares(), (("slope", Group()),), settings, state, rates, Points(x, x), jax.random.key(0))
    assert int(after.step) == steps


def test_same_key_gives_the_same_training(data):
    one, other = (run(LeastSquares(), data, epochs=5).history.drop(columns="seconds") for _ in range(2))
    assert one.equals(other)


class PulledPlugError(Exception):
    """Somebody pulled the plug."""


class Plug(Silent):
    """Progress that stops the training at some epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    @contextlib.contextmanager
    def task(self, total):
        def report(row):
            if row["epoch"] == self.epoch:
                raise PulledPlugError

        yield report


class TestCheckpoint:
    """A training that is stopped goes on as if it had not been."""

    @pytest.mark.parametrize("passes", [1, 3])
    def test_the_end_is_that_of_an_uninterrupted_training(self, data, tmp_path, passes):
        settings = dict(epochs=12, passes=passes)
        whole = run(LeastSquares(), data, **settings)
        with pytest.raises(PulledPlugError):
            run(LeastSquares(), data, **settings, checkpoint=tmp_path / "run", progress=Plug(7))
        again = run(LeastSquares(), data, **settings, checkpoint=tmp_path / "run")
        assert float(again.model.slope) == float(whole.model.slope)
        timeless = [table.history.drop(columns="seconds") for table in (again, whole)]
        pd.testing.assert_frame_equal(*timeless)

    def test_rescues_and_rates_are_remembered(self, data, tmp_path):
        objective = LeastSquares(breaks=1.0)
        whole = run(objective, data, epochs=15, rate=0.3)
        with pytest.raises(PulledPlugError):
            run(objective, data, epochs=15, rate=0.3, checkpoint=tmp_path / "run", progress=Plug(3))
        again = run(objective, data, epochs=15, rate=0.3, checkpoint=tmp_path / "run")
        assert list(again.history["rate_slope"][1:]) == list(whole.history["rate_slope"][1:])
        assert whole.history["event"].notna().any()

    def test_a_finished_training_is_not_run_again(self, data, tmp_path):
        first = run(LeastSquares(), data, epochs=5, checkpoint=tmp_path / "run")
        again = run(LeastSquares(), data, epochs=5, checkpoint=tmp_path / "run")
        pd.testing.assert_frame_equal(first.history, again.history)

    def test_more_epochs_go_on_from_the_last(self, data, tmp_path):
        run(LeastSquares(), data, epochs=5, checkpoint=tmp_path / "run")
        longer = run(LeastSquares(), data, epochs=8, checkpoint=tmp_path / "run")
        whole = run(LeastSquares(), data, epochs=8)
        assert float(longer.model.slope) == float(whole.model.slope)

    def test_the_checkpoint_of_another_training_is_refused(self, data, tmp_path):
        run(LeastSquares(), data, epochs=2, checkpoint=tmp_path / "run")
        with pytest.raises(FormatError, match="another training"):
            run(LeastSquares(), (data[0][:100], data[1]), epochs=2, checkpoint=tmp_path / "run")

    def test_another_file_is_refused(self, data, tmp_path):
        (tmp_path / "run").write_text("my notes")
        with pytest.raises(FormatError, match="not a checkpoint"):
            run(LeastSquares(), data, epochs=2, checkpoint=tmp_path / "run")

    def test_a_damaged_file_is_refused(self, data, tmp_path):
        run(LeastSquares(), data, epochs=2, checkpoint=tmp_path / "run")
        content = (tmp_path / "run").read_bytes()
        (tmp_path / "run").write_bytes(content[: len(content) - 100])
        with pytest.raises(FormatError, match="damaged"):
            run(LeastSquares(), data, epochs=3, checkpoint=tmp_path / "run")
