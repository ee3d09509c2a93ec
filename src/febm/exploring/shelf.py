"""The models that are explored, each with what the page has to know of it."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from febm.checks import count
from febm.exploring.latents import Directions, Latents, directions_of, has_latents, latents_of
from febm.exploring.noise import has_scale
from febm.exploring.numerics import domain, grid, inputs_of, outputs_of, quick_effort, resolutions, sight
from febm.models.base import Process
from febm.models.gp import GaussianProcess
from febm.storage import load


@dataclasses.dataclass(frozen=True, eq=False)
class Explored:
    """A fitted model, the file it comes from, and a name that no other model on the shelf has."""

    name: str
    path: Path
    model: Process

    @property
    def inputs(self) -> int:
        """The number of inputs of the functions."""
        return inputs_of(self.model)

    @property
    def is_shown(self) -> bool:
        """Whether there is a picture of such functions: curves of one input, maps of two."""
        return self.inputs in (1, 2)

    @property
    def outputs(self) -> int:
        """The number of outputs of the functions."""
        return outputs_of(self.model)

    @property
    def has_latents(self) -> bool:
        """Whether there are latent directions to drag."""
        return has_latents(self.model)

    @functools.cached_property
    def latents(self) -> Latents:
        """Centre and spread of the latents."""
        return latents_of(self.model)

    @functools.cached_property
    def directions(self) -> Directions:
        """The latent coordinates with a slider."""
        return directions_of(self.model, self.latents, grid(self.model).reshape(-1, self.inputs))

    @functools.cached_property
    def sight(self) -> np.ndarray:
        """The values between which nearly all functions lie, for every output."""
        return sight(self.model)

    def card(self) -> dict[str, Any]:
        """What can be said of the model at once."""
        effort = quick_effort(self.model)
        offered, usual = resolutions(self.model)
        return {
            "name": self.name,
            "path": str(self.path),
            "kind": type(self.model).__name__,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "domain": domain(self.model) if self.is_shown else None,
            "resolutions": offered,
            "resolution": usual,
            "image": self._is_of_images,
            "noise_scale": has_scale(self.model),
            "effort": None if effort is None else {"draws": effort.draws, "full": self._fitted.effort.draws},
            "remarks": self._remarks(),
        }

    def details(self) -> dict[str, Any]:
        """What takes some draws of the prior to say: the range of values, and the latent directions."""
        directions = self.directions if self.has_latents else Directions([], [])
        return {
            "range": self.sight.T.tolist(),
            "directions": [
                {"coordinate": coordinate, "share": share}
                for coordinate, share in zip(directions.coordinates, directions.shares, strict=True)
            ],
            "without_latents": None if self.has_latents else _why_no_latents(self.model),
        }

    @property
    def _fitted(self) -> Any:
        return self.model

    @property
    def _is_of_images(self) -> bool:
        """Whether the first input runs down, as rows of pixels do: those of images fill the unit square."""
        return domain(self.model) == [(0.0, 1.0), (0.0, 1.0)]

    def _remarks(self) -> list[str]:
        remarks = []
        if not self.is_shown:
            remarks.append(
                f"This model is of functions of {count(self.inputs, 'input')}; the page shows functions of one or two."
            )
        if self._fitted.scaling_.outputs == "curve":
            remarks.append(
                "This model standardises every curve by its own mean and spread: without points, values are in "
                "standard deviations, and one point alone says where a curve is but not how wide."
            )
        return remarks


def stock(paths: Sequence[Path]) -> tuple[Explored, ...]:
    """Load the models, in order; files of the same name are told apart by their folders."""
    if not paths:
        raise ValueError("explore: no model is named; give at least one file that `model.save` wrote.")
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"explore: {str(path)!r} is no file; give a model that `model.save` wrote.")
    names = _names(paths)
    models = []
    for name, path in zip(names, paths, strict=True):
        model = load(path)
        if not isinstance(model, Process):
            raise ValueError(f"explore: {str(path)!r} holds a {type(model).__name__}, which is no model of functions.")
        models.append(Explored(name, path, model))
    return tuple(models)


def _names(paths: Sequence[Path]) -> list[str]:
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    whole = [str(path) for path in paths]
    repeated = next((name for name in whole if whole.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"explore: {repeated!r} is named twice; name every model once.")
    return whole


def _why_no_latents(model: Process) -> str:
    if isinstance(model, GaussianProcess):
        return "A Gaussian process has no latent coordinates: its kernel describes whole functions."
    return f"A {type(model).__name__} has no latent coordinates to move."
