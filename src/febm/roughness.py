"""The roughness e^t of a curve: t is normal in every component of a mixture, and integrated by quadrature.

A grid that is common to all curves finds where the posterior of each is; grids of its own close in on it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Float
from numpy import ndarray

# Nodes of the common grid, of those that close in, and of the one that integrates.
COMMON_NODES, OWN_NODES, NODES = 49, 25, 17
SEARCHES = 4  # the most grids that close in: curves of a hundred thousand points need three
HALF_WIDTH = 4.5  # standard deviations on either side
# No curve is rougher than this many standard deviations of t from the mean: one that looks so has a spike in it, which
# says nothing of how rough the curve is elsewhere.
REACH = 4.0


class Roughness(NamedTuple):
    """t ~ N(mean, scale²) in every component."""

    means: Float[ndarray, " components"]
    scales: Float[ndarray, " components"]


def close_in(
    log_joint: Callable[[Float[ndarray, "own nodes"]], Float[ndarray, "curves components nodes"]], roughness: Roughness
) -> Float[ndarray, "curves nodes"]:
    """Evenly spaced nodes over the posterior of t of every curve, within what the prior calls possible."""
    least, most = np.min(roughness.means - REACH * roughness.scales), np.max(roughness.means + REACH * roughness.scales)

    def around(nodes, count):
        """Nodes where the given ones find the posterior, and whether these are close enough to see how wide it is."""
        weights = scipy.special.softmax(scipy.special.logsumexp(log_joint(nodes), axis=1), axis=1)
        mean = np.sum(weights * nodes, axis=1)
        spread = np.sqrt(np.sum(weights * (nodes - mean[:, None]) ** 2, axis=1))
        resolution = 0.5 * (nodes[:, 1] - nodes[:, 0])
        half = HALF_WIDTH * np.maximum(spread, resolution)
        found = np.linspace(np.maximum(mean - half, least), np.minimum(mean + half, most), count, axis=1)
        return found, bool(np.all(spread > resolution))

    nodes = np.linspace(least, most, COMMON_NODES)[None]
    for _ in range(SEARCHES):
        nodes, resolved = around(nodes, OWN_NODES)
        if resolved:
            break
    return around(nodes, NODES)[0]
