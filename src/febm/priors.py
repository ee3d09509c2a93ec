"""Priors over one latent z: Gaussian, Gaussian mixture, energy exp(−E(z)), and a base tilted by an energy.

A tilted prior is p(z) = exp(−E(z)) p₀(z) / Z; `log_density` leaves log Z out, `log_normaliser` holds it.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import log, pi

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from febm.checks import whole_number
from febm.precision import full_float32

LOG_2PI = log(2 * pi)
# What a network makes of so many latents stays in the cache of a core: a third of the time that all at once take. To
# a GPU it makes little difference: it waits for the host.
LATENTS_AT_ONCE = 1024


class Prior(eqx.Module):
    """A distribution of latents, known up to a constant.

    `log_normaliser` is log ∫ exp(log_density): 0 for a normalised prior, for the others 0 until estimated.
    """

    dim: eqx.AbstractVar[int]
    log_normaliser: eqx.AbstractVar[Float[Array, ""]]

    @property
    @abstractmethod
    def reference(self) -> "Reference":
        """A normalised prior nearby, with exact sampling."""

    @abstractmethod
    def log_density(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The log-density of one latent, plus `log_normaliser`; batches are the caller's `vmap`."""

    @abstractmethod
    def log_tilt(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The difference log_density(z) − reference.log_density(z)."""

    @property
    def entangled(self) -> int:
        """How many leading coordinates there are before the rest, independent standard normals; at least one."""
        return self.dim

    def leading_part(self, dim: int) -> "Prior":
        """The prior of the first `dim` coordinates, at least the entangled ones; up to a constant."""
        assert dim == self.dim
        return self


class Reference(Prior):
    """A normalised prior with exact sampling; it is its own reference."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """`n` independent draws."""

    @property
    @abstractmethod
    def components(self) -> tuple[Float[Array, " components"], Float[Array, "components dim"]]:
        """Log-weights and means of the components."""

    @property
    @abstractmethod
    def within_precision(self) -> Float[Array, "dim dim"]:
        """The inverse of the covariance within components, pooled over them."""

    @property
    def reference(self) -> "Reference":
        """The prior itself."""
        return self

    @property  # type: ignore[misc]
    def log_normaliser(self) -> Float[Array, ""]:  # type: ignore[override]
        """Zero: the density is normalised."""
        return jnp.zeros((), jnp.float32)

    def log_tilt(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """Zero: nothing is tilted."""
        return jnp.zeros((), z.dtype)


class GaussianPrior(Reference):
    """N(0, scale² I)."""

    dim: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(self, dim: int, scale: float = 1.0) -> None:
        if not 0 < scale < np.inf:
            raise ValueError(f"GaussianPrior: scale is {scale}; give a finite number above 0.")
        self.dim = whole_number("GaussianPrior: dim", dim)
        self.scale = float(scale)

    @property
    def entangled(self) -> int:
        """One, where all are standard normals."""
        return 1 if self.scale == 1 else self.dim

    def leading_part(self, dim: int) -> "GaussianPrior":
        """The same in fewer dimensions."""
        return GaussianPrior(dim, self.scale)

    def log_density(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """−½ ‖z‖²/scale² − dim·(log scale + ½ log 2π)."""
        return -0.5 / self.scale**2 * jnp.sum(jnp.square(z)) - self.dim * (log(self.scale) + 0.5 * LOG_2PI)

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """`n` independent draws."""
        return self.scale * jax.random.normal(key, (n, self.dim), jnp.float32)

    @property
    def components(self) -> tuple[Float[Array, " components"], Float[Array, "components dim"]]:
        """One component at zero."""
        return jnp.zeros(1, jnp.float32), jnp.zeros((1, self.dim), jnp.float32)

    @property
    def within_precision(self) -> Float[Array, "dim dim"]:
        """I / scale²."""
        return jnp.eye(self.dim, dtype=jnp.float32) / self.scale**2


DRAWS_AT_ONCE = 1024


class MixturePrior(Reference):
    """Σₖ πₖ N(μₖ, LₖLₖᵀ) on the leading r coordinates, N(0, 1) on each of the rest.

    Parameters
    ----------
    log_weights : log πₖ, shape (K,), up to a common constant.
    means : μₖ, shape (K, r).
    factors : Lₖ, shape (K, r, r), lower Cholesky factors of the covariances.
    dim : length of z, at least r.
    """

    log_weights: Float[Array, " components"]
    means: Float[Array, "components leading"]
    # Lₖ⁻¹ rather than Lₖ: the density, evaluated at every step of every chain, is then one matrix product.
    whiteners: Float[Array, "components leading leading"]
    dim: int = eqx.field(static=True)

    def __init__(
        self,
        log_weights: Array | np.ndarray,
        means: Array | np.ndarray,
        factors: Array | np.ndarray,
        dim: int,
    ) -> None:
        dim = whole_number("MixturePrior: dim", dim)
        _check_mixture(np.shape(log_weights), np.shape(means), np.shape(factors), dim)
        if not isinstance(factors, jax.core.Tracer):
            diagonals = np.diagonal(np.asarray(factors), axis1=1, axis2=2)
            if not (np.isfinite(diagonals) & (diagonals > 0)).all():
                raise ValueError(
                    f"MixturePrior: factors have a diagonal entry of {diagonals.min():g}; "
                    "give lower Cholesky factors, whose diagonals are positive."
                )
        self.log_weights = jnp.asarray(log_weights, jnp.float32)
        self.means = jnp.asarray(means, jnp.float32)
        self.whiteners = _inverse(jnp.asarray(factors, jnp.float32))
        self.dim = dim

    @property
    def leading(self) -> int:
        """r, the number of coordinates that are mixed."""
        return self.means.shape[1]

    @property
    def entangled(self) -> int:
        """r."""
        return self.leading

    def leading_part(self, dim: int) -> "MixturePrior":
        """The same mixture with fewer coordinates behind it."""
        return MixturePrior(self.log_weights, self.means, self.factors, dim)

    @property
    def factors(self) -> Float[Array, "components leading leading"]:
        """Lower Cholesky factors of the covariances."""
        return _inverse(self.whiteners)

    @full_float32
    def log_density(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The sum log Σₖ πₖ N(z[:r]; μₖ, LₖLₖᵀ) + log N(z[r:]; 0, I)."""
        components, leading = self.means.shape
        # Only the product with z depends on the latent: the rest is shared by a batch and by a chain's steps.
        flat = self.whiteners.reshape(components * leading, leading)
        offsets = jnp.einsum("kij,kj->ki", self.whiteners, self.means)
        log_determinants = jnp.sum(jnp.log(jnp.diagonal(self.whiteners, axis1=1, axis2=2)), axis=1)
        white = (flat @ z[:leading]).reshape(components, leading) - offsets
        parts = jax.nn.log_softmax(self.log_weights) + log_determinants - 0.5 * jnp.sum(jnp.square(white), axis=1)
        tail = -0.5 * jnp.sum(jnp.square(z[leading:]))
        return jax.nn.logsumexp(parts) + tail - 0.5 * self.dim * LOG_2PI

    @full_float32
    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """`n` independent draws."""
        component_key, noise_key = jax.random.split(key)
        component = jax.random.categorical(component_key, self.log_weights, shape=(n,))
        noise = jax.random.normal(noise_key, (n, self.dim), jnp.float32)
        head, tail = noise[:, : self.leading], noise[:, self.leading :]
        factors = self.factors
        # Some at a time: each draw takes a factor of its own along.
        spread = jax.lax.map(lambda drawn: factors[drawn[0]] @ drawn[1], (component, head), batch_size=DRAWS_AT_ONCE)
        head = self.means[component] + spread
        return jnp.concatenate([head, tail], axis=1)

    @property
    def components(self) -> tuple[Float[Array, " components"], Float[Array, "components dim"]]:
        """Log-weights, and means followed by zeros."""
        return self.log_weights, jnp.pad(self.means, ((0, 0), (0, self.dim - self.leading)))

    @property
    @full_float32
    def within_precision(self) -> Float[Array, "dim dim"]:
        """The inverse of Σₖ πₖ LₖLₖᵀ on the leading coordinates, the identity on the rest.

        Single precision holds seven digits: a direction of less than 1e-6 of the mean variance is taken for that wide.
        """
        pooled = jnp.einsum("k,kij,klj->il", jax.nn.softmax(self.log_weights), self.factors, self.factors)
        pooled += 1e-6 * jnp.trace(pooled) / self.leading * jnp.eye(self.leading)
        rest = jnp.eye(self.dim - self.leading, dtype=jnp.float32)
        return jax.scipy.linalg.block_diag(jnp.linalg.inv(pooled), rest)


class Energy(eqx.Module):
    """E(z) = network(z[:dim]) + ½ c ‖z[:dim]‖²: it sees the leading coordinates, whatever the length of z.

    A network alone may fall without bound, and exp(−E) then has no integral; a confinement c > 0 gives it one. With a
    floor b the network is bent, E = b + log(1 + e^(network − b)), and never falls below b.
    """

    network: Callable[[Float[Array, " dim"]], Float[Array, ""]]
    dim: int = eqx.field(static=True)
    confinement: float = eqx.field(static=True)
    floor: float = eqx.field(static=True)

    def __init__(
        self,
        network: Callable[[Float[Array, " dim"]], Float[Array, ""]],
        dim: int,
        confinement: float = 0.0,
        floor: float = -np.inf,
    ) -> None:
        dim = whole_number("Energy: dim", dim)
        inputs, outputs = getattr(network, "in_size", dim), getattr(network, "out_size", "scalar")
        if inputs != dim:
            raise ValueError(f"Energy: the network takes {inputs} coordinates but dim is {dim}; make them equal.")
        if outputs != "scalar":
            raise ValueError(f"Energy: the network has {outputs} outputs; build it with out_size='scalar'.")
        self.network = network
        self.dim = dim
        self.confinement = float(confinement)
        self.floor = float(floor)

    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, ""]:
        """The energy of one latent; batches are the caller's `vmap`."""
        seen = z[: self.dim]
        energy = self.network(seen)
        if np.isfinite(self.floor):
            energy = jax.nn.softplus(energy - self.floor) + self.floor
        return energy + 0.5 * self.confinement * jnp.sum(jnp.square(seen)) if self.confinement else energy

    def each(self, latents: Float[Array, "*batch latent"]) -> Float[Array, "*batch"]:
        """The energies of many latents, some at a time; for a gradient a plain `vmap` is quicker."""
        flat = latents.reshape(-1, latents.shape[-1])
        return jax.lax.map(self, flat, batch_size=LATENTS_AT_ONCE).reshape(latents.shape[:-1])


