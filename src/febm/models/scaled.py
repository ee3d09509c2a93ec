"""Processes that learn without units: scaling in front of the model, and behind it on the way out."""

import abc
from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from febm.curves import Curves
from febm.door import as_curves
from febm.fitting import Fitting, fit_alone, steps
from febm.images import grid_shape
from febm.models.base import Process, points_of
from febm.models.tables import forget_table, is_table, learn_table, read_table
from febm.progress import Progress, as_progress
from febm.randomness import RandomState, as_key
from febm.scaling import Scaling, as_scaling

# Where curves have their own points there is no grid to come back to; this many points show a function well.
DEFAULT_POINTS = 200


class ScaledProcess(Process):
    """A process that learns from curves in the unit box, with outputs without units.

    Subclasses have the arguments `scaling`, `random_state` and `progress`, and write `_learn`. Fitted are `scaling_`,
    `domain_` (the corners of the box that the training points, or pixels, fill), `grid_` (where functions are shown
    when nothing is said) and `posterior_key_`; and where the training curves were the rows of an array,
    `n_features_in_`, `columns_` (the points of its columns) and, if these had names, `feature_names_in_`.
    """

    scaling: str | Scaling
    random_state: RandomState
    progress: bool | Progress

    def fit(self, curves: Any, y: Any = None) -> Self:
        """Learn the distribution of `curves`.

        Parameters
        ----------
        curves : Curves, or an array or table of a curve a row
            NaN where missing; a row without any value is left out. The columns of an array are at x = 0, 1, 2, …, those
            of a table at their names where all are numbers.
        y
            Ignored.
        """
        return fit_alone(self._fitting(curves))

    def _fitting(self, curves: Any) -> Fitting[Self]:
        """`fit` as a generator, which can wait for its trainings."""
        curves = self._training_curves(curves)
        scaling = self._scaling(curves).fit(curves)
        fit_key, posterior_key = jax.random.split(as_key(self.random_state))
        yield from steps(self._learn(scaling.apply(curves), fit_key, as_progress(self.progress)))
        self.scaling_ = scaling
        self.posterior_key_ = posterior_key
        self.domain_ = _domain(curves)
        self.grid_ = _default_points(curves)
        return self

    @abc.abstractmethod
    def _learn(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitting[None] | None:
        """Learn from scaled curves and set the fitted attributes of the model, at once or as a generator."""

    def _scaling(self, curves: Curves) -> Scaling:
        """The scaling, checked, before it is fitted to the curves."""
        return as_scaling(self.scaling)

    def _points(self, at: Any, n: int, action: str) -> np.ndarray | list[np.ndarray]:
        """The points asked for, those of the training curves where nothing is said."""
        owner = f"{type(self).__name__}.{action}"
        return points_of(self.grid_ if at is None else at, self.scaling_.d_x, n, owner)

    def _training_curves(self, curves: Any) -> Curves:
        """The curves that `fit` was given; the columns of an array are remembered."""
        owner = f"{type(self).__name__}.fit: curves"
        if is_table(curves):
            table = learn_table(self, curves, owner, least_rows=self._fewest_rows)
            return table.curves(table.is_seen)
        forget_table(self)
        return as_curves(curves, owner)

    @property
    def _fewest_rows(self) -> int:
        """No array of fewer rows can be learned from."""
        return 2

    def _context(self, curves: Any, action: str) -> Curves:
        """The partly observed curves; a plain array is on the grid of the training curves."""
        owner = f"{type(self).__name__}.{action}"
        self._require_fitted(action)
        if is_table(curves):
            curves = read_table(self, curves, f"{owner}: curves").curves()
        else:
            curves = as_curves(curves, f"{owner}: curves", like=self.grid_)
        if (curves.d_x, curves.d_y) != (self.scaling_.d_x, self.scaling_.d_y):
            raise ValueError(
                f"{owner}: the curves have d_x={curves.d_x}, d_y={curves.d_y}; "
                f"the model was fitted with d_x={self.scaling_.d_x}, d_y={self.scaling_.d_y}."
            )
        return curves

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "scaling_")


def scale_alike(scaling: Scaling, scalings: list[Scaling], further: Curves) -> tuple[Curves, Float[np.ndarray, " n"]]:
    """Further values of curves in the units that what was observed first gave to each, and their log Jacobian."""
    if scaling.outputs != "curve":
        return scaling.apply(further), scaling.log_jacobian(further)
    each = list(zip(scalings, further, strict=True))
    jacobian = np.concatenate([own.log_jacobian(curve) for own, curve in each])
    return Curves.concatenate([own.apply(curve) for own, curve in each]), jacobian


def _domain(curves: Curves) -> Float[np.ndarray, "2 inputs"]:
    """The corners of the box around the training points; points in rows and columns are the centres of pixels."""
    lower, upper = curves.domain
    points = curves.common_points
    shape = None if points is None or curves.d_x != 2 else grid_shape(points)
    if shape is None or min(shape) < 2:
        return np.stack([lower, upper])
    half = 0.5 * (upper - lower) / (np.array(shape) - 1)
    return np.stack([lower - half, upper + half])


def _default_points(curves: Curves) -> Float[np.ndarray, "points inputs"]:
    """The points of the training curves where they are few, else a grid over their domain."""
    common = curves.common_points
    points = np.unique(curves.x if common is None else common, axis=0)
    if len(points) <= 2 * np.max(curves.lengths):
        return points
    lower, upper = curves.domain
    side = max(2, round(DEFAULT_POINTS ** (1 / curves.d_x)))
    axes = [np.linspace(low, high, side) for low, high in zip(lower, upper, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, curves.d_x)
