"""Randomness comes from keys: one way from a user's `random_state` to a JAX key, one from a key to NumPy."""

import secrets
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

RandomState: TypeAlias = "int | PRNGKeyArray | None"


def as_key(random_state: RandomState) -> PRNGKeyArray:
    """A JAX key from `None` (fresh entropy), a non-negative integer, or a key."""
    if random_state is None:
        return jax.random.key(secrets.randbits(32))
    if isinstance(random_state, jax.Array) and jnp.issubdtype(random_state.dtype, jax.dtypes.prng_key):
        return random_state
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return jax.random.key(int(random_state))
    raise ValueError(f"random_state must be None, a non-negative integer or a JAX key; got {random_state!r}.")


def numpy_generator(key: PRNGKeyArray) -> np.random.Generator:
    """The NumPy generator that belongs to `key`."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


class AlikeGenerator(np.random.Generator):
    """Random numbers that are the same for all rows, those of a single row: none depends on how many there are."""

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> np.ndarray:  # type: ignore[override]
        """Uniform numbers of shape `size`, along whose first axis they repeat."""
        rows, *rest = size
        return np.repeat(super().uniform(low, high, (1, *rest)), rows, axis=0)

    def standard_normal(self, size: Any) -> np.ndarray:  # type: ignore[override]
        """Normal numbers of shape `size`, along whose first axis they repeat."""
        rows, *rest = size
        return np.repeat(super().standard_normal((1, *rest)), rows, axis=0)

    def permuted(self, x: np.ndarray, *, axis: int) -> np.ndarray:  # type: ignore[override]
        """Every row of a matrix in the same random order."""
        assert (x.ndim, axis) == (2, 1), (x.shape, axis)
        return x[:, super().permuted(np.arange(x.shape[1])[None], axis=1)[0]]


def alike_generator(key: PRNGKeyArray) -> AlikeGenerator:
    """The generator of `key` whose numbers are the same for all rows."""
    return AlikeGenerator(numpy_generator(key).bit_generator)
