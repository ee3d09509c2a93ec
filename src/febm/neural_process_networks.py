"""The networks of a neural process: pairs (x, y) in, a Gaussian over z out, and from z a function of x.

    r = mean_i h(x_i, y_i),    q(z | pairs) = N(μ(r), diag σ(r)²),    p(y | x, z) = N(f(x, z), s(x, z)²)

Without any pair, q(z | ∅) is the standard normal prior p(z).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from febm.curves import Curves
from febm.likelihoods import LOG_2PI
from febm.networks import ResidualMLP


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Sizes and ranges of the networks.

    Attributes
    ----------
    width, depth, activation
        Of the encoder of pairs, the head on their mean, and the decoder.
    representation
        Length of the mean r of the encoded pairs.
    frequencies
        Every input is joined by sin(πkx) and cos(πkx) for k up to this number; 0: the input alone.
    noise
        "constant": one learned scale for each output; "network": s(x, z) from the decoder.
    smallest_noise, noise_slope
        s = smallest_noise + noise_slope·softplus(·), in the units of the scaled outputs.
    noise_range
        What the decoder adds to the argument of that softplus stays between ± this. Where noise may be anything, a
        curve unlike all others is best explained as noise; where it may not, the latents have to follow it.
    smallest_spread
        σ = smallest_spread + (1 − smallest_spread)·sigmoid(·).
    """

    width: int = 64
    depth: int = 3
    activation: str = "silu"
    representation: int = 64
    frequencies: int = 8
    noise: str = "network"
    smallest_noise: float = 1e-2
    noise_slope: float = 1.0
    noise_range: float = 1.0
    smallest_spread: float = 1e-3


# Curves computed together: enough to keep the processor busy, few enough to need little memory.
CURVES_AT_ONCE = 16


class Pairs(eqx.Module):
    """Padded points and values of curves; what is masked can hold anything."""

    x: Float[Array, "*curves points inputs"]
    y: Float[Array, "*curves points outputs"]
    mask: Bool[Array, "*curves points outputs"]

    def __len__(self) -> int:
        """Number of curves."""
        return self.y.shape[0]

    def __getitem__(self, curves: Any) -> "Pairs":
        """Some of the curves, by an index array (traced or not) or a slice."""
        return Pairs(self.x[curves], self.y[curves], self.mask[curves])

    def keep(self, kept: Bool[Array, "*curves points"]) -> "Pairs":
        """The same curves with only some of their points observed."""
        return Pairs(self.x, self.y, self.mask & kept[..., None])


def as_pairs(curves: Curves) -> Pairs:
    """Scaled curves as float32 arrays, padded to one of few lengths so that a compiled function meets few shapes."""
    padded = curves.padded(1)
    more = _length(padded.x.shape[1]) - padded.x.shape[1]
    x, y, mask = (np.pad(part, ((0, 0), (0, more), (0, 0))) for part in (padded.x, padded.y, padded.mask))
    return Pairs(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.asarray(mask))


