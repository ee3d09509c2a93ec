"""Bases that are learned: f(x) = m(x) + φ(x)·w, w ~ N(0, I), where a trained network gives m and φ.

A `FeatureMap` is what is trained; `Learned` is the basis that a trained one amounts to, on its principal axes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, PRNGKeyArray

from febm.basis.base import Basis
from febm.basis.enriched import lowest_orders
from febm.curves import Curves
from febm.networks import ResidualMLP
from febm.precision import float64
from febm.ragged import bucket

# Eigenvalues below this share of the largest are rounding errors of the features.
NEGLIGIBLE = 1e-12
# How many are evaluated in one go: the functions of a `VIP` keep 200 kB for each.
POINTS_AT_ONCE = 1024


Map = TypeVar("Map", bound="FeatureMap")


class Evaluated(NamedTuple):
    """A feature map at some points."""

    mean: Any  # (points, outputs), of JAX where it is trained and of NumPy on the host
    features: Any  # (points, outputs, rank)


class FeatureMap(eqx.Module):
    """A mean function and features, both with parameters to learn."""

    @abstractmethod
    def __call__(self, x: Float[Array, "points inputs"]) -> Evaluated:
        """Mean and features at the points `x`."""

    def redrawn(self, key: PRNGKeyArray) -> Self:
        """The same map with fresh randomness in it, where it has any."""
        return self


class StationaryFeatures(eqx.Module):
    """A Matérn kernel on the unit box as features: products of cosines, weighted by its spectral density.

    √S(|ω_j|)·∏ √2 cos(πk_j x), ω_j = πk_j (Solin and Särkkä, 2020). Size, length and smoothness are learned.
    Near the ends of the box, where all slopes vanish, it is not stationary: the variance is larger there.
    """

    orders: Float[Array, "rank inputs"]  # k_j, half cycles across the box
    log_size: Float[Array, ""]
    log_length: Float[Array, ""]
    log_smoothness: Float[Array, ""]

    @classmethod
    def start(cls, rank: int, inputs: int) -> StationaryFeatures:
        """The `rank` lowest frequencies; functions of unit variance, length 1/5 and smoothness 1."""
        numbers = (jnp.asarray(value, jnp.float32) for value in (0.0, np.log(0.2), 0.0))
        return cls(jnp.asarray(lowest_orders(rank, inputs), jnp.float32), *numbers)

    def __call__(self, x: Float[Array, "points inputs"]) -> Float[Array, "points rank"]:
        """The features at the points `x`."""
        smoothness = jnp.exp(self.log_smoothness)
        squares = jnp.sum(jnp.square(np.pi * self.orders), axis=1)
        decay = jnp.log1p(squares * jnp.exp(2 * self.log_length) / (2 * smoothness))
        # Shares of the variance, so that the size does not change with the length.
        shares = jax.nn.softmax(-(smoothness + self.orders.shape[1] / 2) * decay)
        cosines = jnp.cos(np.pi * x[:, None] * self.orders) * jnp.where(self.orders == 0, 1.0, np.sqrt(2))
        return jnp.exp(self.log_size) * jnp.sqrt(shares) * jnp.prod(cosines, axis=-1)


class FeatureNetwork(FeatureMap):
    """One network of x whose outputs are the features, and the mean unless that is zero.

    Beside the features of the network there may be those of a stationary kernel, the same for each output.
    """

    frequencies: Float[Array, "waves inputs"]
    network: ResidualMLP
    outputs: int = eqx.field(static=True)
    has_mean: bool = eqx.field(static=True)
    stationary: StationaryFeatures | None = None

    def __call__(self, x: Float[Array, "points inputs"]) -> Evaluated:
        """Mean and features at the points `x`."""
        found = jax.vmap(self.network)(embed(x, self.frequencies)).reshape(len(x), self.outputs, -1)
        mean, features = (found[..., 0], found[..., 1:]) if self.has_mean else (0.0 * found[..., 0], found)
        # So that a network at its start has functions of about unit variance, whatever the number of features.
        features = features / np.sqrt(features.shape[-1])
        if self.stationary is None:
            return Evaluated(mean, features)
        own = jnp.einsum("pr,oq->poqr", self.stationary(x), jnp.eye(self.outputs)).reshape(len(x), self.outputs, -1)
        return Evaluated(mean, jnp.concatenate([features, own], axis=-1))


class FunctionSampler(FeatureMap):
    """S functions f_s = g(·, z_s) of a network g: their mean, and features (f_s − mean)/√S."""

    frequencies: Float[Array, "waves inputs"]
    network: ResidualMLP
    latents: Float[Array, "functions latent"]

    def functions(
        self, x: Float[Array, "points inputs"], latents: Float[Array, "functions latent"]
    ) -> Float[Array, "functions points outputs"]:
        """The functions g(·, z) at the points `x`."""
        embedded = embed(x, self.frequencies)

        def value(z: Float[Array, " latent"], place: Float[Array, " embedded"]) -> Float[Array, " outputs"]:
            return self.network(jnp.concatenate([place, z]))

        return jax.vmap(jax.vmap(value, (None, 0)), (0, None))(latents, embedded)

    def __call__(self, x: Float[Array, "points inputs"]) -> Evaluated:
        """The moments of the functions at the points `x`."""
        functions = self.functions(x, self.latents)
        mean = jnp.mean(functions, axis=0)
        return Evaluated(mean, jnp.moveaxis(functions - mean, 0, -1) / np.sqrt(len(self.latents)))

    def redrawn(self, key: PRNGKeyArray) -> Self:
        """The same network with fresh z_s."""
        fresh = jax.random.normal(key, self.latents.shape, self.latents.dtype)
        return eqx.tree_at(lambda sampler: sampler.latents, self, fresh)


class Learned(Basis):
    """The basis of a trained feature map.

    `fit` turns the features to their principal axes over the points of the curves, which leaves the process as it is
    and puts the columns in order. The eigenvalues are mean squares of the features over those points.

    Parameters
    ----------
    map : a trained feature map.
    noise_variance : of the observations, as found in training; None if unknown.
    """

    map: FeatureMap
    noise: float | None = eqx.field(static=True)
    rotation: Float[np.ndarray, "features rank"] | None
    eigenvalues: Float[np.ndarray, " rank"] | None

    def __init__(self, map: FeatureMap, *, noise_variance: float | None = None) -> None:
        self.map = map
        self.noise = noise_variance
        self.rotation = None
        self.eigenvalues = None

    def fit(self, curves: Curves, *, key: PRNGKeyArray | None = None) -> Learned:
        """A copy on the principal axes of `curves`; nothing is drawn."""
        points, count = np.unique(curves.x, axis=0, return_counts=True)
        weighted = evaluate(self.map, points).features * np.sqrt(count / count.sum())[:, None, None]
        flat = weighted.reshape(-1, weighted.shape[-1])
        _, sizes, axes = scipy.linalg.svd(flat, full_matrices=False)
        values = np.square(sizes)
        kept = values > NEGLIGIBLE * values[0]
        kept[0] = True
        return eqx.tree_at(
            lambda basis: (basis.rotation, basis.eigenvalues),
            self,
            (np.ascontiguousarray(axes[kept].T), values[kept]),
            is_leaf=lambda value: value is None,
        )

    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """The learned mean function."""
        return evaluate(self.map, x).mean

    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """Φ(x) on the principal axes."""
        self.require_fitted()
        return evaluate(self.map, x).features @ self.rotation

    @property
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """The mean squares of the features over the points of the curves, falling."""
        self.require_fitted()
        assert self.eigenvalues is not None
        return self.eigenvalues

    @property
    def noise_variance(self) -> float | None:
        """The noise variance found in training."""
        return self.noise

    @property
    def is_fitted(self) -> bool:
        """Whether the principal axes are known."""
        return self.rotation is not None


class DrawnFunctions(Basis):
    """Functions of a sampler as a basis: weight one on a column is that function."""

    sampler: FunctionSampler
    latents: Float[np.ndarray, "functions latent"]

    def fit(self, curves: Curves, *, key: PRNGKeyArray) -> DrawnFunctions:
        """The same basis: its functions are drawn already."""
        return self

    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """Zero."""
        return np.zeros((len(x), int(self.sampler.network.weights[-1].shape[1])))

    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """The functions at `x`."""
        padded = _padded(x)
        with float64():
            functions = _compiled_functions(in_double_precision(self.sampler), padded, self.latents)
            return np.moveaxis(np.asarray(functions), 0, -1)[: len(x)]

    @property
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """Ones: no function comes before another."""
        return np.ones(len(self.latents))

    @property
    def noise_variance(self) -> None:
        """Functions have no noise."""
        return None

    @property
    def is_fitted(self) -> bool:
        """Always."""
        return True


def evaluate(feature_map: FeatureMap, x: np.ndarray) -> Evaluated:
    """A feature map in float64 on the host, so that a value does not depend on the points evaluated beside it.

    Curves may share their points: each is evaluated once, and not too many at a time.
    """
    wide = in_double_precision(feature_map)
    distinct, place = np.unique(x, axis=0, return_inverse=True)
    starts = range(0, max(1, len(distinct)), POINTS_AT_ONCE)
    with float64():
        parts = [_evaluate_some(wide, distinct[start : start + POINTS_AT_ONCE]) for start in starts]
    return Evaluated(*(np.concatenate(part)[place.reshape(-1)] for part in zip(*parts, strict=True)))


def _evaluate_some(feature_map: FeatureMap, x: np.ndarray) -> Evaluated:
    mean, features = _compiled(feature_map, _padded(x))
    return Evaluated(np.asarray(mean)[: len(x)], np.asarray(features)[: len(x)])


def _padded(x: np.ndarray) -> Float[np.ndarray, "padded inputs"]:
    """Points followed by zeros: numbers of points that are nearly the same then share a compilation."""
    padded = np.zeros((bucket(len(x), 8), x.shape[1]))
    padded[: len(x)] = x
    return padded


def in_double_precision(feature_map: Map) -> Map:
    """The same map with its parameters as float64 on the host."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64) if eqx.is_inexact_array(leaf) else leaf, feature_map)


