"""Tables on disk: columns as numbers, or a sentence that names the file and the line that is none."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from febm.checks import listed, parse_numbers
from febm.datasets.files import is_compressed, opened
from febm.errors import FormatError

UNREADABLE = (gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError)


def header_of(path: Path) -> list[str]:
    """The names in the first line, without the blanks around them."""
    try:
        with opened(path) as file:
            line = file.readline().decode("utf-8-sig")
    except UNREADABLE as error:
        refuse(path, f"cannot be read ({error})")
    return [name.strip() for name in line.split(",")]


def read_table(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """These columns of a comma-separated file, or all; the index counts the lines of the file from 1."""
    names = header_of(path)
    absent = [name for name in columns or () if name not in names]
    if absent:
        refuse(path, f"has no column {listed(map(repr, absent))}; its first line is {','.join(names)!r:.120}")
    chosen: Callable[[str], bool] | None = None if columns is None else lambda name: name.strip() in columns
    try:
        frame = pd.read_csv(
            path,
            compression="gzip" if is_compressed(path) else None,
            encoding="utf-8-sig",
            skipinitialspace=True,  # some publishers write a blank after every comma
            skip_blank_lines=False,  # so that a row's place tells its line
            usecols=chosen,
            index_col=False,  # a comma at the end of every line is no reason to shift the columns
            keep_default_na=False,
            na_values=[""],  # a ticker may be called NA
            low_memory=False,
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, *UNREADABLE) as error:
        refuse(path, f"is not a comma-separated table ({error})")
    frame.columns = frame.columns.str.strip()
    frame.index = frame.index + 2  # the header is line 1
    return frame.dropna(how="all")


def numbers(frame: pd.DataFrame, column: str, path: Path) -> np.ndarray:
    """A column as float64, an empty field as NaN."""
    values, not_numbers = parse_numbers(frame[column])
    bad = not_numbers | np.isinf(values)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        refuse(path, f"has {frame[column].iloc[i]!r} for {column!r}, which is not a number", frame.index[i])
    return values


def dates(frame: pd.DataFrame, column: str, pattern: str, path: Path) -> pd.Series:
    """A column of dates or times written as `pattern`."""
    times = pd.to_datetime(frame[column], format=pattern, errors="coerce")
    bad = times.isna().to_numpy()
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        refuse(path, f"has {frame[column].iloc[i]!r} for {column!r}; expected a date like {pattern}", frame.index[i])
    return times


def refuse(path: Path, fault: str, line: int | None = None) -> NoReturn:
    """Raise: this file, perhaps in this line, is not what it should be."""
    where = f"{path}, line {line}," if line is not None else f"{path}"
    raise FormatError(f"{where} {fault}; get the file again, or leave it out and let it be fetched.")


def require_two(path: Path, found: int, what: str) -> None:
    """Raise unless there is a curve for each part."""
    if found < 2:
        refuse(path, f"has too few {what}: {found}, where at least 2 are needed, one to train on and one to evaluate")
