"""Images as functions on the unit square: a pixel is the point at its centre, rows run down, columns to the right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from febm.checks import count, whole_number
from febm.curves import Curves
from febm.gridded import GriddedCurves
from febm.ragged import as_covariates, as_ids

# The value of a byte that stands for full brightness.
BRIGHTEST = 255.0


def grid2d(height: int, width: int) -> Float64[np.ndarray, "pixels 2"]:
    """The centres of `height` × `width` pixels of the unit square, row by row from the top: ((i + ½)/h, (j + ½)/w).

    Examples
    --------
    >>> grid2d(2, 2).tolist()
    [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    """
    sides = [whole_number(f"grid2d: {name}", side) for name, side in (("height", height), ("width", width))]
    centres = [(np.arange(side) + 0.5) / side for side in sides]
    return np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, 2)


def grid_shape(points: Float64[np.ndarray, "points 2"]) -> tuple[int, int] | None:
    """Rows and columns of the grid that the distinct `points` fill; None where they do not fill one."""
    rows, columns = (len(np.unique(coordinate)) for coordinate in points.T)
    return (rows, columns) if rows * columns == len(points) else None


def from_images(images: Any, labels: Any = None, *, ids: Any = None, covariates: Any = None) -> Curves:
    """What `Curves.from_images` does."""
    name = "Curves.from_images"
    pixels = np.asarray(images)
    if pixels.ndim not in (3, 4) or 0 in pixels.shape:
        raise ValueError(
            f"{name}: images must be (n, height, width) or (n, height, width, colours); got shape {pixels.shape}. "
            "One image is image[None]."
        )
    if pixels.dtype.kind not in "fbu" or (pixels.dtype.kind == "u" and pixels.dtype != np.uint8):
        raise TypeError(
            f"{name}: images hold numbers of type {pixels.dtype}; give bytes (uint8, from 0 to 255), or floats."
        )
    n, height, width = pixels.shape[:3]
    table = _with_labels(name, labels, as_covariates(name, covariates, n), n)
    stored, points = pixels.reshape(n, height * width, -1), grid2d(height, width)
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():  # missing pixels: every image has its own points
        return Curves.from_grid(points, stored, ids=ids, covariates=table)
    divisor = BRIGHTEST if pixels.dtype == np.uint8 else 1.0
    # The caller may go on to change its array.
    return GriddedCurves(points, stored.copy(), as_ids(name, ids, n), table, divisor)


def to_images(curves: Curves) -> Float64[np.ndarray, "images height width *colours"]:
    """What `Curves.to_images` does."""
    name = "Curves.to_images"
    if curves.d_x != 2:
        raise ValueError(f"{name}: images are functions of two inputs; these curves have {curves.d_x}.")
    points, values = curves.to_grid()
    shape = grid_shape(points)
    if shape is None:
        raise ValueError(
            f"{name}: the {count(len(points), 'point')} of the curves fill no grid of rows and columns; evaluate "
            "a model at febm.grid2d(height, width), or draw the points with "
            "febm.plotting.plot_images(curves, scatter=True)."
        )
    images = values.reshape(len(curves), *shape, curves.d_y)
    return images[..., 0] if curves.d_y == 1 else images


def _with_labels(name: str, labels: Any, table: pd.DataFrame | None, n: int) -> pd.DataFrame | None:
    if labels is None:
        return table
    found = np.asarray(labels)
    if found.shape != (n,):
        raise ValueError(f"{name}: labels has shape {found.shape}; give one label for each of {count(n, 'image')}.")
    if table is not None and "label" in table:
        raise ValueError(f"{name}: covariates has a column 'label' already; leave labels out.")
    first = pd.DataFrame({"label": found})
    return first if table is None else pd.concat([first, table], axis=1)
