"""F-EBM as a stochastic process, a saved file and an estimator; what it says to bad input."""

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from contract import BRIEF_TILT
from sklearn.base import clone

import febm
from febm.basis import RandomFourier
from febm.inference import Effort
from febm.langevin import Chain, StepSize
from febm.models.settings import Langevin, Networks
from febm.progress import Silent
from febm.training import Optimisation

QUICK = dict(
    random_state=0,
    progress=False,
    remainder=False,
    tilt=BRIEF_TILT,
    optimisation=Optimisation(epochs=2),
    networks=Networks(width=16, depth=2),
    effort=Effort(draws=64, proposals=256, particles=64, moves=1, warmup=50),
)


def waves(count=40, points=12, seed=0):
    """Sums of two waves with random sizes."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 2, points)
    weights = rng.normal(size=(count, 2)) + 2.0 * rng.choice([-1, 1], size=(count, 1))
    values = weights @ np.stack([np.sin(3 * x), np.cos(2 * x)])
    return febm.Curves.from_grid(x, values + 0.05 * rng.normal(size=values.shape))


def ragged(seed=1):
    """The same curves, each at points of its own."""
    rng = np.random.default_rng(seed)
    curves = waves(60, 40)
    return curves.select(rng.uniform(size=len(curves.x)) < 0.3)


RECIPES = {
    "default": dict(remainder=True),
    "residual": dict(training="langevin", generator="residual"),
    "paper": dict(
        training="langevin",
        generator="mlp",
        latent_dim=3,
        inference="langevin",
        langevin=Langevin(posterior=Chain(10, StepSize(1e-2)), prior=Chain(10, StepSize(1e-2)), precondition=False),
    ),
}


@pytest.fixture(scope="module", params=RECIPES)
def model(request):
    return febm.FEBM(**(QUICK | RECIPES[request.param])).fit(waves())


@pytest.fixture(scope="module")
def quick():
    return febm.FEBM(**QUICK).fit(waves())


class TestStochasticProcess:
    """Kolmogorov's conditions, and one function behind every resolution."""

    def test_order_of_points_does_not_matter(self, model):
        at = np.linspace(0, 2, 9)
        order = np.random.default_rng(0).permutation(9)
        straight = model.sample(5, at, random_state=3).y.reshape(5, 9)
        shuffled = model.sample(5, at[order], random_state=3).y.reshape(5, 9)
        np.testing.assert_allclose(shuffled, straight[:, order], atol=1e-12)

    def test_more_points_change_nothing_at_the_others(self, model):
        few, many = np.linspace(0, 2, 5), np.linspace(0, 2, 201)
        coarse = model.sample(4, few, random_state=3).y.reshape(4, 5)
        fine = model.sample(4, many, random_state=3).y.reshape(4, 201)
        np.testing.assert_allclose(fine[:, ::50], coarse, atol=1e-12)

    def test_two_resolutions_of_a_posterior_draw_meet(self, model):
        posterior = model.condition(waves(3, seed=5))
        coarse = posterior.sample(2, np.linspace(0, 2, 5), random_state=1).y.reshape(6, 5)
        fine = posterior.sample(2, np.linspace(0, 2, 41), random_state=1).y.reshape(6, 41)
        np.testing.assert_allclose(fine[:, ::10], coarse, atol=1e-12)

    def test_order_of_context_points_does_not_matter(self, quick):
        context = waves(3, seed=5)
        backwards = febm.Curves.from_arrays([c.x[::-1] for c in context], [c.y[::-1] for c in context])
        one, other = quick.condition(context), quick.condition(backwards)
        np.testing.assert_allclose(one.mean([0.3, 1.1]), other.mean([0.3, 1.1]), atol=1e-9)
        np.testing.assert_allclose(one.log_evidence, other.log_evidence, atol=1e-9)


def test_same_random_state_gives_the_same_functions(model):
    one, other, different = (model.sample(3, [0.5, 1.0], random_state=s).y for s in (7, 7, 8))
    np.testing.assert_array_equal(one, other)
    assert not np.allclose(one, different)


def test_same_seed_gives_the_same_model():
    one, other = (febm.FEBM(**QUICK).fit(waves()) for _ in range(2))
    np.testing.assert_array_equal(one.sample(3, random_state=0).y, other.sample(3, random_state=0).y)


