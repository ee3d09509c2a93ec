"""What `Curves` promises: nothing is lost on the way in, through or out, and bad input is told what to do."""

import copy
import pickle

import hypothesis.extra.numpy as arrays
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import numbers, ragged, repeatable

from febm.checks import as_points
from febm.curves import Curves


@pytest.fixture
def three():
    """Three curves of 1, 3 and 2 points with ids and a covariate."""
    return Curves.from_arrays(
        [[0.0], [0.0, 1.0, 2.0], [5.0, 4.0]],
        [[1.0], [2.0, 3.0, 4.0], [5.0, 6.0]],
        ids=["a", "b", "c"],
        covariates=pd.DataFrame({"age": [10, 20, 30]}),
    )


# Round trips


@given(st.data())
@repeatable
def test_grid_comes_back_as_it_went_in(data):
    n, m, d_y = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6)), data.draw(st.integers(1, 2))
    x = np.sort(data.draw(arrays.arrays(np.float64, m, elements=numbers, unique=True)))
    Y = data.draw(arrays.arrays(np.float64, (n, m, d_y), elements=numbers))
    Y[:, 1:][data.draw(arrays.arrays(bool, (n, m - 1, d_y)))] = np.nan
    # A place where no curve is observed is no part of the union.
    seen = ~np.isnan(Y).all(axis=(0, 2))
    grid, values = Curves.from_grid(x, Y).to_grid()
    np.testing.assert_array_equal(grid, x[seen])
    np.testing.assert_array_equal(values, Y[:, seen])


@given(ragged(distinct=True))
@repeatable
def test_grid_of_ragged_curves_holds_each_value_at_its_point(curves):
    grid, values = curves.to_grid()
    grid = grid.reshape(len(grid), curves.d_x)
    assert (np.lexsort(grid.T[::-1]) == np.arange(len(grid))).all()
    assert values.shape == (len(curves), len(grid), curves.d_y)
    for i, curve in enumerate(curves):
        for x, y in zip(curve.x, curve.y, strict=True):
            place = np.flatnonzero((grid == x).all(axis=1)).item()
            np.testing.assert_array_equal(values[i, place], y)
    assert np.isnan(values).all(axis=2).sum() == len(curves) * len(grid) - len(curves.x)


@given(ragged())
@repeatable
def test_lists_of_arrays_bring_back_the_same_curves(curves):
    assert Curves.from_arrays(*curves.to_arrays(), ids=curves.ids, covariates=curves.covariates) == curves


@given(ragged(), st.data())
@repeatable
def test_pieces_concatenate_to_the_whole(curves, data):
    cut = data.draw(st.integers(0, len(curves)))
    parts = [part for part in (slice(0, cut), slice(cut, None)) if range(len(curves))[part]]
    assert Curves.concatenate([curves[part] for part in parts]) == curves
    assert Curves.concatenate(list(curves)) == curves


@given(ragged(), st.data())
@repeatable
def test_index_arrays_pick_the_same_curves_as_one_index_at_a_time(curves, data):
    n = len(curves)
    picks = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=8))
    assert curves[picks] == Curves.concatenate([curves[i] for i in picks])
    mask = np.isin(np.arange(n), np.array(picks) % n)
    assert curves[mask] == curves[np.flatnonzero(mask)]
    assert curves[::-1] == curves[np.arange(n)[::-1]]


@given(ragged())
@repeatable
def test_padded_holds_the_observed_values_and_nothing_else(curves):
    padded = curves.padded(multiple=4)
    assert padded.x.shape[1] % 4 == 0
    assert padded.x.shape[:2] == padded.mask.shape[:2]
    assert (padded.y[~padded.mask] == 0).all()
    for i, curve in enumerate(curves):
        m = len(curve.x)
        np.testing.assert_array_equal(padded.x[i, :m], curve.x)
        np.testing.assert_array_equal(padded.x[i, m:], np.broadcast_to(curve.x[-1], padded.x[i, m:].shape))
        np.testing.assert_array_equal(np.where(padded.mask[i, :m], padded.y[i, :m], np.nan), curve.y)
        assert not padded.mask[i, m:].any()


@given(ragged())
@repeatable
def test_pickle_brings_back_the_same_read_only_curves(curves):
    again = pickle.loads(pickle.dumps(curves))
    assert again == curves
    assert not any(array.flags.writeable for array in (again.x, again.y, again.offsets))


# Missing values


def test_point_without_any_observed_output_is_dropped():
    curves = Curves.from_arrays([[0, 1, 2]], [[[1, 2], [np.nan, np.nan], [np.nan, 3]]])
    np.testing.assert_array_equal(curves.x[:, 0], [0, 2])
    np.testing.assert_array_equal(curves.y, [[1, 2], [np.nan, 3]])


