"""Every model on the paper's data beside its published row: errors, test power, coverage, seconds.

    python benchmarks/rivals.py [--models FPCA EBP …] [--datasets melbourne …] [--seeds 3] [--recipe paper] [--out DIR]

Rows go to DIR/<model>-<dataset>-<recipe>-<seed>.csv as they are found; those that are there already are not computed
again. FEBM_DATA names the folder of the data.
"""

import argparse
import itertools
import sys
from pathlib import Path

import pandas as pd

from febm.benchmark import Job, published, run_job
from febm.benchmark.jobs import DATASETS, MODELS, RECIPES


def main() -> None:
    """Compute what is missing and print what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--recipe", default="default", choices=RECIPES)
    parser.add_argument("--out", type=Path, default=Path("rivals"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tables = []
    for seed, dataset, name in itertools.product(range(arguments.seeds), arguments.datasets, arguments.models):
        path = arguments.out / f"{name}-{dataset}-{arguments.recipe}-{seed}.csv"
        if not path.exists():
            rows = run_job(Job(name, dataset, arguments.recipe, seed))
            rows.to_csv(path.with_suffix(".part"), index=False)
            path.with_suffix(".part").replace(path)
        tables.append(pd.read_csv(path, keep_default_na=False))
        sys.stdout.write(f"{name} {dataset} {seed}: done\n")
    sys.stdout.write(summary(pd.concat(tables)) + "\n")


def summary(results: pd.DataFrame) -> str:
    """A line for each model and data set: cells at or below the published row, power, coverage, seconds."""
    lines = ["dataset    model            cells  power (published, floor)  coverage      evidence   seconds"]
    for (dataset, model), rows in results.groupby(["dataset", "model"], sort=False):
        cells = rows[rows.metric == "mse"].groupby(["split", "p"]).value.mean()
        target = published().query("table == 'prediction' and dataset == @dataset and model == @model")
        target = target.set_index(["split", "p"]).value.reindex(cells.index)
        met = f"{(cells <= target).sum()} of 9" if target.notna().all() else "-"
        power = published().query("table == 'power' and dataset == @dataset and model == @model").value
        mean = rows.groupby(["metric", "n"]).value.mean()
        coverage = rows[rows.metric == "coverage_90"].groupby(["split", "p"]).value.mean()
        lines.append(
            f"{dataset:10} {model:16} {met:6} {mean['power', 10]:.3f} ({power.iloc[0] if len(power) else '-'}, "
            f"{mean['floor', 10]:.3f})".ljust(60)
            + f"{coverage.min():.2f}-{coverage.max():.2f}  {mean['log_evidence', 0]:9.2f}  {mean['seconds', 0]:7.1f}"
        )
        lines.append("    mse " + " ".join(f"{value:.4f}" for value in cells))
        lines.append("    pub " + " ".join(f"{value:.4f}" for value in target))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
