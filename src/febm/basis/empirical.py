"""The basis that the curves themselves suggest, functional PCA: f = mean + Σ_k w_k √λ_k e_k, w ~ N(0, I).

λ_k and e_k are eigenpairs of the covariance function of the curves, in L² of their domain, of measure 1.
"""

from __future__ import annotations

import functools
from typing import Literal, Self, TypeAlias, TypeGuard, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from febm.basis.base import Basis, Rank, check_rank
from febm.basis.grid import Eigenpairs, grid_eigenpairs, streamed_eigenpairs
from febm.basis.interpolation import Interpolant, cell_weights, grid_axes
from febm.basis.shrinkage import shrink_to_walk
from febm.basis.smoothing import SmoothFunctions, leading_columns, smooth_estimate
from febm.curves import Curves, as_points
from febm.gridded import GriddedCurves, are_many
from febm.ragged import sorted_union
from febm.randomness import numpy_generator

Method: TypeAlias = Literal["auto", "grid", "smooth"]
Shrinkage: TypeAlias = Literal["walk"] | None

DEFAULT_SHARE = 0.9999  # of the variance, what `rank=None` keeps on a grid
SHRUNK_SHARE = 0.99999  # the same of a shrunk covariance: what is small in it is not noise
LARGEST_GRID = 4096  # points times outputs: what an eigenproblem or an interpolation problem may cost
LARGEST_SHRUNK = 1024  # the same where the eigenproblem is not that of the curves, however few they are
SEEN_TOGETHER = 10  # curves in which every pair of points must occur for a grid with missing values
NOISE_FLOOR = 1e-6  # of the average variance: the least noise reported
SHRUNK = "shrunk grid"
NO_VARIATION = "curves are all the same; there is no variation to build a basis from. Add curves that differ."


class EmpiricalState(eqx.Module):
    """What fitting found: the functions (mean first, then √λ·e), λ and σ²."""

    functions: Interpolant | SmoothFunctions
    eigenvalues: np.ndarray
    noise: float
    d_x: int
    d_y: int
    method: str


