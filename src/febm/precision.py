"""Precision where algebra needs it, never by a global switch.

Float64 for the basis, functional PCA and Gaussian processes; all of float32 for what chains evaluate.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax
import jax.custom_batching

F = TypeVar("F", bound=Callable[..., Any])


def full_float32(function: F) -> F:
    """`function` with products of float32 matrices that keep all of their 24 bits.

    GPUs may round factors to eleven bits (TensorFloat-32), which networks do not mind. But the density of a latent
    within a thousandth of its component, or a function within a hundredth of its data, is lost by it.
    """

    @functools.wraps(function)
    def exact(*arguments: Any, **options: Any) -> Any:
        with jax.default_matmul_precision("float32"):
            return function(*arguments, **options)

    return exact  # type: ignore[return-value]


def float64() -> AbstractContextManager:
    """Run the JAX code inside in double precision; hand NumPy arrays in and out."""
    return jax.enable_x64(True)


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of JAX arrays with all that it works out in double precision, under a `vmap` from outside too."""

    def wide(*arguments: Any) -> Any:
        with float64():
            return function(*arguments)

    mapped = jax.custom_batching.custom_vmap(wide)

    @mapped.def_vmap
    def over_replicas(axis_size: int, is_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        # A `vmap` comes back to what was traced here after float64 has been left, so it is entered again.
        axes = jax.tree.map(lambda batched: 0 if batched else None, is_batched)
        with float64():
            found = jax.vmap(function, in_axes=axes, axis_size=axis_size)(*arguments)
        return found, jax.tree.map(lambda leaf: True, found)

    return mapped
