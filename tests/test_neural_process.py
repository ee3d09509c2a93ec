"""The neural process: right where the answer is known, indifferent to what is masked, trained by the one loop."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest

import febm
import febm.datasets
from febm import neural_process_training
from febm.models.neural_process import NeuralProcess
from febm.neural_process_inference import climb
from febm.neural_process_networks import Architecture, NeuralProcessNetwork, Pairs, as_pairs
from febm.neural_process_training import BOUNDS, ContextBound, some_points
from febm.training import Optimisation

NOISE = 0.05
SMALL = dict(
    latent_dim=3,
    architecture=Architecture(width=32, depth=2, frequencies=0, noise="constant"),
    samples=4,  # slope and intercept depend on each other, which a diagonal q takes for noise: the weights correct it
    random_state=0,
    progress=False,
)


def lines(count, seed, points=10):
    """y = a·x + b + noise with normal a and b, each curve at points of its own in [−1, 1]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(count, points))
    slope, intercept = rng.normal(size=(2, count, 1))
    return febm.Curves.from_arrays(list(x), list(slope * x + intercept + NOISE * rng.normal(size=x.shape)))


def exact_log_density(curves):
    """log p(y | x) of every curve of `lines`."""
    found = []
    for curve in curves:
        features = np.concatenate([curve.x, np.ones_like(curve.x)], axis=1)
        covariance = features @ features.T + NOISE**2 * np.eye(len(features))
        _, determinant = np.linalg.slogdet(2 * np.pi * covariance)
        found.append(-0.5 * (determinant + curve.y[:, 0] @ np.linalg.solve(covariance, curve.y[:, 0])))
    return np.array(found)


