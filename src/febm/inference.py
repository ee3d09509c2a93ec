"""Posteriors over the latent space: exact where the model is linear, otherwise `langevin | mala | nuts | smc`.

`auto` takes the exact base posterior, corrected for the tilt by importance weights, where the base conditions in closed
form, and tempered sequential Monte Carlo elsewhere: both find every mode of a posterior.
"""

import dataclasses
import warnings
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from febm import conjugate, samplers
from febm.condensing import condense_rough, inform, leading_mixture
from febm.contrastive import Contrastive, linear_geometry
from febm.langevin import Affine, Chain
from febm.latent import LatentModel
from febm.libraries import blackjax
from febm.networks import RoughGenerator
from febm.observations import Observations
from febm.priors import Energy, Prior, Reference, TiltedPrior
from febm.randomness import alike_generator, numpy_generator

Method = Literal["auto", "exact", "langevin", "mala", "nuts", "smc", "importance"]
# Importance sampling around modes needs an encoder to begin with; see `febm.amortised`.
METHODS: tuple[str, ...] = get_args(Method)[:-1]
# Importance proposals are held in memory for so many curves together.
CURVES_AT_ONCE = 256
# Numbers in the systems of all components and all sets of observed points: beyond these a curve is conditioned by
# itself, and on its most likely components only.
LARGEST_SYSTEMS, LIKELY_COMPONENTS = 1 << 26, 12
# Weighted proposals behind draws of a tilted prior. Few of them keep a weight, and fewer than the draws would make
# copies of some; a chain moves copies apart, but not from one mode to another. So many at a time stay in a cache.
LEAST_PROPOSALS, PROPOSALS_PER_DRAW, PROPOSALS_AT_ONCE = 1 << 17, 128, 1 << 12


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much work goes into a posterior."""

    draws: int = 512
    proposals: int = 2048  # importance proposals per curve
    chains: int = 4
    warmup: int = 300
    particles: int = 256
    moves: int = 3
    rungs: int = 100

    def with_draws(self, draws: int) -> "Effort":
        """The same effort for at least `draws` draws."""
        proposals, particles = max(self.proposals, 4 * draws), max(self.particles, draws)
        return dataclasses.replace(self, draws=draws, proposals=proposals, particles=particles)


class LatentPosterior(NamedTuple):
    """Equally weighted draws of the latents of every curve."""

    draws: Float[ndarray, "curves draws latent"]
    mean: Float[ndarray, "curves latent"]  # where functions are linear in it, the latent of the mean function
    log_evidence: Float[ndarray, " curves"] | None
    diagnostics: dict[str, Float[ndarray, " curves"]]
    chains: int = 1  # the draws of a curve come chain after chain


class PriorDraws(NamedTuple):
    """Latents drawn from the prior, and what the sampler says of them: nothing where it is exact."""

    draws: Float[ndarray, "draws latent"]
    diagnostics: dict[str, float]


def infer(
    model: LatentModel,
    observed: Observations,
    *,
    method: Method,
    effort: Effort,
    chain: Chain,
    precondition: bool = True,
    key: PRNGKeyArray,
) -> LatentPosterior:
    """The posterior of every observed curve; `observed` comes in float64."""
    method = settle(method, model)
    if method == "exact":
        return exact(model, observed, effort=effort, key=key)
    if not isinstance(model.generator, RoughGenerator):
        return _sampled(model, observed.single_precision(), method, effort, chain, precondition, key)
    # Given its leading latents and roughness everything about a curve is Gaussian: chains run on those alone.
    condensed = condense_rough(model, observed)
    found = _sampled(condensed.model, condensed.observed, method, effort, chain, precondition, key)
    log_evidence = None if found.log_evidence is None else found.log_evidence + condensed.constant
    draws = condensed.complete(found.draws, numpy_generator(jax.random.fold_in(key, 1)))
    mean = _mean_latent(condensed.information, found.mean[:, :-1], rough=True)
    return found._replace(draws=draws, mean=mean, log_evidence=log_evidence)


def _sampled(
    model: LatentModel,
    single: Observations,
    method: Method,
    effort: Effort,
    chain: Chain,
    precondition: bool,
    key: PRNGKeyArray,
) -> LatentPosterior:
    """The posterior by chains or particles, in single precision."""
    keys = jax.random.split(key, len(single))
    if method == "smc":
        particles = _smc(model, single, effort, keys)
        log_evidence = np.asarray(particles.log_constant - model.prior.log_normaliser, dtype=float)
        unfinished = int(np.sum(particles.temperature < 1))
        if unfinished:
            warnings.warn(
                f"tempering stopped before its end for {unfinished} of {len(single)} curves (`temperature` in the "
                "diagnostics is below 1); allow more `rungs` in Effort.",
                stacklevel=4,
            )
        diagnostics = {
            "acceptance": particles.acceptance,
            "rungs": particles.rungs,
            "temperature": particles.temperature,
        }
        return collect(particles.draws, log_evidence, diagnostics)
    if method == "langevin":
        objective = Contrastive(posterior=chain, prior=chain, precondition=precondition)
        draws, acceptance = _langevin(objective, model, single, effort, key)
        return collect(draws, None, {"acceptance": acceptance})
    sampled = _chains(model, single, effort, keys, method)
    diagnostics = {"acceptance": sampled.acceptance, **convergence(sampled.draws)}
    draws = sampled.draws.reshape(len(single), -1, sampled.draws.shape[-1])
    return collect(draws, None, diagnostics)._replace(chains=effort.chains)


def settle(method: Method, model: LatentModel) -> Method:
    """What "auto" means for `model`: exact where its base conditions in closed form, else tempering."""
    if method == "exact" and not model.is_conjugate:
        raise ValueError(
            "inference='exact' needs generator='linear', likelihood='gaussian' and a Gaussian or mixture base; "
            "use inference='auto'."
        )
    return ("exact" if model.is_conjugate else "smc") if method == "auto" else method


def exact(
    model: LatentModel, observed: Observations, *, effort: Effort, key: PRNGKeyArray, alike: bool = False
) -> LatentPosterior:
    """The closed-form posterior of the base measure, corrected for the tilt by importance weights.

    With `alike`, every curve has the same random numbers, and does not depend on those beside it.
    """
    mixture = leading_mixture(model)
    generator_of = alike_generator if alike else numpy_generator
    at_once = min(CURVES_AT_ONCE, max(1, LARGEST_SYSTEMS // mixture.factors.size)) if alike else CURVES_AT_ONCE
    parts = []
    for first in range(0, len(observed), at_once):
        information = inform(model, observed[first : first + at_once], mixture.leading)
        own_key = jax.random.fold_in(key, 0 if alike else first)
        if len(information.precision) * mixture.factors.size <= LARGEST_SYSTEMS:
            parts.append(_exact(model, mixture, information, effort, generator_of(own_key)))
        else:
            within = mixture.within
            for curve in range(len(information.design)):
                one = information.only(curve)
                few = mixture.take(conjugate.most_likely(mixture, within, one, LIKELY_COMPONENTS))
                parts.append(_exact(model, few, one, effort, generator_of(jax.random.fold_in(own_key, curve))))
    return LatentPosterior(
        np.concatenate([part.draws for part in parts]),
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.log_evidence for part in parts if part.log_evidence is not None]),
        {name: np.concatenate([part.diagnostics[name] for part in parts]) for name in parts[0].diagnostics},
    )


def _exact(
    model: LatentModel,
    mixture: conjugate.Mixture,
    information: conjugate.Information,
    effort: Effort,
    generator: np.random.Generator,
) -> LatentPosterior:
    posterior = conjugate.condition(mixture, information)
    mean = conjugate.posterior_mean(posterior, information)
    log_evidence = posterior.log_evidence
    diagnostics = {}
    if isinstance(model.prior, TiltedPrior):
        proposals = conjugate.draw_leading(posterior, effort.proposals, generator)
        log_weights = -_energies(model.prior.energy, proposals)
        total = scipy.special.logsumexp(log_weights, axis=1)
        weights = np.exp(log_weights - total[:, None])
        diagnostics = {"effective": 1 / np.sum(weights**2, axis=1)}
        chosen = systematic(weights, effort.draws, generator)
        leading = np.take_along_axis(proposals, chosen[..., None], axis=1)
        # The mean of the base is known exactly, so only its change under the weights is estimated.
        shift = np.einsum("cs,csl->cl", weights - 1 / effort.proposals, proposals[..., : mixture.leading])
        mean[:, : mixture.leading] += shift
        log_evidence = log_evidence + total - np.log(effort.proposals) - float(model.prior.log_normaliser)
    else:
        leading = conjugate.draw_leading(posterior, effort.draws, generator)
    mean = mean[:, : mixture.leading]
    _widen(leading[..., : mixture.leading], mean, conjugate.growth(posterior.known, model.caution))
    draws = conjugate.complete_draws(information, leading, generator)
    mean = _mean_latent(information, mean, posterior.is_rough)
    return LatentPosterior(draws, mean, log_evidence, diagnostics)


def _widen(
    draws: Float[ndarray, "curves draws leading"],
    mean: Float[ndarray, "curves leading"],
    growth: Float[ndarray, " curves"],
) -> None:
    """Multiply the variances about the mean, in place."""
    draws -= mean[:, None]
    draws *= np.sqrt(growth)[:, None, None]
    draws += mean[:, None]


def _mean_latent(
    information: conjugate.Information, leading: Float[ndarray, "curves leading"], rough: bool
) -> Float[ndarray, "curves latent"]:
    """The latent of the mean function: the mean leading coordinates, roughness 1 where there is one, the mean tail."""
    roughness = np.zeros((len(leading), int(rough)))
    return np.concatenate([leading, roughness, conjugate.tail_mean(information, leading)], axis=1)


def draw_prior(prior: Prior, count: int, *, steps: int, key: PRNGKeyArray) -> PriorDraws:
    """Draws of the prior: exact for a reference measure, else weighted proposals and Metropolis-corrected steps.

    Coordinates behind the entangled ones are drawn exactly: chains that need not move them take longer steps. The
    diagnostics are the `acceptance` of the steps, and `effective`, how many proposals the weights leave.
    """
    if isinstance(prior, Reference):
        return PriorDraws(np.asarray(prior.sample(key, count), dtype=float), {})
    propose_key, choose_key, move_key, rest_key = jax.random.split(key, 4)
    leading = prior.leading_part(prior.entangled)
    blocks = -(-max(LEAST_PROPOSALS, PROPOSALS_PER_DRAW * count) // PROPOSALS_AT_ONCE)
    candidates, log_weights = (np.asarray(part) for part in _propose(leading, blocks, propose_key))
    weights = scipy.special.softmax(log_weights.astype(float))
    chosen = numpy_generator(choose_key).choice(len(weights), count, p=weights)
    draws, acceptance = _move(leading, candidates[chosen], candidates.std(axis=0), steps, move_key)
    rest = numpy_generator(rest_key).standard_normal((count, prior.dim - leading.dim))
    effective = 1 / np.sum(weights**2)
    return PriorDraws(
        np.concatenate([draws, rest], axis=1, dtype=float),
        {"acceptance": float(acceptance), "effective": float(effective)},
    )


def log_normaliser(model: LatentModel, effort: Effort, key: PRNGKeyArray) -> Float[Array, ""]:
    """log ∫ exp(log_density) of the model's prior, by tempering from its reference measure."""
    if isinstance(model.prior, Reference):
        return jnp.zeros(())
    return _prior_constant(model.prior, effort, key)


