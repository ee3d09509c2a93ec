"""Curves out of tables and back, under the names that the user's columns have.

A table is read and checked by pandas alone, so that what is wrong with it is said before anything heavy is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from febm.checks import are, count, listed, parse_numbers
from febm.commands.columns import Columns, as_place, check_ids, check_values, find_columns, find_wide_columns
from febm.commands.options import TableForm
from febm.commands.tables import as_written, read_table
from febm.commands.terminal import Terminal

if TYPE_CHECKING:
    from febm.curves import Curves


class CurveTable(NamedTuple):
    """A table in long form, with the places of missing values, and what its columns mean."""

    frame: pd.DataFrame
    columns: Columns

    @property
    def number(self) -> int:
        """How many curves there are."""
        return self.frame.groupby(list(self.columns.curve), sort=False, dropna=False).ngroups

    @property
    def missing(self) -> np.ndarray:
        """Which values are missing, a row for each point and a column for each output."""
        return np.isnan(np.stack([parse_numbers(self.frame[name])[0] for name in self.columns.y], axis=1))

    def require_missing(self) -> None:
        """Refuse a table that has nothing to fill in."""
        if not self.missing.any():
            raise ValueError(
                f"no value of {', '.join(map(repr, self.columns.y))} is missing; leave y empty where it is asked for, "
                "or give the points with --at."
            )

    def curves(self) -> Curves:
        """The curves, missing values left out."""
        from febm.curves import Curves

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
    else:
        columns = find_columns(frame, form, known, path.name)
    frame = as_written(frame, path, columns.curve)
    check_ids(frame, columns, path.name)
    if columns.wide:
        frame, columns = _as_long(frame, columns, path.name)
    check_values(frame, columns, path.name)
    table = CurveTable(_with_values(frame, columns, path, terminal), columns)
    missing = int(table.missing.sum())
    points = count(len(table.frame), "point") + (f", {count(missing, 'missing value')}" if missing else "")
    terminal.say(f"{path}: {count(table.number, 'curve')}, {points} ({columns})")
    return table


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
    """The wide table of curves: their names, then a column for each place, spelled as in the table of the fit."""
    frame = curves.to_wide()
    spelled = {as_place(header): header for header in columns.headers}
    headers = [spelled.get(place) or _header(place) for place in map(float, frame.columns)]
    values = frame.reset_index(drop=True).set_axis(headers, axis=1)
    return pd.concat([id_frame(curves.ids, columns), values], axis=1)


def id_frame(ids: pd.Index, columns: Columns) -> pd.DataFrame:
    """A column for each level of the ids, named as those that tell curves apart."""
    if ids.nlevels == len(columns.curve):
        return ids.to_frame(index=False).set_axis(list(columns.curve), axis=1)
    return ids.to_frame(index=False, name=["curve"] if ids.nlevels == 1 else None)


def _header(place: float) -> str:
    """The shortest text that is read back as the same float, a whole number as one."""
    return repr(int(place)) if place.is_integer() and abs(place) < 1e15 else repr(place)


def _looks_wide(frame: pd.DataFrame, form: TableForm) -> bool:
    long_said = form.curve or form.x or form.y
    return not long_said and sum(as_place(name) is not None for name in frame.columns) > 1


def _as_long(frame: pd.DataFrame, columns: Columns, source: str) -> tuple[pd.DataFrame, Columns]:
    places = list(columns.headers)
    names = frame[list(columns.curve)] if columns.curve else pd.DataFrame({"curve": range(len(frame))})
    repeated = names.duplicated().to_numpy()
    if repeated.any():
        again = names.loc[repeated].iloc[0].tolist()
        raise ValueError(f"{source}: two rows are called {again[0]!r}; a wide table has one row a curve.")
    rows = np.repeat(np.arange(len(frame)), len(places))
    long = pd.concat([names, frame[list(columns.covariates)]], axis=1).take(rows).reset_index(drop=True)
    long[columns.x[0]] = np.tile([as_place(name) for name in places], len(frame))
    long[columns.y[0]] = frame[places].to_numpy().ravel()
    return long, dataclasses.replace(columns, curve=columns.curve or ("curve",))


def _with_values(frame: pd.DataFrame, columns: Columns, path: Path, terminal: Terminal) -> pd.DataFrame:
    """The rows of the curves that have at least one value."""
    present = frame[list(columns.y)].notna().any(axis=1)
    keys = [frame[name] for name in columns.curve]
    there = present.groupby(keys, sort=False, dropna=False).transform("any").to_numpy()
    if there.all():
        return frame
    empty = frame.loc[~there, list(columns.curve)].drop_duplicates()
    if not there.any():
        what = "it" if columns.wide else f"column {columns.y[0]!r}"
        raise ValueError(f"{path.name}: {what} has no values at all; give some.")
    names = listed(repr(row[0] if len(row) == 1 else tuple(row)) for row in empty.to_numpy().tolist())
    terminal.say(f"warning: {count(len(empty), 'curve')} without any value {are(len(empty))} left out ({names})")
    return frame.loc[there].reset_index(drop=True)
