"""Shapes and types of the numerical core are checked as it runs; what every file of tests does when it is done."""

from pathlib import Path

import jax
import jaxtyping
import pytest

# The rooms at the door are left out: there a wrong argument has to reach the sentence that refuses it.
CHECKED = (
    "networks likelihoods priors langevin latent local_mixture censoring importance contrastive samplers observations"
)
# These are called so often that a third of the time of a fit would be checks; the slow tests have it.
CHECKED_IN_ALL = "conjugate roughness mixture gaps"

# Linux lets a process hold 65,530 pieces of memory; a compiled program takes three, and a file of tests up to 24,000.
MOST_PIECES = 20_000
PIECES = Path("/proc/self/maps")


def pytest_configure(config):
    rooms = CHECKED if config.option.markexpr == "not slow" else f"{CHECKED} {CHECKED_IN_ALL}"
    jaxtyping.install_import_hook([f"febm.{room}" for room in rooms.split()], "beartype.beartype")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Let go of compiled programs before a process holds too many; elsewhere than on Linux, after every file."""
    yield
    if not PIECES.exists() or PIECES.read_bytes().count(b"\n") > MOST_PIECES:
        jax.clear_caches()
