"""A Gaussian process whose every answer is known exactly, to hold yardsticks against; and ways to make it wrong."""

import numpy as np
import pandas as pd
from scipy.stats import multivariate_normal, norm

from febm.curves import Curves
from febm.evaluation.splits import split
from febm.models.base import Posterior, Process, points_of
from febm.randomness import as_key, numpy_generator

GRID = np.linspace(0, 1, 12)


class ClosedFormProcess(Process):
    """f ~ GP(0, exp(−½‖x − x'‖²/ℓ²)), one for each output, y = f + N(0, noise²).

    `shift` (in standard deviations of an observation) and `inflation` make its predictions wrong in mean and in spread.
    `density` is where log p(target | context) comes from: the "posterior", two "evidences", or "nowhere".
    """

    def __init__(self, lengthscale=0.3, noise=0.2, outputs=1, shift=0.0, inflation=1.0, density="posterior"):
        self.lengthscale = lengthscale
        self.noise = noise
        self.outputs = outputs
        self.shift = shift
        self.inflation = inflation
        self.density = density

    def fit(self, curves, y=None):
        return self

    def kernel(self, a, b):
        return np.exp(-0.5 * np.sum((a[:, None] - b[None]) ** 2, axis=-1) / self.lengthscale**2)

    def sample(self, n, at=None, *, noise=False, random_state=None):
        points = np.asarray(at, dtype=float).reshape(len(at), -1)
        generator = numpy_generator(as_key(random_state))
        root = square_root(self.kernel(points, points))
        values = np.einsum("pq,nqo->npo", root, generator.normal(size=(n, len(points), self.outputs)))
        if noise:
            values = values + self.noise * generator.normal(size=values.shape)
        return Curves.from_grid(points, values)

    def condition(self, curves, *, random_state=None):
        return ClosedFormPosterior(self, curves)

    def __sklearn_is_fitted__(self):
        return True


class ClosedFormPosterior(Posterior):
    def __init__(self, process, curves):
        self._process = process
        self._curves = list(curves)
        self.ids = curves.ids

    def moments(self, i, points, *, noise):
        """Mean (points, outputs) and covariances (outputs, points, points) of curve i, wrong where asked to be."""
        process, curve = self._process, self._curves[i]
        means, covariances = [], []
        for values in curve.y.T:
            x, y = curve.x[~np.isnan(values)], values[~np.isnan(values)]
            gram = process.kernel(x, x) + process.noise**2 * np.eye(len(x))
            cross = process.kernel(points, x)
            covariance = process.kernel(points, points) - cross @ np.linalg.solve(gram, cross.T)
            observed_sd = np.sqrt(np.diag(covariance) + process.noise**2)
            means.append(cross @ np.linalg.solve(gram, y) + process.shift * observed_sd)
            noisy = covariance + (process.noise**2 if noise else 0.0) * np.eye(len(points))
            covariances.append(process.inflation**2 * noisy)
        return np.stack(means, axis=1), np.stack(covariances)

    def mean(self, at):
        return self._shaped([self.moments(i, x, noise=False)[0] for i, x in enumerate(self._points(at))], at)

    def sample(self, n, at, *, noise=False, random_state=None):
        generator = numpy_generator(as_key(random_state))
        xs, ys, ids = [], [], []
        for i, x in enumerate(self._points(at)):
            mean, covariances = self.moments(i, x, noise=noise)
            roots = np.stack([square_root(covariance) for covariance in covariances])
            values = mean + np.einsum("opq,nqo->npo", roots, generator.normal(size=(n, *mean.shape)))
            xs += [x] * n
            ys += list(values)
            ids += [(self.ids[i], draw) for draw in range(n)]
        return Curves.from_arrays(xs, ys, ids=pd.MultiIndex.from_tuples(ids, names=["curve", "draw"]))

    def interval(self, at, level=0.9, *, noise=False):
        ends = []
        for i, x in enumerate(self._points(at)):
            mean, covariances = self.moments(i, x, noise=noise)
            sd = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)).T
            ends.append((mean - norm.ppf((1 + level) / 2) * sd, mean + norm.ppf((1 + level) / 2) * sd))
        return self._shaped([end[0] for end in ends], at), self._shaped([end[1] for end in ends], at)

    def log_density(self, curves):
        if self._process.density != "posterior":
            raise NotImplementedError("no density here")
        return np.array([self._log_density(i, curve) for i, curve in enumerate(curves)])

    def _log_density(self, i, curve):
        mean, covariances = self.moments(i, curve.x, noise=True)
        total = 0.0
        for y, m, covariance in zip(curve.y.T, mean.T, covariances, strict=True):
            seen = ~np.isnan(y)
            if seen.any():
                total += multivariate_normal.logpdf(y[seen], m[seen], covariance[np.ix_(seen, seen)])
        return total

    @property
    def log_evidence(self):
        if self._process.density == "nowhere":
            raise NotImplementedError("no evidence either")
        return np.array([self._evidence(curve) for curve in self._curves])

    def _evidence(self, curve):
        total = 0.0
        for values in curve.y.T:
            x, y = curve.x[~np.isnan(values)], values[~np.isnan(values)]
            if len(x):
                gram = self._process.kernel(x, x) + self._process.noise**2 * np.eye(len(x))
                total += multivariate_normal.logpdf(y, np.zeros(len(x)), gram)
        return total

    @property
    def diagnostics(self):
        return pd.DataFrame({"method": "closed form"}, index=self.ids)

    def _points(self, at):
        points = points_of(at, self._curves[0].d_x, len(self.ids), "ClosedFormPosterior")
        return points if isinstance(points, list) else [points] * len(self.ids)

    def _shaped(self, values, at):
        return (
            Curves.from_arrays(self._points(at), values, ids=self.ids) if isinstance(at, Curves) else np.stack(values)
        )


def observed_in_part(process, curves, random_state=0):
    """Noisy samples of a process on `GRID`: a third of the points of each, and the others."""
    sampled = process.sample(curves, GRID, noise=True, random_state=random_state)
    return split(sampled, "random", 1 / 3, random_state=random_state)


def square_root(covariance):
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0))
