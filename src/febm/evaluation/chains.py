"""Can the sampler be trusted? Agreement of independent runs, acceptance, and what ten times the work would change.

Draws of a sampler are right when another run gives the same distribution (R-hat near 1), when they are worth many
independent ones (effective sample sizes), and when longer chains do not move them (the gap). All three are judged on
function values, so they mean the same for every model.

Only the gap speaks of the length of chains. The samples of a run are the ends of as many parallel chains, and weighted
proposals are drawn one by one: R-hat between runs sees that a run went elsewhere, but runs of chains that are all too
short agree with each other, and their draws count in full. R-hat along chains is given where the posterior keeps whole
chains ("mala", "nuts"), and `chain_report` says so.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from febm.checks import as_numbers, count, whole_number
from febm.curves import Curves
from febm.door import as_curves
from febm.errors import NotFittedError
from febm.evaluation.second_opinions import sliced_wasserstein
from febm.libraries import blackjax
from febm.models.base import Process
from febm.models.febm import FEBM
from febm.models.settings import Langevin
from febm.randomness import RandomState, as_key, numpy_generator

RUNS = 4  # independent runs of a sampler that are compared
DRAWS = 512  # functions of each run: R-hat of so many independent draws stays below 1.01 for hundreds of quantities
FACTOR = 10  # how much longer the long chains are
CURVES = 16  # conditioned curves that are looked at
POINTS = 25  # points at which functions are compared
QUANTITIES_AT_ONCE = 64
# A value is known exactly where its spread is below this share of that of all curves and points: latents have 32 bits.
KNOWN = 1e-6


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
    draws = as_numbers(draws, "convergence: draws")
    if draws.ndim != 3 or draws.shape[0] < 2 or draws.shape[1] < 4 or not draws.shape[2]:
        raise ValueError(
            f"convergence: draws have shape {draws.shape}; give (chains, draws, quantities) with at least two chains "
            "of four draws of one quantity."
        )
    bad = int(np.sum(~np.isfinite(draws)))
    if bad:
        raise ValueError(
            f"convergence: {count(bad, 'draw')} of {draws.size:,} are NaN or infinite; a sampler that gives such draws "
            "has failed, and a quantity that has no value must be left out."
        )
    away, reach = _centred(draws)
    constant = reach == 0
    total = float(draws.shape[0] * draws.shape[1])
    found = Convergence(*(np.full(draws.shape[2], value) for value in (1.0, total, total)))
    if not constant.all():
        scaled = away[..., ~constant] / reach[~constant]
        for values, statistic in zip(found, _in_blocks(scaled), strict=True):
            values[~constant] = statistic
    return found


def _in_blocks(draws: Float[np.ndarray, "chains draws quantities"]) -> Float[np.ndarray, "statistics quantities"]:
    """The statistics of some quantities at a time: one compiled program does for any number of them."""
    quantities = draws.shape[2]
    padded = np.pad(draws, ((0, 0), (0, 0), (0, -quantities % QUANTITIES_AT_ONCE)), mode="edge")
    blocks = np.split(padded, padded.shape[2] // QUANTITIES_AT_ONCE, axis=2)
    shape = (-1, QUANTITIES_AT_ONCE)
    found = [np.stack([np.asarray(each, dtype=float) for each in _statistics(jnp.asarray(block))]) for block in blocks]
    return np.concatenate([block.reshape(shape) for block in found], axis=1)[:, :quantities]


def _centred(
    draws: Float[np.ndarray, "chains draws quantities"],
) -> tuple[Float[np.ndarray, "chains draws quantities"], Float[np.ndarray, " quantities"]]:
    """Half the distances from each quantity's median, and the largest of them.

    The statistics are of ranks, also of distances from the median, so that neither level nor unit matters to them; but
    32 bits hold no small spread about a large level. Half, so that the largest numbers there are do not overflow.
    """
    away = draws / 2
    away -= np.median(away, axis=(0, 1))
    return away, np.abs(away).max(axis=(0, 1))


@jax.jit
def _statistics(draws: Float[Array, "chains draws quantities"]) -> tuple[Array, Array, Array]:
    axes = dict(chain_axis=0, sample_axis=1)
    return blackjax.rhat(draws, **axes), blackjax.ess_bulk(draws, **axes), blackjax.ess_tail(draws, **axes)


def chain_gap(
    model: FEBM, *, n: int = DRAWS, factor: int = FACTOR, at: Any = None, random_state: RandomState = None
) -> Gap | None:
    """Compare `n` samples with `n` drawn by chains `factor` times longer; None where samples are drawn exactly."""
    _require_febm(model, "chain_gap")
    n, factor = whole_number("chain_gap: n", n, least=2), whole_number("chain_gap: factor", factor, least=2)
    steps = model.chain_steps()
    if steps is None:
        return None
    short_seed, long_seed, test_seed = _seeds(random_state, 3)
    short = model.sample(n, at, random_state=short_seed)
    long = model.sample(n, at, steps=factor * steps, random_state=long_seed)
    found = sliced_wasserstein(short, long, random_state=test_seed)
    return Gap(found.distance, found.pvalue)


def posterior_gap(
    model: FEBM, context: Any, *, factor: int = FACTOR, at: Any, random_state: RandomState = None
) -> float:
    """How far `factor` times the work moves posterior means: root mean square, in posterior standard deviations.

    Means of 512 draws differ by chance, by √(2/512) standard deviations where draws are independent. That is taken off,
    so that the gap of a posterior that more work does not move is about 0, and at most about 0.1. Draws of chains that
    move slowly differ by more, and this is then part of the gap.
    """
    _require_febm(model, "posterior_gap")
    factor = whole_number("posterior_gap: factor", factor, least=2)
    context = as_curves(context, "posterior_gap: context", like=model.grid_)
    short_seed, long_seed = _seeds(random_state, 2)
    short = _functions(model, context, at, short_seed)
    long = _functions(work_harder(model, factor), context, at, long_seed)
    return moved_means(short, long)


def moved_means(
    short: Float[np.ndarray, "curves draws points outputs"], long: Float[np.ndarray, "curves draws points outputs"]
) -> float:
    """The root mean square of (mean of `long` − mean of `short`)/spread over curves, points and outputs.

    E (difference/spread)² = (true difference/spread)² + 2/draws for independent draws, and 2/draws is taken off.
    """
    spread = np.sqrt((short.var(axis=1) + long.var(axis=1)) / 2)
    moved = np.abs(short.mean(axis=1) - long.mean(axis=1))
    # Where a value is known exactly there is no spread to measure by, and nothing may move, but by rounding.
    rounding = 8 * np.finfo(float).eps * np.abs(long).max()
    tolerance = KNOWN * long.std(axis=(0, 1, 2)) + rounding
    known = spread <= tolerance
    chance = 2 / long.shape[1]
    squares = np.where(moved > tolerance, np.inf, 0.0)
    squares[~known] = (moved[~known] / spread[~known]) ** 2 - chance
    return math.sqrt(max(float(np.mean(squares)), 0.0))


def chain_report(model: Process, context: Any, *, random_state: RandomState = None) -> pd.DataFrame | None:
    """What the samplers of a fitted model say of themselves, prior and posterior, in a table with a sentence each.

    Parameters
    ----------
    model
        A fitted model. One whose samples and posteriors are both exact, or that has no chains, gives None.
    context
        Partly observed curves, of which the first 16 are conditioned on; an array is read on the model's own grid.
    random_state
        Which runs are compared.

    Returns
    -------
    DataFrame or None
        Columns `chain` ("prior" or "posterior"), `quantity`, `value` and `meaning`.
    """
    _require_fitted(model, "chain_report")
    context = as_curves(context, "chain_report: context", like=getattr(model, "grid_", None))
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
        "rhat": f"largest R-hat along the chains {of_curves}; 1 when they agree",
        "ess_bulk": f"smallest effective sample size along the chains, in the bulk {of_curves}",
        "ess_tail": f"smallest effective sample size along the chains, in the tails {of_curves}",
    }
    for name, value in found.items():
        yield "posterior", name, value, meanings[name]
    if "rhat" not in found:
        runs = [_functions(model, context, at, each) for each in run_seeds]
        # (runs, curves, draws, points, outputs) → every value of every curve is a quantity
        draws = np.moveaxis(np.stack(runs), 2, 1).reshape(RUNS, DRAWS, -1)
        yield from _agreement("posterior", convergence(draws), f"{RUNS} runs {of_curves}")
    moved = posterior_gap(model, context, at=at, random_state=gap_seed)
    more = f"how far {FACTOR} times the work moves posterior means, in standard deviations, less what is chance"
    yield "posterior", "gap", moved, more


def _agreement(chain: str, found: Convergence, of: str) -> Iterator[Row]:
    blind = "it compares independent runs, and only the gap speaks of the length of chains"
    agree = f"largest R-hat of function values between {of}; 1 when they agree: {blind}"
    worth = f"how many independent draws {of} are worth where chains are long enough"
    yield chain, "rhat", float(found.rhat.max()), agree
    yield chain, "ess_bulk", float(found.ess_bulk.min()), f"{worth}, in the bulk"
    yield chain, "ess_tail", float(found.ess_tail.min()), f"{worth}, in the tails"


def work_harder(model: FEBM, factor: float) -> FEBM:
    """The same fitted model with `factor` times the work in every posterior."""
    more = {name: round(factor * getattr(model.effort, name)) for name in ("proposals", "warmup", "particles")}
    posterior = model.langevin.posterior
    longer = posterior.with_steps(round(factor * posterior.steps))
    langevin: Langevin = dataclasses.replace(model.langevin, posterior=longer)
    harder = copy.copy(model)
    harder.effort, harder.langevin = dataclasses.replace(model.effort, **more), langevin
    return harder


def _functions(
    model: FEBM, context: Curves, at: Any, random_state: RandomState
) -> Float[np.ndarray, "curves draws points outputs"]:
    """`DRAWS` functions of every posterior; what is drawn and which draws are taken have seeds of their own."""
    if isinstance(at, Curves) and len(set(at.lengths)) > 1:
        raise ValueError("posterior_gap: the curves of `at` have different numbers of points; give as many for each.")
    condition_seed, sample_seed = _seeds(random_state, 2)
    drawn = model.condition(context, random_state=condition_seed).sample(DRAWS, at, random_state=sample_seed)
    return drawn.y.reshape(len(context), DRAWS, -1, drawn.d_y)


def _require_fitted(model: Any, owner: str) -> None:
    if isinstance(model, type) or not callable(getattr(model, "condition", None)):
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"{owner}: model must be a fitted model such as febm.FEBM; got {what}.")
    if hasattr(model, "__sklearn_is_fitted__") and not model.__sklearn_is_fitted__():
        raise NotFittedError(f"{owner}: this {type(model).__name__} is not fitted yet; call `fit(curves)` first.")


def _require_febm(model: Any, owner: str) -> None:
    _require_fitted(model, owner)
    if not isinstance(model, FEBM):
        raise TypeError(f"{owner}: {type(model).__name__} has no chains that can be made longer; give a fitted FEBM.")


def _some_points(model: FEBM) -> Float[np.ndarray, "points inputs"]:
    """A few of the model's own points, spread over its domain."""
    chosen = np.unique(np.linspace(0, len(model.grid_) - 1, POINTS).round().astype(int))
    return model.grid_[chosen]


def _seeds(random_state: RandomState, count: int) -> list[int]:
    return [int(seed) for seed in numpy_generator(as_key(random_state)).integers(2**31, size=count)]
