"""Latent models with everything linear integrated out, so that curves of any length become one small shape.

A residual decoder bends only the leading latents h, into the leading coefficients w(h); given those, the other latents
are Gaussian. What is left of a curve is a square root R and a target t:

    log p(y | h) = c − ½‖t − R·w(h)‖²
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from febm import conjugate
from febm.latent import LatentModel
from febm.likelihoods import LOG_2PI, Gaussian
from febm.networks import Generator, ResidualGenerator
from febm.observations import Observations, project
from febm.priors import GaussianPrior


class Condensed(NamedTuple):
    """Curves with everything that is linear integrated out, as the same model on fewer latents sees them."""

    model: LatentModel
    observed: Observations  # float32, a pseudo-point for every leading coefficient, noise variance 1
    constant: Float[ndarray, " curves"]  # what log p(y) has beyond the log-evidence of the pseudo-points
    information: conjugate.Information

    def complete(
        self, latents: Float[ndarray, "curves draws leading"], generator: np.random.Generator
    ) -> Float[ndarray, "curves draws latent"]:
        """Exact draws of the latents that were integrated out, beside draws of the others."""
        leading = self.information.linear.shape[1]
        if not self.information.tail_mean.shape[1]:
            return latents
        coefficients = np.asarray(_decode(self.model.generator, jnp.asarray(latents, jnp.float32)), dtype=float)
        completed = conjugate.complete_draws(self.information, coefficients, generator)
        return np.concatenate([latents, completed[..., leading:]], axis=2)


def condense(model: LatentModel, observed: Observations) -> Condensed:
    """Integrate out what is linear in `model`; `observed` comes in float64."""
    generator = model.generator
    bent = generator.leading if isinstance(generator, ResidualGenerator) else None
    size, leading = (generator.rank, generator.rank) if bent is None else (generator.latent_dim, bent)
    assert isinstance(model.likelihood, Gaussian)
    information = conjugate.information(project(observed, size), float(model.likelihood.variance), leading)
    values, vectors = np.linalg.eigh(information.precision)
    # A direction of which the data say less than this share of what they say of others is one they say nothing of.
    known = values > 1e-12 * np.maximum(values[:, -1:], 1e-300)
    scale = np.where(known, np.sqrt(np.where(known, values, 1.0)), 0.0)
    inverse = np.where(known, 1 / np.where(known, scale, 1.0), 0.0)
    root = (scale[:, :, None] * np.swapaxes(vectors, 1, 2))[information.design]
    target = inverse[information.design] * np.einsum("cij,ci->cj", vectors[information.design], information.linear)
    pseudo = Observations(
        np.zeros((len(observed), leading, 1)),
        root[:, :, None],
        target[..., None],
        np.ones((len(observed), leading, 1), dtype=bool),
        shared=False,
    )
    constant = information.constant + 0.5 * np.sum(target**2, axis=1) + 0.5 * leading * LOG_2PI
    if bent is not None:
        assert isinstance(generator, ResidualGenerator)
        generator = ResidualGenerator(generator.network, bent)
    reduced = LatentModel(generator, GaussianPrior(generator.latent_dim), Gaussian(1.0))
    return Condensed(reduced, pseudo.single_precision(), constant, information)


@eqx.filter_jit
def _decode(generator: Generator, latents: Float[Array, "curves draws latent"]) -> Float[Array, "curves draws rank"]:
    return jax.vmap(jax.vmap(generator))(latents)
