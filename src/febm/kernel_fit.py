"""Kernels by marginal likelihood: hyper-parameters, noise and mean at the maximum of Σ_i log N(y_i; m, K_i + σ²I)."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from febm.curves import Curves
from febm.kernels import FeatureMap, Kernel, starting_kernel, variance_of
from febm.marginal_likelihood import (
    Design,
    Whitening,
    as_design,
    dense_whitening,
    in_float64,
    log_densities,
    rounded,
    thinned,
)
from febm.precision import float64
from febm.randomness import numpy_generator

MEANS = ("zero", "constant")

# The smallest noise variance, as a share of the variance of the data. Gram matrices of smooth kernels are
# singular in floating point; a thousandth of a percent of a standard deviation keeps their factors real.
NOISE_FLOOR = 1e-10
# The noise that a search starts with, as a share of the variance of the data.
FIRST_NOISE = 0.01
# Positive values, the noise variance too, may move by this factor either way from 1 and from where they start.
LARGEST_FACTOR = 1e5
# Further starts are the likeliest of so many, each value of them within this factor of where the search starts.
TRIALS, TRIAL_FACTOR = 24, 30.0
# Further starts of a search that ended where curves are nothing but noise, and what a value has to gain over that.
FRESH_STARTS, LEAST_GAIN = 2, 1e-6


class KernelFit(NamedTuple):
    """What `fit_kernel` found.

    Attributes
    ----------
    kernel : the kernel with its fitted hyper-parameters.
    noise_variance : σ².
    mean : `(d_y,)`, the constant mean m of each output.
    log_likelihood : Σ_i log N(y_i; m, K + σ²I) over the curves and points that were used.
    values : how many values these are.
    """

    kernel: Kernel
    noise_variance: float
    mean: np.ndarray
    log_likelihood: float
    values: int


def fit_kernel(
    kernel: Kernel | str,
    curves: Curves,
    *,
    key: PRNGKeyArray,
    noise: float | None = None,
    first_noise: float | None = None,
    mean: str = "constant",
    fixed: bool = False,
    starts: int = 1,
    max_curves: int = 128,
    max_points: int = 256,
    max_iterations: int = 200,
    whiten: Whitening = dense_whitening,
) -> KernelFit:
    """Fit the hyper-parameters of `kernel` to `curves` by maximum marginal likelihood.

    Every floating-point value of the kernel is a hyper-parameter. Positive ones move in log space; the
    weights of the network of a `FeatureMap` move freely; other values that are not positive stay as they
    are. Several outputs are independent and share the hyper-parameters.

    Parameters
    ----------
    kernel : a kernel, where the search starts, or a name (then it starts at `starting_kernel`).
    curves : the curves; more than `max_curves`, or of more than `max_points` points, are thinned at random.
    key : the randomness of that thinning, and of further starts.
    noise : the noise variance, held fixed; None fits it.
    first_noise : where the search for the noise variance starts; None: a hundredth of the variance of the curves.
    mean : "constant" fits one mean for each output (by generalised least squares), "zero" has none.
    fixed : whether the kernel is held as it is.
    starts : the search is made from `kernel` and from the likeliest of random places around it, so many in all.
    max_iterations : the most steps of L-BFGS.
    whiten : how covariances are factored.
    """
    if mean not in MEANS:
        raise ValueError(f"mean must be 'zero' or 'constant'; got {mean!r}.")
    if noise is not None and not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a variance, a finite number of at least 0, or None to fit it; got {noise!r}.")
    kernel = starting_kernel(kernel, curves) if isinstance(kernel, str) else kernel
    floor = NOISE_FLOOR * variance_of(curves)
    generator = numpy_generator(key)
    if len(curves) > max_curves:
        curves = curves[np.sort(generator.choice(len(curves), max_curves, replace=False))]
    data = thinned(as_design(curves), max_points, generator)
    level = max(FIRST_NOISE / NOISE_FLOOR * floor if first_noise is None else first_noise, floor)
    given = noise is not None
    first = float(noise) if noise is not None else level

    def search(noise_variance: float) -> KernelFit:
        begun = Search.begin(kernel, noise_variance, fixed=fixed, fixed_noise=given, least_noise=floor)
        centred = mean == "constant"
        return maximise(begun, data, centred, generator, whiten=whiten, starts=starts, max_iterations=max_iterations)

    found = search(first)
    if given and first < floor and not np.isfinite(found.log_likelihood):
        # Rounding leaves no factor of the covariance of smooth paths without noise: a little of it for the search.
        return search(floor)
    return found


class Search(eqx.Module):
    """Kernel and noise as a function of a vector: logarithms of what is positive, and the weights of networks."""

    start: tuple[Kernel, np.ndarray]
    least_noise: np.ndarray
    moves: tuple[bool, ...] = eqx.field(static=True)
    signed: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def begin(
        cls, kernel: Kernel, noise: float, *, fixed: bool = False, fixed_noise: bool = False, least_noise: float = 0.0
    ) -> Search:
        """The search from `kernel` and `noise`, each of which may be held fixed."""
        kernel = in_float64(kernel)

        def is_map(part: Any) -> bool:
            return isinstance(part, FeatureMap)

        # Inside a feature map every value is a network weight, of either sign.
        signed = jax.tree.leaves(
            jax.tree.map(lambda part: jax.tree.map(lambda _: is_map(part), part), kernel, is_leaf=is_map)
        )
        moves = [
            isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 and (sign or bool(np.all(leaf > 0))) and not fixed
            for leaf, sign in zip(jax.tree.leaves(kernel), signed, strict=True)
        ]
        start = (kernel, np.asarray(noise, dtype=np.float64))
        return cls(start, np.asarray(least_noise), (*moves, not fixed_noise), (*signed, False))

    @property
    def vector(self) -> Float[np.ndarray, " values"]:
        """Where the search starts."""
        parts = [np.ravel(leaf if sign else np.log(leaf)) for leaf, sign in self._moving()]
        return np.concatenate([np.zeros(0), *parts])

    @property
    def bounds(self) -> scipy.optimize.Bounds:
        """How far it may go: networks anywhere, what is positive by a large factor from 1 and from the start."""
        reach = np.log(LARGEST_FACTOR)
        free = np.concatenate([np.zeros(0, bool), *(np.full(np.size(leaf), sign) for leaf, sign in self._moving())])
        lower, upper = np.minimum(self.vector, 0.0) - reach, np.maximum(self.vector, 0.0) + reach
        if self.moves[-1] and self.least_noise > 0:
            lower[-1] = max(lower[-1], np.log(self.least_noise))
        return scipy.optimize.Bounds(np.where(free, -np.inf, lower), np.where(free, np.inf, upper))

    def at(self, vector: ArrayLike) -> tuple[Kernel, Array]:
        """Kernel and noise variance."""
        leaves, structure = jax.tree.flatten(self.start)
        vector, position, rebuilt = jnp.asarray(vector), 0, []
        for leaf, move, sign in zip(leaves, self.moves, self.signed, strict=True):
            if move:
                part = vector[position : position + leaf.size].reshape(leaf.shape)
                position += leaf.size
                leaf = part if sign else jnp.exp(part)
            rebuilt.append(leaf)
        return jax.tree.unflatten(structure, rebuilt)

    def _moving(self) -> list[tuple[np.ndarray, bool]]:
        leaves = zip(jax.tree.leaves(self.start), self.moves, self.signed, strict=True)
        return [(leaf, sign) for leaf, move, sign in leaves if move]


def maximise(
    search: Search,
    data: Design,
    centred: bool,
    generator: np.random.Generator,
    *,
    whiten: Whitening = dense_whitening,
    starts: int = 1,
    max_iterations: int = 200,
) -> KernelFit:
    """The likeliest kernel, noise and mean that L-BFGS reaches.

    A search may overshoot to length scales below the distances of all points, where nothing tells it the way back; it
    is then made again from elsewhere.
    """
    count = data.mask.sum() * data.y.shape[2]
    data = rounded(data)
    with float64():

        def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = map(np.asarray, _evaluate(search, vector, data, centred, whiten)[:2])
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                # A covariance that is not positive definite: a high, flat place for the line search to leave.
                return 1e10, np.zeros_like(vector)
            return float(value) / count, gradient / count

        best = search.vector
        if best.size:
            options = {"maxiter": max_iterations, "ftol": 1e-10, "gtol": 1e-6}

            def climb(start: np.ndarray) -> scipy.optimize.OptimizeResult:
                return scipy.optimize.minimize(
                    objective, start, jac=True, bounds=search.bounds, method="L-BFGS-B", options=options
                )

            ends = [climb(best)]
            is_lost = ends[0].fun > _loss_of_noise(data, centred) - LEAST_GAIN
            further = max(starts - 1, FRESH_STARTS if is_lost else 0)
            ends += map(climb, _further_starts(search, objective, further, generator))
            best = min(ends, key=lambda end: end.fun).x
        loss, _, constant, (kernel, noise) = _evaluate(search, best, data, centred, whiten)
        kernel = jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, kernel)
        return KernelFit(kernel, float(noise), np.array(constant), -float(loss), data.values)


def _loss_of_noise(data: Design, centred: bool) -> float:
    """−log-likelihood of a value where all are independent, with the variance that they have; ∞ where that is 0."""
    seen = data.mask[:, :, None] * data.output.sum(axis=2)[:, None]  # empty replicates are of no output
    means = np.zeros(data.output.shape[2])
    if centred:
        counts = np.einsum("dpr,dro->o", seen, data.output)
        means = np.einsum("dpr,dpr,dro->o", seen, data.y, data.output) / np.maximum(counts, 1)
    variance = np.average((data.y - (data.output @ means)[:, None]) ** 2, weights=seen)
    return 0.5 * float(np.log(2 * np.pi * variance) + 1) if variance > 0 else np.inf


def _further_starts(search: Search, objective: Any, count: int, generator: np.random.Generator) -> list[np.ndarray]:
    """The likeliest of random places around the start; none for networks."""
    if count < 1 or any(search.signed):
        return []
    reach = np.log(TRIAL_FACTOR)
    trials = search.vector + generator.uniform(-reach, reach, size=(TRIALS, search.vector.size))
    order = np.argsort([objective(trial)[0] for trial in trials], kind="stable")
    return [trials[i] for i in order[:count]]


def _log_likelihood(
    search: Search, vector: ArrayLike, data: Design, centred: bool, whiten: Whitening
) -> tuple[Array, Array]:
    terms, constant = log_densities(*search.at(vector), data, centred=centred, whiten=whiten)
    return jnp.sum(terms), constant


# Compiled once for kernels of one form and curves of one size, whatever the values.
@eqx.filter_jit
def _evaluate(
    search: Search, vector: ArrayLike, data: Design, centred: bool, whiten: Whitening
) -> tuple[Array, Array, Array, tuple[Kernel, Array]]:
    """−log-likelihood and its gradient, and the mean, the kernel and the noise variance there."""

    def loss(theta: Array) -> tuple[Array, Array]:
        value, constant = _log_likelihood(search, theta, data, centred, whiten)
        return -value, constant

    (value, constant), gradient = jax.value_and_grad(loss, has_aux=True)(jnp.asarray(vector))
    return value, gradient, constant, search.at(vector)
