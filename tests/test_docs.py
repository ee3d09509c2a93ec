"""What the documentation shows is so: its Python runs, its commands run, its examples give what they say."""

import doctest
import importlib
import re
import shlex

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from contract import BRIEFEST, LEAST_EFFORT, SMALLEST, waves
from pages import ROOT, blocks, run
from typer.testing import CliRunner

import febm
from febm.datasets import Dataset
from febm.inference import Effort
from febm.models.feature_process import FeatureTraining
from febm.models.settings import Networks
from febm.neural_process_networks import Architecture
from febm.reporting import ReportEffort
from febm.tilting import TiltTraining
from febm.training import Optimisation

PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md")]
    if blocks(page)
)
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
# A quick look: what is shown runs as it stands, with less work behind it.
IN_SMALL = {
    febm.FEBM: dict(
        rank=4,
        remainder=False,
        components=2,
        tilt=TiltTraining(steps=20, width=8, blocks=2, proposals=256),
        effort=Effort(draws=64, proposals=128),
        progress=False,
    ),
    febm.EBP: dict(
        features=8, training=FeatureTraining(width=8, waves=2, optimisation=Optimisation(epochs=3)), progress=False
    ),
    febm.VIP: dict(functions=4, latent_dim=2, training=SMALLEST),
    febm.PiVAE: dict(rank=1, networks=Networks(width=4, depth=1), optimisation=BRIEFEST, effort=LEAST_EFFORT),
    febm.NeuralProcess: dict(
        latent_dim=2,
        architecture=Architecture(width=4, depth=1),
        samples=1,
        repeats=1,
        optimisation=BRIEFEST,
        draws=8,
        proposals=16,
    ),
}
LITTLE = ReportEffort(
    kernels=("id",),
    permutations=19,
    power_sizes=(5,),
    power_kernels=("id",),
    trials=5,
    predicted=5,
    draws=32,
    splits=(("middle", 1 / 2),),
    embedded=10,
    shown=5,
    chains=False,
)


def days(count=30):
    """A long table of days that were each seen at some hours."""
    hours = np.linspace(0, 24, 13)
    rows = [
        (day, hour, 10 + level * np.sin(hour / 4))
        for day, level in enumerate(np.random.default_rng(0).normal(size=count))
        for hour in hours
    ]
    return pd.DataFrame(rows, columns=["day", "hour", "demand"])


def table_of_days():
    return {"df": days(), "held_out": febm.Curves.from_frame(days(), curve="day", x="hour", y="demand")[:10]}


def curves_to_choose_a_model_for():
    return {"febm": febm, "curves": waves(30, 10)}


# The tutorial makes so many days.
FEWER = ("range(160)", "range(30)")
# What a page takes for granted.
GIVEN = {
    "README.md": table_of_days,
    "docs/index.md": table_of_days,
    "docs/models.md": curves_to_choose_a_model_for,
}


@pytest.fixture
def in_small(monkeypatch, tmp_path):
    """The defaults of the library, with less work behind them, in a folder of its own."""
    for model, defaults in IN_SMALL.items():
        for name, value in defaults.items():
            monkeypatch.setitem(model.__init__.__kwdefaults__, name, value)
    monkeypatch.setitem(febm.report.__kwdefaults__, "effort", LITTLE)
    monkeypatch.setattr("febm.reporting.subject.ReportEffort", lambda **given: LITTLE)  # where the command finds it
    small = Dataset(waves(30, 10), waves(110, 10, seed=1), "waves", "made here", "none")
    monkeypatch.setattr("febm.datasets.load_melbourne", lambda random_state: small)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page, in_small):
    given = GIVEN.get(page, dict)()
    assert run(ROOT / page, {"__name__": "__page__", **given}, changed=dict([FEWER]))


def test_the_commands_of_the_tutorial_run(in_small):
    from febm.cli import app

    page = ROOT / "docs" / "tutorial.md"
    exec(blocks(page)[0].text.replace(*FEWER), {})
    lines = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "febm"
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{line}: {result.output}"


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_give_what_they_say(name, in_small):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test)
    assert runner.failures == 0


def test_every_public_name_shows_an_example():
    errors = {name for name in febm.__all__ if name.endswith("Error")}
    silent = {name for name in febm.__all__ if ">>> " not in (getattr(febm, name).__doc__ or "")}
    assert silent == errors | {"__version__"}


def reference(kind):
    """The names that the pages of the API reference document, by module."""
    found = {}
    for page in (ROOT / "docs" / "api").glob("*.md"):
        module = None
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = match[1]
            elif match := re.match(kind, line):
                found.setdefault(module, set()).add(match[1])
    return found


DOCUMENTED = reference(r"\.\. auto(?:class|function|exception|data):: (\w+)")


def test_every_public_name_is_in_the_reference():
    elsewhere = {"__version__", "report", "two_sample_test"}  # the last two under their own rooms
    assert set(febm.__all__) - elsewhere == DOCUMENTED["febm"]


@pytest.mark.parametrize("room", ["basis", "datasets", "evaluation", "plotting", "reporting"])
def test_every_public_name_of_a_room_is_in_the_reference(room):
    assert set(importlib.import_module(f"febm.{room}").__all__) == DOCUMENTED[f"febm.{room}"]


@pytest.mark.parametrize("room", ["kernels", "likelihoods", "priors"])
def test_every_class_of_a_room_is_in_the_reference(room):
    module = importlib.import_module(f"febm.{room}")
    classes = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert classes - {"Parts", "Sum", "Product"} <= DOCUMENTED[f"febm.{room}"]


def test_every_command_is_on_the_page_of_the_command_line(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    command_line = importlib.import_module("command_line")
    assert ("fit",) in command_line.commands()
    for words in command_line.commands():
        assert "Usage: febm " + " ".join(words) in command_line.help_of(words)


def test_links_between_pages_lead_somewhere():
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        if "_build" in page.parts:
            continue
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert missing == []
