"""Whether sampled pictures could be pictures of the data: what a classifier makes of them, and how they look up close.

The classifier has learnt the kinds of picture from the data. Samples that are blurred or in between kinds leave it
unsure, noise shows in their total variation, a kind that is missing in its counts, and copies in the distance from the
nearest picture that was learnt from. Its hidden layer gives the features of a Fréchet distance.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float, Shaped
from numpy import ndarray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from febm.checks import count

# Of the classifier: hidden units, passes over the pictures, and the probability from which it is sure.
HIDDEN, PASSES, PICTURES_IN_BATCH = (128, 64), 12, 256
SURE = 0.8
# Pictures whose distances from all others are held at once.
AT_ONCE = 256

Pictures = Float[ndarray, "pictures height width *colours"]


class PictureScores(NamedTuple):
    """Of samples, each beside the same of data that nothing was learnt from.

    Attributes
    ----------
    sure, sure_data
        The share that the classifier gives one kind a probability above 0.8.
    shares, shares_data
        The share of each kind, by the largest probability.
    variation, variation_data
        The mean total variation: absolute differences of neighbouring pixels, summed.
    nearest, nearest_data
        The median distance from the nearest training picture.
    frechet, frechet_data
        Fréchet distance of the classifier's features from those of half of the data; of the other half, the floor.
    """

    sure: float
    sure_data: float
    shares: Float[ndarray, " kinds"]
    shares_data: Float[ndarray, " kinds"]
    variation: float
    variation_data: float
    nearest: float
    nearest_data: float
    frechet: float
    frechet_data: float


class PictureJudge:
    """A small network that tells kinds of picture apart, trained on pictures and their labels.

    Parameters
    ----------
    pictures : (n, height, width) or (n, height, width, colours), from 0 to 1.
    labels : the kind of each.
    random_state : of the training.
    """

    def __init__(self, pictures: Pictures, labels: Shaped[ndarray, " pictures"], random_state: int = 0) -> None:
        if len(pictures) != len(labels):
            raise ValueError(f"PictureJudge: {count(len(pictures), 'picture')} but {count(len(labels), 'label')}.")
        self._train = _flat(pictures)
        batch = min(PICTURES_IN_BATCH, len(pictures))
        self._network = MLPClassifier(HIDDEN, batch_size=batch, max_iter=PASSES, random_state=random_state)
        with warnings.catch_warnings():
            # A few passes are enough to judge by.
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            self._network.fit(self._train, labels)

    def probabilities(self, pictures: Pictures) -> Float[ndarray, "pictures kinds"]:
        """Of each kind."""
        return self._network.predict_proba(_flat(pictures))

    def features(self, pictures: Pictures) -> Float[ndarray, "pictures features"]:
        """The last hidden layer."""
        layer = _flat(pictures)
        for weights, bias in zip(self._network.coefs_[:-1], self._network.intercepts_[:-1], strict=True):
            layer = np.maximum(layer @ weights + bias, 0.0)
        return layer

    def score(self, samples: Pictures, data: Pictures) -> PictureScores:
        """Judge samples beside pictures of the data that the judge, and the model, have not seen."""
        if len(data) < 4:
            raise ValueError(f"PictureJudge.score: {count(len(data), 'picture')} of the data; give at least 4.")
        certain, certain_data = (self.probabilities(pictures) for pictures in (samples, data))
        features, half, other = (self.features(pictures) for pictures in (samples, data[::2], data[1::2]))
        sure, sure_data = (float(np.mean(found.max(axis=1) > SURE)) for found in (certain, certain_data))
        shares, shares_data = (
            np.bincount(found.argmax(axis=1), minlength=found.shape[1]) / len(found)
            for found in (certain, certain_data)
        )
        nearest, nearest_data = (float(np.median(self._nearest(pictures))) for pictures in (samples, data))
        return PictureScores(
            sure,
            sure_data,
            shares,
            shares_data,
            total_variation(samples),
            total_variation(data),
            nearest,
            nearest_data,
            frechet_distance(features, half),
            frechet_distance(other, half),
        )

    def _nearest(self, pictures: Pictures) -> Float[ndarray, " pictures"]:
        """The distance of each from the nearest training picture."""
        flat, squares = _flat(pictures), np.sum(self._train**2, axis=1)
        parts = []
        for first in range(0, len(flat), AT_ONCE):
            part = flat[first : first + AT_ONCE]
            distances = squares - 2 * part @ self._train.T + np.sum(part**2, axis=1)[:, None]
            parts.append(np.sqrt(np.maximum(distances.min(axis=1), 0.0)))
        return np.concatenate(parts)


def total_variation(pictures: Pictures) -> float:
    """The mean over pictures of the absolute differences of neighbouring pixels, summed."""
    rows, columns = (np.abs(np.diff(pictures, axis=axis)).sum() for axis in (1, 2))
    return float((rows + columns) / len(pictures))


def frechet_distance(first: Float[ndarray, "n features"], second: Float[ndarray, "m features"]) -> float:
    """‖μ₁ − μ₂‖² + tr(C₁ + C₂ − 2(C₁C₂)^½) of the means and covariances of features: zero for equal Gaussians."""
    difference = first.mean(axis=0) - second.mean(axis=0)
    one, other = (np.cov(features, rowvar=False) for features in (first, second))
    root = _root(one)
    # tr (C₁C₂)^½ by a matrix that is symmetric: C₁^½ C₂ C₁^½.
    between = np.sqrt(np.maximum(scipy.linalg.eigvalsh(root @ other @ root), 0.0)).sum()
    return float(difference @ difference + np.trace(one) + np.trace(other) - 2 * between)


def _root(covariance: ndarray) -> ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _flat(pictures: Pictures) -> Float[ndarray, "pictures values"]:
    return np.asarray(pictures, dtype=np.float32).reshape(len(pictures), -1)
