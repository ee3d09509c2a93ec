"""How a command speaks and ends."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import typer

from febm.commands.tabulating import as_rich_table
from febm.commands.terminal import UsageError, plain, speaking


def run(action, *, as_json=False, quiet=False, with_traceback=False):
    with speaking("fit", as_json=as_json, quiet=quiet, with_traceback=with_traceback) as terminal:
        action(terminal)


def ended(action, **how):
    with pytest.raises(typer.Exit) as ending:
        run(action, **how)
    return ending.value.exit_code


def fail(error):
    def action(terminal):
        raise error

    return action


def test_an_error_is_one_line_on_stderr_and_code_1(capsys):
    assert ended(fail(ValueError("Curves: x is wrong;\n  mend it."))) == 1
    assert capsys.readouterr() == ("", "febm fit: Curves: x is wrong; mend it.\n")


def test_a_sentence_that_names_the_command_does_not_name_it_twice(capsys):
    assert ended(fail(ValueError("fit: 2 curves are too few."))) == 1
    assert capsys.readouterr().err == "febm fit: 2 curves are too few.\n"


def test_misuse_is_one_line_and_code_2(capsys):
    assert ended(fail(UsageError("--at is nonsense."))) == 2
    assert capsys.readouterr().err == "febm fit: --at is nonsense. febm fit --help has the options.\n"


def test_a_surprise_says_its_kind_and_how_to_see_more(capsys):
    assert ended(fail(KeyError("width"))) == 1
    assert capsys.readouterr().err == "febm fit: unexpected KeyError: 'width'; --traceback shows where.\n"


def test_a_missing_file_is_named(capsys):
    assert ended(fail(FileNotFoundError(2, "No such file or directory", "a.csv"))) == 1
    assert capsys.readouterr().err == "febm fit: a.csv: No such file or directory.\n"


def test_the_traceback_is_shown_when_asked_for(capsys):
    assert ended(fail(ValueError("wrong.")), with_traceback=True) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last)")
    assert shown.endswith("febm fit: wrong.\n")


def test_ctrl_c_is_one_line_and_code_130_with_the_way_on(capsys):
    def stopped(terminal):
        terminal.way_on = lambda: "Run it again."
        raise KeyboardInterrupt

    assert ended(stopped) == 130
    assert capsys.readouterr() == ("", "febm fit: stopped. Run it again.\n")


def test_a_table_that_goes_to_a_file_is_not_cut_to_a_screen(capsys):
    frame = pd.DataFrame({name: ["w" * 20] for name in "abcdef"})
    run(lambda terminal: terminal.show({}, as_rich_table(frame, {})))
    assert capsys.readouterr().out.count("w" * 20) == 6


def test_a_program_gets_one_object_and_a_person_what_is_to_be_seen(capsys):
    result = {"a": np.float64(1.5), "b": np.array([1, 2]), "c": float("nan")}
    run(lambda terminal: terminal.show(result, "seen"), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"a": 1.5, "b": [1, 2], "c": None}
    run(lambda terminal: terminal.show(result, "[seen]"))
    assert capsys.readouterr().out == "[seen]\n"


def test_quiet_leaves_errors_and_the_object_only(capsys):
    def talk(terminal):
        terminal.say("something")
        terminal.show({"a": 1}, "seen")

    run(talk, quiet=True)
    assert capsys.readouterr() == ("", "")
    run(talk, quiet=True, as_json=True)
    assert capsys.readouterr() == ('{"a": 1}\n', "")
    assert ended(fail(ValueError("wrong.")), quiet=True) == 1
    assert capsys.readouterr().err == "febm fit: wrong.\n"


def test_a_warning_is_one_line_on_stderr_once(capsys):
    def warn(terminal):
        warnings.simplefilter("always")
        for _ in range(3):
            warnings.warn("points lie\noutside.", stacklevel=1)

    run(warn)
    assert capsys.readouterr() == ("", "warning: points lie outside.\n")


def test_plain_keeps_what_json_holds_and_turns_the_rest_into_it(tmp_path):
    value = {"n": np.int64(3), "x": [np.float32(0.5), np.inf], 1: (True, None), "path": tmp_path}
    assert plain(value) == {"n": 3, "x": [0.5, None], "1": [True, None], "path": str(tmp_path)}
