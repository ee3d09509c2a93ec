"""The file around a saved model: written whole, and when read found, whole and of a format known here."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as safetensors_bytes

from febm._version import __version__
from febm.checks import listed
from febm.files import whole_file
from febm.plain_errors import FormatError

FORMAT = 1
OLDEST_FORMAT = 1
HEADER_LIMIT = 100_000_000  # safetensors' own limit, in bytes; a longer "header" is some other kind of file

Arrays: TypeAlias = dict[str, np.ndarray]


class Header(NamedTuple):
    """What a file says of itself: the febm that wrote it, and the notes that were saved with its value."""

    version: str
    notes: dict[str, Any]


def write_file(path: str | os.PathLike[str], metadata: dict[str, str], arrays: Arrays) -> None:
    """Write a tree, its notes and its arrays to one file, which appears whole or not at all."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save: the folder {target.parent} does not exist; make it first.")
    stamped = {"febm_format": str(FORMAT), "febm_version": __version__, **metadata}
    contents = safetensors_bytes(arrays, metadata=stamped)
    if int.from_bytes(contents[:8], "little") > HEADER_LIMIT:
        raise ValueError(
            "save: the parts of the model that are not arrays take more than 100 MB, which one file "
            "cannot hold; keep long lists as arrays."
        )
    with whole_file(target) as file:
        file.write(contents)


def read_file(path: Path, *, with_arrays: bool) -> tuple[dict[str, str], Arrays]:
    """What `write_file` wrote, or a sentence that names the file, says what it is instead, and the way out."""
    _check_is_there(path)
    _check_is_whole(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata)
            names = file.keys() if with_arrays else ()
            return metadata, {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise FormatError(f"{path} is damaged or truncated ({error}); copy or save it again.") from error


def read_header(path: str | os.PathLike[str]) -> Header:
    """What a file says of itself, without the value in it; no notes where none were saved."""
    path = Path(path)
    metadata, _ = read_file(path, with_arrays=False)
    try:
        notes = json.loads(metadata.get("febm_notes", "{}"))
    except ValueError as error:
        raise FormatError(f"{path} is damaged ({error}); copy or save it again.") from error
    return Header(metadata.get("febm_version", "unknown"), notes if isinstance(notes, dict) else {})


def _check_is_there(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(
            f"load: {str(path)!r} is a folder; give a file written by `model.save`{_such_as(path)}."
        )
    if path.exists():
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"load: there is no file {str(path)!r}, for there is no folder {str(folder)!r}; give the path that "
            "`model.save` wrote to."
        )
    raise FileNotFoundError(
        f"load: there is no file {str(path)!r} in the folder {str(folder)!r}; give the path that `model.save` wrote "
        f"to{_such_as(path.parent, path.stem)}."
    )


def _such_as(folder: Path, stem: str = "") -> str:
    """The models in a folder, by the ending that the documentation gives them; one that is called `stem` first."""
    models = sorted(folder.glob("*.febm"), key=lambda path: (path.stem != stem, path.name))
    return f", such as {listed((repr(str(path)) for path in models), most=3)}" if models else ""


def _check_is_whole(path: Path) -> None:
    with open(path, "rb") as file:
        start = file.read(9)
        size = os.fstat(file.fileno()).st_size
    header_size = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or header_size > HEADER_LIMIT:
        raise FormatError(f"{path} is not a febm model; give a file written by `model.save`.")
    if size < 8 + header_size:
        raise FormatError(f"{path} is truncated ({size} bytes); copy or save it again.")


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    stored = metadata.get("febm_format", "")
    if not stored.isdecimal() or "febm_tree" not in metadata:
        raise FormatError(f"{path} is a safetensors file but not a febm model; give a file written by `model.save`.")
    if int(stored) > FORMAT:
        raise FormatError(
            f"{path} has format {stored}, newer than the format {FORMAT} that febm {__version__} reads: upgrade febm."
        )
    if int(stored) < OLDEST_FORMAT:
        written_by = metadata.get("febm_version", "that wrote it")
        raise FormatError(
            f"{path} has format {stored}, older than the format {OLDEST_FORMAT} that febm {__version__} still reads: "
            f"read it with febm {written_by}, or fit and save the model again."
        )
