"""Posteriors over the latents of an autoencoder: importance sampling around the modes of p(y, z), particles, chains.

Proposals are Student-t distributions at the modes, which climbs from the encoder's latent and from draws of the prior
find, and the prior itself. Latents that the decoder does not bend are integrated out before, and drawn after.
"""

import warnings
from collections.abc import Callable
from math import lgamma, log, pi
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy import ndarray

from febm import samplers
from febm.condensing import Condensed, condense
from febm.inference import Effort, LatentPosterior, Method, convergence, systematic
from febm.langevin import Affine
from febm.latent import LatentModel
from febm.observations import Observations
from febm.precision import full_float32
from febm.randomness import numpy_generator
from febm.variational import Encoder, log_normal, refine

# Curves that are computed together: what belongs to them still fits a processor's cache.
CURVES_AT_ONCE = 16
TEMPERED_AT_ONCE = 4
# Climbs to modes: one from the encoder's latent, the others from draws of the prior, weighted by a likelihood that is
# tempered until so many of them carry the weight: enough for the modes that there are, few enough to be near them.
CANDIDATES = 512
EFFECTIVE_CANDIDATES = 30
CLIMBS = 6
STEPS = 8
# Proposals come from the modes, each at least a tenth of what falls to it evenly, but for the prior's share, which
# keeps every weight bounded where the modes miss something.
EVEN_SHARE = 0.1
PRIOR_SHARE = 0.1
DEGREES = 4.0
# Where fewer proposals carry the weight there come so many times more of them, and particles where that does not help.
SMALLEST_EFFECTIVE = 40
MORE_PROPOSALS = (8, 32)


class Task(eqx.Module):
    """Curves whose latents are to be found, and where the encoder puts them."""

    model: LatentModel
    observed: Observations
    start: Float[Array | ndarray, "curves latent"]

    def __len__(self) -> int:
        """Number of curves."""
        return len(self.start)

    def __getitem__(self, curves: ndarray) -> "Task":
        """Some of the curves."""
        return Task(self.model, self.observed[curves], self.start[curves])

    @property
    def latent_dim(self) -> int:
        """Length of z."""
        return self.start.shape[1]


def infer_encoded(
    model: LatentModel, encoder: Encoder, observed: Observations, *, method: Method, effort: Effort, key: PRNGKeyArray
) -> LatentPosterior:
    """The posterior of every observed curve by "importance", "smc", "nuts" or "mala"; `observed` comes in float64."""
    generator = numpy_generator(key)
    condensed = condense(model, observed)
    centres = np.asarray(encoder.centres(observed))
    task = Task(condensed.model, condensed.observed, centres[:, : condensed.model.generator.latent_dim])
    diagnostics: dict[str, Any]
    if method in ("nuts", "mala"):
        sampled = _chains(task, effort, method, key)
        diagnostics = {"acceptance": sampled.acceptance, **convergence(sampled.draws)}
        draws = sampled.draws.reshape(len(task), -1, task.latent_dim)
        return _collect(condensed, draws, None, diagnostics, generator)._replace(chains=effort.chains)
    if method == "smc":
        particles = _particles(task, effort, generator, key)
        diagnostics = {name: getattr(particles, name) for name in ("acceptance", "rungs", "temperature")}
        return _collect(condensed, particles.draws, particles.log_constant, diagnostics, generator)
    found = _importance(task, effort, generator)
    for rounds in (*MORE_PROPOSALS, None):
        poor = np.flatnonzero(~(found.effective >= SMALLEST_EFFECTIVE))
        if not len(poor):
            break
        again = task[poor]
        better = _importance(again, effort, generator, rounds) if rounds else _few(again, effort, generator, key)
        for array, replacement in zip(found, better, strict=True):
            array[poor] = replacement
    return _collect(condensed, found.draws, found.log_evidence, {"effective": found.effective}, generator)


class Noise(NamedTuple):
    """The randomness of proposals, made on the host: compiling its making takes longer than all else together."""

    candidates: Float[ndarray, "*curves candidates latent"]
    choice: Float[ndarray, "*curves"]
    part: Float[ndarray, "*curves"]
    normal: Float[ndarray, "*curves count latent"]
    spread: Float[ndarray, "*curves count"]

    @staticmethod
    def draw(curves: int, count: int, latent: int, generator: np.random.Generator) -> "Noise":
        """Noise for `count` proposals of every curve."""
        # Student's t is a Gaussian over the root of χ²/DEGREES.
        return Noise(
            generator.standard_normal((curves, CANDIDATES, latent), dtype=np.float32),
            generator.random(curves, dtype=np.float32),
            generator.random(curves, dtype=np.float32),
            generator.standard_normal((curves, count, latent), dtype=np.float32),
            np.sqrt(DEGREES / generator.chisquare(DEGREES, (curves, count))).astype(np.float32),
        )


