"""The kernel and the noise of a Gaussian process, by the marginal likelihood of all curves.

A kernel given by name stands beside a level that each curve has for itself,

    k(x, x′) = v [ρ + (1 − ρ) κ(x, x′)],    κ(x, x) = 1.

The variance v is that of the curves about their mean, or is fitted with the rest. Where curves are smoother than κ can
be, the likelihood takes long length scales and buys them with a large v: such a process predicts well, but its own
paths are many times as wide as the curves.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from tinygp.kernels import Kernel

from febm.curves import Curves
from febm.kernels import Constant, KernelFit, Linear, fit_kernel, log_likelihoods, starting_kernel
from febm.precision import float64
from febm.quasiseparable import LONG_CURVE, Correlation, as_quasiseparable, improve_fit
from febm.randomness import numpy_generator

# A kernel given by name starts from the likeliest of these multiples of a fifth of the domain and shares of the level,
# as a part of the curves see them, with the noise that a fit starts with.
LENGTHS, LEVELS, NOISE = (0.1, 0.3, 1.0, 3.0), (0.1, 0.9), 0.01
TRIAL_CURVES, TRIAL_POINTS = 32, 64
# Points of a curve that the dense likelihood sees, and curves × points³ and curves × points² that it may cost.
MOST_POINTS, WORK, MEMORY = 256, 2e9, 3e7
# Noise of more than this share of the variance is taken off the variance before a second fit.
MUCH_NOISE = 0.02


def fit_named(
    name: str, curves: Curves, *, noise: float | None, mean: str, free_variance: bool, key: PRNGKeyArray
) -> KernelFit:
    """The kernel of that name beside a level, with the variance of the curves or a free one."""
    constant = np.nanmean(curves.y, axis=0) if mean == "constant" else 0.0
    variance = float(np.nanmean((curves.y - constant) ** 2)) or 1.0
    start = _likeliest_start(name, curves.replace(y=(curves.y - constant) / np.sqrt(variance)), key)
    if free_variance or isinstance(start, Linear):
        return fit_free(_times(variance, start), curves, noise=noise, mean=mean, key=key)
    own = variance if noise is None else max(variance - noise, 1e-3 * variance)
    found = _fit_unit(start, own, curves, noise, mean, key)
    if noise is None and found.noise_variance > MUCH_NOISE * variance:
        own = max(variance - found.noise_variance, 1e-3 * variance)
        found = _fit_unit(start, own, curves, noise, mean, key)
    return found


def fit_free(kernel: Kernel, curves: Curves, *, noise: float | None, mean: str, key: PRNGKeyArray) -> KernelFit:
    """All hyper-parameters by marginal likelihood: of all points of long curves too, where k has an O(n) solver."""
    longest = int(curves.lengths.max())
    points = min(longest, MOST_POINTS)
    most = max(128, int(min(WORK / points**3, MEMORY / points**2)))
    if curves.common_points is not None and not np.isnan(curves.y).any():
        most = len(curves)  # one factor for all of them
    found = fit_kernel(kernel, curves, key=key, noise=noise, mean=mean, max_curves=most, max_points=points)
    if longest <= LONG_CURVE or curves.d_x > 1 or as_quasiseparable(found.kernel) is None:
        return found
    return improve_fit(found, curves, fit_noise=noise is None, centred=mean == "constant")


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
    likelihood = found.log_likelihood - np.count_nonzero(~np.isnan(curves.y)) * np.log(scale)
    return KernelFit(
        _times(variance / size, inner.kernel), found.noise_variance * variance, found.mean * scale, likelihood
    )


def _likeliest_start(name: str, curves: Curves, key: PRNGKeyArray) -> Kernel:
    """ρ + (1 − ρ) κ for curves of unit variance."""
    first: Any = starting_kernel(name, curves)
    shape = first.kernel2
    if isinstance(shape, Linear):
        return shape
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
    if isinstance(kernel, Linear):
        return Constant(variance) * kernel
    return eqx.tree_at(
        lambda k: (k.kernel1.value, k.kernel2.kernel1.value),
        kernel,
        replace_fn=lambda value: np.asarray(variance * np.asarray(value)),
    )
