"""A saved model as commands need it: the process, the notes of its file, and the names of its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from febm import storage
from febm.commands.columns import Columns
from febm.commands.targets import check_model
from febm.models import Process


class SavedModel(NamedTuple):
    """A model and where it comes from."""

    process: Process
    version: str
    notes: dict[str, Any]
    columns: Columns


def load_model(path: Path) -> SavedModel:
    """Read a model; a table in its place is a sentence."""
    check_model(path)
    process, header = storage.load(path), storage.read_header(path)
    if not isinstance(process, Process):
        raise ValueError(f"{str(path)!r} holds a {type(process).__name__}, not a model; give one that febm fit wrote.")
    process._require_fitted("load")
    d_x, d_y = widths(process)
    columns = Columns.remembered(header.notes)
    if columns is None or (len(columns.x), len(columns.y)) != (d_x, d_y):
        columns = Columns.numbered(d_x, d_y)
    return SavedModel(process, header.version, header.notes, columns)


def widths(process: Process) -> tuple[int, int]:
    """How many inputs and outputs the functions of a fitted model have."""
    scaling = process.scaling_  # type: ignore[attr-defined]  # every model of the library takes units off
    return scaling.d_x, scaling.d_y