class Proposal(eqx.Module):
    """Σₖ πₖ t(place, factor·factorᵀ) at the modes, with triangular factors, and N(0, I)."""

    places: Float[Array, "modes latent"]
    factors: Float[Array, "modes latent latent"]
    inverses: Float[Array, "modes latent latent"]  # of the factors
    shares: Float[Array, " modes"]

    @full_float32
    def sample(self, noise: Noise) -> Float[Array, "count latent"]:
        """Draws, of each part as many as its share, rounded up or down, part after part."""
        edges = jnp.cumsum(jnp.append((1 - PRIOR_SHARE) * self.shares, PRIOR_SHARE))
        which = _stratified(edges, len(noise.normal), noise.part)
        mode = jnp.minimum(which, len(self.shares) - 1)
        near = self.places[mode] + jnp.einsum("nij,nj->ni", self.factors[mode], noise.spread[:, None] * noise.normal)
        return jnp.where((which < len(self.shares))[:, None], near, noise.normal)

    @full_float32
    def log_density(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """The log-density of one latent."""
        size = z.size
        constant = lgamma(0.5 * (DEGREES + size)) - lgamma(0.5 * DEGREES) - 0.5 * size * log(DEGREES * pi)

        def part(place, inverse):
            distance = jnp.sum(jnp.square(inverse @ (z - place)))
            spread = 0.5 * (DEGREES + size) * jnp.log1p(distance / DEGREES)
            return constant - spread + jnp.sum(jnp.log(jnp.diagonal(inverse)))

        log_modes = jax.nn.logsumexp(jax.vmap(part)(self.places, self.inverses) + jnp.log(self.shares))
        return jnp.logaddexp(log(1 - PRIOR_SHARE) + log_modes, log(PRIOR_SHARE) + log_normal(z))


def propose(model: LatentModel, curve: Observations, start: Float[Array, " latent"], noise: Noise) -> Proposal:
    """The modes of p(y, z) that climbs from `start` and from the prior find, weighed by Laplace's method."""
    fits = jax.vmap(lambda z: model.log_likelihood(z, curve))(noise.candidates)
    edges = jnp.cumsum(jax.nn.softmax(_temper(fits, EFFECTIVE_CANDIDATES)))
    chosen = noise.candidates[_stratified(edges, CLIMBS - 1, noise.choice)]
    modes = jax.vmap(lambda z: refine(model, curve, Affine(z), STEPS))(jnp.concatenate([start[None], chosen]))
    assert modes.factor is not None
    heights = jax.vmap(lambda z: model.log_joint(z, curve))(modes.centre)
    volumes = jnp.sum(jnp.log(jnp.diagonal(modes.factor, axis1=1, axis2=2)), axis=1)
    # Several climbs may end in one mode; each of them then carries a part of it.
    shares = (1 - EVEN_SHARE) * jax.nn.softmax(heights + volumes) + EVEN_SHARE / CLIMBS
    identity = jnp.eye(start.size)
    inverses = jax.vmap(lambda factor: jax.scipy.linalg.solve_triangular(factor, identity))(modes.factor)
    return Proposal(modes.centre, modes.factor, inverses, shares)


def _stratified(edges: Float[Array, " parts"], count: int, uniform: Float[Array | ndarray, ""]) -> Int[Array, " count"]:
    """`count` parts, each as often as the distance of its edges says, rounded up or down."""
    places = (jnp.arange(count) + uniform) / count
    return jnp.minimum(jnp.searchsorted(edges, places * edges[-1]), len(edges) - 1)


def _temper(log_weights: Float[Array, " n"], effective: float) -> Float[Array, " n"]:
    """The log-weights times the power in [0, 1] at which about `effective` of them carry the weight."""

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        scaled = jnp.exp(middle) * log_weights
        found = 2 * jax.nn.logsumexp(scaled) - jax.nn.logsumexp(2 * scaled)
        enough = found > log(effective)
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    low, _ = jax.lax.fori_loop(0, 20, halve, (jnp.log(1e-8), jnp.zeros(())))
    return jnp.exp(low) * log_weights


class Found(NamedTuple):
    """Equally weighted draws, the evidence, and how many independent draws they are worth."""

    draws: Float[ndarray, "curves draws latent"]
    log_evidence: Float[ndarray, " curves"]
    effective: Float[ndarray, " curves"]


def _importance(task: Task, effort: Effort, generator: np.random.Generator, rounds: int = 1) -> Found:
    def block(part: Task, _: ndarray) -> Found:
        noises = [Noise.draw(len(part), effort.proposals, part.latent_dim, generator) for _ in range(rounds)]
        weighted = zip(*(_weigh(part, noise) for noise in noises), strict=True)
        latents, log_weights = (np.concatenate(arrays, axis=1, dtype=float) for arrays in weighted)
        total = scipy.special.logsumexp(log_weights, axis=1)
        weights = np.exp(log_weights - total[:, None])
        chosen = systematic(weights, effort.draws, generator)
        draws = np.take_along_axis(latents, chosen[..., None], axis=1)
        return Found(draws, total - np.log(log_weights.shape[1]), 1 / np.sum(weights**2, axis=1))

    return _in_blocks(block, task, CURVES_AT_ONCE)


def _few(task: Task, effort: Effort, generator: np.random.Generator, key: PRNGKeyArray) -> Found:
    particles = _particles(task, effort, generator, key)
    # Particles of one mode stand side by side: the first of them in a random order.
    order = generator.permuted(np.tile(np.arange(effort.particles), (len(task), 1)), axis=1)
    chosen = order[:, np.arange(effort.draws) % effort.particles]
    draws = np.take_along_axis(np.asarray(particles.draws), chosen[..., None], axis=1)
    # All particles weigh the same; how much they still have in common after their moves is not known.
    effective = np.full(len(task), np.nan)
    return Found(draws, np.asarray(particles.log_constant), effective)


def _particles(task: Task, effort: Effort, generator: np.random.Generator, key: PRNGKeyArray) -> samplers.Particles:
    keys = jax.random.split(key, len(task))

    def block(part: Task, index: ndarray) -> samplers.Particles:
        noise = Noise.draw(len(part), effort.particles, part.latent_dim, generator)
        return _temper_particles(part, noise, effort, keys[index])

    particles: samplers.Particles = _in_blocks(block, task, TEMPERED_AT_ONCE)
    unfinished = int(np.sum(particles.temperature < 1))
    if unfinished:
        warnings.warn(
            f"tempering stopped before its end for {unfinished} of {len(task)} curves; allow more `rungs` in Effort.",
            stacklevel=5,
        )
    return particles


def _chains(task: Task, effort: Effort, method: str, key: PRNGKeyArray) -> samplers.Sampled:
    keys = jax.random.split(key, len(task))
    # Chains take longer to run than to compile: fewer curves than a block are a block of their own, in few sizes.
    size = min(CURVES_AT_ONCE, 1 << (len(task) - 1).bit_length())
    return _in_blocks(lambda part, index: _run_chains(part, effort, method, keys[index]), task, size)


def _in_blocks(function: Callable[[Task, ndarray], Any], task: Task, size: int) -> Any:
    """`function` of curves in blocks of one size, and their indices; the last is filled up with its own curves."""
    blocks = []
    for first in range(0, len(task), size):
        last = min(first + size, len(task))
        index = np.resize(np.arange(first, last), size)
        found = function(task[index], index)
        blocks.append(jax.tree.map(lambda array, kept=last - first: np.asarray(array)[:kept], found))
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *blocks)


