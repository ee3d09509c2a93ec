"""The numbers of the paper, one row for each, in the columns of our own results."""

import importlib.resources
import json

import numpy as np
import pandas as pd

# "High" in the paper's table: an error above 100.
HIGH = np.inf


def published() -> pd.DataFrame:
    """Every number of the paper's tables: `table`, `dataset`, `model`, `split`, `p`, `metric`, `n`, `value`.

    An error that the paper only calls high is infinite.
    """
    tables = json.loads(importlib.resources.files("febm.benchmark").joinpath("published.json").read_text("utf-8"))
    tables.pop("source")
    rows = [
        {"table": table, "dataset": dataset, "model": model, **_place(cell), "value": _number(value)}
        for table, datasets in tables.items()
        for dataset, models in datasets.items()
        for model, cells in models.items()
        for cell, value in (cells if isinstance(cells, dict) else {"test_power": cells}).items()
    ]
    return pd.DataFrame(rows)


def _place(cell: str) -> dict[str, str | int]:
    """What "middle 1/4" or "test_power" says, as columns."""
    if cell == "test_power":
        return {"split": "", "p": "", "metric": "power", "n": 10}
    split, p = cell.split()
    return {"split": split, "p": p, "metric": "mse", "n": 0}


def _number(value: float | str) -> float:
    return HIGH if value == "High" else float(value)
