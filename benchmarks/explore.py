"""How long a click of `febm explore` takes: a small F-EBM of parabolas, points placed one after the other.

Fits (or loads) models, serves them on this machine, and prints the milliseconds from a request to its answer for 1, 2,
3, … points: at once, by a visitor who clicks every half second while the server still warms up; and twice after the
warm-up, at other places. Only the very first click may wait for a compilation. Client and server share the process, so
that processor time is of both, and at once of the warm-up too. It ends by itself.
"""

import argparse
import json
import statistics
import tempfile
import time
import urllib.parse
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import numpy as np

import febm
from febm.datasets import load_quadratic
from febm.exploring.server import Site, build_app, serving_in_background
from febm.exploring.shelf import Explored, stock

GOAL = 300.0  # milliseconds
LONGEST_WARM_UP = 180.0  # seconds
THINKING = 0.5  # seconds between the clicks of a visitor


def fitted(folder: Path) -> Path:
    """A small model in a file."""
    data = load_quadratic(0, n_train=100, n_evaluation=1)
    model = febm.FEBM(random_state=0, progress=False, rank=2, remainder=False, components=2).fit(data.train)
    model.save(folder / "quadratic.febm")
    return folder / "quadratic.febm"


class Took(NamedTuple):
    """Milliseconds of one request: on the clock, and of processors, which other work on the machine does not change."""

    clock: float
    processor: float


def post(connection: HTTPConnection, path: str, body: dict) -> tuple[Took, dict]:
    """What a request took, and the answer."""
    started, worked = time.perf_counter(), time.process_time()
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    contents = response.read()
    took = Took(1e3 * (time.perf_counter() - started), 1e3 * (time.process_time() - worked))
    assert response.status == 200, contents
    return took, json.loads(contents)


def clicks(
    connection: HTTPConnection, explored: Explored, most: int, seed: int, *, thinking: float = 0.0
) -> list[Took]:
    """The milliseconds of every click: points along a function of the prior."""
    rng = np.random.default_rng(seed)
    _, prior = post(connection, "/api/prior", {"model": explored.name, "seed": seed})
    places = rng.permutation(len(prior["x"]))[:most]
    points, times = [], []
    for place in places:
        points.append({"x": prior["x"][place], "y": prior["draws"][0][place]})
        times.append(post(connection, "/api/posterior", {"model": explored.name, "points": points})[0])
        time.sleep(thinking)
    return times


def drags(connection: HTTPConnection, explored: Explored, steps: int = 10) -> list[Took]:
    """The milliseconds of the steps of a drag of the first latent coordinate."""
    moves = ({"0": step / steps} for step in range(steps)) if explored.has_latents else ()
    return [post(connection, "/api/latent", {"model": explored.name, "moved": moved})[0] for moved in moves]


def measure(explored: Explored, most: int) -> list[list[Took]]:
    """The clicks that the goal is of, after printing all."""
    app = build_app(Site((explored,)))
    with serving_in_background(app) as address:
        started = time.perf_counter()
        place = urllib.parse.urlsplit(address).netloc
        connection = HTTPConnection(place, timeout=60)
        rounds = {"at once": clicks(connection, explored, most, 2, thinking=THINKING)}
        warm = app.state.worker.wait_until_warm(LONGEST_WARM_UP)
        print(f"{explored.name} ({type(explored.model).__name__}): ", end="")
        print(f"warm after {time.perf_counter() - started:.1f} s" if warm else "not warm in time")
        connection = HTTPConnection(place, timeout=60)  # the other was closed while nothing was asked
        for seed, name in enumerate(("first", "again")):
            rounds[name] = clicks(connection, explored, most, seed)
        rounds["latent"] = drags(connection, explored)
    for name, times in rounds.items():
        for kind in Took._fields if times else ():
            milliseconds = [getattr(each, kind) for each in times]
            each = " ".join(f"{value:4.0f}" for value in milliseconds)
            print(f"  {name:7} {kind:9} {each}  median {statistics.median(milliseconds):.0f} ms")
    return [rounds["at once"][1:], rounds["first"], rounds["again"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="saved models; default: an F-EBM that is fitted now")
    parser.add_argument("--points", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shelf = stock(options.models or [fitted(Path(folder))])
        rounds = [times for explored in shelf for times in measure(explored, options.points)]
    for kind in Took._fields:
        slowest = max(getattr(took, kind) for times in rounds for took in times)
        print(f"slowest click after the first: {slowest:.0f} ms ({kind}); the goal is {GOAL:.0f} ms")


if __name__ == "__main__":
    main()
