"""The work of `febm test`: both sides on one mesh, a test for each kernel, and power beside its floor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import RenderableType

from febm.checks import count
from febm.commands.tabulating import as_rich_table
from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.evaluation import power_table, two_sample_test
from febm.models import Process
from febm.randomness import as_key
from febm.reporting.findings import holm
from febm.reporting.subject import ReportEffort, as_subject

SIZES = (10, 50)


class Sides(NamedTuple):
    """The two sets of curves on one mesh."""

    a: Curves
    b: Curves
    reconstructed: bool


def as_sides(judged: Process | Curves, data: Curves | Dataset, *, most: int, seed: int) -> Sides:
    """The two sides of a test: curves, or samples of a model at the points of those that it was not fitted to."""
    curves = data.evaluation if isinstance(data, Dataset) else data
    effort = ReportEffort(tested=most)
    subject = as_subject(judged, curves, context=None, effort=effort, key=as_key(seed), owner="test")
    found = subject.functions
    return Sides(found.samples, found.curves, found.reconstructed)


def run_tests(sides: Sides, kernels: Sequence[str], *, permutations: int, seed: int) -> pd.DataFrame:
    """A two-sample test for each kernel, and p-values after Holm's correction for their number."""
    rows = []
    for kernel in kernels:
        found = two_sample_test(sides.a, sides.b, kernel, permutations, seed)  # type: ignore[arg-type]
        rows.append((kernel, found.statistic, found.pvalue))
    table = pd.DataFrame(rows, columns=["kernel", "statistic", "pvalue"])
    return table.assign(corrected=holm(table["pvalue"].to_numpy()))


def power(sides: Sides, sizes: Sequence[int] | None, kernels: Sequence[str], *, trials: int, seed: int) -> pd.DataFrame:
    """The power of small tests and its floor, by kernel and size; sizes that nobody asked for are those there are."""
    if sizes is None:
        largest = min(len(sides.a), len(sides.b) // 2)
        sizes = [size for size in SIZES if size <= largest] or ([largest] if largest > 1 else [])
    if not sizes:
        return pd.DataFrame(columns=["kernel", "n", "power", "power_se", "floor", "floor_se"])
    return power_table(sides.b, sides.a, sizes=sizes, kernels=list(kernels), trials=trials, random_state=seed)


def shown_tests(tests: pd.DataFrame, sides: Sides) -> list[RenderableType]:
    """The tests as a person reads them."""
    how = "reconstructed on a common mesh" if sides.reconstructed else "at their common points"
    heading = f"{count(len(sides.a), 'curve')} against {len(sides.b):,}, {how}"
    return [heading, as_rich_table(tests, {"statistic": ".4g", "pvalue": ".3f", "corrected": ".3f"}), ""]


def shown_power(table: pd.DataFrame) -> list[RenderableType]:
    """Power and floor, side by side, as a person reads them."""
    if not len(table):
        return []
    pairs = {
        name: [
            "–" if np.isnan(mean) else f"{mean:.2f} ± {error:.2f}"
            for mean, error in zip(table[name], table[f"{name}_se"], strict=True)
        ]
        for name in ("power", "floor")
    }
    shown = pd.DataFrame({"kernel": table["kernel"], "n": table["n"], **pairs})
    return [as_rich_table(shown, {"n": "d"}), ""]
