"""What the two-sample tests promise: their level, the published power, and the statistic by its definition."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from samples import MESH, rough
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, rbf_kernel

from febm.curves import Curves
from febm.door import as_curves
from febm.evaluation.function_kernels import KERNELS, gram_matrix
from febm.evaluation.mesh import embedded, on_common_mesh
from febm.evaluation.permutation import label_rows, mean_discrepancies, permutation_pvalue
from febm.evaluation.samples import draw_pair, largest_draw, twins_of
from febm.evaluation.two_sample import power_table, test_power, two_sample_test
from febm.models.base import Process

ALL = tuple(KERNELS)


def pair(generator, m=7, n=11):
    return Curves.from_grid(MESH, rough(generator, m)), Curves.from_grid(MESH, rough(generator, n) * 1.3)


def ragged(generator, n):
    xs = [np.sort(generator.uniform(size=generator.integers(6, 15))) for _ in range(n)]
    return Curves.from_arrays(xs, [rough(generator, 1, x)[0] for x in xs])


def direct(gram, m):
    """The statistic by its definition, pair by pair."""
    n = len(gram) - m
    first = sum(gram[i, j] for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    second = sum(gram[m + i, m + j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    return first + second - 2 * sum(gram[i, m + j] for i in range(m) for j in range(n)) / (m * n)


def product(f, g, weights):
    """⟨f, g⟩ of functions `(points, outputs)`."""
    return sum(w * float(f[t, o] * g[t, o]) for t, w in enumerate(weights) for o in range(f.shape[1]))


def trapezoids(x):
    """Quadrature weights of sum 1, interval by interval."""
    weights = [0.0] * len(x)
    for t in range(len(x) - 1):
        weights[t] += 0.5 * (x[t + 1] - x[t]) / (x[-1] - x[0])
        weights[t + 1] += 0.5 * (x[t + 1] - x[t]) / (x[-1] - x[0])
    return weights


def at_the_median(functions, weights):
    """exp(−‖f − g‖²/2γ²) pair by pair, and γ."""
    n = len(functions)
    squared = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            squared[i, j] = product(functions[i] - functions[j], functions[i] - functions[j], weights)
    bandwidth = float(np.median([np.sqrt(squared[i, j]) for i in range(n) for j in range(i)]))
    return np.exp(-squared / (2 * bandwidth**2)), bandwidth


def components(functions, weights):
    """Eigenvalues of the covariance operator, falling, and the scores, by a singular-value decomposition."""
    flat = np.stack([np.concatenate([np.sqrt(w) * row for w, row in zip(weights, f, strict=True)]) for f in functions])
    left, singular, _ = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
    return singular**2 / len(flat), left * singular


def components_for(variances, share):
    return next(rank for rank in range(1, len(variances) + 1) if sum(variances[:rank]) >= share * sum(variances))


def by_definition(kernel, x, functions):
    """The Gram matrix and bandwidth of a kernel as its definition reads."""
    weights = trapezoids(x)
    if kernel == "id":
        return at_the_median(functions, weights)
    if kernel == "sqr":
        values, first = at_the_median(functions, weights)
        squares, second = at_the_median(functions**2, weights)
        return values * squares, (first, second)
    if kernel == "cov":
        return np.array([[product(f, g, weights) ** 2 for g in functions] for f in functions]), None
    if kernel == "cexp":
        unit = (x - x[0]) / (x[-1] - x[0])
        transformed = np.zeros_like(functions)
        for i, s in enumerate(unit):
            for w, t, value in zip(weights, unit, np.moveaxis(functions, 1, 0), strict=True):
                waves = sum(np.cos(2 * np.pi * k * (s - t)) for k in range(20))
                transformed[:, i] += w * waves * np.exp(-((s - t) ** 2) / 20) * value
        return at_the_median(transformed, weights)
    variances, scores = components(functions, weights)
    if kernel == "fpca":
        rank = components_for(variances, 0.95)
        scores = scores[:, :rank] * np.sqrt(variances[:rank])
    else:
        rank = min(components_for(variances, 0.99), len(functions) // 4)
        scores = scores[:, :rank] / np.sqrt(variances[:rank])
    return at_the_median(scores[:, :, None], [1.0] * rank)


def rejections(kernels, draw, sizes, trials, generator, permutations=99):
    """How many trials each kernel rejects at level 0.05; all kernels see the same curves and labels."""
    counts = dict.fromkeys(kernels, 0)
    functions = on_common_mesh(Curves.from_grid(MESH, np.ones((2, len(MESH)))), owner="test")
    for _ in range(trials):
        values = tuple(draw(size)[..., None] for size in sizes)
        labels = label_rows(sizes, permutations, generator)
        for kernel in kernels:
            gram = gram_matrix(kernel, functions._replace(values=values), "test").matrix
            counts[kernel] += permutation_pvalue(mean_discrepancies(gram, labels, sizes)) <= 0.05
    return counts


def inside_binomial(count, trials, share=0.05, coverage=0.99):
    low, high = scipy.stats.binom.interval(coverage, trials, share)
    return low <= count <= high


# Level


def assert_levels(sizes, trials, permutations):
    generator = np.random.default_rng(sizes[0])
    counts = rejections(ALL, lambda n: rough(generator, n), sizes, trials, generator, permutations)
    outside = {name: n for name, n in counts.items() if not inside_binomial(n, trials, coverage=1 - 0.01 / len(ALL))}
    assert not outside


@pytest.mark.parametrize("sizes", [(10, 10), (8, 18)])
def test_every_kernel_keeps_its_level(sizes):
    """A right test fails here with probability 0.01 at most, for all six kernels together."""
    assert_levels(sizes, 1500, 99)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(30, 30), (20, 45), (60, 15)])
def test_every_kernel_keeps_its_level_at_other_sizes(sizes):
    """A right test fails here with probability 0.01 at most, for all six kernels together."""
    assert_levels(sizes, 3000, 199)


@pytest.mark.parametrize("kernel", ["id", "whitened"])
def test_ragged_curves_keep_the_level(kernel):
    """Error rate 0.01 for each kernel: disjoint draws of one set of curves make independent trials of exact level."""
    curves = ragged(np.random.default_rng(0), 120)
    power = test_power(curves, curves, n=10, trials=1000, kernel=kernel, permutations=99, random_state=0)
    assert inside_binomial(round(power * 1000), 1000)


@pytest.mark.slow
def test_ragged_curves_keep_the_level_when_each_pair_is_reconstructed_anew():
    """Error rate 0.01; sizes are unequal and every trial fits its own kernel."""
    generator = np.random.default_rng(1)
    found = [
        two_sample_test(ragged(generator, 8), ragged(generator, 16), permutations=99, random_state=trial).pvalue
        for trial in range(150)
    ]
    assert inside_binomial(sum(pvalue <= 0.05 for pvalue in found), 150)


# Power

# Wynne and Duncan (JMLR 2022): kernel "cov", 100 curves a side on 100 points, Var ξ = (10, 5) against (10 + δ, 5).
PUBLISHED = {0: 0.05, 5: 0.48, 10: 0.93, 15: 0.99, 20: 1.0}
PUBLISHED_TRIALS = 500  # not stated; several hundred


def covariance_power(extra, trials):
    generator = np.random.default_rng(extra)
    x = np.linspace(0, 1, 100)
    waves = np.sqrt(2) * np.stack([np.sin(2 * np.pi * x), np.cos(2 * np.pi * x)])
    functions = on_common_mesh(Curves.from_grid(x, np.ones((2, 100))), owner="test")
    rejected = 0
    for _ in range(trials):
        values = tuple(
            (
                generator.normal(size=(100, 2)) * np.sqrt([variance, 5]) @ waves
                + x
                + np.sqrt(0.25) * generator.normal(size=(100, 100))
            )[..., None]
            for variance in (10, 10 + extra)
        )
        labels = label_rows((100, 100), 199, generator)
        gram = gram_matrix("cov", functions._replace(values=values), "test").matrix
        rejected += permutation_pvalue(mean_discrepancies(gram, labels, (100, 100))) <= 0.05
    return rejected / trials


def assert_as_published(extra, trials):
    """Within 99.9 % limits of both Monte-Carlo errors, and of the two digits printed."""
    found, published = covariance_power(extra, trials), PUBLISHED[extra]
    share = np.clip(published, 0.005, 0.995)
    error = np.sqrt(share * (1 - share) * (1 / trials + 1 / PUBLISHED_TRIALS))
    assert abs(found - published) <= scipy.stats.norm.ppf(0.9995) * error + 0.005


@pytest.mark.parametrize("extra", [5, 10])
def test_covariance_kernel_has_the_published_power(extra):
    """Error rate 0.001 for each."""
    assert_as_published(extra, 200)


@pytest.mark.slow
@pytest.mark.parametrize("extra", PUBLISHED)
def test_covariance_kernel_has_all_published_powers(extra):
    """Error rate 0.001 for each."""
    assert_as_published(extra, 1000)


def test_a_shift_of_the_mean_is_found():
    generator = np.random.default_rng(2)
    a, b = rough(generator, 40), rough(generator, 40) + 1.0
    for kernel in ("id", "fpca", "sqr", "cexp", "whitened"):
        assert two_sample_test(a, b, kernel, random_state=0).pvalue < 0.01


# The statistic


@pytest.mark.parametrize("kernel", ALL)
def test_statistic_is_its_definition(kernel):
    a, b = pair(np.random.default_rng(3))
    functions = on_common_mesh(a, b, owner="test")
    test = two_sample_test(a, b, kernel, permutations=3, random_state=0)
    gram = gram_matrix(kernel, functions, "test")
    np.testing.assert_allclose(test.statistic, direct(np.ldexp(gram.matrix, gram.exponent), 7), rtol=1e-9)
    assert test.sizes == (7, 11)
    assert test.kernel == kernel


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("sizes", [(5, 9), (20, 12)])
@pytest.mark.parametrize("kernel", ALL)
def test_kernels_are_their_definitions(kernel, sizes, outputs):
    """Written out anew, pair by pair, for samples of unequal size on points of unequal distances."""
    generator = np.random.default_rng(23)
    x = np.sort(generator.uniform(-3, 7, size=8))
    values = generator.normal(size=(sum(sizes), 8, outputs)).cumsum(axis=1) * np.linspace(1, 1.5, outputs) + 0.4
    a, b = (Curves.from_grid(x, part) for part in np.split(values, sizes[:1]))
    gram, bandwidth = by_definition(kernel, x, values)
    test = two_sample_test(a, b, kernel, permutations=3, random_state=0)
    found = gram_matrix(kernel, on_common_mesh(a, b, owner="test"), "test")
    np.testing.assert_allclose(np.ldexp(found.matrix, found.exponent), gram, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(test.statistic, direct(gram, sizes[0]), rtol=1e-8, atol=1e-11)
    if bandwidth is not None:
        np.testing.assert_allclose(test.bandwidth, bandwidth, rtol=1e-8)
    # Otherwise the shares of variance in the definitions would not matter here.
    variances = components(values, trapezoids(x))[0]
    assert components_for(variances, 0.95) < components_for(variances, 0.99)


def test_permutations_in_one_product_are_the_naive_ones():
    a, b = pair(np.random.default_rng(4))
    gram = gram_matrix("id", on_common_mesh(a, b, owner="test"), "test").matrix
    labels = label_rows((7, 11), 20, np.random.default_rng(0))
    orders = [np.concatenate([np.flatnonzero(row), np.flatnonzero(row == 0)]) for row in labels]
    naive = [direct(gram[np.ix_(order, order)], 7) for order in orders]
    np.testing.assert_allclose(mean_discrepancies(gram, labels, (7, 11)), naive, rtol=1e-9, atol=1e-14)
    assert (labels.sum(axis=1) == 7).all()
    np.testing.assert_array_equal(labels[0], np.arange(18) < 7)


def test_identity_kernel_is_a_gaussian_of_the_distance_at_the_median():
    a, b = pair(np.random.default_rng(5))
    flat = np.concatenate(embedded(on_common_mesh(a, b, owner="test")))
    distances = scipy.spatial.distance.pdist(flat)
    test = two_sample_test(a, b, permutations=9, random_state=0)
    np.testing.assert_allclose(test.bandwidth, np.median(distances))
    gram = gram_matrix("id", on_common_mesh(a, b, owner="test"), "test").matrix
    expected = np.exp(-np.square(scipy.spatial.distance.squareform(distances)) / (2 * np.median(distances) ** 2))
    np.testing.assert_allclose(gram, expected, rtol=1e-10)


def test_square_kernel_has_a_bandwidth_for_each_block():
    a, b = pair(np.random.default_rng(6))
    test = two_sample_test(a, b, "sqr", permutations=9, random_state=0)
    squares = [curves.replace(y=curves.y**2) for curves in (a, b)]
    first = two_sample_test(a, b, permutations=9, random_state=0).bandwidth
    second = two_sample_test(*squares, permutations=9, random_state=0).bandwidth
    np.testing.assert_allclose(test.bandwidth, (first, second))


def test_fpca_kernel_weighs_scores_by_the_roots_of_their_variances():
    """Along two orthonormal functions, λ known, 95 % of the variance needs both."""
    x = np.linspace(0, 1, 201)
    waves = np.sqrt(2) * np.stack([np.sin(2 * np.pi * x), np.cos(2 * np.pi * x)])
    scores = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    test = two_sample_test(*np.split(scores @ waves, 2), "fpca", permutations=9, random_state=0, mesh=None)
    transformed = scores * np.sqrt(np.mean(scores**2, axis=0))
    np.testing.assert_allclose(test.bandwidth, np.median(scipy.spatial.distance.pdist(transformed)), rtol=5e-3)


def test_cosine_kernel_keeps_low_frequencies_only():
    """Far above its 20 frequencies, two waves that differ look the same to the integral operator."""
    x = np.linspace(0, 1, 400)
    low, high = (np.stack([np.sin(2 * np.pi * k * x), np.cos(2 * np.pi * k * x)]) for k in (3, 60))
    low, high = (Curves.from_grid(x, np.concatenate([part, -part])) for part in (low, high))
    seen = two_sample_test(low[:2], low[2:], "cexp", permutations=9, random_state=0).bandwidth
    unseen = two_sample_test(high[:2], high[2:], "cexp", permutations=9, random_state=0).bandwidth
    assert unseen < 0.05 * seen


def test_a_function_is_a_kernel():
    a, b = pair(np.random.default_rng(7))
    values = np.concatenate([a.to_grid()[1][..., 0], b.to_grid()[1][..., 0]])
    for kernel in (rbf_kernel, laplacian_kernel):
        test = two_sample_test(a, b, kernel, permutations=9, random_state=0)
        np.testing.assert_allclose(test.statistic, direct(kernel(values, values), 7))
        assert test.kernel == kernel.__name__
        assert test.bandwidth is None


@pytest.mark.parametrize("kernel", ALL)
def test_neither_order_nor_side_changes_the_statistic(kernel):
    generator = np.random.default_rng(8)
    a, b = pair(generator)
    there = two_sample_test(a, b, kernel, permutations=9, random_state=0)
    back = two_sample_test(b[generator.permutation(11)], a[generator.permutation(7)], kernel, 9, 0)
    np.testing.assert_allclose(back.statistic, there.statistic, rtol=1e-8)


@pytest.mark.parametrize("kernel", ["id", "fpca", "cexp", "whitened"])
def test_units_change_nothing(kernel):
    """Nor does a constant added to all curves."""
    a, b = pair(np.random.default_rng(9))
    plain = two_sample_test(a, b, kernel, permutations=99, random_state=0)
    moved = [curves.replace(x=1000 * curves.x - 7, y=1e-3 * curves.y + 5) for curves in (a, b)]
    other = two_sample_test(*moved, kernel, permutations=99, random_state=0)
    np.testing.assert_allclose(other.statistic, plain.statistic, rtol=1e-6)
    assert other.pvalue == plain.pvalue


SIZE = {"id": 1, "fpca": 2, "sqr": np.array([1, 2]), "cexp": 1, "whitened": 0}  # powers of the size in the bandwidth


@pytest.mark.parametrize("exponent", [1015, 520, 270, -270, -520, -1000])
@pytest.mark.parametrize("kernel", SIZE)
def test_size_changes_nothing_as_long_as_there_are_numbers(kernel, exponent):
    generator = np.random.default_rng(24)
    a, b = rough(generator, 7), rough(generator, 11) * 1.3
    plain = two_sample_test(a, b, kernel, permutations=99, random_state=0)
    other = two_sample_test(np.ldexp(a, exponent), np.ldexp(b, exponent), kernel, permutations=99, random_state=0)
    np.testing.assert_allclose(other.statistic, plain.statistic, rtol=1e-9)
    np.testing.assert_allclose(other.null, plain.null, rtol=1e-9, atol=1e-12)
    assert other.pvalue == plain.pvalue
    with np.errstate(over="ignore"):
        expected = np.ldexp(plain.bandwidth, exponent * SIZE[kernel])
    np.testing.assert_allclose(other.bandwidth, expected, rtol=1e-9)


def test_the_statistic_of_second_moments_goes_with_the_fourth_power():
    generator = np.random.default_rng(25)
    a, b = rough(generator, 7), rough(generator, 11) * 1.3
    plain = two_sample_test(a, b, "cov", permutations=99, random_state=0)
    for exponent in (200, -200):
        other = two_sample_test(np.ldexp(a, exponent), np.ldexp(b, exponent), "cov", permutations=99, random_state=0)
        np.testing.assert_allclose(np.ldexp(other.statistic, -4 * exponent), plain.statistic, rtol=1e-9)
        assert other.pvalue == plain.pvalue


@pytest.mark.parametrize("scale", [1e80, 1e-82, 1e300])
def test_a_statistic_beyond_the_range_of_numbers_is_refused(scale):
    generator = np.random.default_rng(26)
    a, b = scale * rough(generator, 7), scale * rough(generator, 11)
    with pytest.raises(ValueError, match=r"the statistic of kernel cov, .* divide all curves by their size"):
        two_sample_test(a, b, "cov")


@pytest.mark.parametrize("kernel", ALL)
def test_power_does_not_depend_on_size(kernel):
    generator = np.random.default_rng(27)
    a, b = rough(generator, 12), rough(generator, 12) * 1.3
    powers = [
        test_power(scale * a, scale * b, n=5, trials=20, kernel=kernel, random_state=0)
        for scale in (1.0, 2.0**1015, 2.0**-1000)
    ]
    assert powers[0] == powers[1] == powers[2]


@pytest.mark.parametrize("size", [1e80, 1e160, 1e300])
@pytest.mark.parametrize("kernel", SIZE)
def test_one_wild_curve_is_no_evidence(kernel, size):
    """Of 20 curves of one distribution one is far away; alone it cannot tell which sample is the odd one."""
    values = rough(np.random.default_rng(28), 20)
    values[0] *= size
    test = two_sample_test(values[:10], values[10:], kernel, permutations=199, random_state=0)
    assert np.isfinite(test.null).all()
    assert test.pvalue > 0.3


def test_large_values_of_a_function_are_compared():
    """A linear kernel of curves of size 10¹⁵³: its values are numbers, but their sum is not."""
    generator = np.random.default_rng(29)
    a, b = rough(generator, 12), rough(generator, 12) + 1.0
    plain, large = (
        two_sample_test(scale * a, scale * b, linear_kernel, permutations=99, random_state=0)
        for scale in (1.0, 2.0**508)
    )
    assert plain.pvalue == large.pvalue
    np.testing.assert_allclose(np.ldexp(large.statistic, -1016), plain.statistic, rtol=1e-9)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 3])
def test_a_statistic_that_is_no_number_has_no_pvalue(wrong, place):
    statistics = np.arange(10.0)
    statistics[place] = wrong
    with pytest.raises(ValueError, match=r"1 statistic of 10, .* came out NaN or infinite, so there is no p-value"):
        permutation_pvalue(statistics)


def test_large_statistics_are_counted_like_others():
    assert permutation_pvalue(np.array([1.0, 0.5, -1.5, 1.7])) == permutation_pvalue(
        1e308 * np.array([1.0, 0.5, -1.5, 1.7])
    )


def test_pvalue_counts_the_permutations_that_reach_the_statistic():
    a, b = pair(np.random.default_rng(10))
    test = two_sample_test(a, b, permutations=50, random_state=0)
    assert test.null.shape == (50,)
    assert test.pvalue == (1 + np.sum(test.null >= test.statistic)) / 51
    assert test.pvalue == two_sample_test(a, b, permutations=50, random_state=0).pvalue


def test_ties_by_rounding_are_ties():
    """Two against two curves have six labellings and, by symmetry, three statistics: p is a multiple of 1/3."""
    values = np.random.default_rng(11).normal(size=(4, 5))
    pvalues = [two_sample_test(values[:2], values[2:], permutations=2000, random_state=i).pvalue for i in range(3)]
    assert all(abs(3 * pvalue - np.round(3 * pvalue)) < 0.15 for pvalue in pvalues)


# Curves that do not differ


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_identical_curves_have_statistic_zero_and_pvalue_one(kernel, value):
    curves = np.full((3, 7), value) * (1 + np.arange(7))
    test = two_sample_test(curves, np.concatenate([curves, curves]), kernel, permutations=99, random_state=0)
    assert test.statistic == 0.0
    assert test.pvalue == 1.0
    assert test.bandwidth == {"sqr": (0.0, 0.0), "cov": None}.get(kernel, 0.0)


def test_constant_curves_are_compared_by_their_level():
    levels = np.random.default_rng(12).normal(size=(60, 1)) * np.ones(6)
    for kernel in ("id", "fpca", "cexp", "whitened"):
        assert two_sample_test(levels[:30], levels[30:] + 3, kernel, random_state=0).pvalue < 0.01


def test_missing_values_leave_the_points_that_all_curves_have():
    generator = np.random.default_rng(13)
    values = rough(generator, 20)
    values[3, 5] = np.nan
    test = two_sample_test(values[:10], values[10:], permutations=99, random_state=0)
    x, kept = np.arange(12.0), np.arange(12) != 5
    whole = [Curves.from_grid(x[kept], part[:, kept]) for part in (values[:10], values[10:])]
    assert test.statistic == two_sample_test(*whole, permutations=99, random_state=0).statistic


def test_reconstruction_is_told():
    generator = np.random.default_rng(30)
    shared = two_sample_test(*pair(generator), permutations=9, random_state=0)
    own = two_sample_test(ragged(generator, 4), ragged(generator, 5), permutations=9, random_state=0)
    assert not shared.reconstructed
    assert repr(shared).endswith("7 against 11 curves>")
    assert own.reconstructed
    assert repr(own).endswith("4 against 5 curves, reconstructed>")


def test_an_array_beside_curves_is_on_their_grid():
    generator = np.random.default_rng(31)
    x = MESH**2
    a, b = rough(generator, 8), rough(generator, 9)
    whole = two_sample_test(Curves.from_grid(x, a), Curves.from_grid(x, b), permutations=9, random_state=0)
    curves = Curves.from_grid(x, a)
    for pair_of in ((curves, b), ([curves[:3], curves[3:]], b), (a, Curves.from_grid(x, b))):
        test = two_sample_test(*pair_of, permutations=9, random_state=0)
        assert (test.statistic, test.reconstructed) == (whole.statistic, False)


# Power of repeated small tests


def test_power_of_data_against_themselves_is_the_level():
    """Error rate 0.01: draws are disjoint, so the trials are exact."""
    curves = Curves.from_grid(MESH, rough(np.random.default_rng(14), 60))
    power = test_power(curves, curves, n=10, trials=600, random_state=0)
    assert inside_binomial(round(600 * power), 600)
    copy = Curves.from_grid(MESH, curves.to_grid()[1])
    assert test_power(curves, copy, n=10, trials=600, random_state=0) == power


def test_power_of_data_against_themselves_knows_no_order():
    """Error rate 0.01 for each; a curve in both draws of a trial would make the power smaller than the level."""
    data = rough(np.random.default_rng(32), 40)
    for other in (data[::-1], data[np.random.default_rng(0).permutation(40)]):
        power = test_power(data, other, n=20, trials=600, random_state=0)
        assert inside_binomial(round(600 * power), 600)


@pytest.mark.parametrize("swapped", [False, True])
def test_power_of_data_against_a_part_of_them_is_the_level(swapped):
    """Error rate 0.01 for each: one trial of every set of curves, so that the trials are independent and exact.

    The smaller sample is half of the larger one.
    """
    generator = np.random.default_rng(33)
    rejected = 0
    for trial in range(400):
        data = rough(generator, 40)
        samples = (data[:20], data) if swapped else (data, data[:20])
        rejected += test_power(*samples, n=20, trials=1, permutations=99, random_state=trial)
    assert inside_binomial(rejected, 400)


@pytest.mark.parametrize(("sizes", "shared", "n"), [((9, 9), 9, 4), ((12, 9), 5, 7), ((7, 12), 5, 7), ((6, 8), 0, 6)])
def test_draws_have_no_curve_in_common(sizes, shared, n):
    """Up to the largest n; smaller draws reach every curve."""
    generator = np.random.default_rng(34)
    values = rough(generator, sum(sizes) - shared)
    a = values[generator.permutation(sizes[0])]
    b = np.concatenate([a[:shared], values[sizes[0] :]])[generator.permutation(sizes[1])]
    twins = twins_of(as_curves(a), as_curves(b))
    assert np.sum(twins >= 0) == shared
    np.testing.assert_array_equal(a[twins[twins >= 0]], b[twins >= 0])
    assert largest_draw(sizes[0], twins) == n
    drawn = [draw_pair(sizes[0], twins, n, generator) for _ in range(200)]
    for first, second in drawn:
        assert len(np.unique(np.concatenate([a[first], b[second]]), axis=0)) == 2 * n
    small = [draw_pair(sizes[0], twins, 2, generator) for _ in range(200)]
    assert {i for first, _ in small for i in first.tolist()} == set(range(sizes[0]))
    assert {i for _, second in small for i in second.tolist()} == set(range(sizes[1]))


def test_a_curve_that_is_there_twice_has_two_twins():
    once = as_curves(np.eye(3))
    assert twins_of(once, once[[0, 0, 2]]).tolist() == [0, -1, 2]
    assert sorted(twins_of(once[[0, 0, 2]], once[[0, 2, 0]]).tolist()) == [0, 1, 2]


def test_power_grows_with_the_difference_and_the_size():
    generator = np.random.default_rng(15)
    data, other = rough(generator, 150), rough(generator, 150) + 0.7
    powers = [test_power(data, other, n=n, trials=100, random_state=0) for n in (5, 20, 60)]
    assert powers[0] < powers[1] < powers[2]
    assert powers[2] > 0.9


@pytest.mark.parametrize(("shift", "rejected"), [(0.0, 0.0), (1.5, 1.0)])
def test_a_trial_of_all_curves_is_the_test_of_all_curves(shift, rejected):
    generator = np.random.default_rng(16)
    data, other = rough(generator, 20), rough(generator, 20) + shift
    pvalue = two_sample_test(data, other, permutations=9999, random_state=0).pvalue
    assert pvalue < 0.01 or pvalue > 0.15  # far enough from 0.05 for 199 permutations to agree every time
    assert test_power(data, other, n=20, trials=20, random_state=0) == float(pvalue <= 0.05) == rejected


class Shifted(Process):
    """A stand-in for a fitted model: the curves' own law, shifted; it keeps what it was asked."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, curves, y=None):
        return self

    def condition(self, curves, *, random_state=None):
        raise NotImplementedError

    def __sklearn_is_fitted__(self):
        return True

    def sample(self, n, at=None, *, noise=False, random_state=None):
        self.asked = (n, at, noise)
        generator = np.random.default_rng(0)
        if isinstance(at, Curves):
            xs = [curve.x[:, 0] for curve in at]
            return Curves.from_arrays(xs, [rough(generator, 1, x)[0] + self.shift for x in xs])
        return Curves.from_grid(at, rough(generator, n, np.ravel(at)) + self.shift)


