"""Which columns of a table are taken for what."""

import dataclasses

import pandas as pd
import pytest

from febm.commands.columns import Columns, find_columns, find_wide_columns
from febm.commands.options import TableForm
from febm.commands.terminal import UsageError


def found(names, known=None, **form):
    frame = pd.DataFrame([[0.0] * len(names)], columns=names)
    return find_columns(frame, TableForm(**form), known, "data.csv")


def wide(names, known=None, **form):
    frame = pd.DataFrame([[0.0] * len(names)], columns=names)
    return find_wide_columns(frame, TableForm(wide=True, **form), known, "data.csv")


@pytest.mark.parametrize(
    "names", [("curve", "x", "y"), ("id", "time", "value"), ("Subject", "T", "Y"), ("y", "series", "x")]
)
def test_names_that_give_their_meaning_away_are_taken(names):
    columns = found(names)
    assert {*columns.curve, *columns.x, *columns.y} == set(names)
    assert columns.curve[0].lower() in ("curve", "id", "subject", "series")


def test_numbered_columns_are_several_inputs_and_outputs():
    assert found(["curve", "x0", "x1", "y0", "y1"]) == Columns(("curve",), ("x0", "x1"), ("y0", "y1"))


def test_the_column_that_is_left_has_the_meaning_that_is_left():
    assert found(["day", "hour", "demand"], curve=("day",), x=("hour",)).y == ("demand",)


def test_all_that_names_do_not_say_is_asked_for_at_once():
    asked = "data.csv: which column tells curves apart, which is x and which is the value is not clear; "
    with pytest.raises(ValueError, match=asked + r"say --curve NAME --x NAME --y NAME\. Its columns are 'day', 'hour'"):
        found(["day", "hour", "demand"])
    with pytest.raises(
        ValueError, match="which column is x and which is the value is not clear; say --x NAME --y NAME"
    ):
        found(["day", "hour", "demand"], curve=("day",))


def test_a_wide_table_without_its_option_is_recognised():
    with pytest.raises(ValueError, match=r"headers are numbers \('0', '1', '2' and 1 more\), .* say --wide\."):
        found(["day", "0", "1", "2", "3"])


def test_two_names_for_one_meaning_are_not_guessed_between():
    with pytest.raises(ValueError, match="--curve"):
        found(["id", "series", "x", "y"])
    assert found(["curve", "id", "x", "y"]).curve == ("curve",)


def test_several_names_come_by_commas_or_by_repeating_and_a_name_may_hold_a_comma():
    names = ["patient", "visit", "lat", "lon", "level, mg"]
    for x in (("lat,lon",), ("lat", "lon")):
        columns = found(names, curve=("patient,visit",), x=x, y=("level, mg",))
        assert columns == Columns(("patient", "visit"), ("lat", "lon"), ("level, mg",))


def test_a_name_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="--y names column 'dmand', which is not there; its columns are 'day'"):
        found(["day", "hour", "demand"], y=("dmand",))


def test_a_column_has_one_meaning():
    with pytest.raises(ValueError, match="'hour' is given two meanings"):
        found(["day", "hour", "demand"], curve=("day",), x=("hour",), y=("hour",))


def test_the_columns_of_the_fit_are_remembered_where_the_table_has_them():
    known = Columns(("day",), ("hour",), ("demand",), ("weekday",))
    assert found(["day", "hour", "demand", "weekday"], known) == known
    assert found(["curve", "x", "y"], known) == Columns()
    assert found(["day", "hour", "demand", "y"], known, y=("y",)).y == ("y",)


def test_columns_are_remembered_through_the_notes_of_a_model():
    columns = Columns(("day",), ("row", "column"), ("red",), ("kind",), wide=False)
    assert (
        Columns.remembered(
            {"columns": {"curve": ["day"], "x": ["row", "column"], "y": ["red"], "covariates": ["kind"]}}
        )
        == columns
    )
    assert Columns.remembered({}) is None
    wide = Columns(("day",), headers=("0", "0.50"), wide=True)
    assert Columns.remembered({"columns": dataclasses.asdict(wide)}) == wide


def test_headers_that_are_numbers_are_places_and_the_only_other_one_the_name():
    assert wide(["name", "0", "0.5", "1e1"]).curve == ("name",)
    assert wide(["0", "1"]).curve == ()
    assert wide(["kind", "id", "0", "1"], covariate=("kind",)).curve == ("id",)


def test_x_and_y_of_a_wide_table_have_the_names_that_they_are_given():
    columns = wide(["name", "0", "1"], x=("hour",), y=("demand",))
    assert (columns.x, columns.y) == (("hour",), ("demand",))
    with pytest.raises(ValueError, match="'name' is given two meanings"):
        wide(["name", "0", "1"], x=("name",))
    with pytest.raises(ValueError, match="'hour' is given two meanings"):
        wide(["name", "0", "1"], x=("hour",), y=("hour",))


def test_a_column_of_a_wide_table_that_is_named_is_no_place_whatever_its_header():
    columns = wide(["name", "2024", "0", "1"], covariate=("2024",))
    assert (columns.curve, columns.covariates) == (("name",), ("2024",))
    assert wide(["7", "0", "1"], id="7").curve == ("7",)


def test_a_number_that_was_no_place_in_the_fit_is_none_afterwards():
    known = Columns(("7",), covariates=("2024",), wide=True, headers=("0", "1"))
    columns = wide(["7", "2024", "0", "1", "2"], known)
    assert (columns.curve, columns.covariates, columns.headers) == (("7",), ("2024",), ("0", "1", "2"))
    assert wide(["0", "1", "7"], Columns(wide=True)).headers == ("0", "1", "7")


def test_other_words_in_a_wide_table_have_to_be_named():
    with pytest.raises(ValueError, match=r"columns 'place', 'kind' are no numbers.*--id.*--covariate"):
        wide(["place", "kind", "0", "1"])
    with pytest.raises(ValueError, match="--wide needs column headers that are numbers"):
        wide(["curve", "x", "y"])


def test_options_of_long_and_wide_tables_exclude_each_other():
    with pytest.raises(UsageError, match="in a wide one --id names the column"):
        TableForm.of(["day"], None, None, None, True, None)
    with pytest.raises(UsageError, match="--wide has one x, in its headers, and one y"):
        TableForm.of(None, ["row,column"], None, None, True, None)
    with pytest.raises(UsageError, match="--id belongs to --wide"):
        TableForm.of(None, None, None, None, False, "name")
