"""Tables in and out of files, and curves out of tables."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_tables import days, wide_days

import febm
from febm.commands.columns import Columns
from febm.commands.curve_tables import named_frame, read_curve_table, read_curves, wide_frame
from febm.commands.imputing import at_missing_places
from febm.commands.options import TableForm
from febm.commands.tables import read_table, write_table
from febm.commands.targets import check_folder, check_table_target, check_target
from febm.commands.terminal import Terminal

QUIET = Terminal("fit", quiet=True)
LONG = TableForm(curve=("day",), x=("hour",), y=("demand",))
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".json")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_comes_back_as_it_was_written(ending, tmp_path):
    frame = pd.DataFrame({"curve": ["a", "b, c"], "n": [1, 2], "y": [0.1 + 0.2, np.nan]})
    write_table(frame, tmp_path / f"t{ending}")
    pd.testing.assert_frame_equal(read_table(tmp_path / f"t{ending}"), frame)
    assert [path.name for path in tmp_path.iterdir()] == [f"t{ending}"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_the_same_curves(ending, tmp_path):
    write_table(days(6), tmp_path / f"t{ending}")
    expected = febm.Curves.from_frame(days(6), curve="day", x="hour", y="demand")
    found = read_curves(tmp_path / f"t{ending}", LONG, QUIET)
    for name in ("x", "y", "offsets"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_json_is_records_with_null_for_a_missing_number(tmp_path):
    write_table(pd.DataFrame({"x": [1, 2], "y": [0.5, np.nan]}), tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text()) == [{"x": 1, "y": 0.5}, {"x": 2, "y": None}]


def test_the_same_table_is_the_same_file_packed_or_not(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(days(3), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"day,hour,demand\n")


def test_the_mark_that_spreadsheets_put_first_is_no_part_of_a_name(tmp_path):
    (tmp_path / "t.csv").write_bytes("﻿day,x\na,1\n".encode())
    assert list(read_table(tmp_path / "t.csv").columns) == ["day", "x"]


@pytest.mark.parametrize(
    ("name", "contents", "sentence"),
    [
        ("t.parquet", b"no parquet", "cannot be read as .parquet"),
        ("t.csv.gz", b"not packed", "cannot be read as .csv.gz"),
        ("t.json", b'{"a": 1}', "a table is a list of objects"),
        ("t.csv", b"", "is empty; a table has a header"),
        ("t.csv", b"\n\n", "is empty; a table has a header"),
        ("t.csv", b"a,b\n", "has no rows below its header"),
        ("t.csv", b"a\n\xff\xfe\n", "cannot be read as .csv"),
        ("t.txt", b"a,b\n1,2\n", "is no table by its ending"),
        ("t.csv", b"a,1,1\nb,2,3\n", "two columns are called '1'"),
        ("t.csv", b"a,x,y\nb,0,1,\nb,1,2,\n", "rows have more fields than its header has names"),
        ("t.csv", b"a;x;y\nb;0;1,5\n", "its header is 'a;x;y', where commas should be between the names"),
    ],
)
def test_what_is_no_table_is_refused_by_name(name, contents, sentence, tmp_path):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("spelled", "ids"),
    [
        (["007", "8"], ["007", "8"]),
        (["NA", "DE"], ["NA", "DE"]),
        (["1e3", "1000"], ["1e3", "1000"]),
        (["7", "8"], [7, 8]),
        (["1.5", "2.5"], [1.5, 2.5]),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_names_of_curves_stay_as_they_are_spelled(spelled, ids, wide, tmp_path):
    rows = [f"{name},0.5,1\n{name},1.5,2\n" for name in spelled]
    if wide:
        rows = [f"{name},1,2\n" for name in spelled]
    header = "id,0.5,1.5\n" if wide else "id,x,y\n"
    (tmp_path / "t.csv").write_text(header + "".join(rows))
    curves = read_curves(tmp_path / "t.csv", TableForm(wide=wide), QUIET)
    assert curves.ids.tolist() == ids
    assert curves.y[:, 0].tolist() == [1.0, 2.0] * 2


def test_an_index_that_pandas_wrote_is_a_column(tmp_path):
    days(4).set_index("day").to_parquet(tmp_path / "t.parquet")
    assert read_curves(tmp_path / "t.parquet", LONG, QUIET).ids.tolist() == ["d0", "d1", "d2", "d3"]


def test_windows_line_endings_are_no_part_of_a_value(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"id,x,y\r\na,0,1\r\na,1,\r\n")
    curves = read_curves(tmp_path / "t.csv", TableForm(), QUIET)
    assert (curves.ids.tolist(), curves.y.tolist()) == (["a"], [[1.0]])


def test_a_covariate_of_a_wide_table_may_have_a_number_for_a_name(tmp_path):
    (tmp_path / "t.csv").write_text("name,2024,0,1\na,old,1.5,2.5\nb,new,3.5,4.5\n")
    curves = read_curves(tmp_path / "t.csv", TableForm(wide=True, covariate=("2024",)), QUIET)
    assert curves.x[:, 0].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert curves.covariates["2024"].tolist() == ["old", "new"]


def test_a_table_is_written_to_where_a_link_leads(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_table(days(2), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "real.csv"), days(2))


def test_a_wide_table_is_the_curves_that_its_rows_are(tmp_path):
    frame = wide_days(5)
    write_table(frame, tmp_path / "wide.csv")
    curves = read_curves(tmp_path / "wide.csv", TableForm(wide=True), QUIET)
    assert curves == febm.Curves.from_wide(frame, ids="name")


def test_two_rows_of_a_wide_table_may_not_share_a_name(tmp_path):
    write_table(wide_days(5).assign(name="w"), tmp_path / "wide.csv")
    with pytest.raises(ValueError, match="two rows are called 'w'"):
        read_curves(tmp_path / "wide.csv", TableForm(wide=True), QUIET)


def test_covariates_come_with_their_curves(tmp_path):
    frame = days(4).assign(kind=lambda table: table["day"].str[-1].astype(int) % 2)
    write_table(frame, tmp_path / "t.csv")
    curves = read_curves(tmp_path / "t.csv", TableForm(LONG.curve, LONG.x, LONG.y, ("kind",)), QUIET)
    assert curves.covariates["kind"].tolist() == [0, 1, 0, 1]


def test_curves_are_written_under_the_names_of_the_user():
    columns = Columns(("patient", "visit"), ("hour",), ("level",))
    frame = pd.DataFrame(
        {"patient": ["a", "a", "b"], "visit": [1, 1, 2], "hour": [0.0, 1.0, 0.5], "level": [1.0, 2.0, 3.0]}
    )
    curves = febm.Curves.from_frame(frame, curve=["patient", "visit"], x="hour", y="level")
    pd.testing.assert_frame_equal(named_frame(curves, columns), frame)


def test_wide_tables_have_the_headers_of_the_fit_where_the_places_are_the_same():
    curves = febm.Curves.from_grid([0.0, 1.5, 2.0, 10.0], [[1.0, 2.0, 3.0, 4.0]])
    columns = Columns(("day",), headers=("0.0", "1.50", "1e1", "7"), wide=True)
    assert list(wide_frame(curves, columns).columns) == ["day", "0.0", "1.50", "2", "1e1"]


def test_wide_tables_have_their_places_to_the_last_digit():
    curves = febm.Curves.from_grid([0.1 + 0.2, 1 / 3], [[1.0, 2.0]])
    frame = wide_frame(curves, Columns(("day",), ("hour",), ("demand",)))
    assert list(frame.columns) == ["day", repr(0.1 + 0.2), repr(1 / 3)]
    assert frame.to_numpy().tolist() == [[0, 1, 2]]


def test_missing_places_are_asked_for_of_the_curves_that_have_them(tmp_path):
    frame = pd.DataFrame(
        {
            "curve": ["b", "a", "b", "c", "a", "b"],
            "x": [0.0, 0.0, 1.0, 0.0, 1.0, 2.0],
            "y0": [1.0, 2.0, np.nan, 5.0, 3.0, 1.0],
            "y1": [1.0, np.nan, np.nan, 5.0, 3.0, np.nan],
        }
    )
    write_table(frame, tmp_path / "t.csv")
    asked = at_missing_places(read_curve_table(tmp_path / "t.csv", TableForm(), QUIET))
    assert asked.places.ids.tolist() == asked.context.ids.tolist() == ["b", "a"]
    assert asked.places.x[:, 0].tolist() == [1.0, 2.0, 0.0]
    assert asked.wanted.tolist() == [[True, True], [False, True], [False, True]]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("a,0,1\n,1,2\n", "t.csv: column 'id', which tells curves apart, is empty in 1 row, first in row 2 below"),
        ("a,0,1\na,,2\na,,2\n", "t.csv: column 'x' has 2 values that are missing, first in curve a; every point"),
        ("a,0,1\nb,inf,2\n", "t.csv: column 'x' has 1 value that is infinite, first 'inf' in curve b; fix or empty"),
        ("a,0,1\nb,1,-inf\n", "t.csv: column 'y' has 1 value that is infinite, first '-inf' in curve b; fix or empty"),
        ("a,0,\nb,1,\n", "t.csv: column 'y' has no values at all; give some"),
    ],
)
def test_points_without_a_curve_or_a_place_and_numbers_that_are_not_finite_are_refused(rows, sentence, tmp_path):
    (tmp_path / "t.csv").write_text("id,x,y\n" + rows)
    with pytest.raises(ValueError, match=sentence):
        read_curves(tmp_path / "t.csv", TableForm(), QUIET)


def test_a_row_of_a_wide_table_needs_a_name_and_the_table_a_value(tmp_path):
    (tmp_path / "t.csv").write_text("id,0,1\na,1,2\n,3,4\n")
    with pytest.raises(ValueError, match=r"'id', .* is empty in 1 row, first in row 2 below the header"):
        read_curves(tmp_path / "t.csv", TableForm(wide=True), QUIET)
    (tmp_path / "t.csv").write_text("id,0,1\na,,\nb,,\n")
    with pytest.raises(ValueError, match=r"t\.csv: it has no values at all"):
        read_curves(tmp_path / "t.csv", TableForm(wide=True), QUIET)


def test_a_folder_that_nothing_can_be_written_to_is_noticed_beforehand(tmp_path, monkeypatch):
    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("febm.commands.targets.tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"--filled is .*, but nothing can be written .* \(Read-only file system\)"):
        check_table_target(tmp_path / "t.csv", force=False, option="--filled")
    with pytest.raises(ValueError, match=r"--out is .*new/deep', but nothing can be written to "):
        check_folder(tmp_path / "new" / "deep")


def test_what_may_be_written_is_decided_beforehand(tmp_path):
    there = tmp_path / "t.csv"
    assert check_table_target(there, force=False) == there
    there.touch()
    with pytest.raises(ValueError, match="exists already"):
        check_target(there, force=False)
    assert check_target(there, force=True) == there
    with pytest.raises(ValueError, match="is a folder"):
        check_target(tmp_path, force=True)
    with pytest.raises(ValueError, match="is no plain file"):
        check_target(Path("/dev/null"), force=True)
    with pytest.raises(ValueError, match=r"its ending says the format: \.csv"):
        check_table_target(Path("t.xlsx"), force=False)
