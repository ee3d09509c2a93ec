"""Commands that judge: `febm test`, `febm report`, `febm compare`; and `febm explore` and help."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
from command_tables import COLUMNS, PLAIN, answer, call, days, refusal
from typer.testing import CliRunner

import febm
import febm.reporting.subject
from febm.cli import COMMANDS, app
from febm.commands import comparing
from febm.commands.judging import judges
from febm.commands.options import TableForm
from febm.commands.terminal import Terminal
from febm.reporting.subject import ReportEffort

SMALL = ReportEffort(
    **dict(tested=20, kernels=("id",), permutations=39, power_sizes=(5,), power_kernels=("id",), trials=4),
    **dict(predicted=6, draws=19, splits=(("random", 1 / 2),), embedded=8, shown=4),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Curves on a common grid, others of the same kind and of another, and a model of the first."""
    folder = tmp_path_factory.mktemp("judging")
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 8)

    def write(name, slope):
        values = rng.normal(size=(40, 1)) * (1 + slope * grid) + 0.05 * rng.normal(size=(40, 8))
        febm.Curves.from_grid(grid, values).to_frame().to_csv(folder / name, index=False)

    write("a.csv", 0), write("alike.csv", 0), write("different.csv", 8)
    found = call("fit", folder / "a.csv", "-o", folder / "a.febm", "--model", "FPCA", "--hold-out", 0.5)
    assert found.exit_code == 0, found.output
    return folder


FEW = ("--kernel", "id,whitened", "--permutations", 99, "--size", 5, "--trials", 10)


def test_tables_of_one_kind_are_not_told_apart_and_others_are(folder):
    alike = answer("test", folder / "a.csv", folder / "alike.csv", *FEW)
    different = answer("test", folder / "a.csv", folder / "different.csv", *FEW)
    assert alike["pvalue"] > 0.05
    assert different["pvalue"] <= 0.02
    assert [row["kernel"] for row in alike["tests"]] == ["id", "whitened"]
    assert different["pvalue"] == min(row["corrected"] for row in different["tests"])


def test_power_stands_beside_its_floor(folder):
    row, *_ = answer("test", folder / "a.csv", folder / "different.csv", *FEW)["power"]
    assert (row["kernel"], row["n"]) == ("id", 5)
    assert row["power"] > row["floor"]


def test_no_power_is_computed_for_size_0(folder):
    pair = ("test", folder / "a.csv", folder / "alike.csv", "--kernel", "id", "--permutations", 19)
    assert answer(*pair, "--size", 0)["power"] == []


def test_a_model_is_sampled_at_the_points_of_the_table(folder):
    found = answer("test", folder / "a.febm", folder / "alike.csv", *FEW)
    assert found["curves"] == [40, 40]
    assert not found["reconstructed"]
    assert found["pvalue"] > 0.02


def test_a_model_is_tested_by_the_curves_that_were_held_out(folder):
    found = call("test", folder / "a.febm", folder / "a.csv", *FEW)
    assert "without 20 curves, which judge it here" in found.stderr
    assert "20 curves against 20" in found.stdout


def test_the_exit_code_says_a_difference_only_when_asked(folder):
    pair = ("test", folder / "a.csv", folder / "different.csv", *FEW)
    assert call(*pair).exit_code == 0
    assert call(*pair, "--fail-below", 0.05).exit_code == 3
    assert call("test", folder / "a.csv", folder / "alike.csv", *FEW, "--fail-below", 0.05).exit_code == 0


def test_a_person_reads_tests_and_power(folder):
    shown = call("test", folder / "a.csv", folder / "alike.csv", *FEW).stdout
    assert "40 curves against 40, at their common points" in shown
    assert "Smallest p-value, corrected for 2 kernels" in shown
    assert "at the level 5%" in shown
    assert "They differ" in call("test", folder / "a.csv", folder / "different.csv", *FEW).stdout


