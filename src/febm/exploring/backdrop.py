"""Curves behind the picture, as the page draws them."""

from typing import Any

import numpy as np

from febm.curves import Curves

# More curves, or more points of one, only make the picture darker; those shown are spread evenly over all.
SHOWN_CURVES, SHOWN_POINTS = 60, 400


def as_json(curves: Curves) -> list[dict[str, Any]]:
    """Some of the curves: from left to right, and null where an output was not observed."""
    chosen = np.unique(np.linspace(0, len(curves) - 1, SHOWN_CURVES).round().astype(int))
    return [_one(curves[int(i)]) for i in chosen]


def _one(curve: Curves) -> dict[str, Any]:
    order = np.argsort(curve.x[:, 0], kind="stable")
    kept = order[np.unique(np.linspace(0, len(order) - 1, SHOWN_POINTS).round().astype(int))]
    values = [[None if np.isnan(value) else value for value in column] for column in curve.y[kept].T.tolist()]
    return {"x": curve.x[kept, 0].tolist(), "y": values}
