import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from febm.networks import ResidualMLP
from febm.priors import LATENTS_AT_ONCE, Energy, EnergyPrior, GaussianPrior, MixturePrior, TiltedPrior

WEIGHTS = np.array([0.2, 0.5, 0.3])
MEANS = np.array([[0.0, 1.0], [-2.0, 0.5], [3.0, -1.0]])
FACTORS = np.array([[[1.0, 0.0], [0.5, 0.8]], [[0.3, 0.0], [-0.2, 0.4]], [[0.6, 0.0], [0.1, 1.5]]])
DIM = 4


class Quadratic(eqx.Module):
    """½ a ‖z‖²: tilting a standard normal by it gives N(0, 1/(1 + a))."""

    strength: jax.Array

    def __call__(self, z):
        return 0.5 * self.strength * jnp.sum(jnp.square(z))


@functools.cache
def mixture(dim: int = DIM) -> MixturePrior:
    return MixturePrior(np.log(WEIGHTS), MEANS, FACTORS, dim)


@functools.cache
def energy(dim: int = 2) -> Energy:
    network = ResidualMLP(dim, "scalar", width=16, activation="silu", key=jax.random.key(0))
    return Energy(network, dim)


@functools.cache
def priors() -> dict:
    return {
        "gaussian": GaussianPrior(DIM, 1.5),
        "mixture": mixture(),
        "energy": EnergyPrior(energy(DIM), DIM, 2.0),
        "tilted": TiltedPrior(mixture(), energy()),
        "tilted twice": TiltedPrior(TiltedPrior(mixture(), energy()), energy(3)),
        "tilted energy": TiltedPrior(EnergyPrior(energy(DIM), DIM), energy()),
    }


every_prior = pytest.mark.parametrize("name", priors())
latents = jax.random.normal(jax.random.key(5), (20, DIM)) * 2


def test_gaussian_density_is_scipys():
    expected = scipy.stats.norm.logpdf(np.asarray(latents, float), 0, 1.5).sum(axis=1)
    np.testing.assert_allclose(jax.vmap(GaussianPrior(DIM, 1.5).log_density)(latents), expected, rtol=1e-5)


def test_mixture_density_is_scipys():
    z = np.asarray(latents, dtype=float)
    parts = [
        np.log(weight) + scipy.stats.multivariate_normal.logpdf(z[:, :2], mean, factor @ factor.T)
        for weight, mean, factor in zip(WEIGHTS, MEANS, FACTORS, strict=True)
    ]
    expected = scipy.special.logsumexp(parts, axis=0) + scipy.stats.norm.logpdf(z[:, 2:]).sum(axis=1)
    np.testing.assert_allclose(jax.vmap(mixture().log_density)(latents), expected, rtol=1e-4)


def test_mixture_may_cover_every_coordinate():
    head = jax.vmap(mixture(2).log_density)(latents[:, :2])
    tail = jax.vmap(GaussianPrior(2).log_density)(latents[:, 2:])
    np.testing.assert_allclose(jax.vmap(mixture().log_density)(latents), head + tail, rtol=1e-5)
    assert mixture(2).sample(jax.random.key(0), 7).shape == (7, 2)


def test_mixture_weights_need_no_normalising():
    shifted = MixturePrior(np.log(WEIGHTS) + 3, MEANS, FACTORS, DIM)
    np.testing.assert_allclose(
        jax.vmap(shifted.log_density)(latents), jax.vmap(mixture().log_density)(latents), rtol=1e-5
    )


def test_mixture_gives_its_factors_back():
    np.testing.assert_allclose(mixture().factors, FACTORS, atol=1e-6)
    assert mixture().leading == 2


def test_mixture_gradient_is_finite_far_from_every_component():
    gradient = jax.grad(mixture().log_density)(jnp.full(DIM, 100.0))
    assert jnp.all(jnp.isfinite(gradient))
    assert jnp.all(gradient < 0)


