"""What a common mesh promises: observed values where points are shared, honest regressions where they are not."""

import numpy as np
import pytest

from febm.curves import Curves
from febm.evaluation import mesh as mesh_module
from febm.evaluation.mesh import embedded, on_common_mesh, principal_scores


def mesh_of(*samples, **options):
    return on_common_mesh(*samples, owner="test", **options)


def waves(generator, n):
    """Random smooth functions on [0, 1], as functions."""
    coefficients = generator.normal(size=(n, 3))
    return [lambda x, c=c: c[0] + c[1] * np.sin(2 * np.pi * x) + c[2] * np.cos(2 * np.pi * x) for c in coefficients]


def ragged(generator, functions, *, noise=0.0, low=0.0, high=1.0, fewest=20, most=40):
    """The functions at random points of their own, the ends of the domain among them."""
    xs = [
        np.concatenate([[low, high], generator.uniform(low, high, size=generator.integers(fewest, most))])
        for _ in functions
    ]
    ys = [function(x) + noise * generator.normal(size=len(x)) for function, x in zip(functions, xs, strict=True)]
    return Curves.from_arrays(xs, ys)


# Points that the curves share


def test_common_points_are_used_as_observed():
    x, Y = np.array([0.0, 0.1, 0.5, 1.0]), np.arange(20.0).reshape(5, 4)
    functions = mesh_of(Curves.from_grid(x, Y[:2]), Curves.from_grid(x, Y[2:]))
    assert not functions.reconstructed
    np.testing.assert_array_equal(functions.points[:, 0], x)
    np.testing.assert_array_equal(functions.values[0][..., 0], Y[:2])
    np.testing.assert_array_equal(functions.values[1][..., 0], Y[2:])


def test_a_finer_grid_is_restricted_to_the_shared_points():
    fine, coarse = np.linspace(0, 1, 21), np.linspace(0, 1, 11)
    functions = mesh_of(Curves.from_grid(fine, np.tile(fine**2, (3, 1))), Curves.from_grid(coarse, [coarse**2] * 4))
    assert not functions.reconstructed
    np.testing.assert_allclose(functions.points[:, 0], coarse)
    np.testing.assert_allclose(functions.values[0][..., 0], np.tile(coarse**2, (3, 1)))


def test_points_that_differ_by_rounding_are_the_same():
    x = np.linspace(0, 1, 11)
    functions = mesh_of(
        Curves.from_grid(x, np.ones((2, 11))), Curves.from_grid(np.cumsum(np.full(11, 0.1)) - 0.1, [x] * 2)
    )
    assert not functions.reconstructed
    assert len(functions.points) == 11


@pytest.mark.parametrize("x", [np.linspace(0, 10, 50), np.random.default_rng(0).uniform(-3, 8, size=300)])
def test_points_in_single_precision_are_the_same(x):
    single = Curves.from_grid(x.astype(np.float32), np.ones((2, len(x))))
    functions = mesh_of(single, Curves.from_grid(x, np.ones((3, len(x)))))
    assert not functions.reconstructed
    assert len(functions.points) == len(x)


def test_many_neighbours_are_not_one_point():
    """Gaps of 0.7e-6 of the domain, which are less than what joins two points, over 28e-6 of it."""
    x = np.append(0.7e-6 * np.arange(40), 1.0)
    assert len(mesh_of(Curves.from_grid(x, np.ones((3, 41)))).points) > 20


def test_the_order_of_points_does_not_matter():
    x = np.array([0.3, 0.0, 1.0, 0.7])
    functions = mesh_of(Curves.from_arrays([x, x[::-1]], [x**2, x[::-1] ** 2]))
    np.testing.assert_array_equal(functions.points[:, 0], np.sort(x))
    np.testing.assert_array_equal(functions.values[0][..., 0], np.tile(np.sort(x) ** 2, (2, 1)))


def test_repeated_points_have_the_mean_of_their_values():
    functions = mesh_of(Curves.from_arrays([[0.0, 1.0, 1.0], [0.0, 1.0]], [[1.0, 2.0, 4.0], [5.0, 6.0]]))
    np.testing.assert_array_equal(functions.values[0][..., 0], [[1.0, 3.0], [5.0, 6.0]])


