"""One training loop for every learned model: compiled epochs, held-out score, plateau, early stop, rescue.

An `Objective` says what is minimised and how a model is judged on held-out curves; the loop does the rest.
"""

import abc
import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pandas as pd
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

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
) -> Trained:
    """Train `model` and return the state with the best held-out score.

    When an epoch leaves the rails (a value that is not finite, or the objective's own alarm), training goes back to the
    best state with halved rates; after `settings.rescues` such returns it stops there. It does not raise.
    """
    names = tuple(sorted(groups.items()))
    state = start_state(objective, model, names, settings.step)
    score_key, key = jax.random.split(key)
    score_of = functools.partial(_score, objective, held_out=held_out, key=score_key)
    best, best_score, best_epoch = state, float(score_of(model)), 0
    best_score = best_score if math.isfinite(best_score) else -math.inf
    plateaus = {name: _plateau(group, settings.plateau).init({}) for name, group in names}
    slowdown, rescues = 1.0, 0
    history: list[dict[str, Any]] = [{"epoch": 0, "score": best_score, **watch(model)}]
    start = time.perf_counter()
    with progress.task(settings.epochs) as report:
        for epoch in range(1, settings.epochs + 1):
            rates = {name: jnp.asarray(group.rate * slowdown * plateaus[name].scale) for name, group in groups.items()}
            epoch_key = jax.random.fold_in(key, epoch)
            proposal, found = run_epoch(objective, names, settings.step, state, rates, data, epoch_key)
            information = {name: float(value) for name, value in found.items()}
            score = float(score_of(proposal.average))
            reason = _trouble(information, score) or objective.alarm(information)
            row: dict[str, Any] = {"epoch": epoch, "score": score, **information, **watch(proposal.average)}
            row |= {f"rate_{name}": float(rate) for name, rate in rates.items()}
            row |= {"seconds": time.perf_counter() - start, "event": reason}
            history.append(row)
            report(row)
            if reason is not None:
                rescues, slowdown, state = rescues + 1, slowdown / 2, best
                progress.message(f"Epoch {epoch}: {reason}; back to epoch {best_epoch} with half the rate.")
                if rescues > settings.rescues:
                    break
                continue
            state = proposal
            if score > best_score:
                best, best_score, best_epoch = state, score, epoch
            plateaus = _watch_plateaus(names, settings.plateau, plateaus, jnp.asarray(-score))
            if epoch - best_epoch >= settings.patience:
                break
    last = len(history) - 1
    stopped = f"stopped after {last} of {settings.epochs} epochs" if last < settings.epochs else f"ran {last} epochs"
    progress.message(f"Training {stopped} and kept epoch {best_epoch}, held-out score {best_score:.4g}.")
    return Trained(best.average, pd.DataFrame(history))


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
