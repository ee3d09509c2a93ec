"""Smooth functions in order of roughness, orthonormal on a box: what smoothed curves are made of.

One or two inputs: products of the functions that solve ∫ b″ v″ = ρ ∫ b v among cubic splines. More inputs:
the Nyström eigenfunctions of a Matérn-5/2 kernel at some of the training points.
"""

from __future__ import annotations

import itertools
from typing import Self, TypeAlias

import equinox as eqx
import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float
from numpy.polynomial.legendre import leggauss
from scipy.interpolate import BSpline
from scipy.spatial.distance import cdist

from febm.curves import Curves

PENALTY = 1e-2  # a function of roughness ρ starts with the variance 1/(1 + PENALTY·ρ)
LANDMARKS = 400
LENGTH_SCALE = 0.5  # of the Matérn-5/2 kernel, in sides of the box and times √d_x, the box's diagonal

Points: TypeAlias = Float[np.ndarray, "points inputs"]


class SplineDictionary(eqx.Module):
    """Demmler–Reinsch functions of tensor-product cubic splines with equal knots; the constant is first.

    `decay` falls with roughness from 1: the variance that a smooth process would give each function.
    """

    lower: np.ndarray
    upper: np.ndarray
    knots: np.ndarray
    transform: np.ndarray
    decay: np.ndarray

    def __init__(self, lower: np.ndarray, upper: np.ndarray, size: int) -> None:
        self.lower, self.upper = np.array(lower), np.array(upper)
        d_x = len(self.lower)
        # Twice as many knots as functions leaves the functions free to take their smooth shape.
        intervals = max(20, 2 * size) if d_x == 1 else 4 + 2 * int(np.ceil(size ** (1 / d_x)))
        breaks = np.linspace(0.0, 1.0, intervals + 1)
        self.knots = np.concatenate([np.zeros(3), breaks, np.ones(3)])
        roughness, vectors = _demmler_reinsch(self.knots, breaks)
        products = np.array(list(itertools.product(range(len(roughness)), repeat=d_x)))
        total = roughness[products].sum(axis=1)
        chosen = np.argsort(total, kind="stable")[:size]
        transform = np.ones((1, len(chosen)))
        for axis in range(d_x):
            transform = (transform[:, None] * vectors[:, products[chosen, axis]][None]).reshape(-1, len(chosen))
        self.transform = transform
        self.decay = 1 / (1 + PENALTY * total[chosen])

    @property
    def size(self) -> int:
        """The number of functions."""
        return self.transform.shape[1]

    def design(self, x: Points) -> scipy.sparse.csr_array:
        """The splines that the functions are combinations of, at `x` inside the box."""
        unit = np.clip((x - self.lower) / np.where(self.upper > self.lower, self.upper - self.lower, 1.0), 0, 1)
        index, weight = np.zeros((len(x), 1), dtype=np.int64), np.ones((len(x), 1))
        for column in unit.T:
            axis = BSpline.design_matrix(column, self.knots, 3)
            index = (index[:, :, None] * axis.shape[1] + axis.indices.reshape(-1, 1, 4)).reshape(len(x), -1)
            weight = (weight[:, :, None] * axis.data.reshape(-1, 1, 4)).reshape(len(x), -1)
        rows = np.arange(0, index.size + 1, index.shape[1])
        shape = (len(x), self.transform.shape[0])
        return scipy.sparse.csr_array((weight.ravel(), index.ravel(), rows), shape=shape)

    def __call__(self, x: Points) -> Float[np.ndarray, "points functions"]:
        """The functions at `x (m, d_x)` inside the box."""
        return self.design(x) @ self.transform

    def leading(self, size: int) -> Self:
        """The dictionary of the smoothest functions of this one."""
        return eqx.tree_at(lambda d: (d.transform, d.decay), self, (self.transform[:, :size], self.decay[:size]))