def test_the_mean_of_repeated_points_stays_in_range():
    functions = mesh_of(Curves.from_arrays([[0.0, 1.0, 1.0], [0.0, 1.0]], [[1.0, 1.5e308, 1.5e308], [5.0, 6.0]]))
    assert functions.values[0][0, 1, 0] == 1.5e308


def test_a_point_that_lacks_an_output_counts_as_not_there():
    y = np.ones((3, 5, 2))
    y[1, 2, 0] = np.nan
    functions = mesh_of(Curves.from_grid(np.arange(5.0), y))
    assert not functions.reconstructed
    np.testing.assert_array_equal(functions.points[:, 0], [0.0, 1.0, 3.0, 4.0])


def test_a_mesh_of_shared_points_takes_the_observed_values():
    x = np.linspace(0, 1, 11)
    functions = mesh_of(Curves.from_grid(x, [x, x**2]), mesh=[0.5, 0.2])
    assert not functions.reconstructed
    np.testing.assert_allclose(functions.values[0][..., 0], [[0.2, 0.5], [0.04, 0.25]])


# Curves with points of their own


def test_smooth_ragged_curves_are_reconstructed_within_two_percent_of_their_spread():
    generator = np.random.default_rng(0)
    truths = waves(generator, 40)
    sample = ragged(generator, truths)
    functions = mesh_of(sample[:25], sample[25:])
    assert functions.reconstructed
    assert functions.points.shape == (100, 1)
    values = np.concatenate(functions.values)[..., 0]
    truth = np.stack([function(functions.points[:, 0]) for function in truths])
    # The median curve; the standard deviation of the values is √2.
    assert np.median(np.sqrt(np.mean((values - truth) ** 2, axis=1))) < 0.02 * np.sqrt(2)


def test_noise_is_smoothed_away_by_reconstruction():
    generator = np.random.default_rng(1)
    truths = waves(generator, 40)
    functions = mesh_of(ragged(generator, truths, noise=0.3))
    truth = np.stack([function(functions.points[:, 0]) for function in truths])
    assert np.sqrt(np.mean((functions.values[0][..., 0] - truth) ** 2)) < 0.2  # the noise has 0.3


def test_reconstruction_knows_neither_order_nor_sample():
    generator = np.random.default_rng(2)
    sample = ragged(generator, waves(generator, 150))  # more than the fit looks at
    order = generator.permutation(150)
    straight = np.concatenate(mesh_of(sample[:70], sample[70:]).values)
    shuffled = np.concatenate(mesh_of(sample[order][:20], sample[order][20:]).values)
    np.testing.assert_allclose(shuffled, straight[order], atol=1e-8)


def test_the_mesh_covers_what_the_samples_share():
    generator = np.random.default_rng(3)
    functions = waves(generator, 20)
    first = ragged(generator, functions[:10], low=0.0, high=1.0)
    second = ragged(generator, functions[10:], low=0.5, high=2.0)
    points = mesh_of(first, second).points
    assert points.min() == 0.5
    assert points.max() == 1.0


