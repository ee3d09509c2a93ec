"""The covariance of rough curves that are few: what they have beyond a random walk, as far as their number shows it.

A few hundred curves do not determine the covariance of a few hundred values. In coordinates where that of a random walk
is the identity, the truth is thought to be near it in most directions, and far from it in some that are not known.
There the sample eigenvectors are kept, and every eigenvalue is replaced by the estimate of what its direction really
has (Ledoit and Wolf 2022, "Quadratic shrinkage for large covariance matrices", Bernoulli 28).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Float, Int

DEGREES = 10.0
"""Of freedom of the t distribution under which curves are weighted."""
NEGLIGIBLE = 1e-12
"""Of the largest eigenvalue: rounding."""
NEAR_SQUARE = 1.06
"""With up to so many degrees of freedom for each direction the least eigenvalue is all chance."""
LEAST = 0.1
"""Of the median: what an eigenvalue counts for at least where others, of directions not seen, are derived from it."""

Square = Float[np.ndarray, "values values"]


def shrink_to_walk(
    centred: Float[np.ndarray, "curves values"], unknown: Square, order: Int[np.ndarray, " points"]
) -> Square:
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
    white = centred @ inverse
    lengths = np.sum(white**2, axis=1)
    weights = 1 / (DEGREES + lengths)
    weights *= lengths.sum() / (weights @ lengths)
    sample = (weights * white.T) @ white / degrees + inverse.T @ unknown @ inverse
    values, vectors = scipy.linalg.eigh(sample)
    half = root @ (vectors * np.sqrt(shrunk_eigenvalues(values, degrees)))
    return half @ half.T


def shrunk_eigenvalues(values: Float[np.ndarray, " values"], degrees: int) -> Float[np.ndarray, " values"]:
    """What to put in the place of the rising eigenvalues of a sample covariance with so many degrees of freedom.

    Their sum stays, and they rise. `real` and `imaginary` are the Hilbert transform and the density of the inverse
    eigenvalues, both smoothed with a width that falls with their number. An eigenvalue next to zero would bring others
    there: that of a copy of a curve, or the least where there are about as many curves as values.
    """
    size = len(values)
    if size <= degrees <= NEAR_SQUARE * size:
        degrees = max(size - 1, 1)
    seen, ratio = min(size, degrees), size / degrees
    counted = values[-seen:]
    least = NEGLIGIBLE * counted[-1] if ratio <= 1 else LEAST * np.median(counted)
    inverse = 1 / np.maximum(counted, least)
    width = min(ratio, 1 / ratio) ** 0.7 / size**0.35
    apart = inverse[:, None] - inverse
    nearness = inverse[:, None] / (apart**2 + (width * inverse[:, None]) ** 2)
    real, imaginary = np.mean(nearness * apart, axis=0), np.mean(nearness * width * inverse[:, None], axis=0)
    squared = real**2 + imaginary**2
    if ratio <= 1:
        shrunk = 1 / (inverse * ((1 - ratio) ** 2 + 2 * ratio * (1 - ratio) * real + ratio**2 * squared))
    else:
        unseen = 1 / ((ratio - 1) * inverse.mean())
        shrunk = np.concatenate([np.full(size - seen, unseen), 1 / (inverse * squared)])
    rising = scipy.optimize.isotonic_regression(shrunk).x
    return rising * (values.sum() / rising.sum())


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
