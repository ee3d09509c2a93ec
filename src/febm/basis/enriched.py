"""A few functions of a basis and a stationary remainder: f = m + Φ_r·w + g, g a Matérn process of its own.

Eigenfunctions estimated from some hundred curves say little about the fine detail of the next one; the remainder gives
that detail the size and smoothness that held-out curves show, where a basis alone can only call it noise.
"""

from __future__ import annotations

import itertools

import equinox as eqx
import numpy as np
import scipy.special
from jaxtyping import Float, Int, PRNGKeyArray

from febm.basis.base import Basis, copies_per_output
from febm.curves import Curves


class Remainder(eqx.Module):
    """A Matérn process on the unit box as a sum of cosines, weighted by its spectral density (Solin and Särkkä, 2020).

    √S(πk)·∏ √2 cos(πk x). All slopes vanish at the ends of the box, where the variance is larger than within.

    Parameters
    ----------
    orders : k, half cycles across the box, one row for each cosine.
    size, length, smoothness : standard deviation, length scale and ν of the process.
    """

    orders: Int[np.ndarray, "cosines inputs"]
    size: float
    length: float
    smoothness: float

    @classmethod
    def white(cls, orders: Int[np.ndarray, "cosines inputs"]) -> Remainder:
        """All weights are 1."""
        return cls(orders, size=float(np.sqrt(len(orders))), length=0.0, smoothness=1.0)

    @property
    def weights(self) -> Float[np.ndarray, " cosines"]:
        """√S of every cosine: their squares sum to the variance, whatever the length."""
        squares = np.sum((np.pi * self.orders * self.length) ** 2, axis=1)
        power = -(self.smoothness + self.orders.shape[1] / 2) * np.log1p(squares / (2 * self.smoothness))
        return self.size * np.sqrt(scipy.special.softmax(power))

    def cosines(self, x: Float[np.ndarray, "points inputs"]) -> Float[np.ndarray, "points cosines"]:
        """The cosines without their weights."""
        waves = np.cos(np.pi * x[:, None] * self.orders) * np.where(self.orders == 0, 1.0, np.sqrt(2))
        return np.prod(waves, axis=-1)


class Enriched(Basis):
    """The first functions of a basis, each with a weight, followed by those of a remainder for each output.

    Unlike other bases' its columns are not in order of falling λ: the remainder's come last, whatever their size.

    Parameters
    ----------
    core : a basis; the mean function is its own.
    weights : what the first functions of the core are multiplied by; the others are not used.
    remainder : the process beside them, or None.
    outputs : number of outputs.
    """

    core: Basis
    weights: Float[np.ndarray, " kept"]
    remainder: Remainder | None
    outputs: int = eqx.field(static=True)

    def fit(self, curves: Curves, *, key: PRNGKeyArray) -> Enriched:
        """A fitted copy: see `Basis.fit`. Weights and remainder stay as they are."""
        core = self.core.fit(curves, key=key)
        return Enriched(core, self.weights[: core.rank], self.remainder, curves.d_y)

    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """The mean function of the core."""
        return self.core.mean(x)

    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """Φ(x): functions of the core, then cosines."""
        functions = self.core.features(x)[:, :, : len(self.weights)] * self.weights
        if self.remainder is None:
            return functions
        cosines = self.remainder.cosines(x) * self.remainder.weights
        own = copies_per_output(cosines, self.outputs, cosines.shape[1] * self.outputs)
        return np.concatenate([functions, own], axis=2)

    @property
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """The eigenvalues of the core, weighted, and the variances of the cosines."""
        own = self.core.spectrum[: len(self.weights)] * np.square(self.weights)
        if self.remainder is None:
            return own
        return np.concatenate([own, np.repeat(np.square(self.remainder.weights), self.outputs)])

    @property
    def noise_variance(self) -> float | None:
        """The core's: what the remainder takes of it is not known here."""
        return self.core.noise_variance

    @property
    def is_fitted(self) -> bool:
        """Whether the core is fitted."""
        return self.core.is_fitted


def lowest_orders(count: int, inputs: int) -> Int[np.ndarray, "count inputs"]:
    """The `count` products of cosines with the lowest frequencies."""
    side = range(2 * int(np.ceil(count ** (1 / inputs))))
    lowest = sorted(itertools.product(side, repeat=inputs), key=lambda order: (sum(k * k for k in order), order))
    return np.array(lowest[:count])
