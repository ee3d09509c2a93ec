"""Networks on the latent space: a residual MLP, and generators w = μ(z) of the coefficients of a basis.

Hidden layers are h₁ = a(W₁z + b₁) and hₖ = a(Wₖhₖ₋₁ + bₖ) + hₖ₋₁; the output is linear in the last one.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from febm.checks import whole_number


class ResidualMLP(eqx.Module):
    """A perceptron with skip connections between consecutive hidden layers.

    Parameters
    ----------
    in_size : length of the input.
    out_size : length of the output, or "scalar" for an output without axes.
    width : units of every hidden layer.
    depth : number of hidden layers, at least one.
    activation : "relu", "silu", "gelu" or "tanh".
    zero_last : start with an output layer of zeros, so that the network is exactly 0 everywhere.
    key : randomness of the initial weights.
    """

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]
    in_size: int = eqx.field(static=True)
    out_size: int | Literal["scalar"] = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int | Literal["scalar"],
        *,
        width: int = 512,
        depth: int = 3,
        activation: str = "relu",
        zero_last: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        in_size = whole_number("ResidualMLP: in_size", in_size)
        outputs = 1 if out_size == "scalar" else whole_number("ResidualMLP: out_size", out_size)
        width = whole_number("ResidualMLP: width", width)
        depth = whole_number("ResidualMLP: depth", depth)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"ResidualMLP: activation is {activation!r}; choose one of {', '.join(sorted(ACTIVATIONS))}."
            )
        sizes = [in_size, *[width] * depth, outputs]
        shapes = list(pairwise(sizes))
        gains = [_GAINS[activation]] * depth + [0.0 if zero_last else 1.0]
        keys = jax.random.split(key, depth + 1)
        self.weights = tuple(_normal(*layer) for layer in zip(keys, shapes, gains, strict=True))
        self.biases = tuple(jnp.zeros(size, jnp.float32) for size in sizes[1:])
        self.in_size = in_size
        self.out_size = "scalar" if out_size == "scalar" else outputs
        self.activation = activation

    def __call__(self, z: Float[Array, " in_size"]) -> Float[Array, "*out_size"]:
        """The output for one input; batches are the caller's `vmap`."""
        activate = ACTIVATIONS[self.activation]
        first, *inner, last = zip(self.weights, self.biases, strict=True)
        hidden = activate(z @ first[0] + first[1])
        for weight, bias in inner:
            hidden = activate(hidden @ weight + bias) + hidden
        output = hidden @ last[0] + last[1]
        return output[0] if self.out_size == "scalar" else output


class Committee(eqx.Module):
    """The mean of networks of one shape: where one has overfitted another has not.

    Parameters
    ----------
    members : the networks, the arrays of all of them stacked; `Committee.of` does that.
    """

    members: ResidualMLP

    @classmethod
    def of(cls, networks: Sequence[ResidualMLP]) -> "Committee":
        """The committee of some networks."""
        return cls(jax.tree.map(lambda *arrays: jnp.stack(arrays), *networks))

    @property
    def in_size(self) -> int:
        """Length of the input."""
        return self.members.in_size

    @property
    def out_size(self) -> int | Literal["scalar"]:
        """Length of the output, or "scalar"."""
        return self.members.out_size

    def __call__(self, z: Float[Array, " in_size"]) -> Float[Array, "*out_size"]:
        """The mean output for one input; batches are the caller's `vmap`."""
        return jnp.mean(eqx.filter_vmap(lambda member: member(z))(self.members), axis=0)


class Generator(eqx.Module):
    """A map from one latent z to the coefficients w of a basis."""

    latent_dim: eqx.AbstractVar[int]
    rank: eqx.AbstractVar[int]

    @abstractmethod
    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, " rank"]:
        """The coefficients of one latent; batches are the caller's `vmap`."""


class LinearGenerator(Generator):
    """w = z, followed by zeros up to the rank: the path measure itself."""

    latent_dim: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(self, latent_dim: int, rank: int) -> None:
        self.latent_dim, self.rank = _sizes("LinearGenerator", latent_dim, rank)

    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, " rank"]:
        """The coefficients of one latent."""
        return _pad(z, self.rank)


