"""Which curves judge a model in `febm report` and `febm test`, and findings as a program takes them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from febm.checkpoints import fingerprint
from febm.checks import count
from febm.commands.curve_tables import read_curves
from febm.commands.models import load_model
from febm.commands.options import TableForm
from febm.commands.targets import table_ending
from febm.commands.terminal import Terminal
from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.models import Process
from febm.reporting.build import Report

TABLES = ("tests", "power", "scores", "calibration", "chains", "seconds")


def judges(model: Path, data: Path, form: TableForm, terminal: Terminal) -> tuple[Process | Curves, Curves | Dataset]:
    """What is judged and by which curves: of the table that the model was fitted to, those that were held out."""
    if table_ending(model) is not None:
        return read_curves(model, form, terminal), read_curves(data, form, terminal)
    saved = load_model(model)
    curves = read_curves(data, form, terminal, saved.notes)
    known = saved.notes.get("data", {})
    if known.get("fingerprint") != fingerprint(curves.x, curves.y, curves.offsets):
        return saved.process, curves
    held_out = np.array(known.get("held_out", []), dtype=np.int64)
    if not len(held_out):
        terminal.say(
            "warning: the model was fitted to these very curves, so it looks better than it is; "
            "febm fit --hold-out 0.2 leaves some out to judge by."
        )
        return saved.process, curves
    terminal.say(f"The model was fitted to this table without {count(len(held_out), 'curve')}, which judge it here.")
    rest = np.setdiff1d(np.arange(len(curves)), held_out)
    return saved.process, Dataset(curves[rest], curves[held_out], description="", source=str(data), licence="")


def as_findings(found: Report) -> dict[str, Any]:
    """The report for a program: the findings, and the tables behind them."""
    tables = {name: getattr(found, name) for name in TABLES}
    return {
        "out": found.path,
        "findings": [dataclasses.asdict(finding) for finding in found.findings],
        **{name: table.to_dict("records") for name, table in tables.items() if isinstance(table, pd.DataFrame)},
    }