class Empirical(Basis):
    """Mean and eigenfunctions of the curves, several outputs taken jointly.

    Parameters
    ----------
    rank : how many features: an integer, a share of the variance, or None. None keeps 0.9999 of the variance on a
        grid, 0.99999 of a shrunk covariance; of smoothed curves it keeps the eigenfunctions that help to predict
        held-out curves. There are never more than the data determine, or what they are shrunk to, however many are
        asked for.
    method : "grid" takes the sample mean and covariance at common points and interpolates between them;
        missing values are filled in by EM for a factor model. "smooth" fits smooth mean and covariance
        functions, and the noise, to curves with points of their own, by maximum likelihood. "auto" takes the
        grid when all curves have all points, or when at least half of the values are there and every two
        points are seen together in ten curves.
    shrinkage : None, or "walk": the covariance of a grid of one input is shrunk to that of a random walk, direction by
        direction, as far as it takes with so many curves. The walk's steps from point to point have the variances that
        the curves' steps have, and it starts with the spread that they have at either end. A few hundred curves do not
        determine the covariance of a few hundred points; of rough curves a walk is the simplest one. With more inputs,
        more than 1,024 values a curve, or smoothed curves there is none: see `is_shrunk`.

    Notes
    -----
    The measure of a grid gives every point the length of its cell: products of lengths if the grid is
    rectangular, equal weights if spacing is even or the points are scattered. With equal weights the
    eigenfunctions have mean square 1 over the points (the outputs' squares summed), and `spectrum` holds the
    eigenvalues of the covariance matrix over the number of points.

    The noise variance of a grid is the variance per value that the rank leaves out; that of smoothed curves is
    the σ² of the likelihood. It is never below 1e-6 of the average variance.

    Between the points of a grid, interpolation is cubic and exact at the points. Beyond the box of the
    training points functions follow their trend over its outer tenth and level off.

    Smoothing looks at a random part of the curves when they are very many: at least 500, more if few
    functions are needed.

    Examples
    --------
    >>> import jax
    >>> x = np.linspace(0, 1, 20)
    >>> curves = Curves.from_grid(x, np.random.default_rng(0).normal(size=(30, 1)) * np.sin(3 * x))
    >>> basis = Empirical(rank=1).fit(curves, key=jax.random.key(0))
    >>> bool(abs(np.corrcoef(basis.features(x[:, None])[:, 0, 0], np.sin(3 * x))[0, 1]) > 0.999)
    True
    """

    truncation: Rank = eqx.field(static=True)
    method: Method = eqx.field(static=True)
    state: EmpiricalState | None
    shrinkage: Shrinkage = eqx.field(static=True, default=None)

    def __init__(self, *, rank: Rank = None, method: Method = "auto", shrinkage: Shrinkage = None) -> None:
        if shrinkage not in (None, "walk"):
            raise ValueError(f"shrinkage must be None or 'walk'; got {shrinkage!r}.")
        if method not in get_args(Method):
            raise ValueError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}.")
        self.truncation = check_rank(rank)
        self.method = method
        self.shrinkage = shrinkage
        self.state = None

    def fit(self, curves: Curves, *, key: PRNGKeyArray) -> Self:
        """A fitted copy: see `Basis.fit`."""
        if len(curves) < 2:
            raise ValueError("curves must hold at least 2 curves to have a covariance; got 1. Add curves.")
        state = self._fit_images(curves) if self._streams(curves) else self._fit_values(curves, numpy_generator(key))
        return eqx.tree_at(lambda basis: basis.state, self, state, is_leaf=lambda value: value is None)

    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """The mean function of the training curves."""
        return self._columns(x)[:, :, 0]

    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """Φ(x) = √λ·e(x), columns in order of falling λ."""
        return self._columns(x)[:, :, 1:]

    @property
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """The eigenvalues λ of the covariance function, falling."""
        return self.fitted.eigenvalues

    @property
    def noise_variance(self) -> float:
        """The noise variance per value: see the notes of the class."""
        return self.fitted.noise

    @property
    def is_shrunk(self) -> bool:
        """Whether the covariance of the curves was one that could be shrunk, and was."""
        return self.fitted.method == SHRUNK

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` made this basis."""
        return self.state is not None

    @property
    def fitted(self) -> EmpiricalState:
        """What fitting found; an error before."""
        self.require_fitted()
        assert self.state is not None
        return self.state

    def _columns(self, x: np.ndarray) -> np.ndarray:
        state = self.fitted
        x = as_points(x, state.d_x, "x")
        return state.functions(x).reshape(len(x), state.d_y, -1)

    def _streams(self, curves: Curves) -> TypeGuard[GriddedCurves]:
        """Whether there are so many values, on not too many points, that they are seen some at a time."""
        return self.method != "smooth" and are_many(curves) and len(curves.points) * curves.d_y <= LARGEST_GRID

    def _fit_values(self, curves: Curves, generator: np.random.Generator) -> EmpiricalState:
        y = curves.y
        if not np.nanmean((y - np.nanmean(y, axis=0)) ** 2) > 0:
            raise ValueError(NO_VARIATION)
        grid = None if self.method == "smooth" else self._grid(curves)
        return self._fit_smooth(curves, generator) if grid is None else self._fit_grid(*grid, generator)

    def _grid(self, curves: Curves) -> tuple[np.ndarray, np.ndarray] | None:
        """Common points `(U, d_x)` and values there `(n, U, d_y)`; None if the curves are to be smoothed."""
        n, d_y = len(curves), curves.d_y
        common = _common_points(curves)
        if common is not None:
            fits = min(n, len(common) * d_y) <= LARGEST_GRID
            fits &= len(common) <= LARGEST_GRID or grid_axes(common) is not None
            if fits and not np.isnan(curves.y).any():
                return common, curves.y.reshape(n, len(common), d_y)
        codes, points = sorted_union(curves.x)
        cells = np.repeat(np.arange(n) * len(points), curves.lengths) + codes
        fits = len(points) * d_y <= LARGEST_GRID and len(np.unique(cells)) == len(cells)
        if self.method == "grid" and not fits:
            raise ValueError(
                f"method 'grid' needs curves with common points, none twice in a curve, and at most "
                f"{LARGEST_GRID:,} of them times outputs; got {len(points):,} points. Use method='smooth'."
            )
        if not fits or (self.method == "auto" and np.count_nonzero(~np.isnan(curves.y)) < n * len(points) * d_y / 2):
            return None
        values = np.full((n, len(points), d_y), np.nan)
        values.reshape(-1, d_y)[cells] = curves.y
        if self.method == "auto":
            seen = (~np.isnan(values)).reshape(n, -1).astype(np.float32)
            if (seen.T @ seen).min() < min(SEEN_TOGETHER, n):
                return None
        return points, values

    def _fit_grid(self, points: np.ndarray, values: np.ndarray, generator: np.random.Generator) -> EmpiricalState:
        n, _, d_y = values.shape
        shrinks = self.shrinkage is not None and points.shape[1] == 1 and len(points) * d_y <= LARGEST_SHRUNK
        covariance_of = functools.partial(shrink_to_walk, order=np.argsort(points[:, 0])) if shrinks else None
        pairs = grid_eigenpairs(values.reshape(n, -1), np.repeat(cell_weights(points), d_y), generator, covariance_of)
        return self._grid_state(points, pairs, d_y, SHRUNK if shrinks else "grid")

    def _fit_images(self, curves: GriddedCurves) -> EmpiricalState:
        """As on a grid, without the values of all curves at once."""
        blocks = lambda: (part.values().reshape(len(part), -1) for part in curves.blocks())  # noqa: E731
        pairs = streamed_eigenpairs(blocks, np.repeat(cell_weights(curves.points), curves.d_y))
        return self._grid_state(curves.points, pairs, curves.d_y)

    def _grid_state(self, points: np.ndarray, pairs: Eigenpairs, d_y: int, method: str = "grid") -> EmpiricalState:
        if not len(pairs.values):
            raise ValueError(NO_VARIATION)
        share = SHRUNK_SHARE if method == SHRUNK else DEFAULT_SHARE
        rank = leading_columns(pairs.values, share if self.truncation is None else self.truncation)
        total, kept = pairs.values.sum(), pairs.values[:rank]
        noise = max(total - kept.sum(), NOISE_FLOOR * total) / d_y
        columns = np.column_stack([pairs.mean, pairs.vectors[:, :rank] * np.sqrt(kept)])
        functions = Interpolant(points, columns.reshape(len(points), -1))
        return EmpiricalState(functions, kept, float(noise), points.shape[1], d_y, method)

    def _fit_smooth(self, curves: Curves, generator: np.random.Generator) -> EmpiricalState:
        # Thousands of small matrices: threads would wait for each other far longer than they work.
        with threadpool_limits(1, user_api="blas"):
            estimate = smooth_estimate(curves, generator, self.truncation)
        columns = np.concatenate(
            [estimate.mean[:, :, None], estimate.eigenvectors * np.sqrt(estimate.eigenvalues)], axis=2
        )
        functions = SmoothFunctions(
            estimate.dictionary, estimate.dictionary.transform @ columns.reshape(len(columns), -1)
        )
        noise = max(estimate.noise, NOISE_FLOOR * estimate.eigenvalues.sum() / curves.d_y)
        return EmpiricalState(functions, estimate.eigenvalues, float(noise), curves.d_x, curves.d_y, "smooth")


def _common_points(curves: Curves) -> np.ndarray | None:
    """The points `(m, d_x)` of every curve, when all curves have the same, in the same order, none twice."""
    points = curves.common_points
    return points if points is not None and len(sorted_union(points)[1]) == len(points) else None
