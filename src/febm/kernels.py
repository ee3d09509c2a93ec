"""Kernels: the algebra of tinygp (sums, products, multiples) on Euclidean inputs, in words that read like it.

2.0 * Matern52(0.3) + Periodic(1.0) * Gaussian([0.5, 2.0]) + White(0.01)
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tinygp.kernels
from jaxtyping import Array, Float
from tinygp.kernels import Kernel as Kernel

from febm.checks import whole_number
from febm.curves import Curves
from febm.marginal_likelihood import in_float64
from febm.marginal_likelihood import log_likelihoods as log_likelihoods
from febm.precision import float64

Positive: TypeAlias = Array | np.ndarray | float


class Term(Kernel):
    """A kernel that can be added and multiplied, and says so as a formula."""

    def __add__(self, other: Any) -> Kernel:
        """The kernel of the sum of two independent processes; a number is a `Constant`."""
        return Sum(self, _as_kernel(other))

    def __radd__(self, other: Any) -> Kernel:
        """As `+`; a sum may start at 0."""
        return (
            self if not isinstance(other, Kernel) and np.ndim(other) == 0 and other == 0 else _as_kernel(other) + self
        )

    def __mul__(self, other: Any) -> Kernel:
        """The product of two kernels; a number is a `Constant`."""
        return Product(self, _as_kernel(other))

    def __rmul__(self, other: Any) -> Kernel:
        """As `*`."""
        return _as_kernel(other) * self

    def __repr__(self) -> str:
        """The formula."""
        return formula(self)


class Sum(Term, tinygp.kernels.Sum):
    """k = k₁ + k₂."""


class Product(Term, tinygp.kernels.Product):
    """k = k₁ · k₂."""


def _positive(name: str, *, or_zero: bool = False) -> Any:
    """A field for a positive hyper-parameter, 1 by default: concrete values are checked, traced ones pass."""

    def convert(value: Any) -> Any:
        if isinstance(value, int | float | np.number | list | tuple):
            value = np.asarray(value, dtype=np.float64)
        if isinstance(value, np.ndarray) and not np.all(value >= 0 if or_zero else value > 0):
            kind = "at least 0" if or_zero else "positive (a number, or one for each input)"
            raise ValueError(f"{name} must be {kind}; got {value.tolist()!r}.")
        return value

    return eqx.field(default=1.0, converter=convert)


class Constant(Term, tinygp.kernels.Constant):
    """k = c: functions that are constant; a number beside a kernel is one."""

    value: Positive = _positive("value", or_zero=True)  # type: ignore[assignment]


class White(Term):
    """k = σ² where x = x′, else 0: a value of its own at every point.

    In the kernel of a `GaussianProcess` a term `+ White(σ²)` is the noise of the observations.
    """

    variance: Positive = _positive("variance")

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return jnp.where(jnp.all(X1 == X2), self.variance, 0.0)


class Stationary(Term):
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


class Periodic(Term):
    """k = exp(−2 Σ_d sin²(π(x_d − x′_d)/p)/ℓ²): paths that repeat after `period`."""

    period: Positive = _positive("period")
    length_scale: Positive = _positive("length_scale")

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return jnp.exp(-2.0 * jnp.sum(jnp.square(jnp.sin(jnp.pi * (X1 - X2) / self.period) / self.length_scale)))


class Linear(Term):
    """k = (x/ℓ)·(x′/ℓ): straight lines through the origin; add a `Constant` for the intercept."""

    length_scale: Positive = _positive("length_scale")

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return jnp.sum((X1 / self.length_scale) * (X2 / self.length_scale))


class Polynomial(Term):
    """k = ((x/ℓ)·(x′/ℓ) + c)^degree: polynomials; with offset c = 0 only terms of the highest degree."""

    degree: int = eqx.field(static=True, default=2)
    length_scale: Positive = _positive("length_scale")
    offset: Positive = _positive("offset", or_zero=True)

    def __check_init__(self) -> None:
        whole_number("Polynomial: degree", self.degree)

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        return (jnp.sum((X1 / self.length_scale) * (X2 / self.length_scale)) + self.offset) ** self.degree


class Correlation(Term):
    """κ(x, x′) = k(x, x′)/√(k(x, x) k(x′, x′)): a kernel of unit variance."""

    kernel: Kernel

    def evaluate(self, X1: Array, X2: Array) -> Array:
        """The kernel at two points."""
        product = self.kernel.evaluate_diag(X1) * self.kernel.evaluate_diag(X2)
        return self.kernel.evaluate(X1, X2) / jnp.sqrt(product)


class FeatureMap(Term):
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
    "polynomial": Polynomial,
}


def kernel_from_name(name: str) -> Kernel:
    """The kernel of that name with hyper-parameters 1, such as `kernel_from_name("matern52")`.

    Examples
    --------
    >>> kernel_from_name("matern52")
    Matern52(1)
    """
    if name not in FAMILIES:
        raise ValueError(f"kernel: there is no kernel named {name!r}; the names are {', '.join(sorted(FAMILIES))}.")
    return FAMILIES[name]()


def starting_kernel(name: str, curves: Curves) -> Kernel:
    """The kernel of that name, times the variance of the curves, on a fifth of the width of the domain."""
    kernel = kernel_from_name(name)
    lower, upper = curves.domain
    widths = np.where(upper > lower, upper - lower, 1.0)
    width = float(np.sqrt(np.mean(widths**2)))
    if isinstance(kernel, Periodic):
        kernel = Periodic(period=width)
    elif isinstance(kernel, Linear | Polynomial):
        kernel = FAMILIES[name](length_scale=width)  # type: ignore[call-arg]
    else:
        kernel = FAMILIES[name](0.2 * width)  # type: ignore[call-arg]
    return Constant(variance_of(curves)) * kernel


def kernel_matrix(kernel: Kernel, x1: np.ndarray, x2: np.ndarray | None = None) -> Float[np.ndarray, "rows columns"]:
    """The matrix k(x1, x2) in float64, for `x1 (m, d_x)` and `x2 (l, d_x)`; without `x2`, k(x1, x1).

    Examples
    --------
    >>> kernel_matrix(2.0 * Gaussian(1.0), np.array([[0.0], [1.0]])).round(3)
    array([[2.   , 1.213],
           [1.213, 2.   ]])
    """
    x2 = x1 if x2 is None else x2
    rows, columns = len(x1), len(x2)
    with float64():
        # Sizes are rounded up to powers of two so that a new number of points seldom means a new compilation.
        points = (jnp.asarray(_pad_rows(x)) for x in (x1, x2))
        matrix = _evaluate(in_float64(kernel), *points)
        return np.array(np.asarray(matrix)[:rows, :columns])


class Parts(NamedTuple):
    """A kernel as a function and its noise: k + σ² where x = x′."""

    kernel: Kernel
    noise_variance: float | None


def split_noise(kernel: Kernel) -> Parts:
    """Take the terms `White(σ²)`, and multiples of them, out of a sum; None where there are none, or nothing else.

    Examples
    --------
    >>> split_noise(2.0 * Matern52(0.3) + White(0.01))
    Parts(kernel=2 * Matern52(0.3), noise_variance=0.01)
    """
    terms = _summands(kernel)
    levels = [_white_level(term) for term in terms]
    rest = [term for term, level in zip(terms, levels, strict=True) if level is None]
    found = [level for level in levels if level is not None]
    if not (rest and found):
        return Parts(kernel, None)
    together = rest[0]
    for term in rest[1:]:
        together = Sum(together, term)
    return Parts(together, sum(found))


def formula(kernel: Kernel) -> str:
    """The kernel in the words of its algebra, numbers to six digits.

    Examples
    --------
    >>> formula(2.0 * (Matern52(0.3) + Linear()))
    '2 * (Matern52(0.3) + Linear(1))'
    """
    if isinstance(kernel, tinygp.kernels.Sum | tinygp.kernels.Product):
        is_sum = isinstance(kernel, tinygp.kernels.Sum)
        parts = [kernel.kernel1, kernel.kernel2]
        plain = sum(isinstance(part, tinygp.kernels.Constant) for part in parts) == 1
        words = []
        for part in parts:
            if plain and isinstance(part, tinygp.kernels.Constant):
                words.append(_number(part.value))
            elif isinstance(part, tinygp.kernels.Sum) and not is_sum:
                words.append(f"({formula(part)})")
            else:
                words.append(formula(part))
        return (" + " if is_sum else " * ").join(words)
    if not isinstance(kernel, Term):
        return repr(kernel)
    if isinstance(kernel, FeatureMap):
        return f"FeatureMap({type(kernel.network).__name__})"
    values = [getattr(kernel, field.name) for field in dataclasses.fields(kernel)]
    words = [formula(value) if isinstance(value, Kernel) else _number(value) for value in values]
    return f"{type(kernel).__name__}({', '.join(words)})"


@eqx.filter_jit
def _evaluate(kernel: Kernel, x1: Array, x2: Array) -> Array:
    return kernel(x1, x2)


def _root(squared: Array) -> Array:
    """√ with gradient 0 at 0, where two points are the same."""
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


def variance_of(curves: Curves) -> float:
    """The variance of the values about the mean of each output; 1 for constant curves."""
    variance = float(np.nanmean(np.square(curves.y - np.nanmean(curves.y, axis=0))))
    return variance if variance > 0 else 1.0


def _pad_rows(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    size = 1 << max(3, (len(x) - 1).bit_length())
    return np.concatenate([x, np.broadcast_to(x[-1:], (size - len(x), x.shape[1]))])


def _as_kernel(value: Any) -> Kernel:
    return value if isinstance(value, Kernel) else Constant(value)


def _summands(kernel: Kernel) -> list[Kernel]:
    if isinstance(kernel, tinygp.kernels.Sum):
        return [*_summands(kernel.kernel1), *_summands(kernel.kernel2)]
    return [kernel]


def _white_level(kernel: Kernel) -> float | None:
    """σ² of White(σ²) or of a multiple of it; None of other kernels."""
    if isinstance(kernel, White):
        return float(kernel.variance)
    if isinstance(kernel, tinygp.kernels.Product):
        for constant, other in ((kernel.kernel1, kernel.kernel2), (kernel.kernel2, kernel.kernel1)):
            level = _white_level(other)
            if isinstance(constant, tinygp.kernels.Constant) and level is not None:
                return float(constant.value) * level
    return None


def _number(value: Any) -> str:
    if isinstance(value, jax.core.Tracer) or not eqx.is_array_like(value):
        return "…"
    array = np.asarray(value)
    return f"{array:.6g}" if array.ndim == 0 else f"[{', '.join(f'{part:.6g}' for part in array.ravel())}]"