@eqx.filter_jit
def _propose(prior: Prior, blocks: int, key: PRNGKeyArray) -> tuple[Float[Array, "some dim"], Float[Array, " some"]]:
    """Draws of the reference, some at a time, with the logarithms of their weights."""

    def block(key):
        drawn = prior.reference.sample(key, PROPOSALS_AT_ONCE)
        return drawn, jax.vmap(prior.log_tilt)(drawn)

    drawn, log_weights = jax.lax.map(block, jax.random.split(key, blocks))
    return drawn.reshape(-1, prior.dim), log_weights.reshape(-1)


@eqx.filter_jit
def _move(
    prior: Prior, start: Float[ndarray, "count dim"], spread: Float[ndarray, " dim"], steps: int, key: PRNGKeyArray
) -> tuple[Float[Array, "count dim"], Float[Array, ""]]:
    """Metropolis-corrected steps in the geometry of `spread`; the size adapts to the acceptance over the first half."""
    target = lambda u: prior.log_density(spread * u)  # noqa: E731
    kernel = jax.vmap(blackjax.mala.build_kernel(), (0, 0, None, None))

    def move(carry, inputs):
        states, log_size = carry
        step, step_key = inputs
        states, info = kernel(jax.random.split(step_key, len(start)), states, target, jnp.exp(log_size))
        acceptance = jnp.mean(info.acceptance_rate)
        change = jnp.where(step < steps // 2, acceptance - samplers.MALA_ACCEPTANCE, 0.0)
        return (states, log_size + change), acceptance

    states = jax.vmap(lambda u: blackjax.mala.init(u, target))(start / spread)
    inputs = jnp.arange(steps), jax.random.split(key, steps)
    (states, _), acceptance = jax.lax.scan(move, (states, jnp.log(0.05)), inputs)
    return spread * states.position, jnp.mean(acceptance[steps // 2 :])


@eqx.filter_jit
def _prior_constant(prior: Prior, effort: Effort, key: PRNGKeyArray) -> Float[Array, ""]:
    start_key, key = jax.random.split(key)
    start = prior.reference.sample(start_key, 4 * effort.particles)
    found = samplers.tempered(
        prior.reference.log_density, prior.log_tilt, start, moves=effort.moves, rungs=effort.rungs, key=key
    )
    return found.log_constant


@eqx.filter_jit
def _smc(model: LatentModel, observed: Observations, effort: Effort, keys: PRNGKeyArray) -> samplers.Particles:
    reference = model.prior.reference

    def one(curve, key):
        start_key, key = jax.random.split(key)
        start = reference.sample(start_key, effort.particles)
        log_ratio = lambda z: model.log_likelihood(z, curve) + model.prior.log_tilt(z)  # noqa: E731
        return samplers.tempered(
            reference.log_density, log_ratio, start, moves=effort.moves, rungs=effort.rungs, key=key
        )

    return observed.each(one, keys)


@eqx.filter_jit
def _langevin(
    objective: Contrastive, model: LatentModel, observed: Observations, effort: Effort, key: PRNGKeyArray
) -> tuple[Float[Array, "curves draws latent"], Float[Array, " curves"]]:
    keys = jax.random.split(key, effort.draws)
    draws, info = jax.lax.map(lambda draw: objective.posterior_draws(model, observed, draw), keys)
    return jnp.swapaxes(draws, 0, 1), jnp.mean(info.acceptance, axis=0)


@eqx.filter_jit
def _chains(
    model: LatentModel, observed: Observations, effort: Effort, keys: PRNGKeyArray, method: str
) -> samplers.Sampled:
    draws = -(-effort.draws // effort.chains)

    def one(curve, key):
        def geometry(key):
            return linear_geometry(model, curve, key) or Affine(jnp.zeros(model.generator.latent_dim))

        log_density = lambda z: model.log_joint(z, curve)  # noqa: E731
        common = dict(chains=effort.chains, warmup=effort.warmup, draws=draws, key=key)
        if method == "mala":
            return samplers.mala(log_density, geometry, thinning=5, **common)
        return samplers.nuts(log_density, geometry, **common)

    return observed.each(one, keys)


@eqx.filter_jit
def convergence(draws: Float[Array, "curves chains draws latent"]) -> dict[str, Float[Array, " curves"]]:
    """The worst R-hat and effective sample sizes over the latents of each curve."""

    def worst(statistic, reduce):
        return jax.vmap(lambda curve: reduce(statistic(curve, chain_axis=0, sample_axis=1)))(draws)

    return {
        "rhat": worst(blackjax.rhat, jnp.max),
        "ess_bulk": worst(blackjax.ess_bulk, jnp.min),
        "ess_tail": worst(blackjax.ess_tail, jnp.min),
    }


@eqx.filter_jit
def _batched_energy(energy: Energy, latents: Float[Array, "curves draws leading"]) -> Float[Array, "curves draws"]:
    return energy.each(latents)


def _energies(
    energy: Energy, latents: Float[ndarray, "curves draws leading"], curves_at_once: int = 64
) -> Float[ndarray, "curves draws"]:
    parts = []
    for first in range(0, len(latents), curves_at_once):
        part = latents[first : first + curves_at_once]
        padded = np.zeros((curves_at_once, *part.shape[1:]), dtype=np.float32)
        padded[: len(part)] = part
        parts.append(np.asarray(_batched_energy(energy, jnp.asarray(padded)), dtype=float)[: len(part)])
    return np.concatenate(parts)


def systematic(weights: Float[ndarray, "curves proposals"], draws: int, generator: np.random.Generator) -> ndarray:
    """Systematic resampling, row by row, in random order so that any leading draws are exchangeable."""
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    positions = (np.arange(draws) + generator.uniform(size=(len(weights), 1))) / draws
    chosen = np.stack([np.searchsorted(row, at) for row, at in zip(cumulative, positions, strict=True)])
    return generator.permuted(np.minimum(chosen, weights.shape[1] - 1), axis=1)


def collect(
    draws: Float[Array, "curves draws latent"],
    log_evidence: Float[ndarray, " curves"] | None,
    diagnostics: dict[str, Float[Array, " curves"]],
) -> LatentPosterior:
    """Draws of a sampler, on the host, as the posterior they stand for."""
    latents = np.asarray(draws, dtype=float)
    values = {name: np.asarray(value, dtype=float) for name, value in diagnostics.items()}
    return LatentPosterior(latents, latents.mean(axis=1), log_evidence, values)
