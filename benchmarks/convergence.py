"""Whether longer chains change what the benchmark finds: its scores of kept models, again and with ten times the work.

Takes the folder of a run of `febm benchmark` and scores every F-EBM in it with the same splits several times: with the
work of its samplers as it is, `--draws` times with other random numbers, which shows what chance alone does, and with
`--times` the work, once more with random numbers of its own. Prints for each score, over its cells, the largest change
and the typical one (root mean square) by chance and by work. Where work does nothing the typical ones are alike.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import febm
from febm.benchmark import Job, RunFolder, plan
from febm.benchmark.jobs import score_job
from febm.evaluation.chains import work_harder
from febm.randomness import RandomState, as_key

CELL = ["table", "split", "p", "metric", "n"]
# Scores, and whether their changes are told as shares of them.
SHOWN = {"power": False, "power_fpca": False, "mse": True, "coverage_90": False, "log_density": False}


def redrawn(model: febm.FEBM, draw: int, times: int = 1) -> febm.FEBM:
    """The model with random numbers of its own, and with `times` the proposals, particles and steps."""
    changed = work_harder(model, times)
    steps = model.chain_steps()

    def own(method: Callable[..., Any], **more: Any) -> Callable[..., Any]:
        def call(*given: Any, random_state: RandomState = None, **options: Any) -> Any:
            return method(*given, random_state=jax.random.fold_in(as_key(random_state), draw), **more, **options)

        return call

    sample = own(changed.sample) if steps is None else own(changed.sample, steps=times * steps)
    changed.sample, changed.condition = sample, own(changed.condition)
    return changed


def rescore(job: Job, model: febm.FEBM, draws: int, times: int) -> tuple[pd.DataFrame, pd.Series]:
    """The scores of the job's model, a column for every draw; and those with `times` the work."""
    columns = []
    for draw in range(draws + 1):
        changed = redrawn(model, draw, times if draw == draws else 1)
        rows = score_job(job, ("power", "prediction"), model=changed).rows
        columns.append(rows[rows["metric"].isin(SHOWN)].set_index(CELL)["value"].rename(draw))
    return pd.concat(columns[:-1], axis=1), columns[-1]


def describe(drawn: pd.DataFrame, worked: pd.Series, as_share: bool) -> str:
    """How much chance and work change the scores of some cells."""
    mean = drawn.mean(axis=1)
    unit = mean if as_share else 1.0
    by_chance, by_work = drawn.sub(mean, axis=0).div(unit, axis=0).to_numpy(), ((worked - mean) / unit).to_numpy()
    draws = drawn.shape[1]
    # The mean of the draws is itself a matter of chance: both are those of one draw about the true mean.
    typical_chance = np.sqrt(np.mean(by_chance**2) * draws / (draws - 1))
    typical_work = np.sqrt(np.mean(by_work**2) * draws / (draws + 1))
    largest_work = by_work[np.abs(by_work).argmax()]
    return (
        f"typical: chance {typical_chance:.4f}  work {typical_work:.4f}   largest: chance {np.abs(by_chance).max():.4f}"
        f"  work {largest_work:+.4f}   mean: work {by_work.mean():+.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default="febm-benchmark", help="folder of a `febm benchmark` run")
    parser.add_argument("--draws", type=int, default=4, help="at least 2")
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    if options.draws < 2:
        parser.error("--draws must be 2 or more: one draw says nothing about chance.")
    folder = RunFolder(options.run)
    jobs = [job for job in plan(["power", "prediction"], models=["FEBM"]) if folder.model_path(job).exists()]
    if not jobs:
        print(
            f"There is no fitted F-EBM in {options.run}; run `febm benchmark --models FEBM --out {options.run}` first."
        )
    for job in jobs:
        drawn, worked = rescore(job, febm.load(folder.model_path(job)), options.draws, options.times)
        for metric, as_share in SHOWN.items():
            cells = drawn.index.get_level_values("metric") == metric
            unit = "share" if as_share else "value"
            found = describe(drawn[cells], worked[cells], as_share)
            print(f"{job.dataset:10} seed {job.seed}  {metric:12} {unit}  {found}", flush=True)


if __name__ == "__main__":
    main()
