"""Closed forms of a linear generator: y = m + Φ_l z + e^t (Φ_t u + σε), a Gaussian mixture on z, u ~ N(0, I).

The tail u, whatever is beyond the leading coordinates z, is integrated out; what is left of a curve is the likelihood
in information form,

    log p(y | z, t) = −½ e^{−2t} (q − 2hᵀz + zᵀPz) − ½ log det − n (t + ½ log 2π).

The roughness e^t says how far a curve strays from its leading part; t is 0, or normal in every component of the
mixture. Given t a component z = μ + Lv, v ~ N(0, I), has a Gaussian posterior, diagonal in the eigenvectors of LᵀPL
for every t at once; t itself is integrated by quadrature at nodes of each curve's own. All in float64 on the host:
curves that share their points share every factorisation.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from febm.roughness import Roughness, close_in

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

    def take(self, curves: Int[ndarray, " some"] | Bool[ndarray, " curves"]) -> "Projection":
        """Some of the curves, by an index array or a mask."""
        designs, design = np.unique(self.design[curves], return_inverse=True)
        return Projection(
            self.gram[designs], design.reshape(-1), self.moment[curves], self.square[curves], self.size[curves]
        )

    def weigh(self, weights: Float[ndarray, " rank"]) -> "Projection":
        """The statistics on basis functions multiplied by `weights`; those of weight zero are left out."""
        kept = np.flatnonzero(weights)
        weights = weights[kept]
        gram = self.gram[:, kept[:, None], kept] * (weights[:, None] * weights)
        return self._replace(gram=gram, moment=self.moment[:, kept] * weights)


class Information(NamedTuple):
    """The likelihood of the leading coordinates, and what it says of the tail given them."""

    precision: Float[ndarray, "designs leading leading"]  # P
    linear: Float[ndarray, "curves leading"]  # h
    square: Float[ndarray, " curves"]  # q
    log_determinant: Float[ndarray, " curves"]
    size: Int[ndarray, " curves"]  # n
    design: Int[ndarray, " curves"]
    tail_gain: Float[ndarray, "designs tail leading"]  # E[tail weights | z] = tail_mean − tail_gain · z
    tail_mean: Float[ndarray, "curves tail"]
    tail_root: Float[ndarray, "designs tail tail"]  # their covariance = e^{2t} · root · rootᵀ

    @property
    def constant(self) -> Float[ndarray, " curves"]:
        """The log-likelihood of z = 0 where t = 0."""
        return -0.5 * (self.square + self.log_determinant + self.size * LOG_2PI)

    def only(self, curve: int) -> "Information":
        """What is known of one of the curves."""
        here, own = slice(curve, curve + 1), slice(self.design[curve], self.design[curve] + 1)
        return Information(
            precision=self.precision[own],
            linear=self.linear[here],
            square=self.square[here],
            log_determinant=self.log_determinant[here],
            size=self.size[here],
            design=np.zeros(1, dtype=int),
            tail_gain=self.tail_gain[own],
            tail_mean=self.tail_mean[here],
            tail_root=self.tail_root[own],
        )


class Mixture(NamedTuple):
    """Σ_k π_k N(μ_k, L_k L_kᵀ) on the leading coordinates, with the roughness of each component if there is any."""

    log_weights: Float[ndarray, " components"]
    means: Float[ndarray, "components leading"]
    factors: Float[ndarray, "components leading leading"]
    roughness: Roughness | None = None

    @staticmethod
    def standard_normal(leading: int, roughness: float = 0.0) -> "Mixture":
        """One standard normal component, with t ~ N(0, roughness²)."""
        rough = Roughness(np.zeros(1), np.full(1, roughness)) if roughness else None
        return Mixture(np.zeros(1), np.zeros((1, leading)), np.eye(leading)[None], rough)

    @staticmethod
    def mean(mixtures: Sequence["Mixture"]) -> "Mixture":
        """The mean of their densities: a mixture of all components."""
        parts = [mixture.roughness for mixture in mixtures if mixture.roughness is not None]
        rough = Roughness(*map(np.concatenate, zip(*parts, strict=True))) if parts else None
        log_weights, means, factors = (
            np.concatenate(arrays) for arrays in zip(*(m[:3] for m in mixtures), strict=True)
        )
        return Mixture(log_weights - np.log(len(mixtures)), means, factors, rough)

    @property
    def leading(self) -> int:
        """Number of coordinates the mixture is on, t not counted."""
        return self.means.shape[1]

    @property
    def within(self) -> Float[ndarray, "leading leading"]:
        """The mean of the components' covariances."""
        found = np.zeros((self.leading, self.leading))
        for weight, factor in zip(scipy.special.softmax(self.log_weights), self.factors, strict=True):
            found += weight * factor @ factor.T
        return found

    def take(self, components: Int[ndarray, " some"]) -> "Mixture":
        """Some of the components, with the weights that they have."""
        rough = self.roughness and Roughness(self.roughness.means[components], self.roughness.scales[components])
        return Mixture(self.log_weights[components], self.means[components], self.factors[components], rough)


