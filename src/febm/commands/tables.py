"""Tables in and out of files, in the format that the ending of the name says."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from febm.commands.targets import TABLE_ENDINGS, check_source, table_ending
from febm.commands.terminal import plain
from febm.files import whole_file

# Formats that say themselves what is a number and what is text.
TYPED = (".parquet", ".json")


def read_table(path: Path) -> pd.DataFrame:
    """The table of a file; column names are strings."""
    check_source(path)
    ending = table_ending(path)
    if ending is None:
        raise ValueError(f"{str(path)!r} is no table by its ending; allowed are {', '.join(TABLE_ENDINGS)}.")
    try:
        if ending == ".parquet":
            frame = _without_index(pd.read_parquet(path))
        elif ending == ".json":
            frame = _from_records(json.loads(path.read_text(encoding="utf-8-sig")))
        else:
            frame = _from_text(path, ending)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{str(path)!r} is empty; a table has a header, and rows below it.") from None
    except (ValueError, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{str(path)!r} cannot be read as {ending} ({error}); fix or export it again.") from error
    if not len(frame.columns) or not len(frame):
        raise ValueError(f"{str(path)!r} has no rows below its header; at least one curve is needed.")
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def as_written(frame: pd.DataFrame, path: Path, names: Sequence[str]) -> pd.DataFrame:
    """The table of a file with the columns `names` as they are spelled there, such as 007 or NA.

    Numbers stay numbers where nothing of their spelling is lost.
    """
    ending = table_ending(path)
    if ending in TYPED or ending is None or not names:
        return frame
    spelled = _read_text(path, ending, usecols=list(names), dtype=str, keep_default_na=False, na_values=[""])
    kept = {
        name: pd.api.types.is_numeric_dtype(frame[name]) and bool((frame[name].astype(str) == spelled[name]).all())
        for name in names
    }
    return frame.assign(**{name: frame[name] if kept[name] else spelled[name] for name in names})


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write the table; the file appears whole or not at all. Parquet and JSON keep types, text has all digits."""
    ending = table_ending(path)
    if ending == ".parquet":
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        contents = buffer.getvalue()
    elif ending == ".json":
        records = plain(frame.to_dict("records"))
        contents = (json.dumps(records, ensure_ascii=False, allow_nan=False) + "\n").encode()
    else:
        assert ending is not None, path
        contents = frame.to_csv(index=False, sep="\t" if ".tsv" in ending else ",").encode()
        if ending.endswith(".gz"):
            contents = gzip.compress(contents, mtime=0)
    with whole_file(path) as file:
        file.write(contents)


def _from_records(records: object) -> pd.DataFrame:
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError("a table is a list of objects, one for each row")
    return pd.DataFrame(records)


def _from_text(path: Path, ending: str) -> pd.DataFrame:
    """A table of text, refused where its header does not say which column is which."""
    header = _read_text(path, ending, header=None, nrows=1, dtype=str).iloc[0].dropna()
    if header.duplicated().any():
        raise ValueError(f"two columns are called {header[header.duplicated()].iloc[0]!r}")
    if len(header) == 1 and any(mark in header.iloc[0] for mark in ",;\t"):
        kind = "tabs" if ".tsv" in ending else "commas"
        raise ValueError(f"its header is {header.iloc[0]!r}, where {kind} should be between the names")
    frame = _read_text(path, ending)
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError("its rows have more fields than its header has names")
    return frame


def _read_text(path: Path, ending: str, **options: Any) -> pd.DataFrame:
    # Spreadsheets put a mark before the first name, which utf-8-sig takes off. In one piece, because a column that is
    # read by the piece may hold the number 1 beside the text 1.
    separator = "\t" if ".tsv" in ending else ","
    return pd.read_csv(path, sep=separator, encoding="utf-8-sig", low_memory=False, **options)


def _without_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Names that pandas wrote as an index are columns of the file as well."""
    return frame if frame.index.names == [None] else frame.reset_index()
