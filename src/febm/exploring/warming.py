"""What JAX is shown before anybody clicks: the shapes that the page will ask for, the likeliest first."""

from collections.abc import Iterator, Sequence

import numpy as np

from febm.exploring.numerics import Placed, Question, ask, domain, resolutions
from febm.exploring.shelf import Explored
from febm.models.gp import GaussianProcess

# Contexts are padded to multiples of eight points, so one of each size is enough, but a Gaussian process compiles for
# every number of points.
BUCKETS, EVERY = (1, 9), tuple(range(1, 13))


def warm_up(shelf: Sequence[Explored]) -> Iterator[None]:
    """Ask every model that is shown for all that a first minute of clicks asks for, a question a step."""
    shown = [explored for explored in shelf if explored.is_shown]
    for explored in shown:
        explored.details()
        yield
        for size in (0, *BUCKETS):
            ask(explored.model, _question(explored, size))
            yield
    for explored in shown:
        sizes = EVERY if isinstance(explored.model, GaussianProcess) else BUCKETS[:1]
        offered, usual = resolutions(explored.model)
        for resolution in sorted(offered, key=lambda points: abs(points - usual)):
            for size in (0, *sizes):
                ask(explored.model, _question(explored, size, resolution))
                yield


def _question(explored: Explored, size: int, resolution: int | None = None) -> Question:
    """Points through the middle of what the prior draws, for maps along a diagonal."""
    middle = float(np.mean(explored.sight[:, 0]))
    places = np.transpose([np.linspace(lower, upper, size + 2)[1:-1] for lower, upper in domain(explored.model)])
    points = (tuple(map(float, place)) for place in places)
    return Question(tuple(Placed(x if len(x) == 2 else x[0], middle) for x in points), resolution=resolution)
