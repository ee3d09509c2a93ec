"""From curves to a data set: the paper's split sizes, and units taken off as the paper does.

Melbourne and Stocks: (y − mean)/scale with one mean and one scale, those of all training values.
GridWatch: (y − meanᵢ)/scaleᵢ, every curve by its own.
"""

from __future__ import annotations

import numpy as np

from febm.curves import Curves
from febm.randomness import RandomState


def in_two_parts(curves: Curves, published: tuple[int, int], random_state: RandomState) -> tuple[Curves, Curves]:
    """A random training and evaluation part of the published sizes; in their proportion where curves are fewer."""
    share = published[0] / sum(published)
    train_size = int(np.clip(round(share * len(curves)), 1, len(curves) - 1))
    train, evaluation = curves.split(train_size, random_state=random_state)
    return train, evaluation


def in_training_units(train: Curves, evaluation: Curves, owner: str) -> tuple[Curves, Curves, float, float]:
    """Both parts less the mean of all training values, divided by their standard deviation; and these two numbers."""
    mean, scale = float(train.y.mean()), float(train.y.std())
    if not scale > 0:
        raise ValueError(f"{owner}: all training values are {mean:g}, so they have no scale; give standardise=False.")
    return train.replace(y=(train.y - mean) / scale), evaluation.replace(y=(evaluation.y - mean) / scale), mean, scale


def units(unit: str, mean: float, scale: float) -> str:
    """How to undo `in_training_units`, in words."""
    return f"Standardised by the training part: {unit} = {mean:.10g} + {scale:.10g}·y."
