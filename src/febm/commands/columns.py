"""Which columns of a table mean what: as the user says, as the model remembers, or as their names give away."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from febm.checks import count, listed, parse_numbers
from febm.commands.options import TableForm
from febm.io_tables import numbered

# Names that give a role away, whatever their case; the first is the role's own, and wins over the others.
WORDS = {
    "curve": ("curve", "curve_id", "id", "series", "subject"),
    "x": ("x", "t", "time"),
    "y": ("y", "value"),
}
_DATE = re.compile(r"\d+[-/.]\d+[-/.]\d+|\d+:\d\d")
MEANINGS = {"curve": "tells curves apart", "x": "is x", "y": "is the value"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a table.

    In a wide one, `curve` is that of the names, x and y have names but no columns, and `headers` are those of the
    places, as they are spelled.
    """

    curve: tuple[str, ...] = ("curve",)
    x: tuple[str, ...] = ("x",)
    y: tuple[str, ...] = ("y",)
    covariates: tuple[str, ...] = ()
    wide: bool = False
    headers: tuple[str, ...] = ()

    @classmethod
    def remembered(cls, notes: Mapping[str, Any]) -> Columns | None:
        """Those of the table that a model was fitted to; None where its file does not say."""
        kept = notes.get("columns")
        if not isinstance(kept, Mapping):
            return None
        roles = ("curve", "x", "y", "covariates", "headers")
        names = {role: tuple(map(str, kept[role])) for role in roles if role in kept}
        return cls(**names, wide=bool(kept.get("wide", False)))

    @classmethod
    def numbered(cls, d_x: int, d_y: int) -> Columns:
        """The names that `Curves.to_frame` gives."""
        return cls(x=tuple(numbered("x", d_x)), y=tuple(numbered("y", d_y)))

    def __str__(self) -> str:
        said = [f"{role} {', '.join(getattr(self, role))}" for role in ("curve", "x", "y")]
        if self.covariates:
            said.append(f"covariates {', '.join(self.covariates)}")
        return "; ".join(said)


def find_columns(frame: pd.DataFrame, form: TableForm, known: Columns | None, source: str) -> Columns:
    """The columns of a long table, or a sentence that lists what there is."""
    found: dict[str, tuple[str, ...]] = {}
    covariates = _named(frame, form.covariate, "--covariate", source)
    for role in WORDS:
        given = _named(frame, getattr(form, role), f"--{role}", source)
        remembered = getattr(known, role) if known is not None else ()
        if given or (remembered and set(remembered) <= set(frame.columns)):
            found[role] = given or remembered
    if not form.covariate and known is not None and set(known.covariates) <= set(frame.columns):
        covariates = known.covariates
    for role in [role for role in WORDS if role not in found]:
        taken = {*covariates, *(name for names in found.values() for name in names)}
        free = [name for name in frame.columns if name not in taken]
        is_left = len(found) == len(WORDS) - 1 and len(free) == 1
        matches = tuple(free) if is_left else _matches(free, role)
        if matches:
            found[role] = matches
    unclear = [role for role in WORDS if role not in found]
    if unclear:
        raise ValueError(f"{source}: {_way_out(frame, unclear)}")
    names = [*found["curve"], *found["x"], *found["y"], *covariates]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{source}: column {repeated[0]!r} is given two meanings; a column has one.")
    return Columns(found["curve"], found["x"], found["y"], covariates)


def find_wide_columns(frame: pd.DataFrame, form: TableForm, known: Columns | None, source: str) -> Columns:
    """The columns beside the numbers in a wide table: names of curves and covariates."""
    covariates = _named(frame, form.covariate, "--covariate", source)
    curve = () if form.id is None else _named(frame, (form.id,), "--id", source)
    if known is not None and known.wide:
        covariates = covariates or _if_there(known.covariates, frame)
        curve = curve or _if_there(known.curve, frame)
    others = [name for name in frame.columns if as_place(name) is None or name in (*curve, *covariates)]
    if len(others) == len(frame.columns):
        raise ValueError(
            f"{source}: --wide needs column headers that are numbers, the places x; "
            f"its columns are {_listed(frame.columns)}."
        )
    if not curve:
        free = [name for name in others if name not in covariates]
        curve = tuple(free) if len(free) == 1 else _matches(free, "curve")
    unused = [name for name in others if name not in (*curve, *covariates)]
    if unused:
        raise ValueError(
            f"{source}: columns {_listed(unused)} are no numbers, and so no places; name the one that tells curves "
            "apart with --id and the others with --covariate, or drop them."
        )
    names = known if known is not None else Columns()
    headers = tuple(name for name in frame.columns if name not in others)
    found = Columns(curve, form.x or names.x[:1], form.y or names.y[:1], covariates, wide=True, headers=headers)
    own = [name for name in (*found.x, *found.y) if name in (*curve, *covariates)]
    if own or found.x == found.y:
        name = own[0] if own else found.x[0]
        raise ValueError(f"{source}: {name!r} is given two meanings; give x and y other names with --x and --y.")
    return found


