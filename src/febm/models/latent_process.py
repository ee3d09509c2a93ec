"""Processes that turn a latent into a function, f = g(z); as transformers of scikit-learn they turn curves into z."""

import abc
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from febm.curves import Curves
from febm.models.scaled import ScaledProcess


class LatentProcess(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ScaledProcess):
    """A process with a latent for every curve.

    Subclasses write `_latent_means` and `_n_features_out`.
    """

    def transform(self, X: Any) -> Float[np.ndarray, "curves latent"]:
        """The posterior mean E[z | values] of the latent of every curve, however few of its values are known.

        Parameters
        ----------
        X : Curves, or an array or table of a curve a row
            NaN where missing; every curve needs a value.

        Returns
        -------
        array (curves, latent_dim)
            FPCA gives scores √λ·E[z | values], PiVAE and NeuralProcess the mean of what their encoder says. A row
            depends on its own curve alone: where random numbers are behind it, they are the same for every curve.
        """
        self._require_fitted("transform")
        return self._latent_means(self.scaling_.apply(self._context(X, "transform")))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns that `transform` gives: the model's name in small letters, and a number."""
        self._require_fitted("get_feature_names_out")
        return super().get_feature_names_out(input_features)

    @abc.abstractmethod
    def _latent_means(self, curves: Curves) -> Float[np.ndarray, "curves latent"]:
        """The mean latent of every one of scaled curves."""

    @property
    @abc.abstractmethod
    def _n_features_out(self) -> int:
        """The length of a latent, as scikit-learn asks for it."""
