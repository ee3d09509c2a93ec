"""Likelihoods p(y | f): how an observed value y scatters around the function value f."""

from abc import abstractmethod
from collections.abc import Callable
from math import lgamma, log, pi
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

LOG_2PI = log(2 * pi)


class Likelihood(eqx.Module):
    """p(y | f), elementwise: every method maps arrays of one shape to an array of that shape.

    `scales_outputs` says whether y may be shifted and rescaled before it is modelled.
    """

    scales_outputs: eqx.AbstractClassVar[bool]

    @abstractmethod
    def log_density(self, y: Float[Array, "..."], f: Float[Array, "..."]) -> Float[Array, "..."]:
        """Normalised log p(y | f) of every value."""

    @abstractmethod
    def mean(self, f: Float[Array, "..."]) -> Float[Array, "..."]:
        """E[y | f]."""

    @abstractmethod
    def sample(self, f: Float[Array, "..."], key: PRNGKeyArray) -> Float[Array, "..."]:
        """One draw of y for every f."""

    @abstractmethod
    def link(self, y: ArrayLike) -> np.ndarray:
        """A rough map of observations to the scale of f: finite, increasing, in NumPy float64; NaN stays."""

    @abstractmethod
    def check_support(self, y: ArrayLike) -> None:
        """Raise a ValueError where an observed value is impossible; NaN is missing and passes."""


class Gaussian(Likelihood):
    """y ~ N(f, scale²).

    Parameters
    ----------
    scale : standard deviation; learned in its logarithm.
    fixed : keep the scale: no gradient reaches it.
    """

    scales_outputs: ClassVar[bool] = True
    log_scale: Float[Array, ""]
    fixed: bool = eqx.field(static=True)

    def __init__(self, scale: float | Float[Array, ""] = 0.1, fixed: bool = False) -> None:
        self.log_scale = _log_scale("Gaussian", scale)
        self.fixed = fixed

    @property
    def scale(self) -> Float[Array, ""]:
        """Standard deviation of the noise."""
        return jnp.exp(_held(self.log_scale, self.fixed))

    @property
    def variance(self) -> Float[Array, ""]:
        """Variance of the noise."""
        return jnp.exp(2 * _held(self.log_scale, self.fixed))

    def with_scale(self, scale: float | Float[Array, ""]) -> "Gaussian":
        """The same likelihood with another scale."""
        return Gaussian(scale, self.fixed)

    def widened(self, log_factor: Float[Array, ""]) -> "Gaussian":
        """The same likelihood with e^`log_factor` times the scale."""
        return eqx.tree_at(lambda likelihood: likelihood.log_scale, self, self.log_scale + log_factor)

    def log_density(self, y: Float[Array, "..."], f: Float[Array, "..."]) -> Float[Array, "..."]:
        """−½ (y − f)²/σ² − ½ log σ² − ½ log 2π."""
        log_scale = _held(self.log_scale, self.fixed)
        return -0.5 * jnp.square((y - f) * jnp.exp(-log_scale)) - log_scale - 0.5 * LOG_2PI

    def mean(self, f: Float[Array, "..."]) -> Float[Array, "..."]:
        """The value `f` itself."""
        return f

    def sample(self, f: Float[Array, "..."], key: PRNGKeyArray) -> Float[Array, "..."]:
        """Draws f + σε."""
        return f + self.scale * jax.random.normal(key, f.shape, f.dtype)

    def link(self, y: ArrayLike) -> np.ndarray:
        """The value `y` itself."""
        return np.asarray(y, dtype=float)

    def check_support(self, y: ArrayLike) -> None:
        """Every finite value is possible."""
        _check("Gaussian", y, np.isfinite, "finite", "drop or fix them")