def test_posterior_has_the_promised_shapes(model):
    context = waves(3, seed=5)
    posterior = model.condition(context)
    at = np.linspace(0, 2, 7)
    lower, upper = posterior.interval(at, 0.8)
    assert posterior.mean(at).shape == lower.shape == upper.shape == (3, 7, 1)
    assert np.all(lower <= upper)
    drawn = posterior.sample(4, at)
    assert len(drawn) == 12
    assert drawn.ids[5] == (1, 1)
    assert posterior.log_evidence.shape == (3,)
    assert np.isfinite(posterior.log_evidence).all()
    assert len(posterior.diagnostics) == 3
    assert list(posterior.diagnostics.index) == list(context.ids)


def test_posterior_answers_at_each_curves_own_points(quick):
    context, at = waves(2, seed=5), febm.Curves.from_arrays([[0.1, 0.2], [1.5]], [[0, 0], [0]])
    posterior = quick.condition(context)
    means = posterior.mean(at)
    np.testing.assert_allclose(means[1].y[0], posterior.mean([1.5])[1, 0], atol=1e-12)
    assert list(posterior.sample(2, at).lengths) == [2, 2, 1, 1]


def test_posterior_follows_its_context(quick):
    context = waves(20, seed=9)
    x, truth = context.to_grid()
    error = quick.condition(context).mean(x) - truth
    assert np.sqrt(np.mean(error**2)) < 0.1  # twice the noise of the data


def test_posterior_is_narrower_than_the_prior(quick):
    at = np.linspace(0, 2, 7)
    _, prior = quick.sample(500, at, random_state=0).to_grid()
    lower, upper = quick.condition(waves(5, seed=9)).interval(at, 0.9)
    assert np.all(upper - lower < 0.5 * (np.quantile(prior, 0.95, axis=0) - np.quantile(prior, 0.05, axis=0)))


def test_more_draws_than_were_kept_can_be_asked_for(quick):
    posterior = quick.condition(waves(2, seed=5))
    drawn = posterior.sample(200, [0.5], random_state=0)
    assert len(np.unique(drawn.y[:200])) > 64


def test_noise_widens_draws_and_intervals(quick):
    posterior = quick.condition(waves(5, seed=5))
    widths = [np.subtract(*posterior.interval([0.4, 1.2], noise=noise)[::-1]) for noise in (False, True)]
    assert np.all(widths[1] > widths[0])


@pytest.mark.parametrize("recipe", RECIPES)
def test_saved_model_is_the_same_model(recipe, tmp_path):
    model = febm.FEBM(**(QUICK | RECIPES[recipe])).fit(waves())
    path = tmp_path / "waves.febm"
    model.save(path)
    again = febm.load(path)
    context, at = waves(3, seed=5), np.linspace(0, 2, 6)
    np.testing.assert_array_equal(again.sample(4, at, random_state=1).y, model.sample(4, at, random_state=1).y)
    np.testing.assert_array_equal(again.condition(context).mean(at), model.condition(context).mean(at))
    np.testing.assert_array_equal(again.log_evidence(context), model.log_evidence(context))
    pd.testing.assert_frame_equal(again.history_, model.history_)
    assert again.get_params()["validation"] == model.validation


def test_ragged_curves_are_learned_and_continued():
    model = febm.FEBM(**QUICK).fit(ragged())
    posterior = model.condition(ragged(seed=2)[:5])
    assert np.isfinite(posterior.mean(np.linspace(0, 2, 9))).all()
    assert model.sample(3).to_grid()[1].shape[1] > 9


def test_several_outputs_with_missing_values():
    rng = np.random.default_rng(3)
    curves = waves(40)
    x, first = curves.to_grid()
    both = np.concatenate([first, -2 * first + 0.01 * rng.normal(size=first.shape)], axis=2)
    hidden = both.copy()
    hidden[..., 1][rng.uniform(size=first.shape[:2]) < 0.2] = np.nan
    model = febm.FEBM(**QUICK).fit(febm.Curves.from_grid(x, hidden))
    only_first = np.where([True, False], both[:5], np.nan)
    mean = model.condition(febm.Curves.from_grid(x, only_first)).mean(x)
    assert np.sqrt(np.mean((mean - both[:5])[..., 1] ** 2)) < 0.3 * both[..., 1].std()


