"""Closed forms of a linear generator: y = m + Φz + ε with a Gaussian mixture on the leading z, N(0, 1) on the tail.

Integrating the tail out leaves the likelihood of the leading coordinates in information form,

    log p(y | z) = c + hᵀz − ½ zᵀPz,

and every mixture component z = μ + Lu, u ~ N(0, I), then has a Gaussian posterior with precision A = I + LᵀPL in u
and the evidence c + hᵀμ − ½ μᵀPμ + ½ bᵀA⁻¹b − ½ log det A, b = Lᵀ(h − Pμ). All in float64 on the host: curves that
share their points share every factorisation.
"""

from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Bool, Float, Int
from numpy import ndarray

LOG_2PI = float(np.log(2 * np.pi))


class Projection(NamedTuple):
    """Curves as a linear model sees them: sufficient statistics, free of the noise variance."""

    gram: Float[ndarray, "designs rank rank"]  # ΦᵀΦ, once per distinct set of observed points
    design: Int[ndarray, " curves"]  # which of them belongs to a curve
    moment: Float[ndarray, "curves rank"]  # Φᵀ(y − m)
    square: Float[ndarray, " curves"]  # ‖y − m‖²
    size: Int[ndarray, " curves"]  # number of observed values

    @property
    def rank(self) -> int:
        """Number of basis functions."""
        return self.moment.shape[1]

    def truncate(self, rank: int) -> "Projection":
        """The statistics on the first `rank` basis functions."""
        return self._replace(gram=self.gram[:, :rank, :rank], moment=self.moment[:, :rank])


class Information(NamedTuple):
    """The likelihood of the leading coordinates, and what it says of the tail given them."""

    precision: Float[ndarray, "designs leading leading"]  # P
    linear: Float[ndarray, "curves leading"]  # h
    constant: Float[ndarray, " curves"]  # c
    design: Int[ndarray, " curves"]
    tail_gain: Float[ndarray, "designs tail leading"]  # E[tail | z] = tail_mean − tail_gain · z
    tail_mean: Float[ndarray, "curves tail"]
    tail_root: Float[ndarray, "designs tail tail"]  # covariance of the tail = root · rootᵀ


class Mixture(NamedTuple):
    """Σ_k π_k N(μ_k, L_k L_kᵀ) on the leading coordinates."""

    log_weights: Float[ndarray, " components"]
    means: Float[ndarray, "components leading"]
    factors: Float[ndarray, "components leading leading"]

    @staticmethod
    def standard_normal(leading: int) -> "Mixture":
        """One standard normal component."""
        return Mixture(np.zeros(1), np.zeros((1, leading)), np.eye(leading)[None])

    @property
    def leading(self) -> int:
        """Number of coordinates the mixture is on."""
        return self.means.shape[1]


class MixturePosterior(NamedTuple):
    """The exact posterior of the leading coordinates, component by component."""

    log_weights: Float[ndarray, "curves components"]  # normalised
    means: Float[ndarray, "curves components leading"]
    roots: Float[ndarray, "designs components leading leading"]  # covariance = root · rootᵀ
    log_evidence: Float[ndarray, " curves"]
    design: Int[ndarray, " curves"]


def project(
    features: Float[ndarray, "*curves points outputs rank"],
    residual: Float[ndarray, "curves points outputs"],
    mask: Bool[ndarray, "curves points outputs"],
) -> Projection:
    """Project curves on a basis; `features` are shared by all curves (three axes) or each curve's own (four)."""
    curves = residual.shape[0]
    rank = features.shape[-1]
    flat_mask = mask.reshape(curves, -1)
    flat_residual = np.where(flat_mask, residual.reshape(curves, -1), 0.0)
    square, size = np.sum(flat_residual**2, axis=1), np.sum(flat_mask, axis=1)
    if features.ndim == 3:
        shared = features.reshape(-1, rank)
        patterns, design = np.unique(flat_mask, axis=0, return_inverse=True)
        gram = np.stack([shared[pattern].T @ shared[pattern] for pattern in patterns])
        moment = flat_residual @ shared
    else:
        own = np.where(flat_mask[..., None], features.reshape(curves, -1, rank), 0.0)
        gram, design = np.swapaxes(own, 1, 2) @ own, np.arange(curves)
        moment = np.einsum("cpr,cp->cr", own, flat_residual)
    return Projection(gram, design.reshape(-1), moment, square, size)


