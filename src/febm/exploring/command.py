"""What `febm explore` does with its options: load the models, serve the page on this machine, and open it."""

from __future__ import annotations

import dataclasses
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import typer

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
        raise ImportError("the page needs starlette and uvicorn: pip install 'febm[explore]'") from error
    from febm.exploring.shelf import stock

    shelf = stock(options.models)
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