def test_mixture_draws_have_its_moments():
    """Four standard errors on 20 moments: error rate 1e-3, the seed is fixed."""
    draws = np.asarray(mixture().sample(jax.random.key(1), 20_000), dtype=float)
    mean = np.concatenate([WEIGHTS @ MEANS, np.zeros(2)])
    second = np.eye(DIM)
    second[:2, :2] = np.einsum("k,kij->ij", WEIGHTS, FACTORS @ FACTORS.swapaxes(1, 2))
    second[:2, :2] += np.einsum("k,ki,kj->ij", WEIGHTS, MEANS, MEANS)
    products = draws[:, :, None] * draws[:, None, :]
    assert np.all(np.abs(draws.mean(0) - mean) < 4 * draws.std(0) / np.sqrt(len(draws)))
    assert np.all(np.abs(products.mean(0) - second) < 4 * products.std(0) / np.sqrt(len(draws)))


def test_mixture_draws_follow_its_density():
    """The expectation of p_other/p under p is 1; four standard errors, error rate 6e-5, the seed is fixed."""
    draws = mixture().sample(jax.random.key(2), 20_000)
    other = MixturePrior(np.zeros(3), MEANS * 0.9, FACTORS * 0.8, DIM)
    ratio = np.exp(jax.vmap(other.log_density)(draws) - jax.vmap(mixture().log_density)(draws))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(ratio))


def test_gaussian_draws_have_its_scale():
    """Kolmogorov–Smirnov, error rate 1e-3; the seed is fixed."""
    draws = np.asarray(GaussianPrior(DIM, 1.5).sample(jax.random.key(3), 1000)).ravel()
    assert scipy.stats.kstest(draws, scipy.stats.norm(0, 1.5).cdf).pvalue > 1e-3


@every_prior
def test_log_tilt_is_the_difference_to_the_reference(name):
    prior = priors()[name]
    difference = jax.vmap(prior.log_density)(latents) - jax.vmap(prior.reference.log_density)(latents)
    np.testing.assert_allclose(jax.vmap(prior.log_tilt)(latents), difference, rtol=1e-4, atol=1e-4)


@every_prior
def test_references_are_normalised_and_sample(name):
    prior = priors()[name]
    reference = prior.reference
    assert reference.dim == prior.dim == DIM
    assert reference.reference is reference
    assert float(reference.log_normaliser) == 0
    draws = reference.sample(jax.random.key(0), 5)
    assert draws.shape == (5, DIM)
    assert draws.dtype == jnp.float32


def test_every_prior_has_the_reference_it_promises():
    found = priors()
    assert eqx.tree_equal(found["energy"].reference, GaussianPrior(DIM, 2.0))
    assert eqx.tree_equal(found["tilted"].reference, mixture())
    assert eqx.tree_equal(found["tilted twice"].reference, mixture())
    assert eqx.tree_equal(found["tilted energy"].reference, GaussianPrior(DIM))


@every_prior
def test_leaves_are_float32_arrays_and_log_densities_scalars(name):
    prior = priors()[name]
    assert all(isinstance(leaf, jax.Array) and leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(prior))
    for value in (prior.log_density(latents[0]), prior.log_tilt(latents[0]), prior.log_normaliser):
        assert value.shape == ()
        assert value.dtype == jnp.float32


@every_prior
def test_gradients_run_compiled_over_a_batch(name):
    prior = priors()[name]
    gradient = jax.jit(jax.vmap(jax.grad(prior.log_density)))(latents)
    assert gradient.shape == latents.shape
    assert jnp.all(jnp.isfinite(gradient))


def test_energy_sees_only_the_leading_coordinates():
    z = latents[0]
    np.testing.assert_array_equal(energy(2)(z), energy(2)(z.at[2:].set(7.0)))
    assert energy(2)(z) != energy(2)(z.at[0].add(1.0))
    np.testing.assert_array_equal(jax.grad(energy(2))(z)[2:], 0)


@pytest.mark.parametrize("batch", [(7,), (3, LATENTS_AT_ONCE + 5)])
def test_energies_of_many_latents_are_those_of_each(batch):
    energy = Energy(ResidualMLP(4, "scalar", width=8, depth=2, key=jax.random.key(0)), 4, confinement=0.5)
    latents = jax.random.normal(jax.random.key(1), (*batch, 6))
    expected = jax.vmap(energy)(latents.reshape(-1, 6)).reshape(batch)
    np.testing.assert_allclose(energy.each(latents), expected, rtol=1e-5, atol=1e-6)


