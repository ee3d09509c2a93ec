"""π-VAE: coefficients that belong to curves, a lower bound that is tight where it can be, posteriors that are right."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from contract import ragged, waves

import febm
from febm import amortised, conjugate, langevin
from febm.amortised import infer_encoded
from febm.basis import Basis, Empirical
from febm.condensing import condense
from febm.inference import Effort
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.models.pi_vae import PiVAE, Rates
from febm.models.settings import Networks
from febm.networks import Generator, NetworkGenerator, ResidualGenerator, ResidualMLP
from febm.observations import Observations, observe, project
from febm.priors import GaussianPrior
from febm.training import Group, Optimisation, train
from febm.variational import Autoencoder, EncodedCurves, Encoder, LowerBound, log_evidence, refine

QUICK = dict(random_state=0, progress=False, optimisation=Optimisation(epochs=3, batch_size=16))


class Affine(Generator):
    """w = Wz + b, trained: a probabilistic PCA."""

    weight: jax.Array
    bias: jax.Array
    latent_dim: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(self, latent_dim, rank, *, key):
        self.weight = 0.3 * jax.random.normal(key, (rank, latent_dim))
        self.bias = jnp.zeros(rank)
        self.latent_dim, self.rank = latent_dim, rank

    def __call__(self, z):
        return self.weight @ z + self.bias


class Fixed(Basis):
    """A fitted basis, whatever it is fitted to."""

    inner: Basis

    def fit(self, curves, *, key):
        return self

    def mean(self, x):
        return self.inner.mean(x)

    def features(self, x):
        return self.inner.features(x)

    @property
    def spectrum(self):
        return self.inner.spectrum

    @property
    def noise_variance(self):
        return self.inner.noise_variance

    @property
    def is_fitted(self):
        return True


def encoder(rank, latent, ridge=0.01, seed=1, scores=False):
    network = ResidualMLP(rank, 2 * latent, width=32, depth=1, activation="silu", key=jax.random.key(seed))
    return Encoder(network, ridge, scores)


def encode(model, observed):
    return EncodedCurves(observed.single_precision(), model.encoder.codes(observed), np.arange(len(observed)))


@pytest.fixture(scope="module")
def order():
    return np.random.default_rng(0).permutation(60)


@pytest.fixture(scope="module")
def models(order):
    """Free coefficients, from curves in two orders on one basis."""
    basis = Fixed(Empirical(rank=2).fit(febm.Scaling().fit(waves()).apply(waves()), key=jax.random.key(0)))
    return [PiVAE(coefficients="free", basis=basis, **QUICK).fit(curves) for curves in (waves(), waves()[order])]


class TestCoefficients:
    @pytest.mark.slow
    def test_of_a_curve_rebuild_that_curve(self, models):
        observed = observe(models[0].basis_, models[0].scaling_.apply(waves()))

        def error(coefficients):
            rebuilt = observed.mean + np.einsum("por,cr->cpo", observed.features, coefficients)
            return np.mean((rebuilt - observed.values)[observed.mask] ** 2)

        own = error(models[0].coefficients_)
        assert own < 0.01
        assert own < 0.01 * error(models[0].coefficients_[::-1])

    @pytest.mark.slow
    def test_follow_their_curves_when_curves_change_places(self, models, order):
        """The order of curves changes batches, and so the last digits of what is trained."""
        first, shuffled = (model.coefficients_ for model in models)
        np.testing.assert_allclose(shuffled, first[order], atol=0.1)
        assert np.median(np.abs(shuffled - first).max(axis=1)) > 0.5

    def test_of_ridge_regression_depend_on_the_curve_alone(self):
        curves = ragged()
        basis = Empirical(rank=3).fit(waves(), key=jax.random.key(0))
        coder = encoder(3, 2, scores=True)
        together, alone = (coder.codes(observe(basis, part)) for part in (curves, curves[7:8]))
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[7:8], b, atol=1e-4)


class TestLowerBound:
    @pytest.mark.slow
    def test_with_a_linear_decoder_reaches_the_evidence_of_the_best_linear_model(self):
        """Decoder, encoder and noise from random starts, 400 curves of a two-dimensional linear Gaussian family.

        The evidence of the trained model by importance sampling is its exact evidence to 0.02 nats per curve, and that
        of the best linear Gaussian model (maximum likelihood factor analysis in closed form) to 0.15: a curve has 12
        values and about 10 nats.
        """
        rng = np.random.default_rng(0)
        size, rank, latent, sigma = 400, 4, 2, 0.2
        features = np.linalg.qr(rng.normal(size=(12, rank)))[0] * 3
        loading = rng.normal(size=(rank, latent))
        values = rng.normal(size=(size, latent)) @ loading.T @ features.T + sigma * rng.normal(size=(size, 12))
        observed = Observations(
            np.zeros((12, 1)), features[:, None], values[..., None], np.ones((size, 12, 1), dtype=bool), shared=True
        )
        decoder = Affine(latent, rank, key=jax.random.key(0))
        model = Autoencoder(LatentModel(decoder, GaussianPrior(latent), Gaussian(0.5)), encoder(rank, latent))
        data = encode(model, observed)
        rates = Group(rate=2e-2, factor=0.5, minimum=1e-5)
        trained = train(
            LowerBound(smallest_noise=1e-3),
            model,
            data,
            data,
            groups={"networks": rates, "noise": rates},
            settings=Optimisation(epochs=150, batch_size=64, averaging=0.9),
            key=jax.random.key(1),
        ).model
        weight, bias = np.asarray(trained.latent.generator.weight), np.asarray(trained.latent.generator.bias)
        covariance = features @ weight @ weight.T @ features.T + float(trained.latent.likelihood.variance) * np.eye(12)
        exact = scipy.stats.multivariate_normal(features @ bias, covariance).logpdf(values)
        found = log_evidence(trained, data, refinements=0, samples=64, key=jax.random.key(2))
        assert np.mean(found) == pytest.approx(exact.mean(), abs=0.02)
        scores = values @ features / 9  # features are orthogonal, of squared norm 9
        eigenvalues, vectors = np.linalg.eigh(np.cov(scores.T, bias=True))
        residual = (np.sum((values - scores @ features.T) ** 2) / size + 9 * eigenvalues[:2].sum()) / 10
        best = features @ (vectors[:, 2:] * (eigenvalues[2:] - residual / 9)) @ vectors[:, 2:].T @ features.T
        best = scipy.stats.multivariate_normal(features @ scores.mean(axis=0), best + residual * np.eye(12))
        assert exact.mean() == pytest.approx(best.logpdf(values).mean(), abs=0.15)

    @pytest.mark.slow
    def test_starts_at_the_evidence_of_the_linear_model(self):
        """A residual decoder that bends nothing yet: one draw of q has the evidence itself as its weight."""
        observed = observe(Empirical(rank=3).fit(waves(), key=jax.random.key(0)), ragged())
        network = ResidualMLP(2, 2, width=8, zero_last=True, key=jax.random.key(0))
        generator = ResidualGenerator(network, 3, leading=2, latent_dim=3)
        still = ResidualMLP(3, 6, width=8, zero_last=True, key=jax.random.key(0))
        coder = Encoder(still, ridge=0.04, scores=True)
        model = Autoencoder(LatentModel(generator, GaussianPrior(3), Gaussian(0.2)), coder)
        information = conjugate.information(project(observed), 0.04, 3)
        exact = conjugate.condition(conjugate.Mixture.standard_normal(3), information).log_evidence
        for refinements in (0, 1):
            found = log_evidence(
                model, encode(model, observed), refinements=refinements, samples=1, key=jax.random.key(0)
            )
            np.testing.assert_allclose(found, exact, rtol=1e-3, atol=0.02)

    @pytest.mark.slow
    def test_masked_values_reach_no_gradient(self):
        observed = observe(Empirical(rank=3).fit(waves(), key=jax.random.key(0)), ragged())
        decoder = Affine(2, observed.features.shape[-1], key=jax.random.key(0))
        model = Autoencoder(
            LatentModel(decoder, GaussianPrior(2), Gaussian(0.5)), encoder(observed.features.shape[-1], 2)
        )
        data = encode(model, observed)
        spoiled = eqx.tree_at(
            lambda tree: tree.observed.values, data, jnp.where(data.observed.mask, data.observed.values, jnp.nan)
        )
        gradient = eqx.filter_grad(LowerBound(smallest_noise=1e-3).loss, has_aux=True)
        clean, dirty = (gradient(model, d, jax.random.key(0))[0] for d in (data, spoiled))
        for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def setting():
    """A crooked decoder with two latents and three curves of six points: little enough for a grid of latents."""
    rng = np.random.default_rng(3)
    network = ResidualMLP(2, 3, width=8, depth=1, activation="tanh", key=jax.random.key(5))
    model = LatentModel(NetworkGenerator(network), GaussianPrior(2), Gaussian(0.3))
    features = rng.normal(size=(6, 1, 3))
    values = np.stack([np.asarray(features @ network(jnp.asarray(z))) for z in ([0.5, -1], [1.0, 1.0], [0.0, 0.2])])
    values = values + 0.3 * rng.normal(size=values.shape)
    mask = np.ones(values.shape, dtype=bool)
    mask[0, 3:] = False
    return model, Observations(np.zeros((6, 1)), features, values, mask, shared=True)


@pytest.fixture(scope="module")
def by_grid(setting):
    model, observed = setting
    axis = np.linspace(-6, 6, 301)
    grid = jnp.asarray(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2), jnp.float32)
    single = observed.single_precision()
    log_joint = np.asarray(
        [jax.vmap(lambda z, i=i: model.log_joint(z, single[i]))(grid) for i in range(3)], dtype=float
    )
    evidence = scipy.special.logsumexp(log_joint, axis=1) + 2 * np.log(axis[1] - axis[0])
    weights = scipy.special.softmax(log_joint, axis=1)
    mean = weights @ np.asarray(grid)
    spread = np.sqrt(weights @ np.asarray(grid) ** 2 - mean**2)
    return mean, spread, evidence


@pytest.fixture(scope="module")
def bent():
    """Four latents of which two are bent, and a few curves with gaps."""
    observed = observe(Empirical(rank=5).fit(waves(noise=0.5), key=jax.random.key(0)), waves(3, seed=4, noise=0.5))
    network = ResidualMLP(2, 2, width=8, depth=1, activation="tanh", key=jax.random.key(5))
    generator = ResidualGenerator(network, 5, leading=2, latent_dim=4)
    mask = observed.mask.copy()
    mask[0, 4:] = False
    mask[1, ::2] = False
    return LatentModel(generator, GaussianPrior(4), Gaussian(0.4)), eqx.tree_at(lambda o: o.mask, observed, mask)


class TestCondensing:
    def test_keeps_the_likelihood_of_bent_latents(self, bent):
        """Given them a curve is Gaussian: the other latents and the noise make its covariance."""
        model, observed = bent
        condensed = condense(model, observed)
        z = np.array([0.7, -1.2], dtype=np.float32)
        coefficients = np.asarray(model.generator(jnp.asarray([*z, 0.0, 0.0])), dtype=float)
        for curve in range(3):
            seen = observed.mask[curve].reshape(-1)
            features = observed.features.reshape(-1, 5)[seen]
            mean = observed.mean.reshape(-1)[seen] + features @ coefficients
            covariance = features[:, 2:4] @ features[:, 2:4].T + 0.16 * np.eye(seen.sum())
            exact = scipy.stats.multivariate_normal(mean, covariance).logpdf(observed.values[curve].reshape(-1)[seen])
            found = condensed.model.log_likelihood(jnp.asarray(z), condensed.observed[curve])
            assert float(found) + condensed.constant[curve] == pytest.approx(exact, abs=1e-2)

    def test_gives_every_curve_one_shape_whatever_its_points(self):
        basis = Empirical(rank=3).fit(waves(), key=jax.random.key(0))
        model = LatentModel(NetworkGenerator(ResidualMLP(2, 3, width=8, key=jax.random.key(0))), *_standard(2))
        shapes = {
            condense(model, observe(basis, curves)).observed.features.shape[1:]
            for curves in (waves(4), waves(4, points=90), ragged(4))
        }
        assert shapes == {(3, 1, 3)}

    def test_draws_what_it_integrated_out_as_the_closed_form_has_it(self, bent):
        """A decoder that bends nothing: 4,000 draws, means within 5 standard errors and variances within 20 %."""
        model, observed = bent
        still = ResidualMLP(2, 2, width=8, zero_last=True, key=jax.random.key(0))
        model = LatentModel(ResidualGenerator(still, 5, leading=2, latent_dim=4), model.prior, model.likelihood)
        effort = Effort(draws=4000, proposals=8000)
        found = infer_encoded(model, encoder(5, 4), observed, method="importance", effort=effort, key=jax.random.key(0))
        information = conjugate.information(project(observed, 4), float(model.likelihood.variance), 4)
        exact = conjugate.condition(conjugate.Mixture.standard_normal(4), information)
        means, variances = exact.given(0)
        axes = exact.axes[exact.design, 0]
        covariance = (axes * variances) @ np.swapaxes(axes, 1, 2)
        spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        np.testing.assert_allclose(found.log_evidence, exact.log_evidence, atol=0.05)
        np.testing.assert_allclose((found.mean - means[:, 0]) / spread, 0, atol=5 / np.sqrt(4000))
        drawn = np.stack([np.cov(draws.T) for draws in found.draws])
        np.testing.assert_allclose((drawn - covariance) / (spread[:, :, None] * spread[:, None]), 0, atol=0.2)


def _standard(latent):
    return GaussianPrior(latent), Gaussian(0.3)


@pytest.fixture(scope="module")
def fitted():
    return PiVAE(random_state=0, progress=False, optimisation=Optimisation(epochs=60, batch_size=16)).fit(waves(80))


class TestPosterior:
    @pytest.mark.parametrize(
        "method", ["importance", *(pytest.param(name, marks=pytest.mark.slow) for name in ("smc", "nuts", "mala"))]
    )
    def test_agrees_with_a_grid(self, setting, by_grid, method):
        """2,000 draws (of chains: worth hundreds): means within 0.2 standard deviations, deviations within 20 %."""
        model, observed = setting
        effort = Effort(draws=2000, particles=2000)
        found = infer_encoded(model, encoder(3, 2, 0.09), observed, method=method, effort=effort, key=jax.random.key(0))
        mean, spread, evidence = by_grid
        np.testing.assert_allclose((found.mean - mean) / spread, 0, atol=0.2)
        np.testing.assert_allclose(found.draws.std(axis=1) / spread, 1, atol=0.2)
        if method in ("importance", "smc"):
            np.testing.assert_allclose(found.log_evidence, evidence, atol=0.1)

    @pytest.mark.slow
    def test_is_tempered_where_too_few_proposals_carry_the_weight(self, setting, by_grid, monkeypatch):
        """Here because too many are asked for; nothing says how many the particles are worth."""
        monkeypatch.setattr(amortised, "SMALLEST_EFFECTIVE", np.inf)
        model, observed = setting
        effort = Effort(draws=2000, particles=2000)
        found = infer_encoded(
            model, encoder(3, 2, 0.09), observed, method="importance", effort=effort, key=jax.random.key(0)
        )
        mean, spread, evidence = by_grid
        assert np.isnan(found.diagnostics["effective"]).all()
        np.testing.assert_allclose((found.mean - mean) / spread, 0, atol=0.2)
        np.testing.assert_allclose(found.log_evidence, evidence, atol=0.1)

    @pytest.mark.parametrize("method", ["importance", pytest.param("smc", marks=pytest.mark.slow)])
    def test_finds_both_modes_where_the_encoder_knows_of_one(self, method):
        """The function is z²: a value of 1 is as likely from z ≈ 1 as from −1 (256 particles, ±15 %: 5 sigma)."""
        model = LatentModel(Squared(), GaussianPrior(1), Gaussian(0.05))
        observed = Observations(
            np.zeros((1, 1)), np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.ones((1, 1, 1), dtype=bool), shared=True
        )
        coder = encoder(1, 1, 0.01)
        found = infer_encoded(model, coder, observed, method=method, effort=Effort(), key=jax.random.key(0))
        assert np.mean(found.draws[0] > 0) == pytest.approx(0.5, abs=0.15)
        np.testing.assert_allclose(np.abs(found.draws), 1, atol=0.15)

    @pytest.mark.slow
    def test_few_draws_of_many_particles_are_of_every_mode(self, monkeypatch):
        """64 of 256, over four keys: each share is within 0.25 of one half, 4 sigma."""
        monkeypatch.setattr(amortised, "SMALLEST_EFFECTIVE", np.inf)
        model = LatentModel(Squared(), GaussianPrior(1), Gaussian(0.05))
        one = np.ones((1, 1, 1))
        observed = Observations(np.zeros((1, 1)), one, one, one.astype(bool), shared=True)
        for seed in range(4):
            found = infer_encoded(
                model,
                encoder(1, 1, 0.01),
                observed,
                method="importance",
                effort=Effort(draws=64),
                key=jax.random.key(seed),
            )
            assert np.mean(found.draws[0] > 0) == pytest.approx(0.5, abs=0.25)

    def test_is_finite_where_data_are_precise_and_leave_a_gap(self):
        """A hundred points of noise 0.001 with the middle half hidden: what they say and leave open is 10⁸ apart."""
        x = np.linspace(0, 1, 100)
        features = np.cos(np.pi * x[:, None] * np.arange(12))[:, None]
        generator = ResidualGenerator(ResidualMLP(4, 4, width=8, key=jax.random.key(0)), 12, leading=4, latent_dim=12)
        model = LatentModel(generator, GaussianPrior(12), Gaussian(1e-3))
        values = features @ np.random.default_rng(0).normal(size=(4, 1, 12, 1))
        mask = np.broadcast_to((np.abs(x - 0.5) > 0.25)[:, None], (4, 100, 1))
        observed = Observations(np.zeros((100, 1)), features, values.reshape(4, 100, 1), mask, shared=True)
        coder = encoder(12, 12, 1e-6, scores=True)
        found = infer_encoded(model, coder, observed, method="importance", effort=Effort(), key=jax.random.key(0))
        assert np.isfinite(found.draws).all()
        assert np.isfinite(found.log_evidence).all()

    @pytest.mark.slow
    def test_of_a_curve_is_that_of_the_curve_among_others(self, fitted):
        """Its randomness is not the same, so 2,048 proposals agree to 0.1 nats."""
        context = waves(20, seed=9).select(np.tile(np.arange(15) % 3 == 0, 20))
        together, alone = fitted.log_evidence(context), fitted.log_evidence(context[17:18])
        assert together[17] == pytest.approx(alone[0], abs=0.1)

    @pytest.mark.slow
    def test_chains_start_at_the_context(self, fitted):
        """Where the encoder puts the ridge coefficients of a context, the function passes through its values."""
        context = waves(4, seed=9).select(np.tile(np.arange(15) % 3 == 0, 4))
        observed = observe(fitted.basis_, fitted.scaling_.apply(context))
        single = observed.single_precision()
        place = single.each(
            lambda curve, centre: refine(fitted.model_, curve, langevin.Affine(centre), 5),
            fitted.encoder_.centres(observed),
        )
        functions = single.each(lambda curve, z: fitted.model_.function(z, curve), place.centre)
        error = np.asarray(functions - single.values)[observed.mask]
        assert np.sqrt(np.mean(error**2)) < 3 * float(fitted.model_.likelihood.scale)


class Squared(Generator):
    """w = z²."""

    latent_dim: int = eqx.field(static=True, default=1)
    rank: int = eqx.field(static=True, default=1)

    def __call__(self, z):
        return z**2


class TestSettings:
    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["nuts", "mala"])
    def test_chains_can_be_asked_for(self, method):
        model = PiVAE(inference=method, effort=Effort(draws=64, warmup=50), **QUICK).fit(waves())
        posterior = model.condition(waves(2, seed=5).select(np.tile(np.arange(15) % 2 == 0, 2)))
        assert set(posterior.diagnostics["method"]) == {method}
        assert {"rhat", "ess_bulk"} <= set(posterior.diagnostics)
        assert np.isfinite(posterior.log_evidence).all()

    def test_of_the_paper(self):
        model = PiVAE.paper("melbourne")
        assert (model.latent_dim, model.networks) == (5, Networks(width=100, depth=1, activation="relu"))
        assert model.rates == Rates(*[Group(rate=5e-3, factor=0.5, minimum=5e-3)] * 3)
        assert model.optimisation.patience == 100
        assert model.basis.truncation == 0.99
        assert {PiVAE.paper(name).basis.kernel is not None for name in ("quadratic", "stocks", "gridwatch")} == {True}

    @pytest.mark.slow
    def test_of_the_paper_learn(self):
        model = PiVAE.paper("melbourne", random_state=0, progress=False)
        model.set_params(optimisation=Optimisation(epochs=150, batch_size=16, averaging=0.0)).fit(waves())
        assert model.history_["score"].max() > model.history_["score"].iloc[0] + 0.1
        assert float(model.model_.likelihood.scale) < 0.5

    @pytest.mark.slow
    def test_training_can_be_taken_up_from_a_checkpoint(self, tmp_path):
        def fitted(epochs, **settings):
            optimisation = Optimisation(epochs=epochs, batch_size=16)
            return PiVAE(random_state=0, progress=False, optimisation=optimisation, **settings).fit(waves())

        file = str(tmp_path / "run")
        fitted(2, checkpoint=file)
        taken_up, at_once = fitted(4, checkpoint=file), fitted(4)
        np.testing.assert_array_equal(taken_up.history_["score"], at_once.history_["score"])
        for a, b in zip(jax.tree.leaves(taken_up.model_), jax.tree.leaves(at_once.model_), strict=True):
            np.testing.assert_array_equal(a, b)

    @pytest.mark.parametrize(
        ("setting", "sentence"),
        [
            (dict(decoder="deep"), "decoder is 'deep'"),
            (dict(inference="exact"), "inference is 'exact'"),
            (dict(coefficients="all"), "coefficients is 'all'"),
            (dict(loss="l1"), "loss is 'l1'"),
            (dict(latent_dim=0), "latent_dim is 0"),
            (dict(bent_dim=0), "bent_dim is 0"),
            (dict(validation=1.0), "validation is 1.0"),
            (dict(basis="matern"), "basis is 'matern'"),
        ],
    )
    def test_that_make_no_sense_are_refused(self, setting, sentence):
        with pytest.raises(ValueError, match=sentence):
            PiVAE(**{**QUICK, **setting}).fit(waves())
