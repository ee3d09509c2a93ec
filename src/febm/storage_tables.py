"""How dates, pandas tables and indices are written as trees for `febm.storage`."""

import datetime
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

Json: TypeAlias = Any
Recurse: TypeAlias = Callable[[Any], Any]

TABLE_KINDS = frozenset({"frame", "series", "index", "multi_index", "range_index", "column", "time", "missing"})

_TIMES = {
    "timestamp": pd.Timestamp,
    "datetime": datetime.datetime,
    "date": datetime.date,
}
_MISSING = {"NaT": pd.NaT, "NA": pd.NA}


def table_to_tree(value: Any, write: Recurse) -> Json | None:
    """The tree of a pandas object or a date, its parts written by `write`; None if it is neither."""
    if isinstance(value, pd.DataFrame):
        columns = [_write_column(value.iloc[:, place].array, write) for place in range(value.shape[1])]
        index, names = _write_index(value.index, write), _write_index(value.columns, write)
        return {"kind": "frame", "index": index, "names": names, "columns": columns}
    if isinstance(value, pd.Series):
        index, name = _write_index(value.index, write), write(value.name)
        return {"kind": "series", "index": index, "name": name, "column": _write_column(value.array, write)}
    if isinstance(value, pd.Index):
        return _write_index(value, write)
    for name, missing in _MISSING.items():
        if value is missing:
            return {"kind": "missing", "value": name}
    for name, cls in _TIMES.items():
        if type(value) is cls:
            if getattr(value, "tzinfo", None) is not None:
                return None  # an offset alone would not bring the time zone back
            return {"kind": "time", "type": name, "value": value.isoformat()}
    return None


def table_from_tree(tree: Json, read: Recurse) -> Any:
    """Put together again what `table_to_tree` took apart."""
    kind = tree["kind"]
    if kind == "missing":
        return _MISSING[tree["value"]]
    if kind == "time":
        cls = _TIMES[tree["type"]]
        return pd.Timestamp(tree["value"]) if cls is pd.Timestamp else cls.fromisoformat(tree["value"])
    if kind == "column":
        return _read_column(tree, read)
    if kind == "range_index":
        return pd.RangeIndex(tree["start"], tree["stop"], tree["step"], name=read(tree["name"]))
    if kind == "index":
        column = _read_column(tree["column"], read)
        return pd.Index(column, dtype=column.dtype, name=read(tree["name"]), tupleize_cols=False)
    if kind == "multi_index":
        levels = [read(level) for level in tree["levels"]]
        return pd.MultiIndex(levels, read(tree["codes"]), names=read(tree["names"]))
    index = read(tree["index"])
    if kind == "series":
        return _read_column(tree["column"], read).set_axis(index).rename(read(tree["name"]))
    columns = {place: _read_column(column, read).set_axis(index) for place, column in enumerate(tree["columns"])}
    frame = pd.DataFrame(columns, index=index)
    frame.columns = read(tree["names"])
    return frame


def _write_index(index: pd.Index, write: Recurse) -> Json:
    if isinstance(index, pd.MultiIndex):
        levels = [_write_index(level, write) for level in index.levels]
        codes = [np.asarray(code, np.int64) for code in index.codes]
        return {
            "kind": "multi_index",
            "levels": levels,
            "codes": write(codes),
            "names": write(list(index.names)),
        }
    if isinstance(index, pd.RangeIndex):
        bounds = {"start": index.start, "stop": index.stop, "step": index.step}
        return {"kind": "range_index", **bounds, "name": write(index.name)}
    return {"kind": "index", "column": _write_column(index.array, write), "name": write(index.name)}


def _write_column(array: Any, write: Recurse) -> Json:
    dtype = array.dtype
    node: dict[str, Json] = {"kind": "column", "dtype": str(dtype)}
    if isinstance(dtype, pd.CategoricalDtype):
        categories = _write_index(dtype.categories, write)
        return node | {
            "codes": write(np.asarray(array.codes)),
            "categories": categories,
            "ordered": bool(dtype.ordered),
        }
    if isinstance(dtype, pd.DatetimeTZDtype):
        return node | {"values": write(array.tz_convert("UTC").tz_localize(None).to_numpy())}
    if isinstance(array, pd.arrays.NumpyExtensionArray) or isinstance(dtype, np.dtype):
        return node | {"values": write(array.to_numpy())}
    if isinstance(dtype, pd.StringDtype) or dtype.kind in "biuf":
        missing = array.isna()
        return node | {
            "values": write([None if gone else part for part, gone in zip(array.tolist(), missing, strict=True)])
        }
    raise TypeError(f"save: a pandas column of the type {dtype} cannot be written; convert it to a plain one first.")


def _read_column(tree: Json, read: Recurse) -> pd.Series:
    # Always with its dtype: pandas would guess anew, and take objects that are strings for a string column.
    if "codes" in tree:
        categories = read(tree["categories"])
        return pd.Series(pd.Categorical.from_codes(read(tree["codes"]), categories, ordered=tree["ordered"]))
    values = read(tree["values"])
    if not isinstance(values, np.ndarray):
        return pd.Series(pd.array(values, dtype=tree["dtype"]))
    column = pd.Series(values, dtype=values.dtype)
    is_zoned = values.dtype.kind == "M" and "," in tree["dtype"]
    return column.dt.tz_localize("UTC").astype(tree["dtype"]) if is_zoned else column