@eqx.filter_jit
def _weigh(
    task: Task, noise: Noise
) -> tuple[Float[Array, "curves proposals latent"], Float[Array, "curves proposals"]]:
    """Proposals and the logarithms of their weights p(y, z)/proposal(z)."""

    def one(curve, start, noise):
        proposal = propose(task.model, curve, start, noise)
        latents = proposal.sample(noise)
        return latents, jax.vmap(lambda z: task.model.log_joint(z, curve) - proposal.log_density(z))(latents)

    return task.observed.each(one, task.start, noise)


@eqx.filter_jit
def _temper_particles(task: Task, noise: Noise, effort: Effort, keys: PRNGKeyArray) -> samplers.Particles:
    def one(curve, start, noise, key):
        proposal = propose(task.model, curve, start, noise)
        log_ratio = lambda z: task.model.log_joint(z, curve) - proposal.log_density(z)  # noqa: E731
        first = proposal.sample(noise)
        return samplers.tempered(
            proposal.log_density, log_ratio, first, moves=effort.moves, rungs=effort.rungs, key=key
        )

    return task.observed.each(one, task.start, noise, keys)


@eqx.filter_jit
def _run_chains(task: Task, effort: Effort, method: str, keys: PRNGKeyArray) -> samplers.Sampled:
    draws = -(-effort.draws // effort.chains)

    def one(curve, start, key):
        place = refine(task.model, curve, Affine(start), STEPS)
        log_density = lambda z: task.model.log_joint(z, curve)  # noqa: E731
        common = dict(chains=effort.chains, warmup=effort.warmup, draws=draws, key=key)
        if method == "mala":
            return samplers.mala(log_density, lambda _: place, thinning=5, **common)
        return samplers.nuts(log_density, lambda _: place, **common)

    return task.observed.each(one, task.start, keys)


def _collect(
    condensed: Condensed,
    draws: Float[Array | ndarray, "curves draws latent"],
    log_evidence: Float[Array | ndarray, " curves"] | None,
    diagnostics: dict[str, Any],
    generator: np.random.Generator,
) -> LatentPosterior:
    latents = condensed.complete(np.asarray(draws, dtype=float), generator)
    evidence = None if log_evidence is None else np.asarray(log_evidence, dtype=float) + condensed.constant
    values = {name: np.asarray(value, dtype=float) for name, value in diagnostics.items()}
    return LatentPosterior(latents, latents.mean(axis=1), evidence, values)