class RoughGenerator(Generator):
    """w = (z₁, …, z_l, e^t z_{l+2}, …): the leading coefficients, and a tail of the roughness e^t, t = z_{l+1}.

    The noise of a curve is as much larger as its tail: see `log_roughness`.

    Parameters
    ----------
    leading : l.
    rank : number of coefficients.
    """

    leading: int = eqx.field(static=True)
    latent_dim: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(self, leading: int, rank: int) -> None:
        self.leading, self.rank = _sizes("RoughGenerator", leading, rank)
        self.latent_dim = self.rank + 1

    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, " rank"]:
        """The coefficients of one latent."""
        return jnp.concatenate([z[: self.leading], jnp.exp(self.log_roughness(z)) * z[self.leading + 1 :]])

    def log_roughness(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """The logarithm t of the roughness of one latent."""
        return z[self.leading]


class ResidualGenerator(Generator):
    """w = pad(z) + r(z), a correction r of the path measure.

    With an output layer of zeros (`ResidualMLP(..., zero_last=True)`) training starts at the path measure.

    Parameters
    ----------
    network : r. It maps `latent_dim` to `rank`, or `leading` to `leading` where that is given.
    rank : number of coefficients.
    leading : r sees and changes only this many leading coordinates. None: all of them.
    latent_dim : length of z; by default what the network takes, or the rank where `leading` is given.
    """

    network: ResidualMLP
    latent_dim: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    leading: int | None = eqx.field(static=True)

    def __init__(
        self, network: ResidualMLP, rank: int, *, leading: int | None = None, latent_dim: int | None = None
    ) -> None:
        if latent_dim is None:
            latent_dim = network.in_size if leading is None else rank
        latent_dim, rank = _sizes("ResidualGenerator", latent_dim, rank)
        if leading is not None and not 1 <= leading <= latent_dim:
            raise ValueError(
                f"ResidualGenerator: leading is {leading}; give None, or a number from 1 to latent_dim = {latent_dim}."
            )
        wanted = (latent_dim, rank) if leading is None else (leading, leading)
        if (network.in_size, network.out_size) != wanted:
            raise ValueError(
                f"ResidualGenerator: the network maps {network.in_size} to {network.out_size} values; "
                f"with latent_dim={latent_dim}, rank={rank}, leading={leading} "
                f"it has to map {wanted[0]} to {wanted[1]}."
            )
        self.network = network
        self.latent_dim = latent_dim
        self.rank = rank
        self.leading = leading

    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, " rank"]:
        """The coefficients of one latent."""
        if self.leading is None:
            return _pad(z, self.rank) + self.network(z)
        head, tail = z[: self.leading], z[self.leading :]
        return _pad(jnp.concatenate([head + self.network(head), tail]), self.rank)


class NetworkGenerator(Generator):
    """w = μ(z) with a network μ, as in the paper."""

    network: ResidualMLP
    latent_dim: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(self, network: ResidualMLP) -> None:
        if network.out_size == "scalar":
            raise ValueError("NetworkGenerator: the network has a scalar output; give it out_size = rank of the basis.")
        self.network = network
        self.latent_dim = network.in_size
        self.rank = network.out_size

    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, " rank"]:
        """The coefficients of one latent."""
        return self.network(z)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "tanh": jnp.tanh,
}

# Weights ~ N(0, gain / fan_in). A rectifier halves the second moment of its input (He et al., 2015); its
# smooth relatives are close enough to share the factor 2. The hyperbolic tangent is the identity near 0
# (LeCun et al., 1998).
_GAINS = {"relu": 2.0, "silu": 2.0, "gelu": 2.0, "tanh": 1.0}


def _normal(key: PRNGKeyArray, shape: tuple[int, int], gain: float) -> Float[Array, "fan_in fan_out"]:
    return sqrt(gain / shape[0]) * jax.random.normal(key, shape, jnp.float32)


def _pad(z: Float[Array, " latent"], rank: int) -> Float[Array, " rank"]:
    missing = rank - z.shape[0]
    return jnp.concatenate([z, jnp.zeros(missing, z.dtype)]) if missing else z


def _sizes(owner: str, latent_dim: int, rank: int) -> tuple[int, int]:
    latent_dim = whole_number(f"{owner}: latent_dim", latent_dim)
    rank = whole_number(f"{owner}: rank", rank)
    if latent_dim > rank:
        raise ValueError(
            f"{owner}: latent_dim is {latent_dim} but the basis has only {rank} functions; "
            f"take latent_dim of at most {rank}, or a NetworkGenerator."
        )
    return latent_dim, rank
