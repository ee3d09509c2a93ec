"""The command: which grid its options ask for, what it prints and writes, and how it ends."""

import time

import numpy as np
import pandas as pd
import pytest
from benchmark_work import rows_of
from typer.testing import CliRunner

import febm.benchmark.command
import febm.benchmark.grid
from febm.benchmark import Cluster, Here, Processes, published
from febm.benchmark.folder import read_rows
from febm.benchmark.grid import GridResult
from febm.benchmark.summary import summarise_results
from febm.cli import app

PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "160"}


def call(*arguments):
    return CliRunner().invoke(app, ["benchmark", *map(str, arguments)], env=PLAIN)


@pytest.fixture
def no_report(monkeypatch):
    """No report, whether or not there is one to be written."""
    monkeypatch.setattr(febm.benchmark.command, "write_report", lambda out, results: None)


@pytest.fixture
def asked(monkeypatch, no_report):
    """What grids are asked for; nothing is computed."""
    calls = []

    def nothing(jobs, out, engine, *, progress):
        calls.append((jobs, engine, progress))
        return GridResult(pd.DataFrame(), (), 0, len(jobs))

    monkeypatch.setattr(febm.benchmark.command, "run_grid", nothing)
    return calls


@pytest.fixture
def fast(monkeypatch, no_report):
    """Jobs that take no time."""
    monkeypatch.setattr(febm.benchmark.grid, "run_task", rows_of)


QUICK = ("--quick", "--table", "prediction")


def test_several_words_are_given_by_commas_or_by_repeating(asked, tmp_path):
    for words in (("melbourne,stocks",), ("melbourne", "stocks"), ("melbourne, stocks", "melbourne")):
        options = [part for word in words for part in ("--datasets", word)]
        found = call("--table", "power", *options, "--models", "FEBM,FPCA", "--seeds", 2, "--out", tmp_path)
        assert found.exit_code == 0, found.output
    grids = [[job.name for job in jobs] for jobs, _, _ in asked]
    assert grids[0] == grids[1] == grids[2]
    assert len(grids[0]) == 2 * 2 * 2


def test_everything_is_the_default_with_five_seeds(asked, tmp_path):
    call("--out", tmp_path)
    call("--table", "all", "--out", tmp_path)
    (jobs, engine, progress), (again, _, _) = asked
    assert jobs == again == febm.benchmark.plan(seeds=5)
    assert (engine, progress) == (Here(), True)


def test_quick_is_two_models_on_one_data_set_unless_something_else_is_said(asked, tmp_path):
    call("--quick", "--out", tmp_path)
    call("--quick", "--models", "EBP", "--seeds", 2, "--out", tmp_path)
    (jobs, _, _), (others, _, _) = asked
    assert [job.name for job in jobs] == ["curves-FEBM-quadratic-default-0", "curves-FPCA-quadratic-default-0"]
    assert set(jobs[0].tables) == {"fit", "evidence", "power", "prediction", "calibration"}
    assert [job.name for job in others] == ["curves-EBP-quadratic-default-0", "curves-EBP-quadratic-default-1"]


