"""Gaussian fields, f ~ GP(m, k) and y = f(x) + ε, and functions drawn from them that can be asked for anywhere.

A draw is made once, at fixed nodes Z. At any other point it is what the nodes say and a remainder of its own,

    f(x) = m(x) + k(x, Z) K_ZZ^(−½) w + √v(x) ξ(x),    v(x) = k(x, x) − k(x, Z) K_ZZ⁻¹ k(Z, x),

w ~ N(0, I) and ξ(x) ~ N(0, 1) a fixed function of the point and the draw: variances are exact, and a draw has one value
at a point whichever other points are asked for.
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, PRNGKeyArray, UInt64
from tinygp.kernels import Kernel

from febm.basis import Empirical
from febm.curves import Curves
from febm.kernels import kernel_matrix
from febm.marginal_likelihood import in_float64
from febm.precision import float64
from febm.ragged import bucket
from febm.randomness import numpy_generator

# Nodes on a regular grid of the domain, and, for points outside, of a box three times as wide. In one input the first
# is dense enough for what lies between two nodes to be negligible unless paths are rough.
INNER_NODES = {1: 257, 2: 400}
OUTER_NODES = {1: 769, 2: 961}
MANY_INPUTS = 1000
# The training points are nodes too, if they are not many more than these.
LARGEST_GRID = 1000
# Eigenvalues below this share of the largest are rounding; their variance goes to the remainder.
NEGLIGIBLE = 1e-13
# Points are told apart to this many parts of the domain: the same point reached in two ways differs by rounding only.
RESOLUTION = 2.0**36
# Entries of matrices between points and nodes that are held at once.
BLOCK_VALUES = 1 << 23

Points = Float[np.ndarray, "points inputs"]


class MeanFunction(eqx.Module):
    """A constant for each output, plus the mean function of a basis where there is one."""

    constant: Float[np.ndarray, " outputs"]
    shared: Empirical | None = None

    def __call__(self, x: Points) -> Float[np.ndarray, "points outputs"]:
        """The mean at `x (m, d_x)`: shape `(m, d_y)`."""
        constant = np.broadcast_to(self.constant, (len(x), len(self.constant)))
        return constant.copy() if self.shared is None else constant + self.shared.mean(x)


class Evaluated(NamedTuple):
    """What a draw needs to be known at some points."""

    features: Float[np.ndarray, "points rank"]
    outer: Float[np.ndarray, "points outer_rank"] | None  # None where no point lies outside the domain
    remainder: Float[np.ndarray, " points"]  # √v
    codes: UInt64[np.ndarray, " points"]


class GaussianField(eqx.Module):
    """Mean, kernel and noise of scaled curves, and the nodes of its draws."""

    kernel: Kernel
    noise_variance: float
    mean: MeanFunction
    lower: Float[np.ndarray, " inputs"]
    width: Float[np.ndarray, " inputs"]
    nodes: Float[np.ndarray, "nodes inputs"]
    whitening: Float[np.ndarray, "nodes rank"]  # K_ZZ^(−½)

    def covariance(self, x: Points, other: Points | None = None) -> Float[np.ndarray, "rows columns"]:
        """The matrix k(x, x′)."""
        return kernel_matrix(self.kernel, x, other)

    def variance(self, x: Points) -> Float[np.ndarray, " points"]:
        """k(x, x) at each of the points."""
        padded = np.pad(x, ((0, bucket(len(x), 8) - len(x)), (0, 0)), mode="edge")
        with float64():
            return np.asarray(_diagonal(in_float64(self.kernel), jnp.asarray(padded)))[: len(x)]

    def draw(self, n: int, key: PRNGKeyArray) -> "Draws":
        """`n` functions without their mean."""
        return Draws(self, n, key)

    def at(self, x: Points) -> Evaluated:
        """The points, ready for any number of draws."""
        features = _product(self, x, self.nodes, self.whitening)
        variance = self.variance(x) - np.sum(features**2, axis=1)
        outside = np.any((x < self.lower) | (x > self.lower + self.width), axis=1)
        outer = None
        if outside.any():
            nodes, whitening = self._outer_nodes
            reached = _product(self, x[outside], nodes, whitening) - features[outside] @ self._outer_overlap
            outer = np.zeros((len(x), reached.shape[1]))
            outer[outside] = reached
            variance[outside] -= np.sum(reached**2, axis=1)
        return Evaluated(features, outer, np.sqrt(np.maximum(variance, 0.0)), _codes((x - self.lower) / self.width))

    @functools.cached_property
    def _outer_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes around the domain, and the whitening of what those of the domain do not say of them."""
        nodes = _lattice(self.lower - self.width, 3 * self.width, OUTER_NODES)
        nodes = nodes[np.any((nodes < self.lower) | (nodes > self.lower + self.width), axis=1)]
        features = _product(self, nodes, self.nodes, self.whitening)
        covariance = self.covariance(nodes)
        return nodes, _whitening(covariance - features @ features.T, float(np.trace(covariance)))

    @functools.cached_property
    def _outer_overlap(self) -> np.ndarray:
        nodes, whitening = self._outer_nodes
        return _product(self, nodes, self.nodes, self.whitening).T @ whitening


