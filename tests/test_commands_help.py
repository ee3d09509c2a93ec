"""What the help of a command shows."""

import pytest
from command_tables import call

from febm.cli import COMMANDS


@pytest.mark.parametrize("command", ["", "benchmark", "demo", *COMMANDS])
def test_flags_show_no_value(command):
    found = call(*command.split(), "--help")
    assert found.exit_code == 0
    assert "--help" in found.output
    assert "bool" not in found.output.lower()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("sample model.febm", "febm sample: Missing option '--out'"),
        ("sample model.febm -o s.csv -n 0", "febm sample: Invalid value for '--number'"),
        ("fit data.csv -o m.febm --bogus", "febm fit: No such option: --bogus"),
        ("sampel", "febm: No such command 'sampel'"),
        ("--bogus", "febm: No such option: --bogus"),
    ],
)
def test_options_that_are_wrong_are_told_in_one_line(arguments, said):
    found = call(*arguments.split())
    assert found.exit_code == 2
    (line,) = found.stderr.splitlines()
    assert line.startswith(said)
    assert line.endswith(" --help has the options.")


def test_a_command_without_anything_shows_its_help():
    assert "Usage: febm" in call().output
