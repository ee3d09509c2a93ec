"""The model of section 3 of the paper on a latent space: p(Y, z | X) = p(Y | z, X) p(z).

A function is f(x) = m(x) + Σ_i μ(z)_i √λ_i e_i(x); the basis comes evaluated, as `Observations`.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from febm.likelihoods import Gaussian, Likelihood
from febm.networks import Generator, LinearGenerator, RoughGenerator
from febm.observations import Observations
from febm.precision import full_float32
from febm.priors import GaussianPrior, MixturePrior, Prior, TiltedPrior


class LatentModel(eqx.Module):
    """Generator μ, prior p(z) and likelihood p(y | f).

    With `caution`, exact posteriors are wider than the model's own: see `conjugate.growth`.
    """

    generator: Generator
    prior: Prior
    likelihood: Likelihood
    caution: float = eqx.field(default=0.0, static=True)

    def function(self, z: Float[Array, " latent"], observed: Observations) -> Float[Array, "points outputs"]:
        """Values of the function that belongs to `z` at the observed points of one curve."""
        return jnp.asarray(observed.mean) + _expand(jnp.asarray(observed.features), self.generator(z))

    def log_densities(self, z: Float[Array, " latent"], observed: Observations) -> Float[Array, "points outputs"]:
        """log p(y | z) value by value, zero where masked."""
        # A masked value may hold anything, so it is replaced before the density sees it as well as after.
        values = jnp.where(observed.mask, observed.values, self.likelihood.mean(jnp.zeros(())))
        function = self.function(z, observed)
        return jnp.where(observed.mask, self.noise(z).log_density(values, function), 0.0)

    def noise(self, z: Float[Array, " latent"]) -> Likelihood:
        """p(y | f) of the curve that belongs to `z`: rough curves have more noise."""
        if isinstance(self.generator, RoughGenerator) and isinstance(self.likelihood, Gaussian):
            return self.likelihood.widened(self.generator.log_roughness(z))
        return self.likelihood

    def log_likelihood(self, z: Float[Array, " latent"], observed: Observations) -> Float[Array, ""]:
        """log p(Y | z, X)."""
        return jnp.sum(self.log_densities(z, observed))

    def log_joint(self, z: Float[Array, " latent"], observed: Observations) -> Float[Array, ""]:
        """log p(Y | z, X) + log p(z), the prior up to its normaliser."""
        return self.log_likelihood(z, observed) + self.prior.log_density(z)

    @property
    def is_conjugate(self) -> bool:
        """Whether the base measure conditions in closed form (linear generator, Gaussian noise)."""
        base = self.prior.base if isinstance(self.prior, TiltedPrior) else self.prior
        return (
            isinstance(self.generator, LinearGenerator | RoughGenerator)
            and isinstance(self.likelihood, Gaussian)
            and isinstance(base, GaussianPrior | MixturePrior)
        )


@full_float32
def _expand(features: Float[Array, "points outputs rank"], weights: Float[Array, " rank"]) -> Float[Array, "..."]:
    return features @ weights
