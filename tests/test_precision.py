"""On a GPU the products of small-scale algebra keep all of float32; there is none here, so what is asked of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from febm.contrastive import linear_geometry
from febm.curves import Curves
from febm.langevin import Affine
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.models.ebp import EBP
from febm.models.feature_process import FeatureProcess, locate
from febm.networks import LinearGenerator
from febm.observations import Observations
from febm.precision import full_float32
from febm.priors import MixturePrior

PRIOR = MixturePrior(np.log([0.5, 0.5]), np.ones((2, 3)), np.tile(np.eye(3), (2, 1, 1)), 4)

MODEL = LatentModel(LinearGenerator(4, 4), PRIOR, Gaussian(0.1))
CURVE = Observations(jnp.zeros((5, 1)), jnp.ones((5, 1, 4)), jnp.ones((5, 1)), jnp.ones((5, 1), bool), shared=False)


def test_a_component_thinner_than_float32_can_invert_has_a_precision():
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    factor = np.linalg.cholesky(rotation @ np.diag([1, 0.5, 0.2, 1e-8]) @ rotation.T)
    thin = MixturePrior(np.zeros(1), np.zeros((1, 4)), factor[None], 6)
    found = np.linalg.eigvalsh(np.asarray(thin.within_precision, dtype=float))
    np.testing.assert_allclose(found[:5], [1, 1, 1, 2, 5], rtol=0.05)
    assert 1e6 < found[5] < 1e8


def products(function, *arguments):
    """The precisions of all products of float32 matrices that `function` is made of."""
    found = []

    def visit(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general" and equation.invars[0].aval.dtype == jnp.float32:
                found.append(equation.params["precision"])
            for inner in jaxprs_in_params(equation.params):
                visit(inner)

    visit(jax.make_jaxpr(function)(*arguments).jaxpr)
    return found


def likelihood_of_features(log_size):
    """The log density of two curves under a Gaussian process with learned features, of which so is the size."""
    curves = Curves.from_grid(np.linspace(0, 1, 5), np.ones((2, 5)))
    start = EBP(features=2, stationary=4)._start(curves, jax.random.key(0))
    features = eqx.tree_at(lambda tree: tree.stationary.log_size, start, log_size)
    return FeatureProcess(features, Gaussian(0.1), 1e-4).log_densities(locate(curves))


HIGHEST = (jax.lax.Precision.HIGHEST, jax.lax.Precision.HIGHEST)


def test_a_product_has_the_precision_of_the_function_around_it():
    product = lambda a: a @ a  # noqa: E731
    assert products(product, jnp.eye(2)) == [None]
    assert products(full_float32(product), jnp.eye(2)) == [HIGHEST]
    assert products(jax.vmap(jax.grad(lambda a: full_float32(product)(a).sum())), jnp.ones((3, 2, 2))) == [HIGHEST] * 3


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (PRIOR.log_density, jnp.zeros(4)),
        (jax.grad(PRIOR.log_density), jnp.zeros(4)),
        (lambda key: PRIOR.sample(key, 5), jax.random.key(0)),
        (Affine(jnp.zeros(2), jnp.eye(2)), jnp.ones(2)),
        (lambda z: MODEL.function(z, CURVE), jnp.zeros(4)),
        (lambda z: linear_geometry(MODEL, CURVE, jax.random.key(0))(z), jnp.zeros(4)),
        (jax.grad(lambda size: likelihood_of_features(size).sum()), jnp.zeros(())),
    ],
    ids=["density", "gradient", "draws", "change of variables", "function", "geometry", "marginal likelihood"],
)
def test_densities_and_draws_are_precise(function, argument):
    found = products(function, argument)
    assert found
    assert set(found) == {HIGHEST}
