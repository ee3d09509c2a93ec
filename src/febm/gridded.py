"""Curves that share their points and have no gaps, kept as they came: bytes stay bytes until somebody looks.

A set of 60,000 pictures of 28 by 28 pixels is 47 MB of bytes, but 376 MB of floating-point values and 752 MB of points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64, Num

from febm.curves import Curves
from febm.ragged import chosen, sorted_union

if TYPE_CHECKING:
    from febm.censoring import Censoring

CURVES_AT_ONCE = 2048
# Values from which curves are looked at some at a time only.
LARGE = 1 << 22


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
    censorings : for each output, or none at all
        How the values go on beyond the end of their range, where they do.
    """

    __slots__ = ("censorings", "divisor", "points", "shift", "stored")

    points: Float64[np.ndarray, "points d_x"]
    stored: Num[np.ndarray, "curves points d_y"]
    divisor: Float64[np.ndarray, " d_y"]
    shift: Float64[np.ndarray, " d_y"]
    censorings: tuple[Censoring | None, ...]

    def __init__(
        self,
        points: np.ndarray,
        stored: np.ndarray,
        ids: pd.Index,
        covariates: pd.DataFrame | None = None,
        divisor: Any = 1.0,
        shift: Any = 0.0,
        censorings: Sequence[Censoring | None] = (),
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
        object.__setattr__(self, "censorings", tuple(censorings))
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
        for output, censoring in enumerate(self.censorings):
            if censoring is not None:
                found[..., output] = censoring.continued(self.points, found[..., output])
        return found

    def blocks(self) -> Iterator[GriddedCurves]:
        """The curves, some at a time, so that the values of all are never there at once."""
        return (self[first : first + CURVES_AT_ONCE] for first in range(0, len(self), CURVES_AT_ONCE))

    def scaled(
        self, points: np.ndarray, scale: Any, shift: Any, censorings: Sequence[Censoring | None] = ()
    ) -> GriddedCurves:
        """The same curves at other points, with values y·scale + shift that go on as `censorings` say."""
        divisor, moved = self.divisor / scale, self.shift * scale + shift
        return GriddedCurves(points, self.stored, self.ids, self._covariates, divisor, moved, censorings)

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
        return GriddedCurves(
            self.points, self.stored[picked], self.ids[picked], table, self.divisor, self.shift, self.censorings
        )

    def __reduce__(self) -> tuple:
        kept = (self.points, self.stored, self.ids, self._covariates, self.divisor, self.shift, self.censorings)
        return GriddedCurves, kept


def are_many(curves: Curves) -> TypeGuard[GriddedCurves]:
    """Whether curves are kept as they came, and so many that the values of all at once would be a burden."""
    return isinstance(curves, GriddedCurves) and curves.stored.size > LARGE


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