def test_a_mesh_that_is_given_is_the_mesh():
    generator = np.random.default_rng(4)
    functions = mesh_of(ragged(generator, waves(generator, 6)), mesh=[0.9, 0.1, 0.5])
    assert functions.reconstructed
    np.testing.assert_array_equal(functions.points[:, 0], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(functions.weights, [0.25, 0.5, 0.25])


def test_surfaces_and_several_outputs_are_reconstructed():
    generator = np.random.default_rng(5)
    xs = [generator.uniform(size=(40, 2)) for _ in range(10)]
    ys = [np.stack([x[:, 0] + x[:, 1], x[:, 0] - x[:, 1]], axis=1) for x in xs]
    ys[0][3, 1] = np.nan
    functions = mesh_of(Curves.from_arrays(xs, ys))
    assert functions.points.shape == (400, 2)
    truth = np.stack([functions.points.sum(axis=1), -np.diff(functions.points, axis=1)[:, 0]], axis=1)
    np.testing.assert_allclose(functions.values[0], np.broadcast_to(truth, (10, 400, 2)), atol=0.05)


@pytest.mark.parametrize("scale", [2.0**1000, 2.0**-1000])
def test_reconstruction_takes_values_of_any_size(scale):
    generator = np.random.default_rng(9)
    sample = ragged(generator, waves(generator, 6))
    plain, scaled = mesh_of(sample), mesh_of(sample.replace(y=scale * sample.y))
    np.testing.assert_allclose(scaled.values[0] / scale, plain.values[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 2])
def test_many_curves_are_reconstructed_part_by_part_by_one_program(outputs, monkeypatch):
    generator = np.random.default_rng(3)
    xs = [generator.uniform(0, 1, 4 + i % 5) for i in range(11)]
    curves = Curves.from_arrays(xs, [np.stack([np.sin(5 * x), x], axis=1)[:, :outputs] for x in xs])
    whole = mesh_of(curves).values[0]
    monkeypatch.setattr(mesh_module, "BLOCK_ENTRIES", 4 * (8 + mesh_module.LINE_POINTS) ** 2)
    compiled = mesh_module._regress._cached._cache_size
    before = compiled()
    parts = mesh_of(curves).values[0]
    assert whole.shape == (11, mesh_module.LINE_POINTS, outputs)
    np.testing.assert_allclose(parts, whole, atol=1e-9)
    assert compiled() == before + 1


def test_constant_ragged_curves_stay_constant():
    curves = Curves.from_arrays([[0.0, 0.3, 0.9], [0.1, 0.5, 1.0], [0.0, 0.2, 0.7]], [[2.0] * 3] * 3)
    np.testing.assert_allclose(mesh_of(curves).values[0], 2.0)


# Weights, embedding, scores


def test_embedded_distances_are_distances_in_the_mean_square():
    x = np.linspace(0, 2, 401)
    a, b = (
        np.concatenate(part) for part in np.split(np.array(embedded(mesh_of(Curves.from_grid(x, [x, x**2])))[0]), 2)
    )
    # ∫₀² (x − x²)² dx / 2 = 8/15
    np.testing.assert_allclose(np.sum((a - b) ** 2), 8 / 15, rtol=1e-4)


def test_weights_follow_the_spacing_of_points():
    weights = mesh_of(Curves.from_grid([0.0, 1.0, 3.0], np.ones((2, 3)))).weights
    np.testing.assert_allclose(weights, [1 / 6, 1 / 2, 1 / 3])


def test_whitened_scores_have_pooled_variance_one_and_no_correlation():
    generator = np.random.default_rng(6)
    values = generator.normal(size=(30, 8)) @ generator.normal(size=(8, 8))
    functions = mesh_of(Curves.from_grid(np.arange(8), values[:10]), Curves.from_grid(np.arange(8), values[10:]))
    first, second = principal_scores(functions, share=1.0)
    assert first.shape == (10, 8)
    assert second.shape == (20, 8)
    np.testing.assert_allclose(np.cov(np.concatenate([first, second]).T, bias=True), np.eye(8), atol=1e-9)


@pytest.mark.parametrize("curves", [6, 60])
def test_unwhitened_scores_of_all_variance_keep_distances(curves):
    values = np.random.default_rng(7).normal(size=(curves, 20))
    functions = mesh_of(Curves.from_grid(np.arange(20), values))
    scores, flat = principal_scores(functions, share=1.0, whiten=False)[0], embedded(functions)[0]
    np.testing.assert_allclose(np.linalg.norm(scores[0] - scores[1]), np.linalg.norm(flat[0] - flat[1]))


def test_equal_curves_have_one_score_of_zero():
    functions = mesh_of(
        Curves.from_grid(np.arange(5), np.full((3, 5), 0.1)), Curves.from_grid(np.arange(5), [[0.1] * 5])
    )
    first, second = principal_scores(functions)
    np.testing.assert_array_equal(first, np.zeros((3, 1)))
    np.testing.assert_array_equal(second, np.zeros((1, 1)))


# What is refused


def test_disjoint_domains_are_refused():
    generator = np.random.default_rng(8)
    functions = waves(generator, 4)
    with pytest.raises(ValueError, match=r"no domain in common: x is in \[0, 1\] and \[2, 3\]"):
        mesh_of(ragged(generator, functions[:2]), ragged(generator, functions[2:], low=2.0, high=3.0))


@pytest.mark.parametrize("mesh", [[0.0, 1.5, 3.0], [0.5], [1.5]])
def test_disjoint_domains_are_refused_on_any_mesh(mesh):
    x = np.linspace(0, 1, 5)
    with pytest.raises(ValueError, match=r"no domain in common: x is in \[0, 1\] and \[2, 3\]"):
        mesh_of(Curves.from_grid(x, np.ones((2, 5))), Curves.from_grid(x + 2, np.ones((2, 5))), mesh=mesh)


@pytest.mark.parametrize("mesh", [None, [0.5, 1.5]])
@pytest.mark.parametrize("shift", [1.0, 1.0 - 1e-9])
def test_domains_that_touch_are_refused(mesh, shift):
    x = np.linspace(0, 1, 10)
    with pytest.raises(ValueError, match="no domain in common"):
        mesh_of(Curves.from_grid(x, np.ones((2, 10))), Curves.from_grid(x + shift, np.ones((2, 10))), mesh=mesh)


def test_a_sample_at_one_point_is_compared_there():
    x = np.linspace(0, 1, 11)
    functions = mesh_of(
        Curves.from_grid(x, np.tile(x, (3, 1))), Curves.from_grid([0.5], np.full((2, 1), 0.5)), mesh=[0.5]
    )
    np.testing.assert_allclose(functions.values[0][..., 0], 0.5)


def test_a_mesh_beyond_one_of_the_samples_is_refused():
    x = np.linspace(0, 1, 10)
    samples = Curves.from_grid(x, np.ones((2, 10))), Curves.from_grid(0.5 + 1.5 * x, np.ones((2, 10)))
    with pytest.raises(ValueError, match=r"mesh has 1 point far outside the domain \[0.5, 1\] that all samples share"):
        mesh_of(*samples, mesh=[0.6, 0.9, 1.7])


def test_values_beyond_the_range_of_numbers_are_refused():
    """Half a wave whose crest, above the largest number, lies between the points."""
    generator = np.random.default_rng(0)
    xs = [np.concatenate([[0, 1], generator.uniform(0, 0.35, 12), generator.uniform(0.65, 1, 12)]) for _ in range(4)]
    ys = [np.sin(np.pi * x) / np.sin(0.35 * np.pi) for x in xs]
    with pytest.raises(ValueError, match=r"test: the curves have values up to 1\.\d+e\+308, and their reconstruction"):
        mesh_of(Curves.from_arrays(xs, [1.79e308 * y for y in ys]))


def test_different_widths_are_refused():
    line = Curves.from_grid(np.arange(3), np.ones((2, 3)))
    with pytest.raises(ValueError, match="1 and 2 outputs"):
        mesh_of(line, Curves.from_grid(np.arange(3), np.ones((2, 3, 2))))
    with pytest.raises(ValueError, match="1 and 2 coordinates"):
        mesh_of(line, Curves.from_grid(np.ones((3, 2)) * np.arange(3)[:, None], np.ones((2, 3))))


def test_a_mesh_far_from_the_curves_is_refused():
    with pytest.raises(ValueError, match="mesh has 1 point far outside"):
        mesh_of(Curves.from_grid(np.linspace(0, 1, 5), np.ones((2, 5))), mesh=[0.5, 3.0])


def test_a_curve_without_any_value_of_an_output_is_refused():
    xs = [[0.0, 1.0], [0.2, 0.7], [0.1, 0.5]]
    ys = [np.ones((2, 2)), np.ones((2, 2)), np.array([[1.0, np.nan], [1.0, np.nan]])]
    with pytest.raises(ValueError, match="curve 2 of sample 0 has no value of output 1"):
        mesh_of(Curves.from_arrays(xs, ys))
