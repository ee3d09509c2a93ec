"""Every example runs in small, and leaves its picture."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
LESSONS = sorted(
    path.name for path in EXAMPLES.glob("*.py") if "from lesson import" in path.read_text(encoding="utf-8")
)


def test_there_are_examples():
    assert {"growth.py", "demand_day.py", "choose_model.py", "custom_kernel.py", "counts.py", "scikit_learn.py"} <= set(
        LESSONS
    )


@pytest.mark.parametrize("name", LESSONS)
def test_an_example_runs_in_small(name, tmp_path, monkeypatch, capsys):
    open_before = plt.get_fignums()
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [name, "--small", "--out", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert (tmp_path / name).with_suffix(".png").stat().st_size > 5000
    assert "The picture is" in capsys.readouterr().out
    assert plt.get_fignums() == open_before


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in LESSONS if f"[{name}]({name})" not in listed] == []