def test_a_model_is_sampled_with_noise_at_the_points_of_the_data():
    data = Curves.from_grid(MESH, rough(np.random.default_rng(17), 60))
    model = Shifted(3.0)
    assert test_power(data, model, n=10, trials=20, random_state=0) == 1.0
    count, at, noise = model.asked
    assert (count, noise) == (1000, True)
    np.testing.assert_array_equal(np.ravel(at), MESH)
    assert test_power(model, data, n=10, trials=20, random_state=0) == 1.0


def test_an_array_beside_a_model_is_on_its_grid():
    values = rough(np.random.default_rng(35), 60)
    model = Shifted()
    model.grid_ = MESH[:, None] ** 2
    on_grid = Curves.from_grid(MESH**2, values)
    power = test_power(on_grid, model, n=10, trials=20, random_state=0)
    for samples in ((values, model), (model, values)):
        found = test_power(*samples, n=10, trials=20, random_state=0)
        np.testing.assert_array_equal(np.ravel(model.asked[1]), MESH**2)
    assert test_power(values, model, n=10, trials=20, random_state=0) == power
    assert 0 <= found <= 1
    tables = [power_table(data, model, sizes=5, kernels="id", trials=10, random_state=0) for data in (on_grid, values)]
    pd.testing.assert_frame_equal(*tables)
    with pytest.raises(ValueError, match=r"a is an array of 11 columns, but .* a grid of 12 points"):
        test_power(values[:, :11], model)


