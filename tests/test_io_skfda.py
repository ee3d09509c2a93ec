"""Functional data of scikit-fda: curves go there and back, and what changes on one side stays there."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from skfda.representation import FDataBasis, FDataGrid, FDataIrregular
from skfda.representation.basis import BSplineBasis, MonomialBasis, TensorBasis
from strategies import gridded, in_order, quick, ragged

from febm.curves import Curves

RAGGED = Curves.from_arrays([[0.0, 0.4, 1.0], [0.2, 0.5, 0.7, 0.9]], [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]])
LINES = MonomialBasis(domain_range=(0, 4), n_basis=2)


# Round trips


@given(gridded(missing=False))
@quick
def test_grid_brings_back_the_same_curves(curves):
    fd = curves.to_skfda()
    assert isinstance(fd, FDataGrid)
    assert Curves.from_skfda(fd, covariates=curves.covariates) == curves


@given(gridded())
@quick
def test_grid_with_gaps_brings_back_the_same_curves(curves):
    assert Curves.from_skfda(curves.to_skfda(kind="grid"), covariates=curves.covariates) == curves


@given(ragged())
@quick
def test_irregular_points_bring_back_the_same_curves_in_order(curves):
    fd = curves.to_skfda(kind="irregular")
    assert isinstance(fd, FDataIrregular)
    assert Curves.from_skfda(fd, covariates=curves.covariates) == in_order(curves)


# What becomes what


def test_curves_with_points_of_their_own_are_irregular():
    assert isinstance(RAGGED.to_skfda(), FDataIrregular)


def test_points_that_fill_no_grid_are_irregular():
    corner = Curves.from_grid([[0, 0], [0, 1], [1, 0]], np.ones((2, 3)))
    assert isinstance(corner.to_skfda(), FDataIrregular)
    assert np.isnan(corner.to_skfda(kind="grid").data_matrix[:, 1, 1, 0]).all()


def test_repeated_points_are_irregular():
    assert isinstance(Curves.from_grid([0.0, 0.0], [[1.0, 2.0]]).to_skfda(), FDataIrregular)


def test_points_of_a_grid_are_sorted():
    fd = Curves.from_grid([2.0, 0.0, 1.0], [[5.0, 6.0, 7.0]]).to_skfda()
    np.testing.assert_array_equal(fd.grid_points[0], [0, 1, 2])
    np.testing.assert_array_equal(fd.data_matrix[0, :, 0], [6, 7, 5])


def test_images_are_functions_of_two_inputs():
    pixels = np.arange(2 * 3 * 4 * 2.0).reshape(2, 3, 4, 2)
    curves = Curves.from_images(pixels)
    fd = curves.to_skfda()
    assert (fd.dim_domain, fd.dim_codomain) == (2, 2)
    np.testing.assert_array_equal(fd.data_matrix, pixels)
    np.testing.assert_array_equal(Curves.from_skfda(fd).to_images(), pixels)


def test_ids_are_the_names_of_the_samples():
    named = RAGGED.replace(ids=["mon", "tue"])
    assert named.to_skfda().sample_names == ("mon", "tue")
    assert list(Curves.from_skfda(named.to_skfda()).ids) == ["mon", "tue"]
    assert list(Curves.from_skfda(named.to_skfda(), ids=["a", "b"]).ids) == ["a", "b"]


def test_curves_without_names_have_none():
    assert RAGGED.to_skfda().sample_names == (None, None)
    assert Curves.from_skfda(RAGGED.to_skfda()).ids.equals(pd.RangeIndex(2))


def test_coordinates_are_named_as_in_a_table():
    fd = Curves.from_images(np.ones((1, 2, 2))).to_skfda()
    assert (fd.argument_names, fd.coordinate_names) == (("x0", "x1"), ("y",))


# Functions on a basis


def test_functions_on_a_basis_are_evaluated_where_it_is_said():
    fd = FDataBasis(LINES, [[1, 2], [0, -1]], sample_names=["up", "down"])
    curves = Curves.from_skfda(fd, grid_points=[0, 1, 4])
    assert curves == Curves.from_grid([0, 1, 4], [[1, 3, 9], [0, -1, -4]], ids=["up", "down"])


def test_functions_on_a_basis_get_ten_points_for_each_of_its_functions():
    curves = Curves.from_skfda(FDataBasis(LINES, [[1, 2]]))
    np.testing.assert_allclose(curves.x[:, 0], np.linspace(0, 4, 21))
    np.testing.assert_allclose(curves.y, 1 + 2 * curves.x)


def test_functions_of_two_inputs_on_a_basis_are_evaluated_on_a_grid():
    plane = FDataBasis(TensorBasis([LINES, LINES]), [[0, 1, 10, 0]])
    curves = Curves.from_skfda(plane, grid_points=[[0, 1], [0, 2, 4]])
    np.testing.assert_array_equal(curves.x, [[0, 0], [0, 2], [0, 4], [1, 0], [1, 2], [1, 4]])
    np.testing.assert_allclose(curves.y[:, 0], curves.x @ [10, 1])
    assert len(Curves.from_skfda(plane).x) == 21**2


@pytest.mark.parametrize("kept", [slice(None), [0, 1, 3, 4, 5, 8]])
def test_lines_are_found_on_a_basis_of_lines(kept):
    x = np.linspace(0, 4, 5)
    curves = Curves.from_grid(x, [1 + 2 * x, -x], ids=["up", "down"])
    some = curves.select(np.isin(np.arange(10), np.arange(10)[kept]))
    fd = some.to_skfda(basis=LINES)
    np.testing.assert_allclose(fd.coefficients, [[1, 2], [0, -1]], atol=1e-10)
    assert fd.sample_names == ("up", "down")


# Nothing is shared that can be changed


def test_values_on_a_grid_are_shared_and_cannot_be_written_to():
    curves = Curves.from_grid([0.0, 1.0], [[1.0, 2.0]])
    fd = curves.to_skfda()
    assert np.shares_memory(fd.data_matrix, curves.y)
    with pytest.raises(ValueError, match="read-only"):
        fd.data_matrix[:] = 0


@pytest.mark.parametrize("kind", ["grid", "irregular"])
def test_changing_functional_data_afterwards_changes_nothing(kind):
    curves = Curves.from_grid([0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]])
    fd = curves.to_skfda(kind=kind)
    mine = fd.copy(**{"data_matrix": fd.data_matrix.copy()} if kind == "grid" else {"values": fd.values.copy()})
    again = Curves.from_skfda(mine)
    (mine.data_matrix if kind == "grid" else mine.values)[:] = 0
    assert again == curves


# Errors are sentences


SCATTERED = Curves(np.random.default_rng(0).random((20_000, 2)), np.zeros(20_000), [0, 20_000])
HALF = Curves.from_arrays([[0, 1]], [[[1, 2], [np.nan, 3]]])

BAD_FUNCTIONS = {
    "kind": (lambda: RAGGED.to_skfda(kind="basis"), "kind is 'basis'; give 'grid' or 'irregular', or leave it out"),
    "kind and basis": (lambda: RAGGED.to_skfda(kind="grid", basis=LINES), "both kind and basis are given"),
    "missing on a basis": (lambda: HALF.to_skfda(basis=LINES), "1 value of some output missing"),
    "scattered points": (lambda: SCATTERED.to_skfda(kind="grid"), "20,000 × 20,000 points for each of 1 curve"),
    "repeated points": (
        lambda: Curves.from_grid([0.0, 0.0], [[1.0, 2.0]]).to_skfda(kind="grid"),
        "to_skfda: curve 0 has more than one value",
    ),
    "points of a grid": (
        lambda: Curves.from_skfda(RAGGED.to_skfda(), grid_points=[0, 1]),
        r"an FDataIrregular has points of its own.*fd.to_grid\(grid_points\)",
    ),
    "one axis for two": (
        lambda: Curves.from_skfda(FDataBasis(TensorBasis([LINES, LINES]), [[0, 1, 10, 0]]), grid_points=[[0, 1]]),
        "grid_points has 1 list for functions of 2 inputs",
    ),
    "empty curve": (
        lambda: Curves.from_skfda(FDataIrregular([0, 2, 2], [[0.0], [1.0], [2.0]], [[1.0], [2.0], [3.0]])),
        r"from_skfda: 1 curve has no observed point \(1\)",
    ),
}


@pytest.mark.parametrize("case", BAD_FUNCTIONS)
def test_bad_functional_data_is_told_what_is_wrong(case):
    attempt, sentence = BAD_FUNCTIONS[case]
    with pytest.raises(ValueError, match=sentence):
        attempt()


@pytest.mark.parametrize("value", [np.zeros((2, 3)), BSplineBasis(n_basis=4)])
def test_what_is_no_functional_data_is_refused(value):
    with pytest.raises(TypeError, match="fd must be an FDataGrid, FDataIrregular or FDataBasis of scikit-fda; got"):
        Curves.from_skfda(value)