class StudentT(Likelihood):
    """y = f + scale·t with Student's t of `degrees` degrees of freedom: noise with outliers.

    Parameters
    ----------
    degrees : degrees of freedom, above 1 so that the mean exists; not learned.
    scale : scale of the noise (not its standard deviation); learned in its logarithm.
    fixed : keep the scale: no gradient reaches it.
    """

    scales_outputs: ClassVar[bool] = True
    log_scale: Float[Array, ""]
    degrees: float = eqx.field(static=True)
    fixed: bool = eqx.field(static=True)

    def __init__(self, degrees: float = 4.0, scale: float | Float[Array, ""] = 0.1, fixed: bool = False) -> None:
        if not 1 < degrees < np.inf:
            raise ValueError(
                f"StudentT: degrees is {degrees}; give a number above 1, so that the mean exists, "
                "or use Gaussian() for its limit at infinity."
            )
        self.log_scale = _log_scale("StudentT", scale)
        self.degrees = float(degrees)
        self.fixed = fixed

    @property
    def scale(self) -> Float[Array, ""]:
        """Scale of the noise."""
        return jnp.exp(_held(self.log_scale, self.fixed))

    def with_scale(self, scale: float | Float[Array, ""]) -> "StudentT":
        """The same likelihood with another scale."""
        return StudentT(self.degrees, scale, self.fixed)

    def log_density(self, y: Float[Array, "..."], f: Float[Array, "..."]) -> Float[Array, "..."]:
        """The sum log Γ((ν+1)/2) − log Γ(ν/2) − ½ log πν − log s − (ν+1)/2 · log(1 + ((y − f)/s)²/ν)."""
        log_scale = _held(self.log_scale, self.fixed)
        degrees, half = self.degrees, (self.degrees + 1) / 2
        constant = lgamma(half) - lgamma(degrees / 2) - 0.5 * log(pi * degrees)
        standard = (y - f) * jnp.exp(-log_scale)
        return constant - log_scale - half * jnp.log1p(jnp.square(standard) / degrees)

    def mean(self, f: Float[Array, "..."]) -> Float[Array, "..."]:
        """The value `f` itself."""
        return f

    def sample(self, f: Float[Array, "..."], key: PRNGKeyArray) -> Float[Array, "..."]:
        """Draws f + s·t."""
        return f + self.scale * jax.random.t(key, self.degrees, f.shape, f.dtype)

    def link(self, y: ArrayLike) -> np.ndarray:
        """The value `y` itself."""
        return np.asarray(y, dtype=float)

    def check_support(self, y: ArrayLike) -> None:
        """Every finite value is possible."""
        _check("StudentT", y, np.isfinite, "finite", "drop or fix them")


class ContinuousBernoulli(Likelihood):
    """y in [0, 1] with density f·exp(fy)/(exp(f) − 1), f the logit (Loaiza-Ganem and Cunningham, 2019)."""

    scales_outputs: ClassVar[bool] = False

    def log_density(self, y: Float[Array, "..."], f: Float[Array, "..."]) -> Float[Array, "..."]:
        """The sum fy − softplus(f) + log(f/tanh(f/2)), written as f(y − ½) − log(sinh(f/2)/(f/2))."""
        return f * (y - 0.5) - _log_sinh_ratio(0.5 * f)

    def mean(self, f: Float[Array, "..."]) -> Float[Array, "..."]:
        """1/(1 − exp(−f)) − 1/f, written as ½ + ½ (coth(f/2) − 2/f)."""
        return 0.5 + 0.5 * _langevin(0.5 * f)

    def sample(self, f: Float[Array, "..."], key: PRNGKeyArray) -> Float[Array, "..."]:
        """Draws log(1 + u(exp(f) − 1))/f, written for −|f| and reflected so that nothing overflows."""
        uniform = jax.random.uniform(key, f.shape, f.dtype)
        size = jnp.abs(f)
        # log1p and expm1 keep their relative precision near 0; only 0/0 itself is to be avoided.
        flat = size < 1e-30
        safe = jnp.where(flat, 1.0, size)
        below = jnp.where(flat, uniform, -jnp.log1p(uniform * jnp.expm1(-safe)) / safe)
        return jnp.clip(jnp.where(f > 0, 1 - below, below), 0.0, 1.0)

    def link(self, y: ArrayLike) -> np.ndarray:
        """Approximate inverse of the mean; y is first shrunk by a tenth towards ½: 0 and 1 give ∓20.7.

        The inverse Langevin function of m = 2y − 1, half of f, is m(3 − m²)/(1 − m²) to 5 % (Cohen, 1991).
        """
        m = 0.9 * (2 * np.asarray(y, dtype=float) - 1)
        return 2 * m * (3 - m**2) / (1 - m**2)

    def check_support(self, y: ArrayLike) -> None:
        """Values from 0 to 1 are possible."""
        _check(
            "ContinuousBernoulli",
            y,
            lambda values: (values >= 0) & (values <= 1),
            "between 0 and 1",
            "rescale them to [0, 1], or choose likelihood='gaussian'",
        )


class Bernoulli(Likelihood):
    """y in {0, 1} with P(y = 1) = sigmoid(f)."""

    scales_outputs: ClassVar[bool] = False

    def log_density(self, y: Float[Array, "..."], f: Float[Array, "..."]) -> Float[Array, "..."]:
        """The sum fy − softplus(f)."""
        return f * y - jax.nn.softplus(f)

    def mean(self, f: Float[Array, "..."]) -> Float[Array, "..."]:
        """P(y = 1 | f)."""
        return jax.nn.sigmoid(f)

    def sample(self, f: Float[Array, "..."], key: PRNGKeyArray) -> Float[Array, "..."]:
        """Zeros and ones."""
        return (jax.random.uniform(key, f.shape, f.dtype) < jax.nn.sigmoid(f)).astype(f.dtype)

    def link(self, y: ArrayLike) -> np.ndarray:
        """The empirical logit log((y + ½)/(3/2 − y))."""
        values = np.asarray(y, dtype=float)
        return np.log((values + 0.5) / (1.5 - values))

    def check_support(self, y: ArrayLike) -> None:
        """Zero and one are possible."""
        _check(
            "Bernoulli",
            y,
            lambda values: (values == 0) | (values == 1),
            "0 or 1",
            "code the outcomes as 0 and 1, or choose likelihood='continuous_bernoulli' for values in between",
        )