def test_one_curve_is_no_distribution_to_judge_by(folder, tmp_path):
    pd.read_csv(folder / "a.csv").head(8).to_csv(tmp_path / "one.csv", index=False)
    for pair in ((folder / "a.febm", tmp_path / "one.csv"), (tmp_path / "one.csv", folder / "a.csv")):
        for command in (("test",), ("report", "-o", tmp_path / "r.html")):
            assert "one.csv has 1 curve; a distribution needs at least 2" in refusal(*command, *pair, "--quiet")


def test_what_cannot_be_tested_is_refused(folder):
    assert "a model comes first" in refusal("test", folder / "a.csv", folder / "a.febm")
    assert "--kernel is 'rbf'" in refusal("test", folder / "a.csv", folder / "a.csv", "--kernel", "rbf", code=2)
    assert "--size is 1" in refusal("test", folder / "a.csv", folder / "a.csv", "--size", "1", code=2)


@pytest.fixture
def small_reports(monkeypatch):
    """Reports of hardly any work."""
    monkeypatch.setattr(febm.reporting.subject, "ReportEffort", lambda **settings: SMALL)


def test_a_report_is_one_page_and_the_curves_held_out_are_its_judges(folder, tmp_path, small_reports):
    found = call("report", folder / "a.febm", folder / "a.csv", "-o", tmp_path / "r.html")
    assert found.exit_code == 0, found.output
    assert "without 20 curves, which judge it here" in found.stderr
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert str(tmp_path / "r.html") in found.stdout
    assert "--force" in refusal("report", folder / "a.febm", folder / "a.csv", "-o", tmp_path / "r.html")


def test_a_quick_report_says_what_was_made_smaller(folder, tmp_path):
    found = call("report", folder / "a.csv", folder / "alike.csv", "-o", tmp_path / "r.html", "--quick")
    assert found.exit_code == 0, found.output
    assert "A quick look, with less work than usual: 200 instead of 500 curves" in found.stderr
    assert "A quick look, with less work than usual" in (tmp_path / "r.html").read_text()


def test_two_tables_are_reported_too_with_findings_for_a_program(folder, tmp_path, small_reports):
    found = answer("report", folder / "a.csv", folder / "different.csv", "-o", tmp_path / "r.html")
    assert {finding["topic"] for finding in found["findings"]} >= {"tests"}
    assert found["tests"][0]["pvalue"] <= 1


def test_curves_that_the_model_has_seen_are_no_judges_and_that_is_said(folder, tmp_path, capsys):
    answer("fit", folder / "a.csv", "-o", tmp_path / "m.febm", "--model", "FPCA")
    judges(tmp_path / "m.febm", folder / "a.csv", TableForm(), Terminal("report"))
    assert "warning: the model was fitted to these very curves" in capsys.readouterr().err
    judges(tmp_path / "m.febm", folder / "alike.csv", TableForm(), Terminal("report"))
    assert "warning" not in capsys.readouterr().err


def test_models_are_ranked_by_what_they_say_of_held_out_curves(folder, tmp_path):
    found = answer("compare", folder / "a.csv", "--models", "gaussianprocess,FPCA", "-o", tmp_path / "c.csv")
    assert found["curves"] == {"training": 32, "judging": 8}
    best, other = found["scores"]
    assert best["log_density"] >= other["log_density"]
    assert (best["behind"], best["behind_se"]) == (0, 0)
    assert other["behind"] == pytest.approx(best["log_density"] - other["log_density"])
    assert all(row[f"{name}_se"] > 0 for row in found["scores"] for name in ("log_density", "crps", "coverage_90"))
    table = pd.read_csv(tmp_path / "c.csv")
    assert table["model"].tolist() == [best["model"], other["model"]]
    assert (table["fit_seconds"] > 0).all()


@pytest.mark.parametrize("by", ["log_density", "crps", "mse"])
def test_the_score_that_ranks_is_among_those_shown(by):
    entry = comparing.Entry("FPCA", pd.DataFrame({name: [1.0, 3.0] for name in comparing.SCORES}), 1.0, 1.0)
    table, _ = comparing.shown_ranking(comparing.ranked([entry], by), by)
    headings = [column.header for column in table.columns]
    assert by.replace("_", " ") in headings
    assert len(headings) == len(set(headings))


