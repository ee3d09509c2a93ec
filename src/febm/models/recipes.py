"""The two ways to fit F-EBM: tilting a closed-form base by importance sampling, and the paper's loss by chains."""

import functools
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import PRNGKeyArray

from febm import tilting
from febm.basis import Basis
from febm.conjugate import Mixture
from febm.contrastive import Contrastive
from febm.curves import Curves
from febm.fitting import Fitting
from febm.inference import leading_mixture, log_normaliser
from febm.latent import LatentModel
from febm.likelihoods import Gaussian, StudentT
from febm.models.settings import Plan
from febm.networks import Generator, LinearGenerator, NetworkGenerator, ResidualGenerator, ResidualMLP
from febm.observations import observe, project
from febm.priors import Energy, EnergyPrior, GaussianPrior, Prior, Reference, TiltedPrior
from febm.progress import Progress
from febm.tilting import BaseSearch, Fold
from febm.training import Training

# Folds of cross-validation by number of curves: few curves make a single held-out part too noisy to choose by.
MANY_CURVES = 1000
# Where chains draw the latents, an energy on more coordinates than this is hard to keep in check.
TAME_ENERGY = 10
MLP_LATENT = 20
# Standard deviation of the envelope that makes exp(−E) alone a density; scores have unit variance.
ENVELOPE = 3.0
# Of the spread of the values: with less noise than this, float32 chains lose the curve that they condition on.
SMALLEST_NOISE = 1e-3


class Fitted(NamedTuple):
    """What a recipe makes."""

    basis: Basis
    model: LatentModel
    history: pd.DataFrame


