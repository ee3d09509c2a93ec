"""What a command is about to write: refused before any work is done where it could not, or should not, be written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

TABLE_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".json")


def check_target(path: Path, *, force: bool, option: str = "--out") -> Path:
    """A file that can be written and may be: one that is there already is replaced only if `force` says so."""
    if path.is_dir():
        raise ValueError(f"{option} is {str(path)!r}, which is a folder; name a file.")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise ValueError(
            f"{option} is {str(path)!r}, but the folder {str(path.parent)!r} does not exist; make it first."
        )
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{option} is {str(path)!r}, which is no plain file, and a new one would take its place; name one."
        )
    if path.exists() and not force:
        raise ValueError(f"{str(path)!r} exists already; name another file, or replace it with --force.")
    _try_to_write(folder, path, option)
    return path


def check_folder(path: Path) -> Path:
    """A folder that is there or can be made, and written to."""
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    _try_to_write(there, path, "--out")
    return path


def check_table_target(path: Path, *, force: bool, option: str = "--out") -> Path:
    """The same for a table, whose name also says its format."""
    if table_ending(path) is None:
        raise ValueError(f"{option} is {str(path)!r}; its ending says the format: {', '.join(TABLE_ENDINGS)}.")
    return check_target(path, force=force, option=option)


def check_model_target(path: Path, *, force: bool) -> Path:
    """The same for a model, whose name must not say that it is a table."""
    if table_ending(path) is not None:
        raise ValueError(f"--out is {str(path)!r}, the name of a table; name a model, such as model.febm.")
    return check_target(path, force=force)


def table_ending(path: Path) -> str | None:
    """The ending that says the format of a table; None where it says none."""
    return next((ending for ending in TABLE_ENDINGS if path.name.lower().endswith(ending)), None)


def _try_to_write(folder: Path, path: Path, option: str) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"{option} is {str(path)!r}, but nothing can be written to {str(folder)!r} ({error.strerror}); "
            "name another."
        ) from error


def check_source(path: Path) -> Path:
    """A file to read that is there."""
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file.")
    if not path.exists():
        raise ValueError(f"{str(path)!r} does not exist; name a file that does.")
    return path


def check_model(path: Path) -> Path:
    """The same for a model, which is no table by its ending."""
    if table_ending(path) is not None:
        raise ValueError(f"{str(path)!r} is a table; give a model, as febm fit writes it.")
    return check_source(path)
