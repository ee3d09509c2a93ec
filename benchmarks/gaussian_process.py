"""How the cost of a Gaussian process grows with the points of a curve: Matérn 5/2, one input.

Prints, for each number of points n, the seconds of the O(n) solver and of the dense one (while that is affordable) for
the evidence of a curve and for the posterior mean and variance at n other points, and the growth from one n to the
next, twice as large: 2 where the cost is linear, 8 where it is cubic.
"""

import argparse
import statistics
import time

import numpy as np
from threadpoolctl import threadpool_limits

from febm.curves import Curves
from febm.kernels import Constant, Matern52
from febm.models import gp_posterior
from febm.models.gp_field import MeanFunction, build_field
from febm.models.gp_posterior import Solver
from febm.quasiseparable import LONG_CURVE

KERNEL, NOISE = Constant(2.0) * Matern52(0.1), 0.05
DENSE_LIMIT = 2048


def seconds(action, repeats: int = 5) -> float:
    """The median of some runs, in processor time, after one that compiles."""
    action()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return statistics.median(times)


def measure(points: int, task: str, fast: bool) -> float:
    """Evidence or posterior of one curve of `points` points, from scratch."""
    x = np.sort(np.random.default_rng(points).random(points))[:, None]
    curve = Curves.from_arrays([x], [np.sin(9 * x)])
    field = build_field(KERNEL, NOISE, MeanFunction(np.zeros(1)), curve.select(np.arange(points) < 10))
    gp_posterior.LONG_CURVE = gp_posterior.LONG_CONTEXT = 0 if fast else points
    if task == "evidence":
        return seconds(lambda: Solver(field).log_evidence(curve))
    at = x + 0.5 / points
    return seconds(lambda: Solver(field).moments(curve.x, curve.y, at))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=65536)
    largest = parser.parse_args().largest
    sizes = [size for size in (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536) if size <= largest]
    print(f"evidence by the O(n) solver beyond {LONG_CURVE} points, posteriors beyond {gp_posterior.LONG_CONTEXT}")
    for task in ("evidence", "posterior"):
        print(f"\n{task:>9} {'O(n), s':>10} {'growth':>7} {'dense, s':>10} {'growth':>7} {'dense / O(n)':>13}")
        before = {}
        for size in sizes:
            found = {"fast": measure(size, task, True)}
            if size <= DENSE_LIMIT:
                found["dense"] = measure(size, task, False)
            words = [f"{size:>9}"]
            for name in found:
                growth = f"{found[name] / before[name]:.1f}" if name in before else ""
                words.append(f"{found[name]:>10.4f} {growth:>7}")
            if "dense" in found:
                words.append(f"{found['dense'] / found['fast']:>13.2f}")
            print(" ".join(words), flush=True)
            before = found


if __name__ == "__main__":
    with threadpool_limits(1):  # processor time is that of the work, not of threads that wait
        main()