@pytest.mark.slow  # the contract has surfaces too
def test_surfaces_on_two_inputs():
    rng = np.random.default_rng(4)
    xs = [rng.uniform(size=(30, 2)) for _ in range(40)]
    ys = [rng.normal() * np.sin(3 * x[:, 0]) + rng.normal() * x[:, 1] for x in xs]
    model = febm.FEBM(basis=RandomFourier(16, scale=1.0), **QUICK).fit(febm.Curves.from_arrays(xs, ys))
    assert model.sample(2, at=rng.uniform(size=(8, 2))).y.shape == (16, 1)


@pytest.mark.parametrize(
    "likelihood",
    [
        "poisson",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("continuous_bernoulli", "bernoulli", "student_t")),
    ],
)
def test_other_likelihoods_train_by_chains_and_stay_in_their_support(likelihood):
    rng = np.random.default_rng(5)
    x, values = waves(30).to_grid()
    data = {
        "poisson": rng.poisson(np.exp(values / 2)),
        "bernoulli": values > 0,
        "continuous_bernoulli": 1 / (1 + np.exp(-values)),
        "student_t": values,
    }[likelihood].astype(float)
    model = febm.FEBM(likelihood=likelihood, **QUICK).fit(febm.Curves.from_grid(x, data))
    assert model.training_ == "langevin"
    drawn = model.sample(20, random_state=0, noise=True)
    assert np.isfinite(drawn.y).all()
    if likelihood == "poisson":
        np.testing.assert_array_equal(drawn.y, np.round(drawn.y))
    model.set_params(inference="langevin", langevin=RECIPES["paper"]["langevin"])
    lower, upper = model.condition(febm.Curves.from_grid(x, data[:2])).interval(x)
    if "bernoulli" in likelihood:
        assert lower.min() >= 0
        assert upper.max() <= 1


def test_positive_heavy_tailed_curves_are_modelled_in_logarithms_and_come_back_positive():
    rng = np.random.default_rng(6)
    x = np.linspace(0, 1, 12)
    logarithms = 1.5 * rng.normal(size=(60, 1)) + 0.5 * rng.normal(size=(60, 1)) * x + 0.1 * rng.normal(size=(60, 12))
    model = febm.FEBM(**QUICK).fit(febm.Curves.from_grid(x, np.exp(logarithms)))
    assert model.scaling_.exponents[0] == 0
    assert model.sample(50, random_state=0).y.min() > 0


class TestCompilation:
    """Nothing is compiled again for a batch or a call of the same shape."""

    @pytest.fixture(autouse=True)
    def count(self, monkeypatch):
        self.compiled = []
        jax.monitoring.register_event_duration_secs_listener(self.listen)
        yield
        jax.monitoring.unregister_event_duration_listener(self.listen)

    def listen(self, event, duration, **details):
        if event == "/jax/core/compile/backend_compile_duration":
            self.compiled.append(event)

    @pytest.mark.parametrize("recipe", RECIPES)
    def test_second_fit_sample_and_condition_compile_nothing(self, recipe):
        def use(seed):
            model = febm.FEBM(**(QUICK | RECIPES[recipe])).fit(waves(37, 13))  # of a shape that no other test has
            model.sample(4, [0.1, 0.2], random_state=seed)
            posterior = model.condition(waves(3, 13, seed=seed))
            posterior.mean([0.3])
            return posterior.log_evidence

        use(1)
        before = len(self.compiled)
        assert before > 0
        use(2)
        assert len(self.compiled) == before

    def test_epochs_are_one_program(self):
        febm.FEBM(**QUICK, **RECIPES["residual"]).fit(waves())
        before = len(self.compiled)
        longer = QUICK | dict(optimisation=Optimisation(epochs=5))
        febm.FEBM(**longer, **RECIPES["residual"]).fit(waves())
        assert len(self.compiled) == before


