import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from febm.precision import float64
from febm.woodbury import log_densities


def dense(features, residual, mask, variance):
    """Curve by curve from the covariance matrix of what is observed."""
    curves = len(residual)
    features = np.broadcast_to(features, (curves, *features.shape[-2:]))
    mask = np.broadcast_to(mask, residual.shape)
    return np.array(
        [
            multivariate_normal.logpdf(y[m], np.zeros(m.sum()), f[m] @ f[m].T + variance * np.eye(m.sum()))
            for f, y, m in zip(features, residual, mask, strict=True)
        ]
    )


def problem(values, rank, own_features, own_mask, seed, curves=6):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(curves, values, rank) if own_features else (values, rank))
    mask = rng.uniform(size=(curves, values) if own_mask else values) < 0.7
    mask[..., 0] = True
    return features, rng.normal(size=(curves, values)), mask


@pytest.mark.parametrize("own_features", [False, True])
@pytest.mark.parametrize("own_mask", [False, True])
@pytest.mark.parametrize(("values", "rank"), [(1, 1), (12, 3), (12, 12), (5, 20), (40, 17)])
def test_it_is_the_dense_gaussian_density(values, rank, own_features, own_mask):
    features, residual, mask = problem(values, rank, own_features, own_mask, seed=values + rank)
    for variance in (1.0, 0.01):
        with float64():
            found = log_densities(*map(jnp.asarray, (features, residual, mask, variance)))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, dense(features, residual, mask, variance), rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize(("values", "rank"), [(12, 3), (5, 20)])
def test_gradients_are_those_of_the_dense_density(values, rank):
    features, residual, mask = problem(values, rank, False, True, seed=3)
    with float64():
        inputs = [jnp.asarray(part) for part in (features, residual, 0.3)]
        function = lambda f, y, v: jnp.sum(log_densities(f, y, jnp.asarray(mask), v))  # noqa: E731
        gradients = jax.jit(jax.grad(function, argnums=(0, 1, 2)))(*inputs)
    for place, gradient in enumerate(gradients):
        direction = np.random.default_rng(place).normal(size=np.shape(gradient))
        ends = []
        for step in (1e-5, -1e-5):
            moved = [np.asarray(part) for part in inputs]
            moved[place] = moved[place] + step * direction
            ends.append(dense(moved[0], moved[1], mask, float(moved[2])).sum())
        assert np.sum(np.asarray(gradient) * direction) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)


def test_features_in_single_precision_are_worked_with_in_double():
    """With σ² = 10⁻⁶ and values of size one, float32 would not leave a single digit."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 4)).astype(np.float32)
    residual = (rng.normal(size=(3, 4)).astype(np.float32) @ features.T) + 1e-3 * rng.normal(size=(3, 50))
    residual = residual.astype(np.float32)
    found = jax.jit(log_densities)(features, residual, np.ones(50, dtype=bool), jnp.float32(1e-6))
    assert found.dtype == jnp.float32
    exact = dense(features.astype(float), residual.astype(float), np.ones(50, dtype=bool), float(np.float32(1e-6)))
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_the_gradient_of_single_precision_is_single_precision_inside_a_compiled_loop():
    features, residual, mask = (jnp.asarray(part) for part in problem(12, 3, False, False, seed=5))

    @jax.jit
    def ascend(features):
        gradient = jax.grad(lambda f: jnp.sum(log_densities(f, residual, mask, jnp.float32(0.5))))
        return jax.lax.scan(lambda f, _: (f + 1e-3 * gradient(f), None), features, length=3)[0]

    moved = ascend(features)
    assert moved.dtype == jnp.float32
    assert np.isfinite(moved).all()


def test_masked_entries_reach_neither_values_nor_gradients():
    features, residual, mask = problem(8, 3, True, True, seed=6)
    spoiled = np.where(mask[..., None], features, np.nan), np.where(mask, residual, np.inf)

    def total(f, y):
        return jnp.sum(log_densities(f, y, jnp.asarray(mask), jnp.float32(0.2)))

    clean = jax.value_and_grad(total, argnums=(0, 1))(jnp.asarray(features), jnp.asarray(residual))
    dirty = jax.value_and_grad(total, argnums=(0, 1))(*map(jnp.asarray, spoiled))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), clean, dirty)


@pytest.mark.parametrize("own_features", [False, True])
def test_replicas_under_one_vmap_are_those_of_each_alone_in_double_precision(own_features):
    """In a loop that was traced before it is mapped; with σ² = 10⁻⁴ the density would show float32 algebra."""
    one, other = (problem(12, 3, own_features, True, seed=seed) for seed in (7, 8))
    features, residual = (jnp.stack([a, b]).astype(jnp.float32) for a, b in zip(one[:2], other[:2], strict=True))

    @jax.jit
    def ascend(features, residual):
        function = lambda f: jnp.sum(log_densities(f, residual, jnp.asarray(one[2]), jnp.float32(1e-4)))  # noqa: E731
        step = lambda f, _: (f + 1e-9 * jax.grad(function)(f), function(f))  # noqa: E731
        return jax.lax.scan(step, features, length=2)

    together = jax.vmap(ascend)(features, residual)
    for place in range(2):
        for found, alone in zip(together, ascend(features[place], residual[place]), strict=True):
            np.testing.assert_allclose(found[place], alone, rtol=1e-6)
    first = dense(np.asarray(features[0], float), np.asarray(residual[0], float), one[2], float(np.float32(1e-4)))
    np.testing.assert_allclose(together[1][0, 0], first.sum(), rtol=1e-6)
