"""Small fitted models in files, to be explored: of one input, of two, of three; of one output, of two."""

import contextlib
import http.client
import json
import urllib.parse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from browser import Visit
from contract import TINY_MODELS, pairs, surfaces, waves

import febm
from febm.inference import Effort
from febm.tilting import TiltTraining

ROUGH = dict(random_state=0, progress=False)


def save_models(folder: Path, *names: str) -> dict[str, Path]:
    """The files of the models, by name."""
    made = {
        "tilted": lambda: febm.FEBM(
            **ROUGH,
            rank=2,
            remainder=False,
            components=2,
            energy_dim=2,
            tilt=TiltTraining(width=8, steps=10, proposals=256),
            effort=Effort(draws=300, proposals=1200),
        ).fit(waves(noise=0.2)),
        "linear": lambda: febm.FPCA(**ROUGH).fit(waves(noise=0.2)),
        "gaussian": lambda: febm.GaussianProcess(
            **ROUGH, kernel=0.5 * febm.kernels.Matern52(0.4), noise=0.1, mean="zero", fit_kernel=False
        ).fit(waves(30)),
        "pair": lambda: febm.FPCA(**ROUGH).fit(pairs()),
        "surface": lambda: febm.FPCA(**ROUGH, rank=2).fit(surfaces(12)),
        "image": lambda: febm.FPCA(**ROUGH, rank=2).fit(febm.Curves.from_images(tilted_images())),
        "solid": lambda: febm.FPCA(**ROUGH, rank=2).fit(solids()),
        "features": lambda: TINY_MODELS["EBP"]().fit(waves(20)),
        "neural": lambda: TINY_MODELS["NeuralProcess"]().fit(waves(20)),
        "positive": lambda: febm.FPCA(**ROUGH, scaling="log").fit(positive()),
        "curve": lambda: febm.FPCA(**ROUGH, scaling="curve").fit(waves()),
    }
    paths = {}
    for name in names:
        paths[name] = folder / f"{name}.febm"
        made[name]().save(paths[name])
    return paths


def positive():
    """Curves that are never negative."""
    curves = waves()
    return curves.replace(y=np.exp(0.3 * curves.y))


def tilted_images(count=12):
    """Images that brighten downwards, more or less."""
    rows = np.linspace(0, 1, 8)[:, None]
    return np.random.default_rng(0).normal(size=(count, 1, 1)) * rows * np.ones((8, 8)) + 0.01 * rows.T


def solids(count=12):
    """Functions of three inputs."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(20, 3))
    return febm.Curves.from_grid(x, rng.normal(size=(count, 2)) @ np.stack([x.sum(axis=1), x[:, 0]]))


class Answered(NamedTuple):
    """What the server said."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Client(NamedTuple):
    """Asks a server, one connection a request, with the headers that it is told."""

    address: str

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answered:
        return self._ask("GET", path, None, headers or {})

    def post(
        self, path: str, *, json: Any = None, content: Any = None, headers: dict[str, str] | None = None
    ) -> Answered:
        body = _dumped(json) if content is None else content
        return self._ask("POST", path, body, {"Content-Type": "application/json", **(headers or {})})

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answered:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.address).netloc, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answered(response.status, response.headers, response.read().decode())


def _dumped(value: Any) -> str:
    return json.dumps(value)


@contextlib.contextmanager
def visit_address(browser, address, *, width=1200, height=900, touch=False, scheme="light"):
    """The page at an address, in a window of this size."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, has_touch=touch, color_scheme=scheme, accept_downloads=True
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    seen = Visit(context.new_page())
    seen.page.set_default_timeout(20_000)
    seen.page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    seen.page.on("pageerror", lambda error: seen.complaints.append(f"error: {error}"))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(address, wait_until="load")
    yield seen
    context.close()
