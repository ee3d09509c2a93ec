"""Curves from and to scikit-fda: grids of any number of inputs, irregular points, and functions on a basis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from febm.checks import as_numbers, count
from febm.io_arrays import flat_grid, product, share_a_grid, write_axes
from febm.io_tables import numbered
from febm.libraries import comes_from, imported
from febm.ragged import FlatCurves

if TYPE_CHECKING:
    from skfda.representation import FDataBasis, FDataGrid, FDataIrregular
    from skfda.representation.basis import Basis

    from febm.curves import Curves

FROM, TO = "Curves.from_skfda", "Curves.to_skfda"
KINDS = ("grid", "irregular")
# A function of a basis turns about once where one basis function does: ten points show each turn.
POINTS_A_FUNCTION = 10


def read_skfda(fd: Any, *, grid_points: Any, ids: Any, covariates: Any) -> FlatCurves:
    """Flat storage from functional data of scikit-fda; its arrays are copied, because their owner may change them."""
    if not comes_from(fd, "skfda", "FDataGrid", "FDataIrregular", "FDataBasis"):
        raise TypeError(
            f"{FROM}: fd must be an FDataGrid, FDataIrregular or FDataBasis of scikit-fda; got {type(fd).__name__}."
        )
    ids = _ids(fd) if ids is None else ids
    if comes_from(fd, "skfda", "FDataBasis"):
        axes = _axes(fd) if grid_points is None else _given_axes(grid_points, fd.dim_domain)
        return _on_axes(axes, np.asarray(fd(axes, grid=True)), ids, covariates)
    if grid_points is not None:
        raise ValueError(
            f"{FROM}: grid_points say where functions on a basis are evaluated; an {type(fd).__name__} has points of "
            "its own. To interpolate between them give fd.to_grid(grid_points)."
        )
    if comes_from(fd, "skfda", "FDataGrid"):
        return _on_axes(fd.grid_points, np.array(fd.data_matrix, dtype=np.float64), ids, covariates)
    offsets = np.append(fd.start_indices, len(fd.points)).astype(np.int64)
    x, y = (np.array(array, dtype=np.float64) for array in (fd.points, fd.values))
    return FlatCurves(x, y, offsets, ids, covariates)


def write_skfda(
    curves: Curves, *, kind: str | None = None, basis: Basis | None = None
) -> FDataGrid | FDataIrregular | FDataBasis:
    """The same functions for scikit-fda."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"{TO}: kind is {kind!r}; give {' or '.join(map(repr, KINDS))}, or leave it out.")
    representation = imported("skfda.representation", needed_by=TO)
    if basis is not None:
        return _on_basis(curves, basis, kind)
    names = dict(
        sample_names=None if curves.ids.equals(pd.RangeIndex(len(curves))) else curves.ids.tolist(),
        argument_names=numbered("x", curves.d_x),
        coordinate_names=numbered("y", curves.d_y),
    )
    if kind == "grid" or (kind is None and share_a_grid(curves)):
        axes, values = write_axes(curves, TO)
        return representation.FDataGrid(values, axes, **names)
    return representation.FDataIrregular(curves.offsets[:-1], curves.x, curves.y, **names)


def _on_basis(curves: Curves, basis: Basis, kind: str | None) -> FDataBasis:
    missing = int(np.isnan(curves.y).sum())
    if kind is not None:
        raise ValueError(
            f"{TO}: both kind and basis are given; functions on a basis are of no other kind: leave it out."
        )
    if missing:
        raise ValueError(
            f"{TO}: {count(missing, 'value')} of some output missing at points where another is observed, and the "
            "smoother of scikit-fda takes none such; give one output at a time: curves.replace(y=curves.y[:, 0])."
        )
    return write_skfda(curves).to_basis(basis)


def _on_axes(axes: Any, values: np.ndarray, ids: Any, covariates: Any) -> FlatCurves:
    grid = product([np.asarray(axis, dtype=np.float64) for axis in axes])
    return flat_grid(grid, values.reshape(len(values), len(grid), values.shape[-1]), ids, covariates)


def _ids(fd: Any) -> pd.Index | None:
    """The names of the samples, where they have any."""
    return None if all(name is None for name in fd.sample_names) else pd.Index(list(fd.sample_names))


def _axes(fd: FDataBasis) -> list[np.ndarray]:
    """Points evenly spaced over the domain, `POINTS_A_FUNCTION` for each basis function."""
    size = math.ceil(POINTS_A_FUNCTION * fd.n_basis ** (1 / fd.dim_domain)) + 1
    return [np.linspace(lower, upper, size) for lower, upper in fd.domain_range]


def _given_axes(grid_points: Any, d_x: int) -> list[np.ndarray]:
    """Points along each axis: numbers for one input, a list of numbers for each of several."""
    axes = [grid_points] if d_x == 1 and np.ndim(grid_points[0]) == 0 else list(grid_points)
    if len(axes) != d_x:
        raise ValueError(f"{FROM}: grid_points has {count(len(axes), 'list')} for functions of {d_x} inputs.")
    return [as_numbers(axis, f"{FROM}: grid_points[{i}]") for i, axis in enumerate(axes)]
