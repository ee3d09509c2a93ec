"""Whether longer chains change what the benchmark finds: its scores of kept models, again and with ten times the work.

Takes the folder of a run of `febm benchmark` and scores every F-EBM in it three times with the same splits: as it is,
with the work of its samplers changed by a hair, which shows what chance alone does, and with `--times` the work.
Prints the largest change of each score over its cells.
"""

import argparse
import functools
from pathlib import Path

import numpy as np
import pandas as pd

import febm
from febm.benchmark import Job, RunFolder, plan
from febm.benchmark.jobs import score_job
from febm.evaluation.chains import work_harder

CELL = ["table", "split", "p", "metric", "n"]
# Scores, and whether their changes are told as shares of them.
SHOWN = {"power": False, "power_fpca": False, "mse": True, "coverage_90": False, "log_density": False}


def with_work(model: febm.FEBM, factor: float) -> febm.FEBM:
    """The model with `factor` times the proposals, particles and steps; a hair more than 1 changes only the draws."""
    changed = work_harder(model, factor)
    steps = model.chain_steps()
    if steps is not None:
        changed.sample = functools.partial(changed.sample, steps=round(factor * steps))
    return changed


def rescore(job: Job, model: febm.FEBM, times: int) -> pd.DataFrame:
    """The scores of the job's model with three amounts of work, a column for each."""
    work = {"once": 1.0, "again": 1.02, f"{times} times": float(times)}
    columns = {}
    for name, factor in work.items():
        rows = score_job(job, ("power", "prediction"), model=with_work(model, factor)).rows
        columns[name] = rows[rows["metric"].isin(SHOWN)].set_index(CELL)["value"]
    return pd.DataFrame(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?", default="febm-benchmark", help="folder of a `febm benchmark` run")
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    folder = RunFolder(options.run)
    jobs = [job for job in plan(["power", "prediction"], models=["FEBM"]) if folder.model_path(job).exists()]
    if not jobs:
        print(
            f"There is no fitted F-EBM in {options.run}; run `febm benchmark --models FEBM --out {options.run}` first."
        )
    for job in jobs:
        found = rescore(job, febm.load(folder.model_path(job)), options.times)
        for metric, as_share in SHOWN.items():
            scores = found[found.index.get_level_values("metric") == metric]
            unit = scores["once"] if as_share else 1.0
            changes = scores.drop(columns="once").sub(scores["once"], axis=0).div(unit, axis=0)
            largest = "  ".join(f"{name} {changes[name].iloc[np.abs(changes[name]).argmax()]:+.4f}" for name in changes)
            mean = "  ".join(f"{name} {changes[name].mean():+.4f}" for name in changes)
            told = "share" if as_share else "value"
            print(
                f"{job.dataset:10} seed {job.seed}  {metric:12} {told}  largest: {largest}   mean: {mean}", flush=True
            )


if __name__ == "__main__":
    main()
