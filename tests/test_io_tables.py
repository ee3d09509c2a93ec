"""Long and wide tables of pandas and polars: curves go there and back, and columns are called what they are."""

import re
from datetime import datetime
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from strategies import gridded, quick, ragged

from febm.curves import Curves

LIBRARIES = pytest.mark.parametrize("library", ["pandas", "polars"])


def names(prefix, width):
    return prefix if width == 1 else [f"{prefix}{i}" for i in range(width)]


def covariates_of(curves):
    return None if curves.covariates is None else list(curves.covariates.columns)


def id_names(curves):
    return "curve" if curves.ids.nlevels == 1 else ["curve0", "curve1"]


# Round trips


@LIBRARIES
@given(curves=ragged())
@quick
def test_long_table_brings_back_the_same_curves(curves, library):
    again = Curves.from_frame(
        curves.to_frame(library=library),
        curve=id_names(curves),
        x=names("x", curves.d_x),
        y=names("y", curves.d_y),
        covariates=covariates_of(curves),
    )
    assert again == curves


@given(gridded(inputs=1, outputs=1))
@quick
def test_wide_table_of_pandas_brings_back_the_same_curves(curves):
    assert Curves.from_wide(curves.to_wide(), covariates=covariates_of(curves)) == curves


@given(gridded(inputs=1, outputs=1))
@quick
def test_wide_table_of_polars_brings_back_the_same_curves(curves):
    table = curves.to_wide(library="polars")
    assert Curves.from_wide(table, ids=id_names(curves), covariates=covariates_of(curves)) == curves


@given(gridded(inputs=1, outputs=1))
@quick
def test_wide_table_survives_a_text_file(curves):
    """Columns are then named by text."""
    text = StringIO(Curves(curves.x, curves.y, curves.offsets).to_wide().to_csv())
    again = Curves.from_wide(pd.read_csv(text, index_col=0))
    np.testing.assert_array_equal(again.x, curves.x)
    np.testing.assert_allclose(again.y, curves.y, rtol=1e-12)


# Long tables


def test_rows_of_a_table_are_gathered_by_curve_in_order_of_appearance():
    frame = pd.DataFrame({"day": ["tue", "mon", "tue", "mon"], "hour": [3, 1, 2, 0], "load": [1.0, 2, np.nan, 4]})
    for table in (frame, pl.from_pandas(frame)):
        curves = Curves.from_frame(table, curve="day", x="hour", y="load")
        assert list(curves.ids) == ["tue", "mon"]
        np.testing.assert_array_equal(curves.x[:, 0], [3, 1, 0])
        np.testing.assert_array_equal(curves.offsets, [0, 1, 3])


def test_categories_and_nullable_columns_are_read_as_their_values():
    frame = pd.DataFrame(
        {
            "unit": pd.Categorical(["b", "a", "b"], categories=["a", "b", "never"]),
            "t": pd.array([1, 2, 3], dtype="Int64"),
            "v": pd.array([1.5, 2.5, None], dtype="Float64"),
        }
    )
    for table in (frame, pl.from_pandas(frame)):
        curves = Curves.from_frame(table, curve="unit", x="t", y="v")
        assert list(curves.ids) == ["b", "a"]
        np.testing.assert_array_equal(curves.y[:, 0], [1.5, 2.5])


def test_any_table_that_turns_into_pandas_is_accepted():
    frame = pd.DataFrame({"c": [0, 0], "x": [0.0, 1.0], "y": [1.0, 2.0]})
    foreign = SimpleNamespace(to_pandas=lambda: frame)
    assert Curves.from_frame(foreign, curve="c", x="x", y="y") == Curves.from_grid([0, 1], [[1, 2]])


def test_columns_of_polars_that_are_not_asked_for_may_hold_anything():
    table = pl.DataFrame({"c": [0, 0], "x": [0, 1], "y": [1.0, None], "notes": [object(), object()]})
    assert Curves.from_frame(table, curve="c", x="x", y="y") == Curves.from_grid([0], [[1]])


def test_types_of_polars_stay():
    table = pl.DataFrame(
        {
            "c": pl.Series([7, 7, 9], dtype=pl.Int16),
            "x": [0, 1, 0],
            "y": [1.0, 2.0, 3.0],
            "visits": pl.Series([2, 2, None], dtype=pl.UInt8),
            "day": [datetime(2024, 1, 1)] * 3,
        }
    )
    curves = Curves.from_frame(table, curve="c", x="x", y="y", covariates=["visits", "day"])
    assert curves.ids.dtype == np.int16
    assert curves.covariates.dtypes.astype(str).tolist() == ["UInt8", "datetime64[us]"]
    assert curves.to_frame(library="polars")["visits"].to_list() == [2, 2, None]


def test_missing_values_are_null_in_polars():
    table = Curves.from_arrays([[0, 1]], [[[1, 2], [np.nan, 3]]]).to_frame(library="polars")
    assert table["y0"].to_list() == [1.0, None]


# Wide tables


