"""Curves that share their points and have no gaps, kept as they came: bytes stay bytes until somebody looks.

A set of 60,000 pictures of 28 by 28 pixels is 47 MB of bytes, but 376 MB of floating-point values and 752 MB of points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64, Num

from febm.curves import Curves
from febm.ragged import chosen, sorted_union

CURVES_AT_ONCE = 2048


class GriddedCurves(Curves):
    """`Curves` with values `stored/divisor + shift` at the same points for all; `x` and `y` are made when asked for.

    Everything that `Curves` does it does too. What only picks curves, or scales values, makes no values.

    Parameters
    ----------
    points : (m, d_x)
        The points of every curve.
    stored : (n, m, d_y), of any type of number
        What is kept; it is not copied, and must not be changed.
    ids, covariates
        As of `Curves`, already checked.
    divisor, shift : (d_y,)
        What makes values of it.
    """

    __slots__ = ("divisor", "points", "shift", "stored")

    points: Float64[np.ndarray, "points d_x"]
    stored: Num[np.ndarray, "curves points d_y"]
    divisor: Float64[np.ndarray, " d_y"]
    shift: Float64[np.ndarray, " d_y"]

    def __init__(
        self,
        points: np.ndarray,
        stored: np.ndarray,
        ids: pd.Index,
        covariates: pd.DataFrame | None = None,
        divisor: Any = 1.0,
        shift: Any = 0.0,
    ) -> None:
        outputs = stored.shape[2]
        kept = {
            "points": np.asarray(points, dtype=np.float64),
            "stored": stored,
            "divisor": np.broadcast_to(np.asarray(divisor, dtype=np.float64), (outputs,)),
            "shift": np.broadcast_to(np.asarray(shift, dtype=np.float64), (outputs,)),
        }
        for name, array in kept.items():
            array = array.view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "_covariates", covariates)

    @property
    def x(self) -> Float64[np.ndarray, "points d_x"]:  # type: ignore[override]
        """The points of all curves one after the other, made now."""
        return _read_only(np.tile(self.points, (len(self), 1)))

    @property
    def y(self) -> Float64[np.ndarray, "points d_y"]:  # type: ignore[override]
        """The values of all curves one after the other, made now."""
        return _read_only(self.values().reshape(-1, self.d_y))

    @property
    def offsets(self) -> Int64[np.ndarray, " curves+1"]:  # type: ignore[override]
        """Curve i has the rows `offsets[i]:offsets[i + 1]`."""
        return np.arange(len(self) + 1, dtype=np.int64) * len(self.points)

    @property
    def d_x(self) -> int:
        """The number of coordinates of a point."""
        return self.points.shape[1]

    @property
    def d_y(self) -> int:
        """The number of outputs."""
        return self.stored.shape[2]

    @property
    def domain(self) -> tuple[Float64[np.ndarray, " d_x"], Float64[np.ndarray, " d_x"]]:
        """The smallest box that holds all points: its lower and its upper corner."""
        return self.points.min(axis=0), self.points.max(axis=0)

    @property
    def common_points(self) -> Float64[np.ndarray, "points d_x"]:
        """The points that all curves have."""
        return self.points

    def __len__(self) -> int:
        return len(self.stored)

    def values(self) -> Float64[np.ndarray, "curves points d_y"]:
        """The values at the points."""
        found = self.stored / self.divisor
        found += self.shift
        return found

    def blocks(self) -> Iterator[GriddedCurves]:
        """The curves, some at a time, so that the values of all are never there at once."""
        return (self[first : first + CURVES_AT_ONCE] for first in range(0, len(self), CURVES_AT_ONCE))

    def scaled(self, points: np.ndarray, scale: Any, shift: Any) -> GriddedCurves:
        """The same curves at other points, with values y·scale + shift."""
        return GriddedCurves(
            points, self.stored, self.ids, self._covariates, self.divisor / scale, self.shift * scale + shift
        )

    def to_grid(self) -> tuple[np.ndarray, Float64[np.ndarray, "curves points d_y"]]:
        """The sorted points, `(m,)` or `(m, d_x)`, and the values there."""
        codes, points = sorted_union(self.points)
        values = self.values()
        if (np.diff(codes) < 0).any():
            values = values[:, np.argsort(codes)]
        return points[:, 0] if self.d_x == 1 else points, values

    def __getitem__(self, key: Any) -> GriddedCurves:
        picked = chosen(key, len(self))
        table = self._covariates
        if table is not None:
            table = (table.iloc[picked] if isinstance(picked, slice) else table.take(picked)).reset_index(drop=True)
        return GriddedCurves(self.points, self.stored[picked], self.ids[picked], table, self.divisor, self.shift)

    def __reduce__(self) -> tuple:
        return GriddedCurves, (self.points, self.stored, self.ids, self._covariates, self.divisor, self.shift)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
