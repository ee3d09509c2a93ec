"""Labelled arrays of xarray: curves go there and back, on a grid or in a row, ids and covariates are coordinates."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from strategies import gridded, in_order, quick, ragged

from febm.curves import Curves
from febm.door import as_curves

X = np.array([0.0, 0.5, 2.0])
Y = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, 6.0]])
ARRAY = xr.DataArray(Y, {"time": X, "day": ["mon", "tue"], "wet": ("day", [True, False])}, ("day", "time"))
EXPECTED = Curves.from_grid(X, Y, ids=["mon", "tue"], covariates={"wet": [True, False]})


# Round trips


@given(gridded(missing=False))
@quick
def test_grid_brings_back_the_same_curves(curves):
    dataset = curves.to_xarray()
    assert "row_size" not in dataset
    assert Curves.from_xarray(dataset) == curves


@given(gridded())
@quick
def test_grid_with_gaps_brings_back_the_same_curves(curves):
    assert Curves.from_xarray(curves.to_xarray(kind="grid")) == curves


@given(ragged())
@quick
def test_points_in_a_row_bring_back_the_same_curves(curves):
    assert Curves.from_xarray(curves.to_xarray(kind="ragged")) == curves


@given(ragged(distinct=True, widths=1))
@quick
def test_a_grid_of_all_points_brings_back_the_same_curves_in_order(curves):
    assert Curves.from_xarray(curves.to_xarray(kind="grid")) == in_order(curves)


# What becomes what


def test_array_has_curves_places_ids_and_covariates():
    assert Curves.from_xarray(ARRAY) == EXPECTED


def test_dimensions_are_found_by_their_names_in_any_order():
    turned = ARRAY.transpose("time", "day")
    assert Curves.from_xarray(turned, curve="day") == EXPECTED
    assert Curves.from_xarray(turned.rename(day="curve")) == EXPECTED


def without_names(array):
    return array.drop_vars(["day", "wet"])


@pytest.mark.parametrize("places", [X, X[::-1], np.array([0, 6, 12])], ids=["rising", "falling", "whole"])
@pytest.mark.parametrize(
    "wrap", [lambda array: array, lambda array: array.to_dataset(name="load")], ids=["array", "dataset"]
)
def test_a_first_dimension_that_alone_is_labelled_by_numbers_is_that_of_places(wrap, places):
    turned = without_names(ARRAY.assign_coords(time=places)).transpose("time", "day")
    assert Curves.from_xarray(wrap(turned)) == Curves.from_grid(places, Y)
    assert as_curves(wrap(turned)) == Curves.from_grid(places, Y)


def test_outputs_do_not_hide_which_dimension_is_labelled():
    both = xr.concat([without_names(ARRAY), -without_names(ARRAY)], dim="output").transpose("time", "day", "output")
    np.testing.assert_array_equal(Curves.from_xarray(both).y, np.column_stack([EXPECTED.y, -EXPECTED.y]))
    renamed = both.rename(output="channel")
    assert Curves.from_xarray(renamed, output="channel") == Curves.from_xarray(both)


@pytest.mark.parametrize(
    "names", [["mon", "tue"], pd.date_range("2024-01-01", periods=2), [7, 7]], ids=["words", "dates", "repeated"]
)
def test_a_first_dimension_that_is_labelled_by_names_is_that_of_curves(names):
    named = ARRAY.drop_vars(["time", "wet"]).assign_coords(day=names)
    assert len(Curves.from_xarray(named)) == 2


def test_the_dimension_of_curves_can_be_named_where_numbers_are_names():
    numbered = ARRAY.drop_vars(["time", "wet"]).assign_coords(day=[101, 102])
    assert len(Curves.from_xarray(numbered)) == 3
    curves = Curves.from_xarray(numbered, curve="day")
    assert curves.ids.tolist() == [101, 102]
    assert Curves.from_xarray(numbered, x="time") == curves


def test_the_dimension_of_curves_is_none_of_those_that_x_names():
    turned = ARRAY.transpose("time", "day")
    assert Curves.from_xarray(turned, x="time") == EXPECTED
    assert Curves.from_xarray(turned.to_dataset(name="load"), x="time") == EXPECTED


def test_two_inputs_come_in_the_order_that_is_asked_for():
    array = xr.DataArray(np.arange(6.0).reshape(1, 2, 3), {"lat": [50, 60], "lon": [1, 2, 3]}, ("day", "lat", "lon"))
    np.testing.assert_array_equal(Curves.from_xarray(array).x[:2], [[50, 1], [50, 2]])
    swapped = Curves.from_xarray(array, x=("lon", "lat"))
    np.testing.assert_array_equal(swapped.x[:2], [[1, 50], [1, 60]])
    np.testing.assert_array_equal(swapped.y[:2, 0], [0, 3])


def test_a_dimension_without_labels_counts_from_zero():
    np.testing.assert_array_equal(Curves.from_xarray(ARRAY.drop_vars("time")).x[:3, 0], [0, 1, 2])


@pytest.mark.parametrize("name", ["output", "channel"])
def test_a_dimension_may_hold_the_outputs(name):
    both = xr.concat([ARRAY, -ARRAY], dim=name)
    curves = Curves.from_xarray(both, curve="day", output=None if name == "output" else name)
    np.testing.assert_array_equal(curves.y, np.column_stack([EXPECTED.y, -EXPECTED.y]))
    assert curves.covariates.equals(EXPECTED.covariates)


def test_variables_of_a_dataset_are_outputs():
    dataset = xr.Dataset({"load": ARRAY, "price": -ARRAY.transpose(), "size": ("day", [7, 8])})
    curves = Curves.from_xarray(dataset, curve="day")
    np.testing.assert_array_equal(curves.y, np.column_stack([EXPECTED.y, -EXPECTED.y]))
    assert list(curves.covariates.columns) == ["wet", "size"]
    assert Curves.from_xarray(dataset.drop_vars("size"), y="load") == EXPECTED


def test_a_coordinate_may_give_each_curve_its_own_points():
    own = xr.DataArray(
        [[1.0, 2.0, np.nan], [3.0, 4.0, 5.0]],
        {"time": (("day", "step"), [[0.0, 0.3, np.nan], [0.1, 0.2, 0.9]])},
        ("day", "step"),
    )
    expected = Curves.from_arrays([[0.0, 0.3], [0.1, 0.2, 0.9]], [[1.0, 2.0], [3.0, 4.0, 5.0]])
    assert Curves.from_xarray(own, x="time") == expected


def test_points_in_a_row_may_be_named_otherwise():
    dataset = xr.Dataset(
        {
            "profile_size": ("profile", [1, 2], {"sample_dimension": "obs"}),
            "depth": ("obs", [0.0, 1.0, 2.0]),
            "salt": ("obs", [5.0, 6.0, 7.0]),
            "ship": ("profile", ["a", "b"]),
        }
    )
    curves = Curves.from_xarray(dataset, x="depth")
    assert curves == Curves.from_arrays([[0], [1, 2]], [[5], [6, 7]], covariates={"ship": ["a", "b"]})


def test_curves_with_points_of_their_own_are_written_in_a_row():
    dataset = Curves.from_arrays([[0.0, 1.0], [0.5]], [[1.0, 2.0], [3.0]]).to_xarray()
    assert dataset["row_size"].attrs["sample_dimension"] == "point"
    np.testing.assert_array_equal(dataset["row_size"], [2, 1])
    np.testing.assert_array_equal(dataset["x"], [0, 1, 0.5])


def test_ids_select_curves():
    ids = pd.MultiIndex.from_tuples([("north", 1), ("south", 1)], names=["site", "year"])
    dataset = EXPECTED.replace(ids=ids).to_xarray(kind="grid")
    np.testing.assert_array_equal(dataset["y"].sel(site="south", year=1).squeeze(), Y[1])
    assert list(dataset.sizes) == ["curve", "x"]


# Nothing is shared that can be changed


@pytest.mark.parametrize("kind", ["grid", "ragged"])
def test_values_are_shared_and_cannot_be_written_to(kind):
    curves = Curves.from_grid(X, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    written = curves.to_xarray(kind=kind)["y"]
    assert np.shares_memory(written.values, curves.y)
    with pytest.raises(ValueError, match="read-only"):
        written.values[:] = 0


def test_changing_an_array_afterwards_changes_nothing():
    array = ARRAY.copy(deep=True)
    curves = Curves.from_xarray(array)
    array[:] = 0
    assert curves == EXPECTED


# Errors are sentences

ROW = EXPECTED.to_xarray(kind="ragged")

BAD_ARRAYS = {
    "one dimension": (lambda: Curves.from_xarray(ARRAY[0]), r"none of which is a place.*obj.expand_dims\('curve'\)"),
    "no dimension": (lambda: Curves.from_xarray(ARRAY[0, 0]), "the array is a single number"),
    "absent curve": (lambda: Curves.from_xarray(ARRAY, curve="week"), "curve names 'week', which is no dimension"),
    "absent x": (lambda: Curves.from_xarray(ARRAY, x="hour"), "x names 'hour', which is no coordinate"),
    "absent output": (lambda: Curves.from_xarray(ARRAY, output="channel"), "output names 'channel', which is no"),
    "absent y": (lambda: Curves.from_xarray(EXPECTED.to_xarray(), y="z"), "y names 'z', which obj does not have"),
    "y of an array": (lambda: Curves.from_xarray(ARRAY, y="z"), "y names variables of a Dataset"),
    "no curves": (lambda: Curves.from_xarray(ARRAY[:0]), "from_xarray: there are no curves"),
    "no outputs": (lambda: Curves.from_xarray(xr.Dataset({"size": ("day", [1])})), "obj has no outputs"),
    "unlike variables": (
        lambda: Curves.from_xarray(xr.Dataset({"a": ARRAY, "b": ARRAY.rename(time="hour")})),
        "variable 'b' has other dimensions than 'a'",
    ),
    "dates": (
        lambda: Curves.from_xarray(ARRAY.assign_coords(time=pd.date_range("2024-01-01", periods=3))),
        "coordinate 'time' holds dates or durations",
    ),
    "wrong sizes": (
        lambda: Curves.from_xarray(ROW.assign(row_size=("curve", [4, 3], {"sample_dimension": "point"}))),
        "counts 7 points, but there are 5 along 'point'",
    ),
    "no places": (lambda: Curves.from_xarray(ROW.drop_vars("x")), "no coordinate says where the points along 'point'"),
    "kind": (lambda: EXPECTED.to_xarray(kind="wide"), "kind is 'wide'; give 'grid' or 'ragged', or leave it out"),
    "name taken": (
        lambda: Curves.from_grid([0], [[1]], covariates={"x": [1]}).to_xarray(),
        "two columns would be called 'x'",
    ),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays_are_told_what_is_wrong(case):
    attempt, sentence = BAD_ARRAYS[case]
    with pytest.raises(ValueError, match=sentence):
        attempt()


@pytest.mark.parametrize("value", [Y, xr.DataTree()])
def test_what_is_no_labelled_array_is_refused(value):
    with pytest.raises(TypeError, match="obj must be a DataArray or Dataset of xarray; got"):
        Curves.from_xarray(value)


@pytest.mark.parametrize("kind", ["grid", "ragged"])
def test_ids_that_have_a_name_are_labels_of_the_curves_and_come_back(kind):
    ids = pd.Index(["S1", "S2"], name="site")
    dataset = Curves.from_grid([0.0, 1.0, 3.0], np.arange(6.0).reshape(2, 3), ids=ids).to_xarray(kind=kind)
    assert set(dataset.dims) == {"curve", "x" if kind == "grid" else "point"}
    assert dataset.sel(curve="S2").y.max() == 5.0 if kind == "grid" else dataset.row_size.sel(curve="S2") == 3
    pd.testing.assert_index_equal(Curves.from_xarray(dataset).ids, ids)
