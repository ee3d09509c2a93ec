"""Rows of numbers in the container that they came in: an array, a table of pandas or polars, an array of xarray."""

from typing import Any

import pandas as pd
from jaxtyping import Float
from numpy import ndarray

from febm.libraries import comes_from


def in_same(container: Any, rows: Float[ndarray, "rows columns"]) -> Any:
    """Other values of the same rows and columns, labelled as `container` is; an array where it is of another kind."""
    if isinstance(container, pd.DataFrame):
        return pd.DataFrame(rows, index=container.index, columns=container.columns)
    if comes_from(container, "polars", "DataFrame"):
        return type(container)(rows, schema=list(container.columns), orient="row")
    if comes_from(container, "xarray", "DataArray"):
        return container.copy(data=rows)
    return rows
