"""The contract of every model: what a user may rely on whichever they choose."""

import numpy as np
import pytest
from contract import LENGTHY, MODELS, pairs, ragged, surfaces, waves
from sklearn.base import clone

import febm

AT = np.linspace(0, 2, 9)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name in LENGTHY else ()) for name in MODELS],
)
def make(request):
    return MODELS[request.param]


@pytest.fixture(scope="module")
def model(make):
    return make().fit(waves())


@pytest.fixture(scope="module")
def context():
    return waves(4, seed=9).select(np.tile(np.arange(15) % 3 == 0, 4))


@pytest.fixture(scope="module")
def posterior(model, context):
    return model.condition(context)


class TestSamples:
    def test_as_many_as_asked_for_at_the_points_asked_for(self, model):
        samples = model.sample(7, AT, random_state=0)
        assert len(samples) == 7
        np.testing.assert_array_equal(samples.common_points[:, 0], AT)
        assert np.isfinite(samples.y).all()

    def test_at_the_points_of_the_training_curves_when_nothing_is_said(self, model):
        np.testing.assert_allclose(model.sample(2, random_state=0).common_points[:, 0], np.linspace(0, 2, 15))

    def test_the_same_seed_gives_the_same_functions(self, model):
        first, again, other = (model.sample(3, AT, random_state=seed) for seed in (5, 5, 6))
        assert first == again
        assert first != other

    def test_one_function_behind_every_resolution(self, model):
        coarse = model.sample(3, AT, random_state=1).y.reshape(3, 9)
        fine = model.sample(3, np.linspace(0, 2, 65), random_state=1).y.reshape(3, 65)
        np.testing.assert_allclose(fine[:, ::8], coarse, atol=2e-4)

    def test_points_may_differ_between_curves(self, model):
        at = ragged(5)
        samples = model.sample(5, at, random_state=0)
        np.testing.assert_array_equal(samples.x, at.x)

    def test_noise_makes_samples_rougher(self, model):
        smooth, noisy = (model.sample(40, random_state=2, noise=noise).y.reshape(40, 15) for noise in (False, True))
        assert np.abs(np.diff(noisy, 2, axis=1)).mean() > np.abs(np.diff(smooth, 2, axis=1)).mean()

    def test_samples_have_the_spread_of_the_curves(self, model):
        """A factor of 1.6 either way, pointwise over 400 samples: what every model here has to learn at least."""
        spread = model.sample(400, random_state=3).y.reshape(400, 15).std(axis=0)
        data = waves().y.reshape(60, 15).std(axis=0)
        assert 1 / 1.6 < spread.mean() / data.mean() < 1.6


class TestPosterior:
    def test_shapes(self, posterior):
        assert len(posterior) == 4
        assert posterior.mean(AT).shape == (4, 9, 1)
        lower, upper = posterior.interval(AT, 0.8)
        assert lower.shape == upper.shape == (4, 9, 1)
        assert (lower <= upper).all()
        assert len(posterior.sample(3, AT, random_state=0)) == 12
        assert posterior.log_evidence.shape == (4,)
        assert len(posterior.diagnostics) == 4

    def test_the_context_is_respected(self, model, posterior, context):
        """At the points seen the mean is nearer to the values than the mean of the prior is, by far."""
        mean = posterior.mean(context)
        prior = model.sample(200, context[0].x, random_state=0).y.reshape(200, -1).mean(axis=0)
        error = np.mean((mean.y - context.y) ** 2)
        assert error < 0.2 * np.mean((np.tile(prior, 4) - context.y[:, 0]) ** 2)

    def test_it_is_narrower_than_the_prior(self, model, posterior):
        lower, upper = posterior.interval(AT, 0.9)
        prior = np.quantile(model.sample(400, AT, random_state=0).y.reshape(400, 9), [0.05, 0.95], axis=0)
        assert (upper - lower).mean() < 0.7 * np.diff(prior, axis=0).mean()

    def test_the_order_of_context_points_does_not_matter(self, model, posterior, context):
        rng = np.random.default_rng(0)
        order = np.concatenate([start + rng.permutation(5) for start in range(0, 20, 5)])
        shuffled = context.replace(x=context.x[order], y=context.y[order])
        again = model.condition(shuffled)
        np.testing.assert_allclose(again.log_evidence, posterior.log_evidence, rtol=1e-3, atol=0.05)
        spread = np.subtract(*posterior.interval(AT, 0.9)[::-1]).mean()
        np.testing.assert_allclose(again.mean(AT), posterior.mean(AT), atol=0.15 * spread + 1e-6)

    def test_the_same_seed_gives_the_same_posterior(self, model, context, posterior):
        again = model.condition(context)
        np.testing.assert_allclose(again.mean(AT), posterior.mean(AT), atol=1e-6)
        first, second = (posterior.sample(2, AT, random_state=4) for _ in range(2))
        assert first == second

    def test_draws_are_functions(self, posterior):
        coarse = posterior.sample(2, AT, random_state=1).y.reshape(8, 9)
        fine = posterior.sample(2, np.linspace(0, 2, 65), random_state=1).y.reshape(8, 65)
        np.testing.assert_allclose(fine[:, ::8], coarse, atol=2e-4)

    def test_draws_lie_in_the_interval_as_often_as_it_says(self, posterior):
        """80 % of 300 draws at 36 places that depend on each other: within 10 %."""
        lower, upper = posterior.interval(AT, 0.8)
        drawn = posterior.sample(300, AT, random_state=2).y.reshape(4, 300, 9, 1)
        inside = (lower[:, None] <= drawn) & (drawn <= upper[:, None])
        assert 0.7 < inside.mean() < 0.9

    def test_further_values_have_a_density_that_knows_better(self, model, posterior, context):
        """What the curves did is likelier than what other curves did."""
        full = waves(4, seed=9).select(np.tile(np.arange(15) % 3 != 0, 4))
        other = full.replace(y=-full.y)
        assert (posterior.log_density(full) > posterior.log_density(other)).all()

    def test_evidence_prefers_curves_of_the_kind_learned(self, model):
        like, unlike = waves(10, seed=11), waves(10, seed=11)
        unlike = unlike.replace(y=8.0 * np.cos(9 * unlike.x))
        assert model.log_evidence(like).mean() > model.log_evidence(unlike).mean()


