"""From JSON to a question: every field checked, and one sentence where it is not what it should be."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from febm.checks import count
from febm.exploring.latents import FARTHEST
from febm.exploring.noise import LARGEST, SMALLEST
from febm.exploring.numerics import DRAWS, MOST_POINTS, Placed, Question, domain, resolutions
from febm.exploring.shelf import Explored

# Points may be placed a little beyond the training curves: models warn of more.
BEYOND = 0.05
LARGEST_SEED = 2**31 - 1
LARGEST_VALUE = 1e100
FIELDS = (
    "full_effort",
    "level",
    "model",
    "moved",
    "noise",
    "noise_factor",
    "output",
    "points",
    "resolution",
    "seed",
    "shown",
)


class RefusedError(Exception):
    """A request that cannot be answered, with the sentence that says why."""


class Asked(NamedTuple):
    """A model and what to show of it."""

    explored: Explored
    question: Question
    shown: int  # draws
    moved: dict[int, float]  # latent coordinates, in standard deviations


def parse(body: bytes, shelf: Sequence[Explored]) -> Asked:
    """The question in the body of a request, or `RefusedError`."""
    try:
        fields = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RefusedError("The request is not JSON; send one JSON object.") from None
    if not isinstance(fields, dict):
        raise RefusedError("The request is not a JSON object; send one.")
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise RefusedError(f"There is no field {unknown[0][:40]!r}; there are {', '.join(FIELDS)}.")
    explored = _model(fields.get("model"), shelf)
    output = _whole(fields, "output", 0, most=explored.outputs - 1)
    question = Question(
        points=_points(fields.get("points", []), explored),
        output=output,
        resolution=_resolution(fields, explored),
        level=_number(fields, "level", 0.9, least=0.01, most=0.999),
        noise=_truth(fields, "noise"),
        noise_factor=_noise_factor(fields, explored),
        full_effort=_truth(fields, "full_effort"),
        seed=_whole(fields, "seed", 0, most=LARGEST_SEED),
    )
    return Asked(explored, question, _whole(fields, "shown", DRAWS, most=DRAWS), _moved(fields, explored))


def _model(name: Any, shelf: Sequence[Explored]) -> Explored:
    found = next((each for each in shelf if each.name == name), None)
    if found is None:
        listed = ", ".join(repr(each.name) for each in shelf)
        raise RefusedError(f"There is no model {_shown(name)}; there {'is' if len(shelf) == 1 else 'are'} {listed}.")
    if not found.is_shown:
        raise RefusedError(found.card()["remarks"][0])
    return found


def _points(given: Any, explored: Explored) -> tuple[Placed, ...]:
    if not isinstance(given, list):
        raise RefusedError(f"points is {_shown(given)}; give a list of objects with x, y and output.")
    if len(given) > MOST_POINTS:
        raise RefusedError(f"There are {count(len(given), 'point')}; {MOST_POINTS} are the most.")
    return tuple(_point(place, point, explored) for place, point in enumerate(given))


def _point(place: int, given: Any, explored: Explored) -> Placed:
    name = f"points[{place}]"
    if not isinstance(given, dict) or not {"x", "y"} <= set(given) <= {"x", "y", "output"}:
        raise RefusedError(f"{name} is {_shown(given)}; give an object with x, y and output.")
    x = _place(given, explored, name)
    y = _number(given, "y", None, least=-LARGEST_VALUE, most=LARGEST_VALUE, owner=name)
    return Placed(x, y, _whole(given, "output", 0, most=explored.outputs - 1, owner=name))


def _place(given: Mapping[str, Any], explored: Explored, name: str) -> float | tuple[float, float]:
    """Where a point is: a number, or for maps a pair of them."""
    ends = domain(explored.model)
    if len(ends) == 1:
        return _coordinate(given, "x", ends[0], name)
    pair = given["x"]
    if not isinstance(pair, list) or len(pair) != len(ends):
        raise RefusedError(f"{name}: x is {_shown(pair)}; give a list of two numbers.")
    named = {f"x{place}": value for place, value in enumerate(pair)}
    first, second = (_coordinate(named, key, end, name) for key, end in zip(named, ends, strict=True))
    return first, second


def _coordinate(fields: Mapping[str, Any], name: str, ends: tuple[float, float], owner: str) -> float:
    lower, upper = ends
    slack = BEYOND * (upper - lower)
    return _number(fields, name, None, least=lower - slack, most=upper + slack, owner=owner)


def _resolution(fields: Mapping[str, Any], explored: Explored) -> int:
    offered, usual = resolutions(explored.model)
    resolution = _whole(fields, "resolution", usual, most=offered[-1])
    if resolution not in offered:
        raise RefusedError(f"resolution is {resolution}; choose one of {', '.join(map(str, offered))}.")
    return resolution


def _noise_factor(fields: Mapping[str, Any], explored: Explored) -> float:
    factor = _number(fields, "noise_factor", 1.0, least=SMALLEST, most=LARGEST)
    if factor != 1 and not explored.card()["noise_scale"]:
        raise RefusedError(
            f"The noise of {explored.name!r} is no single scale and stays as it is; noise_factor must be 1."
        )
    return factor


def _moved(fields: Mapping[str, Any], explored: Explored) -> dict[int, float]:
    given = fields.get("moved", {})
    if not isinstance(given, dict):
        raise RefusedError(f"moved is {_shown(given)}; give an object of coordinates and how far each is moved.")
    if given and not explored.has_latents:
        raise RefusedError(explored.details()["without_latents"])
    size = len(explored.latents.centre) if given else 0
    moved = {}
    for name in given:
        if not (name.isascii() and name.isdecimal() and len(name) < 10 and int(name) < size):
            raise RefusedError(f"moved names coordinate {name[:40]!r}; there are {size}, counted from 0.")
        moved[int(name)] = _number(given, name, None, least=-FARTHEST, most=FARTHEST, owner="moved")
    return moved


def _number(
    fields: Mapping[str, Any], name: str, default: float | None, *, least: float, most: float, owner: str = ""
) -> float:
    value = fields.get(name, default)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # Integers of JSON have no bound, and those that are no float would raise in comparisons with one.
    if not (number and abs(value) <= LARGEST_VALUE and math.isfinite(value) and least <= value <= most):
        raise RefusedError(f"{_owned(owner, name)} is {_shown(value)}; give a number from {least:.6g} to {most:.6g}.")
    return float(value)


def _whole(fields: Mapping[str, Any], name: str, default: int, *, most: int, owner: str = "") -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise RefusedError(f"{_owned(owner, name)} is {_shown(value)}; give a whole number from 0 to {most}.")
    return value


def _truth(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise RefusedError(f"{name} is {_shown(value)}; give true or false.")
    return value


def _owned(owner: str, name: str) -> str:
    return f"{owner}: {name}" if owner else name


def _shown(value: Any) -> str:
    """The value as JSON, not longer than a sentence can bear."""
    text = json.dumps(value) if not isinstance(value, float) or math.isfinite(value) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
