"""Curves that several files of tests compare."""

import numpy as np

MESH = np.linspace(0, 1, 12)


def rough(generator, n, x=MESH):
    """Random waves of falling size with noise."""
    waves = np.stack([np.sin(np.pi * k * x + phase) / k for k in range(1, 4) for phase in (0.0, 0.5 * np.pi)])
    return generator.normal(size=(n, len(waves))) @ waves + x + 0.3 * generator.normal(size=(n, len(x)))
