"""The paper's calibration data: noiseless draws of a Gaussian process, f ~ GP(0, exp(−(x − x′)²/2ℓ²)), on [−5, 5]."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from febm.checks import whole_number
from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.randomness import RandomState, as_key, numpy_generator

LOWER, UPPER = -5.0, 5.0


def load_gp_draws(
    random_state: RandomState = 0,
    *,
    n_train: int = 100,
    n_evaluation: int = 100,
    points: int = 50,
    length_scale: float = 1.0,
) -> Dataset:
    """Draws of a zero-mean Gaussian process with a Gaussian kernel of variance 1, each at its own 50 points.

    The points of a curve are uniform on [−5, 5], in ascending order. The paper has 100 curves to train on and does not
    say its length scale.

    Examples
    --------
    >>> data = load_gp_draws(random_state=0)
    >>> len(data.train), len(data.evaluation), data.train.lengths.max()
    (100, 100, np.int64(50))
    """
    n_train, n_evaluation, points = (
        whole_number(f"load_gp_draws: {name}", value)
        for name, value in (("n_train", n_train), ("n_evaluation", n_evaluation), ("points", points))
    )
    if not 0 < length_scale < np.inf:
        raise ValueError(f"load_gp_draws: length_scale is {length_scale!r}; give a finite number above 0.")
    generator = numpy_generator(as_key(random_state))
    x = np.sort(generator.uniform(LOWER, UPPER, (n_train + n_evaluation, points)), axis=1)
    y = _draws(x, float(length_scale), generator)
    curves = Curves.from_arrays(x, y)
    return Dataset(
        train=curves[:n_train],
        evaluation=curves[n_train:],
        description=f"{len(curves):,} noiseless draws of a zero-mean Gaussian process, Gaussian kernel with variance 1 "
        f"and length scale {length_scale:g}, each at {points} points of its own from U(−5, 5).",
        source="Lim, Vollmer, Wolf, Duncan (AISTATS 2023), section 5.1",
        licence="made by febm (MIT)",
    )


def _draws(
    x: Float[np.ndarray, "curves points"], length_scale: float, generator: np.random.Generator
) -> Float[np.ndarray, "curves points"]:
    """K^½ ε for every curve.

    K is singular in floating point, so a Cholesky factor would need a jitter, which is noise. The symmetric root by
    eigenvalues needs none: those that rounding makes negative are zero. Unlike V√λ it does not depend on the signs
    of the eigenvectors, which differ between machines.
    """
    K = np.exp(-0.5 * np.square((x[:, :, None] - x[:, None, :]) / length_scale))
    with threadpool_limits(1, user_api="blas"):  # threads only wait for each other over matrices this small
        eigenvalues, vectors = np.linalg.eigh(K)
    roots = np.sqrt(np.maximum(eigenvalues, 0.0))
    white = np.einsum("nij,ni->nj", vectors, generator.standard_normal(x.shape))
    return np.einsum("nij,nj->ni", vectors, roots * white)
