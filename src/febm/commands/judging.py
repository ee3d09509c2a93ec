"""Which curves judge a model in `febm report` and `febm test`, and findings as a program takes them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from febm.checks import count
from febm.commands.curve_tables import CurveTable, read_curve_table
from febm.commands.models import SavedModel
from febm.commands.options import TableForm
from febm.commands.targets import table_ending
from febm.commands.terminal import Terminal

if TYPE_CHECKING:
    from febm.curves import Curves
    from febm.datasets.base import Dataset
    from febm.models import Process
    from febm.reporting.build import Report

TABLES = ("tests", "power", "scores", "calibration", "chains", "seconds")


def judges(model: Path, data: Path, form: TableForm, terminal: Terminal) -> tuple[Process | Curves, Curves | Dataset]:
    """What is judged and by which curves: of the table that the model was fitted to, those that were held out."""
    if table_ending(data) is None:
        raise ValueError(f"{str(data)!r} is no table of curves; a model comes first, and curves second.")
    if table_ending(model) is not None:
        first, second = (_several(path, read_curve_table(path, form, terminal)) for path in (model, data))
        return first.curves(), second.curves()
    saved = SavedModel(model)
    table = _several(data, read_curve_table(data, form, terminal, saved.notes))
    return saved.process, _unseen(saved, table.curves(), str(data), terminal)


def _several(path: Path, table: CurveTable) -> CurveTable:
    """The table, refused where it has one curve."""
    if table.number < 2:
        raise ValueError(
            f"{path.name} has 1 curve; a distribution needs at least 2 to be judged, and better some dozens."
        )
    return table


def _unseen(saved: SavedModel, curves: Curves, source: str, terminal: Terminal) -> Curves | Dataset:
    """The curves that the model was not fitted to, with those that it was; all of them where nothing is known."""
    from febm.checkpoints import fingerprint
    from febm.datasets.base import Dataset

    known = saved.notes.get("data", {})
    if known.get("fingerprint") != fingerprint(curves.x, curves.y, curves.offsets):
        return curves
    held_out = np.array(known.get("held_out", []), dtype=np.int64)
    if not len(held_out):
        terminal.say(
            "warning: the model was fitted to these very curves, so it looks better than it is; "
            "febm fit --hold-out 0.2 leaves some out to judge by."
        )
        return curves
    terminal.say(f"The model was fitted to this table without {count(len(held_out), 'curve')}, which judge it here.")
    rest = np.setdiff1d(np.arange(len(curves)), held_out)
    return Dataset(curves[rest], curves[held_out], description="", source=source, licence="")


def as_findings(found: Report) -> dict[str, Any]:
    """The report for a program: the findings, and the tables behind them."""
    tables = {name: getattr(found, name) for name in TABLES}
    return {
        "out": found.path,
        "findings": [dataclasses.asdict(finding) for finding in found.findings],
        **{name: table.to_dict("records") for name, table in tables.items() if isinstance(table, pd.DataFrame)},
    }