def test_masked_values_are_missing_values():
    values = np.ma.masked_array([[1.0, 99.0, 3.0]], mask=[[False, True, False]])
    np.testing.assert_array_equal(Curves.from_grid([0, 1, 2], values).y[:, 0], [1, 3])


# Immutability


def test_curves_cannot_be_changed(three):
    with pytest.raises(ValueError, match="read-only"):
        three.y[0] = 1
    with pytest.raises(AttributeError, match="cannot be changed"):
        three.y = np.zeros(3)
    table = three.covariates
    table.loc[0, "age"] = -1
    assert three.covariates["age"].tolist() == [10, 20, 30]
    with pytest.raises(TypeError, match="unhashable"):
        hash(three)
    assert copy.deepcopy(three) is three


def test_changing_the_inputs_afterwards_changes_nothing():
    x, Y, table = np.arange(3.0), np.ones((2, 3)), pd.DataFrame({"age": [1, 2]})
    curves = Curves.from_grid(x, Y, covariates=table)
    flat = Curves(x, x, [0, 3])
    x[:], Y[:], table["age"] = 7, 7, 7
    assert curves == Curves.from_grid(np.arange(3.0), np.ones((2, 3)), covariates=pd.DataFrame({"age": [1, 2]}))
    assert flat == Curves.from_grid(np.arange(3.0), np.arange(3.0)[None])


def test_lists_of_arrays_are_views_that_cannot_be_written_to(three):
    xs, ys = three.to_arrays()
    assert [len(x) for x in xs] == [1, 3, 2]
    assert all(np.shares_memory(x, three.x) and not x.flags.writeable for x in xs)
    assert all(np.shares_memory(y, three.y) and not y.flags.writeable for y in ys)


# Parts and wholes


def test_ids_and_covariates_follow_their_curves(three):
    picked = three[[2, 0]]
    assert list(picked.ids) == ["c", "a"]
    assert picked.covariates["age"].tolist() == [30, 10]
    assert list(three[-1].ids) == ["c"]
    kept = three.select(three.y[:, 0] != 3)
    assert kept.ids.equals(three.ids)
    assert kept.covariates.equals(three.covariates)
    assert kept.lengths.tolist() == [1, 2, 2]


def test_split_gives_disjoint_parts_in_order_and_the_rest_last():
    curves = Curves.from_grid([0, 1], np.arange(20.0).reshape(10, 2))
    parts = curves.split(0.5, 2, random_state=0)
    assert [len(part) for part in parts] == [5, 2, 3]
    assert sorted(i for part in parts for i in part.ids) == list(range(10))
    assert all(part.ids.is_monotonic_increasing for part in parts)
    assert parts == curves.split(0.5, 2, random_state=0)


def test_covariate_that_a_part_lacks_is_missing_there(three):
    whole = Curves.concatenate([three, three.replace(covariates=pd.DataFrame({"sex": ["f", "m", "f"]}))])
    assert whole.covariates["age"].isna().tolist() == [False] * 3 + [True] * 3
    assert whole.covariates["sex"].isna().tolist() == [True] * 3 + [False] * 3


def test_replace_keeps_what_is_not_given(three):
    new = three.replace(y=three.y * 2)
    np.testing.assert_array_equal(new.y, three.y * 2)
    assert new.replace(y=three.y) == three
    assert new != three


def test_padded_lengths_are_few():
    lengths = {Curves.from_grid(np.arange(m), np.zeros((1, m))).padded().x.shape[1] for m in range(1, 1025)}
    assert {8, 64, 128, 256, 512, 1024} <= lengths
    assert len(lengths) == 8 + 4 * 8


def test_repr_says_how_many_curves_points_and_outputs(three):
    expected = "<Curves: 3 curves, 1 to 3 points each, x in [0, 5], 1 output, covariates: age>"
    assert repr(three) == expected


def test_domain_is_the_box_around_all_points(three):
    lower, upper = three.domain
    assert (lower.tolist(), upper.tolist()) == ([0.0], [5.0])


def test_points_are_columns_of_coordinates():
    np.testing.assert_array_equal(as_points([0, 1], 1), [[0.0], [1.0]])
    np.testing.assert_array_equal(as_points([[0, 1]], 2), [[0.0, 1.0]])


# Errors are sentences


def table(**columns):
    return pd.DataFrame({"day": [0, 0, 1, 1], "hour": [0.0, 1, 0, 1], "load": [1.0, 2, 3, 4]} | columns)


def from_table(frame, **changes):
    return Curves.from_frame(frame, **{"curve": "day", "x": "hour", "y": "load"} | changes)


DATES = pd.date_range("2024-01-01", periods=4)

