"""Curves out of tables and back, under the names that the user's columns have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from febm.checks import are, count, listed
from febm.commands.columns import Columns, as_place, check_numbers, find_columns, find_wide_columns
from febm.commands.options import TableForm
from febm.commands.tables import as_written, read_table
from febm.commands.terminal import Terminal
from febm.curves import Curves


class CurveTable(NamedTuple):
    """A table in long form, with the places of missing values, and what its columns mean."""

    frame: pd.DataFrame
    columns: Columns

    def curves(self) -> Curves:
        """The curves, missing values left out."""
        names = self.columns
        return Curves.from_frame(
            self.frame, curve=list(names.curve), x=list(names.x), y=list(names.y), covariates=list(names.covariates)
        )


def read_curve_table(
    path: Path, form: TableForm, terminal: Terminal, notes: Mapping[str, Any] | None = None
) -> CurveTable:
    """Read a table, find its columns, and say what was taken; curves without any value are left out, and named."""
    frame, known = read_table(path), Columns.remembered(notes or {})
    if form.wide or (known is not None and known.wide and _looks_wide(frame, form)):
        columns = find_wide_columns(frame, form, known, path.name)
        frame, columns = _as_long(as_written(frame, path, columns.curve), columns)
    else:
        columns = find_columns(frame, form, known, path.name)
        frame = as_written(frame, path, columns.curve)
    check_numbers(frame, columns, path.name)
    kept = _with_values(frame, columns, path, terminal)
    number = kept.groupby(list(columns.curve), sort=False, dropna=False).ngroups
    missing = int(kept[list(columns.y)].isna().to_numpy().sum())
    points = count(len(kept), "point") + (f", {count(missing, 'missing value')}" if missing else "")
    terminal.say(f"{path}: {count(number, 'curve')}, {points} ({columns})")
    return CurveTable(kept, columns)


def read_curves(path: Path, form: TableForm, terminal: Terminal, notes: Mapping[str, Any] | None = None) -> Curves:
    """The curves of a table."""
    return read_curve_table(path, form, terminal, notes).curves()


def named_frame(curves: Curves, columns: Columns) -> pd.DataFrame:
    """The long table of curves under the names of `columns`."""
    owner = np.repeat(np.arange(len(curves)), curves.lengths)
    names = id_frame(curves.ids, columns).take(owner).reset_index(drop=True)
    values = pd.DataFrame(np.concatenate([curves.x, curves.y], axis=1), columns=[*columns.x, *columns.y])
    return pd.concat([names, values], axis=1)


def wide_frame(curves: Curves, columns: Columns) -> pd.DataFrame:
    """The wide table of curves: their names, then a column for each place."""
    frame = curves.to_wide()
    values = frame.reset_index(drop=True).set_axis([_header(float(place)) for place in frame.columns], axis=1)
    return pd.concat([id_frame(curves.ids, columns), values], axis=1)


def id_frame(ids: pd.Index, columns: Columns) -> pd.DataFrame:
    """A column for each level of the ids, named as those that tell curves apart."""
    if ids.nlevels == len(columns.curve):
        return ids.to_frame(index=False).set_axis(list(columns.curve), axis=1)
    return ids.to_frame(index=False, name=["curve"] if ids.nlevels == 1 else None)


def places_of(frame: pd.DataFrame, columns: Columns) -> list[str]:
    """The columns of a wide table whose headers are places."""
    taken = {*columns.curve, *columns.covariates}
    return [name for name in frame.columns if name not in taken and as_place(name) is not None]


def _header(place: float) -> str:
    """The shortest text that is read back as the same float, a whole number as one."""
    return repr(int(place)) if place.is_integer() and abs(place) < 1e15 else repr(place)


def _looks_wide(frame: pd.DataFrame, form: TableForm) -> bool:
    long_said = form.curve or form.x or form.y
    return not long_said and sum(as_place(name) is not None for name in frame.columns) > 1


def _as_long(frame: pd.DataFrame, columns: Columns) -> tuple[pd.DataFrame, Columns]:
    places = places_of(frame, columns)
    curve = columns.curve or ("curve",)
    names = frame[list(columns.curve)] if columns.curve else pd.DataFrame({"curve": range(len(frame))})
    repeated = names.duplicated().to_numpy()
    if repeated.any():
        again = names.loc[repeated].iloc[0].tolist()
        raise ValueError(f"--wide: two rows are called {again[0]!r}; a wide table has one row a curve.")
    rows = np.repeat(np.arange(len(frame)), len(places))
    long = pd.concat([names, frame[list(columns.covariates)]], axis=1).take(rows).reset_index(drop=True)
    long[columns.x[0]] = np.tile([as_place(name) for name in places], len(frame))
    long[columns.y[0]] = frame[places].to_numpy().ravel()
    return long, Columns(curve, columns.x, columns.y, columns.covariates, wide=True)


def _with_values(frame: pd.DataFrame, columns: Columns, path: Path, terminal: Terminal) -> pd.DataFrame:
    """The rows of the curves that have at least one value."""
    present = frame[list(columns.y)].notna().any(axis=1)
    keys = [frame[name] for name in columns.curve]
    there = present.groupby(keys, sort=False, dropna=False).transform("any").to_numpy()
    if there.all():
        return frame
    empty = frame.loc[~there, list(columns.curve)].drop_duplicates()
    if not there.any():
        raise ValueError(f"{path.name}: column {columns.y[0]!r} has no values at all; give some.")
    names = listed(repr(row[0] if len(row) == 1 else tuple(row)) for row in empty.to_numpy().tolist())
    terminal.say(f"warning: {count(len(empty), 'curve')} without any value {are(len(empty))} left out ({names})")
    return frame.loc[there].reset_index(drop=True)
