"""`python -m febm` is the command `febm`."""

from febm.cli import app

app(prog_name="febm")
