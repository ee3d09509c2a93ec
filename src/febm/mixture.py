"""The base measure: a Gaussian mixture on the leading coordinates, fitted to curves by expectation–maximisation.

The scores of a curve are never observed, only its values; each E-step therefore uses the exact posterior of the scores
given the curve (`conjugate.condition`), so sparse and dense curves count for what they tell. The same holds for the
roughness of a curve, where the base measure has one.
"""

from typing import NamedTuple

import numpy as np
import scipy.special
from sklearn.cluster import KMeans

from febm.conjugate import Information, Mixture, MixturePosterior, condition
from febm.roughness import Roughness

# The quadrature over the roughness of a curve: some of its nodes do for fitting, and follow the mixture now and then.
SOME_NODES = slice(4, 13, 2)
NODES_KEPT = 10
LEAST_ROUGHNESS = 0.02
# Variance that the means of components leave to these, however far apart they are; coordinates have unit variance.
LEAST_LEFT = 0.05


class Shrinkage(NamedTuple):
    """How a component's covariance is kept from overfitting few curves."""

    pooled: float = 5.0  # pseudo-curves with the covariance pooled over components
    ridge: float = 1e-3  # least variance in any direction; the coordinates have unit variance
    basis: float = 0.0  # share of what the basis says of the covariance: that of all components together is I


def fit_mixture(
    observed: Information,
    components: int,
    *,
    roughness: float = 0.0,
    shrinkage: Shrinkage = Shrinkage(),
    iterations: int = 200,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> Mixture:
    """Maximise Σ log p(y) over the mixture, starting from k-means on the scores.

    `roughness` is where the scale of t starts; with 0 there is no t.
    """
    mixture = _start(observed, components, roughness, shrinkage, seed)
    previous, nodes = -np.inf, None
    for iteration in range(iterations):
        if roughness and iteration % NODES_KEPT == 0:
            previous, nodes = -np.inf, condition(mixture, observed).nodes[:, SOME_NODES]
        posterior = condition(mixture, observed, nodes)
        evidence = float(np.mean(posterior.log_evidence))
        # Where components are drawn to the basis, steps may also go down.
        if abs(evidence - previous) < tolerance:
            break
        previous = evidence
        mixture = _maximise(posterior, shrinkage)
    return mixture


def _start(observed: Information, components: int, roughness: float, shrinkage: Shrinkage, seed: int) -> Mixture:
    leading = observed.linear.shape[1]
    posterior = condition(Mixture.standard_normal(leading, roughness), observed)
    means, _ = posterior.given(0)
    scores = np.einsum("cs,csl->cl", np.exp(posterior.log_weights[:, 0]), means)
    if components == 1:
        labels = np.zeros(len(scores), dtype=int)
    else:
        labels = KMeans(components, n_init=4, random_state=seed).fit_predict(scores)
    log_shares = np.log(np.maximum(np.eye(components)[labels], 1e-12))
    spread = posterior._replace(
        log_weights=posterior.log_weights + log_shares[:, :, None],
        means=np.repeat(posterior.means, components, axis=0),
        axes=np.repeat(posterior.axes, components, axis=1),
        values=np.repeat(posterior.values, components, axis=1),
        slopes=np.repeat(posterior.slopes, components, axis=1),
    )
    return _maximise(spread, shrinkage)


def _maximise(posterior: MixturePosterior, shrinkage: Shrinkage) -> Mixture:
    share = np.exp(posterior.log_weights)
    curves, components, _ = share.shape
    leading = posterior.means.shape[1]
    total = share.sum(axis=(0, 2))
    means = np.zeros((components, leading))
    scatter = np.zeros((components, leading, leading))
    for k in range(components):
        located, variances = posterior.given(k)
        weights = share[:, k].reshape(-1)
        flat = located.reshape(-1, leading)
        means[k] = weights @ flat / max(total[k], 1e-12)
        centred = flat - means[k]
        scatter[k] = (weights[:, None] * centred).T @ centred
        within = np.zeros((len(posterior.axes), leading))
        np.add.at(within, posterior.design, np.einsum("cs,csl->cl", share[:, k], variances))
        axes = posterior.axes[:, k]
        scatter[k] += np.einsum("dij,dj,dlj->il", axes, within, axes, optimize=True)
    pooled = scatter.sum(axis=0) / curves
    covariances = (scatter + shrinkage.pooled * pooled) / (total + shrinkage.pooled)[:, None, None]
    covariances += shrinkage.ridge * np.eye(leading)
    log_weights = np.log((total + 1e-12) / curves)
    roughness = _roughness(posterior, share, total, shrinkage.pooled) if posterior.is_rough else None
    mixture = Mixture(log_weights, means, np.linalg.cholesky(covariances), roughness)
    return _towards_unit(mixture, shrinkage.basis) if shrinkage.basis else mixture


def _towards_unit(mixture: Mixture, share: float) -> Mixture:
    """Map all components alike about their means, so that the mean of their covariances goes this far to its place.

    There the whole mixture would have the covariance I, with what the means leave of it in every component.
    """
    weights = scipy.special.softmax(mixture.log_weights)
    left = np.eye(mixture.leading) - (weights * mixture.means.T) @ mixture.means
    values, vectors = np.linalg.eigh(left)
    goal = (1 - share) * mixture.within + share * (vectors * np.maximum(values, LEAST_LEFT)) @ vectors.T
    root = np.linalg.cholesky(goal) @ np.linalg.inv(np.linalg.cholesky(mixture.within))
    return mixture._replace(factors=root @ mixture.factors)


def _roughness(posterior: MixturePosterior, share: np.ndarray, total: np.ndarray, pooled: float) -> Roughness:
    curves = len(share)
    everywhere = np.einsum("cks,cs->", share, posterior.nodes) / curves
    means = (np.einsum("cks,cs->k", share, posterior.nodes) + pooled * everywhere) / (total + pooled)
    squares = (posterior.nodes[:, None] - means[:, None]) ** 2
    scatter = np.einsum("cks,cks->k", share, squares)
    variances = (scatter + pooled * scatter.sum() / curves) / (total + pooled)
    return Roughness(means, np.sqrt(np.maximum(variances, LEAST_ROUGHNESS**2)))
