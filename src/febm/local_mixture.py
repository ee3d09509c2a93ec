"""The base measure of very many curves: some hundred Gaussians, each of the curves around a centre of its own.

Each has a covariance of all coordinates. A component has fewer curves than it has coordinates, so its covariance is
drawn towards that of its group, the components around it; how far is said by curves that were held out.
"""

from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from sklearn.cluster import KMeans, MiniBatchKMeans

from febm.conjugate import LOG_2PI, Mixture

CURVES_PER_COMPONENT, MOST_COMPONENTS = 150, 400
COMPONENTS_PER_GROUP = 20
# Centres are told apart by this many of the largest coordinates.
COORDINATES_TO_CLUSTER = 64
# Pseudo-curves with the covariance of the group that are tried for a component, and with that of all for a group.
PSEUDO_CURVES = (10.0, 30.0, 80.0)
PSEUDO_CURVES_OF_GROUPS = 500.0
LEAST_VARIANCE = 1e-6
MOST_HELD_OUT = 2000


class Clusters(NamedTuple):
    """The component of every curve, and the group of every component."""

    component: Int[ndarray, " curves"]
    group: Int[ndarray, " components"]


class LocalFit(NamedTuple):
    """A mixture of all curves, and what held-out curves say of one of the others with the same settings."""

    mixture: Mixture
    pseudo_curves: float
    evidence: float  # held-out nats per curve


def fit_local(
    scores: Float[ndarray, "curves coordinates"],
    sizes: Float[ndarray, " coordinates"],
    held_out: Bool[ndarray, " curves"],
    components: int | None = None,
) -> LocalFit:
    """The mixture of scores; `sizes` are the standard deviations that make distances of them, largest first."""
    number = components or int(np.clip(len(scores) // CURVES_PER_COMPONENT, 1, MOST_COMPONENTS))
    clusters = _cluster(scores, sizes, number)
    judges = scores[held_out][:MOST_HELD_OUT]
    tried = []
    for pseudo_curves in PSEUDO_CURVES:
        mixture = _estimate(scores[~held_out], Clusters(clusters.component[~held_out], clusters.group), pseudo_curves)
        tried.append((float(np.mean(_log_density(mixture, judges))), pseudo_curves))
    evidence, pseudo_curves = max(tried)
    return LocalFit(_estimate(scores, clusters, pseudo_curves), pseudo_curves, evidence)


def _cluster(scores: ndarray, sizes: ndarray, components: int) -> Clusters:
    seen = (scores[:, :COORDINATES_TO_CLUSTER] * sizes[:COORDINATES_TO_CLUSTER]).astype(np.float32)
    found = MiniBatchKMeans(components, n_init=1, batch_size=8192, random_state=0).fit(seen)
    component = found.predict(seen)
    # A centre without curves is none.
    used, component = np.unique(component, return_inverse=True)
    centres, curves = found.cluster_centers_[used], np.bincount(component)
    groups = -(-len(used) // COMPONENTS_PER_GROUP)
    grouped = KMeans(groups, n_init=4, random_state=0).fit(centres, sample_weight=curves)
    return Clusters(component.reshape(-1), grouped.labels_)


def _estimate(scores: ndarray, clusters: Clusters, pseudo_curves: float) -> Mixture:
    """Means and covariances; a component without curves is left out."""
    component, group = clusters
    curves = np.bincount(component, minlength=len(group))
    coordinates = scores.shape[1]
    means = np.zeros((len(group), coordinates))
    np.add.at(means, component, scores)
    means /= np.maximum(curves, 1)[:, None]
    scatter = np.zeros((len(group), coordinates, coordinates))
    order = np.argsort(component, kind="stable")
    for k, own in enumerate(np.split(order, np.cumsum(curves)[:-1])):
        centred = scores[own] - means[k]
        scatter[k] = centred.T @ centred
    within = scatter.sum(axis=0) / len(scores)
    for g in range(group.max() + 1):
        here = group == g
        of_group = scatter[here].sum(axis=0) + PSEUDO_CURVES_OF_GROUPS * within
        of_group /= curves[here].sum() + PSEUDO_CURVES_OF_GROUPS
        scatter[here] += pseudo_curves * of_group
    scatter /= (curves + pseudo_curves)[:, None, None]
    scatter += LEAST_VARIANCE * np.eye(coordinates)
    used = curves > 0
    log_weights = np.log(curves[used] / len(scores))
    return Mixture(log_weights, means[used], np.linalg.cholesky(scatter[used]))


def _log_density(mixture: Mixture, scores: ndarray) -> Float[ndarray, " curves"]:
    parts = np.empty((len(mixture.means), len(scores)))
    for k, (mean, factor) in enumerate(zip(mixture.means, mixture.factors, strict=True)):
        white = np.linalg.solve(factor, (scores - mean).T)
        parts[k] = mixture.log_weights[k] - 0.5 * np.sum(white**2, axis=0) - np.sum(np.log(np.diagonal(factor)))
    return scipy.special.logsumexp(parts, axis=0) - 0.5 * scores.shape[1] * LOG_2PI
