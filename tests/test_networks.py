import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from febm.networks import (
    ACTIVATIONS,
    Committee,
    LinearGenerator,
    NetworkGenerator,
    ResidualGenerator,
    ResidualMLP,
)

KEY = jax.random.key(0)


def randomised(network: ResidualMLP) -> ResidualMLP:
    """The same network with non-zero biases and output layer, so that every term shows."""
    leaves, structure = jax.tree.flatten(network)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    drawn = [0.5 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def test_three_hidden_layers_have_the_skips_of_the_paper():
    network = randomised(ResidualMLP(4, 3, width=8, key=KEY))
    W1, W2, W3, W4 = (np.asarray(weight, dtype=float) for weight in network.weights)
    b1, b2, b3, b4 = (np.asarray(bias, dtype=float) for bias in network.biases)
    z = np.array([0.3, -1.0, 0.5, 2.0])
    h1 = np.maximum(z @ W1 + b1, 0)
    h2 = np.maximum(h1 @ W2 + b2, 0) + h1
    h3 = np.maximum(h2 @ W3 + b3, 0) + h2
    np.testing.assert_allclose(network(jnp.asarray(z, jnp.float32)), h3 @ W4 + b4, rtol=1e-5, atol=1e-5)


def test_defaults_are_three_relu_layers_of_512():
    network = ResidualMLP(10, 20, key=KEY)
    assert network.activation == "relu"
    assert [weight.shape for weight in network.weights] == [(10, 512), (512, 512), (512, 512), (512, 20)]


def test_one_hidden_layer_has_no_skip():
    network = randomised(ResidualMLP(2, 1, width=8, depth=1, activation="tanh", key=KEY))
    z = jnp.array([0.4, -0.7])
    expected = np.tanh(z @ network.weights[0] + network.biases[0]) @ network.weights[1] + network.biases[1]
    np.testing.assert_allclose(network(z), expected, rtol=1e-5)


def test_scalar_output_has_no_axes():
    network = ResidualMLP(3, "scalar", width=8, key=KEY)
    assert network(jnp.ones(3)).shape == ()
    assert ResidualMLP(3, 1, width=8, key=KEY)(jnp.ones(3)).shape == (1,)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_every_activation_gives_outputs_of_order_one(activation):
    network = ResidualMLP(16, 8, width=128, activation=activation, key=KEY)
    outputs = jax.vmap(network)(jax.random.normal(jax.random.key(2), (256, 16)))
    assert 0.2 < float(jnp.std(outputs)) < 5


def test_zero_last_is_exactly_zero_and_still_learns():
    network = ResidualMLP(3, 2, width=8, zero_last=True, key=KEY)
    z = jnp.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(network(z), 0)
    gradient = eqx.filter_grad(lambda net: jnp.sum(net(z)))(network)
    assert float(jnp.abs(gradient.weights[-1]).max()) > 0


def test_leaves_are_float32_arrays_and_nothing_else():
    leaves = jax.tree.leaves(ResidualMLP(3, 2, width=8, key=KEY))
    assert len(leaves) == 8
    assert all(isinstance(leaf, jax.Array) and leaf.dtype == jnp.float32 for leaf in leaves)


def test_the_key_decides_the_weights():
    first, again, other = (ResidualMLP(3, 2, width=8, key=jax.random.key(seed)) for seed in (0, 0, 1))
    assert eqx.tree_equal(first, again)
    assert not eqx.tree_equal(first, other)


def test_gradients_with_respect_to_a_batch_run_in_a_compiled_scan():
    network = ResidualMLP(3, "scalar", width=8, activation="silu", key=KEY)

    @jax.jit
    def descend(z):
        gradient = jax.vmap(jax.grad(network))
        return jax.lax.scan(lambda z, _: (z - 0.1 * gradient(z), None), z, length=5)[0]

    start = jax.random.normal(jax.random.key(3), (6, 3))
    assert jnp.all(jax.vmap(network)(descend(start)) < jax.vmap(network)(start))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"in_size": 0}, "in_size is 0; give a whole number"),
        ({"out_size": -1}, "out_size is -1"),
        ({"width": 0}, "width is 0"),
        ({"depth": 0}, "depth is 0"),
        ({"activation": "elu"}, "'elu'; choose one of gelu, relu, silu, tanh"),
    ],
)
def test_impossible_networks_are_refused_with_a_sentence(arguments, sentence):
    settings = {"in_size": 2, "out_size": 2, "width": 8, "depth": 3, "activation": "relu"} | arguments
    with pytest.raises(ValueError, match=sentence):
        ResidualMLP(**settings, key=KEY)


