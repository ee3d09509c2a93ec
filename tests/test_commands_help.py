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
