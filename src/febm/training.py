"""One training loop for every learned model: compiled epochs, held-out score, plateau, early stop, rescue.

An `Objective` says what is minimised and how a model is judged on held-out curves; the loop does the rest.
"""

import abc
import dataclasses
import functools
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pandas as pd
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from febm.checkpoints import fingerprint, read_checkpoint, write_checkpoint
from febm.progress import Progress, Silent

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


Groups = tuple[tuple[str, Group], ...]


@dataclasses.dataclass(frozen=True)
class Optimisation:
    """How a model is trained.

    Attributes
    ----------
    epochs, batch_size
        The most passes over the curves, and the curves in one step.
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
    """

    epochs: int = 500
    batch_size: int = 128
    patience: int = 50
    plateau: int = 10
    averaging: float = 0.99
    rescues: int = 5
    clip: float = 10.0

    @property
    def step(self) -> "Step":
        """What of this the compiled epoch depends on."""
        return Step(self.batch_size, self.averaging, self.clip)


class Step(NamedTuple):
    """How one step is taken: the settings that an epoch is compiled for."""

    batch_size: int
    averaging: float
    clip: float


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


@dataclasses.dataclass
class Course:
    """Where training stands between two epochs: all that a checkpoint has to hold."""

    state: TrainingState
    best: TrainingState
    plateaus: dict[str, Any]
    best_score: float
    history: list[dict[str, Any]]
    best_epoch: int = 0
    slowdown: float = 1.0
    rescues: int = 0

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history) - 1

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The parts that are trees of arrays."""
        return self.state, self.best, self.plateaus

    def save(self, path: Path, mark: str) -> None:
        """Write a checkpoint of the training that `mark` belongs to."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        write_checkpoint(path, self.arrays, numbers, mark)

    def resume(self, path: Path, mark: str) -> "Course":
        """The course as a checkpoint left it, or this one where there is none."""
        found = read_checkpoint(path, self.arrays, mark)
        return self if found is None else Course(*found[0], **found[1])


NUMBERS = ("best_score", "history", "best_epoch", "slowdown", "rescues")


def train(
    objective: Objective,
    model: Model,
    data: Batchable,
    held_out: Any,
    *,
    groups: dict[str, Group],
    settings: Optimisation,
    key: PRNGKeyArray,
    progress: Progress = Silent(),
    watch: Callable[[Model], dict[str, float]] = lambda model: {},
    checkpoint: Path | None = None,
) -> Trained:
    """Train `model` and return the state with the best held-out score.

    When an epoch leaves the rails (a value that is not finite, or the objective's own alarm), training goes back to the
    best state with halved rates; after `settings.rescues` such returns it stops there. It does not raise. With a
    `checkpoint` it is saved after every epoch and taken up from there, to the same end as if it had not stopped.
    """
    names = tuple(sorted(groups.items()))
    score_key, key = jax.random.split(key)
    score_of = functools.partial(_score, objective, held_out=held_out, key=score_key)
    course = _start(objective, model, names, settings, float(score_of(model)), watch(model))
    mark = ""
    if checkpoint is not None:
        # The number of epochs may change: a training that is taken up may go on for longer.
        mark = fingerprint(model, data, held_out, key, repr((names, dataclasses.replace(settings, epochs=0))))
        course = course.resume(checkpoint, mark)
    start = time.perf_counter() - course.history[-1].get("seconds", 0.0)
    with progress.task(settings.epochs) as report:
        for done in course.history[1:]:
            report(done)
        while course.epoch < settings.epochs and not _finished(course, settings):
            epoch = course.epoch + 1
            rates = {
                name: jnp.asarray(group.rate * course.slowdown * course.plateaus[name].scale)
                for name, group in groups.items()
            }
            epoch_key = jax.random.fold_in(key, epoch)
            proposal, found = run_epoch(objective, names, settings.step, course.state, rates, data, epoch_key)
            information = {name: float(value) for name, value in found.items()}
            score = float(score_of(proposal.average))
            reason = _trouble(information, score) or objective.alarm(information)
            row: dict[str, Any] = {"epoch": epoch, "score": score, **information, **watch(proposal.average)}
            row |= {f"rate_{name}": float(rate) for name, rate in rates.items()}
            row |= {"seconds": time.perf_counter() - start, "event": reason}
            course.history.append(row)
            report(row)
            if reason is not None:
                course.rescues, course.slowdown, course.state = course.rescues + 1, course.slowdown / 2, course.best
                progress.message(f"Epoch {epoch}: {reason}; back to epoch {course.best_epoch} with half the rate.")
            else:
                course.state = proposal
                if score > course.best_score:
                    course.best, course.best_score, course.best_epoch = proposal, score, epoch
                course.plateaus = _watch_plateaus(names, settings.plateau, course.plateaus, jnp.asarray(-score))
            if checkpoint is not None:
                course.save(checkpoint, mark)
    last = course.epoch
    stopped = f"stopped after {last} of {settings.epochs} epochs" if last < settings.epochs else f"ran {last} epochs"
    kept = f"kept epoch {course.best_epoch}, held-out score {course.best_score:.4g}"
    progress.message(f"Training {stopped} and {kept}.")
    return Trained(course.best.average, pd.DataFrame(course.history))


def _start(
    objective: Objective, model: Model, groups: Groups, settings: Optimisation, score: float, seen: dict[str, float]
) -> Course:
    """Before the first epoch."""
    state = start_state(objective, model, groups, settings.step)
    plateaus = {name: _plateau(group, settings.plateau).init({}) for name, group in groups}
    score = score if math.isfinite(score) else -math.inf
    return Course(state, state, plateaus, score, [{"epoch": 0, "score": score, **seen}])


def _finished(course: Course, settings: Optimisation) -> bool:
    """Whether the held-out score has stopped rising, or training has left the rails too often."""
    if course.rescues > settings.rescues:
        return True
    in_order = course.epoch == 0 or course.history[-1]["event"] is None
    return in_order and course.epoch - course.best_epoch >= settings.patience


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
    """One pass over the data as one compiled program."""
    shuffle_key, key = jax.random.split(key)
    batches = math.ceil(len(data) / settings.batch_size)
    size = min(settings.batch_size, len(data))
    order = jax.random.permutation(shuffle_key, len(data))
    order = jnp.resize(order, (batches, size))
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
def _score(objective: Objective, model: Any, *, held_out: Any, key: PRNGKeyArray) -> Float[Array, ""]:
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


def _plateau(group: Group, patience: int) -> optax.GradientTransformationExtraArgs:
    smallest = min(1.0, group.minimum / group.rate)
    return optax.contrib.reduce_on_plateau(factor=group.factor, patience=patience, min_scale=smallest)


@eqx.filter_jit
def _watch_plateaus(groups: Groups, patience: int, states: dict[str, Any], value: Float[Array, ""]) -> dict[str, Any]:
    """Optax's plateau schedule of each group, told the newest held-out loss; its `scale` is what we want of it."""
    return {name: _plateau(group, patience).update({}, states[name], value=value)[1] for name, group in groups}


def _mix(average: Any, model: Any, decay: Float[Array, ""]) -> Any:
    def mix(old, new):
        return decay * old + (1 - decay) * new if eqx.is_inexact_array(new) else new

    return jax.tree.map(mix, average, model)


def _trouble(information: dict[str, float], score: float) -> str | None:
    bad = [name for name, value in {**information, "score": score}.items() if not math.isfinite(value)]
    return f"{', '.join(bad)} not finite" if bad else None