class TestBadInput:
    """A sentence, not a stack of JAX."""

    def test_before_fit(self, tmp_path):
        for action in (
            lambda m: m.sample(3),
            lambda m: m.condition(waves(2)),
            lambda m: m.log_evidence(waves(2)),
            lambda m: m.save(tmp_path / "x"),
        ):
            with pytest.raises(febm.NotFittedError, match="not fitted yet; call `fit"):
                action(febm.FEBM())

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            (dict(prior="flat"), "prior is 'flat'; choose one of 'tilted'"),
            (dict(training="magic"), "training is 'magic'"),
            (dict(generator="cnn"), "generator is 'cnn'"),
            (dict(inference="vi"), "inference is 'vi'"),
            (dict(basis="wavelets"), "basis is 'wavelets'"),
            (dict(kernel="matern99"), "matern99"),
            (dict(likelihood="cauchy"), "cauchy"),
            (dict(scaling="upside"), "scaling must be"),
            (dict(validation=1.5), "validation is 1.5"),
            (dict(training="importance", generator="mlp"), "needs generator='linear'"),
            (dict(random_state=-1), "random_state must be"),
            (dict(latent_dim=-3), "latent_dim is -3"),
            (dict(components=0), "components is 0"),
            (dict(basis=RandomFourier(8), rank=2), "rank and kernel belong to the basis"),
            (dict(likelihood="poisson", scaling="standard"), "Poisson likelihood needs its values"),
        ],
    )
    def test_settings_that_cannot_be(self, settings, sentence):
        with pytest.raises(ValueError, match=sentence):
            febm.FEBM(**(QUICK | settings)).fit(waves())

    def test_too_few_curves(self):
        with pytest.raises(ValueError, match="too few"):
            febm.FEBM(**QUICK).fit(waves(3))

    def test_counts_that_are_not_counts(self):
        with pytest.raises(ValueError, match="Poisson"):
            febm.FEBM(likelihood="poisson", **QUICK).fit(waves())

    def test_points_of_the_wrong_width(self, quick):
        with pytest.raises(ValueError, match="at"):
            quick.sample(2, at=np.zeros((4, 2)))
        with pytest.raises(ValueError, match="at"):
            quick.condition(waves(2)).mean(np.zeros((4, 3)))

    def test_context_of_another_kind(self, quick):
        surface = febm.Curves.from_arrays([np.zeros((2, 2)), np.ones((2, 2))], [np.zeros(2), np.ones(2)])
        with pytest.raises(ValueError, match="the curves have d_x=2"):
            quick.condition(surface)

    def test_no_draws_and_impossible_levels(self, quick):
        posterior = quick.condition(waves(2))
        with pytest.raises(ValueError, match="at least 1"):
            quick.sample(0)
        with pytest.raises(ValueError, match="at least 1"):
            posterior.sample(0, [0.5])
        with pytest.raises(ValueError, match="level is 90"):
            posterior.interval([0.5], 90)

    @pytest.mark.parametrize("n", [2.5, "3", True, None])
    def test_numbers_of_draws_that_are_not_whole(self, quick, n):
        with pytest.raises(ValueError, match="whole number"):
            quick.sample(n)

    def test_array_of_another_width_than_the_grid(self, quick):
        with pytest.raises(ValueError, match=r"array of 5 columns.*a grid of 12 points"):
            quick.condition(np.zeros((2, 5)))

    def test_points_for_another_number_of_curves(self, quick):
        with pytest.raises(ValueError, match="3 curves but 2"):
            quick.condition(waves(2)).mean(waves(3))

    def test_unknown_paper_dataset(self):
        with pytest.raises(ValueError, match="dataset is 'mnist'; choose one of 'quadratic'"):
            febm.FEBM.paper("mnist")


def test_estimator_can_be_cloned_and_its_arguments_are_untouched():
    model = febm.FEBM(**QUICK)
    assert clone(model).get_params() == model.get_params()
    model.fit(waves())
    assert model.get_params() == febm.FEBM(**QUICK).get_params()


def test_units_of_the_data_do_not_matter_to_the_noise():
    rng = np.random.default_rng(7)
    x, values = waves(60).to_grid()
    noisy = 100 * values + 20 * rng.normal(size=values.shape)
    for scaling in ("none", "standard"):
        model = febm.FEBM(**QUICK, scaling=scaling).fit(febm.Curves.from_grid(x, noisy))
        found = float(model.model_.likelihood.scale * model.scaling_.scale[0])
        np.testing.assert_allclose(found, 20, rtol=0.15)  # about 600 values that only noise explains


