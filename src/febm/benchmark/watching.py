"""What a person sees of a grid that runs: a bar with what is done, failed and left, and a line for each job."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from febm.progress import Bar, Report


@dataclasses.dataclass(frozen=True)
class GridBar(Bar):
    """A bar over the jobs of a grid; in a file or a pipe, only the lines."""

    @contextlib.contextmanager
    def task(self, epochs: int, name: str = "benchmark") -> Iterator[Report]:
        """A bar that goes away when the grid is done; a row has `epoch` jobs behind it, `failed` and `left`."""
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[done]} done, {task.fields[failed]} failed, {task.fields[left]} left"),
            progress.TimeElapsedColumn(),
        )
        hidden = not console.is_terminal
        with progress.Progress(*columns, console=console, transient=True, disable=hidden) as bar:
            task = bar.add_task(name, total=epochs, done=0, failed=0, left=epochs)

            def report(row: dict[str, Any]) -> None:
                done = row["epoch"] - row["failed"]
                bar.update(task, completed=row["epoch"], done=done, failed=row["failed"], left=row["left"])

            yield report