def as_place(header: str) -> float | None:
    """The number that a header of a wide table is; None for a word."""
    try:
        place = float(header)
    except ValueError:
        return None
    return place if abs(place) < float("inf") else None


def check_ids(frame: pd.DataFrame, columns: Columns, source: str) -> None:
    """Refuse rows that do not say which curve they belong to."""
    for name in columns.curve:
        lost = frame[name].isna().to_numpy()
        if lost.any():
            raise ValueError(
                f"{source}: column {name!r}, which tells curves apart, is empty in {count(int(lost.sum()), 'row')}, "
                f"first in row {np.flatnonzero(lost)[0] + 1} below the header; fill it in, or drop such rows."
            )


def check_values(frame: pd.DataFrame, columns: Columns, source: str) -> None:
    """Refuse points that have no place, and values that are no finite numbers; the first is shown."""
    for name in (*columns.x, *columns.y):
        numbers, wrong = parse_numbers(frame[name])
        is_date = wrong.any() and _DATE.search(str(frame[name][wrong].iloc[0]))
        way_out = (
            "turn dates into numbers, such as hours since the curve began" if is_date else "fix or empty such cells"
        )
        _refuse(wrong, ("is not a number", "are not numbers"), way_out, frame, name, columns, source)
        _refuse(np.isinf(numbers), ("is infinite", "are infinite"), way_out, frame, name, columns, source)
        if name in columns.x:
            way_out = "every point needs a place: drop or fix such rows"
            _refuse(np.isnan(numbers), ("is missing", "are missing"), way_out, frame, name, columns, source)


def _refuse(
    bad: np.ndarray,
    kind: tuple[str, str],
    way_out: str,
    frame: pd.DataFrame,
    name: str,
    columns: Columns,
    source: str,
) -> None:
    """Refuse the values of a column that are `bad`, if any, and show the first."""
    number = int(bad.sum())
    if not number:
        return
    first = frame.loc[bad].iloc[0]
    where = "it" if columns.wide else f"column {name!r}"
    shown = "" if pd.isna(first[name]) else f" {str(first[name])!r}"
    curve = ", ".join(str(first[label]) for label in columns.curve)
    raise ValueError(
        f"{source}: {where} has {count(number, 'value')} that {kind[number > 1]}, first{shown} in curve {curve}; "
        f"{way_out}."
    )


def _way_out(frame: pd.DataFrame, unclear: list[str]) -> str:
    """What to say where the names of the columns do not give these roles away."""
    options = " ".join(f"--{role} NAME" for role in unclear)
    places = [name for name in frame.columns if as_place(name) is not None]
    if len(places) > 1:
        return (
            f"its headers are numbers ({_listed(places, 3)}), so it seems to have one curve a row: say --wide. "
            f"If it has one row a point, say {options}."
        )
    roles = [f"which {'column ' if role == unclear[0] else ''}{MEANINGS[role]}" for role in unclear]
    asked = " and ".join([", ".join(roles[:-1]), roles[-1]] if len(roles) > 1 else roles)
    return f"{asked} is not clear; say {options}. Its columns are {_listed(frame.columns)}."


def _matches(free: list[str], role: str) -> tuple[str, ...]:
    """The columns whose names give the role away: its own name, the only other word, or numbers after it."""
    matches = [name for name in free if name.lower() in WORDS[role]]
    own = [name for name in matches if name.lower() == role]
    if len(own) == 1 or len(matches) == 1:
        return tuple(own or matches)
    if matches or role == "curve":
        return ()
    return tuple(name for name in free if re.fullmatch(rf"{role}_?\d+", name.lower()))


def _named(frame: pd.DataFrame, given: Iterable[str], option: str, source: str) -> tuple[str, ...]:
    """Column names by commas or by repeating; a name that itself holds commas is taken whole."""
    names: list[str] = []
    for value in given:
        names += [value] if value in frame.columns else [word.strip() for word in value.split(",") if word.strip()]
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise ValueError(
            f"{source}: {option} names column {absent[0]!r}, which is not there; "
            f"its columns are {_listed(frame.columns)}."
        )
    return tuple(dict.fromkeys(names))


def _if_there(names: tuple[str, ...], frame: pd.DataFrame) -> tuple[str, ...]:
    return names if set(names) <= set(frame.columns) else ()


def _listed(names: Iterable[object], most: int = 20) -> str:
    return listed((repr(str(name)) for name in names), most)
