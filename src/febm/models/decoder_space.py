"""From latents to functions through a decoder f(x, z): values at any points, in the units of the data."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from febm.models.functions import warn_outside
from febm.neural_process_networks import NeuralProcessNetwork, Predicted, in_chunks
from febm.ragged import bucket
from febm.scaling import Scaling

# Latents decoded together: enough to keep the processor busy, few enough to need little memory.
LATENTS_AT_ONCE = 256


class DecoderSpace(NamedTuple):
    """Everything between a latent and values in the units of the data."""

    network: NeuralProcessNetwork
    scaling: Scaling
    domain: Float[ndarray, "2 inputs"]  # the corners of the box that the training points fill

    def weights(self, latents: Float[ndarray, "draws latent"]) -> Float[ndarray, "draws latent"]:
        """The latents themselves: the decoder has no weights between them and the function."""
        return latents

    def at(self, points: Float[ndarray, "points inputs"]) -> "EvaluatedDecoder":
        """The space at some points, ready to turn latents into values there."""
        warn_outside(points, self.domain)
        return EvaluatedDecoder(self, self.scaling.apply_points(points))

    def at_each(self, points: Sequence[Float[ndarray, "_ inputs"]]) -> Iterator["EvaluatedDecoder"]:
        """The space at the points of one curve after the other."""
        return map(self.at, points)

    @property
    def is_linear(self) -> bool:
        """The mean function is not the function of the mean latent."""
        return False


class EvaluatedDecoder:
    """Functions at fixed points."""

    def __init__(self, space: DecoderSpace, scaled: Float[ndarray, "points inputs"]) -> None:
        self._space = space
        self._count = len(scaled)
        # Few lengths ever occur, so that the decoder is compiled for few.
        size = bucket(len(scaled), 8)
        self._points = np.pad(scaled, ((0, size - len(scaled)), (0, 0)), mode="edge").astype(np.float32)

    def values(
        self, latents: Float[ndarray, "draws latent"], key: PRNGKeyArray | None = None, scaling: Scaling | None = None
    ) -> Float[ndarray, "draws points outputs"]:
        """Values in the units of the data, or of one curve's own `scaling`; a `key` adds observation noise."""
        single = jnp.asarray(latents, jnp.float32)
        mean, scale = in_chunks(_decode, self._space.network, (single,), self._points, size=LATENTS_AT_ONCE)
        functions = mean[:, : self._count].astype(float)
        if key is not None:
            noise = np.asarray(jax.random.normal(key, functions.shape))
            functions = functions + scale[:, : self._count] * noise
        return (scaling or self._space.scaling).invert_values(functions)


@eqx.filter_jit
def _decode(
    network: NeuralProcessNetwork, latents: Float[Array, "draws latent"], points: Float[Array, "points inputs"]
) -> Predicted:
    return jax.vmap(lambda z: network.decode(z, points))(latents)