def _length(longest: int) -> int:
    """At least 16, and from there four lengths to a doubling."""
    step = max(4, (1 << (longest - 1).bit_length()) // 8)
    return max(16, -(-longest // step) * step)


class Diagonal(NamedTuple):
    """A Gaussian over z with independent coordinates."""

    mean: Float[Array, " latent"]
    scale: Float[Array, " latent"]

    def log_density(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """Normalised log density of one latent."""
        return jnp.sum(-0.5 * jnp.square((z - self.mean) / self.scale) - jnp.log(self.scale) - 0.5 * LOG_2PI)

    def sample(self, key: PRNGKeyArray, draws: int) -> Float[Array, "draws latent"]:
        """Independent draws."""
        return self.mean + self.scale * jax.random.normal(key, (draws, *self.mean.shape), self.mean.dtype)

    def divergence(self, other: "Diagonal") -> Float[Array, ""]:
        """KL(self ‖ other)."""
        ratio = jnp.square(self.scale / other.scale)
        distance = jnp.square((self.mean - other.mean) / other.scale)
        return 0.5 * jnp.sum(ratio + distance - 1 - jnp.log(ratio))


class Predicted(NamedTuple):
    """Mean and scale of the values at some points, given one latent."""

    mean: Float[Array, "points outputs"]
    scale: Float[Array, "points outputs"]


class NeuralProcessNetwork(eqx.Module):
    """Encoder q(z | pairs) and decoder p(y | x, z), for one curve; batches are the caller's `vmap`."""

    encoder: ResidualMLP
    head: ResidualMLP
    decoder: ResidualMLP
    noise: Float[Array, " outputs"]  # before the softplus; added to what the decoder says, where it says anything
    latent_dim: int = eqx.field(static=True)
    architecture: Architecture = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, latent_dim: int, architecture: Architecture, *, key: PRNGKeyArray
    ) -> None:
        keys = jax.random.split(key, 3)
        sizes = {name: getattr(architecture, name) for name in ("width", "depth", "activation")}
        features = inputs * (1 + 2 * architecture.frequencies)
        decoded = outputs * (2 if architecture.noise == "network" else 1)
        self.encoder = ResidualMLP(features + 2 * outputs, architecture.representation, **sizes, key=keys[0])
        self.head = ResidualMLP(
            architecture.representation + 1, 2 * latent_dim, **{**sizes, "depth": 1}, zero_last=True, key=keys[1]
        )
        self.decoder = ResidualMLP(features + latent_dim, decoded, **sizes, key=keys[2])
        self.noise = jnp.zeros(outputs, jnp.float32)
        self.latent_dim = latent_dim
        self.architecture = architecture

    @property
    def prior(self) -> Diagonal:
        """p(z) = q(z | ∅), the standard normal."""
        return Diagonal(jnp.zeros(self.latent_dim), jnp.ones(self.latent_dim))

    def encode(self, pairs: Pairs) -> Diagonal:
        """q(z | pairs)."""
        return self._told(self._encoded(pairs), jnp.any(pairs.mask, axis=-1))

    def encode_both(self, pairs: Pairs, kept: Bool[Array, " points"]) -> tuple[Diagonal, Diagonal]:
        """q(z | pairs) and q(z | those that are kept), with every pair encoded once."""
        encoded, present = self._encoded(pairs), jnp.any(pairs.mask, axis=-1)
        return self._told(encoded, present), self._told(encoded, present & kept)

    def decode(self, z: Float[Array, " latent"], x: Float[Array, "points inputs"]) -> Predicted:
        """Mean and scale of the values at the points `x`."""
        features = self._features(x)
        together = jnp.concatenate([jnp.broadcast_to(z, (len(x), self.latent_dim)), features], axis=-1)
        decoded = jax.vmap(self.decoder)(together)
        outputs = len(self.noise)
        mean, spread = decoded[:, :outputs], decoded[:, outputs:]
        if self.architecture.noise == "constant":
            spread = jnp.zeros_like(mean)
        settings = self.architecture
        if np.isfinite(settings.noise_range):
            spread = settings.noise_range * jnp.tanh(spread / settings.noise_range)
        return Predicted(mean, settings.smallest_noise + settings.noise_slope * jax.nn.softplus(spread + self.noise))

    def log_likelihood(self, z: Float[Array, " latent"], pairs: Pairs) -> Float[Array, ""]:
        """log p(y | x, z) of the observed values."""
        mean, scale = self.decode(z, pairs.x)
        standard = jnp.where(pairs.mask, pairs.y - mean, 0.0) / scale
        return jnp.sum(jnp.where(pairs.mask, -0.5 * jnp.square(standard) - jnp.log(scale) - 0.5 * LOG_2PI, 0.0))

    def _encoded(self, pairs: Pairs) -> Float[Array, "points representation"]:
        # A missing value is zero and says so: the encoder sees which of the outputs are there.
        values = jnp.where(pairs.mask, pairs.y, 0.0)
        features = jnp.concatenate([self._features(pairs.x), values, pairs.mask.astype(values.dtype)], axis=-1)
        return jax.vmap(self.encoder)(features)

    def _told(self, encoded: Float[Array, "points representation"], present: Bool[Array, " points"]) -> Diagonal:
        """What the head makes of the mean of the encoded pairs that are present."""
        count = jnp.sum(present)
        mean = jnp.sum(jnp.where(present[:, None], encoded, 0.0), axis=0) / jnp.maximum(count, 1)
        # The mean forgets how many pairs there were, on which the spread of z depends.
        location, spread = jnp.split(self.head(jnp.append(mean, 1 / (1 + count))), 2)
        smallest = self.architecture.smallest_spread
        scale = smallest + (1 - smallest) * jax.nn.sigmoid(spread)
        return Diagonal(jnp.where(count > 0, location, 0.0), jnp.where(count > 0, scale, 1.0))

    def _features(self, x: Float[Array, "points inputs"]) -> Float[Array, "points features"]:
        # A half period over the unit box: the two ends of the domain are not neighbours.
        angles = np.pi * jnp.arange(1, self.architecture.frequencies + 1) * x[..., None]
        waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        return jnp.concatenate([2 * x - 1, waves.reshape(len(x), -1)], axis=-1)


def in_chunks(
    function: Callable[..., Any],
    network: NeuralProcessNetwork,
    arguments: tuple[Any, ...],
    *more: Any,
    size: int = CURVES_AT_ONCE,
) -> Any:
    """`function(network, *arguments, *more)`, `size` entries of the arguments at a time, as NumPy arrays.

    The last chunk is filled up with copies, so that a compiled function meets few shapes however many there are.
    """
    count = len(jax.tree.leaves(arguments)[0])
    size = min(size, 1 << (count - 1).bit_length())
    found = []
    for start in range(0, count, size):
        index = np.minimum(np.arange(start, start + size), count - 1)
        found.append(jax.tree.map(np.asarray, function(network, *_take(arguments, index), *more)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *found)


def _take(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)
