"""How well a linear model fills gaps: the density of each hidden value given the rest of its curve.

The evidence of a whole curve is mostly about its finest detail, where neighbouring values tell each other; what is said
about a long gap hardly counts in it. Models that are to complete curves are judged by this as well.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from febm import conjugate
from febm.conjugate import LOG_2PI, Mixture, Projection
from febm.observations import Observations

# Shares of the points, half of them at either end, that stay visible.
SHARES = (1 / 4, 1 / 2, 3 / 4)


class Gap(NamedTuple):
    """Curves without the middle part of their points, and that part."""

    context: Projection
    features: Float[ndarray, "values rank"]
    residual: Float[ndarray, "curves values"]
    hidden: Bool[ndarray, "curves values"]


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


def log_density(
    gap: Gap, weights: Float[ndarray, " rank"], noise_variance: float, mixture: Mixture
) -> Float[ndarray, " curves"]:
    """The sum of the log-densities of a curve's hidden values, one by one, under a single component.

    The roughness of a curve is taken at its posterior mean.
    """
    kept = np.flatnonzero(weights)
    features = gap.features[:, kept] * weights[kept]
    observed = conjugate.information(gap.context.weigh(weights), noise_variance, mixture.leading)
    posterior = conjugate.condition(mixture, observed)
    rough = np.exp(2 * np.sum(np.exp(posterior.log_weights[:, 0]) * posterior.nodes, axis=1))
    mean = conjugate.posterior_mean(posterior, observed) @ features.T
    leading, tail = features[:, : mixture.leading], features[:, mixture.leading :]
    variance = np.empty_like(mean)
    for design in range(len(observed.precision)):
        here = observed.design == design
        along = np.square((leading - tail @ observed.tail_gain[design]) @ posterior.axes[design, 0])
        beyond = np.sum(np.square(tail @ observed.tail_root[design]), axis=1) + noise_variance
        uncertain = rough[here, None] / (rough[here, None] + posterior.values[design, 0])
        variance[here] = uncertain @ along.T + rough[here, None] * beyond
    values = np.square(np.where(gap.hidden, gap.residual, 0.0) - mean) / variance + np.log(variance) + LOG_2PI
    return -0.5 * np.sum(np.where(gap.hidden, values, 0.0), axis=1)
