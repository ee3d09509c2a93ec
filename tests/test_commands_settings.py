"""From options to models."""

import pytest

import febm
from febm.commands.model_settings import changed_settings, make_model, parse_value, set_epochs
from febm.commands.options import MODELS, model_names
from febm.commands.terminal import UsageError


def made(name="FEBM", recipe="default", settings=(), **options):
    return make_model(name, recipe=recipe, options=options, settings=settings, seed=3, progress=False)


def test_models_have_their_names_in_any_case_and_two_of_them_short_ones():
    assert model_names(["fpca", "GP", "FPCA", "np"], "--models") == ("FPCA", "GaussianProcess", "NeuralProcess")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_made_with_its_seed(name):
    model = made(name)
    assert type(model) is getattr(febm, name)
    assert (model.random_state, model.progress) == (3, False)
    assert changed_settings(model) == {}


def test_options_are_arguments_of_the_model():
    model = made(rank=0.9, kernel="matern52", likelihood=None, scaling="log", validation=0.1)
    assert (model.rank, model.kernel, model.likelihood) == (0.9, "matern52", "gaussian")
    assert set(changed_settings(model)) == {"rank", "kernel", "scaling", "validation"}


def test_an_option_that_a_model_has_not_is_refused_with_those_it_has():
    with pytest.raises(UsageError, match="--kernel is no setting of FPCA; it has rank, scaling, validation"):
        made("FPCA", kernel="matern52")


def test_the_paper_has_recipes_by_name():
    assert made(recipe="paper:melbourne").get_params()["latent_dim"] == 20
    with pytest.raises(UsageError, match="for FPCA choose one of default, paper:quadratic"):
        made("FPCA", recipe="paper:fashion_mnist")
    with pytest.raises(UsageError, match="--recipe is 'papier'"):
        made(recipe="papier")


def test_any_argument_is_set_by_name_and_dots_reach_into_groups():
    model = made(settings=["latent_dim=5", "tilt.steps=50", "tilt.group.rate=1", "remainder=false", "kernel=none"])
    assert (model.latent_dim, model.tilt.steps, model.remainder, model.kernel) == (5, 50, False, None)
    assert model.tilt.group.rate == 1.0
    assert isinstance(model.tilt.group.rate, float)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("latentdim=5", "FEBM has no setting 'latentdim'; it has base, basis, components"),
        ("latent_dim", "give name=value"),
        ("=5", "give name=value"),
        ("tilt=5", "tilt is a group of settings; set one of tilt.width"),
        ("tilt.stepps=5", "tilt has no part 'stepps'; it has width"),
        ("rank.width=5", "rank has no part 'width'; it has no parts"),
        ("tilt.steps=many", "tilt.steps is 3000 by default, so it cannot be 'many'"),
        ("remainder=1", "remainder is True by default"),
        ("random_state=5", "has an option of its own, --seed"),
        ("checkpoint=here", "has an option of its own, --resume"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting, sentence):
    with pytest.raises(UsageError, match=sentence.replace(".", r"\.")):
        made(settings=[setting])


def test_epochs_reach_every_training_loop():
    febm_model, np_model, ebp = made(), made("NeuralProcess"), made("EBP")
    set_epochs(febm_model, 7, 500)
    set_epochs(np_model, 7, 500)
    set_epochs(ebp, 7, 500)
    assert (febm_model.optimisation.epochs, np_model.optimisation.epochs, ebp.training.optimisation.epochs) == (7, 7, 7)
    # 400 of 500 curves are not held out: four batches of at most 128.
    assert febm_model.tilt.steps == 28


def test_a_model_without_training_takes_no_epochs():
    with pytest.raises(UsageError, match="--epochs is no setting of FPCA"):
        set_epochs(made("FPCA"), 7, 500)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.99", 0.99), ("1e-3", 0.001), ("True", True), ("none", None), ("matern52", "matern52")],
)
def test_values_are_read_as_what_they_look_like(text, value):
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)
