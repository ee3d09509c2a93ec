"""Progress is an object you pass in: a bar for people, silence for scripts."""

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rich.console import Console

Report = Callable[[dict[str, Any]], None]


class Progress(abc.ABC):
    """Something that wants to know how training goes."""

    @abc.abstractmethod
    def task(self, epochs: int, name: str = "training") -> AbstractContextManager[Report]:
        """Open a task; call what it gives with the row of every finished epoch."""

    @abc.abstractmethod
    def message(self, text: str) -> None:
        """Say something that happened."""


@dataclasses.dataclass(frozen=True)
class Silent(Progress):
    """Say nothing."""

    def task(self, epochs: int, name: str = "training") -> AbstractContextManager[Report]:
        """A task that reports to nobody."""
        return contextlib.nullcontext(lambda row: None)

    def message(self, text: str) -> None:
        """Nothing."""


@dataclasses.dataclass(frozen=True)
class Bar(Progress):
    """A bar in the terminal: epoch, held-out score, noise, acceptance, time left."""

    # What a person wants to see, in this order, where a row has it.
    SHOWN: ClassVar = ("score", "noise", "acceptance", "effective")

    @contextlib.contextmanager
    def task(self, epochs: int, name: str = "training") -> Iterator[Report]:
        """A bar that goes away when the task is done."""
        from rich import progress

        console = _console()
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.completed}/{task.total}"),
            progress.TextColumn("{task.fields[shown]}"),
            progress.TimeRemainingColumn(),
        )
        # Where nobody watches (a file, a pipe) a bar would only leave blank lines.
        hidden = not console.is_terminal
        with progress.Progress(*columns, console=console, transient=True, disable=hidden) as bar:
            task = bar.add_task(name, total=epochs, shown="")

            def report(row: dict[str, Any]) -> None:
                shown = "  ".join(f"{key} {row[key]:.4g}" for key in self.SHOWN if row.get(key) is not None)
                bar.update(task, completed=row["epoch"], shown=shown)

            yield report

    def message(self, text: str) -> None:
        """One line."""
        _console().print(text, soft_wrap=True)


def _console() -> "Console":
    from rich.console import Console

    return Console(stderr=True)


def as_progress(progress: bool | Progress) -> Progress:
    """A `Progress` from what a user passes: True for a bar, False for silence, or an object."""
    if isinstance(progress, Progress):
        return progress
    return Bar() if progress else Silent()
