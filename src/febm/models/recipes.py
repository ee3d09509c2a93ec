"""The two ways to fit F-EBM: tilting a closed-form base by importance sampling, and the paper's loss by chains."""

import dataclasses
import functools
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import PRNGKeyArray

from febm import tilting
from febm.base_measure import STARTS, BaseChoice, BaseSearch, as_prior, choose_bases, fit_base
from febm.basis import Basis, Empirical
from febm.basis.enriched import Enriched, Remainder, lowest_orders
from febm.basis_choice import choose_core
from febm.conjugate import Mixture, Projection
from febm.contrastive import Contrastive
from febm.curves import Curves
from febm.fitting import Fitting
from febm.folding import fold_basis, held_out_parts
from febm.gridded import GriddedCurves, are_many
from febm.inference import log_normaliser
from febm.latent import LatentModel
from febm.likelihoods import Gaussian, StudentT
from febm.local_mixture import fit_local
from febm.models.settings import Plan
from febm.networks import (
    Generator,
    LinearGenerator,
    NetworkGenerator,
    ResidualGenerator,
    ResidualMLP,
    RoughGenerator,
)
from febm.observations import Observations, StoredObservations, observe, observe_stored, project_curves
from febm.priors import Energy, EnergyPrior, GaussianPrior, Prior, Reference, TiltedPrior
from febm.progress import Progress
from febm.tails import (
    NEGLIGIBLE_SHARE,
    NOISE_RANGE,
    TAIL_LEADING,
    Fold,
    Tail,
    TailSearch,
    choose_noise,
    choose_tail,
    ladder,
)
from febm.training import Training

# Where chains draw the latents, an energy on more coordinates than this is hard to keep in check.
TAME_ENERGY = 10
MLP_LATENT = 20
# Standard deviation of the envelope that makes exp(−E) alone a density; scores have unit variance.
ENVELOPE = 3.0
# Of the spread of the values: with less noise than this, float32 chains lose the curve that they condition on.
SMALLEST_NOISE = 1e-3
# Cosines of a remainder; more gain little on curves of 200 points. And so many numbers in all curves' ΦᵀΦ.
MOST_COSINES = 128
LARGEST_GRAMS = 1 << 23
# A covariance that the basis has shrunk may be better than what a mixture says of it; held-out curves know. Curves that
# ask for it are rough, and have no components without thickness.
SHRUNK = tuple(BaseSearch.shrinkages[0]._replace(basis=share) for share in (0.7, 0.0))
# Functions of the basis where curves are very many: beyond these is noise.
MOST_COORDINATES = 256
# Of very many curves, so many say what a basis and the first guess of the noise need, and whether training goes well.
ENOUGH_CURVES = 2048


class Fitted(NamedTuple):
    """What a recipe makes."""

    basis: Basis
    model: LatentModel
    history: pd.DataFrame