def random_contexts(curves, seed):
    """Contexts of 1 to 9 of the 10 points of each curve, and the other points."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 10, size=len(curves))
    shown = (np.argsort(rng.uniform(size=(len(curves), 10)), axis=1) < sizes[:, None]).ravel()
    return curves.select(shown), curves.select(~shown)


def predictive_densities(model, curves):
    """log p(targets | context) per target value: what the model says, and what is true."""
    context, targets = random_contexts(curves, 3)
    said = model.condition(context).log_density(targets)
    true = exact_log_density(context.merge(targets)) - exact_log_density(context)
    return said.sum() / len(targets.y), true.sum() / len(targets.y)


@pytest.fixture(scope="module")
def model():
    return NeuralProcess(**SMALL, optimisation=Optimisation(epochs=80, batch_size=16)).fit(lines(400, 0))


@pytest.fixture(scope="module")
def network():
    return NeuralProcessNetwork(1, 2, 3, Architecture(width=16, depth=1, frequencies=2), key=jax.random.key(0))


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    curves = febm.Curves.from_grid(np.linspace(0, 1, 8), rng.normal(size=(4, 8, 2)))
    mask = jnp.asarray(rng.uniform(size=(4, 8, 2)) < 0.6)
    whole = as_pairs(curves)
    return Pairs(whole.x[:, :8], whole.y[:, :8], mask)


@pytest.mark.slow
class TestLines:
    """Straight lines with normal slope and intercept, where every answer is known."""

    def test_predictive_density_is_close_to_the_exact_one(self, model):
        """The exact value is about 1.28 nats for each target value; a few seconds of training come within 20 %."""
        said, true = predictive_densities(model, lines(60, 1))
        assert said == pytest.approx(true, rel=0.2)

    def test_trained_to_the_end_it_is_within_5_percent(self):
        """2,000 curves. The exact value is about 1.28 nats for each target value."""
        model = NeuralProcess(**SMALL, optimisation=Optimisation(epochs=250, batch_size=32, patience=40)).fit(
            lines(2000, 0)
        )
        said, true = predictive_densities(model, lines(300, 1))
        assert said == pytest.approx(true, rel=0.05)

    def test_samples_without_context_have_the_spread_of_the_curves(self, model):
        """Standard deviation √(1 + x²): 20 % either way, with a Monte Carlo error of 2.5 % from 800 samples."""
        x = np.linspace(-1, 1, 9)
        spread = model.sample(800, x, random_state=0).y.reshape(800, 9).std(axis=0)
        np.testing.assert_allclose(spread, np.sqrt(1 + x**2), rtol=0.2)

    def test_two_points_decide_a_line(self, model):
        line = febm.Curves.from_arrays([[-0.8, 0.8]], [[1.0, -0.6]])
        mean = model.condition(line).mean(np.linspace(-0.8, 0.8, 5))[0, :, 0]
        np.testing.assert_allclose(mean, np.linspace(1.0, -0.6, 5), atol=3 * NOISE)

    def test_the_noise_is_found_within_a_factor_of_two(self, model):
        samples = model.sample(200, random_state=0), model.sample(200, random_state=0, noise=True)
        assert NOISE / 2 < np.std(samples[1].y - samples[0].y) < 2 * NOISE

    def test_any_number_of_curves_gives_one_posterior_each(self, model):
        """They are computed sixteen at a time, the last of them with copies."""
        curves = lines(19, 8)
        posterior = model.condition(curves)
        assert len(posterior.log_evidence) == 19
        mean = posterior.mean(curves)
        assert np.sqrt(np.mean((mean.y - curves.y) ** 2)) < 3 * NOISE

    def test_weights_correct_what_the_encoder_says(self, model):
        """Importance sampling predicts better than the encoder by itself."""
        curves = lines(60, 2)
        corrected, true = predictive_densities(model, curves)
        amortised, _ = predictive_densities(_amortised(model), curves)
        assert amortised < corrected < true + 0.05

    def test_both_inferences_give_the_same_evidence(self, model):
        """Of two points, where the encoder still proposes well: both are estimates of one integral."""
        context = lines(20, 4, points=2)
        first, second = (m.log_evidence(context) for m in (model, _amortised(model)))
        np.testing.assert_allclose(np.median(first - second), 0.0, atol=0.1)


class TestEncoder:
    def test_the_order_of_the_context_does_not_matter(self, network, pairs):
        order = np.random.default_rng(1).permutation(8)
        shuffled = Pairs(pairs.x[:, order], pairs.y[:, order], pairs.mask[:, order])
        first, second = (jax.vmap(network.encode)(given) for given in (pairs, shuffled))
        np.testing.assert_allclose(first.mean, second.mean, atol=1e-5)
        np.testing.assert_allclose(first.scale, second.scale, atol=1e-5)

    def test_an_empty_context_gives_the_prior(self, network, pairs):
        empty = network.encode(pairs[0].keep(jnp.zeros(8, bool)))
        np.testing.assert_array_equal(empty.mean, 0.0)
        np.testing.assert_array_equal(empty.scale, 1.0)

    def test_padding_does_not_matter(self, network, pairs):
        longer = jax.tree.map(lambda part: jnp.pad(part, ((0, 0), (0, 8), (0, 0))), pairs)
        first, second = (jax.vmap(network.encode)(given) for given in (pairs, longer))
        np.testing.assert_allclose(first.mean, second.mean, atol=1e-5)

    @pytest.mark.parametrize("anything", [1e6, np.nan])
    def test_masked_values_never_matter(self, network, pairs, anything):
        """Neither to the loss nor to its gradient, nor to the held-out score."""
        objective = ContextBound(points=6)
        other = Pairs(pairs.x, jnp.where(pairs.mask, pairs.y, anything), pairs.mask)

        @jax.jit
        def found(given):
            value, gradient = jax.value_and_grad(lambda noise: _loss(objective, network, noise, given))(network.noise)
            return value, gradient, objective.score(network, given, jax.random.key(2))

        for first, second in zip(found(pairs), found(other), strict=True):
            np.testing.assert_array_equal(first, second)


class TestBounds:
    def test_contexts_teach_the_encoder_alone(self, network, pairs, monkeypatch):
        """What the decoder learns from the marginal bound is the same with and without the lesson of the contexts."""

        def decoder_gradient(weight):
            monkeypatch.setattr(neural_process_training, "LESSON", weight)
            bound = ContextBound()
            return eqx.filter_jit(eqx.filter_grad(lambda net: bound.loss(net, pairs, jax.random.key(1))[0]))(told)

        # Before any training the head is silent, and no context says anything.
        last = jax.random.normal(jax.random.key(5), network.head.weights[-1].shape)
        told = eqx.tree_at(lambda net: net.head.weights[-1], network, last)
        with_lesson, without = decoder_gradient(1.0), decoder_gradient(0.0)
        for first, second in zip(with_lesson.decoder.weights, without.decoder.weights, strict=True):
            np.testing.assert_allclose(first, second, atol=1e-6)
        assert not np.allclose(with_lesson.head.weights[1], without.head.weights[1], atol=1e-6)

    def test_both_are_one_bound_where_contexts_are_empty(self, network, pairs):
        """KL(q(z|T) ‖ q(z|∅)) is the divergence from the prior; only the lesson comes on top."""
        conditional, marginal = (
            eqx.filter_jit(ContextBound(bound, empty=1.0).loss)(network, pairs, jax.random.key(1))
            for bound in BOUNDS[::-1]
        )
        np.testing.assert_allclose(conditional[1]["information"], marginal[1]["information"], rtol=1e-5)

    def test_a_step_may_take_some_of_the_points_only(self, network, pairs):
        loss, _ = eqx.filter_jit(ContextBound(points=3).loss)(network, pairs, jax.random.key(1))
        assert np.isfinite(loss)

    def test_no_missing_point_is_taken_while_there_are_others(self):
        mask = (np.arange(12) % 3 == 0)[:, None]
        pairs = Pairs(jnp.zeros((12, 1)), jnp.zeros((12, 1)), jnp.asarray(mask))
        for seed in range(20):
            taken = some_points(pairs, 4, jax.random.key(seed))
            assert taken.mask.all()
            assert len(taken) == 4


class TestSearch:
    def test_it_ends_at_a_mode(self, network, pairs):
        """Where the gradient of log p(C, z) is small beside the spread of the posterior there."""
        pairs = pairs[:2]

        def distance(own):
            def log_joint(z):
                return network.log_likelihood(z, own) + network.prior.log_density(z)

            mode = climb(network, own, network.prior.mean)
            gradient = jax.grad(log_joint)(mode.place)
            return jnp.linalg.norm(jax.scipy.linalg.solve_triangular(mode.factor, gradient, lower=True))

        assert np.max(jax.jit(jax.vmap(distance))(pairs)) < 0.1


@pytest.mark.slow  # compiles the training loop
class TestTraining:
    def test_the_score_on_held_out_curves_stops_it(self):
        optimisation = Optimisation(epochs=50, batch_size=16, patience=1)
        model = NeuralProcess(**SMALL, optimisation=optimisation, repeats=1).fit(lines(10, 0))
        history = model.history_
        assert len(history) < 51
        assert history.score.idxmax() == len(history) - 2

    def test_it_can_be_taken_up_from_a_checkpoint(self, tmp_path):
        def fitted(epochs, **settings):
            optimisation = Optimisation(epochs=epochs, batch_size=16)
            return NeuralProcess(**SMALL, optimisation=optimisation, repeats=1, **settings).fit(lines(10, 0))

        file = str(tmp_path / "training")
        fitted(2, checkpoint=file)
        taken_up, at_once = fitted(4, checkpoint=file), fitted(4)
        assert len(taken_up.history_) == 5
        assert taken_up.sample(2, random_state=0) == at_once.sample(2, random_state=0)


class TestSettings:
    @pytest.mark.parametrize("dataset", ["quadratic", "melbourne", "stocks", "gridwatch"])
    def test_the_papers_settings(self, dataset):
        model = NeuralProcess.paper(dataset)
        assert (model.bound, model.empty, model.samples) == ("conditional", 0.5, 1)
        architecture = model.architecture
        assert (model.latent_dim, architecture.representation, architecture.width, architecture.depth) == (512,) * 3 + (
            3,
        )
        assert (architecture.smallest_noise, architecture.noise_slope) == (0.1, 0.9)
        assert (model.bound, model.inference, model.optimisation.epochs) == ("conditional", "amortised", 1000)

    @pytest.mark.slow
    def test_the_papers_settings_can_be_run(self):
        data = febm.datasets.load_quadratic(n_train=40, n_evaluation=4)
        model = NeuralProcess.paper("quadratic", random_state=0, progress=False)
        model.set_params(optimisation=dataclasses.replace(model.optimisation, epochs=2)).fit(data.train)
        assert len(model.history_) == 3
        assert np.isfinite(model.condition(data.evaluation).mean(data.evaluation).y).all()

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            (dict(inference="exact"), "choose one of 'importance', 'amortised'"),
            (dict(latent_dim=0), "latent_dim is 0; give a whole number"),
            (dict(empty=1.5), "empty is 1.5; give a share"),
            (dict(bound="tight"), "choose one of 'marginal', 'conditional'"),
            (dict(repeats=0), "repeats is 0; give a whole number"),
            (dict(architecture=Architecture(noise="none")), "choose one of 'constant', 'network'"),
        ],
    )
    def test_bad_ones_are_refused_before_anything_is_learned(self, setting, message):
        with pytest.raises(ValueError, match=message):
            NeuralProcess(progress=False, **setting).fit(lines(10, 0))


def _amortised(model):
    """The same fitted model with the encoder's posteriors."""
    other = NeuralProcess(**{**model.get_params(), "inference": "amortised"})
    for name, value in vars(model).items():
        if name.endswith("_"):
            setattr(other, name, value)
    return other


def _loss(objective, network, noise, pairs):
    return objective.loss(eqx.tree_at(lambda tree: tree.noise, network, noise), pairs, jax.random.key(1))[0]
