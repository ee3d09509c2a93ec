"""Can the sampler be trusted? Agreement of independent runs, acceptance, and what ten times the work would change.

Draws of a sampler are right when another run gives the same distribution (R-hat near 1), when they are worth many
independent ones (effective sample sizes), and when longer chains do not move them (the gap). All three are judged on
function values, so they mean the same for every model.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from febm.curves import Curves
from febm.evaluation.second_opinions import sliced_wasserstein
from febm.models.base import Posterior, Process
from febm.models.febm import FEBM
from febm.models.settings import Langevin
from febm.randomness import RandomState, as_key, numpy_generator

RUNS = 4  # independent runs of a sampler that are compared
DRAWS = 512  # functions of each run: R-hat of so many independent draws stays below 1.01 for hundreds of quantities
FACTOR = 10  # how much longer the long chains are
CURVES = 16  # conditioned curves that are looked at
POINTS = 25  # points at which functions are compared


class Convergence(NamedTuple):
    """What draws of several chains say of each quantity: R-hat and effective sample sizes."""

    rhat: Float[np.ndarray, " quantities"]
    ess_bulk: Float[np.ndarray, " quantities"]
    ess_tail: Float[np.ndarray, " quantities"]


class Gap(NamedTuple):
    """How far draws of short chains are from draws of long ones."""

    distance: float  # sliced 1-Wasserstein distance on whitened scores, in standard deviations
    pvalue: float


def convergence(draws: Float[np.ndarray, "chains draws quantities"]) -> Convergence:
    """R-hat, bulk and tail effective sample size of each quantity; a constant has R-hat 1 and counts in full."""
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 3 or draws.shape[0] < 2 or draws.shape[1] < 4:
        raise ValueError(
            f"convergence: draws have shape {draws.shape}; give (chains, draws, quantities) with at least two chains "
            "of four draws."
        )
    constant = np.ptp(draws, axis=(0, 1)) == 0
    total = float(draws.shape[0] * draws.shape[1])
    found = Convergence(*(np.full(draws.shape[2], value) for value in (1.0, total, total)))
    if not constant.all():
        for values, statistic in zip(found, _statistics(jnp.asarray(draws)), strict=True):
            values[~constant] = np.asarray(statistic, dtype=float).reshape(-1)[~constant]
    return found


@jax.jit
def _statistics(draws: Float[Array, "chains draws quantities"]) -> tuple[Array, Array, Array]:
    axes = dict(chain_axis=0, sample_axis=1)
    return blackjax.rhat(draws, **axes), blackjax.ess_bulk(draws, **axes), blackjax.ess_tail(draws, **axes)


def chain_gap(
    model: FEBM, *, n: int = 500, factor: int = FACTOR, at: Any = None, random_state: RandomState = None
) -> Gap | None:
    """Compare `n` samples with `n` drawn by chains `factor` times longer; None where samples are drawn exactly."""
    steps = model.chain_steps()
    if steps is None:
        return None
    short_seed, long_seed, test_seed = _seeds(random_state, 3)
    short = model.sample(n, at, random_state=short_seed)
    long = model.sample(n, at, steps=factor * steps, random_state=long_seed)
    found = sliced_wasserstein(short, long, random_state=test_seed)
    return Gap(found.distance, found.pvalue)


def posterior_gap(
    model: FEBM, context: Curves, *, factor: int = FACTOR, at: Any, random_state: RandomState = None
) -> float:
    """How far ten times the work moves posterior means: root mean square, in posterior standard deviations."""
    short_seed, long_seed = _seeds(random_state, 2)
    short = _functions(model.condition(context, random_state=short_seed), at, DRAWS, short_seed)
    long = _functions(_harder(model, factor).condition(context, random_state=long_seed), at, DRAWS, long_seed)
    spread = np.sqrt((short.var(axis=1) + long.var(axis=1)) / 2)
    moved = np.abs(short.mean(axis=1) - long.mean(axis=1))
    # Where a value is known exactly there is no spread to measure by, and nothing may move.
    tolerance = 1e-6 * (np.abs(long.mean(axis=1)) + 1)
    ratio = np.divide(moved, spread, out=np.where(moved > tolerance, np.inf, 0.0), where=spread > tolerance)
    return float(np.sqrt(np.mean(ratio**2)))


def chain_report(model: Process, context: Curves, *, random_state: RandomState = None) -> pd.DataFrame | None:
    """What the samplers of a fitted model say of themselves, prior and posterior, in a table with a sentence each.

    Parameters
    ----------
    model
        A fitted model. One whose samples and posteriors are both exact, or that has no chains, gives None.
    context
        Partly observed curves, of which the first 16 are conditioned on.
    random_state
        Which runs are compared.

    Returns
    -------
    DataFrame or None
        Columns `chain` ("prior" or "posterior"), `quantity`, `value` and `meaning`.
    """
    if not isinstance(model, FEBM):
        return None
    context = context[: min(CURVES, len(context))]
    at = _some_points(model)
    prior_seed, posterior_seed = _seeds(random_state, 2)
    rows = [*_prior_rows(model, at, prior_seed), *_posterior_rows(model, context, at, posterior_seed)]
    return pd.DataFrame(rows, columns=["chain", "quantity", "value", "meaning"]) if rows else None


Row = tuple[str, str, float, str]


def _prior_rows(model: FEBM, at: np.ndarray, random_state: RandomState) -> Iterator[Row]:
    steps = model.chain_steps()
    if steps is None:
        return
    *run_seeds, gap_seed = _seeds(random_state, RUNS + 1)
    runs = np.stack([model.sample(DRAWS, at, random_state=seed).y.reshape(DRAWS, -1) for seed in run_seeds])
    yield from _agreement("prior", convergence(runs), f"{RUNS} runs of {DRAWS} samples")
    told = model.sample_latents(DRAWS, random_state=run_seeds[0]).diagnostics
    if "acceptance" in told:
        yield "prior", "acceptance", told["acceptance"], f"share of the {steps} steps of a chain that are accepted"
    if "effective" in told:
        yield "prior", "effective", told["effective"], "how many of the weighted proposals that chains start from count"
    gap = chain_gap(model, at=at, random_state=gap_seed)
    assert gap is not None
    longer = f"chains of {steps} steps and of {FACTOR * steps}"
    yield "prior", "gap", gap.distance, f"distance between samples by {longer}, in standard deviations"
    yield "prior", "gap_pvalue", gap.pvalue, f"p-value of that distance: small when {longer} give different samples"


def _posterior_rows(model: FEBM, context: Curves, at: np.ndarray, random_state: RandomState) -> Iterator[Row]:
    seed, gap_seed, *run_seeds = _seeds(random_state, RUNS + 2)
    told = model.condition(context, random_state=seed).diagnostics
    method = told["method"].iloc[0]
    worst = {"acceptance": "min", "effective": "min", "rhat": "max", "ess_bulk": "min", "ess_tail": "min"}
    found = {name: float(told[name].agg(end)) for name, end in worst.items() if name in told}
    if method == "exact" and not found:
        return
    of_curves = f"over {len(context)} curves ({method})"
    meanings = {
        "acceptance": f"smallest share of accepted moves {of_curves}",
        "effective": f"smallest number of weighted proposals that count {of_curves}",
        "rhat": f"largest R-hat of the chains {of_curves}; 1 when they agree",
        "ess_bulk": f"smallest effective sample size in the bulk {of_curves}",
        "ess_tail": f"smallest effective sample size in the tails {of_curves}",
    }
    for name, value in found.items():
        yield "posterior", name, value, meanings[name]
    if "rhat" not in found:
        runs = [_functions(model.condition(context, random_state=each), at, DRAWS, each) for each in run_seeds]
        # (runs, curves, draws, values) → every value of every curve is a quantity
        draws = np.moveaxis(np.stack(runs), 2, 1).reshape(RUNS, DRAWS, -1)
        yield from _agreement("posterior", convergence(draws), f"{RUNS} runs {of_curves}")
    moved = posterior_gap(model, context, at=at, random_state=gap_seed)
    yield "posterior", "gap", moved, f"how far {FACTOR} times the work moves posterior means, in standard deviations"


def _agreement(chain: str, found: Convergence, of: str) -> Iterator[Row]:
    yield chain, "rhat", float(found.rhat.max()), f"largest R-hat of function values between {of}; 1 when they agree"
    yield chain, "ess_bulk", float(found.ess_bulk.min()), f"how many independent draws {of} are worth, in the bulk"
    yield chain, "ess_tail", float(found.ess_tail.min()), f"how many independent draws {of} are worth, in the tails"


def _harder(model: FEBM, factor: int) -> FEBM:
    """The same fitted model with `factor` times the work in every posterior."""
    effort = model.effort
    more = dataclasses.replace(
        effort, proposals=factor * effort.proposals, warmup=factor * effort.warmup, particles=factor * effort.particles
    )
    posterior = model.langevin.posterior
    langevin: Langevin = dataclasses.replace(model.langevin, posterior=posterior.with_steps(factor * posterior.steps))
    harder = copy.copy(model)
    harder.effort, harder.langevin = more, langevin
    return harder


def _functions(
    posterior: Posterior, at: np.ndarray, draws: int, random_state: RandomState
) -> Float[np.ndarray, "curves draws values"]:
    return posterior.sample(draws, at, random_state=random_state).y.reshape(len(posterior), draws, -1)


def _some_points(model: FEBM) -> Float[np.ndarray, "points inputs"]:
    """A few of the model's own points, spread over its domain."""
    chosen = np.unique(np.linspace(0, len(model.grid_) - 1, POINTS).round().astype(int))
    return model.grid_[chosen]


def _seeds(random_state: RandomState, count: int) -> list[int]:
    return [int(seed) for seed in numpy_generator(as_key(random_state)).integers(2**31, size=count)]
