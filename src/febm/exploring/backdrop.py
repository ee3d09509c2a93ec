"""Curves behind the picture, as the page draws them."""

from typing import Any

import numpy as np

from febm.curves import Curves

# More curves, or more points of one, only make the picture darker; those shown are spread evenly over all.
SHOWN_CURVES, SHOWN_POINTS = 60, 400
# Of functions of two inputs one is shown at a time, as a map that has to have all its cells.
SHOWN_MAPS, SHOWN_CELLS = 24, 1024


def as_json(curves: Curves) -> dict[str, Any]:
    """Some of the curves: in order of x, and null where an output was not observed."""
    most, points = (SHOWN_CURVES, SHOWN_POINTS) if curves.d_x == 1 else (SHOWN_MAPS, SHOWN_CELLS)
    chosen = _spread(len(curves), most)
    return {"inputs": curves.d_x, "curves": [_one(curves[int(i)], points) for i in chosen]}


def _one(curve: Curves, points: int) -> dict[str, Any]:
    order = np.lexsort(curve.x.T[::-1])
    kept = order[_spread(len(order), points)]
    values = [[None if np.isnan(value) else value for value in column] for column in curve.y[kept].T.tolist()]
    places = curve.x[kept, 0] if curve.d_x == 1 else curve.x[kept]
    return {"name": str(curve.ids[0]), "x": places.tolist(), "y": values}


def _spread(total: int, most: int) -> np.ndarray:
    """At most so many places among so many, the first and the last among them."""
    return np.unique(np.linspace(0, total - 1, most).round().astype(int))
