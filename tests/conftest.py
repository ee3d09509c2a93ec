"""What every file of tests does when it is done."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Let go of what a file compiled: a process may hold 65,530 pieces of memory, and a program takes three of them."""
    yield
    jax.clear_caches()
