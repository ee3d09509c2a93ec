"""Curves from and to xarray: named dimensions for curve, places and outputs, or points in a row (CF ragged arrays).

Curves with points of their own are written as the climate and forecast conventions write them: the points of all
curves along one dimension, and beside them a variable `row_size` that counts those of each curve.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from febm.checks import as_numbers, listed
from febm.io_arrays import flat_grid, product, share_a_grid, write_axes
from febm.io_tables import id_columns, numbered, refuse_repeated_names
from febm.libraries import comes_from, imported
from febm.ragged import FlatCurves

if TYPE_CHECKING:
    import xarray

    from febm.curves import Curves

FROM, TO = "Curves.from_xarray", "Curves.to_xarray"
KINDS = ("grid", "ragged")
# The attribute that says what the ids are called.
CALLED = "long_name"


def read_xarray(obj: Any, *, curve: Any, x: Any, y: Any, output: Any) -> FlatCurves:
    """Flat storage from a DataArray or a Dataset; values are copied, because their owner may change them."""
    names = None if x is None else _names(x)
    if comes_from(obj, "xarray", "DataArray"):
        if y is not None:
            raise ValueError(f"{FROM}: y names variables of a Dataset; a DataArray is one: leave y out.")
        return _read_arrays([obj], curve, names, output)
    if not comes_from(obj, "xarray", "Dataset"):
        raise TypeError(f"{FROM}: obj must be a DataArray or Dataset of xarray; got {type(obj).__name__}.")
    sizes = [name for name, variable in obj.variables.items() if "sample_dimension" in variable.attrs]
    if sizes:
        return _read_ragged(obj, sizes[0], names, y)
    along = _curve_dimension(_outputs(obj, y, lambda variable: variable.ndim > 1)[0], curve, names, output)
    labelled = obj.set_coords(_along(obj, along))
    return _read_arrays(_outputs(labelled, y, lambda variable: variable.ndim > 1), along, names, output)


def write_xarray(curves: Curves, *, kind: str | None = None) -> xarray.Dataset:
    """A Dataset of one variable per output."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"{TO}: kind is {kind!r}; give {' or '.join(map(repr, KINDS))}, or leave it out.")
    xarray = imported("xarray", needed_by=TO)
    x_names, y_names = numbered("x", curves.d_x), numbered("y", curves.d_y)
    if kind == "grid" or (kind is None and share_a_grid(curves)):
        axes, values = write_axes(curves, TO)
        variables: dict[Hashable, Any] = {name: (("curve", *x_names), values[..., k]) for k, name in enumerate(y_names)}
        places: dict[Hashable, Any] = dict(zip(x_names, axes, strict=True))
    else:
        variables = {name: ("point", curves.y[:, k]) for k, name in enumerate(y_names)}
        variables["row_size"] = ("curve", curves.lengths, {"sample_dimension": "point"})
        places = {name: ("point", curves.x[:, k]) for k, name in enumerate(x_names)}
    keys, covariates = [name for name, _ in id_columns(curves.ids)], _covariates(curves)
    refuse_repeated_names(["curve", *(keys if len(keys) > 1 else []), *variables, *places, *covariates], TO)
    ids = curves.ids
    if len(keys) > 1:
        ids = xarray.Coordinates.from_pandas_multiindex(ids.set_names(keys), "curve")
    dataset = xarray.Dataset(variables, ids if len(keys) > 1 else {"curve": ("curve", *_named(ids))})
    return dataset.assign_coords(places | covariates)


def has_places(obj: Any) -> bool:
    """Whether labels say where values were observed; rows of curves without them are a plain array."""
    if comes_from(obj, "xarray", "Dataset") or obj.ndim != 2:
        return True
    return obj.dims[0] != _curve_dimension(obj, None) or obj.dims[1] in obj.coords


class LabelledRows(NamedTuple):
    """A labelled array of one output as rows of curves, and the way back."""

    points: Float[np.ndarray, "points inputs"]
    values: Float[np.ndarray, "curves points"]
    ordered: xarray.DataArray  # the curves along its first dimension
    dimensions: tuple[Hashable, ...]

    def with_values(self, values: Float[np.ndarray, "curves points"]) -> xarray.DataArray:
        """The array with other values, its dimensions as they were."""
        return self.ordered.copy(data=values.reshape(self.ordered.shape)).transpose(*self.dimensions)


def labelled_rows(obj: Any) -> LabelledRows | None:
    """The rows of a DataArray whose curves have their points in common and one output; None of anything else."""
    if not comes_from(obj, "xarray", "DataArray") or obj.ndim < 2 or _output_dimension(obj, None) is not None:
        return None
    along = _curve_dimension(obj, None)
    inner = [dimension for dimension in obj.dims if dimension != along]
    ordered = obj.transpose(along, *inner)
    points = product([_axis(obj, dimension) for dimension in inner])
    values = as_numbers(ordered.values, f"{FROM}: obj", copy=True)
    return LabelledRows(points, values.reshape(len(values), -1), ordered, obj.dims)


