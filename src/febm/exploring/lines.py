"""The Python lines that give the numbers on the page again."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from febm.exploring.numerics import (
    DRAWS,
    PRIOR_DRAWS,
    Placed,
    Question,
    domain,
    draws_of,
    outputs_of,
    quick_effort,
    resolutions,
)
from febm.exploring.room import needs_room
from febm.inference import Effort
from febm.models.base import Process


def python_lines(
    path: Path, model: Process, question: Question, *, shown: int = DRAWS, moved: Mapping[int, float] | None = None
) -> str:
    """Lines that end with `at`, `mean`, `lower`, `upper` and `draws`, and `curve` where a latent was `moved`."""
    imports = ["import numpy as np", "", "import febm"]
    model_lines = [f"model = febm.load({str(path)!r})"]
    if moved:
        imports.append("from febm.exploring import latent_curve")
    if question.noise_factor != 1:
        imports.append("from febm.exploring import with_noise")
        model_lines.append(f"model = with_noise(model, {question.noise_factor!r})")
    effort = quick_effort(model)
    if question.points and effort is not None and not question.full_effort:
        imports.append("from febm.inference import Effort")
        model_lines.append("# The page does less work than the model was told to; leave this out to have it all.")
        model_lines.append(f"model.set_params(effort={_written(effort)})")
    if question.points and needs_room(model):
        imports.append("from febm.exploring import with_room")
    shown = min(shown, draws_of(model))
    shown_lines = _posterior(model, question, shown) if question.points else _prior(question, shown)
    if moved:
        steps = ", ".join(f"{coordinate}: {value!r}" for coordinate, value in sorted(moved.items()))
        shown_lines.append(f"curve = latent_curve(model, {{{steps}}}, at)[:, {question.output}]")
    return "\n".join([*imports, "", *model_lines, *_grid(model, question), *shown_lines]) + "\n"


def _grid(model: Process, question: Question) -> list[str]:
    ends = domain(model)
    size = question.resolution or resolutions(model)[1]
    if len(ends) == 1:
        lower, upper = ends[0]
        return [f"at = np.linspace({lower!r}, {upper!r}, {size})"]
    corner, sides = [lower for lower, _ in ends], [upper - lower for lower, upper in ends]
    return [f"at = np.array({corner!r}) + np.array({sides!r}) * febm.grid2d({size}, {size})"]


def _written(effort: Effort) -> str:
    """The effort by what is not as usual."""
    usual = Effort()
    names = [field.name for field in dataclasses.fields(effort)]
    said = [f"{name}={getattr(effort, name)!r}" for name in names if getattr(effort, name) != getattr(usual, name)]
    return f"Effort({', '.join(said)})"


def _posterior(model: Process, question: Question, shown: int) -> list[str]:
    noise = ", noise=True" if question.noise else ""
    seed, output, draws = question.seed, question.output, draws_of(model)
    return [
        *_context(question.points, outputs_of(model)),
        *_room(model),
        f"posterior = model.condition(context, random_state={seed})",
        f"mean = posterior.mean(at)[0, :, {output}]",
        f"lower, upper = (end[0, :, {output}] for end in posterior.interval(at, {question.level!r}{noise}))",
        f"draws = posterior.sample({draws}, at{noise}, random_state={seed})",
        f"draws = draws.y[:, {output}].reshape({draws}, -1)[:{shown}]",
    ]


def _room(model: Process) -> list[str]:
    if not needs_room(model):
        return []
    return [
        "# The page has room for more points; leave this out to have other draws of the same posterior.",
        "context = with_room(model, context)",
    ]


def _prior(question: Question, shown: int) -> list[str]:
    noise = ", noise=True" if question.noise else ""
    tails = (1 - question.level) / 2, (1 + question.level) / 2
    return [
        f"draws = model.sample({PRIOR_DRAWS}, at{noise}, random_state={question.seed})",
        f"draws = draws.y[:, {question.output}].reshape({PRIOR_DRAWS}, -1)",
        "mean = draws.mean(axis=0)",
        f'lower, upper = np.quantile(draws, [{tails[0]!r}, {tails[1]!r}], axis=0, method="weibull")',
        f"draws = draws[:{shown}]",
    ]


def _context(points: tuple[Placed, ...], outputs: int) -> list[str]:
    places = ", ".join(repr(list(point.x) if isinstance(point.x, tuple) else point.x) for point in points)
    if outputs == 1:
        values = ", ".join(repr(point.y) for point in points)
        return _wrapped(places, values)
    rows = [
        "[" + ", ".join(repr(point.y) if output == point.output else "np.nan" for output in range(outputs)) + "]"
        for point in points
    ]
    return _wrapped(places, ", ".join(rows))


def _wrapped(places: str, values: str) -> list[str]:
    return [f"x = [{places}]", f"y = [{values}]", "context = febm.Curves.from_arrays([x], [y])"]
