"""What JAX is shown before anybody clicks: the shapes that the page will ask for, the likeliest first."""

from collections.abc import Iterator, Sequence

import numpy as np

from febm.exploring.numerics import RESOLUTION, RESOLUTIONS, Placed, Question, ask, domain
from febm.exploring.shelf import Explored
from febm.models.gp import GaussianProcess

# Contexts are padded to multiples of eight points, so one of each size is enough, but a Gaussian process compiles for
# every number of points.
BUCKETS, EVERY = (1, 9), tuple(range(1, 13))


def warm_up(shelf: Sequence[Explored]) -> Iterator[None]:
    """Ask every model of one input for all that a first minute of clicks asks for, a question a step."""
    shown = [explored for explored in shelf if explored.inputs == 1]
    for explored in shown:
        explored.details()
        yield
        for size in (0, *BUCKETS):
            ask(explored.model, _question(explored, size, RESOLUTION))
            yield
    for explored in shown:
        sizes = EVERY if isinstance(explored.model, GaussianProcess) else BUCKETS[:1]
        for resolution in sorted(RESOLUTIONS, key=lambda points: abs(points - RESOLUTION)):
            for size in (0, *sizes):
                ask(explored.model, _question(explored, size, resolution))
                yield


def _question(explored: Explored, size: int, resolution: int) -> Question:
    """Points through the middle of what the prior draws."""
    lower, upper = domain(explored.model)
    middle = float(np.mean(explored.sight[:, 0]))
    places = np.linspace(lower, upper, size + 2)[1:-1]
    return Question(tuple(Placed(float(x), middle) for x in places), resolution=resolution)
