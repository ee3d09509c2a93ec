"""The basis of a sum of independent processes: Φ = [Φ_a, Φ_b, …], its columns sorted by λ."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from febm.basis.base import Basis, Rank, check_rank, columns_for_share
from febm.curves import Curves


class SumBasis(Basis):
    """Several bases as one, also written `a + b`.

    Means add up, but no mean is counted twice: the first part is fitted to the curves and carries their
    mean, and each later part is fitted to what the means before it leave. Covariances add up too, and each
    part is fitted to the whole of the variation: scale the kernels of the parts when their sum should be
    that of the data.

    Parameters
    ----------
    parts : the bases.
    rank : how many of the leading columns to keep: an integer, a share of the variance, or None for all.
    """

    parts: tuple[Basis, ...]
    truncation: Rank = eqx.field(static=True)

    def __init__(self, *parts: Basis, rank: Rank = None) -> None:
        for part in parts:
            if not isinstance(part, Basis):
                raise TypeError(f"SumBasis: every part must be a basis; got {type(part).__name__}.")
        if not parts:
            raise ValueError("SumBasis needs at least one basis.")
        flat: list[Basis] = []
        for part in parts:
            # (a + b) + c is a + b + c, unless the inner sum was cut.
            if isinstance(part, SumBasis) and part.truncation is None:
                flat.extend(part.parts)
            else:
                flat.append(part)
        self.parts = tuple(flat)
        self.truncation = check_rank(rank)

    def fit(self, curves: Curves, *, key: PRNGKeyArray) -> SumBasis:
        """A fitted copy: see `Basis.fit`."""
        fitted: list[Basis] = []
        for part, part_key in zip(self.parts, jax.random.split(key, len(self.parts)), strict=True):
            fitted.append(part.fit(curves, key=part_key))
            curves = curves.replace(y=curves.y - fitted[-1].mean(curves.x))
        return eqx.tree_at(lambda basis: basis.parts, self, tuple(fitted))

    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """The sum of the means of the parts."""
        self.require_fitted()
        return np.sum([part.mean(x) for part in self.parts], axis=0)

    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """Φ(x) = √λ·e(x), columns in order of falling λ."""
        order = self._order()
        return np.concatenate([part.features(x) for part in self.parts], axis=2)[:, :, order]

    @property
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """The eigenvalues λ, falling."""
        order = self._order()
        return np.concatenate([part.spectrum for part in self.parts])[order]

    @property
    def noise_variance(self) -> float | None:
        """The smallest of the parts' noise variances: together they explain at least what one explains."""
        variances = [part.noise_variance for part in self.parts if part.noise_variance is not None]
        return min(variances, default=None)

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` made this basis."""
        return all(part.is_fitted for part in self.parts)

    def _order(self) -> np.ndarray:
        """The columns that are kept, by falling λ; of equal ones the earlier part comes first."""
        self.require_fitted()
        spectrum = np.concatenate([part.spectrum for part in self.parts])
        order = np.argsort(-spectrum, kind="stable")
        if isinstance(self.truncation, float):
            return order[: columns_for_share(spectrum[order], self.truncation)]
        return order[: self.truncation]
