"""What `febm explore` answers: the numbers of the models, sentences for what it cannot, and nothing to strangers."""

import contextlib
import dataclasses
import re
import socket
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from contract import pairs, surfaces, waves
from explore_work import Client, save_models

import febm
from febm.exploring import latent_curve, with_noise, with_room
from febm.exploring.backdrop import SHOWN_CURVES, SHOWN_MAPS
from febm.exploring.command import Options, run_command
from febm.exploring.lines import python_lines
from febm.exploring.numerics import DRAWS, MOST_POINTS, Placed, Question, ask, quick_effort
from febm.exploring.shelf import stock
from febm.exploring.warming import warm_up
from febm.exploring.worker import Step, Worker

pytest.importorskip("starlette", reason="starlette is not installed")
from febm.exploring.server import Site, build_app, listen, serving_in_background

POINTS = [{"x": 0.5, "y": 1.25}, {"x": 1.5, "y": -0.5}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("explore")


@pytest.fixture(scope="module")
def paths(folder):
    return save_models(folder, "linear", "gaussian", "pair", "surface", "image", "solid", "positive", "curve")


@pytest.fixture(scope="module")
def shelf(paths):
    return {explored.name: explored for explored in stock(list(paths.values()))}


@pytest.fixture(scope="module")
def tilted(folder):
    return stock([save_models(folder, "tilted")["tilted"]])[0]


@pytest.fixture(scope="module")
def features(folder):
    return stock([save_models(folder, "features")["features"]])[0]


@pytest.fixture(scope="module")
def client(shelf):
    with serving_in_background(build_app(Site(tuple(shelf.values()), waves(5), warm=False))) as address:
        yield Client(address)


def answer_to(client, path, **fields):
    response = client.post(path, json={"model": "linear", **fields})
    assert response.status == 200, response.text
    return response.json()


def refusal_of(client, path, status=400, **fields):
    response = client.post(path, json={"model": "linear", **fields})
    assert response.status == status, response.text
    return response.json()["error"]


# What is answered.


def test_models_come_with_what_the_page_has_to_know(client):
    site = client.get("/api/models").json()
    cards = {card["name"]: card for card in site["models"]}
    assert list(cards) == ["linear", "gaussian", "pair", "surface", "image", "solid", "positive", "curve"]
    assert cards["linear"]["domain"] == [[0.0, 2.0]]
    assert len(cards["surface"]["domain"]) == 2
    assert cards["pair"]["outputs"] == 2
    for card in cards.values():
        assert card["resolution"] in card["resolutions"]
    assert "functions of one or two" in cards["solid"]["remarks"][0]
    assert cards["surface"]["remarks"] == []
    assert "standardises" in cards["curve"]["remarks"][0]
    assert [name for name, card in cards.items() if card["image"]] == ["image"]


def test_posterior_is_that_of_the_model(client, shelf):
    found = answer_to(client, "/api/posterior", points=POINTS, level=0.8, seed=3)
    at = np.array(found["x"])
    posterior = shelf["linear"].model.condition(febm.Curves.from_arrays([[0.5, 1.5]], [[1.25, -0.5]]), random_state=3)
    lower, upper = posterior.interval(at, 0.8)
    np.testing.assert_array_equal(found["mean"], posterior.mean(at)[0, :, 0])
    np.testing.assert_array_equal(found["lower"], lower[0, :, 0])
    np.testing.assert_array_equal(found["upper"], upper[0, :, 0])
    assert np.shape(found["draws"]) == (DRAWS, len(at))
    assert found["notes"] == []


def test_points_pull_the_mean_and_narrow_the_band(client):
    before = answer_to(client, "/api/prior")
    after = answer_to(client, "/api/posterior", points=POINTS)
    place = int(np.argmin(np.abs(np.array(after["x"]) - 0.5)))
    assert abs(after["mean"][place] - 1.25) < 0.3
    widths = [np.mean(np.array(found["upper"]) - found["lower"]) for found in (before, after)]
    assert widths[1] < 0.7 * widths[0]


def test_prior_of_another_seed_is_another_draw(client):
    first, again, other = (answer_to(client, "/api/prior", seed=seed)["draws"] for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_noise_widens_band_and_draws(client):
    plain, noisy = (answer_to(client, "/api/posterior", points=POINTS, noise=noise) for noise in (False, True))
    width = [np.mean(np.array(found["upper"]) - found["lower"]) for found in (plain, noisy)]
    roughness = [np.mean(np.abs(np.diff(found["draws"], 2))) for found in (plain, noisy)]
    assert width[1] > width[0]
    assert roughness[1] > 10 * roughness[0]


@pytest.mark.parametrize("name", ["linear", "gaussian"])
def test_exact_points_hold_the_mean_and_rough_ones_let_it_go(client, name):
    def miss(factor):
        found = answer_to(client, "/api/posterior", model=name, points=POINTS, noise_factor=factor)
        return abs(np.interp(0.5, found["x"], found["mean"]) - 1.25)

    assert miss(0.01) < 0.02
    assert miss(0.01) < miss(1.0) < miss(30.0)


def test_points_of_one_output_inform_the_other(client):
    points = [{"x": 0.5, "y": 3.0, "output": 1}]
    before = answer_to(client, "/api/prior", model="pair")
    after = answer_to(client, "/api/posterior", model="pair", points=points, output=0)
    assert abs(np.interp(0.5, after["x"], np.subtract(after["mean"], before["mean"]))) > 0.2


def test_latent_moves_the_curve_and_zero_is_the_centre(client, shelf):
    explored = shelf["linear"]
    directions = client.post("/api/details", json={"model": "linear"}).json()["directions"]
    first = directions[0]["coordinate"]
    still = answer_to(client, "/api/latent", moved={str(first): 0})
    there = answer_to(client, "/api/latent", moved={str(first): 1.5})
    back = answer_to(client, "/api/latent", moved={str(first): -1.5})
    np.testing.assert_allclose(np.add(there["curve"], back["curve"]), np.multiply(still["curve"], 2), atol=1e-9)
    assert np.ptp(np.subtract(there["curve"], still["curve"])) > 0.5
    direct = latent_curve(explored.model, {first: 1.5}, there["x"])
    np.testing.assert_array_equal(direct[:, 0], there["curve"])


def test_latent_directions_come_in_order_of_their_effect(client):
    directions = client.post("/api/details", json={"model": "linear"}).json()["directions"]
    shares = [direction["share"] for direction in directions]
    assert shares == sorted(shares, reverse=True)
    assert 0.9 < sum(shares) <= 1.0 + 1e-9


def test_range_holds_most_functions(client, shelf):
    low, high = client.post("/api/details", json={"model": "linear"}).json()["range"][0]
    values = shelf["linear"].model.sample(200, random_state=9).y
    assert np.mean((values > low) & (values < high)) > 0.95


PLACES = [[0.3, 0.6], [0.7, 0.2]]
ON_SURFACE = [{"x": place, "y": value} for place, value in zip(PLACES, (1.0, -0.5), strict=True)]


@pytest.mark.parametrize("resolution", [14, 28])
def test_maps_are_of_cells_over_the_domain(client, shelf, resolution):
    found = answer_to(client, "/api/prior", model="surface", resolution=resolution)
    (low, high), _ = shelf["surface"].card()["domain"]
    places = np.array(found["x"])
    assert places.shape == (resolution**2, 2)
    assert places[0, 0] - low == pytest.approx((high - low) / (2 * resolution))
    assert np.all(places[:resolution, 0] == places[0, 0])  # the second input runs fastest
    assert np.shape(found["draws"]) == (1, resolution**2)


def test_posterior_map_is_that_of_the_model(client, shelf):
    found = answer_to(client, "/api/posterior", model="surface", points=ON_SURFACE, level=0.8, seed=3)
    at = np.array(found["x"])
    context = febm.Curves.from_arrays([PLACES], [[1.0, -0.5]])
    posterior = shelf["surface"].model.condition(context, random_state=3)
    np.testing.assert_array_equal(found["mean"], posterior.mean(at)[0, :, 0])
    np.testing.assert_array_equal(found["upper"], posterior.interval(at, 0.8)[1][0, :, 0])
    before = answer_to(client, "/api/prior", model="surface", level=0.8)
    widths = [np.mean(np.subtract(each["upper"], each["lower"])) for each in (before, found)]
    assert widths[1] < 0.7 * widths[0]


def test_latent_moves_a_map(client):
    still, there = (answer_to(client, "/api/latent", model="surface", moved={"0": step}) for step in (0, 1))
    assert np.shape(there["curve"]) == (28**2,)
    assert np.ptp(np.subtract(there["curve"], still["curve"])) > 0.1


def test_data_of_two_inputs_keep_their_places_in_order():
    data = surfaces(30)
    with serving_in_background(build_app(Site((), data, warm=False))) as address:
        shown = Client(address).get("/api/data").json()
    assert shown["inputs"] == 2
    assert len(shown["curves"]) == SHOWN_MAPS
    first, order = shown["curves"][0], np.lexsort(data[0].x.T[::-1])
    assert first["name"] == "0"
    np.testing.assert_array_equal(first["x"], data[0].x[order])
    np.testing.assert_array_equal(first["y"][0], data[0].y[order, 0])


def test_data_curves_are_thinned_and_gaps_are_null(client):
    assert len(client.get("/api/data").json()["curves"]) == 5
    with serving_in_background(build_app(Site((), pairs(200), warm=False))) as address:
        curves = Client(address).get("/api/data").json()["curves"]
    assert len(curves) == SHOWN_CURVES
    assert curves[0]["y"][1][3] is None


# Lines that reproduce it.

QUESTIONS = {
    "prior": Question(seed=2),
    "noisy prior": Question(seed=2, noise=True, resolution=51),
    "one point": Question((Placed(0.5, 1.0),)),
    "everything": Question(
        (Placed(0.5, 1.0), Placed(1.25, -0.3)), resolution=101, level=0.66, noise=True, noise_factor=0.316, seed=7
    ),
}


def numbers_of(lines):
    names = {}
    exec(lines, names)
    return names


def assert_reproduced(explored, question, moved=None):
    found = ask(explored.model, question)
    names = numbers_of(python_lines(explored.path, explored.model, question, shown=7, moved=moved))
    np.testing.assert_array_equal(names["at"], found.x)
    for name in ("mean", "lower", "upper"):
        np.testing.assert_array_equal(names[name], getattr(found, name))
    np.testing.assert_array_equal(names["draws"], found.draws[:7])
    return names


@pytest.mark.parametrize("name", ["linear", "gaussian"])
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_python_lines_give_the_same_numbers(shelf, name, question):
    assert_reproduced(shelf[name], question)


def test_python_lines_of_several_outputs_give_the_same_numbers(shelf):
    question = Question((Placed(0.5, 1.0, 1), Placed(0.7, 0.0, 0)), output=1)
    assert_reproduced(shelf["pair"], question)


SURFACE_QUESTIONS = {
    "prior": Question(seed=2),
    "one point": Question((Placed((0.25, 0.5), 1.0),)),
    "everything": Question(
        (Placed((0.3, 0.6), 1.0), Placed((0.7, 0.2), -0.5)), resolution=14, noise=True, noise_factor=0.316, seed=7
    ),
}


@pytest.mark.parametrize("question", SURFACE_QUESTIONS.values(), ids=SURFACE_QUESTIONS)
def test_python_lines_of_maps_give_the_same_numbers(shelf, question):
    names = assert_reproduced(shelf["surface"], question, moved={0: 1.0})
    assert names["draws"].shape == names["mean"][None].shape
    assert len(names["curve"]) == len(names["at"])


@pytest.mark.parametrize("full", [False, True])
def test_python_lines_say_the_effort_of_the_page(tilted, full):
    question = Question((Placed(0.5, 1.0), Placed(1.0, 0.5)), full_effort=full)
    assert_reproduced(tilted, question)
    assert ("Effort(draws=256, proposals=1024" in python_lines(tilted.path, tilted.model, question)) is not full


def test_python_lines_draw_the_latent_curve(tilted):
    names = assert_reproduced(tilted, QUESTIONS["one point"], moved={0: 1.0, 1: -0.5})
    np.testing.assert_array_equal(names["curve"], latent_curve(tilted.model, {0: 1.0, 1: -0.5}, names["at"])[:, 0])


def test_lines_are_answered_for_what_is_asked(client, paths):
    lines = answer_to(client, "/api/lines", points=POINTS, shown=3)["lines"]
    assert f"febm.load({str(paths['linear'])!r})" in lines
    assert len(numbers_of(lines)["draws"]) == 3


def test_exploring_changes_nothing_of_the_model(tilted):
    before = tilted.model.effort, float(tilted.model.model_.likelihood.scale)
    ask(tilted.model, QUESTIONS["everything"])
    assert (tilted.model.effort, float(tilted.model.model_.likelihood.scale)) == before


def test_quick_effort_never_exceeds_what_the_model_was_told(tilted):
    small = dataclasses.replace(tilted.model.effort, draws=16, proposals=64, particles=32)
    assert (quick_effort(tilted.model).draws, quick_effort(tilted.model).particles) == (256, 128)
    assert quick_effort(febm.FEBM(effort=small)) is None
    assert quick_effort(febm.FPCA()) is None


def test_noise_factor_is_of_the_standard_deviation(shelf):
    changed = with_noise(shelf["linear"].model, 2.0)
    assert changed.noise_variance_ == pytest.approx(4 * shelf["linear"].model.noise_variance_, rel=1e-5)
    with pytest.raises(ValueError, match="factor is -1"):
        with_noise(changed, -1)


# What is refused.

REFUSED = {
    "no model": ({"model": "other"}, "no model \"other\"; there are 'linear'"),
    "unknown field": ({"colour": 1}, "no field 'colour'"),
    "points are no list": ({"points": 3}, "points is 3; give a list"),
    "too many points": ({"points": [{"x": 1, "y": 0}] * (MOST_POINTS + 1)}, "101 points; 100 are the most"),
    "point without y": ({"points": [{"x": 1}]}, r"points\[0\] is \{\"x\": 1\}"),
    "point is text": ({"points": [{"x": "a", "y": 1}]}, r"points\[0\]: x is \"a\"; give a number"),
    "point far outside": ({"points": [{"x": 9, "y": 1}]}, r"points\[0\]: x is 9; give a number from -0.1 to 2.1"),
    "huge integer": ({"points": [{"x": 1, "y": 10**400}]}, r"points\[0\]: y is 1000"),
    "output": ({"output": 1}, "output is 1; give a whole number from 0 to 0"),
    "level": ({"level": 1.5}, "level is 1.5; give a number from 0.01 to 0.999"),
    "level is true": ({"level": True}, "level is true"),
    "resolution": ({"resolution": 77}, "resolution is 77; choose one of 26, 51"),
    "seed": ({"seed": -1}, "seed is -1; give a whole number"),
    "noise": ({"noise": 1}, "noise is 1; give true or false"),
    "noise factor": ({"noise_factor": 0}, "noise_factor is 0; give a number from 0.01 to 100"),
    "moved": ({"moved": {"z": 1}}, "coordinate 'z'"),
    "three inputs": ({"model": "solid"}, "functions of 3 inputs; the page shows functions of one or two"),
    "one coordinate of two": ({"model": "surface", "points": [{"x": 0.5, "y": 1}]}, r"x is 0.5; give a list of two"),
    "three coordinates": ({"model": "surface", "points": [{"x": [0, 0, 0], "y": 1}]}, r"x is \[0, 0, 0\]; give a list"),
    "text as coordinate": ({"model": "surface", "points": [{"x": [0.5, "a"], "y": 1}]}, r"x1 is \"a\"; give a number"),
    "far along one": (
        {"model": "surface", "points": [{"x": [7, 0.5], "y": 1}]},
        r"points\[0\]: x0 is 7; give a number",
    ),
    "pair for a curve": ({"points": [{"x": [1, 1], "y": 1}]}, r"points\[0\]: x is \[1, 1\]; give a number"),
    "resolution of curves": ({"model": "surface", "resolution": 26}, "resolution is 26; choose one of 14, 20, 28"),
}


@pytest.mark.parametrize(("fields", "sentence"), REFUSED.values(), ids=REFUSED)
def test_bad_question_gets_one_sentence(client, fields, sentence):
    assert re.search(sentence, refusal_of(client, "/api/prior", **fields))


@pytest.mark.parametrize(
    "body", ["", "[1]", "{", '{"level": NaN}', "[" * 50_000], ids=["empty", "list", "torn", "nan", "deep"]
)
def test_what_is_no_json_object_gets_one_sentence(client, body):
    response = client.post("/api/prior", content=body, headers={"Content-Type": "application/json"})
    assert response.status == 400
    assert response.json()["error"].endswith(("send one JSON object.", "send one."))


def test_posterior_without_points_is_refused(client):
    assert refusal_of(client, "/api/posterior") == (
        "A posterior needs at least one point; without points, ask for the prior."
    )


def test_values_that_the_model_cannot_have_are_refused_by_its_own_sentence(client):
    sentence = refusal_of(client, "/api/posterior", 422, model="positive", points=[{"x": 1, "y": -3}])
    assert sentence.startswith("Scaling: the log transform needs y > 0")


def test_model_without_latents_says_so(client):
    assert "no latent coordinates" in refusal_of(client, "/api/latent", model="gaussian")
    assert "no latent coordinates" in client.post("/api/details", json={"model": "gaussian"}).json()["without_latents"]
    with pytest.raises(ValueError, match="no latent space"):
        latent_curve(febm.GaussianProcess(), {}, [0.0])


def test_large_bodies_and_forms_are_refused(client):
    large = client.post("/api/prior", content=b" " * 200_000, headers={"Content-Type": "application/json"})
    form = client.post("/api/prior", content=b'{"model": "linear"}', headers={"Content-Type": "text/plain"})
    assert (large.status, form.status) == (413, 415)
    assert "application/json" in form.json()["error"]


def test_unknown_paths_and_methods_are_refused(client):
    assert client.get("/static/../server.py").status == 404
    assert client.get("/static/missing.js").status == 404
    assert client.get("/api/prior").status == 405
    assert client.post("/api/models", json={}).status == 405


# Strangers.


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.5:80"])
def test_other_host_names_are_turned_away(client, host):
    response = client.get("/api/models", headers={"Host": host})
    assert response.status == 421
    assert "127.0.0.1" in response.json()["error"]


def test_other_origins_are_turned_away(client):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9"):
        response = client.post("/api/prior", json={"model": "linear"}, headers={"Origin": origin})
        assert response.status == 403
    own = client.post("/api/prior", json={"model": "linear"}, headers={"Origin": client.address.rstrip("/")})
    assert own.status == 200


def test_every_answer_forbids_what_comes_from_elsewhere(client):
    for path in ("/", "/static/explore.js", "/api/models", "/missing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_static_files_name_no_other_host():
    static = Path(febm.__file__).parent / "exploring" / "static"
    for path in static.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")  # a name, not a place
        assert "http://" not in text
        assert "https://" not in text


def test_socket_is_of_the_loopback_interface_and_a_taken_port_is_refused():
    listening = listen(0)
    try:
        host, port = listening.getsockname()
        assert host == "127.0.0.1"
        assert listening.proto == socket.IPPROTO_TCP  # else every answer waits 40 ms
        with pytest.raises(ValueError, match=f"port {port} cannot be had"):
            listen(port)
    finally:
        listening.close()


# The worker.


def test_requests_do_not_wait_for_a_step_of_the_warm_up():
    begun, go_on, order = threading.Event(), threading.Event(), []
    step = Step(lambda: (begun.set(), go_on.wait(5), order.append("step")))
    worker = Worker(iter([step]))
    worker.start()
    assert begun.wait(5)
    for name in ("a", "b"):
        worker.submit(lambda name=name: order.append(name)).result(5)
    go_on.set()
    assert worker.wait_until_warm(5)
    worker.stop()
    assert order == ["a", "b", "step"]


def test_warm_up_takes_no_step_while_a_request_is_computed():
    started, go_on, order = threading.Event(), threading.Event(), []
    worker = Worker(Step(lambda name=name: order.append(name)) for name in ("step 0", "step 1"))
    request = worker.submit(lambda: (started.set(), go_on.wait(5), order.append("answer")))
    worker.start()
    assert started.wait(5)
    time.sleep(0.1)
    go_on.set()
    request.result(5)
    assert worker.wait_until_warm(5)
    worker.stop()
    assert order == ["answer", "step 0", "step 1"]


def test_warm_up_waits_as_long_as_a_step_asks_for_after_an_answer():
    taken = []
    worker = Worker(Step(lambda: taken.append(time.monotonic()), pause) for pause in (0.0, 0.5))
    answered = worker.submit(time.monotonic)
    worker.start()
    assert worker.wait_until_warm(5)
    worker.stop()
    assert taken[1] - answered.result() >= 0.5
    assert taken[0] - answered.result() < 0.5


def test_cancelled_jobs_are_never_computed():
    started, go_on, done = threading.Event(), threading.Event(), []
    worker = Worker(iter(()))
    worker.start()
    first = worker.submit(lambda: (started.set(), go_on.wait(5)))
    second = worker.submit(lambda: done.append("second"))
    assert started.wait(5)
    assert second.cancel()
    go_on.set()
    first.result(5)
    assert worker.submit(lambda: "last").result(5) == "last"
    worker.stop()
    assert done == []


def test_worker_survives_a_warm_up_that_fails():
    def fail():
        raise RuntimeError("a model that cannot be sampled")

    worker = Worker(iter([Step(fail)]))
    worker.start()
    assert worker.wait_until_warm(5)
    assert worker.submit(lambda: 1).result(5) == 1
    worker.stop()


def test_warnings_of_the_warm_up_are_no_notes_of_an_answer(shelf, monkeypatch):
    def warned(explored):
        def warn():
            warnings.warn("of the warm-up", stacklevel=1)

        thread = threading.Thread(target=warn)
        thread.start()
        thread.join()
        warnings.warn("of the answer", stacklevel=1)
        return {}

    monkeypatch.setattr("febm.exploring.shelf.Explored.details", warned)
    with serving_in_background(build_app(Site((shelf["linear"],), warm=False))) as address:
        found = Client(address).post("/api/details", json={"model": "linear"}).json()
    assert found["notes"] == ["of the answer"]


# Room for more points.


def test_context_has_room_where_conditioning_is_compiled_for_a_number_of_points(shelf, features):
    context = febm.Curves.from_arrays([[0.5, 1.5]], [[1.0, -0.5]])
    roomy = with_room(features.model, context)
    assert len(roomy.x) == 40
    assert len(np.unique(roomy.x)) == 40
    assert np.count_nonzero(~np.isnan(roomy.y)) == 2
    assert with_room(shelf["linear"].model, context) is context
    assert with_room(shelf["gaussian"].model, context) is context


@pytest.mark.parametrize("points", [1, 39, 40, 41, 100])
def test_room_is_one_of_two_sizes(features, points):
    context = febm.Curves.from_grid(np.linspace(0, 2, points), np.zeros((1, points)))
    assert len(with_room(features.model, context).x) == (40 if points <= 40 else 104)


def test_room_changes_nothing_of_a_posterior(features):
    context = febm.Curves.from_arrays([[0.0, 0.5, 1.5]], [[0.2, 1.0, -0.5]])  # the first is where room would be
    at = np.linspace(0, 2, 9)
    plain, roomy = (features.model.condition(each) for each in (context, with_room(features.model, context)))
    np.testing.assert_allclose(roomy.mean(at), plain.mean(at), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(roomy.log_evidence, plain.log_evidence, rtol=1e-9)


def test_python_lines_have_room_where_the_page_has(features, shelf):
    question = Question((Placed(0.5, 1.0), Placed(1.0, 0.5)))
    assert_reproduced(features, question)
    assert "with_room" in python_lines(features.path, features.model, question)
    assert "with_room" not in python_lines(features.path, features.model, Question())
    assert "with_room" not in python_lines(shelf["linear"].path, shelf["linear"].model, question)


def compiled_for(explored, sizes, caplog):
    """What is compiled to answer for so many points."""
    caplog.clear()
    with jax.log_compiles():
        for size in sizes:
            ask(explored.model, Question(tuple(Placed(float(x), 0.1) for x in np.linspace(0.1, 1.9, size))))
    return [record.getMessage() for record in caplog.records if "Finished XLA compilation" in record.getMessage()]


def test_more_points_need_no_further_compilation(features, caplog):
    compiled_for(features, [1], caplog)
    assert compiled_for(features, [2, 9, 17, 25, 40], caplog) == []
    assert compiled_for(features, [41], caplog)
    assert compiled_for(features, [49, 100], caplog) == []


@pytest.mark.slow
def test_more_points_of_a_neural_process_need_no_further_compilation(folder, caplog):
    neural = stock([save_models(folder, "neural")["neural"]])[0]
    assert compiled_for(neural, [1], caplog)
    assert compiled_for(neural, [2, 9, 17, 25, 40], caplog) == []
    assert_reproduced(neural, Question((Placed(0.5, 1.0), Placed(1.0, 0.5))))


def test_warm_up_asks_every_model_that_is_shown(shelf):
    chosen = [dataclasses.replace(shelf[name]) for name in ("solid", "linear", "surface")]
    steps = list(warm_up(chosen))
    assert len(steps) > 10
    for step in steps[:6]:
        step.job()
    assert ["sight" in vars(each) for each in chosen] == [False, True, True]


# The shelf, the backdrop and the command.


def test_models_of_one_name_are_told_apart_by_their_paths(paths, tmp_path):
    twin = tmp_path / "linear.febm"
    twin.write_bytes(paths["linear"].read_bytes())
    assert [explored.name for explored in stock([paths["linear"], twin])] == [str(paths["linear"]), str(twin)]
    with pytest.raises(ValueError, match="named twice"):
        stock([twin, twin])


def test_what_is_no_model_is_refused_before_anything_is_served(tmp_path):
    with pytest.raises(ValueError, match="no model is named"):
        stock([])
    with pytest.raises(FileNotFoundError, match="is no file"):
        run_command(Options((tmp_path / "missing.febm",)))
    text = tmp_path / "text.febm"
    text.write_text("no model")
    with pytest.raises(febm.FormatError, match="not a febm model"):
        run_command(Options((text,)))


def test_data_of_other_inputs_than_any_model_are_refused(paths):
    with pytest.raises(ValueError, match=r"--data have 2 inputs, the models have 1; name with --x as many columns"):
        run_command(Options((paths["linear"],), data=surfaces(3)))


def test_missing_libraries_are_named(paths, monkeypatch):
    for name in ("starlette.applications", "febm.exploring.server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delattr("febm.exploring.server", raising=False)
    with pytest.raises(
        ImportError, match=r"pip install 'febm\[explore\]' \(or, alone, pip install starlette uvicorn\)"
    ):
        run_command(Options((paths["linear"],)))


def test_command_serves_until_it_is_interrupted(paths):
    script = (
        "import sys, pathlib; from febm.exploring.command import Options, run_command; "
        "run_command(Options((pathlib.Path(sys.argv[1]),), browser=False))"
    )
    with serving_process("-c", script, paths["linear"]) as (process, client):
        assert client.get("/api/models").json()["models"][0]["name"] == "linear"
        process.send_signal(2)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert out == "Ended.\n"
    assert errors == ""


def test_command_shows_a_table_of_two_inputs_beside_a_model_of_two(paths, tmp_path):
    table = tmp_path / "surfaces.csv"
    surfaces(4).to_frame().to_csv(table, index=False)
    command = ["-c", "from febm.cli import app; app()", "explore", paths["surface"], "--data", table, "--no-browser"]
    with serving_process(*command) as (process, client):
        shown = client.get("/api/data").json()
        process.send_signal(2)
        _, said = process.communicate(timeout=60)
    assert (shown["inputs"], len(shown["curves"])) == (2, 4)
    assert "4 curves, 64 points (curve curve; x x0, x1; y y)" in said


@contextlib.contextmanager
def serving_process(*arguments):
    """A process of Python that serves, and a client of it."""
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        yield process, Client(line.split(" at ")[1].split()[0])
