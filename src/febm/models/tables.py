"""Tables at the door of a model, as scikit-learn has them: every row is a curve, every column a point that all share.

What scikit-learn checks of a table is checked here with its words: the width, the names of the columns, finite numbers.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from febm.checks import as_numbers, listed, parse_numbers
from febm.curves import Curves
from febm.door import as_curves, holds_points

# Long tables have a column for the curve, the place and the value, and a few more; tables of more columns are wide.
MOST_LONG_COLUMNS = 12
# Fewer points than this in an average curve are no long block.
ROWS_OF_A_CURVE = 5
FITTED = ("n_features_in_", "feature_names_in_", "columns_")


class Table(NamedTuple):
    """Values that were checked, NaN where missing, and where their columns were observed."""

    points: Float[np.ndarray, "columns inputs"]
    values: Float[np.ndarray, "rows columns"]

    @property
    def is_seen(self) -> np.ndarray:
        """Which rows have a value at all."""
        return ~np.isnan(self.values).all(axis=1)

    def curves(self, rows: Any = slice(None)) -> Curves:
        """Some of the rows as curves."""
        return Curves.from_grid(self.points, self.values[rows])


def is_table(value: Any) -> bool:
    """Whether `value` is rows of numbers, and nothing that knows its points, such as `Curves`."""
    if holds_points(value):
        return False
    if isinstance(value, list | tuple) or scipy.sparse.issparse(value):
        return True
    return hasattr(value, "__array__") and getattr(value, "ndim", 2) < 3


def learn_table(model: BaseEstimator, value: Any, owner: str, *, least_rows: int = 1) -> Table:
    """The table that `model` is fitted to; the model remembers its columns."""
    named = _named_points(value, owner)
    values = validate_data(model, _numeric(value, owner), ensure_min_samples=least_rows, **_CHECKS)
    if named is None and hasattr(value, "columns"):
        _refuse_long(values, list(value.columns), owner)
    if np.isnan(values).all():
        raise ValueError(f"{owner} has no value that is not NaN; there is nothing to learn from.")
    points = np.arange(values.shape[1], dtype=float) if named is None else named
    model.columns_ = points[:, None]
    return Table(model.columns_, values)


def forget_table(model: BaseEstimator) -> None:
    """Take back what `learn_table` left: `model` is now fitted to something else."""
    for name in FITTED:
        vars(model).pop(name, None)


def read_table(model: BaseEstimator, value: Any, owner: str) -> Table:
    """A further table: with the columns that `model` was fitted to or, where that was curves, on their grid."""
    named = _named_points(value, owner)
    if not hasattr(model, "columns_"):
        values = check_array(_numeric(value, owner), estimator=model, input_name="X", **_CHECKS)
        if named is not None:
            return Table(named[:, None], values)
        on_grid = as_curves(np.zeros((1, values.shape[1])), owner, like=getattr(model, "grid_", None))
        return Table(on_grid.x, values)
    values = validate_data(model, _numeric(value, owner), reset=False, **_CHECKS)
    if named is not None and not np.array_equal(named, model.columns_[:, 0]):
        raise ValueError(
            f"{owner} has columns at {_ends(named)}, but {type(model).__name__} was fitted to columns at "
            f"{_ends(model.columns_[:, 0])}; give Curves.from_grid(x, array), which may be anywhere."
        )
    return Table(model.columns_, values)


_CHECKS: dict[str, Any] = dict(dtype=np.float64, ensure_all_finite="allow-nan")


def _numeric(value: Any, owner: str) -> Any:
    """The same table, with a sentence of ours where scikit-learn would read on and be wrong."""
    if isinstance(value, pd.DataFrame):
        words = [name for name, kind in value.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
        if words:
            raise TypeError(
                f"{owner} is a table with columns that are not numbers ({listed(map(repr, words))}): give "
                "Curves.from_frame(df, curve=..., x=..., y=...) for a long table, Curves.from_wide(df, ids=...) when "
                "its rows are curves on a common grid."
            )
    if isinstance(value, np.ma.MaskedArray) or (isinstance(value, np.ndarray) and value.dtype.kind in "mM"):
        return as_numbers(value, owner)
    return value


def _refuse_long(values: Float[np.ndarray, "rows columns"], names: list[Any], owner: str) -> None:
    """Refuse a table of a point a row: a place that begins anew with every curve gives it away."""
    if not 3 <= len(names) <= MOST_LONG_COLUMNS:
        return
    rises = np.diff(values, axis=0) > 0
    words = all(isinstance(name, str) for name in names) and bool(parse_numbers(pd.Series(names))[1].all())
    for name, column in zip(names, values.T, strict=True):
        changes = column[1:] != column[:-1]
        curves = 1 + np.count_nonzero(changes)
        if not 2 <= curves <= len(column) / 2 or len(np.unique(column)) != curves:
            continue
        # Rows that are curves do not, by accident, rise within every block of one value and fall after each.
        places = np.flatnonzero((rises != changes[:, None]).all(axis=0))
        sign = f"{names[places[0]]!r} begins anew for every {name!r}" if len(places) else ""
        # Nor do rows whose columns are words come in long blocks of one whole number: such a column counts curves.
        if not sign and words and curves <= len(column) / ROWS_OF_A_CURVE and np.array_equal(column, np.round(column)):
            sign = f"its rows come in blocks of one {name!r}"
        if sign:
            raise TypeError(
                f"{owner} looks like a long table: {sign}, but the rows of a table must be curves. Give "
                "Curves.from_frame(df, curve=..., x=..., y=...), or df.to_numpy() if they are."
            )


def _named_points(value: Any, owner: str) -> Float[np.ndarray, " columns"] | None:
    """The names of the columns, where all of them are numbers (or written as such, as in a file's first row)."""
    columns = getattr(value, "columns", None)
    if columns is None or not len(columns) or getattr(columns, "nlevels", 1) > 1:
        return None
    if isinstance(columns, pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex):
        raise TypeError(f"{owner} has columns named by dates or durations; name them by numbers, such as hours.")
    numbers, not_numbers = parse_numbers(pd.Series(list(columns), dtype=object))
    if not_numbers.any() and not not_numbers.all():
        words = listed(repr(name) for name, is_word in zip(columns, not_numbers, strict=True) if is_word)
        raise TypeError(
            f"{owner} names some columns by their places, but not all ({words}): give Curves.from_wide(df, ids=..., "
            "covariates=...), or drop the others."
        )
    return numbers if not not_numbers.any() and np.isfinite(numbers).all() else None


def _ends(points: np.ndarray) -> str:
    return ", ".join(f"{point:g}" for point in points) if len(points) < 5 else f"{points[0]:g}, …, {points[-1]:g}"