def test_a_model_that_fails_leaves_the_others_and_the_exit_code_1(folder, monkeypatch):
    def fail(self, curves):
        raise ValueError("it cannot be\nfitted.")

    monkeypatch.setattr(febm.EBP, "fit", fail)
    found = call("compare", folder / "a.csv", "--models", "EBP,FPCA")
    assert found.exit_code == 1
    assert found.stderr.endswith("\nfebm compare: EBP failed: ValueError: it cannot be fitted.\n")
    assert found.stdout.index("FPCA") < found.stdout.index("EBP")


def test_all_models_are_compared_where_nothing_is_said(folder, monkeypatch):
    entered = []

    def enter(self, name, terminal, *, epochs):
        entered.append((name, epochs))
        return comparing.Entry(name, None, 0.0, 0.0)

    monkeypatch.setattr(comparing.Contest, "enter", enter)
    assert call("compare", folder / "a.csv", "--epochs", 3).exit_code == 0
    assert entered == [
        (name, 3) for name in ("FEBM", "FPCA", "GaussianProcess", "NeuralProcess", "PiVAE", "EBP", "VIP")
    ]


def test_curves_too_few_to_compare_by_are_refused(tmp_path):
    days(5).to_csv(tmp_path / "d.csv", index=False)
    assert "too few" in refusal("compare", tmp_path / "d.csv", *COLUMNS, "--quiet")


def test_explore_hands_its_options_and_curves_on(folder, tmp_path, monkeypatch):
    asked = []
    stand_in = types.ModuleType("febm.exploring.command")
    stand_in.Options = lambda **options: options
    stand_in.run_command = asked.append
    monkeypatch.setitem(sys.modules, "febm.exploring.command", stand_in)
    model, frame = folder / "a.febm", pd.read_csv(folder / "a.csv")
    curves = febm.Curves.from_frame(frame, curve="curve", x="x", y="y")
    frame.set_axis(["patient", "day", "dose"], axis=1).to_csv(tmp_path / "d.csv", index=False)
    columns = ("--curve", "patient", "--x", "day", "--y", "dose")
    shown = call("explore", model, model, "--port", 8000, "--no-browser", "--data", tmp_path / "d.csv", *columns)
    assert shown.exit_code == 0, shown.output
    assert call("explore", model).exit_code == 0
    assert asked == [
        {"models": (model, model), "port": 8000, "browser": False, "data": curves},
        {"models": (model,), "port": 0, "browser": True, "data": None},
    ]
    assert "does not exist" in refusal("explore", folder / "none.febm")


def test_help_says_what_there_is_and_how_commands_end():
    shown = CliRunner().invoke(app, ["--help"], env=PLAIN).output
    assert all(name in shown for name in (*COMMANDS, "demo", "benchmark"))
    assert "Exit codes" in shown
    assert "130" in shown


@pytest.mark.parametrize("command", ["demo", "benchmark"])
def test_a_folder_that_nothing_can_be_written_to_is_one_line(command, tmp_path, monkeypatch):
    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("febm.commands.targets.tempfile.TemporaryFile", refuse)
    line = refusal(command, "--out", tmp_path / "new")
    assert f"febm {command}: --out is '{tmp_path / 'new'}', but nothing can be written" in line


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_command_can_show_its_help_and_a_traceback(command):
    shown = CliRunner().invoke(app, [command, "--help"], env=PLAIN).output
    assert "FEBM_TRACEBACK" in shown
    assert ("--json" in shown) == (command != "explore")


def test_the_traceback_is_shown_by_the_environment_too(tmp_path):
    environment = {**PLAIN, "FEBM_TRACEBACK": "1"}
    found = CliRunner().invoke(app, ["info", str(tmp_path / "none.febm")], env=environment)
    assert found.exit_code == 1
    assert "Traceback (most recent call last)" in found.stderr
