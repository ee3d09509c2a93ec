"""The results in a line for each model and data set, beside what was published."""

import pandas as pd

from febm.benchmark.published import published

PREDICTIVE = ("prediction", "priors", "interpolation", "images")
POWERS = ("power", "priors", "interpolation")


def summarise_results(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each data set, model and recipe, means over seeds and splits; NaN where a table was not asked for.

    Columns: `seeds`; `cells`, how many of the errors are at or below the published ones, as words; `mse`,
    `log_density` and `coverage_90`, over all splits; `power` of tests of ten curves, `power_published` and `floor`;
    `seconds` of the fit.
    """
    target = published()
    lines = [
        {"dataset": dataset, "model": model, "recipe": recipe}
        | _line(rows, target[(target["dataset"] == dataset) & (target["model"] == model)])
        for (dataset, model, recipe), rows in results.groupby(["dataset", "model", "recipe"], sort=False)
    ]
    return pd.DataFrame(lines)


def _line(rows: pd.DataFrame, target: pd.DataFrame) -> dict[str, object]:
    tests = rows[rows["table"].isin(POWERS) & (rows["n"] == 10)]
    scores = rows[rows["table"].isin(PREDICTIVE)]
    published_power = target.loc[target["metric"] == "power", "value"]
    return {
        "seeds": rows["seed"].nunique(),
        "cells": _cells(scores, target),
        "mse": _mean(scores, "mse"),
        "log_density": _mean(scores, "log_density"),
        "coverage_90": _mean(scores, "coverage_90"),
        "power": _mean(tests, "power"),
        "power_published": float(published_power.iloc[0]) if len(published_power) else float("nan"),
        "floor": _mean(tests, "floor"),
        "seconds": _mean(rows[rows["table"] == "fit"], "seconds"),
    }


def _mean(rows: pd.DataFrame, metric: str) -> float:
    return float(rows.loc[rows["metric"] == metric, "value"].mean())


def _cells(scores: pd.DataFrame, target: pd.DataFrame) -> str:
    found = scores[scores["metric"] == "mse"].groupby(["split", "p"])["value"].mean()
    wanted = target[target["metric"] == "mse"].set_index(["split", "p"])["value"]
    both = found.index.intersection(wanted.index)
    return f"{int((found[both] <= wanted[both]).sum())} of {len(both)}" if len(both) else ""
