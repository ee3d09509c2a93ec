"""Room in a context: points without a value beside those that were placed, so that few numbers of points ever occur.

Chains, and networks that see points, run in code that is compiled for a number of points, which takes seconds. Points
whose values are missing are left out of account by every model, so a context may have as many as code was compiled for.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from febm.checks import as_columns
from febm.curves import Curves
from febm.inference import settle
from febm.models.base import Process
from febm.models.basis_process import BasisProcess
from febm.models.feature_process import LearnedFeatureProcess
from febm.models.neural_process import NeuralProcess

# What a context is filled up to: enough for all but the most patient visitor, and for all that the page takes.
SIZES = (40, 104)


class RoomyCurves(Curves):
    """Curves that keep their points without a value."""

    __slots__ = ()

    def replace(self, x: Any = None, y: Any = None, ids: Any = None, covariates: Any = None) -> Curves:
        """The same curves with other values; what is None stays, and so do all points."""
        new_x, new_y = (
            own if new is None else as_columns(new, f"Curves.replace: {name}", copy=True)
            for name, own, new in (("x", self.x, x), ("y", self.y, y))
        )
        return _roomy(new_x, new_y, self.ids if ids is None else ids)


def with_room(model: Process, context: Curves) -> Curves:
    """One curve for a fitted `model` to condition on, with points without a value where these save a compilation.

    Draws by chains depend on the number of points that these are compiled for, as they do on a seed.
    """
    size = next((size for size in SIZES if size >= len(context.x)), None)
    if len(context) != 1 or size is None or not needs_room(model):
        return context
    free = np.array([*itertools.islice(_free(model, context), size - len(context.x))]).reshape(-1, context.d_x)
    values = np.full((len(free), context.d_y), np.nan)
    return _roomy(np.concatenate([context.x, free]), np.concatenate([context.y, values]), context.ids)


def needs_room(model: Any) -> bool:
    """Whether conditioning is compiled for a number of points: by chains, and by networks that see points."""
    if isinstance(model, NeuralProcess | LearnedFeatureProcess):
        return True
    return isinstance(model, BasisProcess) and settle(model._method, model.model_) != "exact"


def _free(model: Any, context: Curves) -> Iterator[np.ndarray]:
    """Places along the diagonal of the domain where the context has no point: a point has one value."""
    lower, upper = model.domain_
    taken = {tuple(place) for place in context.x.tolist()}
    for place in lower + (upper - lower) * np.linspace(0, 1, 2 * SIZES[-1])[:, None]:
        if tuple(place.tolist()) not in taken:
            yield place


def _roomy(x: np.ndarray, y: np.ndarray, ids: Any) -> Curves:
    curves = object.__new__(RoomyCurves)
    curves._assign(x, y, np.array([0, len(x)]), ids, None)
    return curves
