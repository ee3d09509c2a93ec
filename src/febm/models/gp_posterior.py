"""Gaussian-process posteriors in closed form.

    E f(x) = m(x) + k(x, X) C⁻¹ (y − m(X)),    Var f(x) = k(x, x) − k(x, X) C⁻¹ k(X, x),

with C = K(X, X) + σ²I, and draws by Matheron's rule: f + k(·, X) C⁻¹ (y − f(X) − ε) is a draw of the posterior
if (f, ε) is one of the prior.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import scipy.linalg
from jaxtyping import Float
from numpy import ndarray
from scipy.special import ndtri

from febm.checks import share, whole_number
from febm.curves import Curves
from febm.marginal_likelihood import in_float64, log_likelihoods
from febm.models.base import Posterior, points_of
from febm.models.functions import pair_ids
from febm.models.gp_field import GaussianField
from febm.models.scaled import scale_alike
from febm.precision import float64
from febm.quasiseparable import LONG_CURVE, as_quasiseparable, markov_whitening, smooth
from febm.ragged import bucket
from febm.randomness import RandomState, as_key, numpy_generator
from febm.scaling import Scaling

# Contexts of more points have their posteriors from the O(n) smoother where the kernel has one. For a single curve it
# is the faster way from some 200 points on; curves at the same points share the factor of the other.
LONG_CONTEXT = 500
# Factors of so many entries in all are kept; beyond, they are made again when needed.
KEPT_VALUES = 1 << 25
# Gauss–Hermite nodes for means behind a transform that is not affine.
QUADRATURE = 32


class GaussianPosterior(Posterior):
    """The exact posterior of a Gaussian process with Gaussian noise."""

    def __init__(
        self,
        field: GaussianField,
        curves: Curves,
        scaled: Curves,
        scaling: Scaling,
    ) -> None:
        self.ids = curves.ids
        self._field = field
        self._scaled = scaled
        self._scaling = scaling
        self._scalings = scaling.of_each(curves)
        self._jacobian = scaling.log_jacobian(curves)
        self._solver = Solver(field)

    def mean(self, at: Any) -> Float[ndarray, "curves points outputs"] | Curves:
        """The posterior mean at the points `at`."""
        if self._scaling.is_affine:
            return self._per_curve(at, "mean", lambda i, x: self._scalings[i].invert_values(self._moments(i, x)[0]))
        nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE)

        def mean(i: int, x: ndarray) -> ndarray:
            centre, variance = self._moments(i, x)
            spread = np.sqrt(variance)
            values = [self._scalings[i].invert_values(centre + node * spread) for node in nodes]
            return np.tensordot(weights / weights.sum(), values, axes=1)

        return self._per_curve(at, "mean", mean)

    def variance(self, at: Any, *, noise: bool = False) -> Float[ndarray, "curves points outputs"] | Curves:
        """The posterior variance at the points `at`; `noise` adds that of an observation."""
        if not self._scaling.is_affine:
            raise ValueError(
                "Posterior.variance: the outputs were transformed before the fit, so the variance of their values has "
                "no closed form; use `interval` or `sample`, or scaling='standard'."
            )

        def variance(i: int, x: ndarray) -> ndarray:
            scaling = self._scalings[i]
            slope = scaling.invert_values(np.ones(len(self._field.mean.constant)))
            slope = slope - scaling.invert_values(np.zeros(len(self._field.mean.constant)))
            return self._moments(i, x, noise)[1] * slope**2

        return self._per_curve(at, "variance", variance)

    def sample(self, n: int, at: Any, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """`n` functions for each curve, with ids (curve, draw); the same `random_state` gives the same functions."""
        n = whole_number("Posterior.sample: n", n)
        key = as_key(random_state)
        points = self._points(at, "sample")
        shared = None if isinstance(points, list) else self._field.at(self._scaling.apply_points(points))
        values = []
        for i in range(len(self)):
            function_key, context_key, noise_key = jax.random.split(jax.random.fold_in(key, i), 3)
            x = self._scaling.apply_points(points[i] if isinstance(points, list) else points)
            prior = self._field.draw(n, function_key)
            drawn = prior.values(self._field.at(x) if shared is None else shared)
            context = self._scaled[i]
            scale = np.sqrt(self._field.noise_variance)
            errors = scale * numpy_generator(context_key).standard_normal((n, *context.y.shape))
            errors += prior.values(self._field.at(context.x))
            for output, seen in enumerate(self._solver.seen(context)):
                if len(seen.points):
                    residuals = seen.residual[:, None] - errors[:, seen.rows, output].T
                    drawn[:, :, output] += self._solver.regress(seen.points, residuals, x).T
            drawn += self._field.mean(x)
            if noise:
                drawn += scale * numpy_generator(noise_key).standard_normal(drawn.shape)
            values.append(self._scalings[i].invert_values(drawn))
        ids = pair_ids(self.ids, n)
        if isinstance(points, list):
            xs = [x for x in points for _ in range(n)]
            return Curves.from_arrays(xs, [draw for curve in values for draw in curve], ids=ids)
        return Curves.from_grid(points, np.concatenate(values), ids=ids)

    def interval(self, at: Any, level: float = 0.9, *, noise: bool = False) -> tuple[Any, Any]:
        """Lower and upper end of the central interval that holds `level` of the probability at each point."""
        reach = ndtri((1 + share("Posterior.interval: level", level)) / 2)

        def end(side: float) -> Any:
            def value(i: int, x: ndarray) -> ndarray:
                mean, variance = self._moments(i, x, noise)
                # Every way back to the units of the data rises, so it carries quantiles to quantiles.
                return self._scalings[i].invert_values(mean + side * np.sqrt(variance))

            return self._per_curve(at, "interval", value)

        return end(-reach), end(reach)

    @functools.cached_property
    def log_evidence(self) -> Float[ndarray, " curves"]:
        """log p(observed values) of every curve, in the units of the data."""
        return self._solver.log_evidence(self._scaled) + self._jacobian

    def log_density(self, curves: Curves) -> Float[ndarray, " curves"]:
        """log p(further values | observed ones) of every curve, as the ratio of two evidences."""
        if not isinstance(curves, Curves) or not curves.ids.equals(self.ids):
            raise ValueError(
                f"Posterior.log_density: give Curves with further values of the {len(self.ids)} conditioned curves, "
                "in the same order and with the same ids."
            )
        further, jacobian = scale_alike(self._scaling, self._scalings, curves)
        together = Solver(self._field).log_evidence(self._scaled.merge(further))
        return together + self._jacobian + jacobian - self.log_evidence

    @property
    def diagnostics(self) -> pd.DataFrame:
        """One row for each curve: the method, and how many values were observed."""
        values = np.add.reduceat((~np.isnan(self._scaled.y)).sum(axis=1), self._scaled.offsets[:-1])
        return pd.DataFrame({"method": "exact", "values": values}, index=self.ids)

    def _moments(self, i: int, x: ndarray, noise: bool = False) -> tuple[ndarray, ndarray]:
        """Mean and variance `(m, d_y)` at points without units."""
        mean = self._field.mean(x)
        variance = np.repeat(self._field.variance(x)[:, None], mean.shape[1], axis=1)
        for output, seen in enumerate(self._solver.seen(self._scaled[i])):
            if len(seen.points):
                expected, variance[:, output] = self._solver.moments(seen.points, seen.residual[:, None], x)
                mean[:, output] += expected[:, 0]
        return mean, np.maximum(variance, 0.0) + (self._field.noise_variance if noise else 0.0)

    def _points(self, at: Any, action: str) -> ndarray | list[ndarray]:
        return points_of(at, self._scaling.d_x, len(self), f"Posterior.{action}")

    def _per_curve(self, at: Any, action: str, value: Callable[[int, ndarray], ndarray]) -> Any:
        """`value` of every curve at its points without units; `Curves` in give `Curves` out."""
        points = self._points(at, action)
        if isinstance(points, list):
            values = [value(i, self._scaling.apply_points(own)) for i, own in enumerate(points)]
            return Curves.from_arrays(points, values, ids=self.ids)
        scaled = self._scaling.apply_points(points)
        return np.stack([value(i, scaled) for i in range(len(self))])


class Seen(NamedTuple):
    """The observed values of one output of a curve."""

    rows: ndarray  # which points of the curve
    points: Float[ndarray, "points inputs"]
    residual: Float[ndarray, " points"]  # y − m


class Solver:
    """Regression on the values of curves in scaled units; those at the same points share a factor."""

    def __init__(self, field: GaussianField) -> None:
        self._field = field
        self._factors: dict[bytes, ndarray] = {}
        self._kept = 0

    def seen(self, curve: Curves) -> list[Seen]:
        """What was observed of each output of a single curve."""
        residuals = curve.y - self._field.mean(curve.x)
        rows = [np.flatnonzero(~np.isnan(column)) for column in residuals.T]
        return [Seen(own, curve.x[own], residuals[own, output]) for output, own in enumerate(rows)]

    def regress(self, points: ndarray, columns: ndarray, x: ndarray) -> Float[ndarray, "asked columns"]:
        """k(x, X) C⁻¹ times columns: posterior means of a process of mean zero."""
        if self._is_long(len(points)):
            found = self._smooth(points, columns, x)[0]
            if np.isfinite(found).all():
                return found
        weights = scipy.linalg.cho_solve((self._factor(points), True), columns)
        return self._field.covariance(x, points) @ weights

    def moments(self, points: ndarray, columns: ndarray, x: ndarray) -> tuple[ndarray, Float[ndarray, " asked"]]:
        """The same, and the posterior variances."""
        if self._is_long(len(points)):
            means, variance = self._smooth(points, columns, x)
            if np.isfinite(means).all() and np.isfinite(variance).all():
                return means, variance
        factor = self._factor(points)
        cross = self._field.covariance(points, x)
        explained = np.sum(scipy.linalg.solve_triangular(factor, cross, lower=True) ** 2, axis=0)
        return cross.T @ scipy.linalg.cho_solve((factor, True), columns), self._field.variance(x) - explained

    def log_evidence(self, curves: Curves) -> Float[ndarray, " curves"]:
        """log p(values) of scaled curves: long ones by the O(n) solver where the kernel has one."""
        evidence = np.full(len(curves), np.nan)
        long = np.flatnonzero(curves.lengths > LONG_CURVE)
        if len(long) and self._is_markov:
            chosen = curves[long]
            centred = chosen.replace(y=chosen.y - self._field.mean(chosen.x))
            noise = self._field.noise_variance
            evidence[long] = log_likelihoods(self._field.kernel, centred, noise_variance=noise, whiten=markov_whitening)
        for i in np.flatnonzero(np.isnan(evidence)):
            evidence[i] = sum(self._log_density(seen) for seen in self.seen(curves[int(i)]))
        return evidence

    @functools.cached_property
    def _is_markov(self) -> bool:
        return len(self._field.lower) == 1 and as_quasiseparable(self._field.kernel) is not None

    def _is_long(self, count: int) -> bool:
        return count > LONG_CONTEXT and self._is_markov

    def _smooth(self, points: ndarray, columns: ndarray, x: ndarray) -> tuple[ndarray, ndarray]:
        """Posterior means and variances at `x` in O(n)."""
        count = len(points) + len(x)
        places = np.concatenate([points, x])
        values = np.concatenate([columns, np.zeros((len(x), columns.shape[1]))])
        more = bucket(count, 8) - count  # so that few sizes are ever compiled
        mask = np.arange(count + more) < len(points)
        with float64():
            means, variance = smooth(
                in_float64(self._field.kernel),
                np.asarray(self._field.noise_variance),
                np.pad(places, ((0, more), (0, 0)), mode="edge"),
                mask,
                np.pad(values, ((0, more), (0, 0))),
            )
            return np.array(means[len(points) : count]), np.array(variance[len(points) : count])

    def _log_density(self, seen: Seen) -> float:
        """log N(y; m, C)."""
        if not len(seen.rows):
            return 0.0
        factor = self._factor(seen.points)
        white = scipy.linalg.solve_triangular(factor, seen.residual, lower=True)
        constants = np.sum(np.log(np.diagonal(factor))) + 0.5 * len(white) * np.log(2 * np.pi)
        return float(-0.5 * white @ white - constants)

    def _factor(self, points: ndarray) -> ndarray:
        name = points.tobytes()
        if name not in self._factors:
            factor = _cholesky(self._field.covariance(points), self._field.noise_variance)
            if self._kept + factor.size > KEPT_VALUES:
                return factor
            self._kept += factor.size
            self._factors[name] = factor
        return self._factors[name]


def _cholesky(covariance: ndarray, noise_variance: float) -> ndarray:
    """The factor of K + σ²I; noise that rounding swallows is raised until it does not."""
    size = float(np.mean(np.diagonal(covariance)))
    jitter = 0.0
    while True:
        noisy = covariance + (noise_variance + jitter) * np.eye(len(covariance))
        try:
            return scipy.linalg.cholesky(noisy, lower=True)
        except scipy.linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-14 * size)
            if jitter > size:
                raise