def test_posterior_of_curves_scaled_one_by_one_comes_back_in_their_own_units():
    x, values = waves(60).to_grid()
    levels = 1000 * np.arange(1, 61)[:, None, None]
    curves = febm.Curves.from_grid(x, levels + 10 * values)
    model = febm.FEBM(**QUICK, scaling="curve").fit(curves)
    error = model.condition(curves[:5]).mean(x) - (levels + 10 * values)[:5]
    assert np.sqrt(np.mean(error**2)) < 2  # of curves whose standard deviation is about 20


def test_samples_of_an_energy_without_a_base_stay_where_they_are_however_long_the_chain():
    model = febm.FEBM(**QUICK, prior="energy").fit(waves())
    short, long = (model.sample(200, random_state=0, steps=steps).y.std() for steps in (50, 1000))
    assert 0.7 < long / short < 1.4


def test_number_of_components_is_obeyed():
    model = febm.FEBM(**QUICK, prior="mixture", components=12).fit(waves())
    assert len(model.model_.prior.log_weights) == 12


def test_progress_object_does_not_stand_in_the_way_of_saving(tmp_path):
    model = febm.FEBM(**(QUICK | dict(progress=Silent())), prior="mixture").fit(waves())
    model.save(tmp_path / "model.febm")
    assert febm.load(tmp_path / "model.febm").progress == Silent()


def test_draws_of_draws_keep_their_ids_apart(quick):
    drawn = quick.condition(waves(2, seed=5)).sample(2, np.linspace(0, 2, 12), random_state=0)
    again = quick.condition(drawn).sample(3, [0.5], random_state=0)
    assert again.ids[4] == (0, 1, 1)


def test_points_outside_the_domain_are_answered_with_a_warning(quick):
    with pytest.warns(UserWarning, match="2 of 3 points lie outside the domain"):
        quick.sample(2, at=[-1.0, 1.0, 5.0])


def test_plain_array_is_conditioned_on_the_grid_of_the_training_curves(quick):
    context = waves(3, seed=5)
    x, values = context.to_grid()
    values = np.where(np.arange(12) < 6, values[..., 0], np.nan)
    there = febm.Curves.from_grid(x, values)
    np.testing.assert_array_equal(quick.condition(values).mean([1.0]), quick.condition(there).mean([1.0]))


def test_plain_array_is_taken_for_curves_on_a_common_grid():
    values = waves().to_grid()[1][..., 0]
    model = febm.FEBM(**QUICK).fit(values)
    assert model.sample(2).to_grid()[1].shape == (2, 12, 1)
    assert np.isfinite(model.score(values))


@pytest.mark.parametrize("dataset", ["quadratic", "melbourne", "stocks", "gridwatch", "fashion_mnist"])
def test_paper_recipe_differs_only_in_arguments(dataset):
    model = febm.FEBM.paper(dataset, random_state=1)
    assert isinstance(model, febm.FEBM)
    assert model.networks == Networks(width=512, depth=3, activation="relu")
    assert model.langevin.posterior.steps == 100
    batches = (1000, 120) if dataset == "fashion_mnist" else (128, 500)
    assert (model.optimisation.batch_size, model.optimisation.epochs) == batches
    assert model.latent_dim == {"quadratic": 100, "fashion_mnist": 100}.get(dataset, 20)


def test_history_tells_how_training_went(model):
    assert {"epoch", "score", "noise"} <= set(model.history_.columns)
    assert model.history_["epoch"].is_monotonic_increasing


def test_modules_of_a_fitted_model_hold_no_python_functions(quick):
    """What is saved is data: every leaf of the fitted model is an array or a number."""
    assert all(eqx.is_array_like(leaf) for leaf in jax.tree.leaves(quick.model_))


def test_values_of_other_curves_are_not_taken_for_further_values(quick):
    posterior = quick.condition(waves(3, 6))
    further = waves(3, 12)
    assert np.isfinite(posterior.log_density(further)).all()
    with pytest.raises(ValueError, match="same ids"):
        posterior.log_density(further[::-1])


@pytest.mark.parametrize("steps", [0, -1, 2.5])
def test_chains_have_a_whole_number_of_steps(quick, steps):
    with pytest.raises(ValueError, match="steps is"):
        quick.sample(2, steps=steps)
