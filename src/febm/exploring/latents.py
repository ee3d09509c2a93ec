"""Directions of a latent space: the function μ(z) of a latent that is moved along the coordinates that matter most.

A move is counted in standard deviations of the prior, z = E z + Σ_i s_i·sd(z_i)·e_i.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from febm.checks import count
from febm.inference import draw_prior
from febm.models.base import Process, one_grid
from febm.models.basis_process import PRIOR_STEPS, BasisProcess
from febm.models.functions import Space
from febm.models.neural_process import NeuralProcess
from febm.models.vip import VIP

# Draws of the prior that centre and spread of the latents come from; as many as `numerics` draws, so that a sampler
# is compiled for one number only.
DRAWS = 512
# Coordinates that get a slider, and how far it goes.
SHOWN, FARTHEST = 6, 3.0
# A coordinate that moves the function by a smaller share of what the first does, squared, is not worth a slider.
NEGLIGIBLE = 1e-3


class Latents(NamedTuple):
    """The latent space of a model as its prior fills it."""

    centre: Float[np.ndarray, " latent"]
    spread: Float[np.ndarray, " latent"]


class Directions(NamedTuple):
    """The coordinates that move functions most, the first the most, and the share of all movement that is theirs."""

    coordinates: list[int]
    shares: list[float]


def has_latents(model: Process) -> bool:
    """Whether functions of this model are μ(z) of a latent z."""
    return isinstance(model, BasisProcess | NeuralProcess)


def latents_of(model: Process) -> Latents:
    """Centre and spread of the prior, from the same draws every time."""
    draws = _draws(model)
    return Latents(draws.mean(axis=0), draws.std(axis=0))


def latent_curve(
    model: Process, moved: Mapping[int, float], at: Any, *, latents: Latents | None = None
) -> Float[np.ndarray, "points outputs"]:
    """The function of one latent at the points `at`, in the units of the data.

    Parameters
    ----------
    model
        Fitted, with a latent space: every model but `GaussianProcess`.
    moved
        How many standard deviations of the prior each coordinate is from its mean; others are at their mean.
    at
        Points.
    latents
        What `latents_of(model)` gives, where it is known already.
    """
    latents = latents_of(_with_space(model)) if latents is None else latents
    z = latents.centre.copy()
    for coordinate, steps in moved.items():
        if isinstance(coordinate, bool) or coordinate not in range(len(z)):
            raise ValueError(
                f"latent_curve: moved names coordinate {coordinate!r}; this model has {count(len(z), 'coordinate')}, "
                "counted from 0."
            )
        z[coordinate] += steps * latents.spread[coordinate]
    points = one_grid(at, _space(model).scaling.d_x, "latent_curve")
    return _functions(model, z[None], points)[0]


def directions_of(model: Process, latents: Latents, at: Float[np.ndarray, "points inputs"]) -> Directions:
    """Which coordinates have a slider: a standard deviation either way, and how far apart the two functions are."""
    moves = np.diag(latents.spread)
    ends = _functions(model, np.concatenate([latents.centre + moves, latents.centre - moves]), at)
    upper, lower = np.split(ends, 2)
    effect = np.sum((upper - lower) ** 2, axis=(1, 2))
    order = np.argsort(-effect, kind="stable")[:SHOWN]
    chosen = [int(i) for i in order if effect[i] > NEGLIGIBLE * effect[order[0]]]
    return Directions(chosen, [float(effect[i] / effect.sum()) for i in chosen])


def _draws(model: Process) -> Float[np.ndarray, "draws latent"]:
    if isinstance(model, NeuralProcess):
        return np.asarray(model.network_.prior.sample(jax.random.key(0), DRAWS), dtype=float)
    assert isinstance(model, BasisProcess)
    if isinstance(model, VIP):
        # `sample` draws from the implicit process; what conditions, and has coordinates, is the Gaussian one.
        return draw_prior(model.model_.prior, DRAWS, steps=PRIOR_STEPS, key=jax.random.key(0)).draws
    return model.sample_latents(DRAWS, random_state=0).draws


def _functions(
    model: Process, latents: Float[np.ndarray, "draws latent"], at: Float[np.ndarray, "points inputs"]
) -> Float[np.ndarray, "draws points outputs"]:
    space = _space(model)
    return np.asarray(space.at(at).values(space.weights(latents)))


def _space(model: Process) -> Space:
    _with_space(model)
    assert isinstance(model, BasisProcess | NeuralProcess)
    return model._space


def _with_space(model: Process) -> Process:
    if not has_latents(model):
        raise ValueError(f"latent_curve: a {type(model).__name__} has no latent space; there is no μ(z) to show.")
    return model
