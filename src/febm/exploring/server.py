"""The page and its answers, on this machine only: static files, JSON, and a worker that computes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import resources
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from febm._version import __version__
from febm.curves import Curves
from febm.exploring.asking import Asked, RefusedError, parse
from febm.exploring.backdrop import as_json
from febm.exploring.gate import Gate
from febm.exploring.latents import FARTHEST, latent_curve
from febm.exploring.lines import python_lines
from febm.exploring.numerics import DRAWS, ask, grid
from febm.exploring.shelf import Explored
from febm.exploring.warming import warm_up
from febm.exploring.worker import Worker

HOST = "127.0.0.1"
LARGEST_BODY = 100_000
CLIENT_LEFT = 499  # nobody reads it


@dataclasses.dataclass(frozen=True, eq=False)
class Site:
    """What is served: models, curves behind them, and whether shapes are compiled before anybody asks."""

    shelf: Sequence[Explored]
    data: Curves | None = None
    warm: bool = True


def build_app(site: Site) -> Starlette:
    """The application; it holds no state but the loaded models."""
    worker = Worker(warm_up(site.shelf) if site.warm else iter(()))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        yield
        await asyncio.to_thread(worker.stop)

    def answering(answer: Callable[[Asked], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            body = await _body(request)
            # Even to parse a question can take the worker: it may need to know the latent space.
            return await _when_free(worker, request, lambda: _json(_with_notes(answer, parse(body, site.shelf))))

        return endpoint

    async def page(request: Request) -> Response:
        return Response(_static("index.html"), media_type="text/html")

    async def icon(request: Request) -> Response:
        return Response(_static("icon.svg"), media_type="image/svg+xml")

    async def models(request: Request) -> Response:
        return _json(
            {
                "models": [explored.card() for explored in site.shelf],
                "draws": DRAWS,
                "farthest": FARTHEST,
                "version": __version__,
            }
        )

    async def data(request: Request) -> Response:
        shown = {"inputs": 0, "curves": []} if site.data is None else as_json(site.data)
        return _json(shown)

    api = [
        Route("/api/models", models, methods=["GET"]),
        Route("/api/data", data, methods=["GET"]),
        Route("/api/details", answering(lambda asked: asked.explored.details()), methods=["POST"]),
        Route("/api/prior", answering(_prior), methods=["POST"]),
        Route("/api/posterior", answering(_posterior), methods=["POST"]),
        Route("/api/latent", answering(_latent), methods=["POST"]),
        Route("/api/lines", answering(_lines), methods=["POST"]),
    ]
    files = StaticFiles(packages=[("febm.exploring", "static")])
    app = Starlette(
        routes=[Route("/", page), Route("/favicon.ico", icon), *api, Mount("/static", files)],
        lifespan=lifespan,
        exception_handlers={HTTPException: _refusal},
    )
    app.add_middleware(Gate)
    app.state.worker = worker
    return app


@contextlib.contextmanager
def serving_in_background(app: Starlette, port: int = 0) -> Iterator[str]:
    """Serve from a thread and give the address, for scripts and tests."""
    listening = listen(port)
    server = server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0 is a free one."""
    # Only where the protocol is named does asyncio send answers without waiting 40 ms for more to send.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise ValueError(f"explore: port {port} cannot be had ({error}); leave it out to get a free one.") from error
    # At once, so that a browser that is faster than the server waits and is not refused.
    listening.listen()
    return listening


def address_of(listening: socket.socket) -> str:
    """Where the page is."""
    return f"http://{HOST}:{listening.getsockname()[1]}/"


def server_of(app: Starlette) -> uvicorn.Server:
    """A server that says nothing but errors."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",
            lifespan="on",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )


def _prior(asked: Asked) -> dict[str, Any]:
    return _curves(asked._replace(question=dataclasses.replace(asked.question, points=())))


def _posterior(asked: Asked) -> dict[str, Any]:
    if not asked.question.points:
        raise RefusedError("A posterior needs at least one point; without points, ask for the prior.")
    return _curves(asked)


def _curves(asked: Asked) -> dict[str, Any]:
    return ask(asked.explored.model, asked.question)._asdict()


def _latent(asked: Asked) -> dict[str, Any]:
    if not asked.explored.has_latents:
        raise RefusedError(asked.explored.details()["without_latents"])
    model, question = asked.explored.model, asked.question
    at = grid(model, question.resolution)
    curve = latent_curve(model, asked.moved, at, latents=asked.explored.latents)
    return {"x": at, "curve": curve[:, question.output]}


def _lines(asked: Asked) -> dict[str, Any]:
    explored = asked.explored
    lines = python_lines(explored.path, explored.model, asked.question, shown=asked.shown, moved=asked.moved)
    return {"lines": lines}


def _with_notes(answer: Callable[[Asked], dict[str, Any]], asked: Asked) -> dict[str, Any]:
    """The answer with what the model warned of in this thread; the warm-up may warn at the same time."""
    notes: list[str] = []
    here = threading.get_ident()

    def keep(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category is UserWarning and threading.get_ident() == here:
            notes.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = keep
        found = answer(asked)
    return {**found, "notes": list(dict.fromkeys(notes))}


async def _when_free(worker: Worker, request: Request, job: Callable[[], Response]) -> Response:
    """The answer when the worker has come to it; none is computed for a page that has gone on to another question."""
    future = worker.submit(job)
    answered: asyncio.Future[Any] = asyncio.wrap_future(future)
    left: asyncio.Future[Any] = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({answered, left}, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            future.cancel()
            return Response(status_code=CLIENT_LEFT)
        return answered.result()
    except RefusedError as error:
        return _sentence(str(error), 400)
    except (ValueError, TypeError, ArithmeticError) as error:
        # What a model refuses, such as a negative value where it knows positive ones, is the visitor's to mend.
        return _sentence(str(error), 422)
    finally:
        left.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> bytes:
    # Another site can send a plain form to this one without asking the browser, but no JSON.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "Send JSON, with the content type application/json.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise HTTPException(413, f"The request is larger than {LARGEST_BODY:,} bytes.")
    return body


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _sentence(error.detail, error.status_code)


def _sentence(text: str, status: int) -> Response:
    return JSONResponse({"error": " ".join(text.split())}, status_code=status)


def _json(value: Any) -> Response:
    return Response(json.dumps(_plain(value), allow_nan=False, separators=(",", ":")), media_type="application/json")


def _plain(value: Any) -> Any:
    """Arrays as lists, and null for what is no finite number."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        finite = np.isfinite(value)
        return value.tolist() if finite.all() else np.where(finite, value.astype(object), np.array(None)).tolist()
    return value


def _static(name: str) -> bytes:
    return (resources.files("febm.exploring") / "static" / name).read_bytes()
