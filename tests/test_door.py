"""The door of every model: what says where it was observed is read as such, a plain array is on a common grid."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import febm
from febm.curves import Curves
from febm.door import as_curves, holds_points
from febm.libraries import EXTRAS

X = np.linspace(0, 2, 5)
CURVES = Curves.from_grid(X, np.arange(15.0).reshape(3, 5), ids=["a", "b", "c"])


def as_labelled(curves):
    return curves.to_xarray()["y"]


def test_plain_array_is_curves_on_the_integers():
    curves = as_curves([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(curves.x[:, 0], [0, 2, 0, 1, 2])
    assert as_curves(list(curves)) == curves
    assert as_curves(curves) is curves


def test_an_array_takes_the_grid_of_what_it_is_seen_beside():
    np.testing.assert_array_equal(as_curves(np.ones((4, 5)), like=CURVES).common_points, CURVES.common_points)


def test_an_array_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"array of 4 columns.*grid of 5 points"):
        as_curves(np.ones((2, 4)), like=CURVES)


def test_an_array_beside_ragged_curves_is_refused():
    with pytest.raises(ValueError, match="no common grid"):
        as_curves(np.ones((2, 2)), like=Curves.from_arrays([[0.0, 1.0], [0.5]], [[1.0, 2.0], [3.0]]))


@pytest.mark.parametrize("container", [Curves.to_skfda, Curves.to_xarray, as_labelled])
def test_containers_that_know_their_points_keep_them(container):
    held = container(CURVES)
    assert holds_points(held)
    assert as_curves(held, like=Curves.from_grid(X + 1, np.ones((1, 5)))) == CURVES


def test_labelled_array_without_places_is_a_plain_array():
    bare = as_labelled(CURVES).drop_vars("x")
    assert not holds_points(bare)
    np.testing.assert_array_equal(as_curves(bare, like=CURVES).common_points, CURVES.common_points)


def test_models_take_containers_of_other_libraries():
    rng = np.random.default_rng(0)
    curves = Curves.from_grid(X, rng.normal(size=(12, 1)) + rng.normal(size=(12, 5)) / 10)
    model = febm.FPCA(random_state=0).fit(as_labelled(curves))
    np.testing.assert_array_equal(model.grid_, X[:, None])
    expected = model.log_evidence(curves)
    np.testing.assert_array_equal(model.log_evidence(as_labelled(curves)), expected)
    np.testing.assert_array_equal(model.log_evidence(curves.to_skfda()), expected)


@pytest.mark.parametrize("table", [CURVES.to_frame(), CURVES.to_frame(library="polars")])
def test_a_table_is_told_the_ways_in(table):
    with pytest.raises(TypeError, match=r"context is a table: give Curves.from_frame\(.*Curves.from_wide\(df\)"):
        as_curves(table, "context")


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="curves must be an array of numbers; got NoneType"):
        as_curves(None)
    with pytest.raises(ValueError, match="curves must be Curves or a 2-D array"):
        as_curves(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="context is not a rectangular array"):
        as_curves([[1, 2], [1]], name="context")


def test_arrays_are_read_without_any_optional_library(monkeypatch):
    for library in ("skfda", "xarray", "polars"):
        monkeypatch.setitem(sys.modules, library, None)
    assert len(as_curves(np.zeros((2, 3)))) == 2


@pytest.mark.parametrize(
    ("attempt", "library", "need", "extra"),
    [
        (lambda: CURVES.to_skfda(), "skfda.representation", "to_skfda needs scikit-fda", "fda"),
        (lambda: CURVES.to_xarray(), "xarray", "to_xarray needs xarray", "xarray"),
        (lambda: CURVES.to_frame(library="polars"), "polars", "needs polars", "polars"),
        (lambda: CURVES.to_wide(library="polars"), "polars", "needs polars", "polars"),
    ],
)
def test_a_missing_library_is_told_how_to_be_installed(attempt, library, need, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    alone = re.escape(f"(or, alone, pip install {EXTRAS[extra]})")
    with pytest.raises(ImportError, match=rf"Curves.*{need}: pip install 'febm\[{extra}\]' {alone}$"):
        attempt()


def test_what_is_said_to_be_installed_is_what_the_extras_install():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    for extra, libraries in EXTRAS.items():
        needed = [re.split("[<>=]", text)[0] for text in project["optional-dependencies"][extra]]
        assert [re.split("[<>=]", text)[0] for text in shlex.split(libraries)] == needed


def test_covariates_may_come_as_a_table_of_polars():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"visits": [1, None, 3]})
    known = CURVES.replace(covariates=table).covariates
    pd.testing.assert_frame_equal(known, pd.DataFrame({"visits": pd.array([1, None, 3], dtype="Int64")}))