def test_a_model_is_sampled_at_the_points_of_ragged_curves():
    data = ragged(np.random.default_rng(18), 40)
    model = Shifted()
    power = test_power(data, model, n=10, trials=100, random_state=0)
    assert power < 0.3
    designs = {curve.x.tobytes() for curve in data}
    assert all(curve.x.tobytes() in designs for curve in model.asked[1])


def test_power_table_has_powers_and_floors():
    data = Curves.from_grid(MESH, rough(np.random.default_rng(19), 45))
    with pytest.warns(UserWarning, match="power_table") as caught:
        table = power_table(
            data, Shifted(1.0), sizes=(10, 30, 50), kernels=("id", rbf_kernel), trials=40, random_state=0
        )
    messages = " ".join(str(warning.message) for warning in caught)
    assert "sizes 50 are left out" in messages
    assert "no floor for sizes 30" in messages
    assert list(table.columns) == ["kernel", "n", "power", "power_se", "floor", "floor_se"]
    assert list(zip(table.kernel, table.n, strict=True)) == [(k, n) for k in ("id", "rbf_kernel") for n in (10, 30)]
    assert table.floor.isna().tolist() == [False, True, False, True]
    assert (table.power[table.n == 30] > 0.9).all()
    expected = np.sqrt(table.power * (1 - table.power) / 40)
    pd.testing.assert_series_equal(table.power_se, expected, check_names=False)


