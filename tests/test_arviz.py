"""Posteriors for ArviZ: named dimensions, and the draws as they were made."""

import sys

import numpy as np
import pytest
from test_febm import QUICK, waves

import febm

pytest.importorskip("arviz_base", reason="arviz-base is not installed: pip install 'febm[arviz]'")
AT = np.linspace(0, 2, 5)


@pytest.fixture(scope="module")
def model():
    return febm.FEBM(**QUICK).fit(waves())


def test_functions_and_latents_carry_their_names(model):
    tree = model.condition(waves(3, seed=1)).to_arviz(AT)
    assert tree.posterior["f"].dims == ("chain", "draw", "curve", "point", "output")
    assert tree.posterior["f"].shape == (1, 64, 3, 5, 1)
    assert tree.posterior["z"].dims == ("chain", "draw", "curve", "latent")
    np.testing.assert_array_equal(tree.constant_data["x"], AT[:, None])


def test_chains_of_a_sampler_stay_apart(model):
    nuts = febm.FEBM(**{**QUICK, "inference": "nuts"}).fit(waves())
    tree = nuts.condition(waves(2, seed=1)).to_arviz(AT)
    assert tree.posterior.sizes["chain"] == 4
    assert tree.posterior.sizes["draw"] == 16


def test_functions_belong_to_their_latents(model):
    """The default recipe is linear: equal latents would give equal functions, and the mean of f is f of the mean z."""
    posterior = model.condition(waves(2, seed=1))
    tree = posterior.to_arviz(AT)
    space = model._space.at(AT[:, None])
    expected = space.values(model._space.weights(tree.posterior["z"].values[0, :, 1]))
    np.testing.assert_allclose(tree.posterior["f"].values[0, :, 1], expected)


def test_ids_of_curves_are_coordinates(model):
    curves = waves(2, seed=1).replace(ids=["monday", "tuesday"])
    tree = model.condition(curves).to_arviz(AT)
    assert list(tree.posterior.coords["curve"].values) == ["monday", "tuesday"]


def test_new_draws_come_in_one_chain(model):
    tree = model.condition(waves(2, seed=1)).to_arviz(AT, draws=10, random_state=0)
    assert tree.posterior["f"].shape == (1, 10, 2, 5, 1)
    assert "z" not in tree.posterior


def test_without_arviz_the_error_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match="pip install"):
        model.condition(waves(2, seed=1)).to_arviz(AT)