class MixturePosterior(NamedTuple):
    """The exact posterior of z and t: component by component, node by node.

    Given component and node z = μ + G(c/(e^{2t} + Λ) + v), v normal with the variances e^{2t}/(e^{2t} + Λ).
    """

    log_weights: Float[ndarray, "curves components nodes"]  # normalised
    nodes: Float[ndarray, "curves nodes"]  # t
    log_evidence: Float[ndarray, " curves"]
    means: Float[ndarray, "components leading"]  # μ
    axes: Float[ndarray, "designs components leading leading"]  # G
    values: Float[ndarray, "designs components leading"]  # Λ
    slopes: Float[ndarray, "curves components leading"]  # c
    design: Int[ndarray, " curves"]
    is_rough: bool

    @property
    def component_log_weights(self) -> Float[ndarray, "curves components"]:
        """The weights with t integrated out."""
        return scipy.special.logsumexp(self.log_weights, axis=2)

    @property
    def known(self) -> Float[ndarray, " curves"]:
        """How much of the leading coordinates a curve tells, 0 to 1: what is gone of their variances, on average."""
        shares = np.exp(self.log_weights)
        told = np.zeros(len(shares))
        for component in range(shares.shape[1]):
            left = self.variances(component)
            told += np.einsum("cs,cs->c", shares[:, component], 1 - np.mean(left, axis=2))
        return told

    def variances(self, component: int) -> Float[ndarray, "curves nodes leading"]:
        """The variances along the axes of one component at every node."""
        variance, total = self._spread(component)
        return variance / total

    def given(self, component: int) -> tuple[Float[ndarray, "curves nodes leading"], Float[ndarray, "..."]]:
        """Means of z at every node of one component, and the variances along its axes."""
        variance, total = self._spread(component)
        along = self.slopes[:, component][:, None] / total
        axes = np.swapaxes(self.axes[:, component], 1, 2)
        moved = along @ (axes[0] if len(axes) == 1 else axes[self.design])
        return self.means[component] + moved, variance / total

    def _spread(self, component: int) -> tuple[Float[ndarray, "curves nodes 1"], Float[ndarray, "..."]]:
        """e^{2t} and e^{2t} + Λ of one component at every node."""
        variance = np.exp(2 * self.nodes)[:, :, None]
        return variance, variance + self.values[self.design, component][:, None]


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
    tail_moment = _each_design(projection.moment[:, leading:], np.swapaxes(inverse_factor, 1, 2), design)
    precision = (gram[:, :leading, :leading] - np.swapaxes(coupling, 1, 2) @ coupling) / noise_variance
    linear = (projection.moment[:, :leading] - _each_design(tail_moment, coupling, design)) / noise_variance
    log_determinant = 2 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)[design]
    return Information(
        precision=precision,
        linear=linear,
        square=(projection.square - np.sum(tail_moment**2, axis=1)) / noise_variance,
        log_determinant=log_determinant + (projection.size - tail) * np.log(noise_variance),
        size=projection.size,
        design=design,
        tail_gain=np.swapaxes(inverse_factor, 1, 2) @ coupling,
        tail_mean=_each_design(tail_moment, inverse_factor, design),
        tail_root=np.sqrt(noise_variance) * np.swapaxes(inverse_factor, 1, 2),
    )


