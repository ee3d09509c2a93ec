"""Two versions of F-EBM on curves that the benchmark never scores: which of two ways to do something is better.

    python benchmarks/versions.py --save new.npz                (and the same with the other version on PYTHONPATH)
    python benchmarks/versions.py --compare new.npz old.npz

Of quadratic, melbourne and gridwatch a third of the training curves is held out; stocks are those of later days
(`other_days.py`). Prints, for every data set, what the first version is ahead or behind, as a mean over splits with its
standard error: log density of a curve, errors in the nine cells of the paper, and how much more often than the floor
samples are told from the held-out curves. Without either option both versions are this one, and two splits are all.
"""

import argparse
import dataclasses
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from other_days import PERIODS, Found, judge, load_period

from febm import datasets
from febm.benchmark.jobs import SPLITS
from febm.datasets import Dataset

NAMES = ("quadratic", "melbourne", "stocks", "gridwatch")
HELD_OUT = 1 / 3


def load(name: str, seed: int) -> Dataset:
    """Curves to fit, and others that are neither among them nor scored by the benchmark."""
    if name == "stocks":
        return load_period(1 + seed % PERIODS, seed // PERIODS)
    data: Dataset = getattr(datasets, f"load_{name}")(random_state=seed)
    order = np.random.default_rng(seed).permutation(len(data.train))
    held_out = np.isin(np.arange(len(order)), order[: round(HELD_OUT * len(order))])
    return dataclasses.replace(data, train=data.train[~held_out], evaluation=data.train[held_out])


def judge_case(name: str, seed: int) -> Found:
    """Fit F-EBM to the curves of one split and score it."""
    return judge("FEBM", load(name, seed), seed)


def save(path: Path, names: list[str], seeds: int, workers: int) -> None:
    """Score this version on all splits of some data sets."""
    cases = [(name, seed) for seed in range(seeds) for name in names]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {case: pool.submit(judge_case, *case) for case in cases}
        found = {case: job.result() for case, job in jobs.items()}
    scores = {
        f"{name}/{seed}/{field}": value for (name, seed), one in found.items() for field, value in one._asdict().items()
    }
    np.savez_compressed(path, **scores)


def read(path: Path) -> dict[tuple[str, int], Found]:
    """What `save` wrote."""
    with np.load(path) as file:
        cases = sorted({(name, int(seed)) for name, seed, _ in (key.split("/") for key in file)})
        return {
            (name, seed): Found(*(file[f"{name}/{seed}/{field}"] for field in Found._fields)) for name, seed in cases
        }


def compare(new: dict[tuple[str, int], Found], old: dict[tuple[str, int], Found]) -> None:
    """Print what the new version is ahead or behind, data set by data set."""
    for name in NAMES:
        pairs = [(new[case], old[case]) for case in new if case[0] == name and case in old]
        if not pairs:
            continue

        def figure(differences: list[float]) -> str:
            series = pd.Series(differences)
            return f"{series.mean():+.4f} ± {series.sem():.4f}"

        logs = np.array(
            [[np.log(a.mean() / b.mean()) for a, b in zip(x.errors, y.errors, strict=True)] for x, y in pairs]
        )
        print(f"{name}, {len(pairs)} splits")
        print(f"  log density of a curve {figure([float(np.mean(x.evidence - y.evidence)) for x, y in pairs])} nats")
        print(f"  logarithm of errors    {figure(logs.mean(axis=1).tolist())}, all cells")
        for cell, (kind, share) in enumerate(SPLITS):
            print(f"    {kind} {share}".ljust(25) + figure(logs[:, cell].tolist()))
        print(f"  samples told           {figure([float(x.told - y.told) for x, y in pairs])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE")
    parser.add_argument("--datasets", default=",".join(NAMES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    names = options.datasets.split(",")
    if options.compare:
        compare(*(read(path) for path in options.compare))
    elif options.save:
        save(options.save, names, options.seeds, options.workers)
    else:
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("new.npz", "old.npz")]
            for path in paths:
                save(path, ["quadratic"], options.seeds, options.workers)
            compare(*(read(path) for path in paths))


if __name__ == "__main__":
    main()
