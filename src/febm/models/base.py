"""What every model of functions offers: a `Process` that is fitted, and a `Posterior` per conditioned curve."""

import abc
import os
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED

from febm import storage
from febm.checks import as_points
from febm.curves import Curves
from febm.door import as_curves
from febm.errors import NotFittedError
from febm.io_arviz import to_datatree
from febm.models.filling import filled
from febm.models.tables import is_table, read_table
from febm.randomness import RandomState

if TYPE_CHECKING:
    from xarray import DataTree


class Posterior(abc.ABC):
    """The distribution of functions given what was observed of them, one for each conditioned curve.

    Examples
    --------
    Of every curve there is a mean, an interval and as many draws as one likes, at any points:

    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> model = febm.FPCA(random_state=0, progress=False).fit(curves[2:])
    >>> posterior = model.condition(curves[:2].select(curves[:2].x[:, 0] < 0.5))
    >>> len(posterior), posterior.log_evidence.shape
    (2, (2,))
    >>> at = np.linspace(0, 1, 101)
    >>> posterior.mean(at).shape
    (2, 101, 1)
    >>> lower, upper = posterior.interval(at, 0.9, noise=True)
    >>> bool((lower < posterior.mean(at)).all() and (posterior.mean(at) < upper).all())
    True
    >>> drawn = posterior.sample(3, at, random_state=0)
    >>> drawn.ids.tolist()  # the curve, and which draw of it
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    """

    ids: pd.Index

    def __len__(self) -> int:
        """Number of conditioned curves."""
        return len(self.ids)

    def __repr__(self) -> str:
        """The kind and size of the posterior."""
        return f"<{type(self).__name__} of {len(self)} curve{'' if len(self) == 1 else 's'}>"

    @abc.abstractmethod
    def mean(self, at: Any) -> Float[np.ndarray, "curves points outputs"] | Curves:
        """The posterior mean at the points `at`; `Curves` in give `Curves` out, each at its own points."""

    @abc.abstractmethod
    def sample(self, n: int, at: Any, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """`n` functions for each curve, with ids (curve, draw); `noise` adds observation noise."""

    @abc.abstractmethod
    def interval(self, at: Any, level: float = 0.9, *, noise: bool = False) -> tuple[Any, Any]:
        """Lower and upper end of the central interval that holds `level` of the probability at each point.

        Arrays (curves, points, outputs), or `Curves` where `at` is `Curves`.
        """

    @property
    @abc.abstractmethod
    def log_evidence(self) -> Float[np.ndarray, " curves"]:
        """log p(observed values) of every curve, in the units of the data."""

    def log_density(self, curves: Curves) -> Float[np.ndarray, " curves"]:
        """log p(further values of every curve | what was observed of it), jointly, in the units of the data."""
        raise NotImplementedError(
            f"{type(self).__name__}.log_density: this posterior has no density of further values."
        )

    def to_arviz(
        self, at: Any, *, observed: Curves | None = None, draws: int = 512, random_state: RandomState = None
    ) -> "DataTree":
        """Functions at the points `at` as ArviZ takes them: `f` with dimensions chain, draw, curve, point, output.

        Parameters
        ----------
        at : (m,) or (m, d_x)
            One set of points for all curves; they are `x` in the group `constant_data`.
        observed : Curves, optional
            What was conditioned on, for the group `observed_data`: values `y` along the dimension `observation`, with
            their places and the ids of their curves in `constant_data`, as `observed_x` and `observed_curve`.
        draws : int
            How many functions of each curve are drawn.

        Returns
        -------
        DataTree
            What ArviZ calls InferenceData; the ids of the curves are the coordinate `curve`.
        """
        refuse_own_points(at, "Posterior.to_arviz")
        drawn = self.sample(draws, at, random_state=random_state)
        points = drawn[0].x
        values = drawn.y.reshape(len(self), draws, len(points), drawn.d_y)
        return to_datatree(np.moveaxis(values, 0, 1)[None], points, self.ids, observed=observed)

    @property
    @abc.abstractmethod
    def diagnostics(self) -> pd.DataFrame:
        """One row for each curve: how the posterior was found and how far it can be trusted."""


class Process(BaseEstimator, abc.ABC):
    """A distribution over functions, learned from curves.

    To scikit-learn it is an estimator of arrays `(n_samples, n_features)`: every row is a curve, every column a point
    that all curves share, NaN is a missing value. A table with names has its columns at these, where all are numbers
    (the text "0.5" is one); all other columns are at x = 0, 1, 2, …

    Examples
    --------
    All models do the same things:

    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> for model in (febm.FPCA(random_state=0, progress=False), febm.GaussianProcess(random_state=0, progress=False)):
    ...     held_out = model.fit(curves[:30]).score(curves[30:])
    ...     print(isinstance(model, febm.Process), len(model.sample(3)), len(model.condition(curves[:2])), held_out > 0)
    True 3 2 True
    True 3 2 True
    """

    # The curves are what scikit-learn calls X, whatever their name: nothing to route to.
    __metadata_request__fit: ClassVar = {"curves": UNUSED}
    __metadata_request__score: ClassVar = {"curves": UNUSED}

    @abc.abstractmethod
    def fit(self, curves: Any, y: Any = None) -> Self:
        """Learn from curves; a 2-D array is read as one curve a row on a common grid. `y` is ignored."""

    @abc.abstractmethod
    def sample(self, n: int, at: Any = None, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """Draw `n` new functions at the points `at`."""

    @abc.abstractmethod
    def condition(self, curves: Any, *, random_state: RandomState = None) -> Posterior:
        """The posterior of each of the partly observed curves."""

    def log_evidence(self, curves: Any) -> Float[np.ndarray, " curves"]:
        """log p(values | points) of every curve, in the units of the data."""
        return self.condition(curves).log_evidence

    def score(self, curves: Any, y: Any = None) -> float:
        """The log predictive density of held-out curves: their log evidence per observed value, in nats.

        Higher is better, and it is a proper score: the truth has the highest on average. `GridSearchCV` and
        `cross_val_score` use it. It belongs to the units of the data, so only scores of the same curves compare.
        Missing values do not count, and neither does a row of an array without any; `y` is ignored.
        """
        self._require_fitted("score")
        curves = self._observed(curves, "score")
        return float(np.sum(self.log_evidence(curves)) / np.sum(~np.isnan(curves.y)))

    def impute(self, curves: Any) -> Any:
        """The same curves with the posterior mean where a value is missing; observed values stay as they are.

        Parameters
        ----------
        curves : array or table of a curve a row, labelled array of xarray, or Curves
            NaN where missing. A row without any value gets the mean of the functions that `sample` draws.

        Returns
        -------
        array, DataFrame of pandas or polars, DataArray, or Curves
            As `curves` came, without NaN; tables of other libraries come back as arrays, a Dataset and functional data
            of scikit-fda as `Curves`. Of `Curves`, those outputs are filled that lack at points where another was
            observed.
        """
        self._require_fitted("impute")
        return filled(self, curves)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `febm.load` reads it."""
        self._require_fitted("save")
        storage.save(self, path)

    def _require_fitted(self, action: str) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFittedError(f"{name}.{action}: this model is not fitted yet; call `fit(curves)` first.")

    def _observed(self, curves: Any, action: str) -> Curves:
        """What `action` is given, as curves; rows of an array that have no value are left out."""
        owner = f"{type(self).__name__}.{action}: curves"
        if not is_table(curves):
            return as_curves(curves, owner)
        table = read_table(self, curves, owner)
        return table.curves(table.is_seen)

    @abc.abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn may expect: NaN is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def refuse_own_points(at: Any, owner: str) -> None:
    """Refuse points of each curve where all must have the same."""
    if isinstance(at, Curves):
        raise ValueError(f"{owner}: `at` is Curves, with points of each; here all curves need one set of points.")


def one_grid(at: Any, d_x: int, owner: str) -> np.ndarray:
    """The points `(m, d_x)` asked for, where all curves must have the same."""
    refuse_own_points(at, owner)
    return as_points(at, d_x, name=f"{owner}: at")


def points_of(at: Any, d_x: int, count: int, owner: str) -> np.ndarray | list[np.ndarray]:
    """The points asked for: one `(m, d_x)` array for all, or a list with the points of each curve."""
    if not isinstance(at, Curves):
        return one_grid(at, d_x, owner)
    if at.d_x != d_x:
        raise ValueError(f"{owner}: `at` has {at.d_x} input columns, the model was fitted with {d_x}.")
    if len(at) != count:
        raise ValueError(
            f"{owner}: `at` has points for {len(at)} curves but {count} are asked for; give one set of points for each."
        )
    return [curve.x for curve in at]
