"""`python -m febm` is the command `febm`."""

from febm.cli import app

if __name__ == "__main__":
    app(prog_name="febm")
