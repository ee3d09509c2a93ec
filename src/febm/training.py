"""One training loop for every learned model: compiled epochs, held-out score, plateau, early stop, rescue.

An `Objective` says what is minimised and how a model is judged on held-out curves; the loop does the rest. Models of
equal shapes can go through it side by side, in one compiled program, each with decisions of its own.
"""

import abc
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pandas as pd
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from febm.checkpoints import fingerprint
from febm.course import Course, trouble, watch_plateaus
from febm.progress import Progress, Silent
from febm.replicas import program_memory, side_by_side

Model = TypeVar("Model", bound=eqx.Module)
Information = dict[str, Float[Array, ""]]
FROZEN = "frozen"


class Batchable(Protocol):
    """Data that the loop can take batches of."""

    def __len__(self) -> int: ...

    def __getitem__(self, curves: Any) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of parameters with its own rate: Adam, reduced by `factor` on a plateau down to `minimum`."""

    rate: float = 1e-3
    factor: float = 0.9
    minimum: float = 1e-4
    weight_decay: float = 0.0

    def plateau(self, patience: int) -> optax.GradientTransformationExtraArgs:
        """Optax's plateau schedule; the `scale` of its state is what the rate is multiplied by."""
        smallest = min(1.0, self.minimum / self.rate)
        return optax.contrib.reduce_on_plateau(factor=self.factor, patience=patience, min_scale=smallest)


Groups = tuple[tuple[str, Group], ...]


@dataclasses.dataclass(frozen=True)
class Optimisation:
    """How a model is trained.

    Attributes
    ----------
    epochs, batch_size
        The most epochs, and the curves in one step.
    patience
        Epochs without a better held-out score after which training stops.
    plateau
        Epochs without a better held-out score after which the rates are reduced.
    averaging
        Decay of the running average of the weights; the average is what is scored and kept.
    rescues
        How often training may go back to its best state with halved rates before it stops there.
    clip
        Largest norm of a group's gradient.
    passes
        Passes over the curves in an epoch; the model is judged after each epoch.
    """

    epochs: int = 500
    batch_size: int = 128
    patience: int = 50
    plateau: int = 10
    averaging: float = 0.99
    rescues: int = 5
    clip: float = 10.0
    passes: int = 1

    @property
    def step(self) -> "Step":
        """What of this the compiled epoch depends on."""
        return Step(self.batch_size, self.averaging, self.clip, self.passes)


class Step(NamedTuple):
    """How one step is taken: the settings that an epoch is compiled for."""

    batch_size: int
    averaging: float
    clip: float
    passes: int

    def size(self, curves: int) -> int:
        """Curves in a step."""
        return min(self.batch_size, curves)

    def batches(self, curves: int) -> int:
        """Steps in an epoch."""
        return math.ceil(self.passes * curves / self.size(curves))


class Objective(eqx.Module):
    """What is minimised, and how a model is judged."""

    @abc.abstractmethod
    def loss(self, model: Any, batch: Any, key: PRNGKeyArray) -> tuple[Float[Array, ""], Information]:
        """The loss of a batch, and what a person wants to see of it."""

    @abc.abstractmethod
    def score(self, model: Any, held_out: Any, key: PRNGKeyArray) -> Float[Array, ""]:
        """The held-out score of a model, higher is better; the same key is given every time."""

    @abc.abstractmethod
    def groups(self, model: Any) -> PyTree[str]:
        """The name of the parameter group of every array; `"frozen"` ones are not trained."""

    def alarm(self, information: dict[str, float]) -> str | None:
        """A sentence when an epoch's information shows that training has gone wrong."""
        return None


class TrainingState(eqx.Module):
    """Everything an epoch changes."""

    model: Any
    average: Any
    optimiser: Any
    step: Float[Array, ""]


class Trained(NamedTuple):
    """The best model by held-out score, and how training went."""

    model: Any
    history: pd.DataFrame


@dataclasses.dataclass(frozen=True)
class Training:
    """What is trained, on what and how.

    Attributes
    ----------
    objective, model, data, held_out
        What is minimised, the model before training, the curves that teach it, and those that judge it.
    groups
        The groups of parameters, by the names that the objective gives them.
    settings
        Of the loop.
    key
        The randomness of batches, losses and scores.
    progress
        Who is told of every epoch.
    watch
        Further numbers of a model for the history.
    checkpoint
        Where training is saved after every epoch and taken up from, to the same end as if it had not stopped.
    """

    objective: Objective
    model: Any
    data: Batchable
    held_out: Any
    _: dataclasses.KW_ONLY
    groups: dict[str, Group]
    settings: Optimisation
    key: PRNGKeyArray
    progress: Progress = Silent()
    watch: Callable[[Any], dict[str, float]] = lambda model: {}
    checkpoint: Path | None = None


