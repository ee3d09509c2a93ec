"""Path measure tilting in closed form: a mixture base chosen by held-out evidence, tilted by an energy.

The base measure and the noise have an exact evidence, so the number of components, the leading coordinates and the
noise variance are chosen by what held-out curves say; the tilt is then learned by importance-sampled likelihood.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.optimize
from jaxtyping import PRNGKeyArray

from febm import conjugate
from febm.conjugate import Mixture, Projection
from febm.importance import ScoreDraws, TiltLikelihood
from febm.mixture import Shrinkage, fit_mixture
from febm.networks import ResidualMLP
from febm.priors import Energy, MixturePrior, Reference, TiltedPrior
from febm.progress import Progress
from febm.randomness import numpy_generator
from febm.training import Group, Optimisation, train

# Outputs have unit variance: less noise than this is below what float64 algebra on them can tell from none.
NOISE_RANGE = (1e-8, 1.0)


class Fold(NamedTuple):
    """Curves that fit a base measure, and curves that judge it, on a basis that has not seen the latter."""

    fitted: Projection
    held_out: Projection


@dataclasses.dataclass(frozen=True)
class BaseSearch:
    """The base measures that are tried; a single value in a tuple fixes it."""

    leading: tuple[int, ...] = (6, 10, 16)
    components: tuple[int, ...] = (1, 2, 4, 8, 16)
    shrinkages: tuple[Shrinkage, ...] = (Shrinkage(10.0, 1e-2), Shrinkage(10.0, 1e-4))


class BaseChoice(NamedTuple):
    """The base measure that held-out curves prefer, and by how much."""

    noise_variance: float
    leading: int
    components: int
    shrinkage: Shrinkage
    evidence: float  # held-out nats per curve
    gaussian_evidence: float  # the same for one standard normal component


@dataclasses.dataclass(frozen=True)
class TiltTraining:
    """The energy network and how it is trained."""

    width: int = 64
    depth: int = 3
    activation: str = "silu"
    steps: int = 2000
    patience: int = 250
    posterior_draws: int = 16
    proposals: int = 4096
    group: Group = Group(rate=1e-3, factor=0.5, minimum=1e-5, weight_decay=1e-2)


def choose_noise(
    folds: Sequence[Fold], prior: Callable[[Projection, float], Mixture], start: float | None = None
) -> float:
    """The noise variance with the largest held-out evidence."""

    def loss(log_variance: float) -> float:
        variance = float(np.exp(log_variance))
        return -_mean_evidence(folds, lambda fold: (prior(fold.fitted, variance), variance))

    low, high = np.log(NOISE_RANGE) if start is None else np.log(start) + np.array([-2.0, 2.0])
    grid = np.linspace(low, high, 9)
    values = [loss(value) for value in grid]
    best = int(np.argmin(values))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = scipy.optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.05})
    best_value = found.x if found.fun < values[best] else grid[best]
    return float(np.clip(np.exp(best_value), *NOISE_RANGE))


def choose_base(folds: Sequence[Fold], search: BaseSearch, noise_variance: float | None = None) -> BaseChoice:
    """Choose noise, leading coordinates and components by held-out evidence; `noise_variance` fixes the noise."""
    rank = min(fold.fitted.rank for fold in folds)
    smallest = min(len(fold.fitted.size) for fold in folds)
    standard = lambda fitted, variance: Mixture.standard_normal(min(rank, search.leading[0]))  # noqa: E731
    variance = choose_noise(folds, standard) if noise_variance is None else noise_variance
    gaussian = _mean_evidence(folds, lambda fold: (standard(fold.fitted, variance), variance))
    choices = []
    for leading in sorted({min(rank, wanted) for wanted in search.leading}):
        observed = [conjugate.information(fold.fitted, variance, leading) for fold in folds]
        judged = [conjugate.information(fold.held_out, variance, leading) for fold in folds]
        for components, shrinkage in itertools.product(search.components, search.shrinkages):
            # A component needs several curves to have a covariance of its own.
            if components > 1 and components * 5 > smallest:
                continue
            evidence = [
                conjugate.condition(fit_mixture(fitted, components, shrinkage=shrinkage), held_out).log_evidence
                for fitted, held_out in zip(observed, judged, strict=True)
            ]
            score = float(np.mean(np.concatenate(evidence)))
            choices.append(BaseChoice(variance, leading, components, shrinkage, score, gaussian))
    best = max(choices, key=lambda choice: choice.evidence)
    if noise_variance is None:
        variance = choose_noise(folds, lambda fitted, value: _fit(fitted, value, best), start=variance)
        refined = _mean_evidence(folds, lambda fold: (_fit(fold.fitted, variance, best), variance))
        if refined > best.evidence:
            best = best._replace(noise_variance=variance, evidence=refined)
    return best


def fit_base(projection: Projection, choice: BaseChoice) -> MixturePrior:
    """The chosen base measure, fitted to all curves."""
    return as_prior(_fit(projection, choice.noise_variance, choice), projection.rank)


def as_prior(mixture: Mixture, dim: int) -> MixturePrior:
    """A mixture on the leading coordinates as the prior of a latent of length `dim`."""
    return MixturePrior(mixture.log_weights, mixture.means, mixture.factors, dim)


def fit_tilt(
    base: Reference,
    leading: Mixture,
    projection: Projection,
    noise_variance: float,
    held_out: np.ndarray,
    *,
    training: TiltTraining,
    key: PRNGKeyArray,
    progress: Progress,
) -> tuple[TiltedPrior, pd.DataFrame]:
    """Tilt `base`, whose leading coordinates are `leading`; `held_out` marks the curves that stop the training."""
    network_key, draw_key, train_key, constant_key = jax.random.split(key, 4)
    information = conjugate.information(projection, noise_variance, leading.leading)
    posterior = conjugate.condition(leading, information)
    draws = conjugate.draw_leading(posterior, training.posterior_draws, numpy_generator(draw_key))
    scores = jnp.asarray(draws, jnp.float32)
    network = ResidualMLP(
        leading.leading,
        "scalar",
        width=training.width,
        depth=training.depth,
        activation=training.activation,
        zero_last=True,
        key=network_key,
    )
    objective = TiltLikelihood(as_prior(leading, leading.leading), training.proposals)
    batches = max(1, -(-int(np.sum(~held_out)) // Optimisation.batch_size))
    settings = Optimisation(
        epochs=-(-training.steps // batches),
        patience=-(-training.patience // batches),
        plateau=-(-training.patience // (4 * batches)),
    )
    trained = train(
        objective,
        Energy(network, leading.leading),
        ScoreDraws(scores[~held_out]),
        ScoreDraws(scores[held_out]),
        groups={"prior": training.group},
        settings=settings,
        key=train_key,
        progress=progress,
    )
    constant = eqx.filter_jit(objective.log_normaliser)
    log_normaliser, _ = constant(trained.model, constant_key, 32 * training.proposals)
    return TiltedPrior(base, trained.model, log_normaliser), trained.history


def _fit(projection: Projection, noise_variance: float, choice: BaseChoice) -> Mixture:
    observed = conjugate.information(projection, noise_variance, choice.leading)
    return fit_mixture(observed, choice.components, shrinkage=choice.shrinkage)


def _mean_evidence(folds: Sequence[Fold], model: Callable[[Fold], tuple[Mixture, float]]) -> float:
    """Held-out evidence in nats per curve, over all folds."""
    evidence = []
    for fold in folds:
        mixture, variance = model(fold)
        observed = conjugate.information(fold.held_out, variance, mixture.leading)
        evidence.append(conjugate.condition(mixture, observed).log_evidence)
    return float(np.mean(np.concatenate(evidence)))