def test_power_table_takes_its_floor_from_a_reference():
    generator = np.random.default_rng(20)
    data, reference = (Curves.from_grid(MESH, rough(generator, 40)) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = power_table(
            data, Shifted(), sizes=(30,), kernels=("id",), trials=50, reference=reference, random_state=0
        )
    assert table.floor.notna().all()


def test_power_table_takes_one_size_and_one_kernel():
    data = Curves.from_grid(MESH, rough(np.random.default_rng(36), 20))
    options = {"trials": 10, "random_state": 0}
    table = power_table(data, Shifted(), sizes=4, kernels="id", **options)
    pd.testing.assert_frame_equal(table, power_table(data, Shifted(), sizes=[4], kernels=["id"], **options))
    assert power_table(data, Shifted(), sizes=4, kernels=rbf_kernel, **options).kernel.tolist() == ["rbf_kernel"]
    assert len(power_table(data, Shifted(), sizes=(4, 5), kernels=iter(["id", "fpca"]), **options)) == 4


def test_power_table_reads_arrays_on_the_grid_of_the_curves():
    generator = np.random.default_rng(37)
    values = [rough(generator, 20) for _ in range(3)]
    whole = [Curves.from_grid(MESH**2, part) for part in values]
    tables = [
        power_table(data, model, reference=reference, sizes=5, kernels="id", trials=20, random_state=0)
        for data, model, reference in (whole, (values[0], whole[1], values[2]), (*values[:2], whole[2]))
    ]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])


