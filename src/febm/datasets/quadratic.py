"""The paper's Quadratic data: f(x) = a·x² + b with a = ±1, two modes that a Gaussian cannot express."""

import jax
import numpy as np
import pandas as pd

from febm.checks import whole_number
from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.randomness import RandomState, as_key


def load_quadratic(
    random_state: RandomState = 0, *, n_train: int = 200, n_evaluation: int = 200, points: int = 30
) -> Dataset:
    """Quadratics on a regular grid over [−10, 10], a uniform on {−1, 1}, b ~ N(0, 10²), without noise.

    The covariates `a` and `b` of each curve say which function it is.

    Examples
    --------
    >>> data = load_quadratic(random_state=0)
    >>> len(data.train), len(data.evaluation)
    (200, 200)
    """
    n_train = whole_number("load_quadratic: n_train", n_train)
    n_evaluation = whole_number("load_quadratic: n_evaluation", n_evaluation)
    points = whole_number("load_quadratic: points", points)
    sign_key, intercept_key = jax.random.split(as_key(random_state))
    count = n_train + n_evaluation
    a = 2.0 * np.asarray(jax.random.bernoulli(sign_key, shape=(count,))) - 1.0
    b = 10.0 * np.asarray(jax.random.normal(intercept_key, (count,)), dtype=float)
    x = np.linspace(-10.0, 10.0, points)
    curves = Curves.from_grid(x, a[:, None] * x**2 + b[:, None], covariates=pd.DataFrame({"a": a, "b": b}))
    return Dataset(
        train=curves[:n_train],
        evaluation=curves[n_train:],
        description=f"{count} quadratics a·x² + b on {points} points of [−10, 10], a = ±1, b ~ N(0, 10²).",
        source="Lim, Vollmer, Wolf, Duncan (AISTATS 2023), section 5.2",
        licence="made by febm (MIT)",
    )
