"""What `Scaling` promises: units off and exactly back, with the Jacobian that belongs to it."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from febm import transform_choice
from febm.curves import Curves
from febm.errors import NotFittedError
from febm.scaling import Scaling, as_scaling

SPECS = {
    "auto": Scaling(),
    "none": as_scaling("none"),
    "standard": as_scaling("standard"),
    "log": as_scaling("log"),
    "power": as_scaling("power"),
    "cube root": Scaling(transform="power", exponent=1 / 3),
    "square": Scaling(transform="power", exponent=2),
    "curve": as_scaling("curve"),
    "log curve": Scaling(transform="log", outputs="curve"),
    "shifted": as_scaling("shifted"),
    "log only": Scaling(transform="log", outputs="none", inputs="none"),
}
repeatable = settings(deadline=None, derandomize=True, max_examples=25)


@st.composite
def positive_curves(draw):
    """Ragged curves of positive values, some of several outputs missing."""
    n, d_x, d_y = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    lengths = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    total = sum(lengths)
    x = draw(arrays.arrays(np.float64, (total, d_x), elements=st.floats(-100, 100)))
    y = draw(arrays.arrays(np.float64, (total, d_y), elements=st.floats(0.1, 100)))
    if d_y == 2 and total > 1:
        y[1:, 1][draw(arrays.arrays(bool, total - 1))] = np.nan
    covariates = pd.DataFrame({"age": np.arange(n)})
    return Curves(x, y, np.append(0, np.cumsum(lengths)), [f"c{i}" for i in range(n)], covariates)


def lognormal(key, *, n=40, m=30, spread=1.0):
    """Curves that are Gaussian after a logarithm, around a mean that moves with x."""
    generator = np.random.default_rng(key)
    x = np.linspace(0, 1, m)
    return Curves.from_grid(x, np.exp(spread * generator.normal(size=(n, m)) + 2 * np.sin(6 * x)))


@pytest.mark.parametrize("spec", SPECS)
@given(curves=positive_curves())
@repeatable
def test_what_is_applied_comes_back(spec, curves):
    scaling = SPECS[spec].fit(curves)
    np.testing.assert_allclose(scaling.invert_points(scaling.apply_points(curves.x)), curves.x, atol=1e-12)
    there_and_back = scaling.invert_values(scaling.apply_values(curves.y))
    np.testing.assert_allclose(there_and_back, curves.y, rtol=1e-9)
    scaled = scaling.apply(curves)
    assert scaled.ids.equals(curves.ids)
    assert scaled.covariates.equals(curves.covariates)
    np.testing.assert_array_equal(scaled.x, scaling.apply_points(curves.x))
    if scaling.outputs != "curve":
        np.testing.assert_array_equal(scaled.y, scaling.apply_values(curves.y))


@pytest.mark.parametrize("spec", [name for name in SPECS if "curve" not in name])
@given(curves=positive_curves())
@repeatable
def test_log_jacobian_is_the_sum_of_log_slopes(spec, curves):
    scaling = SPECS[spec].fit(curves)
    step = 1e-6 * curves.y
    slopes = (scaling.apply_values(curves.y + step) - scaling.apply_values(curves.y - step)) / (2 * step)
    expected = [np.nansum(np.log(part)) for part in np.split(slopes, curves.offsets[1:-1])]
    # The difference quotient loses digits where the scale is huge next to one value's step.
    np.testing.assert_allclose(scaling.log_jacobian(curves), expected, atol=1e-4)


@pytest.mark.parametrize("transform", ["log", "shifted"])
def test_log_jacobian_is_right_beyond_the_training_values(transform):
    scaling = Scaling(transform=transform).fit(lognormal(9))
    y = np.array([[1e-9], [1e-3], [1e3], [1e9]])
    found = scaling.log_jacobian(Curves(np.zeros((4, 1)), y, np.arange(5)))
    slopes = (scaling.apply_values(1.0001 * y) - scaling.apply_values(0.9999 * y)) / (0.0002 * y)
    np.testing.assert_allclose(found, np.log(slopes[:, 0]), atol=1e-4)


def test_log_jacobian_of_standardised_curves_holds_their_own_scale_fixed():
    curves = Curves.from_arrays([[0, 1, 2], [0, 1]], [[1.0, 2.0, 4.0], [3.0, 9.0]])
    expected = [sum(-np.log(y) - np.log(np.log(values).std()) for y in values) for values in ([1, 2, 4], [3, 9])]
    found = Scaling(transform="log", outputs="curve").fit(curves).log_jacobian(curves)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_inputs_fill_the_unit_box_and_a_constant_coordinate_sits_in_its_middle():
    x = np.column_stack([[-3.0, 1.0, 5.0], np.full(3, 1e17)])
    scaling = Scaling().fit(Curves(x, [1.0, 2.0, 3.0], [0, 3]))
    np.testing.assert_array_equal(scaling.apply_points(x), [[0, 0.5], [0.5, 0.5], [1, 0.5]])
    np.testing.assert_array_equal(scaling.invert_points(scaling.apply_points(x)), x)


def test_outputs_have_mean_zero_and_deviation_one_each():
    generator = np.random.default_rng(0)
    curves = Curves.from_grid(np.arange(5), generator.normal([3.0, -50.0], [2.0, 10.0], size=(20, 5, 2)))
    scaled = as_scaling("standard").fit(curves).apply(curves)
    np.testing.assert_allclose(scaled.y.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.y.std(axis=0), 1)


def test_constant_output_is_only_centred():
    curves = Curves.from_grid(np.arange(7), np.full((3, 7), 0.1))
    scaled = as_scaling("standard").fit(curves).apply(curves)
    np.testing.assert_allclose(scaled.y, 0, atol=1e-15)


def test_units_come_from_the_training_curves_only():
    train, test = Curves.from_grid([0, 1], [[0.0, 2.0]]), Curves.from_grid([0, 2], [[5.0, 5.0]])
    scaled = as_scaling("standard").fit(train).apply(test)
    np.testing.assert_array_equal(scaled.x[:, 0], [0, 2])
    np.testing.assert_array_equal(scaled.y[:, 0], [4, 4])


def test_each_curve_is_standardised_by_itself():
    curves = Curves.from_arrays([[0, 1], [0, 1, 2], [0]], [[1, 3], [[10], [10], [40]], [7]])
    scaling = as_scaling("curve").fit(curves)
    scaled = scaling.apply(curves)
    np.testing.assert_allclose(scaled.y[:, 0], [-1, 1, -np.sqrt(0.5), -np.sqrt(0.5), np.sqrt(2), 0])
    np.testing.assert_array_equal(scaling.invert_values(scaled.y), scaled.y)


def test_fit_leaves_the_specification_as_it_was():
    scaling = Scaling()
    fitted = scaling.fit(lognormal(0))
    assert fitted.is_fitted
    assert not scaling.is_fitted


def test_auto_takes_the_logarithm_of_lognormal_curves():
    assert Scaling().fit(lognormal(1)).exponents.tolist() == [0.0]


def test_auto_takes_a_root_of_nonnegative_skewed_curves_with_zeros():
    """Powers of Gaussians, a tenth of them zero: the logarithm is not defined, a root is near normal."""
    generator = np.random.default_rng(2)
    values = generator.normal(3.0, 1.5, size=(60, 30)).clip(0) ** 4
    values[generator.random(values.shape) < 0.1] = 0
    scaling = Scaling().fit(Curves.from_grid(np.arange(30), values))
    assert 0 < scaling.exponents[0] < 1
    assert np.isfinite(scaling.log_jacobian(Curves.from_grid([0, 1], [[0.0, 1.0]]))).all()


@pytest.mark.parametrize("shift", [0.0, 5.0, 100.0])
def test_auto_leaves_gaussian_curves_alone(shift):
    """Signed, positive with a mean five deviations up, and far from zero; mean and spread move with x."""
    generator = np.random.default_rng(3)
    x = np.linspace(0, 1, 30)
    values = shift + (0.5 + x) * generator.normal(size=(200, 30)) / 1.5 + np.sin(3 * x)
    values = np.abs(values) if shift == 5.0 else values
    assert Scaling().fit(Curves.from_grid(x, values)).exponents.tolist() == [1.0]


def test_auto_is_not_swayed_by_one_wild_value():
    generator = np.random.default_rng(4)
    values = generator.normal(10.0, 1.0, size=(100, 20))
    values[0, 0] = 1e-9
    assert Scaling().fit(Curves.from_grid(np.arange(20), values)).exponents.tolist() == [1.0]


def test_auto_decides_for_each_output():
    generator = np.random.default_rng(5)
    noise = generator.normal(size=(50, 20))
    values = np.stack([noise, np.exp(noise)], axis=-1)
    assert Scaling().fit(Curves.from_grid(np.arange(20), values)).exponents.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_auto_finds_the_skew_of_values_without_a_natural_zero(sign):
    """Lognormal curves less their mean, and their mirror image; values beyond any training value are welcome."""
    curves = lognormal(11, spread=0.7)
    skewed = curves.replace(y=sign * (curves.y - curves.y.mean()) / curves.y.std())
    scaling = Scaling().fit(skewed)
    (transform,) = scaling.transforms
    assert transform.is_shifted
    assert transform.sign == sign
    values = scaling.apply(skewed).y
    assert abs(((values - values.mean()) ** 3).mean()) < 0.5 < abs((skewed.y**3).mean())
    beyond = np.array([[-50.0], [50.0]])
    np.testing.assert_allclose(scaling.invert_values(scaling.apply_values(beyond)), beyond, rtol=1e-9)


@pytest.mark.parametrize("shape", ["uniform", "standard_t", "two_signs"])
def test_auto_leaves_symmetric_curves_alone(shape):
    generator = np.random.default_rng(12)
    size = (100, 30)
    draws = {
        "uniform": lambda: generator.uniform(-1, 1, size),
        "standard_t": lambda: generator.standard_t(4, size),
        "two_signs": lambda: generator.choice([-1, 1], size) + 0.2 * generator.normal(size=size),
    }
    assert Scaling().fit(Curves.from_grid(np.arange(30), draws[shape]())).exponents.tolist() == [1.0]


class TestWholeCurvesChooseTheExponent:
    """Sizes of curves are lognormal throughout, so value by value the logarithm looks best."""

    x = np.linspace(0, 1, 40)
    size = np.exp(0.8 * np.random.default_rng(20).normal(size=(120, 1)))
    noise = 0.02 * np.random.default_rng(21).normal(size=(120, 40))

    @pytest.mark.parametrize(
        ("y", "exponent"),
        [
            ((np.sqrt(size) * (2 + x) + noise) ** 2, 1 / 2),
            (np.exp(np.log(size * (2 + x)) + noise), 0.0),
            (size * (2 + x) + noise, 1.0),
        ],
        ids=["square root", "logarithm", "identity"],
    )
    def test_that_makes_the_noise_the_same_everywhere(self, y, exponent):
        assert Scaling().fit(Curves.from_grid(self.x, y)).exponents.tolist() == [exponent]

    @pytest.mark.parametrize("which", ["few", "points of their own", "with gaps"])
    def test_or_values_do_where_curves_cannot(self, which):
        """Too few curves to hold some out, and curves on no common grid."""
        y = (np.sqrt(self.size) * (2 + self.x) + self.noise) ** 2
        if which == "few":
            curves = Curves.from_grid(self.x, y[:15])
        elif which == "with gaps":
            curves = Curves.from_grid(self.x, np.where(self.noise > 0.04, np.nan, y))
        else:
            kept = np.random.default_rng(22).random(y.shape) < 0.5
            curves = Curves.from_arrays([self.x[row] for row in kept], [y[i, row] for i, row in enumerate(kept)])
        assert Scaling().fit(curves).exponents.tolist() == [0.0]

    def test_some_of_very_many_points_and_curves_do(self, monkeypatch):
        """Here of 120 curves with 40 points."""
        monkeypatch.setattr(transform_choice, "MOST_CURVES", 60)
        monkeypatch.setattr(transform_choice, "MOST_POINTS", 15)
        y = (np.sqrt(self.size) * (2 + self.x) + self.noise) ** 2
        assert Scaling().fit(Curves.from_grid(self.x, y)).exponents.tolist() == [1 / 2]

    def test_curves_that_are_nearly_all_alike_leave_it_to_values(self):
        """Of 40 curves three are not constant: a part of them has nothing to learn from."""
        y = np.ones((40, 10))
        y[:3] = np.exp(3 * np.random.default_rng(23).normal(size=(3, 10)))
        assert Scaling().fit(Curves.from_grid(np.arange(10), y)).is_fitted

    def test_output_by_output(self):
        root, logarithm = (np.sqrt(self.size) * (2 + self.x) + self.noise) ** 2, np.exp(self.noise) * self.size
        curves = Curves.from_grid(self.x, np.stack([root, logarithm], axis=-1))
        assert Scaling().fit(curves).exponents.tolist() == [1 / 2, 0.0]


def test_exponent_of_a_power_is_chosen_by_likelihood():
    generator = np.random.default_rng(6)
    values = generator.normal(4.0, 1.0, size=(200, 20)).clip(0) ** 3
    scaling = as_scaling("power").fit(Curves.from_grid(np.arange(20), values))
    assert scaling.exponents.tolist() == [1 / 3]


def test_value_below_any_power_comes_back_as_zero():
    curves = Curves.from_grid([0, 1], [[1.0, 4.0]])
    scaling = Scaling(transform="power", exponent=0.5).fit(curves)
    np.testing.assert_array_equal(scaling.invert_values([[-100.0]]), [[0.0]])


@pytest.mark.parametrize(
    ("transform", "sign"), [("auto", 1), ("auto", -1), ("power", 1), ("shifted", 1), ("shifted", -1)]
)
def test_transform_that_values_chose_goes_on_straight_beyond_the_farthest_of_them(transform, sign):
    curves = lognormal(8)
    curves = curves.replace(y=sign * curves.y)
    scaling = Scaling(transform=transform).fit(curves)
    assert not scaling.is_affine
    farthest = sign * np.max(sign * curves.y)
    (start,) = scaling.apply_values([[farthest]])
    steps = 0.5 * sign * np.arange(-1, 6)[:, None]
    back = scaling.invert_values(start + steps)
    np.testing.assert_allclose(scaling.apply_values(back), start + steps)
    grown = sign * np.diff(back[:, 0])
    np.testing.assert_allclose(grown[1:], grown[1])
    assert grown[0] < 0.95 * grown[1]
    near = np.diff(scaling.invert_values(start + 1e-5 * steps)[:, 0])
    np.testing.assert_allclose(near, near[0], rtol=1e-3)


def test_logarithm_that_was_asked_for_is_one_everywhere():
    scaling = Scaling(transform="log", outputs="none").fit(lognormal(8))
    np.testing.assert_allclose(scaling.apply_values([[1e9]]), np.log(1e9))


def test_far_values_come_back_finite_and_in_the_support():
    scaling = as_scaling("log").fit(lognormal(7))
    back = scaling.invert_values([[-1e6], [1e6]])
    assert np.isfinite(back).all()
    assert (back > 0).all()


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda: Scaling(inputs="unit"), "inputs must be 'box' or 'none'; got 'unit'"),
        (lambda: Scaling(outputs="robust"), "outputs must be 'standard', 'curve' or 'none'; got 'robust'"),
        (lambda: Scaling(transform="sqrt"), "transform must be 'auto', .*, 'shifted' or 'censored'"),
        (lambda: Scaling(exponent=0.5), "exponent=0.5 goes with transform='power'"),
        (lambda: Scaling(transform="power", exponent=-1), "exponent must be a positive number; got -1"),
        (lambda: as_scaling("minmax"), "scaling must be a febm.Scaling or 'auto'"),
        (
            lambda: as_scaling("log").fit(as_curves_of([0.0, 1.0])),
            "needs y > 0; output 0 has 1 value outside",
        ),
        (
            lambda: as_scaling("power").fit(as_curves_of([-1.0, 1.0])),
            "needs y ≥ 0; output 0 has 1 value outside",
        ),
        (
            lambda: as_scaling("log").fit(as_curves_of([1.0, 2.0])).apply(as_curves_of([-1.0, 1.0])),
            "needs y > 0",
        ),
        (
            lambda: Scaling().fit(as_curves_of([1.0, 2.0])).apply_values(np.zeros((3, 2))),
            "must be the 1 output seen",
        ),
        (
            lambda: Scaling().fit(as_curves_of([1.0, 2.0])).apply_points(np.zeros(3)),
            "must be the 1 coordinate seen",
        ),
        (lambda: Scaling().fit(Curves([0, 1], [[1, np.nan]] * 2, [0, 2])), "output 1 is never observed"),
    ],
)
def test_bad_scaling_is_told_what_is_wrong(attempt, sentence):
    with pytest.raises(ValueError, match=sentence):
        attempt()


@pytest.mark.parametrize("method", ["apply", "log_jacobian"])
def test_unfitted_scaling_says_so(method):
    with pytest.raises(NotFittedError, match=r"call scaling\.fit"):
        getattr(Scaling(), method)(lognormal(8))


def as_curves_of(values):
    return Curves.from_grid(np.arange(len(values)), [values])