def test_floor_of_a_reference_that_is_the_data_is_that_of_the_data():
    """Error rate 0.01."""
    data = Curves.from_grid(MESH, rough(np.random.default_rng(38), 40))
    table = power_table(data, Shifted(), sizes=20, kernels="id", trials=600, reference=data[::-1], random_state=0)
    assert inside_binomial(round(600 * table.floor.item()), 600)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"sizes": (50, 60)},
            "there are 20 curves of the data and 1000 of the model, so sizes can be 20 at most; got 50",
        ),
        ({"sizes": ()}, "sizes is empty; give at least one"),
        ({"sizes": 4.5}, "sizes is 4.5; give a whole number"),
        ({"sizes": None}, "sizes is None; give a whole number"),
        ({"kernels": ()}, "kernels is empty; give at least one"),
        ({"kernels": None}, "kernel is None; give one of"),
        ({"level": 0}, "level is 0; give a share between 0 and 1"),
    ],
)
def test_bad_arguments_of_the_table_are_told_what_to_do(change, message):
    data = Curves.from_grid(MESH, rough(np.random.default_rng(39), 20))
    with pytest.raises(ValueError, match=f"power_table: {message}"):
        power_table(data, Shifted(), **({"sizes": 5, "kernels": "id", "trials": 10} | change))