def test_columns_may_be_named_by_numbers_or_by_their_text():
    expected = Curves.from_grid([0.5, 2], [[1, 2], [3, np.nan]])
    for labels in ([0.5, 2], ["0.5", "2"], ["5e-1", 2]):
        assert Curves.from_wide(pd.DataFrame([[1, 2], [3, None]], columns=labels)) == expected
    assert Curves.from_wide(pl.DataFrame({"0.5": [1, 3], "2": [2, None]})) == expected


def test_index_column_or_columns_are_the_ids():
    frame = pd.DataFrame({"site": ["n", "s"], "day": [1, 2], "0": [1.0, 2.0]})
    assert list(Curves.from_wide(frame.set_index("site"), covariates=["day"]).ids) == ["n", "s"]
    assert list(Curves.from_wide(frame, ids="site", covariates="day").ids) == ["n", "s"]
    assert list(Curves.from_wide(frame, ids=["site", "day"]).ids) == [("n", 1), ("s", 2)]


def test_places_may_be_given_where_names_do_not_say_them():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["start", "middle", "end"])
    assert Curves.from_wide(frame, x=[0, 5, 9]) == Curves.from_grid([0, 5, 9], [[1, 2, 3]])
    corners = [[0, 0], [0, 1], [1, 1]]
    assert Curves.from_wide(frame, x=corners) == Curves.from_grid(corners, [[1, 2, 3]])


def test_points_of_a_row_stay_in_the_order_of_the_columns():
    np.testing.assert_array_equal(Curves.from_wide(pd.DataFrame([[1.0, 2.0]], columns=[3, 1])).x[:, 0], [3, 1])


def test_wide_table_has_ids_first_then_covariates_then_places_in_order():
    curves = Curves.from_arrays([[2, 0], [1]], [[5, 6], [7]], ids=["a", "b"], covariates={"age": [30, 40]})
    frame = curves.to_wide()
    assert (frame.index.name, list(frame.index), list(frame.columns)) == ("curve", ["a", "b"], ["age", 0.0, 1.0, 2.0])
    table = curves.to_wide(library="polars")
    assert table.columns == ["curve", "age", "0.0", "1.0", "2.0"]
    assert table.row(1) == ("b", 40, None, 7.0, None)


# Dates are told how they become numbers

HOURS = [0.0, 6.5, 1.0, 23.75]
DAYS = [0.0, 30.0, 1.0, 2.0]
TIMES = pd.to_datetime(["2024-03-01 00:00", "2024-03-01 06:30", "2024-03-02 01:00", "2024-03-02 23:45"])
MIDNIGHTS = pd.to_datetime(["2024-03-01", "2024-03-31", "2024-03-02", "2024-03-03"])
COLUMNS_OF_DATES = {
    "dates and times": (TIMES, HOURS),
    "dates and times with a zone": (TIMES.tz_localize("Asia/Tokyo"), HOURS),
    "dates and times of Python": (pd.Index(TIMES.to_pydatetime(), dtype=object), HOURS),
    "dates and times as text": (TIMES.strftime("%Y-%m-%d %H:%M"), HOURS),
    "dates and times as ISO has them": (TIMES.strftime("%Y-%m-%dT%H:%M:%S"), HOURS),
    "days": (MIDNIGHTS, DAYS),
    "days as text": (MIDNIGHTS.strftime("%m/%d/%Y"), DAYS),
    "days of Python": (pd.Index(MIDNIGHTS.date, dtype=object), DAYS),
    "periods": (MIDNIGHTS.to_period("D"), DAYS),
    "durations": (TIMES - TIMES.normalize(), HOURS),
    "durations of Python": (pd.Index((TIMES - TIMES.normalize()).to_pytimedelta(), dtype=object), HOURS),
    "hours and minutes": (TIMES.strftime("%H:%M"), HOURS),
    "hours, minutes and seconds": (TIMES.strftime("%H:%M:%S"), HOURS),
    "times of day": (pd.Index(TIMES.time, dtype=object), HOURS),
}
OF_DATES = pytest.mark.parametrize(("dates", "numbers"), COLUMNS_OF_DATES.values(), ids=COLUMNS_OF_DATES)


def what_the_error_suggests(read, df):
    """The numbers that the line of pandas in a refusal makes."""
    with pytest.raises(ValueError, match="dates or durations, such as") as caught:
        read(df)
    line = re.fullmatch(r".* In pandas, [a-z ]+: (.*)\.", str(caught.value))[1]
    *before, last = line.split("; ")
    names = {"df": df, "pd": pd}
    exec("; ".join(before), names)
    return eval(last, names)


@OF_DATES
@pytest.mark.parametrize("role", ["x", "y"])
def test_a_column_of_dates_is_refused_with_the_line_that_makes_numbers_of_it(dates, numbers, role):
    df = pd.DataFrame({"day": [1, 1, 2, 2], "seen at": dates, "other": [1.0, 2.0, 3.0, 4.0]})
    columns = {"x": "other", "y": "other"} | {role: "seen at"}
    made = what_the_error_suggests(lambda df: Curves.from_frame(df, curve="day", **columns), df)
    np.testing.assert_allclose(made, numbers)