def fit_by_importance(plan: Plan, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitted:
    """Linear generator and Gaussian noise: base by held-out evidence, tilt by importance-sampled likelihood."""
    fold_key, trial_key, tilt_key = jax.random.split(key, 3)
    progress.message("Held-out curves choose the basis and the base measure.")
    likelihood = plan.likelihood
    assert isinstance(likelihood, Gaussian)
    cosines = _cosines(curves) if plan.enrich else None
    fold = functools.partial(
        fold_basis,
        curves=curves,
        validation=plan.validation,
        latent_dim=plan.latent_dim,
        key=fold_key,
        cosines=cosines,
    )
    search = functools.partial(_search, plan, likelihood, cosines, curves.d_y)
    (core, folds, splits), tail = choose_core(plan.basis, fold, lambda core: search(core).tail)
    choices = choose_bases(folds, search(core), tail)
    basis = _chosen_basis(core, curves, tail)
    projection = project_curves(basis, curves, tail.rank if tail.is_plain else None)
    choice, trial = choices[0], None
    if plan.prior == "tilted":
        tries = [
            tilting.try_tilt(
                _fit_leading(plan, one, projection.take(~splits[0])),
                projection,
                tail.noise_variance,
                splits[0],
                training=plan.tilt,
                key=trial_key,
                progress=progress,
                checkpoint=checkpoint,
            )
            for one, checkpoint in zip(choices, _checkpoints(plan, len(choices)), strict=True)
        ]
        choice, trial = max(zip(choices, tries, strict=True), key=lambda pair: pair[1].evidence)
        progress.message(_chosen(choice, len(tries)))
    leading = _fit_leading(plan, choice, projection)
    generator: Generator = LinearGenerator(projection.rank, basis.rank)
    if leading.roughness is not None:
        generator = RoughGenerator(choice.leading, basis.rank)
    prior: Prior = as_prior(leading, generator.latent_dim) if plan.has_mixture else GaussianPrior(generator.latent_dim)
    history = pd.DataFrame([{"epoch": 0, "score": 0.0, "noise": float(np.sqrt(tail.noise_variance))}])
    if trial is not None:
        tilt = tilting.fit_tilt(
            leading, projection, tail.noise_variance, trial.passes, training=plan.tilt, key=tilt_key
        )
        prior, history = TiltedPrior(prior, *tilt), trial.history
    if not likelihood.fixed:
        likelihood = likelihood.with_scale(np.sqrt(tail.noise_variance))
    model = LatentModel(generator, prior, likelihood, choice.caution)
    return Fitted(basis, model, history.assign(base_evidence=choice.evidence, caution=choice.caution))


def fit_many(plan: Plan, curves: GriddedCurves, key: PRNGKeyArray) -> Fitted:
    """Very many curves on a common grid, seen some at a time: an empirical basis, and a mixture of local Gaussians."""
    basis_key, split_key = jax.random.split(key)
    wanted = Empirical(rank=MOST_COORDINATES) if plan.choose_rank else plan.basis
    basis = wanted.fit(curves, key=basis_key)
    projection = project_curves(basis, curves, plan.latent_dim)
    # The basis of a given kernel knows of no noise, nor of what its functions leave out.
    noise_variance = choose_noise(projection) if basis.noise_variance is None else basis.noise_variance
    noise_variance = noise_variance or NOISE_RANGE[0]
    (gram,) = projection.gram
    scores = np.linalg.solve(gram + noise_variance * np.eye(len(gram)), projection.moment.T).T
    held_out, *_ = held_out_parts(len(curves), plan.validation, split_key)
    sizes = np.sqrt(basis.spectrum[: projection.rank])
    found = fit_local(scores, sizes, held_out, plan.components)
    generator = LinearGenerator(projection.rank, basis.rank)
    likelihood = plan.likelihood
    assert isinstance(likelihood, Gaussian)
    if not likelihood.fixed:
        likelihood = likelihood.with_scale(np.sqrt(noise_variance))
    history = pd.DataFrame([{"epoch": 0, "score": found.evidence, "noise": float(likelihood.scale)}])
    return Fitted(basis, LatentModel(generator, as_prior(found.mixture, generator.latent_dim), likelihood), history)


def _fit_leading(plan: Plan, choice: BaseChoice, projection: Projection) -> Mixture:
    """The base measure of the leading coordinates; of as many components as asked for, where a number is given."""
    if not plan.has_mixture:
        return Mixture.standard_normal(choice.leading)
    return fit_base(projection, choice, starts=1 if plan.components else STARTS)


def _chosen(choice: BaseChoice, tries: int) -> str:
    kind = "a normal" if choice.components == 1 else f"a mixture of {choice.components}"
    more = "" if tries == 1 else f", the best of {tries} that were tilted"
    return f"The base measure is {kind} on {choice.leading} coordinates{more}; all curves now teach its tilt."


def _checkpoints(plan: Plan, count: int) -> list[Path | None]:
    """A file for each of several trainings, the first with the name that was given."""
    first = plan.checkpoint
    return [first and first.with_name(first.name + (f"-{number}" if number else "")) for number in range(count)]


def _chosen_basis(core: Basis, curves: Curves, tail: Tail) -> Basis:
    """The functions of `core` and of the remainder with the weights that the tail gives them."""
    if tail.is_plain:
        return core
    white = None if tail.remainder is None else Remainder.white(tail.remainder.orders)
    unweighted = Enriched(core, np.ones(core.rank), white, curves.d_y)
    weights = tail.weights(project_curves(unweighted, curves), curves.d_y)[: core.rank]
    # Up to the last function that is used all are, if only a little: a basis has no functions of no size.
    weights = np.maximum(weights[: np.flatnonzero(weights)[-1] + 1], np.sqrt(NEGLIGIBLE_SHARE))
    return Enriched(core, weights, tail.remainder, curves.d_y)


def fit_by_chains(plan: Plan, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitting[Fitted]:
    """The paper's loss with chains for posterior and prior."""
    basis_key, split_key, model_key, train_key, constant_key = jax.random.split(key, 5)
    held_out, *_ = held_out_parts(len(curves), plan.validation, split_key)
    some = curves[_enough(~held_out)] if are_many(curves) else curves
    linked = some.replace(y=plan.likelihood.link(some.y))
    basis = plan.basis.fit(linked, key=basis_key)
    model = _start(plan, basis, linked, model_key)
    teaching, judging = _observed_parts(basis, curves, held_out)
    objective = Contrastive(
        posterior=plan.langevin.posterior,
        prior=plan.langevin.prior,
        precondition=plan.langevin.precondition,
        penalty=plan.langevin.penalty,
    )
    trained = yield Training(
        objective,
        model,
        teaching,
        judging,
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


def _observed_parts(
    basis: Basis, curves: Curves, held_out: np.ndarray
) -> tuple[Observations | StoredObservations, Observations]:
    """The curves that teach and those that judge; of very many, the values of a batch are made when it is its turn."""
    if not are_many(curves) or any(curves.censorings):
        observed = observe(basis, curves).single_precision()
        return observed[np.flatnonzero(~held_out)], observed[np.flatnonzero(held_out)]
    judging = _enough(held_out)
    teaching = np.setdiff1d(np.arange(len(curves)), judging)
    return observe_stored(basis, curves[teaching]), observe(basis, curves[judging]).single_precision()


def _enough(mask: np.ndarray) -> np.ndarray:
    """The places of so many of the curves of `mask`, from all over: curves may come sorted by their kind."""
    places = np.flatnonzero(mask)
    return places[np.linspace(0, len(places) - 1, min(ENOUGH_CURVES, len(places))).astype(int)]


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
    return float(np.sqrt(choose_noise(project_curves(basis, curves, latent))))


def _mixture_base(plan: Plan, basis: Basis, curves: Curves, latent: int) -> Reference:
    """A mixture on the scores that the linear model gives the curves."""
    projection = project_curves(basis, curves, latent)
    fold = Fold(projection, projection)
    search = BaseSearch(TailSearch((latent,)), leading=(TAME_ENERGY,), components=(plan.components or 4,))
    choice, *_ = choose_bases([fold], search, choose_tail([fold], search.tail))
    return as_prior(fit_base(projection, choice, starts=1), latent)


def _search(plan: Plan, likelihood: Gaussian, cosines: np.ndarray | None, outputs: int, core: Basis) -> BaseSearch:
    largest = min(plan.latent_dim or core.rank, core.rank)
    tail = TailSearch(
        ranks=ladder(largest) if plan.choose_rank else (largest,),
        noise_variance=float(likelihood.variance) if likelihood.fixed else None,
        cosines=cosines,
        outputs=outputs,
        roughness=cosines is not None and not likelihood.fixed,
    )
    if plan.energy_dim:
        tail = dataclasses.replace(tail, protected=max(plan.energy_dim, TAIL_LEADING))
    return BaseSearch(
        tail,
        leading=(plan.energy_dim,) if plan.energy_dim else BaseSearch.leading,
        components=() if not plan.has_mixture else (plan.components,) if plan.components else BaseSearch.components,
        shrinkages=SHRUNK if isinstance(core, Empirical) and core.is_shrunk else BaseSearch.shrinkages,
    )


def _cosines(curves: Curves) -> np.ndarray:
    """Orders of the cosines of a remainder: no more than a curve has points, nor than memory has room for."""
    designs = len(curves) if curves.common_points is None else 1
    affordable = int(np.sqrt(LARGEST_GRAMS / designs)) // curves.d_y
    count = max(1, min(MOST_COSINES, int(curves.lengths.max()), affordable))
    return lowest_orders(count, curves.d_x)


def _noise(model: LatentModel) -> dict[str, float]:
    scale = getattr(model.likelihood, "scale", None)
    return {} if scale is None else {"noise": float(scale)}
