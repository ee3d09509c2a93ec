"""What `split` promises: nothing lost, nothing twice, as many points as its definitions say."""

import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from febm.curves import Curves
from febm.evaluation.splits import split

repeatable = settings(deadline=None, derandomize=True, max_examples=60)
KINDS = ("downsample", "middle", "random")


@st.composite
def ragged(draw):
    """Unsorted curves of 8 to 20 points, perhaps with repeated x, several outputs, ids and covariates."""
    n, d_y = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    lengths = np.array(draw(st.lists(st.integers(8, 20), min_size=n, max_size=n)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    x = rng.integers(0, 50, size=lengths.sum()) / 7
    y = rng.normal(size=(lengths.sum(), d_y))
    if d_y == 2:
        y[rng.uniform(size=len(y)) < 0.3, 1] = np.nan
    return Curves(x, y, np.append(0, np.cumsum(lengths)), [f"c{i}" for i in range(n)], {"age": np.arange(n)})


def grid(*sides):
    axes = [np.linspace(0.1, 2.3, side) for side in sides]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sides))


def points(curves):
    """Every point of every curve, as rows to sort and compare; a missing output counts as a number here."""
    curve = np.repeat(np.arange(len(curves)), curves.lengths)
    rows = np.column_stack([curve, curves.x, np.nan_to_num(curves.y, nan=1e9)])
    return rows[np.lexsort(rows.T)]


@given(ragged(), st.sampled_from(KINDS), st.sampled_from([1 / 4, 1 / 3, 1 / 2]), st.integers(0, 9))
@repeatable
def test_every_point_is_in_one_part_and_only_one(curves, kind, p, seed):
    context, target = split(curves, kind, p, random_state=seed)
    both = np.concatenate([points(context), points(target)])
    np.testing.assert_array_equal(both[np.lexsort(both.T)], points(curves))
    np.testing.assert_array_equal(context.lengths + target.lengths, curves.lengths)
    assert context.ids.equals(curves.ids)
    assert target.ids.equals(curves.ids)
    assert context.covariates.equals(curves.covariates)
    assert target.covariates.equals(curves.covariates)