class EnergyPrior(Prior):
    """p(z) ∝ exp(−E(z)), with the reference N(0, scale² I).

    Parameters
    ----------
    energy : E, on all `dim` coordinates: exp(−E) cannot be normalised over one that E does not see.
    dim : length of z.
    scale : standard deviation of the reference.
    log_normaliser : log ∫ exp(−E), where known.
    """

    energy: Energy
    log_normaliser: Float[Array, ""]
    dim: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(
        self, energy: Energy, dim: int, scale: float = 1.0, log_normaliser: float | Float[Array, ""] = 0.0
    ) -> None:
        if energy.dim != dim:
            raise ValueError(
                f"EnergyPrior: the energy sees {energy.dim} coordinates but dim is {dim}; make them equal, "
                "or tilt a base that covers the rest with TiltedPrior."
            )
        self.energy = energy
        self.log_normaliser = jnp.asarray(log_normaliser, jnp.float32)
        self.dim = energy.dim
        self.scale = GaussianPrior(energy.dim, scale).scale

    @property
    def reference(self) -> GaussianPrior:
        """N(0, scale² I)."""
        return GaussianPrior(self.dim, self.scale)

    def log_density(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """−E(z)."""
        return -self.energy(z)

    def log_tilt(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """−E(z) − log N(z; 0, scale² I)."""
        return -self.energy(z) - self.reference.log_density(z)

    def with_log_normaliser(self, value: float | Float[Array, ""]) -> "EnergyPrior":
        """The same prior with log ∫ exp(−E) filled in."""
        return EnergyPrior(self.energy, self.dim, self.scale, value)


class TiltedPrior(Prior):
    """p(z) ∝ exp(−E(z[:r])) p₀(z), r the coordinates that the energy sees.

    Parameters
    ----------
    base : p₀.
    energy : E.
    log_normaliser : log ∫ exp(−E) p₀, where known (p₀ as `base.log_density` has it).
    """

    base: Prior
    energy: Energy
    log_normaliser: Float[Array, ""]
    dim: int = eqx.field(static=True)

    def __init__(self, base: Prior, energy: Energy, log_normaliser: float | Float[Array, ""] = 0.0) -> None:
        if energy.dim > base.dim:
            raise ValueError(
                f"TiltedPrior: the energy sees {energy.dim} coordinates but the base has only {base.dim}; "
                f"give an energy with dim of at most {base.dim}."
            )
        self.base = base
        self.dim = base.dim
        self.energy = energy
        self.log_normaliser = jnp.asarray(log_normaliser, jnp.float32)

    @property
    def reference(self) -> Reference:
        """The base, or what the base refers to."""
        return self.base.reference

    @property
    def entangled(self) -> int:
        """What the base has, and what the energy sees."""
        return max(self.base.entangled, self.energy.dim)

    def leading_part(self, dim: int) -> "TiltedPrior":
        """The leading part of the base, tilted."""
        return TiltedPrior(self.base.leading_part(dim), self.energy, self.log_normaliser)

    def log_density(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The sum log p₀(z) − E(z)."""
        return self.base.log_density(z) - self.energy(z)

    def log_tilt(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """−E(z), plus the tilt of the base where it has one."""
        return self.base.log_tilt(z) - self.energy(z)

    def with_log_normaliser(self, value: float | Float[Array, ""]) -> "TiltedPrior":
        """The same prior with log ∫ exp(−E) p₀ filled in."""
        return TiltedPrior(self.base, self.energy, value)


def _inverse(lower: Float[Array, "components size size"]) -> Float[Array, "components size size"]:
    identity = jnp.broadcast_to(jnp.eye(lower.shape[-1], dtype=lower.dtype), lower.shape)
    return solve_triangular(lower, identity, lower=True)


def _check_mixture(weights: tuple[int, ...], means: tuple[int, ...], factors: tuple[int, ...], dim: int) -> None:
    if len(means) != 2 or weights != means[:1] or factors != (*means, means[-1]):
        raise ValueError(
            f"MixturePrior: log_weights, means and factors have shapes {weights}, {means} and {factors}; "
            "they have to be (K,), (K, r) and (K, r, r)."
        )
    if means[1] > dim:
        raise ValueError(f"MixturePrior: the means have {means[1]} coordinates but dim is {dim}; give at most {dim}.")
