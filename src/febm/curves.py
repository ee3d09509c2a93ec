"""Curves, the one container in and out: functions each observed at its own points, y_ij = f_i(x_ij), j < m_i.

Storage is flat (CSR-like): the points of curve i are the rows `offsets[i]:offsets[i + 1]` of `x` and `y`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from febm.checks import as_columns, count, listed
from febm.checks import as_points as as_points
from febm.containers import FromContainers
from febm.io_arrays import write_arrays, write_grid
from febm.io_frame import write_frame
from febm.io_skfda import write_skfda
from febm.io_wide import write_wide
from febm.io_xarray import write_xarray
from febm.ragged import (
    bucket,
    checked,
    chosen,
    concatenate_tables,
    part_size,
    refuse_empty,
    refuse_unequal_widths,
)
from febm.randomness import as_key, numpy_generator

if TYPE_CHECKING:
    import xarray


class Padded(NamedTuple):
    """Curves as rectangular arrays: masked `y` is 0, padded `x` repeats the last point of its curve."""

    x: Float64[np.ndarray, "curves points d_x"]
    y: Float64[np.ndarray, "curves points d_y"]
    mask: Bool[np.ndarray, "curves points d_y"]


class Curves(FromContainers):
    """Functions observed at points of their own; immutable.

    NaN in `y` is a missing value: a point none of whose outputs is observed is dropped, a point with some of
    several outputs observed is kept. `from_grid`, `from_frame` and the other `from_…` are the usual ways in; this
    constructor takes the flat storage itself.

    Parameters
    ----------
    x : (points, d_x) or (points,)
        The places of all points, curve after curve.
    y : (points, d_y) or (points,)
        The values at those places.
    offsets : (n + 1,)
        Curve i has the rows `offsets[i]:offsets[i + 1]`.
    ids : sequence of n labels, optional
        What the curves are called; 0, 1, 2, … when left out. Tuples make a `pandas.MultiIndex`.
    covariates : DataFrame of n rows, optional
        What is known of each curve as a whole.

    Examples
    --------
    >>> import febm
    >>> curves = febm.Curves.from_arrays([[0, 1, 4], [2, 3]], [[1.0, 2.0, 5.0], [0.5, 0.7]], ids=["monday", "tuesday"])
    >>> curves
    <Curves: 2 curves, 2 to 3 points each, x in [0, 4], 1 output>
    >>> curves[1].y.tolist()
    [[0.5], [0.7]]
    >>> curves.select(curves.x[:, 0] < 3).lengths.tolist()
    [2, 1]
    >>> curves.to_frame()
         curve    x    y
    0   monday  0.0  1.0
    1   monday  1.0  2.0
    2   monday  4.0  5.0
    3  tuesday  2.0  0.5
    4  tuesday  3.0  0.7
    """

    __slots__ = ("_covariates", "ids", "offsets", "x", "y")
    __hash__ = None  # type: ignore[assignment]

    x: Float64[np.ndarray, "points d_x"]
    y: Float64[np.ndarray, "points d_y"]
    offsets: Int64[np.ndarray, " curves+1"]
    ids: pd.Index
    _covariates: pd.DataFrame | None

    def __init__(self, x: Any, y: Any, offsets: Any, ids: Any = None, covariates: Any = None) -> None:
        x = as_columns(x, "Curves: x", copy=True)
        y = as_columns(y, "Curves: y", copy=True)
        offsets = np.array(offsets)
        rising = offsets.ndim == 1 and offsets.dtype.kind in "iu" and len(offsets) > 0
        if not (rising and offsets[0] == 0 and offsets[-1] == len(x) and (np.diff(offsets) >= 0).all()):
            raise ValueError(f"Curves: offsets must be integers that rise from 0 to the number of points ({len(x):,}).")
        if len(y) != len(x):
            raise ValueError(f"Curves: x has {len(x):,} points but y has {len(y):,}; they must be as many.")
        self._assign(*checked("Curves", x, y, offsets.astype(np.int64), ids, covariates))

    def to_arrays(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Lists of the points `(m, d_x)` and values `(m, d_y)` of each curve: read-only views, nothing is copied."""
        return write_arrays(self)

    def to_grid(self) -> tuple[np.ndarray, Float64[np.ndarray, "curves points d_y"]]:
        """The sorted union of all points, `(m,)` or `(m, d_x)`, and the values there, NaN if unobserved."""
        return write_grid(self)

    def to_frame(self, *, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """The long table: `curve` (or one column per level of the ids), `x…`, `y…`, covariates repeated."""
        return write_frame(self, library)

    def to_wide(self, *, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """The wide table of curves with one input and one output: a row for each, a column for each point of any.

        Columns are named by their places (as text in polars) and come after the covariates. The ids are the index, or
        in polars columns named as those of `to_frame`.
        """
        return write_wide(self, library)

    def to_images(self) -> Float64[np.ndarray, "images height width *colours"]:
        """Values on a full grid of two inputs as `(n, height, width)`, or `(n, height, width, d_y)`; NaN is missing."""
        from febm.images import to_images

        return to_images(self)

    def to_skfda(self, *, kind: Literal["grid", "irregular"] | None = None, basis: Any = None) -> Any:
        """Functional data for scikit-fda, with the ids as `sample_names`; it has no place for covariates.

        Parameters
        ----------
        kind : "grid" or "irregular", optional
            An FDataGrid, NaN where a curve has no value, or an FDataIrregular. When left out, the first where all
            curves have the same points, and these fill a grid.
        basis : skfda.representation.basis.Basis, optional
            An FDataBasis on this basis, by the least squares of scikit-fda.

        Notes
        -----
        Points are sorted: scikit-fda holds no others. A grid that the curves share already in this order is not copied;
        the values of the FDataGrid then cannot be written to.
        """
        return write_skfda(self, kind=kind, basis=basis)

    def to_xarray(self, *, kind: Literal["grid", "ragged"] | None = None) -> xarray.Dataset:
        """A Dataset for xarray, with a variable for each output: `y`, or `y0`, `y1` and so on.

        Parameters
        ----------
        kind : "grid" or "ragged", optional
            "grid" has the dimensions `curve` and `x` (or `x0`, `x1`, …), sorted, NaN where a curve has no value.
            "ragged" has all points along the dimension `point`, with the coordinates `x…`, and a variable `row_size`
            that counts those of each curve, as the climate and forecast conventions have it. When left out, the first
            where all curves have the same points, and these fill a grid.

        Notes
        -----
        The ids are the index of `curve`, covariates are coordinates along it. Values are not copied where they are in
        this order already; they cannot be written to.
        """
        return write_xarray(self, kind=kind)

    @property
    def covariates(self) -> pd.DataFrame | None:
        """One row per curve (a copy, so that changing it changes nothing here), or None."""
        return None if self._covariates is None else self._covariates.copy()

    @property
    def d_x(self) -> int:
        """The number of coordinates of a point."""
        return self.x.shape[1]

    @property
    def d_y(self) -> int:
        """The number of outputs."""
        return self.y.shape[1]

    @property
    def lengths(self) -> Int64[np.ndarray, " curves"]:
        """The number of points of each curve."""
        return np.diff(self.offsets)

    @property
    def domain(self) -> tuple[Float64[np.ndarray, " d_x"], Float64[np.ndarray, " d_x"]]:
        """The smallest box that holds all points: its lower and its upper corner."""
        # Column by column: NumPy reduces a tall thin array along its long axis far slower.
        return np.array([x.min() for x in self.x.T]), np.array([x.max() for x in self.x.T])

    @property
    def common_points(self) -> Float64[np.ndarray, "points d_x"] | None:
        """The points `(m, d_x)` that all curves have, in the same order, and nothing else; None where they differ."""
        size = int(self.lengths[0])
        if not (self.lengths == size).all():
            return None
        points = self.x[:size]
        return points if (self.x.reshape(len(self), size, -1) == points).all() else None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Curves]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Curves:
        picked = chosen(key, len(self))
        lengths = self.lengths[picked]
        offsets = np.append(0, np.cumsum(lengths))
        table = self._covariates
        rows: slice | np.ndarray
        if isinstance(picked, slice):  # contiguous: views, no copy
            rows = slice(self.offsets[picked.start], self.offsets[picked.stop])
            table = table if table is None else table.iloc[picked].reset_index(drop=True)
        else:
            rows = np.repeat(self.offsets[picked] - offsets[:-1], lengths) + np.arange(offsets[-1])
            table = table if table is None else table.take(picked).reset_index(drop=True)
        return self._trusted(self.x[rows], self.y[rows], offsets, self.ids[picked], table)

    @classmethod
    def concatenate(cls, parts: Sequence[Curves]) -> Curves:
        """One `Curves` of the curves of all `parts`; a covariate that a part lacks is missing there."""
        parts = list(parts)
        for i, part in enumerate(parts):
            if not isinstance(part, Curves):
                raise TypeError(f"Curves.concatenate: part {i} must be Curves; got {type(part).__name__}.")
        if not parts:
            raise ValueError("Curves.concatenate: there are no curves; give at least one part.")
        name = "Curves.concatenate"
        refuse_unequal_widths(name, "parts", "coordinate", [part.d_x for part in parts])
        refuse_unequal_widths(name, "parts", "output", [part.d_y for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        ids = parts[0].ids if len(parts) == 1 else parts[0].ids.append([part.ids for part in parts[1:]])
        table = concatenate_tables([part._covariates for part in parts], [len(part) for part in parts])
        x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
        return cls._trusted(x, y, np.append(0, np.cumsum(lengths)), ids, table)

    def split(self, *sizes: float | int, random_state: Any = None) -> tuple[Curves, ...]:
        """Random disjoint parts of these sizes, and a last one of all curves that remain.

        A size is a number of curves or a fraction of them: `train, test = curves.split(0.8)`.
        Curves keep their order inside a part.
        """
        counts = [part_size(size, len(self)) for size in sizes]
        if not counts:
            raise ValueError("Curves.split: give at least one size; what remains is the last part.")
        if sum(counts) >= len(self):
            raise ValueError(
                f"Curves.split: parts of {' + '.join(map(str, counts))} leave none of the {len(self)} "
                "curves for the last part, which is what remains; leave its size out."
            )
        order = numpy_generator(as_key(random_state)).permutation(len(self))
        return tuple(self[np.sort(part)] for part in np.split(order, np.cumsum(counts)))

    def replace(self, x: Any = None, y: Any = None, ids: Any = None, covariates: Any = None) -> Curves:
        """The same curves with other values; what is None stays."""
        new_x = self.x if x is None else as_columns(x, "Curves.replace: x", copy=True)
        new_y = self.y if y is None else as_columns(y, "Curves.replace: y", copy=True)
        for name, new in (("x", new_x), ("y", new_y)):
            if len(new) != len(self.x):
                raise ValueError(f"Curves.replace: {name} has {len(new):,} points; these have {len(self.x):,}.")
        ids = self.ids if ids is None else ids
        table = self._covariates if covariates is None else covariates
        return self._trusted(*checked("Curves.replace", new_x, new_y, self.offsets, ids, table))

    def select(self, mask: Any) -> Curves:
        """Keep the points where `mask`, one truth value per point, is true."""
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (len(self.x),):
            raise ValueError(
                f"Curves.select: mask must be {len(self.x):,} truth values, one per point; "
                f"got shape {mask.shape} of {mask.dtype}."
            )
        offsets = np.append(0, np.cumsum(mask))[self.offsets]
        refuse_empty("Curves.select", np.diff(offsets), self.ids)
        return self._trusted(self.x[mask], self.y[mask], offsets, self.ids, self._covariates)

    def merge(self, other: Curves) -> Curves:
        """The same curves with the points of `other` after their own, curve by curve; ids and covariates stay."""
        if len(other) != len(self) or not self.ids.equals(other.ids):
            raise ValueError(
                f"Curves.merge: other has {count(len(other), 'curve')}, these are {len(self)}; both must be the same "
                "curves in the same order, with the same ids."
            )
        refuse_unequal_widths("Curves.merge", "parts", "coordinate", [self.d_x, other.d_x])
        refuse_unequal_widths("Curves.merge", "parts", "output", [self.d_y, other.d_y])
        owner = np.concatenate([np.repeat(np.arange(len(self)), part.lengths) for part in (self, other)])
        rows = np.argsort(owner, kind="stable")
        x, y = np.concatenate([self.x, other.x])[rows], np.concatenate([self.y, other.y])[rows]
        return self._trusted(x, y, self.offsets + other.offsets, self.ids, self._covariates)

    def padded(self, multiple: int = 8) -> Padded:
        """Rectangular arrays as long as the longest curve, rounded up so that few lengths ever occur.

        Lengths are multiples of `multiple` up to 64, and grow geometrically from there.
        """
        if isinstance(multiple, bool) or not isinstance(multiple, int | np.integer) or multiple < 1:
            raise ValueError(f"Curves.padded: multiple must be a positive integer; got {multiple!r}.")
        lengths = self.lengths[:, None]
        position = np.arange(bucket(int(lengths.max()), int(multiple)))
        rows = self.offsets[:-1, None] + np.minimum(position, lengths - 1)
        y = self.y[rows]
        mask = (position < lengths)[:, :, None] & ~np.isnan(y)
        return Padded(self.x[rows], np.where(mask, y, 0.0), mask)

    def __eq__(self, other: object) -> bool:
        """Equal points, values (NaN equals NaN), ids and covariates, exactly."""
        if not isinstance(other, Curves):
            return NotImplemented
        same_points = np.array_equal(self.offsets, other.offsets) and np.array_equal(self.x, other.x)
        if not (same_points and np.array_equal(self.y, other.y, equal_nan=True) and self.ids.equals(other.ids)):
            return False
        if self._covariates is None or other._covariates is None:
            return self._covariates is other._covariates
        return bool(self._covariates.equals(other._covariates))

    def __repr__(self) -> str:
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        points = (
            f"{count(longest, 'point')} each" if shortest == longest else f"{shortest:,} to {longest:,} points each"
        )
        box = " × ".join(f"[{low:.6g}, {high:.6g}]" for low, high in zip(*self.domain, strict=True))
        parts = [count(len(self), "curve"), points, f"x in {box}", count(self.d_y, "output")]
        missing = int(np.isnan(self.y).sum())
        if missing:
            parts.append(count(missing, "missing value"))
        if self._covariates is not None:
            parts.append(f"covariates: {listed(self._covariates.columns)}")
        return f"<Curves: {', '.join(parts)}>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Curves cannot be changed: {name!r} is read-only; curves.replace(...) gives new ones.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Curves cannot be changed: {name!r} is read-only.")

    def __copy__(self) -> Curves:
        return self

    def __deepcopy__(self, memo: dict) -> Curves:
        return self

    def __reduce__(self) -> tuple:  # pickled arrays come back writeable; _trusted makes them read-only again
        return Curves._trusted, (self.x, self.y, self.offsets, self.ids, self._covariates)

    @staticmethod
    def _trusted(x: Any, y: Any, offsets: Any, ids: pd.Index, covariates: pd.DataFrame | None) -> Curves:
        """Curves of arrays already checked, which nobody else may write to."""
        curves = object.__new__(Curves)
        curves._assign(x, y, offsets, ids, covariates)
        return curves

    def _assign(self, x: Any, y: Any, offsets: Any, ids: pd.Index, covariates: pd.DataFrame | None) -> None:
        for name, array in (("x", x), ("y", y), ("offsets", offsets)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "_covariates", covariates)
