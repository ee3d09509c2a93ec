"""What `--at` stands for: ranges, lists, a grid of several inputs, or the points of a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from febm.checks import count
from febm.commands.columns import Columns
from febm.commands.tables import read_table
from febm.commands.targets import table_ending
from febm.commands.terminal import UsageError

if TYPE_CHECKING:
    from jaxtyping import Float64

MOST_POINTS = 10_000_000


def parse_points(given: Sequence[str] | None, names: Sequence[str]) -> Float64[np.ndarray, "points d_x"] | None:
    """The points that are asked for, a column for each of the inputs `names`; None where nothing is said."""
    if not given:
        return None
    if len(given) == 1 and (table_ending(Path(given[0])) is not None or Path(given[0]).is_file()):
        return _points_of_file(Path(given[0]), names)
    axes = list(given)
    if len(given) == 1 and ":" in given[0]:
        axes = given[0].split(",")
    if len(axes) != len(names):
        raise UsageError(
            f"--at is {', '.join(map(repr, given))}, but points have {count(len(names), 'input')} "
            f"({', '.join(names)}); give one range or list for each, such as {_example(len(names))}."
        )
    values = [_axis(axis) for axis in axes]
    size = math.prod(map(len, values))
    if size > MOST_POINTS:
        raise UsageError(f"--at asks for {size:,} points; {MOST_POINTS:,} are the most.")
    return np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(names))


def check_one_row(points: Float64[np.ndarray, "points d_x"] | None, columns: Columns) -> None:
    """Refuse what a row of a wide table cannot hold: several inputs or outputs, or a point twice."""
    if len(columns.x) > 1 or len(columns.y) > 1:
        raise ValueError(
            f"--wide needs one input and one output, and the model has x {', '.join(columns.x)} and "
            f"y {', '.join(columns.y)}; leave it out."
        )
    if points is not None and len(np.unique(points)) < len(points):
        places, times = np.unique(points, return_counts=True)
        raise ValueError(f"--at has {places[times > 1][0]:g} twice; with --wide, a point has one column.")


def _axis(text: str) -> Float64[np.ndarray, " points"]:
    parts = text.split(":")
    words = parts[:2] if len(parts) == 3 else [word for word in text.split(",") if word.strip()]
    try:
        size = int(parts[2]) if len(parts) == 3 else len(words)
        numbers = np.array([float(word) for word in words])
    except ValueError:
        size, numbers = 0, np.array([])
    if size < 1 or not np.isfinite(numbers).all():
        raise UsageError(
            f"--at has {text!r}; give start:stop:count, where the third is how many points (0:24:241), numbers with "
            "commas, or a table of points."
        )
    return np.linspace(numbers[0], numbers[1], min(size, MOST_POINTS + 1)) if len(parts) == 3 else numbers


def _points_of_file(path: Path, names: Sequence[str]) -> Float64[np.ndarray, "points d_x"]:
    frame = read_table(path)
    if set(names) <= set(frame.columns):
        frame = frame[list(names)]
    elif len(frame.columns) != len(names):
        raise ValueError(
            f"{path.name}: --at needs the columns {', '.join(map(repr, names))}; "
            f"its columns are {', '.join(map(repr, frame.columns))}."
        )
    try:
        points = frame.to_numpy(dtype=float)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path.name}: --at needs numbers ({error}); drop or fix the others.") from error
    if not np.isfinite(points).all():
        raise ValueError(f"{path.name}: --at has points that are missing or infinite; drop or fix them.")
    return points[np.sort(np.unique(points, axis=0, return_index=True)[1])]


def _example(inputs: int) -> str:
    return "0:24:241" if inputs == 1 else ",".join(["0:1:28"] * inputs)
