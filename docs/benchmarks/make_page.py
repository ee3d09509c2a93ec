"""Bring the tables of the benchmark's page, and of the page on models, up to date.

    python docs/benchmarks/make_page.py [--keep-times] [--more-splits] [RUN …]

The rows of the folders RUN of `febm benchmark` replace those of the same model, data set, recipe, seed and table in
results.csv; then every table that has its name in a comment in front of it is made anew from there. With
--keep-times seconds that are known are not replaced, for runs that had to share the machine with others. With
--more-splits the rows go to more_splits.csv, which has models on more splits of some data sets than results.csv does,
and a table of its own.
"""

import argparse
import re
from pathlib import Path

import numpy as np
import pandas as pd

from febm.benchmark.cells import figure, over_seeds, scores, tidy_results
from febm.benchmark.experiments import MODELS
from febm.benchmark.formats import GROUP, bold, markdown
from febm.benchmark.published import published
from febm.benchmark.standing import standing_sheets, standing_table
from febm.benchmark.tables import sheets
from febm.models.settings import PAPER_CURVES

HERE = Path(__file__).resolve().parent
RESULTS, MORE_SPLITS = HERE / "results.csv", HERE / "more_splits.csv"
PAGES = HERE / "README.md", HERE.parent / "models.md"
ON_GPU = ("NeuralProcess", "VIP")
TIMES = ("seconds", "condition_seconds")
SCORED = ["dataset", "model", "recipe", "seed", "table"]
MARKED = re.compile(r"(<!-- table: (\w+) -->\n\n)(?:\|.*\n)*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--keep-times", action="store_true")
    parser.add_argument("--more-splits", action="store_true")
    options = parser.parse_args()
    path = MORE_SPLITS if options.more_splits else RESULTS
    results = read(path)
    for folder in options.runs:
        results = updated(results, read(folder / "results.csv"), keep_times=options.keep_times)
    results = results.sort_values([*SCORED, "split", "p", "metric", "n"], kind="stable")
    results.to_csv(path, index=False, float_format="%.5g")
    tables = all_tables(read(RESULTS), read(MORE_SPLITS))
    for page in PAGES:
        page.write_text(with_tables(page.read_text("utf-8"), tables), "utf-8")


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"split": str, "p": str}, keep_default_na=False)


def updated(old: pd.DataFrame, new: pd.DataFrame, *, keep_times: bool = False) -> pd.DataFrame:
    """The new rows, and the old ones of whatever the new ones are not about."""
    if keep_times:
        times = old[old["metric"].isin(TIMES)]
        known = _same(new, times, [*SCORED, "metric"])
        new = pd.concat([new[~known], times[_same(times, new, [*SCORED, "metric"])]])
    return pd.concat([old[~_same(old, new, SCORED)], new], ignore_index=True)


def _same(rows: pd.DataFrame, others: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """Which rows have all of these columns in common with one of the others."""
    return pd.MultiIndex.from_frame(rows[columns]).isin(pd.MultiIndex.from_frame(others[columns]))


def with_tables(page: str, tables: dict[str, pd.DataFrame]) -> str:
    """The page with these tables in the place of those of the same names."""
    return MARKED.sub(lambda found: found[1] + markdown(tables[found[2]]), page)


def all_tables(results: pd.DataFrame, more_splits: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table that these results make, by its name."""
    paper = published()
    tables = {sheet.name: sheet.table for sheet in (*sheets(results, paper), *standing_sheets(results, paper))}
    rows = tidy_results(results)
    summaries = {f"models_{dataset}": models_table(rows[rows["dataset"] == dataset]) for dataset in PAPER_CURVES}
    more = {"evidence": evidence_table(results), "more_splits": standing_table(more_splits, paper)}
    return {**tables, **summaries, **more}


def models_table(rows: pd.DataFrame) -> pd.DataFrame:
    """What each model does on one data set, in a line."""
    cells = rows[rows["table"] == "prediction"]
    hidden = {name: scores(cells[cells["metric"] == name], "label", "split", "p") for name in ("mse", "coverage_90")}
    densities = cells[cells["metric"] == "log_density"].groupby(["label", "seed"])["value"].mean()
    density = scores(densities.reset_index(), "label")
    told = scores(rows[rows["table"] == "power"], "label", "metric", "n")
    seconds = scores(rows[(rows["table"] == "fit") & (rows["metric"] == "seconds")], "label")
    found = []
    for name in (name for name in MODELS if name in density):
        covered = [mean for (label, *_), (mean, _) in hidden["coverage_90"].items() if label == name]
        least, most = f"{min(covered):.2f}", f"{max(covered):.2f}"
        found.append(
            {
                "model": f"`{name}`",
                "log density": figure(*density[name]),
                "error, middle 1/2": figure(*hidden["mse"][name, "middle", "1/2"]),
                "error, random 1/4": figure(*hidden["mse"][name, "random", "1/4"]),
                **{
                    f"power, n = {n}": f"{told[name, 'power', n][0]:.2f} ({told[name, 'floor', n][0]:.2f})"
                    for n in (50, 150)
                },
                "coverage": least if least == most else f"{least}–{most}",
                "fit, s": f"{seconds[name][0]:.0f}" + ", GPU" * (name in ON_GPU),
            }
        )
    return pd.DataFrame(found)


def evidence_table(results: pd.DataFrame) -> pd.DataFrame:
    """Log density of a held-out curve, a column for each model."""
    rows = tidy_results(results)
    rows = rows[(rows["metric"] == "log_evidence") & rows["label"].isin(MODELS)]
    means = over_seeds(rows[rows["dataset"] != "fashion_mnist"], "dataset", "label")
    found = []
    for dataset, part in means.groupby("dataset", sort=False):
        shown = {label: f"{row['mean']:.1f} ± {row['error']:.1f}" for (_, label), row in part.iterrows()}
        best = part["mean"].idxmax()[1]
        shown[best] = bold(shown[best])
        found.append({GROUP: dataset, **{name: text.replace("-", "−") for name, text in shown.items()}})
    return pd.DataFrame(found, columns=[GROUP, *(name for name in MODELS if name in found[0])])


if __name__ == "__main__":
    main()