def condition(
    mixture: Mixture, observed: Information, nodes: Float[ndarray, "curves nodes"] | None = None
) -> MixturePosterior:
    """The posterior of z and t and the log evidence of every curve; `nodes` replace those that would be searched."""
    factors, means, design = mixture.factors, mixture.means, observed.design
    whitened = np.swapaxes(factors, 1, 2) @ observed.precision[:, None] @ factors  # LᵀPL
    values, vectors = np.linalg.eigh(whitened)
    values = np.maximum(values, 0.0)
    pulled = means @ observed.precision  # Pμ, one row per design and component
    slope = (observed.linear[:, None] - pulled[design]).swapaxes(0, 1) @ factors  # one row per component and curve
    if len(vectors) == 1:
        slopes = (slope @ vectors[0]).swapaxes(0, 1)
    else:
        slopes = np.einsum("ckij,kci->ckj", vectors[design], slope)
    at_means = observed.square[:, None] - 2 * observed.linear @ means.T + np.sum(pulled * means, axis=2)[design]

    def log_joint(t):
        """Of every curve and component, at nodes of each curve's own or at one row of nodes for all."""
        variance = np.exp(2 * t)
        common = -0.5 * (observed.log_determinant + observed.size * LOG_2PI)[:, None] - observed.size[:, None] * t
        alike = len(values) == 1 and len(t) == 1
        parts = []
        for k in range(len(means)):
            total = variance[:, :, None] + (values[:, k] if alike else values[design, k])[:, None]
            squares = slopes[:, k] ** 2
            # Products of matrices: sums over so few coordinates are slow.
            explained = squares @ (1 / total[0]).T if alike else ((1 / total) @ squares[:, :, None])[:, :, 0]
            volume = np.log(total) @ np.ones(mixture.leading) - 2 * mixture.leading * t
            part = (
                common
                - 0.5 * np.maximum(at_means[:, k, None] - explained, 0.0) / variance
                - 0.5 * volume
                + mixture.log_weights[k]
            )
            if mixture.roughness is not None:
                mean, scale = mixture.roughness.means[k], mixture.roughness.scales[k]
                part = part - 0.5 * ((t - mean) / scale) ** 2 - np.log(scale) - 0.5 * LOG_2PI
            parts.append(part)
        return np.stack(parts, axis=1)

    if mixture.roughness is None:
        nodes = np.zeros((len(design), 1))
        joint = log_joint(nodes)
    else:
        nodes = close_in(log_joint, mixture.roughness) if nodes is None else nodes
        joint = log_joint(nodes) + np.log(nodes[:, 1] - nodes[:, 0])[:, None, None]
    log_evidence = scipy.special.logsumexp(joint, axis=(1, 2))
    return MixturePosterior(
        log_weights=joint - log_evidence[:, None, None],
        nodes=nodes,
        log_evidence=log_evidence,
        means=means,
        axes=factors @ vectors,
        values=values,
        slopes=slopes,
        design=design,
        is_rough=mixture.roughness is not None,
    )


def most_likely(
    mixture: Mixture, within: Float[ndarray, "leading leading"], observed: Information, number: int
) -> Int[ndarray, " number"]:
    """The components that one curve most likely belongs to, as if all had the covariance `within`.

    Of hundreds of components a few have all of the posterior's weight, and need not be looked for among all in full.
    """
    (precision,), (linear,) = observed.precision, observed.linear
    root = np.linalg.cholesky(within)
    pulled = mixture.means @ precision
    system = np.linalg.cholesky(np.eye(len(root)) + root.T @ precision @ root)
    explained = np.linalg.solve(system, root.T @ (linear - pulled).T)
    scores = mixture.means @ linear - 0.5 * np.sum(pulled * mixture.means, axis=1) + 0.5 * np.sum(explained**2, axis=0)
    return np.argsort(-(scores + mixture.log_weights))[:number]


