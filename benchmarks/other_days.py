"""Stocks on days that the benchmark does not have: where settings for such curves can be chosen and checked.

The file of prices has 1,259 days, of which the benchmark has the first 200. Here are the same companies in each of the
five periods of 200 days after these, split in halves with `--seeds` seeds. Prints, for every cell of the paper, the
geometric mean over periods and splits of the ratio of F-EBM's squared error to a rival's, and the same of errors that
count relative to each curve's own, for a few companies have most of the others; the difference in log density; and how
much more often than the floor a test tells samples from curves, with 150 of each.
"""

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import febm
from febm.benchmark.jobs import POWER_DRAWS, SIZES, SPLITS
from febm.datasets import Dataset, load_stocks
from febm.datasets.stocks import DAYS, FILES, read_highs
from febm.evaluation import split, test_power

PERIODS = 5
TRIALS = 300
LARGEST_TEST = 3 / 4  # of the curves


class Found(NamedTuple):
    """What a model was worth on one split."""

    evidence: np.ndarray  # of every curve
    errors: np.ndarray  # (cells, curves)
    told: float  # power of a test of its samples, less the floor


def load_period(period: int, seed: int) -> Dataset:
    """The stocks with a price on every day of the file, in the period with this number; 0 is the benchmark's."""
    (path,) = FILES.paths(None)
    highs = read_highs(path)[period * DAYS : (period + 1) * DAYS]
    with tempfile.TemporaryDirectory() as folder:
        highs.to_csv(Path(folder) / "stocks.csv", index_label="date")
        return load_stocks(seed, data_home=folder)


def judge_period(name: str, period: int, seed: int) -> Found:
    """Fit a model to one half of the stocks and score it on the other."""
    return judge(name, load_period(period, seed), seed)


def judge(name: str, data: Dataset, seed: int) -> Found:
    """Fit a model to the training curves and score it on the others."""
    model = getattr(febm, name)(random_state=seed, progress=False).fit(data.train)
    errors = []
    for kind, share in SPLITS:
        context, target = split(data.evaluation, kind, float(share), random_state=seed)
        squares = (model.condition(context).mean(target).y - target.y)[:, 0] ** 2
        errors.append(np.add.reduceat(squares, target.offsets[:-1]) / target.lengths)
    samples = model.sample(POWER_DRAWS, data.evaluation.common_points, noise=True, random_state=seed)
    size = min(SIZES[-1], int(LARGEST_TEST * len(data.evaluation)))
    powers = [
        test_power(data.evaluation, others, n=size, trials=TRIALS, random_state=seed)
        for others in (samples, data.train)
    ]
    return Found(np.asarray(model.log_evidence(data.evaluation)), np.stack(errors), powers[0] - powers[1])


def compare(own: list[Found], rival: list[Found]) -> Iterator[str]:
    """A line a cell and one for all cells, one for the log density and one for samples."""

    def mean(values: list[float]) -> tuple[float, float]:
        series = pd.Series(values)
        return series.mean(), series.sem()

    def ratio(logs: list[float]) -> str:
        value, error = mean(logs)
        return f"{np.exp(value):.3f} ± {np.exp(value) * error:.3f}"

    every = []
    for cell, (kind, share) in enumerate(SPLITS):
        pairs = [(one.errors[cell], other.errors[cell]) for one, other in zip(own, rival, strict=True)]
        means = [float(np.log(one.mean() / other.mean())) for one, other in pairs]
        each = [float(np.mean(np.log(one / other))) for one, other in pairs]
        every.append(means)
        yield f"{kind} {share}".ljust(16) + f"mean squares {ratio(means)}   curve by curve {ratio(each)}"
    yield "all".ljust(16) + f"mean squares {ratio(np.mean(every, axis=0).tolist())}"
    gains = [float(np.mean(one.evidence - other.evidence)) for one, other in zip(own, rival, strict=True)]
    yield "log density of a curve {:+.2f} ± {:.2f} nats".format(*mean(gains))
    apart = [one.told - other.told for one, other in zip(own, rival, strict=True)]
    powers = [
        "{:+.3f} ± {:.3f}".format(*mean(side))
        for side in ([found.told for found in own], [found.told for found in rival], apart)
    ]
    yield f"samples told {powers[0]} more often than the floor, the other's {powers[1]}; between them {powers[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals", nargs="+", default=["FPCA"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cases = list(itertools.product(range(1, PERIODS + 1), range(options.seeds)))
    names = ["FEBM", *options.rivals]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        running = {name: [pool.submit(judge_period, name, *case) for case in cases] for name in names}
        found = {name: [job.result() for job in jobs] for name, jobs in running.items()}
    for rival in options.rivals:
        print(f"FEBM / {rival}, {len(cases)} splits of {PERIODS} periods of {DAYS} days")
        print("\n".join(f"  {line}" for line in compare(found["FEBM"], found[rival])), flush=True)


if __name__ == "__main__":
    main()
