"""Posteriors over the latents of an autoencoder: its encoder says where to start, chains and particles do the rest.

Chains run in the coordinates of q(z | β), β the ridge coefficients of what was observed. Particles are tempered from
½ p(z) + ½ q(z | β), q widened, to the posterior: near their goal where the encoder is right, everywhere else too.
"""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from febm import samplers
from febm.inference import Effort, LatentPosterior, Method, collect, convergence, infer
from febm.langevin import Affine, Chain
from febm.latent import LatentModel
from febm.observations import Observations
from febm.variational import Code, Encoder, log_determinant, log_normal, refine

# Curves that are compiled together: few enough for a processor's cache, and a slow curve keeps few others waiting.
CURVES_AT_ONCE = 64
# Gauss–Newton steps from the encoder's latent: contexts are not the whole curves that it was trained on.
REFINEMENTS = 5
# How much wider than q particles start: a variational posterior is narrower than the posterior.
WIDENING = 2.0


def infer_encoded(
    model: LatentModel, encoder: Encoder, observed: Observations, *, method: Method, effort: Effort, key: PRNGKeyArray
) -> LatentPosterior:
    """The posterior of every observed curve by "nuts", "mala" or "smc"; `observed` comes in float64."""
    if method not in ("nuts", "mala", "smc"):
        return infer(model, observed, method=method, effort=effort, chain=Chain(100), key=key)
    keys = jax.random.split(key, len(observed))
    code = encoder.codes(observed)
    blocks = []
    for first in range(0, len(observed), CURVES_AT_ONCE):
        # The last block is filled up with curves of its own, so that every block is one shape.
        last = min(first + CURVES_AT_ONCE, len(observed))
        size = min(CURVES_AT_ONCE, len(observed))
        index = np.resize(np.arange(first, last), size)
        part = observed[index].single_precision(), Code(*(field[index] for field in code)), keys[index]
        found = (
            _particles(model, encoder, *part, effort)
            if method == "smc"
            else _chains(model, encoder, *part, effort, method)
        )
        blocks.append(jax.tree.map(lambda array, count=last - first: np.asarray(array)[:count], found))
    joined = jax.tree.map(lambda *arrays: np.concatenate(arrays), *blocks)
    if method != "smc":
        diagnostics = {"acceptance": joined.acceptance, **convergence(joined.draws)}
        draws = joined.draws.reshape(len(observed), -1, encoder.latent_dim)
        return collect(draws, None, diagnostics)._replace(chains=effort.chains)
    unfinished = int(np.sum(joined.temperature < 1))
    if unfinished:
        warnings.warn(
            f"tempering stopped before its end for {unfinished} of {len(observed)} curves (`temperature` in the "
            "diagnostics is below 1); allow more `rungs` in Effort.",
            stacklevel=3,
        )
    diagnostics = {name: getattr(joined, name) for name in ("acceptance", "rungs", "temperature")}
    return collect(joined.draws, joined.log_constant.astype(float), diagnostics)


@eqx.filter_jit
def _particles(
    model: LatentModel, encoder: Encoder, observed: Observations, code: Code, keys: PRNGKeyArray, effort: Effort
) -> samplers.Particles:
    def one(curve, code, key):
        start_key, choose_key, key = jax.random.split(key, 3)
        encoded = refine(model, curve, encoder(code), REFINEMENTS)
        assert encoded.factor is not None
        factor = WIDENING * encoded.factor
        wide = Affine(encoded.centre, factor)

        def log_reference(z):
            u = jax.scipy.linalg.solve_triangular(factor, z - wide.centre)
            log_proposal = log_normal(u) - log_determinant(wide)
            return jnp.logaddexp(model.prior.log_density(z), log_proposal) - jnp.log(2.0)

        count = effort.particles
        noise = jax.random.normal(start_key, (count, encoder.latent_dim))
        # Half of the particles each: stratified, less random than tossing a coin for every one.
        near = jax.random.permutation(choose_key, jnp.arange(count) % 2 == 0)
        start = jnp.where(near[:, None], jax.vmap(wide)(noise), noise)
        log_ratio = lambda z: model.log_joint(z, curve) - log_reference(z)  # noqa: E731
        return samplers.tempered(log_reference, log_ratio, start, moves=effort.moves, rungs=effort.rungs, key=key)

    return observed.each(one, code, keys)


@eqx.filter_jit
def _chains(
    model: LatentModel,
    encoder: Encoder,
    observed: Observations,
    code: Code,
    keys: PRNGKeyArray,
    effort: Effort,
    method: str,
) -> samplers.Sampled:
    draws = -(-effort.draws // effort.chains)

    def one(curve, code, key):
        place = refine(model, curve, encoder(code), REFINEMENTS)
        log_density = lambda z: model.log_joint(z, curve)  # noqa: E731
        common = dict(chains=effort.chains, warmup=effort.warmup, draws=draws, key=key)
        if method == "mala":
            return samplers.mala(log_density, lambda _: place, thinning=5, **common)
        return samplers.nuts(log_density, lambda _: place, **common)

    return observed.each(one, code, keys)