def test_options_choose_the_engine(asked, tmp_path):
    call("--quick", "--workers", 3, "--out", tmp_path)
    call("--quick", "--scheduler", "tcp://127.0.0.1:8786", "--out", tmp_path)
    assert [engine for _, engine, _ in asked] == [Processes(3), Cluster("tcp://127.0.0.1:8786")]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--table", "scores"], "'scores'; choose one of 'power'"),
        (["--datasets", "weather"], "'weather'; choose one of"),
        (["--models", "FEBM,Kriging"], "'Kriging'; choose one of"),
        (["--recipe", "own"], "'own'; choose one of 'default', 'paper'"),
        (["--table", "priors", "--models", "FPCA"], "'priors' has"),
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "--workers and --scheduler are both given"),
        (["--seeds", "0"], "--seeds"),
        (["--workers", "0"], "--workers"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_a_sentence(asked, tmp_path, options, sentence):
    found = call("--out", tmp_path / "out", *options)
    assert found.exit_code == 2
    assert sentence in " ".join(found.output.replace("│", " ").split())
    assert asked == []
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_folder_is_refused(asked, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "scores").write_text("mine")
    found = call("--quick", "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert "stands in the way" in found.output
    assert asked == []


def test_the_main_results_and_the_paths_are_printed(fast, tmp_path):
    found = call(*QUICK, "--out", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "2 jobs computed, 0 there already, 0 failed" in found.output
    assert all(word in found.output for word in ("FEBM", "FPCA", "quadratic"))
    for name in ("results.csv", "results.parquet"):
        assert str(tmp_path / "out" / name) in found.output
        assert (tmp_path / "out" / name).exists()


def test_quiet_command_prints_nothing(fast, tmp_path):
    found = call(*QUICK, "--out", tmp_path, "--quiet")
    assert (found.exit_code, found.output) == (0, "")


def test_the_same_command_keeps_what_is_there(fast, tmp_path):
    call(*QUICK, "--out", tmp_path)
    assert "0 jobs computed, 2 there already" in call(*QUICK, "--out", tmp_path).output


def test_jobs_that_fail_make_the_command_fail_and_are_named(fast, tmp_path, monkeypatch):
    def failing(task):
        if task.job.model == "FPCA":
            raise ArithmeticError("it is unlucky")
        return rows_of(task)

    monkeypatch.setattr(febm.benchmark.grid, "run_task", failing)
    found = call(*QUICK, "--out", tmp_path, "--quiet")
    assert found.exit_code == 1
    assert "1 job failed" in found.output
    assert "curves-FPCA-quadratic-default-0: ArithmeticError: it is unlucky" in found.output
    assert set(read_rows(tmp_path / "results.csv").model) == {"FEBM"}


def test_a_stop_leaves_what_is_done_and_says_how_to_go_on(fast, tmp_path, monkeypatch):
    def stopped(task):
        if task.job.model == "FPCA":
            raise KeyboardInterrupt
        return rows_of(task)

    monkeypatch.setattr(febm.benchmark.grid, "run_task", stopped)
    found = call(*QUICK, "--out", tmp_path)
    assert found.exit_code == 130
    assert f"Stopped: 1 of 2 jobs are done and kept in {tmp_path}. Run the same command again to go on." in found.output
    assert set(read_rows(tmp_path / "results.csv").model) == {"FEBM"}


def test_a_scheduler_that_is_not_there_ends_the_command_with_a_sentence(fast, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("febm.benchmark.engines.CONNECT_SECONDS", 1)
    found = call(*QUICK, "--out", tmp_path, "--scheduler", "tcp://127.0.0.1:9")
    assert found.exit_code == 1
    assert "no Dask scheduler at 'tcp://127.0.0.1:9'" in found.output


def test_the_report_is_written_from_all_results_and_named(tmp_path, monkeypatch):
    def write_report(out, results):
        (out / "index.html").write_text(f"{len(results)} rows")
        return out / "index.html"

    monkeypatch.setattr(febm.benchmark.grid, "run_task", rows_of)
    monkeypatch.setattr(febm.benchmark.command, "write_report", write_report)
    found = call(*QUICK, "--out", tmp_path)
    assert found.exit_code == 0, found.output
    assert str(tmp_path / "index.html") in found.output
    assert (tmp_path / "index.html").read_text() == "6 rows"


def test_help_names_the_tables_and_every_option():
    shown = CliRunner().invoke(app, ["benchmark", "--help"], env=PLAIN).output
    for word in (
        *("--table", "--datasets", "--models", "--seeds", "--recipe", "--out", "--workers", "--scheduler", "--quick"),
        *febm.benchmark.experiments.TABLES,
        *febm.benchmark.experiments.DATASETS,
        *febm.benchmark.experiments.MODELS,
        "distributed",
    ):
        assert word in shown


def test_summary_sets_means_over_seeds_beside_the_published_numbers():
    row = dict(dataset="quadratic", model="Tilted", recipe="paper", split="", p="", n=0)
    results = pd.DataFrame(
        [
            row | dict(table="fit", seed=0, metric="seconds", value=10.0),
            row | dict(table="fit", seed=1, metric="seconds", value=20.0),
            row | dict(table="priors", seed=0, metric="power", n=10, value=0.1),
            row | dict(table="priors", seed=1, metric="power", n=10, value=0.3),
            row | dict(table="priors", seed=0, metric="power", n=50, value=1.0),
            row | dict(table="priors", seed=0, split="middle", p="1/4", metric="mse", value=0.04),
            row | dict(table="priors", seed=0, split="middle", p="1/2", metric="mse", value=0.06),
            row | dict(table="calibration", seed=0, p="0.9", metric="coverage", value=0.5),
        ]
    )
    (line,) = summarise_results(results).to_dict("records")
    assert (line["dataset"], line["model"], line["seeds"]) == ("quadratic", "Tilted", 2)
    assert line["cells"] == "1 of 2"  # the published errors are 0.044 and 0.008
    assert line["mse"] == pytest.approx(0.05)
    assert (line["power"], line["power_published"], line["seconds"]) == (pytest.approx(0.2), 0.08, 15.0)
    assert np.isnan(line["floor"])


@pytest.mark.slow
def test_quick_grid_takes_less_than_five_minutes_and_is_as_good_as_the_paper(tmp_path):
    started = time.monotonic()
    found = call("--quick", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    assert time.monotonic() - started < 300
    results = read_rows(tmp_path / "results.csv")
    assert set(results.table) == {"fit", "evidence", "power", "prediction", "calibration"}
    assert results.value.notna().all()
    lines = summarise_results(results).set_index("model")
    assert set(lines.index) == {"FEBM", "FPCA"}
    assert lines.loc["FEBM", "cells"] == "9 of 9"
    assert lines.loc["FEBM", "power"] < 0.15  # the share of 200 rejections, where 0.05 is what a perfect model has
    assert len(list((tmp_path / "models").iterdir())) == 2


def test_published_rows_fit_the_results(tmp_path, fast):
    call(*QUICK, "--out", tmp_path)
    assert set(published().columns) < set(read_rows(tmp_path / "results.csv").columns)
