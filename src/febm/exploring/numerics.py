"""What the page shows of a model: mean, band and draws, of the prior or given the points that were placed.

Functions of one input are shown as curves, functions of two as maps of square cells over the domain.
"""

import copy
import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from febm.curves import Curves
from febm.exploring.noise import with_noise
from febm.exploring.room import with_room
from febm.images import grid2d
from febm.inference import Effort
from febm.models.base import Process
from febm.models.functions import LatentFunctionPosterior

# Points that may be placed.
MOST_POINTS = 100
# Draws in an answer. The page shows the first so many of them: a slider then needs no answer of its own, and the
# samplers of every model, which are compiled for a number of draws, are compiled once. Of maps one is enough to see.
DRAWS, MAP_DRAWS = 50, 1
# Draws that the mean and the band of the prior come from.
PRIOR_DRAWS = 512
# Numbers of points that the page offers, for maps along a side; functions are evaluated by code that is compiled for
# each.
RESOLUTIONS, RESOLUTION = (26, 51, 101, 201, 401), 201
SIDES, SIDE = (14, 20, 28, 40, 56), 28
# Of the draws of the prior, so many are in sight at first.
SIGHT = (0.005, 0.995)
# What a click may cost: half the draws, proposals and particles of `Effort()`, one to two tenths of a second on two
# cores.
QUICK = Effort(draws=256, proposals=1024, particles=128)


@dataclasses.dataclass(frozen=True)
class Placed:
    """A point that was placed: a value of one output."""

    x: float | tuple[float, float]
    y: float
    output: int = 0


@dataclasses.dataclass(frozen=True)
class Question:
    """What is to be shown of a model; the same question has the same answer every time."""

    points: tuple[Placed, ...] = ()
    output: int = 0
    resolution: int | None = None  # None: as at first
    level: float = 0.9
    noise: bool = False  # whether band and draws are of new noisy values
    noise_factor: float = 1.0  # how inexact the points are, in units of the learned noise
    full_effort: bool = False  # the model's own effort, where `quick_effort` would do less
    seed: int = 0


class Answer(NamedTuple):
    """One output of the functions at the points `x`, which are numbers, or pairs where there are two inputs."""

    x: Float[np.ndarray, "points ..."]
    mean: Float[np.ndarray, " points"]
    lower: Float[np.ndarray, " points"]
    upper: Float[np.ndarray, " points"]
    draws: Float[np.ndarray, "draws points"]


def ask(model: Process, question: Question) -> Answer:
    """The posterior given the points of the question; without any, the prior."""
    return _posterior(model, question) if question.points else _prior(model, question)


def grid(model: Process, resolution: int | None = None) -> Float[np.ndarray, "points ..."]:
    """Even points over the domain of the training curves; of two inputs the centres of cells, the last runs fastest."""
    resolution = resolutions(model)[1] if resolution is None else resolution
    ends = domain(model)
    if len(ends) == 1:
        return np.linspace(*ends[0], resolution)
    lower, upper = np.transpose(ends)
    return lower + (upper - lower) * grid2d(resolution, resolution)


def resolutions(model: Process) -> tuple[tuple[int, ...], int]:
    """The resolutions that the page offers, and the one that it begins with."""
    return (RESOLUTIONS, RESOLUTION) if inputs_of(model) == 1 else (SIDES, SIDE)


def domain(model: Any) -> list[tuple[float, float]]:
    """Where the training curves begin and end along each input."""
    return [(float(lower), float(upper)) for lower, upper in model.domain_.T]


def sight(model: Process) -> Float[np.ndarray, "2 outputs"]:
    """For every output the values between which nearly all draws of the prior lie."""
    draws = model.sample(PRIOR_DRAWS, grid(model), random_state=0)
    return np.quantile(draws.y, SIGHT, axis=0)


def context_of(points: tuple[Placed, ...], outputs: int) -> Curves:
    """The points as one curve; of several outputs each point has a value of one."""
    values = np.full((len(points), outputs), np.nan)
    for row, point in enumerate(points):
        values[row, point.output] = point.y
    return Curves.from_arrays([[point.x for point in points]], [values])


def prepared(model: Process, question: Question) -> Process:
    """The model with the noise and the effort of the question; what was loaded stays as it is."""
    model = with_noise(model, question.noise_factor)
    effort = quick_effort(model)
    if effort is None or question.full_effort:
        return model
    return copy.copy(model).set_params(effort=effort)


def quick_effort(model: Any) -> Effort | None:
    """Less work per posterior than the model was told to do; None where it does no more than that anyway."""
    effort = getattr(model, "effort", None)
    if not isinstance(effort, Effort):
        return None
    halved = {name: min(getattr(effort, name), getattr(QUICK, name)) for name in ("draws", "proposals", "particles")}
    quick = dataclasses.replace(effort, **halved)
    return None if quick == effort else quick


def _posterior(model: Process, question: Question) -> Answer:
    at, output = grid(model, question.resolution), question.output
    context = with_room(model, context_of(question.points, outputs_of(model)))
    posterior = prepared(model, question).condition(context, random_state=question.seed)
    if isinstance(posterior, LatentFunctionPosterior):
        posterior._space = EvaluatedOnce(posterior._space)
    lower, upper = posterior.interval(at, question.level, noise=question.noise)
    draws = posterior.sample(draws_of(model), at, noise=question.noise, random_state=question.seed)
    mean = np.asarray(posterior.mean(at))
    return Answer(at, mean[0, :, output], lower[0, :, output], upper[0, :, output], _rows(draws, len(at), output))


class EvaluatedOnce:
    """A space of functions that is evaluated once at points which mean, band and draws are all asked for."""

    def __init__(self, space: Any) -> None:
        self._space = space
        self._last: tuple[np.ndarray, Any] | None = None

    def at(self, points: Float[np.ndarray, "points inputs"]) -> Any:
        """The space at some points."""
        if self._last is None or not np.array_equal(self._last[0], points):
            self._last = points, self._space.at(points)
        return self._last[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._space, name)


def _prior(model: Process, question: Question) -> Answer:
    at, output = grid(model, question.resolution), question.output
    changed = with_noise(model, question.noise_factor)
    draws = changed.sample(PRIOR_DRAWS, at, noise=question.noise, random_state=question.seed)
    values = _rows(draws, len(at), output)
    tails = [(1 - question.level) / 2, (1 + question.level) / 2]
    lower, upper = np.quantile(values, tails, axis=0, method="weibull")
    return Answer(at, values.mean(axis=0), lower, upper, values[: draws_of(model)])


def draws_of(model: Process) -> int:
    """The number of draws in an answer."""
    return DRAWS if inputs_of(model) == 1 else MAP_DRAWS


def inputs_of(model: Any) -> int:
    """The number of inputs of the functions."""
    return model.scaling_.d_x


def outputs_of(model: Any) -> int:
    """The number of outputs of the functions."""
    return model.scaling_.d_y


def _rows(draws: Curves, points: int, output: int) -> Float[np.ndarray, "draws points"]:
    return draws.y[:, output].reshape(len(draws), points)
