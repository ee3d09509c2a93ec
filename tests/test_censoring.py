"""Values at the low end of their range: how functions go on beyond it, and come back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import febm
from febm import Scaling
from febm.censoring import Censoring, choose_censoring

X = np.linspace(0, 1, 11)
RULE = Censoring(bound=0.0, top=9.0, slope=2.0, depth=0.5)


def bumps(count=60, seed=0, points=X):
    """Hills of random place and height, zero outside."""
    rng = np.random.default_rng(seed)
    centre, height = rng.uniform(0.2, 0.8, (count, 1)), rng.uniform(1, 2, (count, 1))
    return febm.Curves.from_grid(points, height * np.maximum(1 - 5 * np.abs(points - centre), 0.0))


def test_functions_fall_with_the_distance_from_the_nearest_point_above():
    """Less half a step; no deeper than the depth; what is above stays."""
    values = np.array([[0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0]], dtype=float)
    found = RULE.continued(X[:, None], values)
    np.testing.assert_allclose(found[0, 3:7], [-2 * 0.05, 3, 4, -2 * 0.05], atol=1e-12)
    np.testing.assert_allclose(found[0, [2, 1, 0]], [-2 * 0.15, -2 * 0.25, -0.5], atol=1e-12)
    np.testing.assert_array_equal(RULE.inverse(found), values)


def test_a_curve_that_never_leaves_the_bound_is_as_deep_as_can_be():
    np.testing.assert_array_equal(RULE.continued(X[:, None], np.zeros((2, 11))), -0.5)


@given(arrays.arrays(float, (3, 30), elements=st.sampled_from([0.0, 0.0, 1.0, 2.5])))
def test_grids_and_scattered_points_agree(values):
    """Points in another order are no grid; the functions are the same."""
    points = febm.grid2d(5, 6)
    order = np.random.default_rng(0).permutation(30)
    there = RULE.continued(points[order], values[:, order])
    np.testing.assert_allclose(there, RULE.continued(points, values)[:, order], atol=0.5 * 2.0 * (1 / 5 - 1 / 6) + 1e-9)


def test_missing_values_stay_missing_and_do_not_count_as_above():
    values = np.array([[0.0, np.nan, 0.0, 0.0, 2.0]])
    found = RULE.continued(X[:5, None], values)
    assert np.isnan(found[0, 1])
    assert found[0, 2] < found[0, 3] < 0


class TestChoice:
    def test_a_pile_of_smallest_values_is_found_with_the_steepness_at_its_edge(self):
        curves = bumps()
        censoring = choose_censoring(curves, curves.x, 0)
        assert (censoring.bound, censoring.top) == (0.0, curves.y.max())
        assert 1 < censoring.slope < 10  # hills rise by 5 to 10, and the last point above lies part of the way up
        assert censoring.depth == pytest.approx(1.5 * curves.y.std())

    @pytest.mark.parametrize(
        "values",
        [
            np.random.default_rng(0).normal(size=(60, 11)),
            np.random.default_rng(0).integers(0, 2, (60, 11)),
            np.zeros((60, 11)),
            np.maximum(np.random.default_rng(0).normal(1.3, 1, size=(60, 11)), 0),
        ],
        ids=["no pile", "two values", "one value", "a small pile"],
    )
    def test_other_values_are_left_alone(self, values):
        curves = febm.Curves.from_grid(X, values.astype(float))
        assert choose_censoring(curves, curves.x, 0) is None


class TestScaling:
    def test_values_come_back_exactly(self):
        curves = bumps()
        scaling = Scaling().fit(curves)
        assert not scaling.is_affine
        scaled = scaling.apply(curves)
        at_bound = curves.y == 0
        assert scaled.y[at_bound].max() < scaled.y[~at_bound].min()
        np.testing.assert_allclose(scaling.invert_values(scaled.y), curves.y, atol=1e-12)

    def test_images_go_on_lazily_as_other_curves_do(self):
        rng = np.random.default_rng(1)
        pixels = np.where(rng.uniform(size=(40, 6, 7)) < 0.4, 0, rng.integers(1, 256, (40, 6, 7))).astype(np.uint8)
        images = febm.Curves.from_images(pixels)
        scaling = Scaling().fit(images)
        lazy = scaling.apply(images)
        plain = scaling.apply(febm.Curves(images.x, images.y, images.offsets))
        np.testing.assert_allclose(lazy.y, plain.y, atol=1e-12)
        np.testing.assert_allclose(lazy[3:5].y, plain[3:5].y, atol=1e-12)
        np.testing.assert_allclose(scaling.invert_values(lazy.y), images.y, atol=1e-12)

    def test_asked_for_where_nothing_piles_up(self):
        with pytest.raises(ValueError, match="pile up at the low end"):
            Scaling(transform="censored").fit(febm.Curves.from_grid(X, np.random.default_rng(0).normal(size=(9, 11))))

    def test_of_two_outputs_each_is_judged_by_itself(self):
        first = bumps()
        y = np.concatenate([first.y, np.random.default_rng(0).normal(size=first.y.shape)], axis=1)
        scaling = Scaling().fit(first.replace(y=y))
        assert [censoring is None for censoring in scaling.censorings] == [False, True]


def test_samples_and_posteriors_of_hills_stay_in_range_and_have_flat_land(tmp_path):
    """Half of the values are zero, in the data and, to a tenth, in samples; what is saved is read again."""
    points = np.linspace(0, 1, 25)
    train, test = bumps(300, points=points), bumps(20, seed=1, points=points)
    model = febm.FPCA(scaling="auto", random_state=0, progress=False).fit(train)
    samples = model.sample(400, random_state=0)
    assert samples.y.min() == 0.0
    assert samples.y.max() <= train.y.max()
    assert np.mean(samples.y == 0) == pytest.approx(np.mean(train.y == 0), abs=0.1)
    model.save(tmp_path / "hills.febm")
    again = febm.load(tmp_path / "hills.febm")
    context = febm.Curves.from_grid(points[::2], test.y.reshape(20, 25)[:, ::2])
    mean = again.condition(context, random_state=0).mean(points)[..., 0]
    error = np.mean((mean - test.y.reshape(20, 25)) ** 2)
    straight = np.stack([np.interp(points, points[::2], row) for row in test.y.reshape(20, 25)[:, ::2]])
    assert error < 0.5 * np.mean((straight - test.y.reshape(20, 25)) ** 2)
