"""What Typer shows, in our manner: flags without a type in the help, and wrong options in one line with the way out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from febm.commands.terminal import USAGE, one_line


class _PlainFlags:
    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """A command."""


class Group(_PlainFlags, TyperGroup):
    """The command that has all others."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the options in front of a command."""
        with _one_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Read the options of a command and run it."""
        with _one_line():
            return super().invoke(ctx)


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # By what they have, not by their class: some versions of Typer bring errors of their own.
        is_wrong_use = hasattr(error, "format_message") and getattr(error, "exit_code", None) == USAGE
        if not is_wrong_use or type(error).__name__ == "NoArgsIsHelpError":
            raise
        context = getattr(error, "ctx", None)
        path = "febm" if context is None else context.command_path
        said = error.format_message()  # type: ignore[attr-defined]
        end = "" if said.endswith((".", "?")) else "."
        typer.echo(one_line(f"{path}: {said}{end} {path} --help has the options."), err=True)
        raise typer.Exit(USAGE) from None