def _read_arrays(variables: Sequence[Any], curve: Any, x: list[Hashable] | None, output: Any) -> FlatCurves:
    """Flat storage from arrays of the same dimensions, one for each output or with a dimension of outputs."""
    first = variables[0]
    along, across = _curve_dimension(first, curve, x, output), _output_dimension(first, output)
    if across is not None and (across not in first.dims or len(variables) > 1):
        raise ValueError(f"{FROM}: output names {across!r}, which is no dimension of a single array; got {first.dims}.")
    inner = [dimension for dimension in first.dims if dimension not in (along, across)]
    if not inner:
        raise ValueError(
            f"{FROM}: the array has the dimensions {first.dims}, none of which is a place; curves need one for the "
            "curve and one for each input. One curve is obj.expand_dims('curve')."
        )
    if x is not None and set(x) == set(inner):
        inner = x
    values = _values(variables, [along, *inner], across)
    n, outputs = len(values), values.shape[-1]
    ids, table = _labels(first, along, x or [])
    if x is None or x is inner:
        grid = product([_axis(first, dimension) for dimension in inner])
        return flat_grid(grid, values.reshape(n, len(grid), outputs), ids, table)
    template = first if across is None else first.isel({across: 0}, drop=True)
    places = [_coordinate(template, name).broadcast_like(template).transpose(along, *inner) for name in x]
    points = np.stack([as_numbers(place.values, f"{FROM}: coordinate {place.name!r}") for place in places], axis=-1)
    size = math.prod(values.shape[1:-1])
    return _without_filling(points.reshape(n, size, len(x)), values.reshape(n, size, outputs), ids, table)


def _read_ragged(dataset: xarray.Dataset, sizes: Hashable, x: list[Hashable] | None, y: Any) -> FlatCurves:
    """Flat storage from points in a row, as the conventions have them."""
    (along,), points = dataset[sizes].dims, dataset[sizes].attrs["sample_dimension"]
    if x is None:
        x = [name for name, variable in dataset.coords.items() if variable.dims == (points,) and name != points]
        x = x or [name for name in dataset.coords if name == points]
        if not x:
            raise ValueError(f"{FROM}: no coordinate says where the points along {points!r} are; name them with x.")
    outputs = _outputs(dataset, y, lambda variable: variable.dims == (points,) and variable.name not in x)
    places = [_coordinate(dataset, name) for name in x]
    ids, table = _labels(dataset.set_coords(_along(dataset, along)), along, [sizes, *x])
    offsets = np.append(0, np.cumsum(dataset[sizes].values)).astype(np.int64)
    if offsets[-1] != dataset.sizes[points]:
        raise ValueError(
            f"{FROM}: {sizes!r} counts {offsets[-1]:,} points, but there are {dataset.sizes[points]:,} along "
            f"{points!r}; they must be as many."
        )
    return FlatCurves(
        np.stack([as_numbers(place.values, f"{FROM}: coordinate {place.name!r}") for place in places], axis=-1),
        np.stack([as_numbers(value.values, f"{FROM}: variable {value.name!r}") for value in outputs], axis=-1),
        offsets,
        ids,
        table,
    )


def _without_filling(x: np.ndarray, y: np.ndarray, ids: Any, table: pd.DataFrame | None) -> FlatCurves:
    """Flat storage of rectangular arrays, in which rows shorter than others are filled with missing values."""
    kept = ~np.isnan(y).all(axis=-1)
    return FlatCurves(x[kept], y[kept], np.append(0, np.cumsum(kept.sum(axis=1))), ids, table)


def _outputs(dataset: xarray.Dataset, y: Any, is_one: Any) -> list[Any]:
    """The variables that are outputs: those that are named, or all that look like one."""
    names = [name for name, variable in dataset.data_vars.items() if is_one(variable)] if y is None else _names(y)
    absent = [name for name in names if name not in dataset.variables]
    if absent or not names:
        fault = f"y names {listed(map(repr, absent))}, which obj does not have" if absent else "obj has no outputs"
        raise ValueError(f"{FROM}: {fault}; its variables are {listed(map(repr, dataset.data_vars))}.")
    variables = [dataset[name] for name in names]
    unlike = [variable.name for variable in variables if set(variable.dims) != set(variables[0].dims)]
    if unlike:
        raise ValueError(
            f"{FROM}: variable {unlike[0]!r} has other dimensions than {names[0]!r}, {variables[0].dims}; name with y "
            "those that are outputs of the same functions."
        )
    return variables