class Draws:
    """Functions drawn from a field, independent between outputs: weights of the nodes, and seeds of the remainder."""

    def __init__(self, field: GaussianField, n: int, key: PRNGKeyArray) -> None:
        inner_key, self._outer_key = jax.random.split(key)
        generator = numpy_generator(inner_key)
        self._shape = (n, len(field.mean.constant))
        self._weights = generator.standard_normal((*self._shape, field.whitening.shape[1]))
        self._seeds = generator.integers(0, 2**64, size=self._shape, dtype=np.uint64)

    def values(self, there: Evaluated, chosen: slice = slice(None)) -> Float[np.ndarray, "draws points outputs"]:
        """Values of all draws, or of some, without the mean and in scaled units."""
        functions = self._weights[chosen] @ there.features.T
        if there.outer is not None:
            weights = numpy_generator(self._outer_key).standard_normal((*self._shape, there.outer.shape[1]))
            functions += weights[chosen] @ there.outer.T
        functions += there.remainder * _hashed_normal(self._seeds[chosen, :, None] ^ there.codes)
        return np.moveaxis(functions, 1, 2)


def build_field(kernel: Kernel, noise_variance: float, mean: MeanFunction, curves: Curves) -> GaussianField:
    """The field with its nodes: a regular grid of the domain of the curves, and their points where they are few."""
    lower, upper = curves.domain
    width = np.where(upper > lower, upper - lower, 1.0)
    nodes = _lattice(lower, upper - lower, INNER_NODES)
    points = np.unique(curves.x, axis=0)
    if len(points) <= LARGEST_GRID:
        together = np.concatenate([points, nodes])
        codes = np.round((together - lower) / width * RESOLUTION)
        nodes = together[np.sort(np.unique(codes, axis=0, return_index=True)[1])]
    covariance = kernel_matrix(kernel, nodes)
    whitening = _whitening(covariance, float(np.trace(covariance)))
    return GaussianField(kernel, noise_variance, mean, lower, width, nodes, whitening)


def _lattice(lower: np.ndarray, width: np.ndarray, sizes: dict[int, int]) -> np.ndarray:
    varying = int(np.count_nonzero(width > 0))
    side = max(2, round(sizes.get(varying, MANY_INPUTS) ** (1 / max(varying, 1))))
    axes = [
        np.linspace(low, low + wide, side) if wide > 0 else np.array([low])
        for low, wide in zip(lower, width, strict=True)
    ]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(lower))


def _whitening(covariance: np.ndarray, size: float) -> np.ndarray:
    """A^(−½) on the eigenvectors of A that rounding leaves; `size` is the trace before anything was subtracted."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > NEGLIGIBLE * size
    # In the order in which a file gives it back, so that a model that was read rounds as the one that was saved.
    return np.ascontiguousarray(vectors[:, kept] / np.sqrt(values[kept]))


def _product(field: GaussianField, x: np.ndarray, nodes: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """k(x, Z) times a matrix, block by block."""
    rows = max(1, BLOCK_VALUES // len(nodes))
    blocks = [field.covariance(x[start : start + rows], nodes) @ matrix for start in range(0, len(x), rows)]
    return np.concatenate(blocks)


@eqx.filter_jit
def _diagonal(kernel: Kernel, x: Array) -> Array:
    return kernel(x)


def _codes(x: np.ndarray) -> np.ndarray:
    """A number for each point, the same for points that differ by rounding only."""
    places = np.round(x * RESOLUTION).astype(np.int64).view(np.uint64)
    code = np.zeros(len(x), dtype=np.uint64)
    for column in places.T:
        code = _mixed(code ^ column)
    return code


def _hashed_normal(codes: np.ndarray) -> np.ndarray:
    """A standard normal number for each code, as if drawn by chance."""
    uniform = (_mixed(codes) >> np.uint64(11)).astype(np.float64) + 0.5
    return scipy.special.ndtri(uniform * 2.0**-53)


def _mixed(codes: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit in depends on every bit out."""
    codes = codes + np.uint64(0x9E3779B97F4A7C15)
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))
