"""Missing values filled with what a process expects of them: y = E[f(x) | the values observed of the same curve]."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from febm.curves import Curves
from febm.door import as_curves
from febm.io_same import in_same
from febm.io_xarray import labelled_rows
from febm.models.tables import Table, is_table, read_table

if TYPE_CHECKING:
    from febm.models.base import Process

# Functions behind the mean of a process: it is off by a thirtieth of their spread.
MEAN_DRAWS = 1024


def filled(process: "Process", value: Any) -> Any:
    """An array, a table, a labelled array or curves as they came, without NaN."""
    owner = f"{type(process).__name__}.impute: curves"
    if is_table(value):
        return in_same(value, _filled_table(process, read_table(process, value, owner)))
    labelled = labelled_rows(value)
    if labelled is not None:
        return labelled.with_values(_filled_table(process, Table(labelled.points, labelled.values)))
    return _filled_curves(process, as_curves(value, owner), owner)


def _filled_table(process: "Process", table: Table) -> np.ndarray:
    values = table.values.copy()
    missing = np.isnan(values)
    partly = missing.any(axis=1) & table.is_seen
    if partly.any():
        means = np.asarray(process.condition(table.curves(partly)).mean(table.points))
        values[partly] = np.where(missing[partly], means[..., 0], values[partly])
    if not table.is_seen.all():
        # Drawn the same way every time: the mean belongs to the process, not to the call.
        drawn = process.sample(MEAN_DRAWS, table.points, random_state=0)
        values[~table.is_seen] = drawn.y.reshape(MEAN_DRAWS, -1).mean(axis=0)
    return values


def _filled_curves(process: "Process", curves: Curves, owner: str) -> Curves:
    missing = np.isnan(curves.y)
    lacking = np.logical_or.reduceat(missing.any(axis=1), curves.offsets[:-1])
    if not lacking.any():
        if curves.d_y == 1 and curves.common_points is None:
            warnings.warn(
                f"{owner} hold points only where there is a value, so that nothing of theirs is missing. What they are "
                "like elsewhere is condition(curves).mean(at); tables and arrays with NaN are filled.",
                UserWarning,
                stacklevel=4,
            )
        return curves
    some = curves[lacking]
    means = process.condition(some).mean(some)
    assert isinstance(means, Curves)
    values = curves.y.copy()
    rows = np.repeat(lacking, curves.lengths)
    values[rows] = np.where(missing[rows], means.y, values[rows])
    return curves.replace(y=values)
