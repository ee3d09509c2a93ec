"""Scores over seeds, and how a table shows them: `0.0194 ± 0.0003`, `(5.8 ± 0.3)·10⁻¹⁴`, `–` where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from febm.benchmark.experiments import DATASETS, MODELS
from febm.benchmark.jobs import SPLITS
from febm.benchmark.published import published

MISSING = "–"
# The nine ways to hide a part of a curve, in the paper's order, and what their columns are called.
CELLS = tuple((kind, str(p)) for kind, p in SPLITS)
CELL_NAMES = tuple(f"{kind} {p}" for kind, p in CELLS)
# Beyond these, a number is a factor and a power of ten.
SMALLEST_PLAIN, LARGEST_PLAIN = 1e-4, 1e5
# Digits of a number without an error, and the fewest and most that one with an error may have.
DIGITS, FEWEST_DIGITS, MOST_DIGITS = 3, 2, 4
# Errors whose first two digits are below this keep both, as 0.012 and 0.034; 0.036 is as good as 0.04.
TWO_DIGITS_BELOW = 35
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tidy_results(results: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold a number, in the order of tables, with what the model is called in a `label`.

    A model by another recipe than the default says so; variants of a model, which have one recipe only, do not.
    Rows that are tidy stay as they are.
    """
    if "label" in results.columns:
        return results
    rows = results.assign(value=pd.to_numeric(results["value"], errors="coerce"))
    rows = rows[rows["value"].notna()]
    other = rows["recipe"].ne("default") & rows["model"].isin(MODELS)
    label = rows["model"].where(~other, rows["model"] + " (" + rows["recipe"].astype(str) + " recipe)")
    rows = rows.assign(p=rows["p"].astype(str), label=label)
    models = [*MODELS, *published()["model"].unique()]
    places = [_places(rows["dataset"], DATASETS), _places(rows["model"], models), other.astype(int)]
    return rows.iloc[np.lexsort(places[::-1])].reset_index(drop=True)


def over_seeds(rows: pd.DataFrame, *by: str) -> pd.DataFrame:
    """The `mean` of the scores of all seeds, its standard `error` (NaN of one seed alone), and how many `seeds`."""
    grouped = rows.groupby(list(by), sort=False)["value"]
    with np.errstate(invalid="ignore"):  # a score may be infinite
        found = grouped.agg(["mean", "sem", "size"])
    return found.set_axis(["mean", "error", "seeds"], axis=1)


class Scores(dict[Any, tuple[float, float]]):
    """Mean and standard error by what they are of; NaN where there is nothing."""

    def __missing__(self, key: Any) -> tuple[float, float]:
        return math.nan, math.nan


def scores(rows: pd.DataFrame, *by: str) -> Scores:
    """`over_seeds`, to look up one after the other."""
    found = over_seeds(rows, *by)
    return Scores(zip(found.index, zip(found["mean"], found["error"], strict=True), strict=True))


def figure(value: float, error: float = math.nan) -> str:
    """A number with the digits that its standard error leaves it, and the error where there is one."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0 or SMALLEST_PLAIN <= abs(value) < LARGEST_PLAIN:
        return _plain(value, error)
    exponent = math.floor(math.log10(abs(value)))
    shown = _plain(value / 10.0**exponent, error / 10.0**exponent)
    shown = f"({shown})" if "±" in shown else shown
    return f"{shown}·10{str(exponent).translate(SUPERSCRIPTS)}"


def fixed(value: float, error: float, places: int) -> str:
    """A number with so many digits after the point, and its error where there is one."""
    if not math.isfinite(value):
        return figure(value)
    return _fixed(value, places) + (f" ± {_fixed(error, places)}" if math.isfinite(error) else "")


def published_figure(value: float) -> str:
    """A number as the paper prints it; what it only calls high is above 100."""
    if math.isinf(value):
        return "> 100"
    return MISSING if math.isnan(value) else f"{value:.3f}"


def seeds_in_words(rows: pd.DataFrame) -> str:
    """What stands after ± in a table of these rows."""
    numbers = rows.groupby(["dataset", "label"])["seed"].nunique()
    if numbers.empty or numbers.max() == 1:
        return "One seed, so without standard errors."
    if numbers.min() == numbers.max():
        return f"Mean ± standard error over {numbers.max()} seeds."
    alone = " Those without ± have one seed." if numbers.min() == 1 else ""
    return f"Mean ± standard error over {numbers.min()} to {numbers.max()} seeds.{alone}"


def in_order(values: Iterable[str], known: Sequence[str]) -> list[str]:
    """The distinct values: those that are known in their order, then the others as they come."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct, key=lambda value: known.index(value) if value in known else len(known))


def _places(values: pd.Series, known: Sequence[str]) -> pd.Series:
    places = {value: place for place, value in enumerate(in_order(values, known))}
    return values.map(places).astype(int)


def _plain(value: float, error: float) -> str:
    first = math.floor(math.log10(abs(value))) if value else 0
    if not math.isfinite(error):
        return _fixed(value, DIGITS - 1 - first)
    places = MOST_DIGITS - 1 - first
    if error > 0:
        leading = math.floor(math.log10(error))
        two = round(error / 10.0 ** (leading - 1)) < TWO_DIGITS_BELOW
        places = min(places, 1 - leading if two else -leading)
    return fixed(value, error, max(places, FEWEST_DIGITS - 1 - first if value else 0))


def _fixed(value: float, places: int) -> str:
    return f"{value:.{max(places, 0)}f}".replace("-", "−")