def information(projection: Projection, noise_variance: float, leading: int) -> Information:
    """Integrate the tail out of the likelihood."""
    gram, design = projection.gram, projection.design
    tail = projection.rank - leading
    tail_system = gram[:, leading:, leading:] + noise_variance * np.eye(tail)
    factor = np.linalg.cholesky(tail_system)
    inverse_factor = _invert_lower(factor)
    coupling = inverse_factor @ gram[:, leading:, :leading]
    tail_moment = np.einsum("ctu,cu->ct", inverse_factor[design], projection.moment[:, leading:])
    precision = (gram[:, :leading, :leading] - np.swapaxes(coupling, 1, 2) @ coupling) / noise_variance
    linear = (projection.moment[:, :leading] - np.einsum("ctl,ct->cl", coupling[design], tail_moment)) / noise_variance
    square = (projection.square - np.sum(tail_moment**2, axis=1)) / noise_variance
    log_determinant = 2 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)[design]
    log_determinant = log_determinant + (projection.size - tail) * np.log(noise_variance)
    transposed = np.swapaxes(inverse_factor, 1, 2)
    return Information(
        precision=precision,
        linear=linear,
        constant=-0.5 * (square + log_determinant + projection.size * LOG_2PI),
        design=design,
        tail_gain=transposed @ coupling,
        tail_mean=np.einsum("ctu,cu->ct", transposed[design], tail_moment),
        tail_root=np.sqrt(noise_variance) * transposed,
    )


def condition(mixture: Mixture, observed: Information) -> MixturePosterior:
    """The posterior of the leading coordinates and the log evidence of every curve."""
    factors, means, design = mixture.factors, mixture.means, observed.design
    whitened = np.swapaxes(factors, 1, 2) @ observed.precision[:, None] @ factors  # LᵀPL
    system = whitened + np.eye(mixture.leading)
    inverse_factor = _invert_lower(np.linalg.cholesky(system))
    half_log_determinant = -np.sum(np.log(np.diagonal(inverse_factor, axis1=2, axis2=3)), axis=2)
    pulled = means @ observed.precision  # Pμ, one row per design and component
    slope = np.einsum("kij,cki->ckj", factors, observed.linear[:, None] - pulled[design])
    half_solved = np.einsum("ckij,ckj->cki", inverse_factor[design], slope)
    roots = factors @ np.swapaxes(inverse_factor, 2, 3)
    log_joint = (
        mixture.log_weights
        + observed.constant[:, None]
        + observed.linear @ means.T
        - 0.5 * np.sum(pulled * means, axis=2)[design]
        + 0.5 * np.sum(half_solved**2, axis=2)
        - half_log_determinant[design]
    )
    log_evidence = scipy.special.logsumexp(log_joint, axis=1)
    return MixturePosterior(
        log_weights=log_joint - log_evidence[:, None],
        means=means + np.einsum("ckij,ckj->cki", roots[design], half_solved),
        roots=roots,
        log_evidence=log_evidence,
        design=design,
    )


def posterior_mean(posterior: MixturePosterior, observed: Information) -> Float[ndarray, "curves rank"]:
    """The exact posterior mean of all coordinates."""
    leading = np.einsum("ck,ckl->cl", np.exp(posterior.log_weights), posterior.means)
    return np.concatenate([leading, tail_mean(observed, leading)], axis=1)


def tail_mean(
    observed: Information, leading: Float[ndarray, "curves *draws leading"]
) -> Float[ndarray, "curves *draws tail"]:
    """The mean of the tail given the leading coordinates."""
    gain = observed.tail_gain[observed.design]
    if leading.ndim == 2:
        return observed.tail_mean - np.einsum("ctl,cl->ct", gain, leading)
    return observed.tail_mean[:, None] - leading @ np.swapaxes(gain, 1, 2)


def draw_leading(
    posterior: MixturePosterior, draws: int, generator: np.random.Generator
) -> Float[ndarray, "curves draws leading"]:
    """Exact draws of the leading coordinates from the mixture posterior."""
    curves, _, leading = posterior.means.shape
    cumulative = np.cumsum(np.exp(posterior.log_weights), axis=1)
    uniform = generator.uniform(size=(curves, draws)) * cumulative[:, -1:]
    chosen = np.sum(uniform[:, :, None] > cumulative[:, None, :-1], axis=2)
    drawn = generator.standard_normal((curves, draws, leading))
    for curve, design in enumerate(posterior.design):
        for component in np.unique(chosen[curve]):
            here = chosen[curve] == component
            root = posterior.roots[design, component]
            drawn[curve, here] = posterior.means[curve, component] + drawn[curve, here] @ root.T
    return drawn


def complete_draws(
    observed: Information,
    leading: Float[ndarray, "curves draws leading"],
    generator: np.random.Generator,
) -> Float[ndarray, "curves draws rank"]:
    """Append exact draws of the tail to draws of the leading coordinates."""
    mean = tail_mean(observed, leading)
    root = np.swapaxes(observed.tail_root[observed.design], 1, 2)
    return np.concatenate([leading, mean + generator.standard_normal(mean.shape) @ root], axis=2)


def _invert_lower(factor: Float[ndarray, "*batch n n"]) -> Float[ndarray, "*batch n n"]:
    if factor.shape[-1] == 0:
        return factor
    return np.tril(np.linalg.solve(factor, np.broadcast_to(np.eye(factor.shape[-1]), factor.shape)))
