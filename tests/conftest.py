"""What every file of tests does when it is done."""

from pathlib import Path

import jax
import pytest

# Linux lets a process hold 65,530 pieces of memory; a compiled program takes three, and a file of tests up to 24,000.
MOST_PIECES = 20_000
PIECES = Path("/proc/self/maps")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Let go of compiled programs before a process holds too many; elsewhere than on Linux, after every file."""
    yield
    if not PIECES.exists() or PIECES.read_bytes().count(b"\n") > MOST_PIECES:
        jax.clear_caches()