@OF_DATES
@pytest.mark.parametrize("ids", [None, "site"])
def test_columns_named_by_dates_are_refused_with_the_line_that_makes_numbers_of_them(dates, numbers, ids):
    df = pd.DataFrame([[1.0, 2.0, 3.0, 4.0]], columns=dates)
    if ids is not None:
        df.insert(2, ids, ["north"])
    made = what_the_error_suggests(lambda df: Curves.from_wide(df, ids=ids), df)
    np.testing.assert_allclose(made, numbers)
    assert Curves.from_wide(df, ids=ids, x=made).y.ravel().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_dates_of_polars_are_refused_too():
    df = pl.DataFrame({"day": [1, 1], "time": [datetime(2024, 3, 1, 6), datetime(2024, 3, 1, 7)], "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"'time' holds dates .*\(df\['time'\] - df\['time'\]\.dt\.normalize\(\)\)"):
        Curves.from_frame(df, curve="day", x="time", y="y")


def test_one_date_among_numbers_is_one_bad_value():
    df = pd.DataFrame({"day": 1, "x": [0.0, "2024-03-01"], "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"'x' has 1 value that is not a number: '2024-03-01' \(row 1\)"):
        Curves.from_frame(df, curve="day", x="x", y="y")


def test_an_output_of_dates_none_of_which_is_known_is_missing():
    df = pd.DataFrame({"day": 1, "x": [0.0, 1.0], "y": [1.0, 2.0], "later": pd.to_datetime([None, None])})
    assert np.isnan(Curves.from_frame(df, curve="day", x="x", y=["y", "later"]).y[:, 1]).all()


def test_a_long_value_is_cut_in_its_refusal():
    df = pd.DataFrame({"day": 1, "x": ["a" * 500, "b"], "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match="…") as caught:
        Curves.from_frame(df, curve="day", x="x", y="y")
    assert len(str(caught.value)) < 200


# Errors are sentences

WIDE = pd.DataFrame({"site": ["n", "s"], "0": [1.0, 2.0], "1": ["3", "high"]})
FLAT = Curves.from_grid([[0, 1]], [[1]])

BAD_TABLES = {
    "words": (lambda: Curves.from_wide(WIDE), r"1 column not named by a number \('site'\); name them in ids or"),
    "infinite name": (lambda: Curves.from_wide(pd.DataFrame({"inf": [1.0]})), r"not named by a number \('inf'\)"),
    "truth as a name": (lambda: Curves.from_wide(pd.DataFrame({True: [1.0]})), r"not named by a number \(True\)"),
    "dates as names": (
        lambda: Curves.from_wide(pd.DataFrame([[1.0]], columns=pd.to_datetime(["2024-01-01"]))),
        "columns are named by dates or durations, such as Timestamp.*; say with x at which numbers",
    ),
    "a word as a value": (
        lambda: Curves.from_wide(WIDE, ids="site"),
        r"from_wide: column '1' has 1 value that is not a number: 'high' \(row 1\)",
    ),
    "few places": (lambda: Curves.from_wide(WIDE, ids="site", x=[0]), "x has 1 point for 2 columns of values"),
    "no values": (lambda: Curves.from_wide(WIDE[["site"]], ids="site"), "df has no columns of values"),
    "no rows": (lambda: Curves.from_wide(WIDE[["0"]][:0]), "from_wide: there are no curves"),
    "absent ids": (lambda: Curves.from_wide(WIDE, ids="unit"), "ids names column 'unit', which df does not have"),
    "two of a name": (
        lambda: Curves.from_wide(pd.DataFrame([[1.0, 2.0]], columns=["0", "0"])),
        "df has more than one column '0'",
    ),
    "infinite place": (lambda: Curves.from_wide(WIDE[["0"]], x=[np.inf]), "x is NaN or infinite"),
    "two inputs": (lambda: FLAT.to_wide(), "one input and one output; these curves have d_x=2, d_y=1. Use to_frame"),
    "repeated points": (lambda: Curves.from_arrays([[0, 0]], [[1, 2]]).to_wide(), "to_wide: curve 0 has more than one"),
    "name taken": (
        lambda: Curves.from_grid([0], [[1]], covariates={"curve": [1]}).to_wide(library="polars"),
        "two columns would be called 'curve'",
    ),
    "library": (lambda: FLAT.to_frame(library="dplyr"), "to_frame: library is 'dplyr'; give 'pandas' or 'polars'"),
    "mixed ids": (
        lambda: Curves.from_grid([0], [[1], [2]], ids=[1, "a"]).to_frame(library="polars"),
        "column 'curve' has values of more than one kind",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_told_what_is_wrong(case):
    attempt, sentence = BAD_TABLES[case]
    with pytest.raises(ValueError, match=sentence):
        attempt()


@pytest.mark.parametrize("table", [[1, 2], pl.DataFrame({"0": [1.0]}).lazy(), pl.Series([1.0])])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(TypeError, match="from_wide: df must be a pandas or polars DataFrame"):
        Curves.from_wide(table)
