"""The tables of a run, each a pure function from its scores to text: ours as mean ± standard error, the paper's beside.

A run may hold any part of the grid: what is not there is `–`, and a table without any row is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pandas as pd

from febm.benchmark.cells import (
    CELL_NAMES,
    CELLS,
    MISSING,
    Scores,
    figure,
    fixed,
    over_seeds,
    published_figure,
    scores,
    seeds_in_words,
    tidy_results,
)
from febm.benchmark.experiments import MODELS
from febm.benchmark.formats import GROUP, bold
from febm.benchmark.jobs import KERNELS, SIZES
from febm.reporting.findings import COVERAGE_GOOD

KERNEL_NAMES = {"id": "identity", "fpca": "FPCA"}
# Rows of the table of power that no model has, by metric.
FLOORS = {"floor": "floor", "resampled": "resampled"}
MET = "at or below published"
# What scores are called where a table has a column for each.
SCORE_NAMES = {
    "mse": "squared error",
    "crps": "CRPS",
    "log_density": "log density",
    "log_level": "log probability of level",
    "coverage_90": "coverage of 90\u00a0%",
    "coverage_50": "coverage of 50\u00a0%",
    "error": "coverage",
    "pit_distance": "probability integral transform",
    "marginal_distance": "predictive distribution",
    "sure": "samples: classifier is sure",
    "sure_data": "of data",
    "least_share": "least share of a kind",
    "variation": "total variation, of the data's",
    "nearest": "distance from training",
    "nearest_data": "data's",
    "frechet": "Fréchet distance",
    "frechet_data": "its floor",
}

IMAGES = (
    "Pixels between every second row and column, filled in; the log probability is that of the right one of 16 grey "
    "levels, in nats. And samples: the share that a classifier gives one kind a probability above 0.8, the share of "
    "the rarest kind, total variation over that of the data, the median distance from the nearest training picture, "
    "and the Fréchet distance of features."
)
CALIBRATION = (
    "A random half of the points given the other half: the mean distance of coverage from its level, and the largest "
    "distances of the probability integral transform from a uniform one and of the mean predictive distribution "
    "function from that of the data. Nearer to 0 is better."
)


class Sheet(NamedTuple):
    """One table of the report: the name of its files, what it shows, and its text."""

    name: str
    title: str
    caption: str
    table: pd.DataFrame


def sheets(results: pd.DataFrame, published: pd.DataFrame) -> list[Sheet]:
    """Every table of which the run has any rows."""
    rows = results = tidy_results(results)
    prediction = _of(rows, "prediction")
    words = seeds_in_words
    low, high = (f"{100 * end:.0f}" for end in COVERAGE_GOOD)
    cells = "Columns say how points are hidden and which share p of them is seen."
    found = [
        Sheet(
            "prediction",
            "Squared error",
            f"Mean squared error of the posterior mean at hidden points, less is better. {cells} {words(prediction)} "
            "Bold: the best here; below, what the paper has for the same model.",
            prediction_table(results, published),
        ),
        Sheet(
            "power",
            "Power",
            "How often a two-sample test tells n samples from n curves, by kernel of the test. The floor is the same "
            "test between curves and other curves: a perfect model has it. Resampled: the samples are training curves "
            "drawn with replacement, as by a model that knows them by heart and nothing else. Bold: the lowest. "
            + words(_of(rows, "power")),
            power_table(results, published),
        ),
        Sheet(
            "log_density",
            "Log density and evidence",
            "Log density of a hidden value given those seen, in nats, and the log evidence of a whole curve; more is "
            f"better. {words(prediction)}",
            density_table(results),
        ),
        Sheet(
            "crps",
            "CRPS",
            f"Continuous ranked probability score of hidden values, less is better. {words(prediction)}",
            score_table(results, "crps", best="lowest"),
        ),
        Sheet(
            "coverage",
            "Coverage",
            f"Share of hidden values inside their 90\u00a0% intervals, in per cent; below {low} (↓) intervals are too "
            f"narrow, above {high} (↑) too wide. {words(prediction)}",
            coverage_table(results),
        ),
        Sheet(
            "cost",
            "Seconds",
            f"Seconds to fit, and to complete all evaluation curves. {words(rows)}",
            cost_table(results),
        ),
    ]
    found += [
        Sheet(
            name,
            title,
            f"Power of the identity test with n = 10, and mean squared error. {cells} {words(_of(rows, name))}",
            ablation_table(results, published, name),
        )
        for name, title in (("priors", "Priors"), ("interpolation", "Interpolation"))
    ]
    found += [
        Sheet(name, title, f"{what} {words(_of(rows, name))}", wide_table(results, name))
        for name, title, what in (
            ("calibration", "Calibration", CALIBRATION),
            ("images", "Images", IMAGES),
        )
    ]
    return [sheet for sheet in found if len(sheet.table)]


def prediction_table(results: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Squared errors of the nine splits, the published row below each, and how many cells are at or below it."""
    return _errors(results, published, "prediction")


