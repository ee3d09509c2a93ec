"""Latent models with everything linear integrated out, so that chains run on few latents.

A residual decoder bends only the leading latents h, into the leading coefficients w(h); given those, the other latents
are Gaussian. What is left of a curve is a square root R and a target v:

    log p(y | h) = c − ½‖v − R·w(h)‖²

A rough generator leaves the leading latents as they are, but its tail has a scale e^t; what is left then is

    log p(y | h, t) = c − ½ e^{−2t} (‖v − R·h‖² + rest) − n·t
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float
from numpy import ndarray

from febm import conjugate
from febm.base_measure import as_prior
from febm.latent import LatentModel
from febm.likelihoods import LOG_2PI, Gaussian
from febm.networks import Generator, ResidualGenerator, RoughGenerator
from febm.observations import Observations, project
from febm.priors import GaussianPrior, MixturePrior, Prior, TiltedPrior
from febm.roughness import Roughness


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
        if isinstance(self.model.generator, RoughGenerator):
            return conjugate.complete_draws(self.information, latents, generator)
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
    root, target = _square_root(information)
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


def condense_rough(model: LatentModel, observed: Observations) -> Condensed:
    """Integrate the tail out of a model with a rough generator; as many pseudo-points as a curve has values."""
    assert isinstance(model.generator, RoughGenerator)
    leading = model.generator.leading
    information = inform(model, observed, leading)
    root, target = _square_root(information)
    # The directions of which the data say most come first: a curve of few values has only those.
    root, target = root[:, ::-1], target[:, ::-1]
    points = max(int(information.size.max()), 1)
    features, values = np.zeros((len(observed), points, leading)), np.zeros((len(observed), points))
    count = min(leading, points)
    features[:, :count], values[:, :count] = root[:, :count], target[:, :count]
    if points > leading:
        values[:, leading] = np.sqrt(np.maximum(information.square - np.sum(target**2, axis=1), 0.0))
    mask = np.arange(points) < information.size[:, None]
    pseudo = Observations(
        np.zeros((*values.shape, 1)), features[:, :, None], values[..., None], mask[..., None], shared=False
    )
    base = as_prior(leading_mixture(model), leading + 1)
    prior: Prior = base
    if isinstance(model.prior, TiltedPrior):
        prior = TiltedPrior(base, model.prior.energy, model.prior.log_normaliser)
    reduced = LatentModel(RoughGenerator(leading, leading), prior, Gaussian(1.0))
    return Condensed(reduced, pseudo.single_precision(), -0.5 * information.log_determinant, information)


def inform(model: LatentModel, observed: Observations, leading: int) -> conjugate.Information:
    """The likelihood of the leading coordinates of a linear model with Gaussian noise."""
    assert isinstance(model.likelihood, Gaussian)
    rank = model.generator.latent_dim - isinstance(model.generator, RoughGenerator)
    return conjugate.information(project(observed, rank), float(model.likelihood.variance), leading)


def leading_mixture(model: LatentModel) -> conjugate.Mixture:
    """The base measure as a float64 mixture on every coordinate that is not N(0, 1) or that the energy sees."""
    prior = model.prior
    base = prior.base if isinstance(prior, TiltedPrior) else prior
    seen = prior.energy.dim if isinstance(prior, TiltedPrior) else 0
    if isinstance(base, MixturePrior):
        log_weights = scipy.special.log_softmax(np.asarray(base.log_weights, dtype=float))
        means, factors = np.asarray(base.means, dtype=float), np.asarray(base.factors, dtype=float)
        if isinstance(model.generator, RoughGenerator):
            roughness = Roughness(means[:, -1], factors[:, -1, -1])
            return conjugate.Mixture(log_weights, means[:, :-1], factors[:, :-1, :-1], roughness)
        extra = max(seen - base.leading, 0)
        means = np.pad(means, ((0, 0), (0, extra)))
        factors = np.pad(factors, ((0, 0), (0, extra), (0, extra)))
        factors[:, range(base.leading, base.leading + extra), range(base.leading, base.leading + extra)] = 1.0
        return conjugate.Mixture(log_weights, means, factors)
    assert isinstance(base, GaussianPrior)
    leading = base.dim if base.scale != 1.0 else max(seen, 1)
    standard = conjugate.Mixture.standard_normal(leading)
    return standard._replace(factors=base.scale * standard.factors)


def _square_root(information: conjugate.Information) -> tuple[ndarray, ndarray]:
    """R and v of every curve: q − 2hᵀz + zᵀPz = ‖v − Rz‖² + (q − ‖v‖²); rows by how much the data say of them."""
    values, vectors = np.linalg.eigh(information.precision)
    # A direction of which the data say less than this share of what they say of others is one they say nothing of.
    known = values > 1e-12 * np.maximum(values[:, -1:], 1e-300)
    scale = np.where(known, np.sqrt(np.where(known, values, 1.0)), 0.0)
    inverse = np.where(known, 1 / np.where(known, scale, 1.0), 0.0)
    root = (scale[:, :, None] * np.swapaxes(vectors, 1, 2))[information.design]
    target = inverse[information.design] * np.einsum("cij,ci->cj", vectors[information.design], information.linear)
    return root, target


@eqx.filter_jit
def _decode(generator: Generator, latents: Float[Array, "curves draws latent"]) -> Float[Array, "curves draws rank"]:
    return jax.vmap(jax.vmap(generator))(latents)
