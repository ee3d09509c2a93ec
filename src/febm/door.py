"""The door of every model and yardstick: what a user hands over becomes `Curves`, or a sentence says how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from febm.checks import as_numbers, count
from febm.curves import Curves
from febm.io_xarray import has_places
from febm.libraries import comes_from


def as_curves(value: Any, name: str = "curves", *, like: Curves | np.ndarray | None = None) -> Curves:
    """`Curves` from Curves, a list of them, functional data of scikit-fda, an array of xarray, or a 2-D array.

    The rows of an array are curves on a common grid. The grid is that of `like`, curves or points beside which they are
    to be seen; without it x = 0, …, m-1.
    """
    if isinstance(value, Curves):
        return value
    if _are_curves(value):
        return Curves.concatenate(value)
    if _is_functional_data(value):
        return Curves.from_skfda(value)
    if _is_labelled(value):
        return Curves.from_xarray(value)
    if isinstance(value, pd.DataFrame) or comes_from(value, "polars", "DataFrame", "LazyFrame"):
        raise TypeError(
            f"{name} is a table: give Curves.from_frame(df, curve=..., x=..., y=...) for a long table, or "
            "Curves.from_wide(df) when its rows are curves and its columns are named by their places."
        )
    numbers = as_numbers(value, name)
    if numbers.ndim != 2:
        raise ValueError(
            f"{name} must be Curves or a 2-D array whose rows are curves on a common grid; "
            f"got shape {numbers.shape}. One curve is array.reshape(1, -1); several outputs go through "
            "Curves.from_grid."
        )
    if 0 in numbers.shape:
        raise ValueError(f"{name} holds no curves with points: its shape is {numbers.shape}.")
    return Curves.from_grid(_grid_of(numbers.shape[1], like, name), numbers)


def holds_points(value: Any) -> bool:
    """Whether `value` says where its functions were observed, as a plain array does not."""
    return isinstance(value, Curves) or _are_curves(value) or _is_functional_data(value) or _is_labelled(value)


def _are_curves(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(part, Curves) for part in value)


def _is_functional_data(value: Any) -> bool:
    return comes_from(value, "skfda", "FData")


def _is_labelled(value: Any) -> bool:
    return comes_from(value, "xarray", "DataArray", "Dataset") and has_places(value)


def _grid_of(columns: int, like: Curves | np.ndarray | None, name: str) -> np.ndarray:
    """Where the columns of an array were observed."""
    if like is None:
        return np.arange(columns)
    points = like.common_points if isinstance(like, Curves) else like
    if points is None or len(points) != columns:
        grid = "no common grid" if points is None else f"a grid of {count(len(points), 'point')}"
        raise ValueError(
            f"{name} is an array of {count(columns, 'column')}, but what it is seen beside has {grid}, so where its "
            "columns were observed is not known; give Curves.from_grid(x, array)."
        )
    return points
