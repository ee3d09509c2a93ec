"""How much a power of the benchmark is a matter of which samples were drawn: kept models, drawn from several times.

Takes the folder of a run of `febm benchmark`. Prints for each data set how far the power of the largest tests is above
the floor, over the seeds: with the draws of the benchmark, and as the mean over `--draws` sets of them; and by how much
one set differs from another, a standard deviation.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import jax
import numpy as np

import febm
from febm.benchmark import Job, RunFolder, plan
from febm.benchmark.jobs import KERNELS, POWER_DRAWS, SIZES, TRIALS
from febm.curves import Curves
from febm.evaluation import test_power
from febm.evaluation.samples import curves_and_draws
from febm.randomness import as_key


def powers_above_floor(job: Job, model: febm.FEBM, draws: int) -> np.ndarray:
    """A row for each set of draws, the first that of the benchmark, and a column for each kernel."""
    data, key = job.data(), as_key(job.seed)

    def powers(other: Curves) -> np.ndarray:
        settings = dict(n=max(SIZES), trials=TRIALS, random_state=job.seed)
        return np.array([test_power(data.evaluation, other, kernel=kernel, **settings) for kernel in KERNELS])

    def drawn(key: jax.Array) -> Curves:
        return curves_and_draws({"evaluation": data.evaluation, "model": model}, POWER_DRAWS, key, "benchmark")[1]

    keys = [key, *(jax.random.fold_in(key, draw) for draw in range(1, draws))]
    return np.stack([powers(drawn(one)) for one in keys]) - powers(data.train)


def told(values: np.ndarray) -> str:
    return f"{values.mean():+.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else "one seed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default="febm-benchmark", help="folder of a `febm benchmark` run")
    parser.add_argument("--draws", type=int, default=6, help="at least 2")
    options = parser.parse_args()
    if options.draws < 2:
        parser.error("--draws must be 2 or more: one draw says nothing about chance.")
    folder = RunFolder(options.run)
    jobs = [job for job in plan(["power"], models=["FEBM"]) if folder.model_path(job).exists()]
    if not jobs:
        print(
            f"There is no fitted F-EBM in {options.run}; run `febm benchmark --models FEBM --out {options.run}` first."
        )
    found = defaultdict(list)
    for job in jobs:
        found[job.dataset].append(powers_above_floor(job, febm.load(folder.model_path(job)), options.draws))
    for dataset, tables in found.items():
        by_draw = np.stack(tables)  # (seeds, draws, kernels)
        for number, kernel in enumerate(KERNELS):
            values = by_draw[:, :, number]
            print(
                f"{dataset:10} {kernel:5} of the benchmark {told(values[:, 0])}   mean of {options.draws} sets "
                f"{told(values.mean(axis=1))}   from set to set {np.sqrt(values.var(axis=1, ddof=1).mean()):.3f}"
            )


if __name__ == "__main__":
    main()