def train(*what: Any, **how: Any) -> Trained:
    """Train a model and return the state with the best held-out score; the arguments are those of `Training`.

    When an epoch leaves the rails (a value that is not finite, or the objective's own alarm), training goes back to the
    best state with halved rates; after `settings.rescues` such returns it stops there. It does not raise.
    """
    return train_together([Training(*what, **how)])[0]


def train_each(trainings: Sequence[Training]) -> list[Trained]:
    """Train models that are `alike` in the quicker way: side by side on an accelerator, else one after the other."""
    if jax.default_backend() != "cpu":
        return train_together(trainings)
    return [trained for one in trainings for trained in train_together([one])]


def train_together(trainings: Sequence[Training]) -> list[Trained]:
    """Train models that are `alike` side by side: each has the end, and the checkpoint, that it would have alone.

    The progress of the first is told of every epoch, by the row of one that is still running.
    """
    progress, epochs = trainings[0].progress, trainings[0].settings.epochs
    runs = [Run(training) for training in trainings]
    scores = side_by_side(_score, [run.judged(run.training.model) for run in runs])
    for run, score in zip(runs, jax.device_get(scores), strict=True):
        run.start(float(score))
    with progress.task(epochs) as report:
        for done in runs[0].course.history[1:]:
            report(done)
        while running := [run for run in runs if not run.finished]:
            # A copy works in vain where one has stopped: that costs less than to compile for a smaller number.
            group = running + running[:1] * (len(runs) - len(running))
            ended = side_by_side(run_epoch, [run.next_epoch() for run in group])
            proposals, information = zip(*ended, strict=True)
            scores = side_by_side(
                _score, [run.judged(state.average) for run, state in zip(group, proposals, strict=True)]
            )
            found = zip(running, proposals, *jax.device_get((scores, information)), strict=False)
            for run, proposal, score, seen in found:
                run.take(proposal, float(score), {name: float(value) for name, value in seen.items()})
            report(running[0].course.history[-1])
    for run in runs:
        progress.message(run.summary)
    return [Trained(run.course.best.average, pd.DataFrame(run.course.history)) for run in runs]


def memory_needed(trainings: Sequence[Training]) -> int:
    """Bytes that training these side by side takes at its largest, as the compiler says."""
    runs = [Run(training) for training in trainings]
    for run in runs:
        run.start()
    epoch = program_memory(run_epoch, [run.next_epoch() for run in runs])
    return max(epoch, program_memory(_score, [run.judged(run.training.model) for run in runs]))