def test_energy_prior_is_minus_the_energy():
    prior = EnergyPrior(energy(DIM), DIM)
    np.testing.assert_array_equal(prior.log_density(latents[0]), -energy(DIM)(latents[0]))


def test_an_energy_that_starts_at_zero_leaves_the_base_as_it_is():
    network = ResidualMLP(2, "scalar", width=16, zero_last=True, key=jax.random.key(0))
    tilted = TiltedPrior(mixture(), Energy(network, 2))
    np.testing.assert_array_equal(jax.vmap(tilted.energy)(latents), 0)
    np.testing.assert_array_equal(jax.vmap(tilted.log_tilt)(latents), 0)
    np.testing.assert_array_equal(jax.vmap(tilted.log_density)(latents), jax.vmap(mixture().log_density)(latents))


def test_a_quadratic_tilt_of_a_gaussian_is_the_gaussian_it_should_be():
    tilted = TiltedPrior(GaussianPrior(1), Energy(Quadratic(jnp.float32(3.0)), 1))
    tilted = tilted.with_log_normaliser(-0.5 * np.log(4.0))
    z = jnp.linspace(-3, 3, 7)[:, None]
    normalised = jax.vmap(tilted.log_density)(z) - tilted.log_normaliser
    np.testing.assert_allclose(normalised, scipy.stats.norm.logpdf(z[:, 0], 0, 0.5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["energy", "tilted"])
def test_log_normaliser_is_filled_in_without_touching_anything_else(name):
    prior = priors()[name]
    filled = prior.with_log_normaliser(1.25)
    assert float(prior.log_normaliser) == 0
    assert float(filled.log_normaliser) == 1.25
    assert eqx.tree_equal(filled.with_log_normaliser(0.0), prior)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: GaussianPrior(0), "GaussianPrior: dim is 0; give a whole number"),
        (lambda: GaussianPrior(2, -1.0), "scale is -1.0; give a finite number above 0"),
        (lambda: mixture(1), "the means have 2 coordinates but dim is 1"),
        (lambda: MixturePrior(np.zeros(2), MEANS, FACTORS, DIM), r"shapes \(2,\), \(3, 2\) and \(3, 2, 2\)"),
        (lambda: MixturePrior(np.zeros(3), MEANS, -FACTORS, DIM), "lower Cholesky factors"),
        (lambda: Energy(energy(2).network, 3), "the network takes 2 coordinates but dim is 3"),
        (
            lambda: Energy(ResidualMLP(2, 2, width=4, key=jax.random.key(0)), 2),
            "build it with out_size='scalar'",
        ),
        (lambda: EnergyPrior(energy(2), 3), "the energy sees 2 coordinates but dim is 3"),
        (lambda: TiltedPrior(GaussianPrior(2), energy(3)), "sees 3 coordinates but the base has only 2"),
    ],
)
def test_impossible_priors_are_refused_with_a_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


@every_prior
def test_the_coordinates_behind_the_entangled_ones_are_independent_standard_normals(name):
    """log p(z) less that of the leading part is log N(rest; 0, I), up to a constant."""
    prior = priors()[name]
    part = prior.leading_part(prior.entangled)
    assert part.dim == prior.entangled
    whole, leading = jax.vmap(prior.log_density)(latents), jax.vmap(part.log_density)(latents[:, : part.dim])
    rest = whole - leading + 0.5 * jnp.sum(latents[:, part.dim :] ** 2, axis=1)
    np.testing.assert_allclose(rest, rest[0], atol=1e-4)


def test_coordinates_that_nothing_ties_together_are_not_entangled():
    found = {name: prior.entangled for name, prior in priors().items()}
    assert found == {
        "gaussian": DIM,  # of a spread of their own
        "mixture": 2,
        "energy": DIM,
        "tilted": 2,
        "tilted twice": 3,
        "tilted energy": DIM,
    }
    assert GaussianPrior(DIM).entangled == 1


def test_an_energy_with_a_floor_never_falls_below_it_and_is_the_network_far_above():
    falling = Energy(lambda z: z[0], 1, floor=-6.0)
    values = jax.vmap(falling)(jnp.array([[-100.0], [-6.0], [20.0]]))
    np.testing.assert_allclose(values, [-6.0, -6.0 + np.log(2), 20.0], atol=1e-5)
