"""A basis turns weights into functions: f(x) = mean(x) + Φ(x)·w, with Φ(x) = √λ·e(x).

Under the path measure, the Gaussian process that the basis stands for, w ~ N(0, I).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from febm.curves import Curves
from febm.errors import NotFittedError

if TYPE_CHECKING:
    from febm.basis.sums import SumBasis

Rank: TypeAlias = int | float | None


class Basis(eqx.Module):
    """What every basis offers: a mean function and the features Φ(x) = √λ·e(x), float64 NumPy in and out.

    A basis is both the specification and the fitted thing: `fit` gives back a fitted copy and leaves
    `self` as it was. `a + b` is the basis of the sum of two independent processes.
    """

    @abstractmethod
    def fit(self, curves: Curves, *, key: PRNGKeyArray) -> Basis:
        """A fitted copy of this basis."""

    @abstractmethod
    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """The mean function at `x (m, d_x)`: shape `(m, d_y)`."""

    @abstractmethod
    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """Φ(x) = √λ·e(x) at `x (m, d_x)`: shape `(m, d_y, rank)`, columns in order of falling λ."""

    @property
    @abstractmethod
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """The eigenvalues λ, falling, one for each column of `features`."""

    @property
    @abstractmethod
    def noise_variance(self) -> float | None:
        """The observation noise variance found while fitting; None when the basis has no opinion."""

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether `mean` and `features` can be asked."""

    @property
    def rank(self) -> int:
        """The number of columns of `features`."""
        return len(self.spectrum)

    def eigenfunctions(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """The functions e(x) = Φ(x)/√λ, of unit size in the measure of the basis."""
        return self.features(x) / np.sqrt(self.spectrum)

    def require_fitted(self) -> None:
        """Raise `NotFittedError` unless the basis is fitted."""
        if not self.is_fitted:
            name = type(self).__name__
            raise NotFittedError(
                f"{name} is not fitted yet: call `{name}.fit(curves, key=...)` and use what it returns."
            )

    def __add__(self, other: Basis) -> SumBasis:
        # Imported here because a sum is itself a basis.
        from febm.basis.sums import SumBasis

        return SumBasis(self, other) if isinstance(other, Basis) else NotImplemented


def check_rank(rank: Rank) -> Rank:
    """Refuse a truncation that is neither a positive integer, nor a share in (0, 1), nor None."""
    if rank is None:
        return None
    if isinstance(rank, int | np.integer) and not isinstance(rank, bool) and rank >= 1:
        return int(rank)
    if isinstance(rank, float | np.floating) and 0 < rank < 1:
        return float(rank)
    raise ValueError(
        f"rank must be a positive integer (that many features), a number strictly between 0 and 1 "
        f"(that share of the variance) or None (the default); got {rank!r}."
    )


def columns_for_share(spectrum: np.ndarray, share: float, total: float | None = None) -> int:
    """The fewest leading eigenvalues whose sum reaches `share` of `total` (by default, of all given)."""
    explained = np.cumsum(spectrum)
    total = explained[-1] if total is None else total
    # A slack of some rounding errors keeps a share that is reached exactly from asking for one column more.
    enough = explained >= share * total * (1 - 1e-12)
    return int(np.argmax(enough)) + 1 if enough.any() else len(spectrum)


def copies_per_output(values: Float[np.ndarray, "points columns"], d_y: int, rank: int) -> np.ndarray:
    """Independent copies of scalar features for each output, `(m, d_y, rank)`.

    Column `j·d_y + o` is feature `j` on output `o` and zero on the others, so falling λ stays falling.
    """
    features = np.zeros((values.shape[0], d_y, rank))
    for output in range(d_y):
        columns = math.ceil((rank - output) / d_y)
        features[:, output, output::d_y] = values[:, : max(columns, 0)]
    return features
