"""Randomness comes from keys: one way from a user's `random_state` to a JAX key, one from a key to NumPy."""

import secrets
from typing import TypeAlias

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
