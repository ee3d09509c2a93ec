"""The base measure: a Gaussian mixture on the leading coordinates, fitted to curves by expectation–maximisation.

The scores of a curve are never observed, only its values; each E-step therefore uses the exact posterior of the scores
given the curve (`conjugate.condition`), so sparse and dense curves count for what they tell.
"""

from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from febm.conjugate import Information, Mixture, MixturePosterior, condition


class Shrinkage(NamedTuple):
    """How a component's covariance is kept from overfitting few curves."""

    pooled: float = 5.0  # pseudo-curves with the covariance pooled over components
    ridge: float = 1e-3  # least variance in any direction; the coordinates have unit variance


def fit_mixture(
    observed: Information,
    components: int,
    *,
    shrinkage: Shrinkage = Shrinkage(),
    iterations: int = 200,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Mixture:
    """Maximise Σ log p(y) over the mixture, starting from k-means on the scores."""
    mixture = _start(observed, components, shrinkage, seed)
    previous = -np.inf
    for _ in range(iterations):
        posterior = condition(mixture, observed)
        evidence = float(np.mean(posterior.log_evidence))
        if evidence - previous < tolerance:
            break
        previous = evidence
        mixture = _maximise(posterior, shrinkage)
    return mixture


def _start(observed: Information, components: int, shrinkage: Shrinkage, seed: int) -> Mixture:
    leading = observed.linear.shape[1]
    posterior = condition(Mixture.standard_normal(leading), observed)
    scores = posterior.means[:, 0]
    if components == 1:
        labels = np.zeros(len(scores), dtype=int)
    else:
        labels = KMeans(components, n_init=4, random_state=seed).fit_predict(scores)
    log_weights = np.log(np.maximum(np.eye(components)[labels], 1e-12))
    spread = posterior._replace(
        log_weights=log_weights,
        means=np.repeat(posterior.means, components, axis=1),
        roots=np.repeat(posterior.roots, components, axis=1),
    )
    return _maximise(spread, shrinkage)


def _maximise(posterior: MixturePosterior, shrinkage: Shrinkage) -> Mixture:
    share = np.exp(posterior.log_weights)
    curves, components, leading = posterior.means.shape
    total = share.sum(axis=0)
    means = np.einsum("ck,ckl->kl", share, posterior.means) / np.maximum(total, 1e-12)[:, None]
    centred = posterior.means - means
    scatter = np.einsum("ck,cki,ckj->kij", share, centred, centred, optimize=True)
    within = np.zeros((posterior.roots.shape[0], components))
    np.add.at(within, posterior.design, share)
    spread = posterior.roots @ np.swapaxes(posterior.roots, 2, 3)
    scatter += np.einsum("dk,dkij->kij", within, spread, optimize=True)
    pooled = scatter.sum(axis=0) / curves
    covariances = (scatter + shrinkage.pooled * pooled) / (total + shrinkage.pooled)[:, None, None]
    covariances += shrinkage.ridge * np.eye(leading)
    return Mixture(np.log((total + 1e-12) / curves), means, np.linalg.cholesky(covariances))