def fit_by_importance(plan: Plan, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitted:
    """Linear generator and Gaussian noise: base by held-out evidence, tilt by importance-sampled likelihood."""
    fold_key, tilt_key = jax.random.split(key)
    basis, folds, splits = fold_basis(plan.basis, curves, plan.validation, plan.latent_dim, fold_key)
    largest = min(plan.latent_dim or basis.rank, basis.rank)
    likelihood = plan.likelihood
    assert isinstance(likelihood, Gaussian)
    fixed = float(likelihood.variance) if likelihood.fixed else None
    choice = tilting.choose_base(folds, _search(plan, largest), fixed)
    projection = project(observe(basis, curves), choice.rank)
    likelihood = likelihood if fixed else likelihood.with_scale(np.sqrt(choice.noise_variance))
    base: Reference = GaussianPrior(choice.rank)
    if plan.has_mixture:
        base = tilting.fit_base(projection, choice)
    prior: Prior = base
    noise = float(np.sqrt(choice.noise_variance))
    history = pd.DataFrame([{"epoch": 0, "score": 0.0, "noise": noise}])
    if plan.prior == "tilted":
        leading = leading_mixture(base) if plan.has_mixture else Mixture.standard_normal(choice.leading)
        prior, history = tilting.fit_tilt(
            base,
            leading,
            projection,
            choice.noise_variance,
            splits[0],
            training=plan.tilt,
            key=tilt_key,
            progress=progress,
            checkpoint=plan.checkpoint,
        )
    model = LatentModel(LinearGenerator(choice.rank, basis.rank), prior, likelihood)
    return Fitted(basis, model, history.assign(base_evidence=choice.evidence))


class Folded(NamedTuple):
    """A basis fitted to all curves, and the folds, with the masks of their held-out curves, that choose on it."""

    basis: Basis
    folds: list[Fold]
    held_out: list[np.ndarray]


def fold_basis(basis: Basis, curves: Curves, validation: float, latent_dim: int | None, key: PRNGKeyArray) -> Folded:
    """Fit the basis to all curves and, for every fold, to those that are not held out of it."""
    basis_key, split_key = jax.random.split(key)
    fitted = basis.fit(curves, key=basis_key)
    largest = min(latent_dim or fitted.rank, fitted.rank)
    splits = held_out_parts(len(curves), validation, split_key)
    folds = [
        _fold(basis, curves, held_out, largest, jax.random.fold_in(basis_key, i)) for i, held_out in enumerate(splits)
    ]
    return Folded(fitted, folds, splits)


def fit_by_chains(plan: Plan, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitting[Fitted]:
    """The paper's loss with chains for posterior and prior."""
    basis_key, split_key, model_key, train_key, constant_key = jax.random.split(key, 5)
    linked = curves.replace(y=plan.likelihood.link(curves.y))
    basis = plan.basis.fit(linked, key=basis_key)
    (held_out, *_) = held_out_parts(len(curves), plan.validation, split_key)
    observed = observe(basis, curves).single_precision()
    model = _start(plan, basis, linked, model_key)
    objective = Contrastive(
        posterior=plan.langevin.posterior,
        prior=plan.langevin.prior,
        precondition=plan.langevin.precondition,
        penalty=plan.langevin.penalty,
    )
    trained = yield Training(
        objective,
        model,
        observed[np.flatnonzero(~held_out)],
        observed[np.flatnonzero(held_out)],
        groups={
            "generator": plan.langevin.generator_group,
            "noise": plan.langevin.noise_group,
            "prior": plan.langevin.prior_group,
        },
        settings=plan.optimisation,
        key=train_key,
        progress=progress,
        watch=_noise,
        checkpoint=plan.checkpoint,
    )
    model = trained.model
    if isinstance(model.prior, EnergyPrior | TiltedPrior):
        constant = log_normaliser(model, plan.effort, constant_key)
        model = LatentModel(model.generator, model.prior.with_log_normaliser(constant), model.likelihood)
    return Fitted(basis, model, trained.history)


def _start(plan: Plan, basis: Basis, curves: Curves, key: PRNGKeyArray) -> LatentModel:
    """The model before training: the path measure itself where the generator is residual."""
    generator_key, energy_key = jax.random.split(key)
    likelihood = plan.likelihood
    network = functools.partial(
        ResidualMLP, width=plan.networks.width, depth=plan.networks.depth, activation=plan.networks.activation
    )
    generator: Generator
    if plan.generator == "mlp":
        latent = plan.latent_dim or MLP_LATENT
        generator = NetworkGenerator(network(latent, basis.rank, key=generator_key))
        noise = 0.5 * np.nanstd(curves.y)  # a network that knows nothing yet leaves most of the spread to the noise
    else:
        latent = min(basis.rank if plan.latent_dim is None else plan.latent_dim, basis.rank)
        generator = LinearGenerator(latent, basis.rank)
        if plan.generator == "residual":
            seen = min(plan.energy_dim or TAME_ENERGY, latent)
            residual = network(seen, seen, zero_last=True, key=generator_key)
            generator = ResidualGenerator(residual, basis.rank, leading=seen, latent_dim=latent)
        noise = _linear_noise(basis, curves, latent)
    if isinstance(likelihood, Gaussian | StudentT) and not likelihood.fixed:
        spread = float(np.nanstd(curves.y)) or 1.0
        likelihood = likelihood.with_scale(max(float(noise), SMALLEST_NOISE * spread))
    base: Reference = GaussianPrior(latent)
    if plan.has_mixture:
        if plan.generator == "mlp":
            raise ValueError("FEBM: a mixture base needs generator='linear' or 'residual', whose latents are scores.")
        base = _mixture_base(plan, basis, curves, latent)
    if plan.prior in ("gaussian", "mixture"):
        return LatentModel(generator, base, likelihood)
    tame = latent if plan.generator == "mlp" or plan.prior == "energy" else TAME_ENERGY
    seen = latent if plan.prior == "energy" else min(plan.energy_dim or tame, latent)
    # The network starts at zero: a tilted model at its base, an energy without one at a wide Gaussian.
    confinement = ENVELOPE**-2 if plan.prior == "energy" else 0.0
    energy = Energy(network(seen, "scalar", zero_last=True, key=energy_key), seen, confinement)
    prior = EnergyPrior(energy, latent, ENVELOPE) if plan.prior == "energy" else TiltedPrior(base, energy)
    return LatentModel(generator, prior, likelihood)


def _linear_noise(basis: Basis, curves: Curves, latent: int) -> float:
    """The noise scale with the largest evidence under the linear model."""
    projection = project(observe(basis, curves), latent)
    fold = Fold(projection, projection)
    variance, _ = tilting.choose_noise([fold], lambda *_: Mixture.standard_normal(1))
    return float(np.sqrt(variance))


def _mixture_base(plan: Plan, basis: Basis, curves: Curves, latent: int) -> Reference:
    """A mixture on the scores that the linear model gives the curves."""
    projection = project(observe(basis, curves), latent)
    fold = Fold(projection, projection)
    search = BaseSearch((latent,), leading=(TAME_ENERGY,), components=(plan.components or 4,))
    return tilting.fit_base(projection, tilting.choose_base([fold], search))


def _search(plan: Plan, largest: int) -> BaseSearch:
    ranks = tilting.ladder(largest) if plan.choose_rank else (largest,)
    leading = (plan.energy_dim,) if plan.energy_dim else BaseSearch.leading
    components = (plan.components,) if plan.components else BaseSearch.components
    return BaseSearch(ranks, leading, components if plan.has_mixture else ())


def held_out_parts(count: int, validation: float, key: PRNGKeyArray) -> list[np.ndarray]:
    """Masks of held-out curves: one of them for many curves, three disjoint ones for few."""
    if count < 5:
        raise ValueError(f"fit: {count} curves are too few to learn a distribution from; give at least 5.")
    order = np.asarray(jax.random.permutation(key, count))
    size = min(max(1, round(validation * count)), count - 3)
    parts = 1 if count >= MANY_CURVES else min(3, count // size)
    return [np.isin(np.arange(count), order[part * size : (part + 1) * size]) for part in range(parts)]


def _fold(basis: Basis, curves: Curves, held_out: np.ndarray, latent: int, key: PRNGKeyArray) -> Fold:
    part = basis.fit(curves[~held_out], key=key)
    rank = min(latent, part.rank)
    fitted, judged = observe(part, curves[~held_out]), observe(part, curves[held_out])
    return Fold(project(fitted, rank), project(judged, rank))


def _noise(model: LatentModel) -> dict[str, float]:
    scale = getattr(model.likelihood, "scale", None)
    return {} if scale is None else {"noise": float(scale)}
