"""The work of `febm fit`: curves in, a fitted model and its notes out."""

from __future__ import annotations

import dataclasses
import datetime
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

from febm import storage
from febm.checkpoints import fingerprint
from febm.checks import count
from febm.commands.curve_tables import CurveTable
from febm.commands.model_settings import changed_settings
from febm.curves import Curves
from febm.models import Process
from febm.randomness import as_key, numpy_generator
from febm.reporting.page import versions


class Fit:
    """A model, the curves that it learns from, and those that are held out."""

    def __init__(self, source: Path, table: CurveTable, model: Process, *, hold_out: float | None, seed: int) -> None:
        self.source = source
        self.columns = table.columns
        self.model = model
        self.seed = seed
        self.curves = table.curves()
        self.held_out = held_out_places(len(self.curves), hold_out, seed)
        self.seconds = 0.0

    @property
    def training(self) -> Curves:
        """The curves that the model learns from."""
        if not len(self.held_out):
            return self.curves
        return self.curves[np.setdiff1d(np.arange(len(self.curves)), self.held_out)]

    def run(self, checkpoint: Path) -> None:
        """Fit the model; training is saved to `checkpoint` as it goes, where the model has any."""
        saves = "checkpoint" in self.model.get_params(deep=False)
        if saves:
            self.model.set_params(checkpoint=str(checkpoint))
        started = time.perf_counter()
        self.model.fit(self.training)
        self.seconds = time.perf_counter() - started
        if saves:
            self.model.set_params(checkpoint=None)

    def notes(self) -> dict[str, Any]:
        """What is saved with the model: columns, curves, and how it was fitted."""
        training = self.training
        return {
            "columns": dataclasses.asdict(self.columns),
            "data": {
                "file": self.source.name,
                "curves": len(training),
                "points": len(training.x),
                "held_out": self.held_out.tolist(),
                "fingerprint": fingerprint(self.curves.x, self.curves.y, self.curves.offsets),
            },
            "fit": {
                "seed": self.seed,
                "seconds": round(self.seconds, 2),
                "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
                "versions": {"python": platform.python_version(), **dict(versions())},
            },
        }

    def save(self, path: Path) -> None:
        """Write the model with its notes."""
        storage.save(self.model, path, notes=self.notes())

    def result(self, path: Path, *, resumed: bool) -> dict[str, Any]:
        """What was done, for a program."""
        training = self.training
        return {
            "out": path,
            "model": type(self.model).__name__,
            "settings": changed_settings(self.model),
            "columns": dataclasses.asdict(self.columns),
            "curves": len(training),
            "points": len(training.x),
            "held_out": len(self.held_out),
            "seed": self.seed,
            "resumed": resumed,
            "seconds": self.seconds,
        }

    def sentence(self, path: Path) -> str:
        """What was done, for a person."""
        held = f", {len(self.held_out):,} held out" if len(self.held_out) else ""
        kind = type(self.model).__name__
        return f"{path}: {kind}, fitted to {count(len(self.training), 'curve')} in {self.seconds:.1f} s{held}"


def held_out_places(curves: int, share: float | None, seed: int) -> np.ndarray:
    """The places, in order, of the curves that a fit leaves out."""
    if share is None:
        return np.array([], dtype=np.int64)
    size = max(1, round(share * curves))
    if size >= curves:
        raise ValueError(
            f"--hold-out is {share}, which of {count(curves, 'curve')} leaves none to learn from; give a smaller "
            "share, or more curves."
        )
    return np.sort(numpy_generator(as_key(seed)).permutation(curves)[:size])
