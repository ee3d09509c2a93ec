"""`febm fit`: which curves, which model, what is written, and how a stopped fit goes on."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from command_tables import COLUMNS, answer, call, days, refusal, wide_days

import febm
from febm.progress import Silent
from febm.storage import read_header

# A model that trains, as small as it gets, so that its training takes no time.
TINY = (
    *("--model", "EBP", "--epochs", 8, "--set", "features=4", "--set", "stationary=4"),
    *("--set", "training.width=8", "--set", "training.depth=1"),
)


@pytest.fixture
def table(tmp_path):
    days().to_csv(tmp_path / "days.csv", index=False)
    return tmp_path / "days.csv"


def test_a_long_table_is_fitted_and_its_columns_are_remembered(table, tmp_path):
    found = answer("fit", table, "-o", tmp_path / "m.febm", "--model", "fpca", *COLUMNS, "--seed", 5)
    assert (found["model"], found["curves"], found["seed"]) == ("FPCA", 40, 5)
    assert febm.load(tmp_path / "m.febm").random_state == 5
    notes = read_header(tmp_path / "m.febm").notes
    assert (notes["columns"]["curve"], notes["columns"]["x"], notes["columns"]["y"]) == (["day"], ["hour"], ["demand"])
    assert notes["data"]["curves"] == 40


def test_a_wide_table_has_x_in_its_headers(tmp_path):
    wide_days().to_csv(tmp_path / "wide.csv", index=False)
    found = answer("fit", tmp_path / "wide.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", "--wide")
    assert (found["curves"], found["columns"]["curve"]) == (30, ["name"])
    np.testing.assert_array_equal(febm.load(tmp_path / "m.febm").grid_[:, 0], np.linspace(0, 24, 9))


def test_settings_reach_the_model_and_curves_are_held_out(table, tmp_path):
    found = answer(
        *("fit", table, "-o", tmp_path / "m.febm", "--model", "FPCA", *COLUMNS, "--hold-out", 0.25),
        *("--rank", "2", "--scaling", "none", "--set", "validation=0.3"),
    )
    model = febm.load(tmp_path / "m.febm")
    assert (model.rank, model.rank_, model.scaling, model.validation) == (2, 2, "none", 0.3)
    assert (found["curves"], found["held_out"]) == (30, 10)
    assert len(read_header(tmp_path / "m.febm").notes["data"]["held_out"]) == 10


def test_what_was_taken_and_what_was_left_out_is_said_on_stderr(tmp_path):
    void = pd.DataFrame({"day": "void", "hour": [1.0, 2.0], "demand": [np.nan, np.nan]})
    frame = pd.concat([days(), void]).rename(columns={"day": "id", "hour": "time", "demand": "value"})
    frame.to_csv(tmp_path / "d.csv", index=False)
    found = call("fit", tmp_path / "d.csv", "-o", tmp_path / "m.febm", "--model", "FPCA")
    assert found.exit_code == 0, found.output
    assert "(curve id; x time; y value)" in found.stderr
    assert "1 curve without any value is left out ('void')" in found.stderr
    assert "fitted to 40 curves" in found.stdout


def test_refusals_are_one_line_with_the_way_out(table, tmp_path):
    out = tmp_path / "m.febm"
    assert "'day', 'hour', 'demand'" in refusal("fit", table, "-o", out)
    assert "--y names column 'load'" in refusal("fit", table, "-o", out, *COLUMNS[:4], "--y", "load")
    assert "does not exist" in refusal("fit", tmp_path / "none.csv", "-o", out)
    assert "make it first" in refusal("fit", table, "-o", tmp_path / "no" / "m.febm")
    assert "is no table by its ending" in refusal("fit", __file__, "-o", out)
    assert "choose one of FEBM" in refusal("fit", table, "-o", out, "--model", "GAN", code=2)
    assert "--epochs is no setting of FPCA" in refusal(
        "fit", table, "-o", out, *COLUMNS, "--model", "FPCA", "--epochs", 3, "--quiet", code=2
    )
    assert not out.exists()


def test_numbers_that_are_none_are_refused_and_the_first_is_shown(tmp_path):
    frame = days().astype({"demand": object})
    frame.loc[7, "demand"] = "many"
    frame.to_csv(tmp_path / "d.csv", index=False)
    line = refusal("fit", tmp_path / "d.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", *COLUMNS, "--quiet")
    assert f"d.csv: column 'demand' has 1 value that is not a number, first 'many' in curve {frame.day[7]};" in line


def test_dates_as_x_are_refused_with_what_to_make_of_them(tmp_path):
    frame = days()
    frame["hour"] = (pd.Timestamp("2024-03-01") + pd.to_timedelta(frame["hour"], unit="h")).astype(str)
    frame.to_csv(tmp_path / "d.csv", index=False)
    line = refusal("fit", tmp_path / "d.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", *COLUMNS, "--quiet")
    assert "column 'hour' has" in line
    assert "first '2024-03-01" in line
    assert "turn dates into numbers, such as hours since the curve began" in line


def test_a_file_is_not_replaced_without_force_and_before_any_work(table, tmp_path, monkeypatch):
    out = tmp_path / "m.febm"
    out.write_text("precious")
    monkeypatch.setattr(febm.FPCA, "fit", lambda *arguments: pytest.fail("the work was begun"))
    assert "--force" in refusal("fit", table, "-o", out, *COLUMNS, "--model", "FPCA")
    assert out.read_text() == "precious"
    monkeypatch.undo()
    found = call("fit", table, "-o", out, *COLUMNS, "--model", "FPCA", "--force", "--resume")
    assert found.exit_code == 0, found.output
    assert "is not there; the fit begins at the beginning" in found.stderr
    assert isinstance(febm.load(out), febm.FPCA)


@contextlib.contextmanager
def stopped_after(epochs):
    """Training that is stopped by Ctrl-C after some epochs."""

    def report(row):
        if row["epoch"] >= epochs:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Silent, "task", lambda self, epochs, name="": contextlib.nullcontext(report))
        yield


def test_a_stopped_fit_explains_itself_and_goes_on_to_the_same_end(table, tmp_path):
    whole, part = tmp_path / "whole.febm", tmp_path / "part.febm"
    fit = ("fit", table, *COLUMNS, *TINY, "--quiet")
    assert call(*fit, "-o", whole).exit_code == 0
    with stopped_after(3):
        assert "part.febm.checkpoint'; the same command with --resume goes on" in refusal(*fit, "-o", part, code=130)
    checkpoint = tmp_path / "part.febm.checkpoint"
    assert checkpoint.exists()
    assert "go on from it with --resume, or begin anew with --force" in refusal(*fit, "-o", part)
    assert "another training" in refusal(*fit, "-o", part, "--resume", "--seed", 1)
    assert answer(*fit, "-o", part, "--resume")["resumed"]
    assert not checkpoint.exists()
    drawn = [febm.load(path).sample(5, random_state=0) for path in (whole, part)]
    assert drawn[0] == drawn[1]
    assert febm.load(part).checkpoint is None


def test_a_fit_that_is_stopped_before_it_has_trained_says_that_nothing_is_kept(table, tmp_path, monkeypatch):
    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(febm.FPCA, "fit", stopped)
    line = refusal("fit", table, "-o", tmp_path / "m.febm", *COLUMNS, "--model", "FPCA", "--quiet", code=130)
    assert "It had nothing to keep yet; the same command begins anew" in line


def test_force_keeps_a_checkpoint_until_there_is_a_fit_to_begin(table, tmp_path):
    checkpoint = tmp_path / "m.febm.checkpoint"
    checkpoint.write_text("of another fit")
    refusal("fit", table, "-o", tmp_path / "m.febm", "--curve", "week", "--force")
    assert checkpoint.exists()


def test_a_model_is_not_called_like_a_table(table, tmp_path):
    assert "name a model, such as model.febm" in refusal("fit", table, "-o", tmp_path / "m.csv", *COLUMNS)


def test_some_curves_are_left_to_learn_from(table, tmp_path):
    line = refusal("fit", table, "-o", tmp_path / "m.febm", *COLUMNS, "--model", "FPCA", "--hold-out", 0.99, "--quiet")
    assert "of 40 curves leaves none to learn from" in line


def test_force_begins_anew(table, tmp_path):
    (tmp_path / "m.febm.checkpoint").write_text("of another fit")
    assert not answer("fit", table, "-o", tmp_path / "m.febm", *COLUMNS, "--model", "FPCA", "--force")["resumed"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["days.csv", "m.febm"]
