"""Kernels: tinygp's algebra (`+`, `*`, scaling) on Euclidean inputs, and their fit by marginal likelihood.

`fit_kernel` maximises Σ_i log N(y_i; m, K(x_i, x_i) + σ²I) over the hyper-parameters of k, over σ² and m.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray
from tinygp.kernels import Constant as Constant
from tinygp.kernels import Kernel as Kernel

from febm.curves import Curves
from febm.marginal_likelihood import as_design, in_float64, log_densities, thinned
from febm.marginal_likelihood import log_likelihoods as log_likelihoods
from febm.precision import float64
from febm.randomness import numpy_generator

Positive: TypeAlias = Array | np.ndarray | float
MEANS = ("zero", "constant")

# The smallest noise variance, as a share of the variance of the data. Gram matrices of smooth kernels are
# singular in floating point; a thousandth of a percent of a standard deviation keeps their factors real.
NOISE_FLOOR = 1e-10

# Positive hyper-parameters, the noise variance too, may move by this factor either way from where they start.
LARGEST_FACTOR = 1e5


def _positive(name: str) -> Any:
    """A field for a positive hyper-parameter, 1 by default: concrete values are checked, traced ones pass."""

    def convert(value: Any) -> Any:
        if isinstance(value, int | float | np.number | list | tuple):
            value = np.asarray(value, dtype=np.float64)
        if isinstance(value, np.ndarray) and not np.all(value > 0):
            raise ValueError(f"{name} must be positive (a number, or one for each input); got {value.tolist()!r}.")
        return value

    return eqx.field(default=1.0, converter=convert)


class Stationary(Kernel):
    """A kernel of the Euclidean distance r = ‖(x − x′)/ℓ‖, with one length scale or one for each input."""

    length_scale: Positive = _positive("length_scale")

    @abstractmethod
    def profile(self, squared_distance: Array) -> Array:
        """The kernel as a function of r²."""

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return self.profile(jnp.sum(jnp.square((X1 - X2) / self.length_scale)))


class Matern12(Stationary):
    """k = exp(−r): rough paths, as of an Ornstein–Uhlenbeck process."""

    def profile(self, squared_distance: Array) -> Array:
        """The kernel as a function of r²."""
        return jnp.exp(-_root(squared_distance))


class Matern32(Stationary):
    """k = (1 + √3 r) exp(−√3 r): paths with one derivative."""

    def profile(self, squared_distance: Array) -> Array:
        """The kernel as a function of r²."""
        r = _root(3.0 * squared_distance)
        return (1.0 + r) * jnp.exp(-r)


class Matern52(Stationary):
    """k = (1 + √5 r + 5r²/3) exp(−√5 r): paths with two derivatives."""

    def profile(self, squared_distance: Array) -> Array:
        """The kernel as a function of r²."""
        r = _root(5.0 * squared_distance)
        return (1.0 + r + jnp.square(r) / 3.0) * jnp.exp(-r)


class Gaussian(Stationary):
    """k = exp(−r²/2): paths with every derivative."""

    def profile(self, squared_distance: Array) -> Array:
        """The kernel as a function of r²."""
        return jnp.exp(-0.5 * squared_distance)


class RationalQuadratic(Stationary):
    """k = (1 + r²/2α)^(−α): Gaussian kernels of many length scales at once."""

    alpha: Positive = _positive("alpha")

    def profile(self, squared_distance: Array) -> Array:
        """The kernel as a function of r²."""
        return (1.0 + 0.5 * squared_distance / self.alpha) ** -self.alpha


class Periodic(Kernel):
    """k = exp(−2 Σ_d sin²(π(x_d − x′_d)/p)/ℓ²): paths that repeat after `period`."""

    period: Positive = _positive("period")
    length_scale: Positive = _positive("length_scale")

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return jnp.exp(-2.0 * jnp.sum(jnp.square(jnp.sin(jnp.pi * (X1 - X2) / self.period) / self.length_scale)))


class Linear(Kernel):
    """k = (x/ℓ)·(x′/ℓ): straight lines through the origin; add a `Constant` for the intercept."""

    length_scale: Positive = _positive("length_scale")

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return jnp.sum((X1 / self.length_scale) * (X2 / self.length_scale))


class FeatureMap(Kernel):
    """k(x, x′) = φ(x)·φ(x′), φ a network: a module that takes one point `(d_x,)` to its features `(k,)`."""

    network: Callable[[Array], Array]

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return jnp.dot(self.network(X1), self.network(X2))


FAMILIES: dict[str, type[Kernel]] = {
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "gaussian": Gaussian,
    "rational_quadratic": RationalQuadratic,
    "periodic": Periodic,
    "linear": Linear,
}


def kernel_from_name(name: str) -> Kernel:
    """The kernel of that name with hyper-parameters 1, such as `kernel_from_name("matern52")`."""
    if name not in FAMILIES:
        raise ValueError(f"kernel: there is no kernel named {name!r}; the names are {', '.join(sorted(FAMILIES))}.")
    return FAMILIES[name]()


def starting_kernel(name: str, curves: Curves) -> Kernel:
    """The kernel of that name, times the variance of the curves, on a fifth of the width of each input."""
    kernel = kernel_from_name(name)
    lower, upper = curves.domain
    widths = np.where(upper > lower, upper - lower, 1.0)
    width = float(np.sqrt(np.mean(widths**2)))
    if isinstance(kernel, Periodic):
        kernel = Periodic(period=width)
    elif isinstance(kernel, Linear):
        kernel = Linear(length_scale=width)
    else:
        kernel = FAMILIES[name](0.2 * width)  # type: ignore[call-arg]
    return Constant(_variance(curves)) * kernel


def kernel_matrix(kernel: Kernel, x1: np.ndarray, x2: np.ndarray | None = None) -> Float[np.ndarray, "rows columns"]:
    """The matrix k(x1, x2) in float64, for `x1 (m, d_x)` and `x2 (l, d_x)`; without `x2`, k(x1, x1)."""
    x2 = x1 if x2 is None else x2
    rows, columns = len(x1), len(x2)
    with float64():
        # Sizes are rounded up to powers of two so that a new number of points seldom means a new compilation.
        points = (jnp.asarray(_pad_rows(x)) for x in (x1, x2))
        matrix = _evaluate(in_float64(kernel), *points)
        return np.array(matrix[:rows, :columns])


class KernelFit(NamedTuple):
    """What `fit_kernel` found.

    Attributes
    ----------
    kernel : the kernel with its fitted hyper-parameters.
    noise_variance : σ².
    mean : `(d_y,)`, the constant mean m of each output.
    log_likelihood : Σ_i log N(y_i; m, K + σ²I) over the curves and points that were used.
    """

    kernel: Kernel
    noise_variance: float
    mean: np.ndarray
    log_likelihood: float


def fit_kernel(
    kernel: Kernel | str,
    curves: Curves,
    *,
    key: PRNGKeyArray,
    noise: float | None = None,
    mean: str = "constant",
    max_curves: int = 128,
    max_points: int = 256,
    max_iterations: int = 200,
) -> KernelFit:
    """Fit the hyper-parameters of `kernel` to `curves` by maximum marginal likelihood.

    Every floating-point value of the kernel is a hyper-parameter. Positive ones move in log space; the
    weights of the network of a `FeatureMap` move freely; other values that are not positive stay as they
    are. Several outputs are independent and share the hyper-parameters.

    Parameters
    ----------
    kernel : a kernel, where the search starts, or a name (then it starts at `starting_kernel`).
    curves : the curves; more than `max_curves`, or of more than `max_points` points, are thinned at random.
    key : the randomness of that thinning.
    noise : the noise variance, held fixed; None fits it.
    mean : "constant" fits one mean for each output (by generalised least squares), "zero" has none.
    max_iterations : the most steps of L-BFGS.
    """
    if mean not in MEANS:
        raise ValueError(f"mean must be 'zero' or 'constant'; got {mean!r}.")
    if noise is not None and not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a variance, a finite number of at least 0, or None to fit it; got {noise!r}.")
    if isinstance(kernel, str):
        kernel = starting_kernel(kernel, curves)
    variance = _variance(curves)
    generator = numpy_generator(key)
    if len(curves) > max_curves:
        curves = curves[np.sort(generator.choice(len(curves), max_curves, replace=False))]
    data = thinned(as_design(curves), max_points, generator)
    count = data.mask.sum() * data.y.shape[2]
    with float64():
        # A plain number is not a hyper-parameter: noise that is given stays.
        level = np.asarray(0.01 * variance) if noise is None else max(float(noise), NOISE_FLOOR * variance)
        start, bounds, build = _parameters((in_float64(kernel), level))

        def log_likelihood(theta: Array) -> tuple[Array, Array]:
            fitted, noise_variance = build(theta)
            terms, constant = log_densities(fitted, noise_variance, data, centred=mean == "constant")
            return jnp.sum(terms), constant

        gradient_of_loss = jax.jit(jax.value_and_grad(lambda theta: -log_likelihood(theta)[0] / count))

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = (np.asarray(part) for part in gradient_of_loss(theta))
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                # A covariance that is not positive definite: a high, flat place for the line search to leave.
                return 1e10, np.zeros_like(theta)
            return float(value), gradient

        options = {"maxiter": max_iterations, "ftol": 1e-10, "gtol": 1e-6}
        theta = start
        if start.size:
            theta = scipy.optimize.minimize(
                objective, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options
            ).x
        fitted, noise_variance = build(theta)
        fitted = jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, fitted)
        value, constant = jax.jit(log_likelihood)(theta)
        return KernelFit(fitted, float(noise_variance), np.array(constant), float(value))


@eqx.filter_jit
def _evaluate(kernel: Kernel, x1: Array, x2: Array) -> Array:
    return kernel(x1, x2)


def _parameters(kernel: Any) -> tuple[np.ndarray, scipy.optimize.Bounds, Callable[[ArrayLike], Any]]:
    """The hyper-parameters as one vector, their bounds, and the way back from a vector to a kernel."""

    def is_map(part: Any) -> bool:
        return isinstance(part, FeatureMap)

    # Inside a feature map every value is a network weight, of either sign.
    signed = jax.tree.map(lambda part: jax.tree.map(lambda _: is_map(part), part), kernel, is_leaf=is_map)
    signs = jax.tree.leaves(signed)
    leaves, structure = jax.tree.flatten(kernel)
    moves = [
        isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 and (sign or bool(np.all(leaf > 0)))
        for leaf, sign in zip(leaves, signs, strict=True)
    ]
    moving = [(leaf, sign) for leaf, sign, move in zip(leaves, signs, moves, strict=True) if move]
    vector, unravel = ravel_pytree([leaf if sign else np.log(leaf) for leaf, sign in moving])
    start = np.asarray(vector, dtype=np.float64)
    reaches = [np.full(leaf.size, np.inf if sign else np.log(LARGEST_FACTOR)) for leaf, sign in moving]
    reach = np.concatenate([np.zeros(0), *reaches])

    def build(theta: ArrayLike) -> Any:
        values = iter(unravel(jnp.asarray(theta)))
        rebuilt = [
            (next(values) if sign else jnp.exp(next(values))) if move else leaf
            for leaf, sign, move in zip(leaves, signs, moves, strict=True)
        ]
        return jax.tree.unflatten(structure, rebuilt)

    return start, scipy.optimize.Bounds(start - reach, start + reach), build


def _root(squared: Array) -> Array:
    """√ with gradient 0 at 0, where two points are the same."""
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


def _variance(curves: Curves) -> float:
    """The variance of the values about the mean of each output; 1 for constant curves."""
    variance = float(np.nanmean(np.square(curves.y - np.nanmean(curves.y, axis=0))))
    return variance if variance > 0 else 1.0


def _pad_rows(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    size = 1 << max(3, (len(x) - 1).bit_length())
    return np.concatenate([x, np.broadcast_to(x[-1:], (size - len(x), x.shape[1]))])
