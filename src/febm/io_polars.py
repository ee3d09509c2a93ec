"""Polars tables from and to pandas, in which tables are read and written: types stay, missing is null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from febm.libraries import imported

if TYPE_CHECKING:
    import polars

# Types of polars whose missing values only a nullable type of pandas can hold, by the name of that type.
_NULLABLE = {kind: kind for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")}
_NULLABLE["Boolean"] = "boolean"


def as_pandas(frame: polars.DataFrame) -> pd.DataFrame:
    """The same table in pandas; whole numbers and truth values with gaps stay what they are."""
    return pd.DataFrame({column.name: _as_pandas_column(column) for column in frame.iter_columns()})


def as_polars(frame: pd.DataFrame, owner: str) -> polars.DataFrame:
    """The same table in polars without its index; columns are named by text, and missing values are null."""
    polars = imported("polars", needed_by=f"{owner} with library='polars'")
    columns = []
    for name in frame.columns:
        try:
            columns.append(_as_polars_column(frame[name], polars).alias(str(name)))
        except (TypeError, ValueError) as error:  # what PyArrow raises is both
            raise ValueError(
                f"{owner}: column {str(name)!r} has values of more than one kind, and polars holds one a column; "
                "give them one type with curves.replace(...), or leave library='pandas'."
            ) from error
    return polars.DataFrame(columns)


def _as_polars_column(column: pd.Series, polars: Any) -> polars.Series:
    translated = polars.from_pandas(column)
    if translated.dtype == polars.Categorical and column.cat.ordered:
        # Unlike a Categorical, an Enum knows the order of its categories, and those that do not occur.
        return translated.cast(polars.Enum(list(column.dtype.categories)))
    return translated


def _as_pandas_column(column: polars.Series) -> pd.Series:
    kind: Any = column.dtype
    if str(kind).startswith("Enum"):  # which polars 1.0 hands over without its order
        return pd.Series(pd.Categorical(column.to_list(), kind.categories.to_list(), ordered=True))
    nullable = _NULLABLE.get(str(kind))
    if nullable is not None and column.null_count():
        return pd.Series(column.to_list(), dtype=nullable)
    return column.to_pandas()