@eqx.filter_jit
def _compiled(feature_map: FeatureMap, x: Any) -> Evaluated:
    return feature_map(x)


@eqx.filter_jit
def _compiled_functions(sampler: FunctionSampler, x: Any, latents: Any) -> Float[Array, "functions points outputs"]:
    return sampler.functions(x, latents)


def embed(x: Float[Array, "points inputs"], frequencies: Float[Array, "waves inputs"]) -> Float[Array, "points _"]:
    """x beside the cosines and sines of its waves: networks of x alone are slow to learn detail."""
    centred = 2 * x - 1
    if not len(frequencies):
        return centred
    angles = 2 * np.pi * (x @ frequencies.T)
    return jnp.concatenate([centred, jnp.cos(angles), jnp.sin(angles)], axis=1)


def draw_frequencies(
    waves: int, curves: Curves, key: PRNGKeyArray, highest: float | None = None
) -> Float[Array, "waves inputs"]:
    """Waves in random directions, from a quarter of a cycle across the unit box to what the points of a curve resolve.

    A curve of n points shows n/2 cycles at most. Waves stop at half of that, so that a network has no means to put
    detail between the points of a grid, where nothing would contradict it.
    """
    direction_key, length_key = jax.random.split(key)
    if highest is None:
        highest = max(1.0, float(np.median(curves.lengths)) ** (1 / curves.d_x) / 4)
    directions = jax.random.normal(direction_key, (waves, curves.d_x))
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
    # Lengths on a ladder, so that no octave is left out by chance.
    ladder = np.geomspace(0.25, highest, max(waves, 1))[:waves]
    jitter = jax.random.uniform(length_key, (waves,), minval=0.9, maxval=1.1)
    return (directions * (jnp.asarray(ladder, jnp.float32) * jitter)[:, None]).astype(jnp.float32)
