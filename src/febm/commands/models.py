"""A saved model as commands need it: what its file says of itself, at once, and the model, when it is asked for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from febm.commands.columns import Columns
from febm.commands.targets import check_model
from febm.storage_files import read_header

if TYPE_CHECKING:
    from febm.models import Process


class SavedModel:
    """A model and where it comes from; a file that holds no model is a sentence."""

    def __init__(self, path: Path) -> None:
        self.path = check_model(path)
        self.version, self.notes = read_header(path)

    @functools.cached_property
    def columns(self) -> Columns:
        """The columns of the table that it was fitted to, or names that stand for them."""
        return Columns.remembered(self.notes) or Columns.numbered(*self.widths)

    @functools.cached_property
    def process(self) -> Process:
        """The model itself, for which JAX is imported."""
        from febm import storage
        from febm.models import Process

        process = storage.load(self.path)
        if not isinstance(process, Process):
            raise ValueError(
                f"{str(self.path)!r} holds a {type(process).__name__}, not a model; give one that febm fit wrote."
            )
        process._require_fitted("load")
        return process

    @property
    def widths(self) -> tuple[int, int]:
        """How many inputs and outputs its functions have."""
        scaling = self.process.scaling_  # type: ignore[attr-defined]  # every model of the library takes units off
        return scaling.d_x, scaling.d_y