BAD_INPUT = {
    "no curves in lists": (lambda: Curves.from_arrays([], []), "from_arrays: there are no curves"),
    "no curves in a grid": (
        lambda: Curves.from_grid([0, 1], np.zeros((0, 2))),
        "from_grid: there are no curves",
    ),
    "no rows": (lambda: from_table(table()[:0]), "from_frame: df has no rows"),
    "no parts": (lambda: Curves.concatenate([]), "concatenate: there are no curves"),
    "no points": (
        lambda: Curves.from_arrays([[0], []], [[1], []], ids=["a", "b"]),
        r"1 curve has no observed point \('b'\); leave it out",
    ),
    "all missing": (
        lambda: Curves.from_grid([0, 1], [[np.nan, np.nan], [1, 2]]),
        r"1 curve has no observed point \(0\)",
    ),
    "infinite y": (
        lambda: Curves.from_arrays([[0], [0, 1]], [[1], [2, np.inf]], ids=["a", "b"]),
        r"y is infinite at 1 point \(point 1 of curve 'b'\)",
    ),
    "NaN x": (
        lambda: Curves.from_arrays([[0, np.nan]], [[1, 2]]),
        r"x is NaN or infinite at 1 point \(point 1",
    ),
    "NaN x in a grid": (
        lambda: Curves.from_grid([0, np.nan], [[1, 2]]),
        r"x is NaN or infinite at 1 point \(1\)",
    ),
    "two widths": (
        lambda: Curves.from_arrays([[0, 1], [[0, 1], [1, 1]]], [[1, 2], [1, 2]]),
        r"xs\[0\] has 1 coordinate but xs\[1\] has 2",
    ),
    "two widths of parts": (
        lambda: Curves.concatenate([Curves([0], [0], [0, 1]), Curves([[0, 1]], [0], [0, 1])]),
        r"parts\[0\] has 1 coordinate but parts\[1\] has 2",
    ),
    "unequal lengths": (
        lambda: Curves.from_arrays([[0, 1]], [[1]]),
        r"xs\[0\] has 2 points but ys\[0\] has 1",
    ),
    "unequal lists": (lambda: Curves.from_arrays([[0]], [[1], [2]]), "xs has 1 curves but ys has 2"),
    "text in a list": (
        lambda: Curves.from_arrays([[0, 1]], [["1", "two"]]),
        r"ys\[0\] has 1 value that is not",
    ),
    "complex": (lambda: Curves.from_grid([0, 1], [[1j, 2]]), "Complex data not supported"),
    "transposed": (lambda: Curves.from_grid([0, 1, 2], np.zeros((3, 2))), "seems to need a transpose"),
    "one curve": (lambda: Curves.from_grid([0, 1], [1, 2]), r"reshape\(1, -1\)"),
    "ids": (lambda: Curves.from_grid([0], [[1], [2]], ids=["a"]), "ids has 1 label for 2 curves"),
    "missing id": (lambda: Curves.from_grid([0], [[1], [2]], ids=["a", None]), "labels that are missing"),
    "covariates": (
        lambda: Curves.from_grid([0], [[1], [2]], covariates={"age": [1]}),
        "covariates has 1 row for 2 curves",
    ),
    "offsets": (lambda: Curves([0, 1], [0, 1], [0, 1]), "offsets must be integers that rise from 0"),
    "text in a column": (
        lambda: from_table(table(hour=["0", "noon", "2", "late"])),
        r"column 'hour' has 2 values that are not numbers, such as 'noon' \(rows 1, 3\); drop or fix them\.",
    ),
    "empty text": (
        lambda: from_table(table(load=["1", "", "2", "3"])),
        r"'load' has 1 value that is not a number: '' \(row 1\); drop or fix it\.",
    ),
    "infinite column": (
        lambda: from_table(table(load=[1, 2, np.inf, 4])),
        r"'load' has 1 value that is infinite",
    ),
    "NaN in x column": (
        lambda: from_table(table(hour=[0, np.nan, 0, 1])),
        r"'hour' has 1 value that is missing",
    ),
    "NaN in curve column": (
        lambda: from_table(table(day=[0, np.nan, 0, 1])),
        r"'day' has 1 value that is missing",
    ),
    "dates": (
        lambda: from_table(table(hour=DATES)),
        r"column 'hour' holds dates or durations, such as Timestamp\('.*'\) in row 0, and must hold numbers",
    ),
    "absent column": (lambda: from_table(table(), x="time"), "x names column 'time', which df does not have"),
    "changing covariate": (
        lambda: from_table(table(age=[1, 1, 2, 3]), covariates=["age"]),
        r"covariate 'age' changes within curve 1 \(row 3\)",
    ),
    "repeated points": (lambda: Curves.from_arrays([[0, 0]], [[1, 2]]).to_grid(), "more than one value at x"),
    "repeated ids": (
        lambda: Curves.from_grid([0], [[1], [2]], ids=["a", "a"]).to_frame(),
        r"ids repeat.*replace\(ids=range",
    ),
    "name taken": (
        lambda: Curves.from_grid([0], [[1]], covariates={"x": [1]}).to_frame(),
        "two columns would be called 'x'",
    ),
    "nothing left": (lambda: Curves([0, 1], [0, 1], [0, 1, 2]).select([True, False]), "no observed point"),
    "mask of points": (lambda: Curves([0, 1], [0, 1], [0, 2]).select([True]), "mask must be 2 truth values"),
    "multiple": (lambda: Curves([0], [0], [0, 1]).padded(0), "multiple must be a positive integer"),
    "nothing remains": (lambda: Curves([0, 1], [0, 1], [0, 1, 2]).split(0.5, 0.5), "leave its size out"),
    "size": (lambda: Curves([0, 1], [0, 1], [0, 1, 2]).split(1.5), "a fraction between 0 and 1"),
    "empty slice": (lambda: Curves([0], [0], [0, 1])[3:], "picks no curves"),
    "replace": (lambda: Curves([0], [0], [0, 1]).replace(y=[1, 2]), "y has 2 points; these have 1"),
    "wide at": (lambda: as_points(np.zeros((5, 3)), 2), r"at has the wrong width.*\(m, 2\); got \(5, 3\)"),
    "flat at": (lambda: as_points(np.zeros(5), 2), r"at has the wrong width"),
    "scalar at": (lambda: as_points(0.5, 1), r"single number 0.5; write \[0.5\]"),
    "empty at": (lambda: as_points([], 1), "at is empty"),
    "NaN at": (lambda: as_points([0, np.nan], 1), r"at has 1 point that is NaN or infinite \(at 1\)"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, sentence = BAD_INPUT[case]
    with pytest.raises(ValueError, match=sentence):
        attempt()


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (
            lambda: Curves.from_frame([1, 2], curve="a", x="b", y="c"),
            "df must be a pandas or polars DataFrame",
        ),
        (lambda: Curves.from_grid([0, 1], np.zeros((2, 2)))["a"], "takes an integer, a slice"),
        (lambda: Curves.concatenate([1]), "part 0 must be Curves; got int"),
        (lambda: Curves.from_grid([0], [[1]], ids=3), "ids must be a sequence of labels"),
    ],
)
def test_wrong_kind_of_input_is_told_what_is_right(attempt, sentence):
    with pytest.raises(TypeError, match=sentence):
        attempt()


