"""What is chosen by held-out curves: remainder, roughness, and the mixture; and how gaps are judged."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

import febm
from febm import gaps
from febm.base_measure import MOST_CAUTION, STARTS, BaseChoice, BaseSearch, choose_bases, fit_base
from febm.basis import Empirical
from febm.basis.enriched import Enriched, Remainder, lowest_orders
from febm.conjugate import Mixture
from febm.folding import fold_basis
from febm.gaps import hide_middles
from febm.inference import Effort
from febm.mixture import Shrinkage
from febm.observations import Observations, observe, project
from febm.tails import Fold, Tail, TailSearch, choose_tail
from febm.tilting import TiltTraining

X = np.linspace(0, 1, 40)


def curves(count=150, seed=0, *, detail=0.0, spread=0.0, noise=0.1):
    """Two waves, with a short-ranged process beside them, and curves of different roughness, where asked for."""
    rng = np.random.default_rng(seed)
    waves = rng.normal(size=(count, 2)) @ np.stack([np.sin(2 * np.pi * X), np.cos(3 * X)])
    covariance = np.exp(-np.abs(X[:, None] - X) / 0.1) + 1e-9 * np.eye(len(X))
    rough = np.exp(spread * rng.normal(size=(count, 1)))
    process = detail * rng.normal(size=(count, len(X))) @ np.linalg.cholesky(covariance).T
    return febm.Curves.from_grid(X, waves + rough * (process + noise * rng.normal(size=(count, len(X)))))


def chosen_tail(data):
    cosines = lowest_orders(30, 1)
    core, folds, _ = fold_basis(Empirical(), data, 0.2, None, jax.random.key(0), cosines)
    return choose_tail(folds, TailSearch((2, 3, 5, 8, core.rank), cosines=cosines, roughness=True))


class TestTail:
    def test_white_noise_around_waves_needs_nothing_more(self):
        tail = chosen_tail(curves())
        assert tail.is_plain
        assert tail.rank in (2, 3)
        assert np.sqrt(tail.noise_variance) == pytest.approx(0.1, rel=0.1)

    def test_short_ranged_detail_becomes_a_remainder(self):
        tail = chosen_tail(curves(detail=0.3, noise=0.03))
        assert tail.remainder is not None
        assert tail.remainder.size == pytest.approx(0.3, rel=0.3)
        assert 0.03 < tail.remainder.length < 0.3

    def test_curves_of_different_roughness_are_found_out(self):
        """Scale and centre of the log-roughness are those of the curves once a mixture is fitted with the tail."""
        data = curves(spread=0.6)
        tail = chosen_tail(data)
        basis = Enriched(core := Empirical().fit(data, key=jax.random.key(0)), np.ones(core.rank), None, 1)
        kept = Enriched(core, tail.weights(project(observe(basis, data)))[: core.rank][:2], None, 1)
        fitted = fit_base(project(observe(kept, data)), BaseChoice(tail, 2, 1, Shrinkage(), 0.0))
        assert fitted.roughness.scales[0] == pytest.approx(0.6, rel=0.2)
        assert np.sqrt(tail.noise_variance) * np.exp(fitted.roughness.means[0]) == pytest.approx(0.1, rel=0.2)

    def test_the_variance_of_remainder_and_noise_is_taken_off_the_functions_of_the_basis(self):
        """Along an eigenfunction the model has the variance that the curves have there, not more."""
        data = curves(detail=0.3, noise=0.1)
        core = Empirical().fit(data, key=jax.random.key(0))
        cosines = lowest_orders(30, 1)
        unweighted = Enriched(core, np.ones(core.rank), Remainder.white(cosines), 1)
        tail = Tail(core.rank, 0.01, Remainder(cosines, 0.3, 0.1, 0.5), 0.3)
        weights = tail.weights(project(observe(unweighted, data)))
        features = unweighted.features(X[:, None])[:, 0] * weights
        covariance = features @ features.T + 0.01 * np.eye(len(X))
        functions = core.features(X[:, None])[:, 0, :3]
        squares = np.sum(functions**2, axis=0)
        np.testing.assert_allclose(np.diag(functions.T @ covariance @ functions) / squares**2, 1.0, rtol=0.02)


def test_a_mixture_of_many_components_comes_with_one_of_two():
    """Curves in eight well separated groups: the mixture finds them, and a tilt may start from two components too."""
    rng = np.random.default_rng(5)
    centres = 6 * rng.normal(size=(8, 2))
    scores = centres[rng.integers(8, size=400)] + 0.2 * rng.normal(size=(400, 2))
    data = febm.Curves.from_grid(X, scores @ np.stack([np.sin(2 * np.pi * X), X]) + 0.05 * rng.normal(size=(400, 40)))
    _, folds, _ = fold_basis(Empirical(), data, 0.2, None, jax.random.key(0))
    search = BaseSearch(TailSearch((2, 3)), components=(1, 2, 8))
    found = choose_bases(folds, search, choose_tail(folds, search.tail))
    assert [choice.components for choice in found] == [8, 2]


@pytest.mark.parametrize(("count", "least", "most"), [(25, 0.5, MOST_CAUTION), (2000, 0.0, 0.1)])
def test_what_few_curves_teach_is_taken_with_caution(count, least, most):
    """A covariance of eight coordinates estimated from 25 curves is too sure of what follows from what."""
    rng = np.random.default_rng(3)
    features = np.stack([np.cos(np.pi * k * X) / (1 + k) for k in range(8)], axis=-1)[:, None]

    def observe_new(number):
        functions = np.einsum("por,cr->cpo", features, rng.normal(size=(number, 8)))
        values = functions + 0.1 * rng.normal(size=functions.shape)
        return Observations(np.zeros((40, 1)), features, values, np.ones(values.shape, dtype=bool), shared=True)

    fitted, held_out = observe_new(count), observe_new(400)
    fold = Fold(project(fitted), project(held_out), hide_middles(held_out))
    search = BaseSearch(TailSearch((8,)), (8,), components=(1,), shrinkages=(Shrinkage(0.0, 1e-6),))
    (choice,) = choose_bases([fold], search, Tail(8, 0.01))
    assert least <= choice.caution <= most


class TestMixture:
    def test_a_mean_of_mixtures_has_the_mean_of_their_densities(self):
        rng = np.random.default_rng(0)
        parts = [
            Mixture(np.log([0.3, 0.7]), rng.normal(size=(2, 1)), np.full((2, 1, 1), scale)) for scale in (0.5, 2.0)
        ]

        def density(mixture, z):
            components = norm(mixture.means[:, 0], mixture.factors[:, 0, 0]).pdf(z[:, None])
            return components @ np.exp(mixture.log_weights)

        z = np.linspace(-4, 4, 9)
        np.testing.assert_allclose(density(Mixture.mean(parts), z), np.mean([density(m, z) for m in parts], axis=0))

    def test_many_components_are_fitted_several_times(self):
        projection = project(observe(Empirical(rank=3).fit(data := curves(), key=jax.random.key(0)), data))
        tail = Tail(3, 0.01)
        few, many = (fit_base(projection, BaseChoice(tail, 2, number, Shrinkage(), 0.0)) for number in (2, 4))
        assert (len(few.means), len(many.means)) == (2, 4 * STARTS)


@pytest.fixture(scope="module")
def observed():
    data = curves(30, detail=0.2)
    basis = Enriched(
        Empirical(rank=3).fit(data, key=jax.random.key(0)),
        np.ones(3),
        Remainder(lowest_orders(20, 1), 0.2, 0.1, 0.5),
        1,
    )
    return observe(basis, data), basis


class TestGaps:
    def test_middles_are_hidden_and_ends_are_seen(self, observed):
        hidden = hide_middles(observed[0])
        assert [int(gap.context.size[0]) for gap in hidden] == [10, 20, 30]
        assert [gap.residual.shape[1] for gap in hidden] == [30, 20, 10]

    def test_density_of_hidden_values_is_that_of_the_conditional_gaussian(self, observed):
        values, basis = observed
        gap = hide_middles(values)[1]
        features = basis.features(X[:, None])[:, 0]
        covariance = features @ features.T + 0.01 * np.eye(len(X))
        seen = (np.arange(40) < 10) | (np.arange(40) >= 30)
        residual = (values.values - values.mean)[:, :40, 0]
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)])
        mean = residual[:, seen] @ gain
        variance = np.diag(covariance[np.ix_(~seen, ~seen)] - covariance[np.ix_(~seen, seen)] @ gain)
        expected = np.sum(norm(mean, np.sqrt(variance)).logpdf(residual[:, ~seen]), axis=1)
        found = gaps.fill(gap, 0.01, Mixture.standard_normal(2))
        np.testing.assert_allclose(found.log_density, expected, rtol=1e-8)
        errors = residual[:, ~seen] - mean
        assert found.squared_error == pytest.approx(np.mean(errors**2))
        likelihood = norm(0, np.sqrt(np.mean(errors**2))).logpdf(errors).sum(axis=1).mean()
        other = gap._replace(residual=2 * gap.residual)
        gain = gaps.error_likelihood(gap, 0.01, Mixture.standard_normal(2)) - likelihood
        errors = 2 * residual[:, ~seen] - mean
        likelihood = norm(0, np.sqrt(np.mean(errors**2))).logpdf(errors).sum(axis=1).mean()
        assert gaps.error_likelihood(other, 0.01, Mixture.standard_normal(2)) - likelihood == pytest.approx(gain)

    def test_rough_curves_are_given_wider_densities(self, observed):
        """A curve three times as far from the rest of itself is better told by a model that knows roughness."""
        gap = hide_middles(observed[0])[2]
        wild = gap._replace(
            residual=3 * gap.residual,
            context=gap.context._replace(moment=3 * gap.context.moment, square=9 * gap.context.square),
        )
        plain = gaps.fill(wild, 0.01, Mixture.standard_normal(2)).log_density
        rough = gaps.fill(wild, 0.01, Mixture.standard_normal(2, 0.5)).log_density
        assert np.mean(rough > plain) > 0.8

    def test_caution_widens_what_the_leading_coordinates_leave_open(self, observed):
        """With one component: the variance of a value grows by the part of the leading coordinates, its mean stays."""
        filled = gaps.fill(hide_middles(observed[0])[0], 0.01, Mixture.standard_normal(2))
        assert np.all((filled.known > 0.5) & (filled.known < 1))
        wider = filled.widened(0.5)
        np.testing.assert_allclose(wider.expected, filled.expected, atol=1e-12)
        added = 0.5 * filled.known[:, None] * filled.of_leading
        np.testing.assert_allclose(wider.variances - filled.variances, added, rtol=1e-9)
        assert np.all(filled.of_leading < filled.variances)
        assert wider.coverage(0.9) >= filled.coverage(0.9)

    def test_intervals_of_two_components_hold_the_quantiles_of_the_mixture(self):
        """N(−1, 1) and N(1, 1) with equal weights."""
        values = np.linspace(-3, 3, 601)[None]
        filled = gaps.Filled(
            np.log(np.full((2, 1, 1), 0.5)),
            np.array([-1.0, 1.0])[:, None, None] * np.ones((2, 1, 601)),
            np.ones((2, 1, 601)),
            np.ones((2, 1, 601)),
            np.ones(1),
            values,
            np.ones((1, 601), dtype=bool),
        )
        below = 0.5 * norm(-1).cdf(values) + 0.5 * norm(1).cdf(values)
        assert filled.coverage(0.5) == pytest.approx(np.mean((below >= 0.25) & (below <= 0.75)))

    def test_curves_with_points_of_their_own_have_no_common_middle(self, observed):
        _, basis = observed
        rng = np.random.default_rng(0)
        data = febm.Curves.from_arrays([rng.uniform(size=(9, 1)) for _ in range(30)], [np.zeros((9, 1))] * 30)
        assert hide_middles(observe(basis, data)) == ()


class TestRemainder:
    def test_its_correlation_is_close_to_that_of_the_matern_kernel_inside_the_box(self):
        """ν = 1/2 is the exponential kernel; the ends of the box, where the variance is larger, are excepted."""
        remainder = Remainder(lowest_orders(400, 1), 1.3, 0.1, 0.5)
        inside = np.linspace(0.4, 0.6, 15)[:, None]
        features = remainder.cosines(inside) * remainder.weights
        covariance = features @ features.T
        expected = np.exp(-np.abs(inside - inside.T) / 0.1)
        np.testing.assert_allclose(covariance / covariance[7, 7], expected, atol=0.03)
        assert np.mean(np.square(remainder.cosines(X[:, None]) * remainder.weights).sum(axis=1)) == pytest.approx(
            1.69, rel=0.1
        )

    def test_lowest_frequencies_come_first_in_two_dimensions(self):
        assert lowest_orders(4, 2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]

    def test_white_has_weight_one_everywhere(self):
        np.testing.assert_allclose(Remainder.white(lowest_orders(7, 2)).weights, 1.0)

    def test_each_output_has_its_own(self):
        rng = np.random.default_rng(0)
        data = febm.Curves.from_grid(X, rng.normal(size=(20, 40, 2)))
        core = Empirical(rank=2).fit(data, key=jax.random.key(0))
        basis = Enriched(core, np.ones(2), Remainder(lowest_orders(3, 1), 1.0, 0.2, 1.0), 2)
        features = basis.features(X[:5, None])
        assert features.shape == (5, 2, 8)
        assert basis.rank == 8
        np.testing.assert_array_equal(features[:, 0, 3::2], 0.0)
        np.testing.assert_array_equal(features[:, 1, 2::2], 0.0)


@pytest.fixture(scope="module")
def model():
    """F-EBM of curves with detail and different roughness."""
    quick = TiltTraining(steps=100, width=16, proposals=1024, blocks=8)
    effort = Effort(draws=400, chains=2, warmup=200, particles=256)
    data = curves(spread=0.5, detail=0.2)
    return febm.FEBM(components=1, tilt=quick, effort=effort, random_state=0, progress=False).fit(data)


class TestRoughModel:
    def test_its_energy_is_that_of_networks_that_differ(self, model):
        members = model.model_.prior.energy.network.members
        assert members.weights[-1].shape[0] == TiltTraining.networks
        assert np.ptp(np.asarray(members.weights[-1]), axis=0).max() > 0

    def test_it_has_a_remainder_and_roughness(self, model):
        assert isinstance(model.basis_, Enriched)
        assert isinstance(model.model_.generator, febm.networks.RoughGenerator)

    def test_smooth_and_rough_curves_get_intervals_of_their_own_width(self, model):
        data = curves(40, seed=9, spread=0.8, detail=0.2)
        context = febm.Curves.from_grid(X[::2], data.y.reshape(40, 40)[:, ::2])
        low, high = model.condition(context).interval(X[1::2], 0.9, noise=True)
        width = np.mean(high - low, axis=(1, 2))
        scatter = np.std(np.diff(data.y.reshape(40, 40), axis=1), axis=1)
        assert np.corrcoef(np.log(width), np.log(scatter))[0, 1] > 0.7

    def test_samples_are_as_rough_as_the_curves(self, model):
        """Spread of the log of the mean square increment over 300 samples: within a third of that of 300 curves."""

        def spread(y):
            return np.std(np.log(np.mean(np.diff(y, axis=1) ** 2, axis=1)))

        sampled = model.sample(300, X, noise=True, random_state=1).y.reshape(300, 40)
        assert spread(sampled) == pytest.approx(
            spread(curves(300, 3, spread=0.5, detail=0.2).y.reshape(300, 40)), rel=0.33
        )

    @pytest.mark.parametrize("method", ["smc", pytest.param("nuts", marks=pytest.mark.slow), "mala", "langevin"])
    def test_chains_agree_with_the_closed_form(self, model, method):
        """Means of 400 draws at 20 points, in units of the posterior's spread."""
        context = febm.Curves.from_grid(X[::2], curves(3, seed=4, spread=0.5, detail=0.2).y.reshape(3, 40)[:, ::2])
        exact = model.condition(context, random_state=0)
        original = model.inference
        try:
            model.inference = method
            found = model.condition(context, random_state=0)
            low, high = exact.interval(X[1::2], 0.68)
            error = (found.mean(X[1::2]) - exact.mean(X[1::2])) / (high - low)
            assert np.sqrt(np.mean(error**2)) < 0.2
            if method == "smc":
                np.testing.assert_allclose(found.log_evidence, exact.log_evidence, atol=1.5)
        finally:
            model.inference = original

    def test_the_latents_of_a_curve_do_not_depend_on_those_beside_it(self, model):
        data = curves(4, seed=5, spread=0.5, detail=0.2)
        together, alone = model.transform(data), [model.transform(data[[i]])[0] for i in range(4)]
        np.testing.assert_allclose(together, alone, atol=1e-6)
        assert np.abs(together[:, model.model_.generator.leading]).min() > 0

    def test_saved_model_is_the_same_model(self, model, tmp_path):
        model.save(tmp_path / "rough.febm")
        again = febm.load(tmp_path / "rough.febm")
        np.testing.assert_allclose(
            again.sample(3, X, random_state=2).y, model.sample(3, X, random_state=2).y, rtol=1e-6, atol=1e-9
        )
