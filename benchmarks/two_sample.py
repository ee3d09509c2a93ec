"""Cost of a two-sample test: 1,000 against 1,000 curves on 200 points with 1,000 permutations.

Prints, for each kernel, the seconds of the test, its ratio to one float32 matrix product (1000×2000 times 2000×2000) on
the same machine in the same run (best and median of the repeats), and how much the memory of the process grows.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np

from febm.curves import Curves
from febm.evaluation.function_kernels import KERNELS
from febm.evaluation.two_sample import two_sample_test

CURVES, POINTS, PERMUTATIONS = 1000, 200, 1000


def sample(seed: int) -> Curves:
    """Noisy random waves."""
    generator = np.random.default_rng(seed)
    x = np.linspace(0, 1, POINTS)
    waves = np.stack([np.sin(2 * np.pi * k * x + phase) / k for k in range(1, 6) for phase in (0, 0.5 * np.pi)])
    values = generator.normal(size=(CURVES, len(waves))) @ waves
    return Curves.from_grid(x, values + 0.1 * generator.normal(size=values.shape))


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def memory_growth(kernel: str) -> float:
    """How many MiB the peak memory of a process grows over one test, its curves and libraries already there."""
    script = f"""
import resource, runpy
here = runpy.run_path({__file__!r})
a, b = here["sample"](0), here["sample"](1)
here["two_sample_test"](a[:20], b[:20], {kernel!r}, 10, 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
here["two_sample_test"](a, b, {kernel!r}, here["PERMUTATIONS"], 0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return int(found.stdout) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS), choices=list(KERNELS))
    arguments = parser.parse_args()
    memory = {kernel: memory_growth(kernel) for kernel in arguments.kernels}
    a, b = sample(0), sample(1)
    generator = np.random.default_rng(0)
    labels = generator.normal(size=(PERMUTATIONS, 2 * CURVES)).astype(np.float32)
    gram = generator.normal(size=(2 * CURVES, 2 * CURVES)).astype(np.float32)
    products: list[float] = []
    seconds: dict[str, list[float]] = {kernel: [] for kernel in arguments.kernels}
    labels @ gram
    # Turns are taken, so that a change in the machine's mood meets every figure alike.
    for _ in range(arguments.repeats):
        for kernel in arguments.kernels:
            products.append(timed(lambda: labels @ gram))
            seconds[kernel].append(timed(lambda kernel=kernel: two_sample_test(a, b, kernel, PERMUTATIONS, 0)))
    product, usual_product = min(products), statistics.median(products)
    best = {kernel: min(values) for kernel, values in seconds.items()}
    usual = {kernel: statistics.median(values) for kernel, values in seconds.items()}
    result = {
        "curves": [CURVES, CURVES],
        "points": POINTS,
        "permutations": PERMUTATIONS,
        "product_seconds": {"best": product, "median": usual_product},
        "test_seconds": {"best": best, "median": usual},
        "ratio_of_best": {kernel: value / product for kernel, value in best.items()},
        "ratio_of_medians": {kernel: value / usual_product for kernel, value in usual.items()},
        "peak_memory_growth_mib": memory,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
