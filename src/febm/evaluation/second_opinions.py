"""Two-sample tests that see what a mean discrepancy at n = 10 does not: a classifier, and sliced Wasserstein distances.

Both look at the scores z of the curves on the principal components of the pooled sample, each of variance 1, so that a
small component counts as much as a large one. The default classifier is kernel least squares, whose prediction of each
curve from all others is in closed form and linear in the labels: y_i − ŷ_i = (y − Hy)_i/(1 − H_ii). Along a direction
the 1-Wasserstein distance is ∫|F_a − F_b|, a sum over the gaps of the sorted projections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.stats
from jaxtyping import Float

from febm.checks import whole_number
from febm.evaluation.function_kernels import gaussian, median_distance, scaled_to_one, squared_distances
from febm.evaluation.mesh import on_common_mesh, sample_sizes
from febm.evaluation.permutation import label_rows, permutation_pvalue
from febm.evaluation.samples import as_samples
from febm.randomness import RandomState, as_key, numpy_generator

# Ridge, scales and share were chosen for their power against samples of 150 curves whose six whitened scores had two
# modes along one axis, or along a direction between the axes, and were Gaussian otherwise.
RIDGE = 0.3  # the kernel of a curve with itself is 1
FULL_SCALES = (0.25, 0.5)  # of the kernel of all coordinates, as shares of the median distance
WIDEST_COORDINATE_SCALE = 0.8  # of the kernels of one coordinate, in standard deviations; half and a quarter too
COORDINATE_SHARE = 0.25  # of the kernels of one coordinate in the sum
MEAN_ORDER = 4  # of the mean over directions: 1 is blind to what shows along few of them, ∞ heeds the noisiest alone
BLOCK_ENTRIES = 2**21  # of the sorted label weights that are held at once

Scores = Float[np.ndarray, "curves rank"]


@dataclass(frozen=True)
class ClassifierTest:
    """What a classifier test found.

    Attributes
    ----------
    accuracy : the balanced share of curves whose sample was told right, each by a classifier that had not seen it; near
        1/2 for equal distributions.
    pvalue : the share of labellings whose statistic is at least as large, the observed one included.
    statistic : what the p-value is of: the mean margin, or for a given classifier the area under the ROC curve.
    null : the statistic under permuted labels.
    sizes : how many curves were in each sample.
    reconstructed : whether the curves, which do not share their points, were first reconstructed on a mesh.
    """

    accuracy: float
    pvalue: float
    statistic: float
    null: Float[np.ndarray, " permutations"]
    sizes: tuple[int, int]
    reconstructed: bool = False

    def __repr__(self) -> str:
        """The result in one line."""
        return (
            f"<ClassifierTest: p = {self.pvalue:.3g}, accuracy {self.accuracy:.3f}, "
            f"{self.sizes[0]} against {self.sizes[1]} curves{', reconstructed' if self.reconstructed else ''}>"
        )


def classifier_test(
    a: Any,
    b: Any,
    *,
    classifier: Any = None,
    permutations: int = 999,
    random_state: RandomState = None,
    mesh: Any = None,
) -> ClassifierTest:
    """Test whether a classifier can tell two sets of curves apart.

    Parameters
    ----------
    a, b : Curves, or 2-D arrays whose rows are curves on a common grid
        At least two curves each; they need not be as many. An array beside Curves is on their grid.
    classifier : a scikit-learn classifier, optional
        It is trained on a random half of each sample, and the other half is ranked by its scores (`decision_function`
        or `predict_proba`). The default is kernel least squares, which predicts each curve from all others.
    permutations : how many.
    random_state : of the permutations and of the halves.
    mesh : where to look at the functions, as in `two_sample_test`.

    Notes
    -----
    The default classifier has a Gaussian kernel of all coordinates and a sum of Gaussian kernels of one coordinate
    each, which finds what is odd along one principal component however many there are. Labels are centred about the
    mean label of the curves that predict, so that unequal sizes favour neither sample. Its p-value is that of the mean
    margin, E_a[ŷ] − E_b[ŷ], by permutation: a continuous statistic, so that its level is exact where that of the
    accuracy, which has few values, would not be.

    With a classifier of yours the statistic is the area under the ROC curve of the scores of the held-out halves, and
    the p-value is by permutation of their labels, with the classifier as it was trained. Few held-out curves have few
    areas, so that the level is then at most the one asked for.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> straight, bent = rng.normal(size=(2, 40, 1)) * np.stack([np.ones(20), np.linspace(0, 2, 20)])[:, None]
    >>> bool(classifier_test(straight, bent, permutations=99, random_state=0).pvalue <= 0.01)
    True
    """
    owner = "classifier_test"
    permutations = whole_number(f"{owner}: permutations", permutations)
    functions = on_common_mesh(*as_samples({"a": a, "b": b}, owner), mesh=mesh, owner=owner)
    scores, sizes = scaled_to_one(functions), sample_sizes(functions)
    generator = numpy_generator(as_key(random_state))
    if classifier is not None:
        statistics, accuracy = _held_out(scores, sizes, classifier, permutations, generator, owner)
    else:
        statistics, accuracy = margins(scores, label_rows(sizes, permutations, generator), sizes)
    pvalue = permutation_pvalue(statistics, owner)
    return ClassifierTest(accuracy, pvalue, float(statistics[0]), statistics[1:], sizes, functions.reconstructed)


@dataclass(frozen=True)
class SlicedWasserstein:
    """What a comparison by sliced Wasserstein distances found.

    Attributes
    ----------
    distance : the mean, of order 4, of the distances along directions, in standard deviations of the pooled curves.
    pvalue : the share of labellings whose distance is at least as large, the observed one included.
    null : the distances of the permuted labellings.
    directions : how many.
    sizes : how many curves were in each sample.
    reconstructed : whether the curves, which do not share their points, were first reconstructed on a mesh.
    """

    distance: float
    pvalue: float
    null: Float[np.ndarray, " permutations"]
    directions: int
    sizes: tuple[int, int]
    reconstructed: bool = False

    def __repr__(self) -> str:
        """The result in one line."""
        return (
            f"<SlicedWasserstein: p = {self.pvalue:.3g}, distance {self.distance:.3g} along {self.directions} "
            f"directions, {self.sizes[0]} against {self.sizes[1]} curves"
            f"{', reconstructed' if self.reconstructed else ''}>"
        )


def sliced_wasserstein(
    a: Any,
    b: Any,
    *,
    directions: int = 64,
    permutations: int = 999,
    random_state: RandomState = None,
    mesh: Any = None,
) -> SlicedWasserstein:
    """The Wasserstein distance between two sets of curves along many directions, and a test of its being zero.

    Parameters
    ----------
    a, b : Curves, or 2-D arrays whose rows are curves on a common grid
        At least two curves each; they need not be as many. An array beside Curves is on their grid.
    directions : how many: the principal components themselves, up to half of them, and random ones.
    permutations : how many.
    random_state : of the random directions and the permutations.
    mesh : where to look at the functions, as in `two_sample_test`.

    Notes
    -----
    The distance is (Σ w_θ d_θ⁴)^¼ over directions θ, between the mean, which a difference along few directions hardly
    moves, and the maximum. The principal components together have as much weight as the random directions together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> straight, bent = rng.normal(size=(2, 40, 1)) * np.stack([np.ones(20), np.linspace(0, 2, 20)])[:, None]
    >>> bool(sliced_wasserstein(straight, bent, permutations=99, random_state=0).pvalue <= 0.01)
    True
    """
    owner = "sliced_wasserstein"
    permutations = whole_number(f"{owner}: permutations", permutations)
    directions = whole_number(f"{owner}: directions", directions)
    functions = on_common_mesh(*as_samples({"a": a, "b": b}, owner), mesh=mesh, owner=owner)
    scores, sizes = scaled_to_one(functions), sample_sizes(functions)
    generator = numpy_generator(as_key(random_state))
    distances = sliced_distances(scores, label_rows(sizes, permutations, generator), sizes, directions, generator)
    pvalue = permutation_pvalue(distances, owner)
    return SlicedWasserstein(float(distances[0]), pvalue, distances[1:], directions, sizes, functions.reconstructed)


def margins(
    scores: Scores, labels: Float[np.ndarray, "rows curves"], sizes: tuple[int, int]
) -> tuple[Float[np.ndarray, " rows"], float]:
    """The mean margin E_a[ŷ] − E_b[ŷ] of every labelling, and the balanced accuracy of the first."""
    m, n = sizes
    predicted = labels @ left_out_smoother(classifier_gram(scores)).T
    inside = np.einsum("bi,bi->b", predicted, labels)
    statistics = inside / m - (predicted.sum(axis=1) - inside) / n
    # Two equal curves of which one is left out may be predicted 0: half right.
    right = 0.5 * (1 + np.sign(predicted[0]))
    return statistics, float(0.5 * (right[:m].mean() + 1 - right[m:].mean()))


def left_out_smoother(gram: Float[np.ndarray, "curves curves"]) -> Float[np.ndarray, "curves curves"]:
    """The matrix that takes labels to each curve's prediction from all others, zero for equal labels of these.

    With H = K(K + λI)⁻¹ of the centred kernel, ŷ_i = Σ_{j≠i} H_ij (y_j − ȳ_{−i})/(1 − H_ii).
    """
    centred = gram - gram.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    ridged = centred + RIDGE * np.eye(len(gram))
    smoother = scipy.linalg.solve(ridged, centred, assume_a="pos").T
    smoother /= (1 - np.diagonal(smoother))[:, None]
    np.fill_diagonal(smoother, 0.0)
    # Labels about the mean of the others: a labelling at random is predicted 0 on average.
    smoother -= smoother.sum(axis=1, keepdims=True) / (len(gram) - 1)
    np.fill_diagonal(smoother, 0.0)
    return smoother


def classifier_gram(scores: Scores) -> Float[np.ndarray, "curves curves"]:
    """Gaussian kernels of all coordinates, and a share of the mean of Gaussian kernels of one coordinate each."""
    squared = squared_distances(scores)
    bandwidth = median_distance(squared)
    whole = sum(gaussian(squared.copy(), scale * bandwidth) for scale in FULL_SCALES)
    single = np.zeros_like(squared)
    for coordinate in scores.T:
        kernel = gaussian(np.square(coordinate[:, None] - coordinate), WIDEST_COORDINATE_SCALE)
        for _ in range(3):
            single += kernel
            # The fourth power of a Gaussian kernel has half its bandwidth.
            np.square(kernel, out=kernel)
            np.square(kernel, out=kernel)
    share = COORDINATE_SHARE
    return (1 - share) * whole / len(FULL_SCALES) + share * single / (3 * scores.shape[1])


def sliced_distances(
    scores: Scores,
    labels: Float[np.ndarray, "rows curves"],
    sizes: tuple[int, int],
    count: int,
    generator: np.random.Generator,
) -> Float[np.ndarray, " rows"]:
    """The mean over `count` directions of the distances of every labelling."""
    directions, weights = slicing_directions(scores.shape[1], count, generator)
    distances = wasserstein_distances(scores @ directions.T, labels, sizes)
    return (weights @ distances**MEAN_ORDER) ** (1 / MEAN_ORDER)


def slicing_directions(
    rank: int, count: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "directions rank"], Float[np.ndarray, " directions"]]:
    """Unit vectors and their weights in the mean: the axes, at most half of all, then random ones."""
    axes = np.eye(rank)[: max(1, count // 2)]
    random = generator.normal(size=(max(0, count - len(axes)), rank))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    groups = [part for part in (axes, random) if len(part)]
    weights = [np.full(len(part), 1 / (len(part) * len(groups))) for part in groups]
    return np.concatenate(groups), np.concatenate(weights)


def wasserstein_distances(
    projections: Float[np.ndarray, "curves directions"],
    labels: Float[np.ndarray, "rows curves"],
    sizes: tuple[int, int],
) -> Float[np.ndarray, "directions rows"]:
    """∫|F_a − F_b| along each direction for every labelling."""
    m, n = sizes
    # The jump of F_a − F_b at each curve; curves in rows, so that sorting them moves whole rows of memory.
    jumps = np.ascontiguousarray((labels * (1 / m + 1 / n) - 1 / n).T)
    orders = np.argsort(projections, axis=0, kind="stable")
    gaps = np.diff(np.take_along_axis(projections, orders, axis=0), axis=0)
    distances = np.empty((projections.shape[1], len(labels)))
    step = max(1, BLOCK_ENTRIES // len(projections))
    for start in range(0, len(labels), step):
        block = jumps[:, start : start + step]
        for direction, order in enumerate(orders.T):
            difference = np.cumsum(block[order[:-1]], axis=0)
            distances[direction, start : start + step] = gaps[:, direction] @ np.abs(difference, out=difference)
    return distances


def _held_out(
    scores: Scores,
    sizes: tuple[int, int],
    classifier: Any,
    permutations: int,
    generator: np.random.Generator,
    owner: str,
) -> tuple[Float[np.ndarray, " permutations+1"], float]:
    """Areas under the ROC curve and the accuracy of a classifier: half of each sample trains, the other is ranked."""
    from sklearn.base import clone

    if not (hasattr(classifier, "fit") and hasattr(classifier, "predict")):
        raise TypeError(f"{owner}: classifier is {classifier!r}; give a scikit-learn classifier, or None.")
    orders = generator.permutation(sizes[0]), sizes[0] + generator.permutation(sizes[1])
    train = np.concatenate([order[: len(order) // 2] for order in orders])
    first, second = (order[len(order) // 2 :] for order in orders)
    held = np.concatenate([first, second])
    is_first = np.arange(sum(sizes)) < sizes[0]
    fitted = clone(classifier).fit(scores[train], is_first[train])
    values = _decision(fitted, scores[held], owner)
    told = np.asarray(fitted.predict(scores[held]), dtype=bool)
    accuracy = 0.5 * (told[: len(first)].mean() + 1 - told[len(first) :].mean())
    # Ranks make the area under the ROC curve linear in the labels, ties counted half.
    ranks = scipy.stats.rankdata(values)
    held_sizes = len(first), len(second)
    sums = label_rows(held_sizes, permutations, generator) @ ranks
    areas = (sums - 0.5 * len(first) * (len(first) + 1)) / (len(first) * len(second))
    return areas, float(accuracy)


def _decision(fitted: Any, scores: Scores, owner: str) -> Float[np.ndarray, " curves"]:
    """How much the classifier takes each curve to be of the first sample."""
    if hasattr(fitted, "decision_function"):
        return np.ravel(fitted.decision_function(scores))
    if hasattr(fitted, "predict_proba"):
        return np.asarray(fitted.predict_proba(scores))[:, 1]
    raise TypeError(f"{owner}: classifier {fitted!r} has neither decision_function nor predict_proba; it needs one.")
