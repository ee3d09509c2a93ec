"""Posteriors for ArviZ: named dimensions, and the draws as they were made."""

import copy
import sys

import numpy as np
import pandas as pd
import pytest
from test_febm import QUICK, waves

import febm
from febm.io_arviz import to_datatree

pytest.importorskip("arviz_base", reason="arviz-base is not installed: pip install arviz-base")
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
    """Draws are kept one chain after the other."""
    nuts = copy.copy(model).set_params(inference="nuts")
    posterior = nuts.condition(waves(2, seed=1))
    tree = posterior.to_arviz(AT)
    assert tree.posterior.sizes["chain"] == 4
    assert tree.posterior.sizes["draw"] == 16
    drawn = posterior._latent.draws
    functions = model._space.at(AT[:, None])
    for curve in range(2):
        for chain in range(4):
            own = drawn[curve, 16 * chain : 16 * (chain + 1)]
            np.testing.assert_array_equal(tree.posterior["z"].values[chain, :, curve], own)
            expected = functions.values(model._space.weights(own))
            np.testing.assert_allclose(tree.posterior["f"].values[chain, :, curve], expected)


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


def test_ids_of_several_levels_are_written_as_tuples(model):
    curves = waves(3, seed=1).replace(ids=[("north", 1), ("north", 2), ("south", 1)])
    posterior = model.condition(curves)
    tree = posterior.to_arviz(AT)
    assert list(tree.posterior.coords["curve"].values) == ["('north', 1)", "('north', 2)", "('south', 1)"]
    chosen = tree.posterior["f"].sel(curve="('south', 1)").mean(("chain", "draw")).values
    np.testing.assert_allclose(chosen, posterior.mean(AT)[2], atol=0.2)


def test_every_dimension_has_its_own_name_and_values():
    values = np.arange(2 * 3 * 4 * 5 * 1.0).reshape(2, 3, 4, 5, 1)
    latents = np.arange(2 * 3 * 4 * 2.0).reshape(2, 3, 4, 2)
    tree = to_datatree(values, AT[:, None], pd.Index(list("abcd")), latents)
    here = tree.posterior.isel(chain=1, draw=2).sel(curve="d")
    np.testing.assert_array_equal(here["f"].isel(point=4).values, values[1, 2, 3, 4])
    np.testing.assert_array_equal(here["z"].values, latents[1, 2, 3])


@pytest.mark.parametrize(
    ("functions", "latents", "sentence"),
    [
        ((1, 3, 4, 5), None, "functions have shape"),
        ((1, 3, 5, 4, 1), None, "functions have shape"),
        ((1, 3, 4, 6, 1), None, "one set of points for all curves"),
        ((2, 3, 4, 5, 1), (3, 2, 4, 2), "latents have shape"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(functions, latents, sentence):
    latents = None if latents is None else np.zeros(latents)
    with pytest.raises(ValueError, match=f"Posterior.to_arviz: .*{sentence}"):
        to_datatree(np.zeros(functions), AT[:, None], pd.Index(list("abcd")), latents)


@pytest.mark.parametrize("draws", [None, 4])
def test_observed_values_say_where_they_belong(model, draws):
    curves = waves(2, seed=1).replace(ids=["monday", "tuesday"])
    tree = model.condition(curves).to_arviz(AT, observed=curves, draws=draws)
    assert tree.observed_data["y"].dims == ("observation", "output")
    of_tuesday = (tree.constant_data["observed_curve"] == "tuesday").values
    np.testing.assert_array_equal(tree.observed_data["y"].values[of_tuesday], curves[1].y)
    np.testing.assert_array_equal(tree.constant_data["observed_x"].values[of_tuesday], curves[1].x)


def test_observed_values_of_other_curves_are_refused(model):
    curves = waves(2, seed=1)
    with pytest.raises(ValueError, match="observed must be the 2 curves that were conditioned on"):
        model.condition(curves).to_arviz(AT, observed=curves[::-1])


def test_new_draws_come_in_one_chain(model):
    tree = model.condition(waves(2, seed=1)).to_arviz(AT, draws=10, random_state=0)
    assert tree.posterior["f"].shape == (1, 10, 2, 5, 1)
    assert "z" not in tree.posterior


def test_without_arviz_the_error_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match="pip install"):
        model.condition(waves(2, seed=1)).to_arviz(AT)


@pytest.mark.parametrize("draws", [None, 10])
def test_points_of_each_curve_are_refused(model, draws):
    curves = waves(2, seed=1)
    with pytest.raises(ValueError, match="one set of points"):
        model.condition(curves).to_arviz(curves, draws=draws)
