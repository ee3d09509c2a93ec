"""The covariance of rough curves that are few: what they have beyond a random walk, as far as their number shows it.

A few hundred curves do not determine the covariance of a few hundred values. In coordinates where that of a random walk
is the identity, the truth is thought to be near it in most directions, and far from it in some that are not known.
There the sample eigenvectors are kept, and every eigenvalue is replaced by what curves that were held out have along
such a direction (Bartz 2016, "Cross-validation based nonlinear shrinkage", arXiv 1611.00798).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Float, Int

DEGREES = 10.0
"""Of freedom of the t distribution under which curves are weighted."""
FOLDS = 20
"""Of curves that are held out in turn; 40 change nothing, with 10 errors in gaps of prices are up to 4 % larger."""
NEGLIGIBLE = 1e-12
"""Of the largest eigenvalue: rounding."""

Table = Float[np.ndarray, "curves values"]
Square = Float[np.ndarray, "values values"]


def shrink_to_walk(centred: Table, unknown: Square, order: Int[np.ndarray, " points"]) -> Square:
    """The covariance of centred curves, shrunk to that of a walk along their points in this order.

    `unknown` is what has to be added to the curves' own covariance, for values of theirs that are missing.

    Curves count alike, whether they are smooth or rough: weights are those of a t distribution about the walk. (Further
    rounds, about what was found, change little where curves are prices, and one wild curve could come to rule.)
    """
    degrees = len(centred) - 1
    walk = walk_covariance(centred.T @ centred / degrees + unknown, order)
    variances, axes = scipy.linalg.eigh(walk)
    kept = variances > NEGLIGIBLE * variances[-1]
    if not kept.any():
        return walk
    root, inverse = axes[:, kept] * np.sqrt(variances[kept]), axes[:, kept] / np.sqrt(variances[kept])
    white, added = centred @ inverse, inverse.T @ unknown @ inverse
    lengths = np.sum(white**2, axis=1)
    weights = 1 / (DEGREES + lengths)
    weights *= lengths.sum() / (weights @ lengths)
    values, vectors = _axes(white, weights, added)
    found = held_out_variances(white, weights, added, folds_of(centred))
    half = root @ (vectors * np.sqrt(found * (values.sum() / found.sum())))
    return half @ half.T


def held_out_variances(
    white: Table, weights: Float[np.ndarray, " curves"], added: Square, fold: Int[np.ndarray, " curves"]
) -> Float[np.ndarray, " values"]:
    """What the eigenvectors of a sample covariance really have, from the least to the most, and rising.

    Along those of most of the curves the others have it, up to chance: the more so as it has to rise.
    """
    found = np.zeros(white.shape[1])
    for out in (fold == number for number in np.unique(fold)):
        rest = white[~out]
        centre = rest.mean(axis=0)
        _, vectors = _axes(rest - centre, weights[~out], added)
        # A centre of n curves adds an n-th of their variance.
        along = len(rest) / (len(rest) + 1) * ((white[out] - centre) @ vectors) ** 2
        found += weights[out] @ along + out.sum() * np.sum(vectors * (added @ vectors), axis=0)
    return scipy.optimize.isotonic_regression(found / len(white)).x


def folds_of(curves: Table) -> Int[np.ndarray, " curves"]:
    """The number of each curve's fold; copies of a curve are in the same, or they would speak for each other."""
    _, first, which = np.unique(curves, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.reshape(-1)] % FOLDS


def _axes(white: Table, weights: Float[np.ndarray, " curves"], added: Square) -> tuple[np.ndarray, np.ndarray]:
    """Rising eigenvalues and eigenvectors of the weighted covariance of centred curves."""
    return scipy.linalg.eigh((weights * white.T) @ white / max(len(white) - 1, 1) + added)


def walk_covariance(covariance: Square, order: Int[np.ndarray, " points"]) -> Square:
    """The covariance of random walks along the points that take steps as large as the curves do.

    A walk starts from either end with the spread that curves have there, and every step is independent of the others;
    this is the mean of the two. So its level has more spread than that of the curves, where these return to their mean:
    what few curves say of levels is not to hold back the next one. The outputs of a point take their steps together,
    and are next to each other in `covariance`.
    """
    points = len(order)
    blocks = covariance.reshape(points, len(covariance) // points, points, -1)[order][:, :, order]
    back = np.argsort(order)
    walks = 0.5 * (_walk(blocks) + _walk(blocks[::-1, :, ::-1])[::-1, :, ::-1])
    return walks[back][:, :, back].reshape(covariance.shape)


def _walk(blocks: Float[np.ndarray, "points outputs points outputs"]) -> np.ndarray:
    here = np.arange(len(blocks))
    own, across = blocks[here, :, here], blocks[here[1:], :, here[:-1]]
    steps = np.concatenate([own[:1], own[1:] + own[:-1] - across - np.swapaxes(across, 1, 2)])
    together = np.cumsum(steps, axis=0)[np.minimum.outer(here, here)]  # (points, points, outputs, outputs)
    return np.swapaxes(together, 1, 2)
