"""What `febm explore` does with its options: load the models, serve the page on this machine, and open it."""

from __future__ import annotations

import dataclasses
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from febm.checks import count
from febm.libraries import how_to_install

if TYPE_CHECKING:
    from febm.curves import Curves


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of the command."""

    models: tuple[Path, ...]
    port: int = 0  # 0: a free one
    browser: bool = True
    data: Curves | None = None  # shown behind the picture


def run_command(options: Options) -> None:
    """Serve until Ctrl-C."""
    try:
        from febm.exploring import server as serving
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise ImportError(f"the page needs starlette and uvicorn: {how_to_install('explore')}") from error
    from febm.exploring.shelf import stock

    shelf = stock(options.models)
    _refuse_unlike(options.data, [explored.inputs for explored in shelf])
    server = serving.server_of(serving.build_app(serving.Site(shelf, options.data)))
    listening = serving.listen(options.port)
    address = serving.address_of(listening)
    names = ", ".join(explored.name for explored in shelf)
    typer.echo(f"Exploring {names} at {address} (Ctrl-C ends it).")
    if options.browser:
        # From a thread of its own: some browsers keep the one that opens them.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
    typer.echo("Ended.")


def _refuse_unlike(data: Curves | None, inputs: Sequence[int]) -> None:
    """Refuse data that could be shown beside none of the models."""
    if data is None or data.d_x in inputs:
        return
    known = " or ".join(map(str, sorted(set(inputs))))
    raise ValueError(
        f"explore: the curves of --data have {count(data.d_x, 'input')}, the models have {known}; name with --x as "
        "many columns as a model has inputs."
    )
