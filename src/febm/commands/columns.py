"""Which columns of a table mean what: as the user says, as the model remembers, or as their names give away."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

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
    """The columns of a table: in a wide one, `curve` is that of the names, and x and y have names but no columns."""

    curve: tuple[str, ...] = ("curve",)
    x: tuple[str, ...] = ("x",)
    y: tuple[str, ...] = ("y",)
    covariates: tuple[str, ...] = ()
    wide: bool = False

    @classmethod
    def remembered(cls, notes: Mapping[str, Any]) -> Columns | None:
        """Those of the table that a model was fitted to; None where its file does not say."""
        kept = notes.get("columns")
        if not isinstance(kept, Mapping):
            return None
        names = {role: tuple(map(str, kept[role])) for role in ("curve", "x", "y", "covariates") if role in kept}
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
    others = [name for name in frame.columns if as_place(name) is None or name in (*curve, *covariates)]
    if len(others) == len(frame.columns):
        raise ValueError(
            f"{source}: --wide needs column headers that are numbers, the places x; "
            f"its columns are {_listed(frame.columns)}."
        )
    if not curve:
        free = [name for name in others if name not in covariates]
        if known is not None and known.wide and set(known.curve) <= set(free):
            curve = known.curve
        else:
            curve = tuple(free) if len(free) == 1 else _matches(free, "curve")
    unused = [name for name in others if name not in (*curve, *covariates)]
    if unused:
        raise ValueError(
            f"{source}: columns {_listed(unused)} are no numbers, and so no places; name the one that tells curves "
            "apart with --id and the others with --covariate, or drop them."
        )
    names = known if known is not None else Columns()
    found = Columns(curve, form.x or names.x[:1], form.y or names.y[:1], covariates, wide=True)
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


def check_numbers(frame: pd.DataFrame, columns: Columns, source: str) -> None:
    """Refuse text where numbers belong, and show the first."""
    for name in (*columns.x, *columns.y):
        _, wrong = parse_numbers(frame[name])
        if not wrong.any():
            continue
        first, number = frame.loc[wrong].iloc[0], int(wrong.sum())
        where = "it" if columns.wide else f"column {name!r}"
        kind = "is not a number" if number == 1 else "are not numbers"
        curve = ", ".join(str(first[label]) for label in columns.curve)
        way_out = "fix or empty such cells"
        if _DATE.search(str(first[name])):
            way_out = "turn dates into numbers, such as hours since the curve began"
        raise ValueError(
            f"{source}: {where} has {count(number, 'value')} that {kind}, first {str(first[name])!r} in curve {curve}; "
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


def _listed(names: Iterable[object], most: int = 20) -> str:
    return listed((repr(str(name)) for name in names), most)