# What is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "rbf"}, "kernel is 'rbf'; give one of 'id', 'fpca'"),
        ({"kernel": 3}, "kernel is 3"),
        ({"permutations": 0}, "permutations is 0; give a whole number of at least 1"),
        ({"permutations": 9.5}, "permutations is 9.5"),
        ({"a": np.ones((1, 12))}, "a has 1 curve; a test needs at least 2"),
        ({"b": np.ones((1, 12))}, "b has 1 curve; a test needs at least 2"),
        ({"b": np.full((3, 12), np.inf)}, "infinite"),
        ({"b": Curves.from_grid(np.arange(12), np.ones((3, 12, 2)))}, "1 and 2 outputs"),
        ({"b": Curves.from_grid(np.arange(11), np.ones((3, 11)))}, "a is an array of 12 columns, but .* 11 points"),
        ({"kernel": lambda f, g: np.ones(3)}, "gave shape"),
        ({"kernel": lambda f, g: np.full((len(f), len(g)), np.nan)}, "not finite"),
        ({"kernel": lambda f, g: np.arange(len(f) * len(g)).reshape(len(f), len(g))}, "not symmetric"),
    ],
)
def test_bad_arguments_are_told_what_to_do(change, message):
    generator = np.random.default_rng(21)
    arguments = {"a": rough(generator, 4), "b": rough(generator, 5)} | change
    with pytest.raises(ValueError, match=message):
        two_sample_test(**arguments)