class TestEstimator:
    def test_saved_and_loaded_it_is_the_same_model(self, model, context, tmp_path):
        model.save(tmp_path / "model.febm")
        loaded = febm.load(tmp_path / "model.febm")
        assert loaded.sample(3, AT, random_state=0) == model.sample(3, AT, random_state=0)
        np.testing.assert_allclose(loaded.condition(context).mean(AT), model.condition(context).mean(AT), atol=1e-6)
        assert type(loaded) is type(model)

    def test_a_clone_has_the_settings_and_nothing_learned(self, model):
        copy = clone(model)
        assert str(copy.get_params()) == str(model.get_params())
        with pytest.raises(febm.NotFittedError, match="fit"):
            copy.sample(1)

    def test_the_same_seed_fits_the_same_model(self, make, model):
        again = make().fit(waves())
        np.testing.assert_allclose(again.sample(3, AT, random_state=0).y, model.sample(3, AT, random_state=0).y)

    def test_an_unfitted_model_says_so(self, make):
        for action in (lambda m: m.sample(1), lambda m: m.condition(waves(1)), lambda m: m.save("x")):
            with pytest.raises(febm.NotFittedError, match="fit"):
                action(make())

    def test_score_is_the_mean_log_evidence_of_a_value(self, model):
        curves = waves(5, seed=12)
        assert model.score(curves) == pytest.approx(model.log_evidence(curves).sum() / 75, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("curves", [ragged, pairs, surfaces])
def test_curves_of_every_kind_can_be_learned_sampled_and_completed(make, curves):
    data = curves()
    model = make().fit(data)
    at = data[:3]
    assert np.isfinite(model.sample(3, at, random_state=0).y).all()
    posterior = model.condition(data[:3])
    assert np.isfinite(posterior.mean(at).y).all()
    assert posterior.mean(at).d_y == data.d_y
    assert np.isfinite(posterior.log_evidence).all()


class TestBadInput:
    def test_numbers_of_draws(self, model):
        for n in (0, -1, 2.5, True):
            with pytest.raises(ValueError, match="whole number"):
                model.sample(n)

    def test_points_of_another_dimension(self, model):
        with pytest.raises(ValueError, match="coordinate"):
            model.sample(2, np.zeros((3, 2)))

    def test_context_of_another_kind(self, model):
        with pytest.raises(ValueError, match="d_x=2"):
            model.condition(surfaces(2))

    def test_too_few_curves(self, make):
        with pytest.raises(ValueError, match="at least"):
            make().fit(waves(1))

    def test_arrays_of_another_width(self, model):
        with pytest.raises(ValueError, match="array of 4 columns"):
            model.condition(np.zeros((2, 4)))