def ablation_table(results: pd.DataFrame, published: pd.DataFrame, table: str) -> pd.DataFrame:
    """The same for variants of one model, with the power that the paper gives beside the errors."""
    return _errors(results, published, table, power=True)


def score_table(
    results: pd.DataFrame, metric: str, *, best: str | None = None, show: Callable[[float, float], str] = figure
) -> pd.DataFrame:
    """One score of the nine splits for every data set and model; `best` is "lowest", "highest" or None."""
    rows = tidy_results(results)
    rows = rows[(rows["table"] == "prediction") & (rows["metric"] == metric)]
    found = [
        {GROUP: dataset, "model": label, **_cells(scores(part, "split", "p"), show)}
        for (dataset, label), part in _models(rows)
    ]
    table = pd.DataFrame(found, columns=[GROUP, "model", *CELL_NAMES])
    return table if best is None else _marked(table, rows.assign(column=rows["split"] + " " + rows["p"]), best)


def density_table(results: pd.DataFrame) -> pd.DataFrame:
    """Log density of the nine splits, and the evidence of whole curves, of the models that have either."""
    rows = tidy_results(results)
    rows = rows[rows["model"].isin(MODELS)]
    evidence = rows[rows["metric"] == "log_evidence"].assign(column="log evidence")
    density = rows[(rows["table"] == "prediction") & (rows["metric"] == "log_density")]
    means = scores(evidence, "dataset", "label")
    found = [
        {GROUP: dataset, "model": label, **_cells(scores(part, "split", "p"), figure)}
        | {"log evidence": figure(*means[dataset, label])}
        for (dataset, label), part in _models(pd.concat([density, evidence]).sort_index())
    ]
    table = pd.DataFrame(found, columns=[GROUP, "model", *CELL_NAMES, "log evidence"])
    both = pd.concat([density.assign(column=density["split"] + " " + density["p"]), evidence])
    return _marked(table, both, "highest")


def coverage_table(results: pd.DataFrame) -> pd.DataFrame:
    """Coverage of 90 % intervals in per cent, with an arrow at those that are out of range, and how many are in it."""
    table = score_table(results, "coverage_90", show=_coverage)
    counts = []
    for row in table[list(CELL_NAMES)].to_numpy():
        known = [cell for cell in row if cell != MISSING]
        counts.append(f"{sum(cell[-1] not in '↑↓' for cell in known)} of {len(known)}")
    return table.assign(**{"in range": counts})


