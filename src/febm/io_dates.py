"""Dates where numbers are needed: the line of pandas that makes numbers of them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\D.*)?")


def column_of_dates(column: pd.Series, name: Hashable) -> str | None:
    """What makes numbers of a column that holds dates, times of day or durations; None for any other."""
    return _numbers_from(column, f"df[{name!r}]", ".dt")


def names_of_dates(labels: list[Hashable], others: list[Hashable]) -> str | None:
    """What makes numbers of columns that are named by dates, beside `others` that are not; None for any other."""
    source = f"df.columns.drop({others!r})" if others else "df.columns"
    return _numbers_from(pd.Series(labels, dtype=object), source, "")


def _numbers_from(values: pd.Series, source: str, accessor: str) -> str | None:
    values = values.dropna()
    first = values.iloc[0] if len(values) else None
    if isinstance(first, datetime.timedelta | np.timedelta64):
        durations = source if values.dtype.kind == "m" else f"pd.to_timedelta({source})"
        return f"hours: {durations} / pd.Timedelta(hours=1)"
    if isinstance(first, datetime.time) or _is_text(first, _CLOCK):
        return f"hours since midnight: pd.to_timedelta({_with_seconds(first, source)}) / pd.Timedelta(hours=1)"
    if isinstance(first, pd.Period):
        days = f"{source}.dt" if accessor else f"pd.PeriodIndex({source})"
        return f"days since the first: times = {days}.to_timestamp(); (times - times.min()) / pd.Timedelta(days=1)"
    if isinstance(first, datetime.date | np.datetime64) or _is_text(first, _DATE):
        before = "" if values.dtype.kind == "M" else f"times = pd.to_datetime({source}); "
        times = "times" if before else source
        if any(map(_has_clock, values)):
            return f"hours since midnight: {before}({times} - {times}{accessor}.normalize()) / pd.Timedelta(hours=1)"
        return f"days since the first: {before}({times} - {times}.min()) / pd.Timedelta(days=1)"
    return None


def _has_clock(value: Any) -> bool:
    """Whether a date says a time of day other than midnight."""
    _, _, clock = str(value).strip().replace("T", " ").partition(" ")
    return bool(clock) and not clock.startswith("00:00")


def _with_seconds(first: Any, source: str) -> str:
    """The time of day as pandas reads it, which wants seconds."""
    if isinstance(first, str):
        return f"{source} + ':00'" if first.strip().count(":") == 1 else source
    return f"{source}.astype(str)"


def _is_text(value: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value.strip()) is not None