def _curve_dimension(
    variable: xarray.DataArray, curve: Any, x: list[Hashable] | None = None, output: Any = None
) -> Hashable:
    """The dimension that is named, or called "curve"; else the first, unless it says where values were observed."""
    if curve is not None and curve not in variable.dims:
        raise ValueError(f"{FROM}: curve names {curve!r}, which is no dimension; those are {variable.dims}.")
    if not variable.dims:
        raise ValueError(f"{FROM}: the array is a single number; curves need a dimension of curves and one of places.")
    if curve is not None or "curve" in variable.dims:
        return "curve" if curve is None else curve
    free = [dimension for dimension in variable.dims if dimension != _output_dimension(variable, output)]
    if x is not None:
        return next((dimension for dimension in free if dimension not in x), variable.dims[0])
    # Curves need no labels but places do: of two dimensions, the only one with numbers is that of places.
    if len(free) == 2 and free[1] not in variable.coords and _are_places(variable, free[0]):
        return free[1]
    return variable.dims[0]


def _are_places(variable: xarray.DataArray, dimension: Hashable) -> bool:
    """Whether labels are numbers that rise or fall all along, as places do, and names of curves need not."""
    if dimension not in variable.coords or variable.coords[dimension].dtype.kind not in "iuf":
        return False
    steps = np.diff(variable.coords[dimension].values.astype(float))
    return bool((steps > 0).all() or (steps < 0).all())


def _output_dimension(variable: xarray.DataArray, output: Any) -> Hashable | None:
    return output if output is not None else "output" if "output" in variable.dims else None


def _coordinate(owner: xarray.DataArray | xarray.Dataset, name: Hashable) -> Any:
    known = owner.coords if comes_from(owner, "xarray", "DataArray") else owner.variables
    if name not in known:
        raise ValueError(f"{FROM}: x names {name!r}, which is no coordinate; there are {listed(map(repr, known))}.")
    return owner[name]


def _axis(variable: xarray.DataArray, dimension: Hashable) -> np.ndarray:
    """The places along a dimension, 0, 1, 2, … where it has no labels."""
    if dimension not in variable.coords:
        return np.arange(variable.sizes[dimension], dtype=np.float64)
    return as_numbers(variable.coords[dimension].values, f"{FROM}: coordinate {dimension!r}")


def _values(variables: Sequence[Any], dimensions: list[Hashable], output: Hashable | None) -> np.ndarray:
    """The values `(curves, …, outputs)`, in memory of their own."""
    order = dimensions if output is None else [*dimensions, output]
    arrays = [
        as_numbers(variable.transpose(*order).values, f"{FROM}: variable {variable.name!r}") for variable in variables
    ]
    return np.array(arrays[0]) if output is not None else np.stack(arrays, axis=-1)


def _along(dataset: xarray.Dataset, dimension: Hashable) -> list[Hashable]:
    """What is said of each curve as a whole: covariates, though they are not called coordinates."""
    return [name for name, variable in dataset.data_vars.items() if variable.dims == (dimension,)]


def _labels(
    labelled: xarray.DataArray | xarray.Dataset, along: Hashable, taken: Sequence[Hashable]
) -> tuple[pd.Index | None, pd.DataFrame | None]:
    """The ids, which are the index of the dimension of curves, and the covariates, which are all else along it."""
    ids = labelled.indexes.get(along)
    if ids is not None and ids.nlevels == 1:
        ids = ids.rename(labelled.coords[along].attrs.get(CALLED, ids.name))
    not_covariates = {along, *taken} | (set() if ids is None else set(ids.names))
    columns = {
        name: pd.Series(coordinate.data)
        for name, coordinate in labelled.coords.items()
        if coordinate.dims == (along,) and name not in not_covariates
    }
    return ids, pd.DataFrame(columns) if columns else None


def _named(ids: pd.Index) -> tuple[pd.Index, dict[str, Any]]:
    """Ids as labels of the dimension of curves, and what they are called: the name of labels is that of a dimension."""
    return ids.rename("curve"), {} if ids.name in (None, "curve") else {CALLED: str(ids.name)}


def _covariates(curves: Curves) -> dict[Hashable, Any]:
    """Covariates as coordinates along the curves."""
    covariates = curves.covariates
    if covariates is None:
        return {}
    return {name: ("curve", _as_coordinate(covariates[name])) for name in covariates.columns}


def _as_coordinate(column: pd.Series) -> Any:
    """The values of a column in the type that xarray has for it; text is objects, which it can write to a file."""
    if isinstance(column.dtype, pd.StringDtype):
        return column.to_numpy(dtype=object)
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array


def _names(names: Any) -> list[Hashable]:
    return list(names) if isinstance(names, list | tuple) else [names]
