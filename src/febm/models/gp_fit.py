"""The kernel and the noise of a Gaussian process, by the marginal likelihood of all curves.

A kernel given by name stands beside a level that each curve has for itself,

    k(x, x′) = v [ρ + (1 − ρ) κ(x, x′)],    κ(x, x) = 1.

The variance v is that of the curves about their mean, or is fitted with the rest. Where curves are smoother than κ can
be, the likelihood takes long length scales and buys them with a large v: such a process predicts well, but its own
paths are many times as wide as the curves.
"""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from tinygp.kernels import Kernel

from febm.curves import Curves
from febm.kernel_fit import KernelFit, fit_kernel
from febm.kernels import (
    Constant,
    Correlation,
    Linear,
    Polynomial,
    log_likelihoods,
    split_noise,
    starting_kernel,
)
from febm.precision import float64
from febm.quasiseparable import LONG_CURVE, as_quasiseparable, markov_whitening
from febm.randomness import numpy_generator

# A kernel given by name starts from the likeliest of these multiples of a fifth of the domain and shares of the level,
# as a part of the curves see them, with the noise that a fit starts with.
LENGTHS, LEVELS, NOISE = (0.1, 0.3, 1.0, 3.0), (0.1, 0.9), 0.01
TRIAL_CURVES, TRIAL_POINTS = 32, 64
# Points of a curve that the dense likelihood sees, and curves × points³ and curves × points² that it may cost.
MOST_POINTS, WORK, MEMORY = 256, 2e9, 3e7
# Values that the O(n) likelihood sees.
MOST_VALUES = 2_000_000
# A kernel that is given is searched from so many places, where curves × points³, or values, are no more than these.
STARTS, RESTART_WORK, RESTART_VALUES = 3, 1e7, 5000
# Noise of more than this share of the variance is taken off the variance before a second fit.
MUCH_NOISE = 0.02


def fit_named(
    name: str, curves: Curves, *, noise: float | None, mean: str, free_variance: bool, key: PRNGKeyArray
) -> KernelFit:
    """The kernel of that name beside a level, with the variance of the curves or a free one."""
    constant = np.nanmean(curves.y, axis=0) if mean == "constant" else 0.0
    variance = float(np.nanmean((curves.y - constant) ** 2)) or 1.0
    start = _likeliest_start(name, curves.replace(y=(curves.y - constant) / np.sqrt(variance)), key)
    if free_variance or isinstance(start, Linear | Polynomial):
        return fit_free(_times(variance, start), curves, noise=noise, mean=mean, key=key)
    own = variance if noise is None else max(variance - noise, 1e-3 * variance)
    found = _fit_unit(start, own, curves, noise, mean, key)
    if noise is None and found.noise_variance > MUCH_NOISE * variance:
        own = max(variance - found.noise_variance, 1e-3 * variance)
        found = _fit_unit(start, own, curves, noise, mean, key)
    return found


def fit_given(
    kernel: Kernel, curves: Curves, *, noise: float | None, mean: str, fixed: bool, key: PRNGKeyArray
) -> KernelFit:
    """The kernel that is given, held fixed or from where it stands; its white noise is that of the observations."""
    kernel, white = split_noise(kernel)
    if white is not None and fixed:
        noise = white
    return fit_free(kernel, curves, noise=noise, first_noise=white, mean=mean, fixed=fixed, starts=STARTS, key=key)


def fit_free(
    kernel: Kernel,
    curves: Curves,
    *,
    noise: float | None,
    mean: str,
    key: PRNGKeyArray,
    first_noise: float | None = None,
    fixed: bool = False,
    starts: int = 1,
) -> KernelFit:
    """All hyper-parameters by marginal likelihood: of all points of long curves too, where k has an O(n) solver."""
    longest = int(curves.lengths.max())
    fit = functools.partial(
        fit_kernel, kernel, curves, key=key, noise=noise, first_noise=first_noise, mean=mean, fixed=fixed
    )
    if longest > LONG_CURVE and curves.d_x == 1 and as_quasiseparable(kernel) is not None:
        few = len(curves) * longest <= RESTART_VALUES
        most = max(1, MOST_VALUES // longest)
        found = fit(starts=starts if few else 1, max_curves=most, max_points=longest, whiten=markov_whitening)
        if np.isfinite(found.log_likelihood):
            return found
    points = min(longest, MOST_POINTS)
    most = max(128, int(min(WORK / points**3, MEMORY / points**2)))
    factors = min(len(curves), most)
    if curves.common_points is not None and not np.isnan(curves.y).any():
        most, factors = len(curves), 1
    few = factors * points**3 <= RESTART_WORK
    return fit(starts=starts if few else 1, max_curves=most, max_points=points)


def _fit_unit(
    start: Kernel, variance: float, curves: Curves, noise: float | None, mean: str, key: PRNGKeyArray
) -> KernelFit:
    """The fit of variance `variance`, as one of unit variance to curves without units."""
    scale = np.sqrt(variance)
    unit = curves.replace(y=curves.y / scale)
    found = fit_free(Correlation(start), unit, noise=None if noise is None else noise / variance, mean=mean, key=key)
    inner: Any = found.kernel
    # Constants again: the kernel that is kept is a plain sum.
    with float64():
        size = float(inner.kernel.evaluate_diag(jnp.zeros(curves.d_x)))
    return KernelFit(
        _times(variance / size, inner.kernel),
        found.noise_variance * variance,
        found.mean * scale,
        found.log_likelihood - found.values * np.log(scale),
        found.values,
    )


def _likeliest_start(name: str, curves: Curves, key: PRNGKeyArray) -> Kernel:
    """ρ + (1 − ρ) κ for curves of unit variance."""
    first: Any = starting_kernel(name, curves)
    shape = first.kernel2
    if isinstance(shape, Linear | Polynomial):
        return shape
    if curves.d_x > 1 and np.size(shape.length_scale) == 1:  # a length for each input
        shape = eqx.tree_at(lambda kernel: kernel.length_scale, shape, np.full(curves.d_x, float(shape.length_scale)))
    generator = numpy_generator(key)
    part = curves[np.sort(generator.permutation(len(curves))[:TRIAL_CURVES])]
    if part.lengths.max() > TRIAL_POINTS:
        part = part.select(np.concatenate([_spread(length) for length in part.lengths]))
    starts = [
        Constant(level) + Constant(1 - level) * _with_length(shape, factor) for factor in LENGTHS for level in LEVELS
    ]
    scores = [np.nan_to_num(log_likelihoods(start, part, noise_variance=NOISE).sum(), nan=-np.inf) for start in starts]
    return starts[int(np.argmax(scores))]


def _with_length(shape: Any, factor: float) -> Kernel:
    return eqx.tree_at(lambda kernel: kernel.length_scale, shape, np.asarray(factor * shape.length_scale))


def _spread(length: int) -> np.ndarray:
    """At most `TRIAL_POINTS` of the points of a curve, evenly over their order."""
    chosen = np.zeros(length, dtype=bool)
    chosen[np.unique(np.linspace(0, length - 1, min(length, TRIAL_POINTS)).astype(int))] = True
    return chosen


def _times(variance: float, kernel: Kernel) -> Kernel:
    """The constants of ρ + (1 − ρ) κ multiplied; a kernel of another form gets a constant of its own."""
    if isinstance(kernel, Linear | Polynomial):
        return Constant(variance) * kernel
    return eqx.tree_at(
        lambda k: (k.kernel1.value, k.kernel2.kernel1.value),
        kernel,
        replace_fn=lambda value: np.asarray(variance * np.asarray(value)),
    )
