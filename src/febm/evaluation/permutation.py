"""Permutation of the labels of two samples: p = (1 + #{b : T_b ≥ T})/(1 + B), all T_b from one matrix product.

T is computed along with its permutations, as the first row of labels, and values that differ by rounding are equal.
The level is exact for anything that is a function of the pooled sample and of the labels.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from febm.checks import count
from febm.evaluation.mesh import unit_size

ROUNDING = 1e-9  # of the spread of the null sample: what differs by less is tied


def label_rows(
    sizes: tuple[int, int], permutations: int, generator: np.random.Generator
) -> Float[np.ndarray, "permutations+1 curves"]:
    """Rows that are 1 for the curves of the first sample: the labels themselves, then random permutations of them."""
    rows = np.zeros((permutations + 1, sum(sizes)))
    rows[:, : sizes[0]] = 1.0
    generator.permuted(rows[1:], axis=1, out=rows[1:])
    return rows


def permutation_pvalue(statistics: Float[np.ndarray, " permutations+1"], owner: str = "permutation_pvalue") -> float:
    """The share of all rows whose statistic is at least that of the first one, itself included."""
    if not np.isfinite(statistics).all():
        # A comparison with NaN is false: a statistic that is none would look larger than all others.
        raise ValueError(
            f"{owner}: {count(int(np.sum(~np.isfinite(statistics))), 'statistic')} of {len(statistics)}, the observed "
            "one and those of permuted labels, came out NaN or infinite, so there is no p-value; check the values of "
            "the curves, and the kernel or classifier if it is yours."
        )
    (statistics,), _ = unit_size(statistics)
    observed, null = statistics[0], statistics[1:]
    tolerance = ROUNDING * np.abs(null - np.median(null)).mean() + 1e-13 * np.abs(statistics).max()
    return float((1 + np.count_nonzero(null >= observed - tolerance)) / (1 + len(null)))


def mean_discrepancies(
    gram: Float[np.ndarray, "curves curves"], labels: Float[np.ndarray, "rows curves"], sizes: tuple[int, int]
) -> Float[np.ndarray, " rows"]:
    """The unbiased squared maximum mean discrepancy of every labelling.

    MMD² = Σ_{i≠j} k(x_i, x_j)/m(m−1) + Σ_{i≠j} k(y_i, y_j)/n(n−1) − 2 Σ k(x_i, y_j)/mn does not change when u_i + u_j
    is taken from every k_ij. The u that makes every row of K₀, k without its diagonal, sum to zero leaves
    s_xy = −s_xx and s_yy = s_xx, so that MMD² = s_xx·(1/m(m−1) + 1/n(n−1) + 2/mn) with s_xx = rowsum(S K₀ ∘ S).
    """
    m, n = sizes
    centred = centred_off_diagonal(gram)
    within = np.einsum("bi,bi->b", labels @ centred, labels)
    return within * (1 / (m * (m - 1)) + 1 / (n * (n - 1)) + 2 / (m * n))


def centred_off_diagonal(gram: Float[np.ndarray, "curves curves"]) -> Float[np.ndarray, "curves curves"]:
    """k_ij − u_i − u_j off the diagonal and 0 on it, every row of sum 0; for at least three curves."""
    size = len(gram)
    rows = gram.sum(axis=1) - np.diagonal(gram)
    half_total = rows.sum() / (2 * (size - 1))
    shift = (rows - half_total) / (size - 2)
    centred = gram - shift[:, None]
    centred -= shift
    np.fill_diagonal(centred, 0.0)
    # What is left of a constant matrix is rounding.
    if max(centred.max(), -centred.min()) <= 1e-13 * max(gram.max(), -gram.min()):
        centred[:] = 0.0
    return centred
