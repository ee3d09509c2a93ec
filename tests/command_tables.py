"""Small tables for tests of the command line, and the command called in this process."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from febm.cli import app

PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "160"}


def call(*arguments):
    """Run `febm` with these arguments here."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=PLAIN)


def answer(*arguments):
    """The object that a command prints with --json; it must be all that is on stdout."""
    found = call(*arguments, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def refusal(*arguments, code=1):
    """The one line on stderr of a command that is refused."""
    found = call(*arguments)
    assert found.exit_code == code, found.output
    assert found.stdout == ""
    lines = found.stderr.splitlines()
    assert len(lines) == 1, found.stderr
    return lines[0]


def days(count=40, seed=0, missing=0.2):
    """A long table of ragged curves of two kinds: day, hour, demand, with empty demands."""
    rng = np.random.default_rng(seed)
    parts = []
    for day in range(count):
        hour = np.sort(rng.uniform(0, 24, rng.integers(12, 20))).round(3)
        kind = rng.choice([-1.0, 1.0])
        demand = 10 + kind * np.sin(np.pi * hour / 12 + 0.2 * rng.normal()) + 0.1 * rng.normal(size=len(hour))
        demand[1:][rng.uniform(size=len(hour) - 1) < missing] = np.nan
        parts.append(pd.DataFrame({"day": f"d{day}", "hour": hour, "demand": demand.round(4)}))
    return pd.concat(parts, ignore_index=True)


def wide_days(count=30, points=9, seed=0):
    """The same kind of curves, one a row."""
    rng = np.random.default_rng(seed)
    hours = np.linspace(0, 24, points)
    values = 10 + rng.normal(size=(count, 1)) * np.sin(np.pi * hours / 12) + 0.05 * rng.normal(size=(count, points))
    values[rng.uniform(size=values.shape) < 0.1] = np.nan
    values[:, 0] = 10.0
    frame = pd.DataFrame(values.round(4), columns=[repr(float(hour)) for hour in hours])
    frame.insert(0, "name", [f"w{row}" for row in range(count)])
    return frame


COLUMNS = ("--curve", "day", "--x", "hour", "--y", "demand")