class Poisson(Likelihood):
    """Counts y with rate exp(f)."""

    scales_outputs: ClassVar[bool] = False

    def log_density(self, y: Float[Array, "..."], f: Float[Array, "..."]) -> Float[Array, "..."]:
        """The sum fy − exp(f) − log y!."""
        # Three large numbers cancel when counts are large (a count of 1e6 would lose a nat in float32), so
        # there the sum is rearranged around f = log y, with Stirling's series, 1e-9 off at most from 16 on.
        large = y >= 16
        count = jnp.where(large, y, 16.0)
        excess = f - jnp.log(count)
        stirling = 0.5 * (LOG_2PI + jnp.log(count)) + 1 / (12 * count) - 1 / (360 * count**3)
        around = -count * (jnp.expm1(jnp.where(large, excess, 0.0)) - excess) - stirling
        few = jnp.where(large, 0.0, y)
        direct = f * few - jnp.exp(jnp.where(large, 0.0, f)) - gammaln(few + 1)
        return jnp.where(large, around, direct)

    def mean(self, f: Float[Array, "..."]) -> Float[Array, "..."]:
        """The rate."""
        return jnp.exp(f)

    def sample(self, f: Float[Array, "..."], key: PRNGKeyArray) -> Float[Array, "..."]:
        """Counts, as floating-point numbers."""
        return jax.random.poisson(key, jnp.exp(f), f.shape).astype(f.dtype)

    def link(self, y: ArrayLike) -> np.ndarray:
        """Maps to log(y + ½)."""
        return np.log(np.asarray(y, dtype=float) + 0.5)

    def check_support(self, y: ArrayLike) -> None:
        """Whole numbers from 0 on are possible."""
        _check(
            "Poisson",
            y,
            lambda values: np.isfinite(values) & (values >= 0) & (values == np.floor(values)),
            "counts (0, 1, 2, …)",
            "fix them, or choose likelihood='gaussian'",
        )


def as_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """A likelihood by name, with its default settings, or the one given."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if isinstance(likelihood, str) and likelihood in _BY_NAME:
        return _BY_NAME[likelihood]()
    names = ", ".join(repr(name) for name in _BY_NAME)
    raise ValueError(f"likelihood is {likelihood!r}; give one of {names}, or a febm.likelihoods.Likelihood.")


_BY_NAME: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "student_t": StudentT,
    "continuous_bernoulli": ContinuousBernoulli,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
}


def _log_sinh_ratio(h: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(sinh(h)/h), even and smooth; its derivative coth(h) − 1/h is as precise as itself."""
    size = jnp.abs(h)
    # Both the logarithms and the derivative 1/h cancel near 0. The series is below 1e-9 off at the crossover.
    near = size < 0.25
    square = jnp.square(jnp.where(near, h, 0.0))
    series = square * (1 / 6 - square * (1 / 180 - square / 2835))
    safe = jnp.where(near, 1.0, size)
    return jnp.where(near, series, safe + jnp.log(-jnp.expm1(-2 * safe)) - jnp.log(2 * safe))


def _langevin(h: Float[Array, "..."]) -> Float[Array, "..."]:
    """coth(h) − 1/h, the derivative of log(sinh(h)/h)."""
    near = jnp.abs(h) < 0.25
    small = jnp.where(near, h, 0.0)
    square = jnp.square(small)
    series = small * (1 / 3 - square * (1 / 45 - square * (2 / 945 - square / 4725)))
    safe = jnp.where(near, 1.0, h)
    return jnp.where(near, series, 1 / jnp.tanh(safe) - 1 / safe)


def _log_scale(owner: str, scale: float | Float[Array, ""]) -> Float[Array, ""]:
    if not isinstance(scale, jax.core.Tracer) and not 0 < float(scale) < np.inf:
        raise ValueError(f"{owner}: scale is {scale}; give a finite number above 0.")
    return jnp.log(jnp.asarray(scale, jnp.float32))


def _held(parameter: Float[Array, ""], fixed: bool) -> Float[Array, ""]:
    return jax.lax.stop_gradient(parameter) if fixed else parameter


def _check(owner: str, y: ArrayLike, possible: Callable[[np.ndarray], np.ndarray], allowed: str, way_out: str) -> None:
    values = np.asarray(y, dtype=float).ravel()
    values = values[~np.isnan(values)]
    wrong = values[~possible(values)]
    if wrong.size:
        shown = ", ".join(f"{value:g}" for value in wrong[:3]) + (", …" if wrong.size > 3 else "")
        raise ValueError(
            f"{owner}: {wrong.size} of {values.size} observed values are not {allowed} ({shown}); {way_out}."
        )
