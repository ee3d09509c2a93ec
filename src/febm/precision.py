"""Float64 where algebra needs it: basis, functional PCA and Gaussian-process algebra; never a global switch."""

from contextlib import AbstractContextManager

import jax


def float64() -> AbstractContextManager:
    """Run the JAX code inside in double precision; hand NumPy arrays in and out."""
    return jax.enable_x64(True)
