"""What long and wide tables have in common: columns found by their names, and numbers in them or a sentence why not."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from febm.checks import are, count, listed, parse_numbers
from febm.io_dates import column_of_dates
from febm.libraries import comes_from

if TYPE_CHECKING:
    import polars

LIBRARIES = ("pandas", "polars")
LONGEST_SHOWN = 60


def as_table(df: Any, owner: str) -> pd.DataFrame | polars.DataFrame:
    """A table of pandas or polars as it is, any other as pandas."""
    if isinstance(df, pd.DataFrame) or comes_from(df, "polars", "DataFrame"):
        return df
    table = df.to_pandas() if hasattr(df, "to_pandas") else None
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{owner}: df must be a pandas or polars DataFrame; got {type(df).__name__}.")
    return table


def pandas_columns(table: pd.DataFrame | polars.DataFrame, names: Sequence[Any]) -> pd.DataFrame:
    """The table in pandas; of a polars table, which has to be translated, these columns only."""
    if isinstance(table, pd.DataFrame):
        return table
    from febm.io_polars import as_pandas

    return as_pandas(table.select(list(dict.fromkeys(names))))


def in_library(frame: pd.DataFrame, library: str, owner: str) -> Any:
    """A table of pandas as one of `library`."""
    require_library(library, owner)
    if library == "pandas":
        return frame
    from febm.io_polars import as_polars

    return as_polars(frame, owner)


def require_library(library: str, owner: str) -> None:
    """Refuse a library that tables are not written in."""
    if library not in LIBRARIES:
        raise ValueError(f"{owner}: library is {library!r}; give {' or '.join(map(repr, LIBRARIES))}.")


def named_columns(
    table: pd.DataFrame | polars.DataFrame, names: Any, role: str, owner: str, *, may_be_empty: bool = False
) -> list[Hashable]:
    """The names of columns, one or a list of them, which the table has to have once."""
    labels = list(table.columns)
    single = isinstance(names, str) or not isinstance(names, list | tuple | pd.Index)
    if single or (isinstance(names, tuple) and names in labels):
        names = [names]
    names = list(names)
    if not names and not may_be_empty:
        raise ValueError(f"{owner}: {role} must name at least one column; got an empty list.")
    absent = [name for name in names if name not in labels]
    if absent:
        noun = "column" if len(absent) == 1 else "columns"
        raise ValueError(
            f"{owner}: {role} names {noun} {listed(map(repr, absent))}, which df does not have; "
            f"its columns are {', '.join(map(repr, labels))}."
        )
    repeated = [name for name in names if labels.count(name) > 1]
    if repeated:
        raise ValueError(f"{owner}: df has more than one column {repeated[0]!r}; rename or drop the others.")
    return names


def number_columns(
    frame: pd.DataFrame, names: Sequence[Hashable], owner: str, *, missing_allowed: bool = True
) -> np.ndarray:
    """The numbers of columns side by side, NaN where missing."""
    columns = np.empty((len(frame), len(names)))
    for position, name in enumerate(names):
        numbers = _numbers(frame[name], name, owner)
        refuse_rows(np.isinf(numbers), name, "infinite", "infinite", "drop or fix", owner)
        if not missing_allowed:
            way_out = "every point needs a place: drop or fix"
            refuse_rows(np.isnan(numbers), name, "missing", "missing", way_out, owner)
        columns[:, position] = numbers
    return columns


def _numbers(column: pd.Series, name: Hashable, owner: str) -> np.ndarray:
    """The numbers of a column, NaN where missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if column.dtype.kind in "mM" or isinstance(column.dtype, pd.PeriodDtype):
        _refuse_dates(column, name, owner)
        return np.full(len(column), np.nan)  # none of the dates is known
    numbers, not_numbers = parse_numbers(column)
    if not_numbers.any():
        if (not_numbers | column.isna().to_numpy(dtype=bool)).all():
            _refuse_dates(column, name, owner)
        first = _shown(column[not_numbers].iloc[0])
        one, many = f"not a number: {first}", f"not numbers, such as {first}"
        refuse_rows(not_numbers, name, one, many, "drop or fix", owner)
    return numbers


def _refuse_dates(column: pd.Series, name: Hashable, owner: str) -> None:
    """Raise when all that a column holds is dates, times of day or durations, and say how numbers are made of them."""
    way_out = column_of_dates(column, name)
    if way_out is not None:
        row = int(column.notna().to_numpy().argmax())
        raise ValueError(
            f"{owner}: column {name!r} holds dates or durations, such as {_shown(column.iloc[row])} in row {row}, and "
            f"must hold numbers. In pandas, {way_out}."
        )


def _shown(value: object) -> str:
    """A value as a sentence names it."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def refuse_rows(bad: np.ndarray, name: Hashable, one: str, many: str, way_out: str, owner: str) -> None:
    """Raise when a column has bad values, and say in which rows."""
    rows = np.flatnonzero(bad)
    if len(rows):
        single = len(rows) == 1
        raise ValueError(
            f"{owner}: column {name!r} has {count(len(rows), 'value')} that {are(len(rows))} "
            f"{one if single else many} ({'row' if single else 'rows'} {listed(rows)}); "
            f"{way_out} {'it' if single else 'them'}."
        )


def refuse_repeated_names(names: Sequence[Hashable], owner: str) -> None:
    """Raise when two columns would have one name."""
    repeated = [name for name in dict.fromkeys(names) if list(names).count(name) > 1]
    if repeated:
        raise ValueError(
            f"{owner}: two columns would be called {listed(map(repr, repeated))}; "
            "rename the covariate or the level of the ids with curves.replace(...)."
        )


def as_index(keys: pd.DataFrame) -> pd.Index:
    """Ids from columns: an index of one, or of a level for each of several."""
    return pd.Index(keys.iloc[:, 0]) if keys.shape[1] == 1 else pd.MultiIndex.from_frame(keys)


def id_columns(ids: pd.Index) -> list[tuple[Hashable, pd.Index]]:
    """The ids as named columns: `curve`, or one for each level."""
    if not isinstance(ids, pd.MultiIndex):
        return [("curve", ids)]
    names = [f"curve{level}" if name is None else name for level, name in enumerate(ids.names)]
    return [(name, ids.get_level_values(level)) for level, name in enumerate(names)]


def numbered(name: str, width: int) -> list[str]:
    """What the columns of an array are called: `x`, or `x0`, `x1`, … where there are several."""
    return [name] if width == 1 else [f"{name}{column}" for column in range(width)]
