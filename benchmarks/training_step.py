"""Speed of the paper's training step: batch 128, 100 posterior and 100 prior steps, two networks of 3×512.

Prints, for each number of points m, the share of this machine's own float32 matrix-product rate that the step reaches,
the ratio of the slowest to the fastest m, and the peak memory of the process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp

from febm.contrastive import Contrastive
from febm.langevin import Chain, StepSize
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.networks import NetworkGenerator, ResidualMLP
from febm.observations import Observations
from febm.priors import Energy, GaussianPrior, TiltedPrior
from febm.training import Group, Optimisation, run_epoch, start_state

BATCH, STEPS, WIDTH, LATENT = 128, 100, 512, 20
GROUPS = tuple((name, Group()) for name in ("generator", "noise", "prior"))


def matrix_rate(size: int = 2048, repeats: int = 3) -> float:
    """The best rate of a square float32 matrix product, in operations a second."""
    product = jax.jit(lambda a, b: a @ b)
    a = jax.random.normal(jax.random.key(0), (size, size))
    product(a, a).block_until_ready()
    return 2 * size**3 / min(timed(lambda: product(a, a).block_until_ready()) for _ in range(repeats))


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def step_operations(points: int) -> float:
    """Multiplications and additions of one training step; a gradient in the latent costs as much as the value."""
    generator = 2 * (LATENT * WIDTH + 2 * WIDTH**2 + WIDTH * points) + 2 * points**2
    energy = 2 * (LATENT * WIDTH + 2 * WIDTH**2 + WIDTH)
    chains = STEPS * 2 * (generator + energy) + STEPS * 2 * energy
    return BATCH * (chains + 3 * (generator + 2 * energy))


def training_step(points: int):
    """A compiled training step on `points` points with as many basis functions, as in the paper."""
    keys = jax.random.split(jax.random.key(points), 4)
    generator = NetworkGenerator(ResidualMLP(LATENT, points, width=WIDTH, key=keys[0]))
    energy = Energy(ResidualMLP(LATENT, "scalar", width=WIDTH, key=keys[1]), LATENT)
    model = LatentModel(generator, TiltedPrior(GaussianPrior(LATENT), energy), Gaussian(0.3))
    features = jax.random.normal(keys[2], (points, 1, points)) / jnp.sqrt(points)
    values = jax.random.normal(keys[3], (BATCH, points, 1))
    data = Observations(jnp.zeros((points, 1)), features, values, jnp.ones(values.shape, dtype=bool), shared=True)
    chain = Chain(STEPS, StepSize(1e-2), metropolis=False)
    objective = Contrastive(posterior=chain, prior=chain, precondition=False)
    settings = Optimisation(averaging=0.0).step
    state = start_state(objective, model, GROUPS, settings)
    rates = {name: jnp.asarray(group.rate) for name, group in GROUPS}
    return lambda: jax.block_until_ready(
        jax.tree.leaves(run_epoch(objective, GROUPS, settings, state, rates, data, jax.random.key(0)))
    )


def peak_memory(points: int) -> float:
    """Peak memory in MiB of a process that does nothing but one such training step."""
    script = f"import runpy; runpy.run_path({__file__!r})['training_step']({points})(); import resource; "
    script += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return int(found.stdout) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--points", type=int, nargs="+", default=[24, 144, 200])
    arguments = parser.parse_args()
    memory = {points: peak_memory(points) for points in arguments.points}
    steps = {points: training_step(points) for points in arguments.points}
    for step in steps.values():
        step()
    seconds: dict[int, list[float]] = {points: [] for points in steps}
    rates = []
    # Turns are taken, so that a change in the machine's mood meets every figure alike; the best of each is what
    # the machine can do when nobody else asks it for anything.
    for _ in range(arguments.repeats):
        rates.append(matrix_rate())
        for points, step in steps.items():
            seconds[points].append(timed(step))
    rate, best = max(rates), {points: min(values) for points, values in seconds.items()}
    usual_rate, usual = statistics.median(rates), {m: statistics.median(values) for m, values in seconds.items()}
    result = {
        "device": str(jax.devices()[0]),
        "jax": jax.__version__,
        "matrix_gflops": rate / 1e9,
        "step_seconds": best,
        "share_of_matrix_rate": {m: step_operations(m) / value / rate for m, value in best.items()},
        "slowest_to_fastest": max(best.values()) / min(best.values()),
        "share_of_matrix_rate_by_medians": {m: step_operations(m) / value / usual_rate for m, value in usual.items()},
        "slowest_to_fastest_by_medians": max(usual.values()) / min(usual.values()),
        "peak_memory_mib": memory,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
