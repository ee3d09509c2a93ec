"""The installed command, from a table to a report, with no Python written."""

import json
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import pandas as pd
import pytest
from command_tables import COLUMNS, days

ROOT = Path(__file__).parent.parent
FEBM = Path(sys.executable).with_name("febm")


def run(*arguments, command=FEBM, code=0):
    """The object that the installed command prints with --json."""
    done = subprocess.run(
        [str(part) for part in (command, *arguments, "--json")], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def walk_through(folder, *, curves, settings=(), command=FEBM, report=()):
    """Fit, sample, impute and report on a table of ragged curves with a fifth of the values missing."""
    table = days(curves)
    table.to_csv(folder / "days.csv", index=False)
    model, data = folder / "days.febm", folder / "days.csv"
    fitted = run("fit", data, "-o", model, *COLUMNS, "--hold-out", 0.2, *settings, command=command)
    assert fitted["curves"] == round(0.8 * curves)
    run("sample", model, "-n", 100, "--at", "0:24:241", "-o", folder / "new.csv", command=command)
    assert len(pd.read_csv(folder / "new.csv")) == 100 * 241
    run("impute", model, data, "-o", folder / "filled.csv", "--level", 0.9, command=command)
    filled = pd.read_csv(folder / "filled.csv")
    assert len(filled) == table["demand"].isna().sum()
    assert (filled["lower"] <= filled["mean"]).all()
    assert (filled["mean"] <= filled["upper"]).all()
    told = run("report", model, data, "-o", folder / "report.html", *report, command=command)
    assert told["findings"]
    assert (folder / "report.html").stat().st_size > 10_000
    return told


def test_help_of_the_installed_command_does_not_wait_for_jax():
    code = "import sys; from febm.cli import app; assert not {'jax', 'pandas', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_package_runs_as_the_command_does():
    commands = ([FEBM], [sys.executable, "-m", "febm"])
    first, second = (subprocess.run([*one, "--help"], capture_output=True, text=True, check=True) for one in commands)
    assert "Usage: febm " in first.stdout
    assert first.stdout == second.stdout


HEAVY = ("jax", "sklearn", "scipy", "matplotlib", "equinox")


def test_what_is_wrong_with_files_columns_and_points_is_said_before_anything_heavy_is_imported(tmp_path):
    table, model, new = tmp_path / "days.csv", tmp_path / "m.febm", tmp_path / "new.csv"
    days(20).to_csv(table, index=False)
    run("fit", table, "-o", model, "--model", "FPCA", *COLUMNS)
    wrong = (*COLUMNS[:4], "--y", "load")
    days(3, missing=0.0).to_csv(tmp_path / "full.csv", index=False)
    days(3).assign(demand="much").to_csv(tmp_path / "text.csv", index=False)
    days(1).to_csv(tmp_path / "one.csv", index=False)
    (tmp_path / "none.febm").write_text("no model")
    cases = {
        "column 'load', which is not there": [
            ("fit", table, "-o", tmp_path / "n.febm", *wrong),
            ("impute", model, table, "-o", new, *wrong),
            ("report", model, table, "-o", tmp_path / "r.html", *wrong),
            ("test", table, table, *wrong),
            ("compare", table, *wrong),
            ("explore", model, "--data", table, *wrong),
        ],
        "does not exist": [
            ("fit", tmp_path / "no.csv", "-o", tmp_path / "n.febm"),
            ("impute", model, tmp_path / "no.csv", "-o", new),
            ("report", tmp_path / "no.febm", table, "-o", tmp_path / "r.html"),
            ("sample", model, "-o", new, "--at", tmp_path / "no.csv"),
        ],
        "--force": [
            ("fit", table, "-o", model, *COLUMNS),
            ("sample", model, "-o", table),
            ("impute", model, table, "-o", table),
            ("compare", table, *COLUMNS, "-o", table),
        ],
        "--at has": [("sample", model, "-o", new, "--at", "1:2"), ("impute", model, table, "-o", new, "--at", "a,b")],
        "not numbers": [("fit", tmp_path / "text.csv", "-o", tmp_path / "n.febm", *COLUMNS)],
        "is missing; leave y empty": [("impute", model, tmp_path / "full.csv", "-o", new)],
        "has 1 curve": [("report", model, tmp_path / "one.csv", "-o", tmp_path / "r.html")],
        "is not a febm model": [("info", tmp_path / "none.febm"), ("sample", tmp_path / "none.febm", "-o", new)],
    }
    called = [[str(word) for word in call] for calls in cases.values() for call in calls]
    sentences = [sentence for sentence, calls in cases.items() for _ in calls]
    code = f"""
import sys
from typer.testing import CliRunner
from febm.cli import app
for call, sentence in zip({called!r}, {sentences!r}, strict=True):
    found = CliRunner().invoke(app, call)
    assert found.exit_code in (1, 2) and sentence in found.stderr.splitlines()[-1], (call, found.output)
    assert not set({HEAVY!r}) & set(sys.modules), (call, set({HEAVY!r}) & set(sys.modules))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_of_the_installed_command_are_one_line_and_stdout_stays_empty(tmp_path):
    done = subprocess.run([FEBM, "info", tmp_path / "none.febm", "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"febm info: '{tmp_path / 'none.febm'}' does not exist; name a file that does.\n"


def test_a_table_is_fitted_sampled_and_imputed_from_the_shell(tmp_path):
    days(60).to_csv(tmp_path / "days.csv", index=False)
    run("fit", tmp_path / "days.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", *COLUMNS)
    run("sample", tmp_path / "m.febm", "-n", 3, "--at", "1:20:5", "-o", tmp_path / "new.parquet")
    assert list(pd.read_parquet(tmp_path / "new.parquet").columns) == ["day", "hour", "demand"]
    run("impute", tmp_path / "m.febm", tmp_path / "days.csv", "-o", tmp_path / "filled.csv")
    assert len(pd.read_csv(tmp_path / "filled.csv")) == days(60)["demand"].isna().sum()


@pytest.mark.slow
def test_500_ragged_curves_go_from_a_table_to_a_report_in_five_minutes(tmp_path):
    started = time.perf_counter()
    walk_through(tmp_path, curves=500)
    assert time.perf_counter() - started < 300


@pytest.mark.slow
def test_a_fresh_installation_does_the_same(tmp_path):
    venv.create(tmp_path / "fresh", with_pip=True)
    python = tmp_path / "fresh" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", ROOT], check=True)
    walk_through(
        tmp_path, curves=60, settings=("--model", "FPCA"), command=python.with_name("febm"), report=("--quick",)
    )


@pytest.mark.slow
def test_a_fit_that_is_interrupted_goes_on_with_resume(tmp_path):
    days(60).to_csv(tmp_path / "days.csv", index=False)
    checkpoint = tmp_path / "m.febm.checkpoint"
    fit = ("fit", tmp_path / "days.csv", "-o", tmp_path / "m.febm", *COLUMNS)
    process = subprocess.Popen([str(part) for part in (FEBM, *fit)], stderr=subprocess.PIPE, text=True)
    while not checkpoint.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].endswith("the same command with --resume goes on.")
    assert "--resume" in run(*fit, code=1)
    assert run(*fit, "--resume")["resumed"]
    assert not checkpoint.exists()
