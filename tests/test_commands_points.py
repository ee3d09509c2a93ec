"""What --at stands for."""

import numpy as np
import pandas as pd
import pytest

from febm.commands.columns import Columns
from febm.commands.points import check_one_row, parse_points
from febm.commands.terminal import UsageError


def test_nothing_said_is_nothing_asked():
    assert parse_points(None, ["x"]) is None
    assert parse_points([], ["x"]) is None


def test_a_range_has_both_ends_and_as_many_points_as_it_says():
    np.testing.assert_array_equal(parse_points(["0:24:241"], ["hour"])[:, 0], np.linspace(0, 24, 241))
    np.testing.assert_array_equal(parse_points(["-1:1:3"], ["x"])[:, 0], [-1, 0, 1])


def test_a_list_is_taken_in_its_order():
    assert parse_points(["3, 1,2.5"], ["x"])[:, 0].tolist() == [3, 1, 2.5]


def test_two_ranges_make_a_grid_of_two_inputs_by_commas_or_by_repeating():
    together = parse_points(["0:1:2,5:7:3"], ["row", "column"])
    assert together.tolist() == [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]]
    np.testing.assert_array_equal(parse_points(["0:1:2", "5,6,7"], ["row", "column"]), together)


def test_a_table_gives_its_points_by_name_in_its_order_each_once(tmp_path):
    pd.DataFrame({"other": [9, 9, 9], "hour": [4.0, 1.0, 4.0]}).to_csv(tmp_path / "at.csv", index=False)
    assert parse_points([str(tmp_path / "at.csv")], ["hour"])[:, 0].tolist() == [4, 1]


def test_a_table_without_the_names_needs_as_many_columns_as_inputs(tmp_path):
    pd.DataFrame({"a": [1.0], "b": [2.0]}).to_csv(tmp_path / "at.csv", index=False)
    assert parse_points([str(tmp_path / "at.csv")], ["row", "column"]).tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="needs the columns 'hour'; its columns are 'a', 'b'"):
        parse_points([str(tmp_path / "at.csv")], ["hour"])


@pytest.mark.parametrize("given", ["0:1", "0:1:two", "0:1:0", "a,b", "0:inf:3", "nan", ",", "0:1:2:3"])
def test_nonsense_is_refused_with_the_ways_to_write_points(given):
    with pytest.raises(UsageError, match="--at has"):
        parse_points([given], ["x"])


def test_as_many_ranges_as_inputs_are_asked_for():
    with pytest.raises(UsageError, match=r"2 inputs \(row, column\).*0:1:28,0:1:28"):
        parse_points(["0:1:5"], ["row", "column"])
    with pytest.raises(UsageError, match=r"1 input \(hour\)"):
        parse_points(["0:1:5,0:1:5"], ["hour"])


def test_a_row_of_a_wide_table_holds_one_input_one_output_and_no_point_twice():
    check_one_row(None, Columns())
    check_one_row(parse_points(["0:1:5"], ["x"]), Columns())
    with pytest.raises(ValueError, match="--at has 2 twice; with --wide, a point has one column"):
        check_one_row(parse_points(["1,2,2"], ["x"]), Columns())
    with pytest.raises(ValueError, match="--wide needs one input and one output, and the model has x row, column and"):
        check_one_row(None, Columns(x=("row", "column")))


def test_more_points_than_memory_holds_are_refused():
    with pytest.raises(UsageError, match="are the most"):
        parse_points(["0:1:100000,0:1:100000"], ["row", "column"])
