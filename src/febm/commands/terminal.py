"""How a command speaks and ends: results on stdout, all else on stderr, one line for an error, and a code.

| code | what happened |
| --- | --- |
| 0 | all went well |
| 1 | the data, a file or a setting was refused, or a part of the work failed; one line on stderr says which |
| 2 | the command line itself is wrong: an unknown option, or a value that the option does not take |
| 3 | `febm test --fail-below`: the two samples differ |
| 130 | stopped by Ctrl-C |
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

FINE, REFUSED, USAGE, DIFFERENT, INTERRUPTED = 0, 1, 2, 3, 130

FILE_WIDTH = 200  # in a file or a pipe, where nothing need be cut to fit a screen

EPILOG = (
    "Exit codes: 0 all went well, 1 data or a file was refused (one line on stderr says why), 2 the command line is "
    "wrong, 3 febm test --fail-below found a difference, 130 stopped by Ctrl-C."
)
# Sentences that febm, or the system, wrote for the user; any other exception is a surprise, and says its kind.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, NotImplementedError)


class UsageError(Exception):
    """Options that contradict each other, or a value that an option does not take."""


@dataclasses.dataclass
class Terminal:
    """Where a command speaks: to a person, to a program (`as_json`), or, `quiet`, to nobody."""

    command: str
    as_json: bool = False
    quiet: bool = False
    way_on: Callable[[], str] = lambda: ""  # what to do after Ctrl-C

    def say(self, text: str) -> None:
        """One line for a person, on stderr."""
        if not self.quiet:
            typer.echo(one_line(text), err=True)

    def show(self, result: Mapping[str, Any], *shown: RenderableType) -> None:
        """The result, on stdout: one JSON object for a program, else what a person wants to see of it."""
        if self.as_json:
            typer.echo(json.dumps(plain(result), ensure_ascii=False, allow_nan=False))
        elif not self.quiet:
            from rich.console import Console

            console = Console()
            if not console.is_terminal:
                console.width = FILE_WIDTH
            for part in shown:
                # Paths and names are printed raw: they may hold brackets, and must survive being copied.
                console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))


@contextlib.contextmanager
def speaking(command: str, *, as_json: bool, quiet: bool, with_traceback: bool) -> Iterator[Terminal]:
    """Run a command: warnings and errors become single lines on stderr, and an error its exit code."""
    terminal = Terminal(command, as_json=as_json, quiet=quiet)
    said: set[str] = set()

    def warn(message: Warning | str, *where: Any, **more: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            terminal.say(f"warning: {message}")

    try:
        with warnings.catch_warnings():
            warnings.showwarning = warn  # type: ignore[assignment]
            yield terminal
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except UsageError as error:
        typer.echo(one_line(f"febm {command}: {error} febm {command} --help has the options."), err=True)
        raise typer.Exit(USAGE) from None
    except KeyboardInterrupt:
        typer.echo(one_line(f"febm {command}: stopped. {terminal.way_on()}"), err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if with_traceback:
            typer.echo(traceback.format_exc(), err=True, nl=False)
        typer.echo(one_line(f"febm {command}: {_sentence(error).removeprefix(f'{command}: ')}"), err=True)
        raise typer.Exit(REFUSED) from None


def one_line(text: str) -> str:
    """The text without breaks."""
    return " ".join(text.split())


def plain(value: Any) -> Any:
    """What JSON can hold: values of NumPy and paths as those of Python, and null for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # an array, or a scalar of NumPy
        return plain(value.tolist())
    return str(value)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError):
        return "there is not enough memory; take fewer curves or points at a time."
    text = str(error) or type(error).__name__
    if isinstance(error, _EXPECTED):
        return text
    return f"unexpected {type(error).__name__}: {text.rstrip('.')}; --traceback shows where."
