"""What JAX is shown before anybody clicks: the shapes that the page will ask for, the likeliest first."""

from collections.abc import Iterator, Sequence

import numpy as np

from febm.exploring.numerics import MOST_POINTS, Placed, Question, ask, domain, resolutions
from febm.exploring.room import SIZES as ROOM
from febm.exploring.shelf import Explored
from febm.exploring.worker import LONG_PAUSE, SHORT_PAUSE, Step
from febm.models.gp import GaussianProcess

# Contexts are padded to multiples of eight points or more, so one of each size is enough. A Gaussian process compiles a
# little for every number of points, and more beyond powers of two, which come first.
BUCKETS, POWERS = tuple(range(1, MOST_POINTS + 1, 8)), (1, 2, 3, 5, 9, 17, 33, 65)
EVERY = (*POWERS, *sorted({*range(1, 41)} - {*POWERS}))
# Numbers of points that other resolutions are asked for.
FEW = 12


def warm_up(shelf: Sequence[Explored]) -> Iterator[Step]:
    """Ask every model that is shown for all that clicks will ask for; patiently for what takes long or is rare."""
    shown = [explored for explored in shelf if explored.is_shown]
    for explored in shown:
        yield Step(explored.details)
        for size in (0, 1):
            yield _asking(explored, size)
    for explored in shown:
        for size in _sizes(explored):
            yield _asking(explored, size, pause=SHORT_PAUSE if size <= ROOM[0] else LONG_PAUSE)
    for explored in shown:
        few = [size for size in _sizes(explored) if size <= FEW]
        offered, usual = resolutions(explored.model)
        for resolution in sorted(offered, key=lambda points: abs(points - usual)):
            for size in (0, *few):
                yield _asking(explored, size, resolution, pause=LONG_PAUSE)


def _asking(explored: Explored, size: int, resolution: int | None = None, *, pause: float = SHORT_PAUSE) -> Step:
    return Step(lambda: ask(explored.model, _question(explored, size, resolution)), pause)


def _sizes(explored: Explored) -> tuple[int, ...]:
    return EVERY if isinstance(explored.model, GaussianProcess) else BUCKETS


def _question(explored: Explored, size: int, resolution: int | None = None) -> Question:
    """Points through the middle of what the prior draws, for maps along a diagonal."""
    middle = float(np.mean(explored.sight[:, 0]))
    places = np.transpose([np.linspace(lower, upper, size + 2)[1:-1] for lower, upper in domain(explored.model)])
    points = (tuple(map(float, place)) for place in places)
    return Question(tuple(Placed(x if len(x) == 2 else x[0], middle) for x in points), resolution=resolution)