def growth(known: Float[ndarray, " curves"], caution: float) -> Float[ndarray, " curves"]:
    """The factor 1 + caution · known on posterior variances of leading coordinates.

    What follows from what was learnt from some hundred curves, and the mixture is as sure of it as if from all curves
    there are. Where nothing is known of a curve nothing follows, and samples of the model stay as they are.
    """
    return 1 + caution * known


def posterior_mean(posterior: MixturePosterior, observed: Information) -> Float[ndarray, "curves rank"]:
    """The exact posterior mean of all weights of basis functions."""
    weights = np.exp(posterior.log_weights)
    leading = np.zeros((len(weights), posterior.means.shape[1]))
    for component in range(weights.shape[1]):
        means, _ = posterior.given(component)
        leading += np.einsum("cs,csl->cl", weights[:, component], means)
    return np.concatenate([leading, tail_mean(observed, leading)], axis=1)


def tail_mean(
    observed: Information, leading: Float[ndarray, "curves *draws leading"]
) -> Float[ndarray, "curves *draws tail"]:
    """The mean of the weights of the tail given the leading coordinates."""
    if leading.ndim == 2:
        return observed.tail_mean - _each_design(leading, np.swapaxes(observed.tail_gain, 1, 2), observed.design)
    return observed.tail_mean[:, None] - leading @ np.swapaxes(observed.tail_gain[observed.design], 1, 2)


def draw_leading(
    posterior: MixturePosterior, draws: int, generator: np.random.Generator
) -> Float[ndarray, "curves draws leading"]:
    """Exact draws of z from the mixture posterior, with t as the last coordinate if the mixture is rough."""
    curves, components, nodes = posterior.log_weights.shape
    leading = posterior.means.shape[1]
    cumulative = np.cumsum(np.exp(posterior.log_weights).reshape(curves, -1), axis=1)
    uniform = generator.uniform(size=(curves, draws)) * cumulative[:, -1:]
    chosen = np.stack([np.searchsorted(row, at) for row, at in zip(cumulative, uniform, strict=True)])
    component, node = np.divmod(np.minimum(chosen, components * nodes - 1), nodes)
    t = np.take_along_axis(posterior.nodes, node, axis=1)
    if posterior.is_rough:
        # Between nodes the density is taken as constant.
        t = t + generator.uniform(-0.5, 0.5, t.shape) * (posterior.nodes[:, 1] - posterior.nodes[:, 0])[:, None]
    variance = np.exp(2 * t)[:, :, None]
    drawn = generator.standard_normal((curves, draws, leading))
    for curve, design in enumerate(posterior.design):
        for k in np.unique(component[curve]):
            here = component[curve] == k
            total = variance[curve, here] + posterior.values[design, k]
            along = posterior.slopes[curve, k] / total + np.sqrt(variance[curve, here] / total) * drawn[curve, here]
            drawn[curve, here] = posterior.means[k] + along @ posterior.axes[design, k].T
    return np.concatenate([drawn, t[:, :, None]], axis=2) if posterior.is_rough else drawn


def complete_draws(
    observed: Information,
    leading: Float[ndarray, "curves draws leading"],
    generator: np.random.Generator,
) -> Float[ndarray, "curves draws rank"]:
    """Append exact draws of the tail u to draws of the leading coordinates."""
    size = observed.linear.shape[1]
    mean = tail_mean(observed, leading[..., :size])
    if leading.shape[2] > size:
        mean *= np.exp(-leading[..., size:])
    root = np.swapaxes(observed.tail_root[observed.design], 1, 2)
    return np.concatenate([leading, mean + generator.standard_normal(mean.shape) @ root], axis=2)


def _each_design(
    rows: Float[ndarray, "curves n"], matrices: Float[ndarray, "designs n m"], design: Int[ndarray, " curves"]
) -> Float[ndarray, "curves m"]:
    """Every row times the matrix of its design."""
    if len(matrices) == 1:
        return rows @ matrices[0]
    return np.einsum("cn,cnm->cm", rows, matrices[design])


def _invert_lower(factor: Float[ndarray, "*batch n n"]) -> Float[ndarray, "*batch n n"]:
    if factor.shape[-1] == 0:
        return factor
    return np.tril(np.linalg.solve(factor, np.broadcast_to(np.eye(factor.shape[-1]), factor.shape)))