class Run:
    """One training under way: what its next epoch is given, and what is decided after it."""

    course: Course

    def __init__(self, training: Training) -> None:
        self.training = training
        self.groups: Groups = tuple(sorted(training.groups.items()))
        self.score_key, self.key = jax.random.split(training.key)

    def start(self, score: float = -math.inf) -> None:
        """Begin with a model of this held-out score, or where the checkpoint was left."""
        training, settings = self.training, self.training.settings
        state = start_state(training.objective, training.model, self.groups, settings.step)
        plateaus = {name: group.plateau(settings.plateau).init({}) for name, group in self.groups}
        score = score if math.isfinite(score) else -math.inf
        row = {"epoch": 0, "score": score, **training.watch(training.model)}
        self.course = Course(state, state, plateaus, score, [row])
        if training.checkpoint is not None:
            # The number of epochs may change: a training that is taken up may go on for longer.
            how = repr((self.groups, dataclasses.replace(settings, epochs=0)))
            self.mark = fingerprint(training.model, training.data, training.held_out, self.key, how)
            self.course = self.course.resume(training.checkpoint, self.mark)
        self.began = time.perf_counter() - self.course.history[-1].get("seconds", 0.0)

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, the score has stopped rising, or training has left the rails too often."""
        course, settings = self.course, self.training.settings
        if course.epoch >= settings.epochs or course.rescues > settings.rescues:
            return True
        in_order = course.epoch == 0 or course.history[-1]["event"] is None
        return in_order and course.epoch - course.best_epoch >= settings.patience

    @property
    def rates(self) -> dict[str, Float[Array, ""]]:
        """The rate of each group in the next epoch."""
        slowdown, plateaus = self.course.slowdown, self.course.plateaus
        return {name: jnp.asarray(group.rate * slowdown * plateaus[name].scale) for name, group in self.groups}

    def next_epoch(self) -> tuple[Any, ...]:
        """The arguments of `run_epoch`."""
        training, course = self.training, self.course
        key = jax.random.fold_in(self.key, course.epoch + 1)
        return training.objective, self.groups, training.settings.step, course.state, self.rates, training.data, key

    def judged(self, model: Any) -> tuple[Any, ...]:
        """The arguments of the held-out score of a model."""
        return self.training.objective, model, self.training.held_out, self.score_key

    def take(self, proposal: TrainingState, score: float, information: dict[str, float]) -> None:
        """Go on from what an epoch has made of the state, or back to the best one."""
        training, course, epoch = self.training, self.course, self.course.epoch + 1
        reason = trouble(information, score) or training.objective.alarm(information)
        row: dict[str, Any] = {"epoch": epoch, "score": score, **information, **training.watch(proposal.average)}
        row |= {f"rate_{name}": float(rate) for name, rate in self.rates.items()}
        row |= {"seconds": time.perf_counter() - self.began, "event": reason}
        course.history.append(row)
        if reason is not None:
            course.rescues, course.slowdown, course.state = course.rescues + 1, course.slowdown / 2, course.best
            training.progress.message(f"Epoch {epoch}: {reason}; back to epoch {course.best_epoch} with half the rate.")
        else:
            course.state = proposal
            if score > course.best_score:
                course.best, course.best_score, course.best_epoch = proposal, score, epoch
            plateau = training.settings.plateau
            course.plateaus = watch_plateaus(self.groups, plateau, course.plateaus, jnp.asarray(-score))
        if training.checkpoint is not None:
            course.save(training.checkpoint, self.mark)

    @property
    def summary(self) -> str:
        """How training ended."""
        last, settings = self.course.epoch, self.training.settings
        if last >= settings.epochs:
            how = f"ran {last} epochs"
        elif self.course.rescues > settings.rescues:
            how = f"stopped after {last} of {settings.epochs} epochs, having left the rails too often,"
        else:
            how = f"stopped after {last} of {settings.epochs} epochs, as the score no longer rose,"
        kept = f"kept epoch {self.course.best_epoch}, held-out score {self.course.best_score:.4g}"
        return f"Training {how} and {kept}."


def start_state(objective: Objective, model: Model, groups: Groups, settings: Step) -> TrainingState:
    """The state before the first step."""
    optimiser = _optimiser(objective, model, groups, settings)
    parameters = eqx.filter(model, eqx.is_inexact_array)
    return TrainingState(model, model, optimiser.init(parameters), jnp.zeros(()))


@eqx.filter_jit
def run_epoch(
    objective: Objective,
    groups: Groups,
    settings: Step,
    state: TrainingState,
    rates: dict[str, Float[Array, ""]],
    data: Batchable,
    key: PRNGKeyArray,
) -> tuple[TrainingState, Information]:
    """The passes over the data of one epoch as one compiled program."""
    shuffle_key, key = jax.random.split(key)
    batches = settings.batches(len(data))
    passes = jnp.tile(jnp.arange(len(data)), (settings.passes, 1))
    order = jax.random.permutation(shuffle_key, passes, axis=1, independent=True)
    order = jnp.resize(order, (batches, settings.size(len(data))))
    optimiser = _optimiser(objective, state.model, groups, settings)
    labels = _labels(objective, state.model)
    dynamic, static = eqx.partition(state, eqx.is_array)

    def step(carry, inputs):
        index, step_key = inputs
        current: TrainingState = eqx.combine(carry, static)
        differentiate = eqx.filter_value_and_grad(objective.loss, has_aux=True)
        (loss, information), gradient = differentiate(current.model, data[index], step_key)
        parameters = eqx.filter(current.model, eqx.is_inexact_array)
        updates, optimiser_state = optimiser.update(gradient, current.optimiser, parameters)
        updates = jax.tree.map(
            lambda update, label: -rates[label] * update if label != FROZEN else update, updates, labels
        )
        model = eqx.apply_updates(current.model, updates)
        decay = jnp.minimum(settings.averaging, (1 + current.step) / (10 + current.step))
        average = _mix(current.average, model, decay)
        proposal = TrainingState(model, average, optimiser_state, current.step + 1)
        information = {"loss": loss, "gradient": optax.tree.norm(gradient), **information}
        return eqx.filter(proposal, eqx.is_array), information

    end, information = jax.lax.scan(step, dynamic, (order, jax.random.split(key, batches)))
    return eqx.combine(end, static), jax.tree.map(jnp.mean, information)


@eqx.filter_jit
def _score(objective: Objective, model: Any, held_out: Any, key: PRNGKeyArray) -> Float[Array, ""]:
    return objective.score(model, held_out, key)


def _labels(objective: Objective, model: Any) -> PyTree[str]:
    parameters = eqx.filter(model, eqx.is_inexact_array)
    return jax.tree.map(lambda label, leaf: label, objective.groups(model), parameters)


def _optimiser(
    objective: Objective, model: Any, groups: Groups, settings: Step
) -> optax.GradientTransformationExtraArgs:
    transforms = {
        name: optax.chain(
            optax.clip_by_global_norm(settings.clip),
            optax.scale_by_adam(),
            optax.add_decayed_weights(group.weight_decay),
        )
        for name, group in groups
    }
    labels = _labels(objective, model)
    # Optax calls whatever is callable for labels, and a module of labels is as callable as the module itself.
    return optax.partition({**transforms, FROZEN: optax.set_to_zero()}, lambda parameters: labels)


def _mix(average: Any, model: Any, decay: Float[Array, ""]) -> Any:
    def mix(old, new):
        return decay * old + (1 - decay) * new if eqx.is_inexact_array(new) else new

    return jax.tree.map(mix, average, model)
