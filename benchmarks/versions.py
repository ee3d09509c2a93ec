"""Two versions of F-EBM on curves that the benchmark never scores: which of two ways to do something is better.

    python benchmarks/versions.py --save new.npz                (and the same with the other version on PYTHONPATH)
    python benchmarks/versions.py --compare new.npz old.npz

Of quadratic, melbourne and gridwatch a third of the training curves is held out; stocks are those of later days
(`other_days.py`, which says what is printed for every data set). A comparison is of the splits that both files have.
"""

import argparse
import dataclasses
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from other_days import PERIODS, Found, compare, judge, load_period

from febm import datasets
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE")
    parser.add_argument("--datasets", default=",".join(NAMES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.save:
        save(options.save, options.datasets.split(","), options.seeds, options.workers)
    elif options.compare:
        new, old = (read(path) for path in options.compare)
        for name in NAMES:
            cases = [case for case in new if case in old and case[0] == name]
            if cases:
                print(f"{name}, {len(cases)} splits")
                print("\n".join(f"  {line}" for line in compare([new[c] for c in cases], [old[c] for c in cases])))
    else:
        parser.print_help()


if __name__ == "__main__":
    main()