@pytest.mark.parametrize("key", [3, -4, [0, 3], [True]])
def test_index_outside_says_how_many_curves_there_are(three, key):
    with pytest.raises(IndexError, match="3 curves"):
        three[key]


class TestMerge:
    """Two views of the same curves become one."""

    def test_context_and_target_make_the_curve_again(self):
        curves = Curves.from_grid(np.arange(6.0), np.arange(18.0).reshape(3, 6), ids=["a", "b", "c"])
        seen = np.random.default_rng(0).permuted(np.tile([True, True, False, False, True, False], (3, 1)), axis=1)
        merged = curves.select(seen.ravel()).merge(curves.select(~seen.ravel()))
        np.testing.assert_array_equal(merged.to_grid()[1], curves.to_grid()[1])
        assert list(merged.ids) == ["a", "b", "c"]

    def test_own_points_come_first(self):
        first, second = Curves.from_grid([5.0], [[1.0], [2.0]]), Curves.from_grid([0.0, 9.0], [[3.0, 4.0], [5.0, 6.0]])
        np.testing.assert_array_equal(first.merge(second).y[:, 0], [1, 3, 4, 2, 5, 6])

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (Curves.from_grid([0.0], [[1.0]]), "same curves"),
            (Curves.from_grid([0.0], [[1.0], [2.0]], ids=["a", "b"]), "same ids"),
            (Curves.from_grid([[0.0, 1.0]], [[1.0], [2.0]]), "coordinate"),
        ],
    )
    def test_other_curves_are_refused(self, other, message):
        with pytest.raises(ValueError, match=message):
            Curves.from_grid([0.0], [[1.0], [2.0]]).merge(other)


class TestCommonPoints:
    """Where arrays belong that come beside curves."""

    def test_curves_on_one_grid_have_it_in_common(self):
        np.testing.assert_array_equal(Curves.from_grid([0.0, 3.0], np.ones((4, 2))).common_points, [[0.0], [3.0]])

    @pytest.mark.parametrize("xs", [[[0.0, 1.0], [0.0, 2.0]], [[0.0, 1.0], [0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    def test_other_curves_have_none(self, xs):
        assert Curves.from_arrays(xs, [np.zeros(len(x)) for x in xs]).common_points is None
