"""How well a linear model fills gaps: each hidden value given the rest of its curve.

The evidence of a whole curve is mostly about its finest detail, where neighbouring values tell each other; what is said
about a long gap hardly counts in it. Models that are to complete curves are judged by this as well.
"""

from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Bool, Float
from numpy import ndarray

from febm import conjugate
from febm.conjugate import LOG_2PI, Information, Mixture, MixturePosterior, Projection
from febm.observations import Observations

# Shares of the points, half of them at either end, that stay visible.
SHARES = (1 / 4, 1 / 2, 3 / 4)


class Gap(NamedTuple):
    """Curves without the middle part of their points, and that part."""

    context: Projection
    features: Float[ndarray, "values rank"]
    residual: Float[ndarray, "curves values"]
    hidden: Bool[ndarray, "curves values"]

    def weigh(self, weights: Float[ndarray, " rank"]) -> "Gap":
        """The same on basis functions multiplied by `weights`; those of weight zero are left out."""
        kept = np.flatnonzero(weights)
        return self._replace(context=self.context.weigh(weights), features=self.features[:, kept] * weights[kept])


def hide_middles(observed: Observations) -> tuple[Gap, ...]:
    """Curves on a common grid with gaps of three lengths; none where every curve has points of its own."""
    if not observed.shared:
        return ()
    mask = np.asarray(observed.mask)
    points = np.flatnonzero(mask.any(axis=(0, 2)))
    features, residual = np.asarray(observed.features), np.asarray(observed.values) - np.asarray(observed.mean)
    gaps = []
    for share in SHARES:
        end = max(1, round(share * len(points) / 2))
        middle = np.isin(np.arange(mask.shape[1]), points[end : len(points) - end])
        if not middle.any():
            continue
        context = conjugate.project(features, residual, mask & ~middle[:, None])
        gaps.append(
            Gap(
                context,
                features[middle].reshape(-1, features.shape[-1]),
                residual[:, middle].reshape(len(mask), -1),
                mask[:, middle].reshape(len(mask), -1),
            )
        )
    return tuple(gaps)


class Filled(NamedTuple):
    """What a model says of hidden values: a mixture of Gaussians for each, on its own."""

    log_shares: Float[ndarray, "components curves 1"]
    means: Float[ndarray, "components curves values"]
    variances: Float[ndarray, "components curves values"]
    of_leading: Float[ndarray, "components curves values"]  # the part of the variances that leading coordinates have
    known: Float[ndarray, " curves"]  # see `MixturePosterior.known`
    residual: Float[ndarray, "curves values"]  # zero where nothing is hidden
    hidden: Bool[ndarray, "curves values"]

    @property
    def expected(self) -> Float[ndarray, "curves values"]:
        """The mean of every value."""
        return np.sum(np.exp(self.log_shares) * self.means, axis=0)

    def widened(self, caution: float) -> "Filled":
        """The same with the leading coordinates less certain, by `conjugate.growth`."""
        growth = conjugate.growth(self.known, caution)[:, None]
        means = self.expected + np.sqrt(growth) * (self.means - self.expected)
        return self._replace(means=means, variances=self.variances + (growth - 1) * self.of_leading)

    def coverage(self, level: float) -> float:
        """The share of hidden values in their central intervals that should hold `level`."""
        below = scipy.special.ndtr((self.residual - self.means) / np.sqrt(self.variances))
        place = np.sum(np.exp(self.log_shares) * below, axis=0)
        return float(np.mean(np.abs(place - 0.5)[self.hidden] <= level / 2))

    @property
    def log_density(self) -> Float[ndarray, " curves"]:
        """The sum of the log-densities of a curve's hidden values."""
        squares = np.square(self.residual - self.means) / self.variances
        parts = self.log_shares - 0.5 * (squares + np.log(self.variances) + LOG_2PI)
        return np.sum(np.where(self.hidden, scipy.special.logsumexp(parts, axis=0), 0.0), axis=1)

    @property
    def squared_error(self) -> float:
        """The mean square of the hidden values about what is expected of them."""
        return float(np.mean(np.square(self.residual - self.expected)[self.hidden]))


def fill(gap: Gap, noise_variance: float, mixture: Mixture) -> Filled:
    """Predict the hidden values. The roughness of a curve is taken at its posterior mean in every component."""
    leading, tail = gap.features[:, : mixture.leading], gap.features[:, mixture.leading :]
    observed = conjugate.information(gap.context, noise_variance, mixture.leading)
    posterior = conjugate.condition(mixture, observed)
    log_shares = posterior.component_log_weights
    means, of_leading, variances = [], [], []
    for k in range(len(mixture.means)):
        share = np.exp(posterior.log_weights[:, k] - log_shares[:, k, None])
        rough = np.exp(2 * np.sum(share * posterior.nodes, axis=1))
        at_nodes, _ = posterior.given(k)
        scores = np.einsum("cs,csl->cl", share, at_nodes)
        means.append(scores @ leading.T + conjugate.tail_mean(observed, scores) @ tail.T)
        first, rest = _variances(posterior, observed, k, leading, tail, rough)
        of_leading.append(first)
        variances.append(first + rest + rough[:, None] * noise_variance)
    return Filled(
        log_shares.T[:, :, None],
        np.stack(means),
        np.stack(variances),
        np.stack(of_leading),
        posterior.known,
        np.where(gap.hidden, gap.residual, 0.0),
        gap.hidden,
    )


def error_likelihood(gap: Gap, noise_variance: float, mixture: Mixture) -> float:
    """The log-likelihood per curve, but for a constant, of errors that all have one variance.

    Where densities are asked, a few wild curves decide; here an error counts for what it is.
    """
    filled = fill(gap, noise_variance, mixture)
    return -0.5 * float(np.mean(np.sum(filled.hidden, axis=1))) * float(np.log(filled.squared_error))


def _variances(
    posterior: MixturePosterior,
    observed: Information,
    component: int,
    leading: Float[ndarray, "values leading"],
    tail: Float[ndarray, "values tail"],
    rough: Float[ndarray, " curves"],
) -> tuple[Float[ndarray, "curves values"], Float[ndarray, "curves values"]]:
    """Of the functions at the hidden points, given a component and the squared roughness of every curve.

    What the leading coordinates have in them, and what the tail has that is left when those are known.
    """
    first, rest = np.empty((2, len(rough), len(leading)))
    for design in range(len(observed.precision)):
        here = observed.design == design
        along = np.square((leading - tail @ observed.tail_gain[design]) @ posterior.axes[design, component])
        beyond = np.sum(np.square(tail @ observed.tail_root[design]), axis=1)
        uncertain = rough[here, None] / (rough[here, None] + posterior.values[design, component])
        first[here], rest[here] = uncertain @ along.T, rough[here, None] * beyond
    return first, rest