def power_table(results: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Power by kernel and n for every model, below the floor of its data set; the paper has n = 10 and one kernel."""
    rows = _of(tidy_results(results), "power")
    sizes = sorted(set(rows["n"].astype(int))) if len(rows) else list(SIZES)
    names = {(suffix, n): f"{KERNEL_NAMES[k]}, n = {n}" for k, suffix in KERNELS.items() for n in sizes}
    beside = "published, n = 10"
    columns = [GROUP, "model", *names.values()]
    columns.insert(3, beside)
    found = []
    for dataset in dict.fromkeys(rows["dataset"]):
        here = rows[rows["dataset"] == dataset]
        # The floor does not depend on the model, so that a seed that several models ran says it once.
        floors = here.drop_duplicates(["seed", "metric", "n"])
        for metric, label in FLOORS.items():
            if metric in set(floors["metric"]):
                found.append({GROUP: dataset, "model": label, beside: MISSING, **_powers(floors, metric, names)})
        for label, part in here.groupby("label", sort=False):
            told = _published(published, "power", dataset, str(part["model"].iloc[0]))
            shown = f"{told['value'].iloc[0]:.2f}" if len(told) else MISSING
            found.append({GROUP: dataset, "model": label, beside: shown, **_powers(part, "power", names)})
    tests = rows[rows["metric"].str.startswith("power")]
    named = [names[metric.removeprefix("power"), n] for metric, n in zip(tests["metric"], tests["n"], strict=True)]
    return _marked(pd.DataFrame(found, columns=columns), tests.assign(column=named), "lowest")


def cost_table(results: pd.DataFrame) -> pd.DataFrame:
    """Seconds of every model: to fit, and to complete all evaluation curves once the program is compiled."""
    rows = tidy_results(results)
    names = {"seconds": "fit", "condition_seconds": "complete"}
    rows = rows[rows["metric"].isin(names)]
    means = scores(rows, "dataset", "label", "metric")
    found = [
        {GROUP: dataset, "model": label} | {name: figure(*means[dataset, label, key]) for key, name in names.items()}
        for (dataset, label), _ in _models(rows)
    ]
    return pd.DataFrame(found, columns=[GROUP, "model", *names.values()])


def wide_table(results: pd.DataFrame, table: str) -> pd.DataFrame:
    """Whatever scores a table has, a column for each, a row for each data set and model."""
    rows = _of(tidy_results(results), table)
    rows = rows[rows["metric"].isin(SCORE_NAMES)]
    columns = [name for name in SCORE_NAMES if name in set(rows["metric"])]
    means = scores(rows, "dataset", "label", "metric")
    found = [
        {GROUP: dataset, "model": label}
        | {SCORE_NAMES[metric]: figure(*means[dataset, label, metric]) for metric in columns}
        for (dataset, label), _ in _models(rows)
    ]
    return pd.DataFrame(found, columns=[GROUP, "model", *(SCORE_NAMES[name] for name in columns)])


def _errors(results: pd.DataFrame, published: pd.DataFrame, name: str, power: bool = False) -> pd.DataFrame:
    rows = _of(tidy_results(results), name)
    errors = rows[rows["metric"] == "mse"]
    found = []
    for (dataset, label), part in _models(rows if power else errors):
        told = _published(published, name, dataset, str(part["model"].iloc[0]))
        means = scores(part[part["metric"] == "mse"], "split", "p")
        paper = told[told["metric"] == "mse"].set_index(["split", "p"])["value"].to_dict()
        met = [means[key][0] <= paper[key] for key in CELLS if key in means and key in paper]
        row = {
            GROUP: dataset,
            "model": label,
            **_cells(means, figure),
            MET: f"{sum(met)} of {len(met)}" if met else MISSING,
        }
        beside = {
            cell: published_figure(paper.get(key, float("nan"))) for cell, key in zip(CELL_NAMES, CELLS, strict=True)
        }
        below = {GROUP: dataset, "model": "published", **beside, MET: ""}
        if power:
            tests = scores(part[part["n"] == 10], "metric")
            row["power"] = fixed(*tests["power"], places=3)
            told_power = told[told["metric"] == "power"]["value"]
            below["power"] = f"{told_power.iloc[0]:.2f}" if len(told_power) else MISSING
        found += [row, below] if len(told) else [row]
    columns = [GROUP, "model", *(["power"] if power else []), *CELL_NAMES, MET]
    table = pd.DataFrame(found, columns=columns)
    return _marked(table, errors.assign(column=errors["split"] + " " + errors["p"]), "lowest")


def _of(rows: pd.DataFrame, table: str) -> pd.DataFrame:
    return rows[rows["table"] == table]


def _models(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """The rows of every data set and model, in order."""
    yield from rows.groupby(["dataset", "label"], sort=False)


def _published(published: pd.DataFrame, table: str, dataset: str, model: str) -> pd.DataFrame:
    return published[(published["table"] == table) & (published["dataset"] == dataset) & (published["model"] == model)]


def _cells(means: Scores, show: Callable[[float, float], str]) -> dict[str, str]:
    return {name: show(*means[key]) for name, key in zip(CELL_NAMES, CELLS, strict=True)}


def _powers(part: pd.DataFrame, metric: str, names: dict[tuple[str, int], str]) -> dict[str, str]:
    means = scores(part, "metric", "n")
    return {name: fixed(*means[metric + suffix, n], places=3) for (suffix, n), name in names.items()}


def _coverage(mean: float, error: float) -> str:
    text = fixed(100 * mean, 100 * error, 1)
    low, high = COVERAGE_GOOD
    return text if text == MISSING or low <= mean <= high else f"{text} {'↓' if mean < low else '↑'}"


def _marked(table: pd.DataFrame, rows: pd.DataFrame, best: str) -> pd.DataFrame:
    """The table with the best model of each data set and `column` in bold; one alone has beaten nobody."""
    means = over_seeds(rows, "dataset", "label", "column")["mean"]
    rivals = means.groupby(level=["dataset", "column"])
    wins = (means == rivals.transform("min" if best == "lowest" else "max")) & (rivals.transform("size") > 1)
    for dataset, label, column in means.index[wins]:
        rows_of_winner = (table[GROUP] == dataset) & (table["model"] == label)
        table.loc[rows_of_winner, column] = table.loc[rows_of_winner, column].map(bold)
    return table
