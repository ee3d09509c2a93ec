"""Variational autoencoders of curves: the encoder q(z | β) of a curve's coefficients β, and the evidence lower bound.

    log p(y) ≥ E_q log p(y | Φ·decoder(z)) − KL(q(z | β) ‖ p(z)),    β = (ΦᵀΦ + σ²I)⁻¹ Φᵀ(y − m)

β is the ridge estimate of one curve's coefficients from its own points, however many they are.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from febm.langevin import Affine
from febm.latent import LatentModel
from febm.likelihoods import LOG_2PI, Gaussian
from febm.networks import ResidualMLP
from febm.observations import Observations, project
from febm.training import FROZEN, Information, Objective


class Code(NamedTuple):
    """What an encoder sees of curves: ridge coefficients, and the posterior N(centre, root·rootᵀ) of leading ones.

    The latter is the posterior of the latents themselves where the decoder is w = z.
    """

    coefficients: Float[Array, "*curves rank"]
    centre: Float[Array, "*curves latent"]
    root: Float[Array, "*curves latent latent"]  # triangular


class Encoder(eqx.Module):
    """q(z | β) = N(c + R·m(β), R·diag(s(β))²·Rᵀ) with m and log s from one network.

    `ridge` is the noise variance of the ridge estimate. With `scores`, latents are corrections of the leading scores of
    a curve: c and R are then those of the linear model, so that points that were not observed leave q wide; without,
    c = 0 and R = I.
    """

    network: ResidualMLP
    ridge: float = eqx.field(static=True)
    scores: bool = eqx.field(static=True)

    @property
    def latent_dim(self) -> int:
        """Length of z."""
        assert isinstance(self.network.out_size, int)
        return self.network.out_size // 2

    def codes(self, observed: Observations) -> Code:
        """The codes of host observations, computed in float64."""
        projection = project(observed)
        latent = self.latent_dim
        system = projection.gram + self.ridge * np.eye(projection.rank)
        inverse = np.linalg.inv(np.linalg.cholesky(system))[projection.design]
        coefficients = np.einsum("cij,cik,ck->cj", inverse, inverse, projection.moment, optimize=True)
        centre, root = (
            np.zeros((len(observed), latent)),
            np.broadcast_to(np.eye(latent), (len(observed), latent, latent)),
        )
        if self.scores:
            leading = np.linalg.inv(np.linalg.cholesky(system[:, :latent, :latent]))[projection.design]
            centre = np.einsum("cij,cik,ck->cj", leading, leading, projection.moment[:, :latent], optimize=True)
            root = np.sqrt(self.ridge) * np.swapaxes(leading, 1, 2)
        return Code(*(jnp.asarray(part, jnp.float32) for part in (coefficients, centre, root)))

    def centres(self, observed: Observations) -> Float[Array, "curves latent"]:
        """The mean of q for every one of host observations."""
        return _centres(self, self.codes(observed))

    def __call__(self, code: Code) -> Affine:
        """q as the change of variables z = centre + factor·u, u ~ N(0, I); the factor is triangular."""
        shift, log_spread = jnp.split(self.network(code.coefficients), 2)
        return Affine(code.centre + code.root @ shift, code.root * jnp.exp(log_spread))


class Autoencoder(eqx.Module):
    """Decoder, prior and noise; encoder; and the coefficients of the training curves where those are trained too."""

    latent: LatentModel
    encoder: Encoder
    coefficients: Float[Array, "curves rank"] | None = None


class EncodedCurves(eqx.Module):
    """Curves, their codes, and the row of each in the table of trained coefficients."""

    observed: Observations
    code: Code
    row: Int[Array | np.ndarray, " curves"]

    def __len__(self) -> int:
        """Number of curves."""
        return len(self.observed)

    def __getitem__(self, curves: Any) -> "EncodedCurves":
        """Some of the curves; what belongs to a curve goes with it."""
        return EncodedCurves(self.observed[curves], Code(*(part[curves] for part in self.code)), self.row[curves])


class LowerBound(Objective):
    """Maximise the evidence lower bound of the decoder; judge by importance-weighted evidence of held-out curves.

    Attributes
    ----------
    smallest_noise
        The noise is not let fall below this scale.
    refinements
        Gauss–Newton steps from the encoder's latent in the score, which is to judge the decoder, not the encoder.
    squares
        Replace log p(y | z) by −Σ(y − f)², as if the noise variance were ½; the noise is then the size of what is left.
    samples, score_samples
        Draws for each curve in the loss and in the score.
    """

    smallest_noise: float = eqx.field(static=True)
    refinements: int = eqx.field(static=True, default=2)
    squares: bool = eqx.field(static=True, default=False)
    samples: int = eqx.field(static=True, default=4)
    score_samples: int = eqx.field(static=True, default=32)

    def loss(self, model: Autoencoder, batch: EncodedCurves, key: PRNGKeyArray) -> tuple[Float[Array, ""], Information]:
        """The negative lower bound per observed value, and Σ(y − Φβ)² where β is trained."""
        code = batch.code
        if model.coefficients is not None:
            code = code._replace(coefficients=model.coefficients[batch.row])
        latent = self._with_noise_floor(model.latent)

        def bound(curve, code, key):
            encoded = model.encoder(code)
            draws = jax.random.normal(key, (self.samples, encoded.centre.size))
            divergence = _divergence(encoded)
            error = jnp.mean(jax.vmap(lambda u: self._error(latent, encoded(u), curve))(draws))
            return error + divergence, divergence, _misfit(curve, code.coefficients)

        keys = jax.random.split(key, len(batch))
        losses, divergences, misfits = batch.observed.each(bound, code, keys)
        values = jnp.maximum(jnp.sum(batch.observed.mask), 1)
        loss = jnp.sum(losses)
        information = {"divergence": jnp.mean(divergences), "misfit": jnp.sum(misfits) / values}
        if model.coefficients is not None:
            loss = loss + jnp.sum(misfits) / (1.0 if self.squares else 2 * jax.lax.stop_gradient(_variance(latent)))
        return loss / values, information

    def score(self, model: Autoencoder, held_out: EncodedCurves, key: PRNGKeyArray) -> Float[Array, ""]:
        """Mean log evidence per value by importance sampling; with `squares`, the negative loss."""
        if self.squares:
            fixed = Autoencoder(model.latent, model.encoder)
            return -self.loss(fixed, held_out, key)[0]
        values = jnp.maximum(jnp.sum(held_out.observed.mask), 1)
        found = log_evidence(
            Autoencoder(self._with_noise_floor(model.latent), model.encoder),
            held_out,
            refinements=self.refinements,
            samples=self.score_samples,
            key=key,
        )
        return jnp.sum(found) / values

    def groups(self, model: Autoencoder) -> PyTree[str]:
        """Networks, coefficients and noise have rates of their own; the prior stays N(0, I)."""
        labels = jax.tree.map(lambda _: "networks", model)
        labels = eqx.tree_at(lambda tree: tree.latent.prior, labels, jax.tree.map(lambda _: FROZEN, model.latent.prior))
        labels = eqx.tree_at(lambda tree: tree.latent.likelihood.log_scale, labels, "noise")
        if model.coefficients is not None:
            labels = eqx.tree_at(lambda tree: tree.coefficients, labels, "coefficients")
        return labels

    def _error(self, latent: LatentModel, z: Float[Array, " latent"], curve: Observations) -> Float[Array, ""]:
        if not self.squares:
            return -latent.log_likelihood(z, curve)
        residual = _residual(curve, latent.function(z, curve))
        # The noise learns the size of the errors, the errors know nothing of the noise.
        noise = latent.likelihood.log_density(jax.lax.stop_gradient(residual), jnp.zeros(()))
        return jnp.sum(jnp.square(residual)) - _without_value(jnp.sum(jnp.where(curve.mask, noise, 0.0)))

    def _with_noise_floor(self, latent: LatentModel) -> LatentModel:
        floor = float(np.log(self.smallest_noise))
        return eqx.tree_at(lambda tree: tree.likelihood.log_scale, latent, replace_fn=lambda s: jnp.maximum(s, floor))


def refine(latent: LatentModel, curve: Observations, start: Affine, steps: int) -> Affine:
    """Gauss–Newton steps from the centre of `start` uphill on log p(y, z), and the Gaussian that fits there.

    With F the derivative of the function at the observed points over σ and r the residual over σ, a step goes to
    z + A⁻¹(Fᵀr − z), A = I + FᵀF; steps that are not uphill are not made, and the next is damped (Levenberg–Marquardt).
    In the end the covariance is A⁻¹. Exact where the decoder is linear.
    """
    scale = jnp.sqrt(_variance(latent))
    identity = jnp.eye(start.centre.size)

    def linearised(z):
        def function(z):
            return jnp.where(curve.mask, latent.function(z, curve), 0.0).reshape(-1)

        slope = jax.jacfwd(function)(z) / scale
        residual = _residual(curve, latent.function(z, curve)).reshape(-1) / scale
        return residual @ slope - z, slope

    def step(carry, _):
        z, height, damping = carry
        gradient, slope = linearised(z)
        precision = identity + slope.T @ slope
        damped = precision + damping * jnp.diag(jnp.diagonal(precision))
        proposal = z + jnp.linalg.solve(damped, gradient)
        proposed = latent.log_joint(proposal, curve)
        uphill = proposed > height
        damping = jnp.where(uphill, 0.2 * damping, jnp.maximum(5 * damping, 0.1))
        return (jnp.where(uphill, proposal, z), jnp.where(uphill, proposed, height), damping), None

    first = (start.centre, latent.log_joint(start.centre, curve), jnp.zeros(()))
    (centre, _, _), _ = jax.lax.scan(step, first, length=steps)
    # A = RᵀR with R of [F; I]: in single precision FᵀF itself would drown the prior where the data are precise.
    root = jnp.linalg.qr(jnp.concatenate([linearised(centre)[1], identity]), mode="r")
    root = jnp.sign(jnp.diagonal(root))[:, None] * root
    return Affine(centre, jax.scipy.linalg.solve_triangular(root, identity))


@eqx.filter_jit
def _centres(encoder: Encoder, codes: Code) -> Float[Array, "curves latent"]:
    return jax.vmap(lambda code: encoder(code).centre)(codes)


def log_evidence(
    model: Autoencoder, curves: EncodedCurves, *, refinements: int, samples: int, key: PRNGKeyArray
) -> Float[Array, " curves"]:
    """log of the mean of p(y, z)/q(z) over draws of q: a lower bound, the tighter the more samples."""

    def one(curve, code, key):
        posterior = refine(model.latent, curve, model.encoder(code), refinements)
        draws = jax.random.normal(key, (samples, posterior.centre.size))
        log_weights = jax.vmap(lambda u: model.latent.log_joint(posterior(u), curve) - log_normal(u))(draws)
        return jax.nn.logsumexp(log_weights) - jnp.log(samples) + log_determinant(posterior)

    return curves.observed.each(one, curves.code, jax.random.split(key, len(curves)))


def _without_value(term: Float[Array, ""]) -> Float[Array, ""]:
    """A term that has a gradient but adds nothing."""
    return term - jax.lax.stop_gradient(term)


def log_normal(u: Float[Array, " latent"]) -> Float[Array, ""]:
    """The log-density of N(0, I)."""
    return -0.5 * jnp.sum(jnp.square(u)) - 0.5 * u.size * LOG_2PI


def _divergence(posterior: Affine) -> Float[Array, ""]:
    """KL(N(c, FFᵀ) ‖ N(0, I)) with a triangular F."""
    assert posterior.factor is not None
    squares = jnp.sum(jnp.square(posterior.factor)) + jnp.sum(jnp.square(posterior.centre))
    return 0.5 * (squares - posterior.centre.size) - log_determinant(posterior)


def log_determinant(posterior: Affine) -> Float[Array, ""]:
    """log |det F| of a triangular factor F."""
    assert posterior.factor is not None
    return jnp.sum(jnp.log(jnp.diagonal(posterior.factor)))


def _misfit(curve: Observations, coefficients: Float[Array, " rank"]) -> Float[Array, ""]:
    """Σ(y − m − Φβ)² over the observed values of one curve."""
    return jnp.sum(jnp.square(_residual(curve, jnp.asarray(curve.mean) + curve.features @ coefficients)))


def _residual(curve: Observations, function: Float[Array, "points outputs"]) -> Float[Array, "points outputs"]:
    """y − f, zero where masked."""
    return jnp.where(curve.mask, jnp.where(curve.mask, curve.values, 0.0) - function, 0.0)


def _variance(latent: LatentModel) -> Float[Array, ""]:
    assert isinstance(latent.likelihood, Gaussian)
    return latent.likelihood.variance
