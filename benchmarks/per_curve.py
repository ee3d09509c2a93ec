"""How many curves decide a cell of the benchmark: the errors of F-EBM and of a rival, curve by curve.

Takes cells as DATASET:SPLIT:SHARE:RIVAL, by default those where a rival is close, and the folder of a run of `febm
benchmark` that has both models. Prints the ratio of their mean squared errors with an interval by resampling curves,
the share of curves where F-EBM is closer, the share of its error that five curves have, and the ratio without the two
per cent of curves with the largest errors of either.
"""

import argparse
from fractions import Fraction
from pathlib import Path

import numpy as np

import febm
from febm.benchmark import Job, RunFolder
from febm.evaluation import predictive_scores, split

RESAMPLES = 10_000
FEW = 5
TRIMMED = 0.02
CLOSE = ["stocks:middle:1/4:EBP", "melbourne:downsample:1/2:PiVAE"]


def squared_errors(folder: RunFolder, job: Job, kind: str, share: Fraction) -> np.ndarray:
    """Of every evaluation curve, as the benchmark has them."""
    context, target = split(job.data().evaluation, kind, float(share), random_state=job.seed)
    model = febm.load(folder.model_path(job))
    return predictive_scores(model, context, target, job.seed, draws=20)["mse"].to_numpy()


def compare(own: np.ndarray, rival: np.ndarray) -> str:
    """What the errors of the same curves by two models say."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(own), size=(RESAMPLES, len(own)))
    low, high = np.quantile(own[chosen].mean(axis=1) / rival[chosen].mean(axis=1), [0.05, 0.95])
    largest = np.maximum(own, rival)
    kept = largest <= np.quantile(largest, 1 - TRIMMED)
    return (
        f"ratio {own.mean() / rival.mean():.3f}, by resampling {low:.3f} to {high:.3f}; "
        f"F-EBM closer for {np.mean(own < rival):.1%} of {len(own)} curves; "
        f"{FEW} curves have {np.sort(own)[-FEW:].sum() / own.sum():.1%} of its error; "
        f"ratio without {TRIMMED:.0%} of them {own[kept].mean() / rival[kept].mean():.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", default=CLOSE, help="DATASET:SPLIT:SHARE:RIVAL")
    parser.add_argument("--run", type=Path, default="febm-benchmark", help="folder of a `febm benchmark` run")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    folder = RunFolder(options.run)
    for cell in options.cells:
        dataset, kind, share, rival = cell.split(":")
        pairs = [[Job(model, dataset, seed=seed) for model in ("FEBM", rival)] for seed in range(options.seeds)]
        pairs = [pair for pair in pairs if all(folder.model_path(job).exists() for job in pair)]
        if not pairs:
            print(f"{cell:32} FEBM or {rival} is not in {options.run}; run `febm benchmark --out {options.run}` first.")
            continue
        own, other = (
            np.concatenate([squared_errors(folder, job, kind, Fraction(share)) for job in jobs])
            for jobs in zip(*pairs, strict=True)
        )
        print(f"{cell:32} {len(pairs)} of {options.seeds} seeds: {compare(own, other)}", flush=True)


if __name__ == "__main__":
    main()
