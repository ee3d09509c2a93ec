"""Curves on a basis: values, mask, mean and features side by side, evaluated once and then only read."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num

from febm import conjugate
from febm.basis import Basis
from febm.conjugate import Projection
from febm.curves import Curves
from febm.gridded import GriddedCurves
from febm.ragged import bucket

T = TypeVar("T")

# Curves whose points come from one grid share their features: one matrix product for a whole batch instead of one
# per curve. A union of points up to this many times the longest curve still costs less than features per curve.
SHARING_LIMIT = 4


class Observations(eqx.Module):
    """Padded values of curves and the basis at their points; a masked value can hold anything.

    With `shared`, all curves live on one set of points, and `mean` and `features` have no curve axis.
    """

    mean: Float[Array | np.ndarray, "*own points outputs"]
    features: Float[Array | np.ndarray, "*own points outputs rank"]
    values: Float[Array | np.ndarray, "*curves points outputs"]
    mask: Bool[Array | np.ndarray, "*curves points outputs"]
    shared: bool = eqx.field(static=True)

    def __len__(self) -> int:
        """Number of curves."""
        return self.values.shape[0]

    def __getitem__(self, curves: Any) -> "Observations":
        """Some of the curves, by an index array (traced or not) or a slice."""
        own = (lambda array: array) if self.shared else (lambda array: array[curves])
        return Observations(own(self.mean), own(self.features), self.values[curves], self.mask[curves], self.shared)

    def each(self, function: Callable[..., T], *batched: Any) -> T:
        """`function(curve, *batched)` for every curve at once; `batched` have a leading curve axis too."""
        if self.shared:
            one = lambda values, mask, *rest: function(  # noqa: E731
                Observations(self.mean, self.features, values, mask, True), *rest
            )
            return jax.vmap(one)(self.values, self.mask, *batched)
        one = lambda mean, features, values, mask, *rest: function(  # noqa: E731
            Observations(mean, features, values, mask, False), *rest
        )
        return jax.vmap(one)(self.mean, self.features, self.values, self.mask, *batched)

    def hide(self, hidden: Bool[Array, "curves points outputs"]) -> "Observations":
        """The same curves with some of their values masked."""
        return eqx.tree_at(lambda tree: tree.mask, self, self.mask & ~hidden)

    def single_precision(self) -> "Observations":
        """The same observations as float32 JAX arrays, for networks and chains."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32 if leaf.dtype.kind == "f" else leaf.dtype), self)


class StoredObservations(eqx.Module):
    """Curves on one grid without gaps, kept as they came: the values of a batch are made when it is asked for."""

    mean: Float[Array, "points outputs"]
    features: Float[Array, "points outputs rank"]
    stored: Num[Array, "curves points outputs"]
    divisor: Float[Array, " outputs"]
    shift: Float[Array, " outputs"]

    def __len__(self) -> int:
        """Number of curves."""
        return self.stored.shape[0]

    def __getitem__(self, curves: Any) -> Observations:
        """Some of the curves, by an index array (traced or not) or a slice."""
        values = self.stored[curves] / self.divisor + self.shift
        return Observations(self.mean, self.features, values, jnp.ones(values.shape, dtype=bool), shared=True)


def observe_stored(basis: Basis, curves: GriddedCurves) -> StoredObservations:
    """Evaluate `basis` at the points of `curves`, for networks and chains; what is stored stays as it is."""
    single = (basis.mean(curves.points), basis.features(curves.points), curves.divisor, curves.shift)
    mean, features, divisor, shift = (jnp.asarray(array, jnp.float32) for array in single)
    return StoredObservations(mean, features, jnp.asarray(curves.stored), divisor, shift)


def project(observed: Observations, rank: int | None = None) -> Projection:
    """The sufficient statistics of host observations on the first `rank` basis functions."""
    features = np.asarray(observed.features)[..., :rank]
    return conjugate.project(
        features, np.asarray(observed.values) - np.asarray(observed.mean), np.asarray(observed.mask)
    )


def project_curves(basis: Basis, curves: Curves, rank: int | None = None) -> Projection:
    """The sufficient statistics of curves on the first `rank` functions of `basis`; of images, some at a time."""
    if not isinstance(curves, GriddedCurves):
        return project(observe(basis, curves), rank)
    mean, features = basis.mean(curves.points), basis.features(curves.points)[..., :rank]
    features = features.reshape(-1, features.shape[-1])
    moment, square = np.empty((len(curves), features.shape[1])), np.empty(len(curves))
    done = 0
    for block in curves.blocks():
        residual = (block.values() - mean).reshape(len(block), -1)
        part = slice(done, done := done + len(block))
        moment[part], square[part] = residual @ features, np.sum(residual**2, axis=1)
    design, size = np.zeros(len(curves), dtype=int), np.full(len(curves), len(features))
    return Projection((features.T @ features)[None], design, moment, square, size)


def observe(basis: Basis, curves: Curves) -> Observations:
    """Evaluate `basis` at the points of `curves`, in float64 on the host."""
    if isinstance(curves, GriddedCurves):
        values = curves.values()
        return _on_grid(basis, curves.points, values, np.ones(values.shape, dtype=bool))
    padded = curves.padded()
    points, index = np.unique(curves.x, axis=0, return_inverse=True)
    if len(points) <= SHARING_LIMIT * padded.x.shape[1] and _points_are_distinct(curves, index):
        return _shared(basis, curves, points, index.reshape(-1))
    flat = padded.x.reshape(-1, curves.d_x)
    shape = padded.mask.shape
    mean, features = basis.mean(flat), basis.features(flat)
    return Observations(mean.reshape(shape), features.reshape(*shape, basis.rank), padded.y, padded.mask, shared=False)


def _points_are_distinct(curves: Curves, index: np.ndarray) -> bool:
    """Whether no curve has two values at one point: only then do its values fit on the shared grid."""
    owner = np.repeat(np.arange(len(curves)), curves.lengths)
    return len(np.unique(np.stack([owner, index.reshape(-1)]), axis=1).T) == len(owner)


def _shared(basis: Basis, curves: Curves, points: np.ndarray, index: np.ndarray) -> Observations:
    owner = np.repeat(np.arange(len(curves)), curves.lengths)
    values = np.zeros((len(curves), len(points), curves.d_y))
    mask = np.zeros(values.shape, dtype=bool)
    values[owner, index] = np.where(np.isnan(curves.y), 0.0, curves.y)
    mask[owner, index] = ~np.isnan(curves.y)
    return _on_grid(basis, points, values, mask)


def _on_grid(basis: Basis, points: np.ndarray, values: np.ndarray, mask: np.ndarray) -> Observations:
    """Curves with the same points, padded to one of few sizes."""
    more = bucket(len(points), 8) - len(points)
    if more:
        values, mask = (np.pad(array, ((0, 0), (0, more), (0, 0))) for array in (values, mask))
    ends = ((0, more), (0, 0))
    mean, features = np.pad(basis.mean(points), ends), np.pad(basis.features(points), (*ends, (0, 0)))
    return Observations(mean, features, values, mask, shared=True)
