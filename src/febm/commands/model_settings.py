"""From options to a model: a recipe, the settings that have options of their own, and `--set name=value` for the rest.

A name with dots reaches into the groups of settings, as in `--set tilt.steps=500`.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import febm
from febm.commands.terminal import UsageError
from febm.models import Process
from febm.models.settings import PAPER, PAPER_CURVES
from febm.training import Optimisation

# Settings with options of their own that no model may take by --set.
ELSEWHERE = {"random_state": "--seed", "progress": "--quiet", "checkpoint": "--resume"}
WORDS = {"none": None, "true": True, "false": False}


def make_model(
    name: str,
    *,
    recipe: str,
    options: Mapping[str, Any],
    settings: Sequence[str],
    seed: int,
    progress: bool,
) -> Process:
    """An unfitted model; `options` are arguments by name, None where nothing was said, and `settings` name=value."""
    model = _by_recipe(getattr(febm, name), recipe, seed, progress)
    for option, value in options.items():
        if value is not None:
            if option not in model.get_params(deep=False):
                raise UsageError(f"--{option} is no setting of {name}; it has {_named_settings(model)}.")
            model.set_params(**{option: value})
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise UsageError(f"--set is {setting!r}; give name=value, such as --set validation=0.1.")
        _set(model, path.strip(), parse_value(text.strip()), setting)
    return model


def trains_by_epochs(model: Process) -> bool:
    """Whether a model is trained step by step, so that `set_epochs` means something."""
    settings = model.get_params(deep=False)
    return "optimisation" in settings or dataclasses.is_dataclass(settings.get("training"))


def set_epochs(model: Process, epochs: int, curves: int) -> None:
    """Let training pass at most so many times over the curves, whichever way the model is trained."""
    if not trains_by_epochs(model):
        raise UsageError(f"--epochs is no setting of {type(model).__name__}, which is not trained step by step.")
    settings = model.get_params(deep=False)
    if "optimisation" in settings:
        model.set_params(optimisation=dataclasses.replace(settings["optimisation"], epochs=epochs))
    else:
        training = settings["training"]
        loop = dataclasses.replace(training.optimisation, epochs=epochs)
        model.set_params(training=dataclasses.replace(training, optimisation=loop))
    if "tilt" in settings:
        # A tilt counts steps, one for each batch of the curves that are not held out.
        kept = curves - round(settings["validation"] * curves)
        steps = epochs * Optimisation().step.batches(kept)
        model.set_params(tilt=dataclasses.replace(settings["tilt"], steps=steps))


def changed_settings(model: Process) -> dict[str, str]:
    """The settings that differ from the defaults of the model's class, as text; not seed, progress and checkpoint."""
    default = type(model)().get_params(deep=False)
    return {
        name: repr(value)
        for name, value in model.get_params(deep=False).items()
        if name not in ELSEWHERE and repr(value) != repr(default[name])
    }


def parse_value(text: str) -> Any:
    """The number, the truth value, None or the word that a text stands for."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | str) else text


def _by_recipe(kind: type, recipe: str, seed: int, progress: bool) -> Process:
    word, _, dataset = recipe.partition(":")
    if word == "default" and not dataset:
        return kind(random_state=seed, progress=progress)
    allowed = tuple(PAPER) if kind is febm.FEBM else PAPER_CURVES
    if word != "paper" or dataset not in allowed:
        choices = ", ".join(["default", *(f"paper:{one}" for one in allowed)])
        raise UsageError(f"--recipe is {recipe!r}; for {kind.__name__} choose one of {choices}.")
    return kind.paper(dataset, random_state=seed, progress=progress)  # type: ignore[attr-defined]


def _set(model: Process, path: str, value: Any, setting: str) -> None:
    first, *rest = path.split(".")
    settings = model.get_params(deep=False)
    if first in ELSEWHERE:
        raise UsageError(f"--set {setting}: {first} has an option of its own, {ELSEWHERE[first]}.")
    if first not in settings:
        raise UsageError(
            f"--set {setting}: {type(model).__name__} has no setting {first!r}; it has {_named_settings(model)}."
        )
    model.set_params(**{first: _replaced(settings[first], rest, value, first, setting)})


def _replaced(old: Any, rest: Sequence[str], value: Any, name: str, setting: str) -> Any:
    """The old value of a setting, with `value` in place of it or of a part of it."""
    is_group = dataclasses.is_dataclass(old) and not isinstance(old, type)
    if rest:
        fields = [field.name for field in dataclasses.fields(old)] if is_group else []
        if rest[0] not in fields:
            parts = f"it has {', '.join(fields)}" if fields else "it has no parts"
            raise UsageError(f"--set {setting}: {name} has no part {rest[0]!r}; {parts}.")
        part = _replaced(getattr(old, rest[0]), rest[1:], value, f"{name}.{rest[0]}", setting)
        return dataclasses.replace(old, **{rest[0]: part})
    if is_group and not isinstance(value, str):
        fields = [f"{name}.{field.name}" for field in dataclasses.fields(old)]
        raise UsageError(f"--set {setting}: {name} is a group of settings; set one of {', '.join(fields)}.")
    if not _is_like(old, value):
        raise UsageError(f"--set {setting}: {name} is {old!r} by default, so it cannot be {value!r}.")
    return float(value) if isinstance(old, float) and value is not None else value


def _is_like(old: Any, value: Any) -> bool:
    """Whether a value could stand where the default does; None says nothing of what may stand there."""
    if isinstance(old, bool):
        return isinstance(value, bool)
    if isinstance(old, int):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(old, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return True


def _named_settings(model: Process) -> str:
    return ", ".join(name for name in model.get_params(deep=False) if name not in ELSEWHERE)
