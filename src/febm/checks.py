"""Numbers at the door: what a user hands over becomes a float64 array, or a sentence that says why not."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

SHOWN_PLACES = 5


def as_numbers(value: object, where: str, *, copy: bool = False) -> np.ndarray:
    """A float64 array of `value` (missing is NaN); `where` opens the sentence if it is not one."""
    if isinstance(value, np.ma.MaskedArray):
        # np.asarray would show the values under the mask as if they had been observed.
        value = np.ma.filled(value.astype(np.float64), np.nan)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} is not a rectangular array of numbers ({error}).") from error
    if array.dtype.kind in "fiub":
        return np.array(array, dtype=np.float64, copy=True if copy else None, order="C")
    if array.dtype.kind == "c":
        raise ValueError(
            f"{where} holds complex numbers. Complex data not supported: "
            "give the real and the imaginary part as two outputs."
        )
    if array.dtype.kind in "mM":
        raise ValueError(f"{where} holds dates or durations; turn them into numbers first, such as hours.")
    if array.ndim == 0 or array.dtype.kind not in "OUST":
        raise TypeError(f"{where} must be an array of numbers; got {type(value).__name__}.")
    numbers, not_numbers = parse_numbers(pd.Series(array.ravel().astype(object)))
    if not_numbers.any():
        positions = np.argwhere(not_numbers.reshape(array.shape)).tolist()
        places = listed(tuple(place) if len(place) > 1 else place[0] for place in positions)
        raise ValueError(
            f"{where} has {count(len(positions), 'value')} that {are(len(positions))} not numbers "
            f"(at {places}); drop or fix them."
        )
    return numbers.reshape(array.shape)


def as_columns(value: object, where: str, *, copy: bool = False) -> np.ndarray:
    """`as_numbers` of shape `(m, d)`; `(m,)` is one column."""
    numbers = as_numbers(value, where, copy=copy)
    if numbers.ndim == 1:
        return numbers[:, None]
    if numbers.ndim == 2 and numbers.shape[1] > 0:
        return numbers
    raise ValueError(f"{where} must have shape (m,) or (m, d) with d at least 1; got {numbers.shape}.")


def as_points(at: Any, d_x: int, name: str = "at") -> np.ndarray:
    """Points `(m, d_x)` in float64 from a sequence; `(m,)` is enough when `d_x` is 1."""
    points = as_numbers(at, name)
    if points.ndim == 0:
        raise ValueError(f"{name} must be a sequence of points; got the single number {points}; write [{points}].")
    if points.ndim == 1 and d_x == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != d_x:
        wanted = "(m,) or (m, 1)" if d_x == 1 else f"(m, {d_x})"
        raise ValueError(
            f"{name} has the wrong width: points have {count(d_x, 'coordinate')}, so its shape must be "
            f"{wanted}; got {points.shape}."
        )
    if len(points) == 0:
        raise ValueError(f"{name} is empty; give at least one point.")
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{name} has {count(len(bad), 'point')} that {are(len(bad))} NaN or infinite (at {listed(bad)}); "
            "drop or fix them."
        )
    return points


def whole_number(name: str, value: Any, *, least: int = 1) -> int:
    """`value` as a Python integer of at least `least`, or a sentence that begins with `name`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}.")
    return int(value)


def share(name: str, value: Any) -> float:
    """`value` as a float strictly between 0 and 1, or a sentence that begins with `name`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and 0 < value < 1 and 0 < float(value) < 1):
        raise ValueError(f"{name} is {value!r}; give a share between 0 and 1, such as 0.05.")
    return float(value)


def parse_numbers(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Float64 numbers of a column, and which of its present values are not numbers."""
    try:
        parsed = pd.to_numeric(values, errors="coerce")
    except TypeError:  # a value that is itself a container
        return np.full(len(values), np.nan), np.ones(len(values), dtype=bool)
    if parsed.dtype.kind == "c":
        return np.full(len(values), np.nan), np.ones(len(values), dtype=bool)
    numbers = parsed.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers, np.isnan(numbers) & ~values.isna().to_numpy(dtype=bool)


def listed(items: Iterable[object], most: int = SHOWN_PLACES) -> str:
    """`17, 40, 41` or, when there are many, the first few and how many more."""
    named = [str(item) for item in items]
    shown = ", ".join(named[:most])
    return shown if len(named) <= most else f"{shown} and {len(named) - most:,} more"


def count(number: int, noun: str) -> str:
    """`1 value`, `3 values`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def are(number: int) -> str:
    """The verb that goes with `number` things."""
    return "is" if number == 1 else "are"