@pytest.mark.parametrize("out_size", ["scalar", 3])
def test_committee_is_the_mean_of_its_networks(out_size):
    members = [randomised(ResidualMLP(2, out_size, width=8, key=key)) for key in jax.random.split(KEY, 3)]
    members[1] = jax.tree.map(lambda leaf: -0.3 * leaf, members[1])
    committee, z = Committee.of(members), jnp.array([0.5, -1.0])
    expected = np.mean([member(z) for member in members], axis=0)
    np.testing.assert_allclose(committee(z), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(committee)(z[None])[0], expected, rtol=1e-5)
    assert (committee.in_size, committee.out_size) == (2, out_size)


def test_linear_generator_pads_with_zeros():
    generator = LinearGenerator(2, 4)
    assert (generator.latent_dim, generator.rank) == (2, 4)
    np.testing.assert_array_equal(generator(jnp.array([1.0, 2.0])), [1, 2, 0, 0])
    np.testing.assert_array_equal(LinearGenerator(2, 2)(jnp.array([1.0, 2.0])), [1, 2])
    assert jax.tree.leaves(generator) == []


def test_residual_generator_is_the_identity_at_start():
    generator = ResidualGenerator(ResidualMLP(2, 4, width=8, zero_last=True, key=KEY), 4)
    np.testing.assert_array_equal(generator(jnp.array([1.5, -2.0])), [1.5, -2, 0, 0])


def test_residual_generator_adds_the_network():
    network = randomised(ResidualMLP(2, 4, width=8, key=KEY))
    generator = ResidualGenerator(network, 4)
    z = jnp.array([1.5, -2.0])
    np.testing.assert_allclose(generator(z), jnp.array([1.5, -2, 0, 0]) + network(z), rtol=1e-6)
    assert (generator.latent_dim, generator.rank) == (2, 4)


def test_residual_generator_sees_and_changes_only_the_leading_coordinates():
    network = randomised(ResidualMLP(2, 2, width=8, key=KEY))
    generator = ResidualGenerator(network, 5, leading=2, latent_dim=4)
    z = jnp.array([1.5, -2.0, 0.3, 0.7])
    np.testing.assert_allclose(generator(z)[:2], z[:2] + network(z[:2]), rtol=1e-6)
    np.testing.assert_array_equal(generator(z)[2:], jnp.array([0.3, 0.7, 0.0]))
    jacobian = jax.jacobian(generator)(z)
    np.testing.assert_array_equal(jacobian[:, 2:], np.eye(5, 4)[:, 2:])


def test_latent_is_as_long_as_the_rank_when_only_leading_coordinates_are_corrected():
    generator = ResidualGenerator(ResidualMLP(2, 2, width=8, key=KEY), 6, leading=2)
    assert generator.latent_dim == generator.rank == 6


def test_network_generator_is_the_network():
    network = ResidualMLP(3, 7, width=8, key=KEY)
    generator = NetworkGenerator(network)
    assert (generator.latent_dim, generator.rank) == (3, 7)
    np.testing.assert_array_equal(generator(jnp.ones(3)), network(jnp.ones(3)))


def test_generators_that_do_not_fit_are_refused_with_a_sentence():
    network = ResidualMLP(3, 5, width=8, key=KEY)
    with pytest.raises(ValueError, match="latent_dim is 3 but the basis has only 2 functions"):
        LinearGenerator(3, 2)
    with pytest.raises(ValueError, match=r"maps 3 to 5 values; .* has to map 3 to 6"):
        ResidualGenerator(network, 6)
    with pytest.raises(ValueError, match=r"maps 3 to 5 values; .* has to map 2 to 2"):
        ResidualGenerator(network, 6, leading=2)
    with pytest.raises(ValueError, match="leading is 9; give None, or a number from 1 to latent_dim = 5"):
        ResidualGenerator(network, 5, leading=9)
    with pytest.raises(ValueError, match="scalar output; give it out_size"):
        NetworkGenerator(ResidualMLP(3, "scalar", width=8, key=KEY))