@given(ragged(), st.sampled_from([1 / 4, 1 / 3, 1 / 2]), st.integers(0, 9))
@repeatable
def test_parts_have_the_sizes_of_the_definitions(curves, p, seed):
    k = round(1 / p)
    sizes = {kind: split(curves, kind, p, random_state=seed)[0].lengths.tolist() for kind in KINDS}
    assert sizes["downsample"] == [-(-m // k) for m in curves.lengths.tolist()]
    assert sizes["middle"] == [2 * round(m * p / 2) for m in curves.lengths.tolist()]
    assert sizes["random"] == [round(m * p) for m in curves.lengths.tolist()]


@given(ragged(), st.sampled_from(KINDS[:2]))
@repeatable
def test_definition_is_by_rank_of_x_and_points_stay_as_stored(curves, kind):
    order = np.concatenate(
        [start + np.argsort(curve.x[:, 0], kind="stable") for start, curve in zip(curves.offsets, curves, strict=False)]
    )
    straight = Curves(curves.x[order], curves.y[order], curves.offsets, curves.ids, curves.covariates)
    for shuffled, plain in zip(split(curves, kind, 1 / 3), split(straight, kind, 1 / 3), strict=True):
        np.testing.assert_array_equal(points(shuffled), points(plain))
    kept = split(curves, kind, 1 / 3)[0]
    for part, whole in zip(kept, curves, strict=True):
        rows = [np.flatnonzero(whole.y[:, 0] == value).item() for value in part.y[:, 0]]
        assert rows == sorted(rows)


def test_small_examples_come_out_as_written():
    curves = Curves.from_grid(np.arange(8), [np.arange(8.0)])
    assert split(curves, "downsample", 1 / 4)[0].x[:, 0].tolist() == [0, 4]
    assert split(curves, "downsample", 0.33)[0].x[:, 0].tolist() == [0, 3, 6]
    assert split(curves, "middle", 1 / 4)[0].x[:, 0].tolist() == [0, 7]
    assert split(curves, "middle", 1 / 2)[1].x[:, 0].tolist() == [2, 3, 4, 5]
    backwards = Curves.from_grid(np.arange(8)[::-1], [np.arange(8.0)])
    assert split(backwards, "downsample", 1 / 4)[0].x[:, 0].tolist() == [4, 0]


@pytest.mark.parametrize("p", [np.float32(0.25), Fraction(1, 4), np.float64(0.25)])
def test_a_share_may_be_any_real_number(p):
    curves = Curves.from_grid(np.arange(8), [np.arange(8.0)])
    assert split(curves, "downsample", p)[0].x[:, 0].tolist() == [0, 4]


def test_random_points_are_any_points_alike():
    """Each point is in the context with probability ¼; the largest of 20 z-scores passes 4.1 in one run of 1,000."""
    curves = Curves.from_grid(np.arange(20), np.zeros((4000, 20)))
    context, _ = split(curves, "random", 1 / 4, random_state=0)
    shares = np.bincount(context.x[:, 0].astype(int), minlength=20) / 4000
    assert np.abs((shares - 0.25) / np.sqrt(0.25 * 0.75 / 4000)).max() < 4.1
    assert len({tuple(curve.x[:, 0]) for curve in context[:50]}) > 40


def test_same_random_state_draws_the_same_points():
    curves = Curves.from_grid(np.arange(20), np.zeros((5, 20)))
    assert split(curves, "random", 0.4, random_state=3) == split(curves, "random", 0.4, random_state=3)
    assert split(curves, "random", 0.4, random_state=3) != split(curves, "random", 0.4, random_state=4)


def test_plain_array_is_split_like_curves():
    context, target = split(np.arange(12.0).reshape(2, 6), "downsample", 1 / 2)
    assert context.y[:, 0].tolist() == [0, 2, 4, 6, 8, 10]
    assert target.y[:, 0].tolist() == [1, 3, 5, 7, 9, 11]


# Several coordinates


def test_image_keeps_every_second_line_along_each_axis():
    rng = np.random.default_rng(0)
    pixels = grid(28, 28)
    images = Curves.from_grid(pixels, rng.normal(size=(3, 784)))
    context, target = split(images, "downsample", 1 / 4)
    assert context.lengths.tolist() == [196] * 3
    assert target.lengths.tolist() == [588] * 3
    axis = np.unique(pixels[:, 0])
    np.testing.assert_array_equal(np.unique(context.x[:, 0]), axis[::2])
    np.testing.assert_array_equal(np.unique(context.x[:, 1]), axis[::2])
    shuffled = rng.permutation(784)
    mixed = Curves.from_grid(pixels[shuffled], images.y.reshape(3, 784)[:, shuffled])
    np.testing.assert_array_equal(points(split(mixed, "downsample", 1 / 4)[0]), points(context))


def test_every_curve_may_have_a_grid_of_its_own():
    xs = [grid(4, 6), grid(9, 3), grid(3, 3) + 5]
    context, _ = split(Curves.from_arrays(xs, [np.zeros(len(x)) for x in xs]), "downsample", 1 / 9)
    assert context.lengths.tolist() == [2 * 2, 3 * 1, 1]


def test_middle_of_an_image_is_the_target():
    images = Curves.from_grid(grid(28, 28), np.zeros((2, 784)))
    context, target = split(images, "middle", 1 - 14**2 / 28**2)
    assert target.lengths.tolist() == [196, 196]
    axis = np.unique(images.x[:, 0])
    np.testing.assert_array_equal(np.unique(target.x), axis[7:21])
    assert context.lengths.tolist() == [588, 588]
    uneven, _ = split(images, "middle", 1 / 3)
    assert uneven.lengths.tolist() == [784 - round(784 * (1 - 1 / 3))] * 2


def test_random_points_of_surfaces_are_as_many_as_asked():
    rng = np.random.default_rng(0)
    surfaces = Curves.from_arrays([rng.uniform(size=(m, 3)) for m in (10, 21)], [np.zeros(10), np.zeros(21)])
    assert split(surfaces, "random", 0.3, random_state=0)[0].lengths.tolist() == [3, 6]


def test_ten_thousand_curves_are_split_in_about_a_second():
    rng = np.random.default_rng(0)
    curves = Curves.from_grid(np.arange(200), np.zeros((10_000, 200)))
    mixed = curves.replace(x=rng.permuted(curves.x.reshape(10_000, 200), axis=1).ravel())
    for kind in KINDS:
        start = time.process_time()
        split(mixed, kind, 1 / 4, random_state=0)
        # Four times what a slow machine takes; a loop over points would need minutes.
        assert time.process_time() - start < 4


# Errors are sentences

EIGHT = Curves.from_grid(np.arange(8), np.zeros((1, 8)))
SHORT = Curves.from_arrays([np.arange(20), [0, 1]], [np.zeros(20), [0, 1]], ids=["long", "short"])
HOLES = Curves.from_arrays([grid(4, 4), grid(4, 4)[:-1]], [np.zeros(16), np.zeros(15)], ids=["whole", "torn"])
TWICE = Curves.from_arrays([np.repeat(grid(2, 2), [2, 1, 1, 0], axis=0)], [np.zeros(4)])

BAD_INPUT = {
    "p above 1": (
        lambda: split(EIGHT, "random", 1.5),
        r"split: p is 1\.5; give a share between 0 and 1, such as",
    ),
    "p zero": (lambda: split(EIGHT, "random", 0), "split: p is 0;"),
    "p one": (lambda: split(EIGHT, "middle", 1.0), "split: p is 1.0;"),
    "p NaN": (lambda: split(EIGHT, "random", np.nan), "split: p is nan;"),
    "p text": (lambda: split(EIGHT, "random", "half"), "split: p is 'half';"),
    "p no reciprocal": (
        lambda: split(EIGHT, "downsample", 0.3),
        r"p is 0\.3, but .*1/k for a whole number.*'random'",
    ),
    "p above a half": (lambda: split(EIGHT, "downsample", 0.9), r"p is 0\.9, but .*1/k for a whole number k"),
    "p of an image": (lambda: split(HOLES[:1], "downsample", 1 / 2), r"1/k\^2 for a whole number k .*\(1/4, 1/9"),
    "p of hardly a point": (lambda: split(EIGHT, "downsample", 1e-300), "p is 1e-300, but .* no curve has so many"),
    "p smallest": (lambda: split(HOLES[:1], "downsample", 5e-324), "no curve has so many; take a larger p"),
    "p true": (lambda: split(EIGHT, "random", True), "split: p is True;"),
    "p huge": (lambda: split(EIGHT, "random", 10**400), "split: p is 1000"),
    "p array": (lambda: split(EIGHT, "random", np.array([0.5, 0.5])), "split: p is array"),
    "kind array": (lambda: split(EIGHT, np.array(["random", "middle"]), 0.5), "split: kind is array.*; choose"),
    "kind": (lambda: split(EIGHT, "half", 0.5), "kind is 'half'; choose 'downsample', 'middle' or 'random'"),
    "no context": (
        lambda: split(SHORT, "random", 1 / 5),
        r"1 curve of 2 points would have no context \('short'\).*leave out curves with so few points, or take a larger",
    ),
    "no middle context": (lambda: split(SHORT, "middle", 1 / 4), r"no context \('short'\)"),
    "no target": (lambda: split(SHORT, "random", 0.8), r"no target \('short'\).*smaller p"),
    "one point": (
        lambda: split(Curves([0], [0], [0, 1]), "downsample", 1 / 2),
        r"1 curve of 1 point .*no target \(0",
    ),
    "several short": (
        lambda: split(Curves.from_arrays([[0], [0, 1]], [[0], [0, 1]]), "random", 0.2),
        "2 curves of 1 to 2 points would have no context",
    ),
    "no grid": (lambda: split(HOLES, "downsample", 1 / 4), r"1 curve \('torn'\) do not fill a product grid.*'random'"),
    "a point twice": (lambda: split(TWICE, "downsample", 1 / 4), r"1 curve \(0\) do not fill a product grid"),
    "not curves": (lambda: split(np.zeros(5), "random", 0.5), "split: curves must be Curves or a 2-D array"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_told_what_is_wrong(case):
    attempt, sentence = BAD_INPUT[case]
    with pytest.raises(ValueError, match=sentence):
        attempt()


def test_table_is_sent_to_from_frame():
    with pytest.raises(TypeError, match=r"split: curves is a table: give Curves\.from_frame"):
        split(pd.DataFrame({"x": [0, 1]}), "random", 0.5)