def test_a_model_is_no_sample_of_a_single_test():
    with pytest.raises(TypeError, match="a is a model; give curves"):
        two_sample_test(Shifted(), np.ones((3, 4)))
    with pytest.raises(TypeError, match="both samples are models"):
        test_power(Shifted(), Shifted())
    with pytest.raises(TypeError, match="reference is a model"):
        power_table(np.ones((3, 4)), np.ones((3, 4)), reference=Shifted())


def test_disjoint_samples_are_no_samples_of_a_test():
    first, second = (Curves.from_grid(start + np.arange(12), np.ones((3, 12))) for start in (0, 100))
    for mesh in (None, [5.0, 105.0]):
        with pytest.raises(ValueError, match="two_sample_test: the samples have no domain in common"):
            two_sample_test(first, second, mesh=mesh)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 31}, "n is 31, but there are 30 and 40 curves; n can be 30 at most"),
        ({"n": 16, "b": None}, "the same ones, and the two draws have none in common; n can be 15"),
        ({"n": 16, "b": 5}, "30 and 25 curves, of which 25 are in both, and .* none in common; n can be 15 at most"),
        ({"n": 1}, "n is 1; give a whole number of at least 2"),
        ({"trials": 0}, "trials is 0"),
        ({"level": 1.5}, "level is 1.5; give a share between 0 and 1"),
    ],
)
def test_bad_arguments_of_power_are_told_what_to_do(change, message):
    generator = np.random.default_rng(22)
    a, b = rough(generator, 30), rough(generator, 40)
    arguments = {"a": a, "b": b} | change
    if arguments["b"] is None:
        arguments["b"] = a
    elif isinstance(arguments["b"], int):
        arguments["b"] = a[arguments["b"] :]
    with pytest.raises(ValueError, match=message):
        test_power(**arguments)