class KernelDictionary(eqx.Module):
    """Nyström eigenfunctions of a Matérn-5/2 kernel, orthonormal on the landmarks; the constant is first."""

    lower: np.ndarray
    upper: np.ndarray
    landmarks: np.ndarray
    transform: np.ndarray
    decay: np.ndarray

    def __init__(self, lower: np.ndarray, upper: np.ndarray, size: int, landmarks: Points) -> None:
        self.lower, self.upper, self.landmarks = np.array(lower), np.array(upper), np.array(landmarks)
        count = len(self.landmarks)
        covariance = self.design(self.landmarks)[:, :count]
        # The constant is a function of its own, so the others are made orthogonal to it.
        level = covariance.mean(axis=0)
        centred = covariance - level - level[:, None] + level.mean()
        values, vectors = scipy.linalg.eigh(centred / count)
        kept = np.flatnonzero(values > 1e-8 * values[-1])[::-1][: size - 1]
        weights = vectors[:, kept] / (np.sqrt(count) * values[kept])
        weights -= weights.mean(axis=0)
        self.transform = np.zeros((count + 1, len(kept) + 1))
        self.transform[:count, 1:] = weights
        self.transform[count, 1:] = -level @ weights
        self.transform[count, 0] = 1.0
        self.decay = np.append(1.0, values[kept] / values[kept[0]])

    @property
    def size(self) -> int:
        """The number of functions."""
        return self.transform.shape[1]

    def design(self, x: Points) -> np.ndarray:
        """The kernel to each landmark and the constant, at `x` inside the box."""
        side = np.where(self.upper > self.lower, self.upper - self.lower, 1.0)
        length = LENGTH_SCALE * np.sqrt(x.shape[1])
        r = np.sqrt(5) * cdist((x - self.lower) / side, (self.landmarks - self.lower) / side) / length
        return np.concatenate([(1 + r + r**2 / 3) * np.exp(-r), np.ones((len(x), 1))], axis=1)

    def __call__(self, x: Points) -> Float[np.ndarray, "points functions"]:
        """The functions at `x (m, d_x)` inside the box."""
        return self.design(x) @ self.transform

    def leading(self, size: int) -> Self:
        """The dictionary of the smoothest functions of this one."""
        return eqx.tree_at(lambda d: (d.transform, d.decay), self, (self.transform[:, :size], self.decay[:size]))


Dictionary: TypeAlias = SplineDictionary | KernelDictionary


def dictionary_for(curves: Curves, size: int, generator: np.random.Generator) -> Dictionary:
    """The dictionary of `size` functions, or a few less, on the box of the points of `curves`."""
    lower, upper = curves.domain
    if curves.d_x <= 2:
        return SplineDictionary(lower, upper, size)
    points = np.unique(curves.x, axis=0)
    if len(points) > LANDMARKS:
        points = points[generator.choice(len(points), LANDMARKS, replace=False)]
    return KernelDictionary(lower, upper, size, points)


def _demmler_reinsch(knots: np.ndarray, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rising ρ and spline coefficients of functions with ∫ b_j b_k = δ_jk and ∫ b_j″ b_k″ = ρ_j δ_jk."""
    nodes, weights = leggauss(4)  # exact for products of cubics
    gaps = np.diff(breaks)[:, None]
    at = (breaks[:-1, None] + (nodes + 1) / 2 * gaps).ravel()
    weight = (weights / 2 * gaps).ravel()[:, None]
    values = BSpline.design_matrix(at, knots, 3).toarray()
    bends = BSpline(knots, np.eye(values.shape[1]), 3).derivative(2)(at)
    roughness, vectors = scipy.linalg.eigh(bends.T @ (weight * bends), values.T @ (weight * values))
    # Of the straight lines, all of roughness zero, the eigensolver returns any two: put the constant first.
    line = np.convolve(knots, np.full(3, 1 / 3), "valid")[1:-1] - 0.5  # spline coefficients of x − ½
    roughness[:2] = 0.0
    vectors[:, 0], vectors[:, 1] = 1.0, np.sqrt(12) * line
    return roughness, vectors
