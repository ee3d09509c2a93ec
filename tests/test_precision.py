"""On a GPU the products of small-scale algebra keep all of float32; there is none here, so what is asked of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from febm.langevin import Affine
from febm.precision import full_float32
from febm.priors import MixturePrior

PRIOR = MixturePrior(np.log([0.5, 0.5]), np.ones((2, 3)), np.tile(np.eye(3), (2, 1, 1)), 4)


def products(function, *arguments):
    """The precisions of all matrix products that `function` is made of."""
    found = []

    def visit(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                found.append(equation.params["precision"])
            for inner in jaxprs_in_params(equation.params):
                visit(inner)

    visit(jax.make_jaxpr(function)(*arguments).jaxpr)
    return found


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
    ],
    ids=["density", "gradient", "draws", "change of variables"],
)
def test_densities_and_draws_are_precise(function, argument):
    found = products(function, argument)
    assert found
    assert set(found) == {HIGHEST}
