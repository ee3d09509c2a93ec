"""Any process as a scikit-learn imputer: what a curve lacks is filled from what is known of it."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import Tags

from febm.errors import NotFittedError
from febm.models.base import Process


class Imputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing values with their posterior mean under a model of the rows.

    Parameters
    ----------
    model
        The process that learns what curves are like, such as `febm.FPCA()`; it is cloned, and stays as it is.

    Attributes
    ----------
    model_ : Process
        The fitted model.
    n_features_in_, feature_names_in_
        How many columns there were, and their names where they had any.

    Notes
    -----
    Every row of an array or table is a curve, NaN is a missing value. Observed values stay as they are, and a row
    without any gets the mean of the model. What comes as a table of pandas or polars goes as one. Of `Curves`, the
    outputs are filled that lack at points where another was observed.

    Arguments of the model are reached by two underscores::

        pipeline = make_pipeline(febm.Imputer(febm.FPCA()), Ridge())
        GridSearchCV(pipeline, {"imputer__model__rank": [2, 4]}).fit(X, y)

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> rows = np.random.default_rng(0).normal(size=(30, 1)) * np.sin(np.arange(12))
    >>> gaps = rows.copy()
    >>> gaps[0, 3:6] = np.nan
    >>> filled = febm.Imputer(febm.FPCA(random_state=0, progress=False)).fit_transform(gaps)
    >>> bool(np.allclose(filled, rows, atol=0.1))
    True
    """

    model_: Process

    def __init__(self, model: Process) -> None:
        self.model = model

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the model to the rows of `X`; `y` is ignored."""
        if not isinstance(self.model, Process):
            raise TypeError(f"Imputer: model is {self.model!r}; give a model such as febm.FPCA().")
        self.model_ = clone(self.model).fit(X)
        return self

    def transform(self, X: Any) -> Any:
        """`X` without missing values, in the container that it came in, or what `set_output` says.

        A table whose names were not there in `fit` comes back as an array.
        """
        model = self._fitted("transform")
        found = model.impute(X)
        has_names = all(isinstance(name, str) for name in getattr(found, "columns", [None]))
        # To scikit-learn the columns of a result are called as `get_feature_names_out` says.
        return np.asarray(found) if has_names and not hasattr(model, "feature_names_in_") else found

    def score(self, X: Any, y: Any = None) -> float:
        """The log density of the observed values per value, as `Process.score`: higher is better."""
        return self._fitted("score").score(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns, as they came."""
        self._fitted("get_feature_names_out")
        return super().get_feature_names_out(input_features)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the training rows."""
        return self.model_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the columns of the training rows, where they had names."""
        return self.model_.feature_names_in_

    def _fitted(self, action: str) -> Process:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"Imputer.{action}: this imputer is not fitted yet; call `fit(X)` first.")
        return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn may expect: NaN is what it is for."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
