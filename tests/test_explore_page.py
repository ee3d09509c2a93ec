"""The page of `febm explore` in a browser: hands on the plot, numbers that follow, and nothing from elsewhere."""

import io
import re

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from browser import chromium
from contract import surfaces, waves
from explore_work import save_models, visit_address

pytest.importorskip("starlette", reason="starlette is not installed")
from febm.exploring.server import Site, build_app, serving_in_background
from febm.exploring.shelf import stock


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory):
    paths = save_models(tmp_path_factory.mktemp("page"), "linear", "tilted", "pair", "surface", "solid")
    with serving_in_background(build_app(Site(stock(list(paths.values())), waves(8), warm=False))) as found:
        yield found


@pytest.fixture
def visit(browser, address):
    def opened(hash="", **how):
        return visit_address(browser, address + hash, **how)

    return opened


def wait_for_answer(page):
    """Until what is shown belongs to what was asked."""
    page.wait_for_function(
        """() => {
            const { page } = globalThis;
            return page?.answer && !page.functions.controller && !page.latents.controller
                && JSON.stringify(page.asked.points.map((each) => [each.x, each.y]))
                    === JSON.stringify(page.state.points.map((each) => [each.x, each.y]));
        }"""
    )


def click_at(page, across, up, **how):
    """Click at shares of the plot's frame, and give the point that was placed."""
    box = page.evaluate(
        """() => { const { left, top } = page.plot.svg.getBoundingClientRect(); const { box } = page.plot;
            return [left + box.left, top + box.top, box.right - box.left, box.bottom - box.top]; }"""
    )
    place = box[0] + across * box[2], box[1] + (1 - up) * box[3]
    if how.get("tap"):
        page.touchscreen.tap(*place)
    else:
        page.mouse.click(*place)
    wait_for_answer(page)
    return page.evaluate("page.state.points.at(-1)")


def shown(page):
    """Mean, lower and upper as arrays, with the points x."""
    answer = page.evaluate("page.answer")
    return {name: np.array(answer[name], dtype=float) for name in ("x", "mean", "lower", "upper", "draws")}


def mean_width(page):
    found = shown(page)
    return np.mean(found["upper"] - found["lower"])


def test_page_loads_without_complaint_and_asks_only_its_own_server(visit, address):
    with visit() as seen:
        wait_for_answer(seen.page)
        click_at(seen.page, 0.5, 0.6)
        assert seen.complaints == []
        assert seen.requests
        assert all(url.startswith((address, "data:", "blob:" + address)) for url in seen.requests)


def test_click_places_a_point_and_the_mean_passes_near_it(visit):
    with visit() as seen:
        wait_for_answer(seen.page)
        before = shown(seen.page)
        point = click_at(seen.page, 0.3, 0.7)
        after = shown(seen.page)
        near = np.interp(point["x"], after["x"], after["mean"])
        assert abs(near - point["y"]) < 0.1 * np.ptp([before["lower"].min(), before["upper"].max()])
        assert seen.page.locator("#plot .point").count() == 1
        assert seen.page.locator("#caption").inner_text() == "Functions given 1 point"


def test_line_on_the_screen_is_the_mean_of_the_answer(visit):
    with visit("#points=0.5,1") as seen:
        wait_for_answer(seen.page)
        drawn = seen.page.evaluate(
            """() => {
                const path = document.querySelector('#plot .mean');
                const { x, y } = path.getPointAtLength(path.getTotalLength() / 2);
                return [page.plot.x.invert(x), page.plot.y.invert(y)];
            }"""
        )
        found = shown(seen.page)
        assert np.interp(drawn[0], found["x"], found["mean"]) == pytest.approx(drawn[1], abs=0.05)


def test_second_click_narrows_the_band(visit):
    with visit() as seen:
        wait_for_answer(seen.page)
        widths = [mean_width(seen.page)]
        for place in ((0.2, 0.6), (0.8, 0.5)):
            click_at(seen.page, *place)
            widths.append(mean_width(seen.page))
        assert widths[0] > widths[1] > widths[2]


def test_points_are_dragged_and_the_mean_follows(visit):
    with visit("#points=0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        box = page.locator("#plot .point .dot").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(1, 6):
            page.mouse.move(x + 20 * step, y + 10 * step)
        page.mouse.up()
        wait_for_answer(page)
        point = page.evaluate("page.state.points[0]")
        assert point["x"] > 0.6
        assert point["y"] < 0.8
        found = shown(page)
        assert np.interp(point["x"], found["x"], found["mean"]) == pytest.approx(point["y"], abs=0.4)
        page.keyboard.press("Control+z")
        wait_for_answer(page)
        assert page.evaluate("[page.state.points[0].x, page.state.points[0].y]") == [0.5, 1]


def test_double_click_and_delete_remove_a_point(visit):
    with visit("#points=0.5,1;1.5,0") as seen:
        page = seen.page
        wait_for_answer(page)
        page.locator("#plot .point .dot").first.dblclick()
        wait_for_answer(page)
        assert page.evaluate("page.state.points.map((each) => each.x)") == [1.5]
        page.locator("#plot .point").focus()
        page.keyboard.press("Delete")
        wait_for_answer(page)
        assert page.locator("#plot .point").count() == 0
        page.locator("#undo").click()
        page.locator("#undo").click()
        wait_for_answer(page)
        assert page.evaluate("page.state.points.map((each) => each.x)") == [0.5, 1.5]
        page.locator("#redo").click()
        wait_for_answer(page)
        assert page.locator("#plot .point").count() == 1


def test_keys_alone_place_move_and_remove_points(visit):
    with visit() as seen:
        page = seen.page
        wait_for_answer(page)
        page.locator("#plot").focus()
        for _ in range(10):
            page.keyboard.press("ArrowLeft")
        page.keyboard.press("Shift+ArrowUp")
        page.keyboard.press("Enter")
        wait_for_answer(page)
        (point,) = page.evaluate("page.state.points")
        assert point["x"] == pytest.approx(0.8)
        assert re.match(
            r"Given 1 point: draws of seed 0. At 0.80: mean .+, 90 % from .+ to .+",
            page.locator("#status").inner_text(),
        )
        page.keyboard.press("Tab")
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert label.startswith("Point 1 of 1: x 0.80, y ")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        wait_for_answer(page)
        (moved,) = page.evaluate("page.state.points")
        assert moved["x"] == pytest.approx(0.82)
        assert moved["y"] < point["y"]
        page.keyboard.press("Delete")
        wait_for_answer(page)
        assert page.evaluate("[page.state.points.length, document.activeElement.id]") == [0, "plot"]


def test_fingers_place_and_drag_points(visit):
    with visit(width=390, height=844, touch=True) as seen:
        page = seen.page
        wait_for_answer(page)
        click_at(page, 0.5, 0.7, tap=True)
        assert page.locator("#plot .point").count() == 1
        before = page.evaluate("page.state.points[0].y")
        box = page.locator("#plot .point .dot").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        fingers = page.context.new_cdp_session(page)
        for step, kind in enumerate(["touchStart", *["touchMove"] * 6, "touchEnd"]):
            touches = [] if kind == "touchEnd" else [{"x": x, "y": y + 10 * step}]
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
        wait_for_answer(page)
        assert page.evaluate("page.state.points[0].y") < before
        assert page.evaluate("scrollY") == 0  # the finger moved the point and not the page
        assert seen.complaints == []


def test_typed_numbers_move_a_point(visit):
    with visit("#points=0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        page.get_by_label("y of point 1").fill("-0.75")
        page.get_by_label("y of point 1").press("Enter")
        wait_for_answer(page)
        assert page.evaluate("page.state.points[0].y") == -0.75
        page.get_by_label("Remove point 1").click()
        wait_for_answer(page)
        assert page.locator("#points").is_hidden()


def slide(page, name, value):
    page.locator(f"#{name}").evaluate(
        """(input, value) => {
            input.value = value;
            input.dispatchEvent(new Event('input', { bubbles: true }));
            input.dispatchEvent(new Event('change', { bubbles: true }));
        }""",
        value,
    )
    wait_for_answer(page)


def test_sliders_change_draws_band_resolution_and_noise(visit):
    with visit("#points=0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        questions = sum("/api/" in url for url in seen.requests)
        for count in (0, 33):
            slide(page, "draws", count)
            assert page.locator("#plot .draw").count() == count
        assert sum("/api/" in url for url in seen.requests) == questions  # the draws were there already
        before = mean_width(page)
        slide(page, "level", 50)
        assert mean_width(page) < 0.6 * before
        assert page.locator("#key-band").inner_text() == "50 % band"
        slide(page, "resolution", 0)
        assert len(shown(page)["x"]) == 26
        slide(page, "exactness", -8)
        found = shown(page)
        assert np.interp(0.5, found["x"], found["mean"]) == pytest.approx(1, abs=0.05)
        slide(page, "exactness", 2)
        narrow = mean_width(page)
        page.locator("#noise").check()
        wait_for_answer(page)
        assert mean_width(page) > 1.1 * narrow


def test_latent_slider_moves_a_curve_of_its_own(visit):
    with visit() as seen:
        page = seen.page
        wait_for_answer(page)
        assert page.locator("#plot .latent").count() == 0
        first = page.evaluate("page.details.get('linear').directions[0].coordinate")
        slide(page, f"latent-{first}", 2)
        there = page.locator("#plot .latent").get_attribute("d")
        slide(page, f"latent-{first}", -2)
        assert page.locator("#plot .latent").get_attribute("d") != there
        page.locator("#latent-reset").click()
        assert page.locator("#plot .latent").count() == 0


def test_models_are_switched_and_their_limits_explained(visit):
    with visit("#points=0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        linear = shown(page)["mean"]
        assert page.locator("#effort-field").is_hidden()
        page.locator("#model").select_option("tilted")
        wait_for_answer(page)
        assert page.locator("#plot .point").count() == 1
        assert not np.allclose(shown(page)["mean"], linear)
        assert page.locator("#effort-text").inner_text() == "Full effort: 300 draws per posterior, not 256"
        page.locator("#model").select_option("solid")
        assert "functions of 3 inputs" in page.locator("#elsewhere").inner_text()
        assert page.locator("#plot").is_hidden()
        assert seen.complaints == []


def test_points_belong_to_the_output_that_was_chosen(visit):
    with visit("#model=pair") as seen:
        page = seen.page
        wait_for_answer(page)
        page.locator("#output").select_option("1")
        wait_for_answer(page)
        assert click_at(page, 0.5, 0.7)["output"] == 1
        page.locator("#output").select_option("0")
        wait_for_answer(page)
        assert page.locator("#plot .point.other").count() == 1


def test_shuffle_draws_anew(visit):
    with visit() as seen:
        wait_for_answer(seen.page)
        before = shown(seen.page)["draws"]
        seen.page.locator("#shuffle").click()
        wait_for_answer(seen.page)
        assert not np.allclose(shown(seen.page)["draws"], before)


def test_link_reproduces_the_view(visit, browser):
    with visit() as seen:
        page = seen.page
        wait_for_answer(page)
        click_at(page, 0.4, 0.6)
        slide(page, "level", 70)
        page.locator("#shuffle").click()
        wait_for_answer(page)
        page.locator("#export-link").click()
        page.wait_for_function("() => document.getElementById('status').textContent.startsWith('The link is copied')")
        link, found = page.evaluate("navigator.clipboard.readText()"), shown(page)
    with visit_address(browser, link) as again:
        wait_for_answer(again.page)
        assert again.page.url == link
        for name, values in shown(again.page).items():
            np.testing.assert_array_equal(values, found[name])


def test_exports_download_and_the_lines_reproduce_the_table(visit):
    with visit("#model=tilted&points=0.5,1;1.2,-0.4&draws=5&moved=0:1") as seen:
        page = seen.page
        wait_for_answer(page)
        with page.expect_download() as download:
            page.locator("#export-csv").click()
        table = pd.read_csv(download.value.path())
        assert download.value.suggested_filename == "tilted-explore.csv"
        with page.expect_download() as download:
            page.locator("#export-png").click()
        picture = matplotlib.image.imread(io.BytesIO(download.value.path().read_bytes()), format="png")
        page.locator("#export-lines").click()
        with page.expect_download() as download:
            page.locator("#lines-save").click()
        lines = download.value.path().read_text()
        page.locator("#lines-close").click()
        assert seen.complaints == []
    assert picture.shape[1] > 1000
    assert 0.005 < np.mean(np.ptp(picture[..., :3], axis=2) > 0.1) < 0.9  # blue ink on a plain ground
    names = {}
    exec(lines, names)
    assert list(table) == ["x", "mean", "lower", "upper", *(f"draw{i}" for i in range(5)), "latent_curve"]
    for column, values in (("x", "at"), ("mean", "mean"), ("lower", "lower"), ("latent_curve", "curve")):
        np.testing.assert_allclose(table[column], names[values], rtol=1e-12)
    np.testing.assert_allclose(table.filter(like="draw").T, names["draws"], rtol=1e-12)


def test_refusals_are_shown_and_the_picture_stays(visit):
    with visit("#points=0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        page.route("**/api/posterior", lambda route: route.fulfill(status=422, json={"error": "It does not go."}))
        page.locator("#shuffle").click()
        page.wait_for_selector("#status.wrong")
        assert page.locator("#status").inner_text() == "It does not go."
        assert page.locator("#plot .mean").count() == 1


def test_superseded_questions_are_dropped(visit):
    with visit("#points=0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        page.evaluate("for (let i = 0; i < 8; i += 1) page.change({ seed: page.state.seed + 1 })")
        wait_for_answer(page)
        page.wait_for_function("() => page.asked.seed === 8")
        assert seen.complaints == []


def test_data_curves_stand_behind(visit):
    with visit() as seen:
        wait_for_answer(seen.page)
        assert seen.page.locator("#plot .data").count() == 8


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 800)], ids=["phone", "laptop"])
def test_page_never_scrolls_sideways(visit, width, height):
    with visit("#points=0.5,1;1.5,0&moved=0:1", width=width, height=height) as seen:
        wait_for_answer(seen.page)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.locator("#plot").bounding_box()["width"] > 0.6 * min(width, 900)


@pytest.mark.parametrize("hash", ["#points=0.5,1", "#model=surface&points=0.5,0.5,1"], ids=["curves", "maps"])
def test_every_control_has_a_name(visit, hash):
    with visit(hash) as seen:
        wait_for_answer(seen.page)
        nameless = seen.page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, .picture:not([hidden]), .point:not(.mark)')]
                .filter((each) => !each.labels?.length && !each.textContent.trim()
                    && !each.getAttribute('aria-label') && !each.getAttribute('aria-labelledby'))
                .map((each) => each.outerHTML)"""
        )
        assert nameless == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("hash", ["#points=0.5,1", "#model=surface&points=0.5,0.5,1"], ids=["curves", "maps"])
def test_text_can_be_read_in_light_and_dark(visit, scheme, hash):
    with visit(hash, scheme=scheme) as seen:
        wait_for_answer(seen.page)
        pairs = seen.page.evaluate(
            """() => [...document.querySelectorAll(
                    'h1, h2, h3, label, p, output, summary, footer span, button:enabled, .legend span')]
                .filter((each) => each.offsetParent && each.textContent.trim())
                .map((each) => [each, each.closest('.card, .stage') ?? document.body])
                .map(([each, sheet]) => [getComputedStyle(each).color, getComputedStyle(sheet).backgroundColor])"""
        )
    assert len(pairs) > 20
    assert min(contrast(*pair) for pair in pairs) >= 4.5


# Maps, of functions of two inputs.


@pytest.fixture(scope="module")
def atlas(browser, tmp_path_factory):
    """The address of maps, with surfaces beside them."""
    paths = save_models(tmp_path_factory.mktemp("maps"), "surface", "image", "linear")
    with serving_in_background(build_app(Site(stock(list(paths.values())), surfaces(6), warm=False))) as found:
        yield found


@pytest.fixture
def survey(browser, atlas):
    def opened(hash="", **how):
        return visit_address(browser, atlas + hash, **how)

    return opened


def colour_at(page, name, across, up):
    """The colour of a map at shares of its width and height, as red, green and blue."""
    return page.evaluate(
        """async ([name, across, up]) => {
            const image = new Image();
            image.src = document.querySelector(`#maps [data-map=${name}]`).getAttribute('href');
            await image.decode();
            const canvas = document.createElement('canvas');
            [canvas.width, canvas.height] = [image.width, image.height];
            const context = canvas.getContext('2d');
            context.drawImage(image, 0, 0);
            return [...context.getImageData(across * image.width, (1 - up) * image.height, 1, 1).data.slice(0, 3)];
        }""",
        [name, across, up],
    )


def colours(page):
    """What every map looks like."""
    return page.locator("#maps [data-map]").evaluate_all("all => all.map((each) => each.getAttribute('href'))")


def cell(page, values, place):
    """The value of a map in the cell that holds a place."""
    found = shown(page)
    return found[values][np.argmin(np.sum((found["x"] - place) ** 2, axis=1))]


def test_click_on_a_map_places_a_point_and_all_maps_move(survey, atlas):
    with survey() as seen:
        page = seen.page
        wait_for_answer(page)
        assert page.locator("#plot").is_hidden()
        before = page.evaluate(
            "[...document.querySelectorAll('#maps [data-map]')].map((each) => each.getAttribute('href'))"
        )
        width = mean_width(page)
        page.locator("#value-typed").fill("1.25")
        page.locator("#value-typed").press("Enter")
        point = click_at(page, 0.25, 0.75)
        (low, high), (bottom, top) = page.evaluate("page.card.domain")
        assert point["x"] == pytest.approx([low + 0.25 * (high - low), bottom + 0.75 * (top - bottom)], abs=0.01)
        assert point["y"] == 1.25
        assert abs(cell(page, "mean", point["x"]) - 1.25) < 0.3
        assert mean_width(page) < width
        after = page.evaluate(
            "[...document.querySelectorAll('#maps [data-map]')].map((each) => each.getAttribute('href'))"
        )
        moved = [one != other for one, other in zip(before, after, strict=True)]
        assert sum(moved) >= 3  # mean, width of the band, and draw
        assert page.locator("#maps .point").count() == 4  # one to take with keys, and a mark on each other map
        assert seen.complaints == []
        assert all(url.startswith((atlas, "data:", "blob:" + atlas)) for url in seen.requests)


def test_slider_moves_the_value_of_the_point_that_was_placed_last(survey):
    with survey() as seen:
        page = seen.page
        wait_for_answer(page)
        point = click_at(page, 0.6, 0.4)
        assert page.locator("#value-label").inner_text() == "Value of point 1"
        high = page.evaluate("page.plot.ends[1]")
        slide(page, "value", 0.9 * high)
        assert page.evaluate("page.state.points[0].y") == pytest.approx(0.9 * high, abs=0.01)
        assert abs(cell(page, "mean", point["x"]) - 0.9 * high) < 0.4
        page.locator("#value-release").click()
        assert page.locator("#value-label").inner_text() == "Value of the next point"
        slide(page, "value", 0.5)
        assert page.evaluate("page.state.points.length") == 1
        assert click_at(page, 0.2, 0.2)["y"] == pytest.approx(0.5, abs=0.01)
        page.get_by_label("x0 of point 2").fill("0.75")
        page.get_by_label("x0 of point 2").press("Enter")
        wait_for_answer(page)
        assert page.evaluate("page.state.points[1].x[0]") == 0.75


def test_colours_are_where_the_values_are(survey):
    with survey("#points=0.1,0.9,3;0.9,0.9,-3;0.1,0.1,-3") as seen:
        page = seen.page
        wait_for_answer(page)
        (left, right), (bottom, top) = page.evaluate("page.card.domain")
        places = {"top left": (0.02, 0.98), "bottom right": (0.98, 0.02)}
        light = [np.mean(colour_at(page, "mean", *place)) for place in places.values()]
        values = [
            cell(page, "mean", [left + across * (right - left), bottom + up * (top - bottom)])
            for across, up in places.values()
        ]
        assert abs(values[0] - values[1]) > 1
        assert (light[0] > light[1]) == (values[0] > values[1])  # the lighter the higher


def test_points_on_maps_are_dragged_and_taken_back(survey):
    with survey("#points=0.5,0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        box = page.locator("#maps .mark .dot").first.bounding_box()  # on the second map
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(1, 6):
            page.mouse.move(x - 300 * step, y)  # far beyond its map, over the first
        page.mouse.up()
        wait_for_answer(page)
        point = page.evaluate("page.state.points[0]")
        assert point["x"][0] == pytest.approx(page.evaluate("page.card.domain[0][0]"), abs=1e-3)
        assert point["x"][1] == pytest.approx(0.5, abs=0.02)
        assert point["y"] == 1
        page.keyboard.press("Control+z")
        wait_for_answer(page)
        assert page.evaluate("page.state.points[0].x") == [0.5, 0.5]


def test_keys_alone_place_move_raise_and_remove_points_on_a_map(survey):
    with survey() as seen:
        page = seen.page
        wait_for_answer(page)
        page.locator("#maps").focus()
        middle = page.evaluate("page.plot.middle().x")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("PageUp")
        page.keyboard.press("Enter")
        wait_for_answer(page)
        (point,) = page.evaluate("page.state.points")
        assert point["x"][0] > middle[0]
        assert point["x"][1] > middle[1]
        assert re.match(
            r"Given 1 point: a draw of seed 0. At \(.+, .+\): mean .+, 90 % from .+ to .+",
            page.locator("#status").inner_text(),
        )
        page.keyboard.press("Tab")
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert re.match(r"Point 1 of 1: at \(.+, .+\), value .+ Page Up", label)
        page.keyboard.press("+")
        page.keyboard.press("ArrowLeft")
        wait_for_answer(page)
        (raised,) = page.evaluate("page.state.points")
        assert raised["y"] > point["y"]
        assert raised["x"][0] < point["x"][0]
        page.keyboard.press("Delete")
        wait_for_answer(page)
        assert page.evaluate("[page.state.points.length, document.activeElement.id]") == [0, "maps"]


def test_fingers_place_and_drag_points_on_a_map(survey):
    with survey(width=390, height=844, touch=True) as seen:
        page = seen.page
        wait_for_answer(page)
        before = click_at(page, 0.5, 0.7, tap=True)
        box = page.locator("#maps .point .dot").last.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        fingers = page.context.new_cdp_session(page)
        for step, kind in enumerate(["touchStart", *["touchMove"] * 6, "touchEnd"]):
            touches = [] if kind == "touchEnd" else [{"x": x, "y": y + 10 * step}]
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
        wait_for_answer(page)
        after = page.evaluate("page.state.points[0]")
        assert after["x"][1] < before["x"][1]
        assert after["y"] == before["y"]
        assert page.evaluate("scrollY") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert seen.complaints == []


def test_resolution_noise_and_latents_of_maps(survey):
    with survey("#points=0.5,0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        assert page.locator("#resolution-value").inner_text() == "28 × 28 cells"
        slide(page, "resolution", 0)
        assert len(shown(page)["x"]) == 14**2
        narrow = mean_width(page)
        page.locator("#noise").check()
        wait_for_answer(page)
        assert mean_width(page) > narrow
        assert page.locator("#maps .title").all_text_contents()[:3] == ["mean", "90 % band width", "one noisy draw"]
        first = page.evaluate("page.details.get('surface').directions[0].coordinate")
        slide(page, f"latent-{first}", 2)
        assert page.locator("#maps .title").last.text_content() == "μ(z)"
        there = page.locator("#maps [data-map=latent]").get_attribute("href")
        slide(page, f"latent-{first}", -2)
        assert page.locator("#maps [data-map=latent]").get_attribute("href") != there


def test_images_run_down_and_maps_up(survey):
    with survey("#model=image&points=0.9,0.5,2") as seen:
        page = seen.page
        wait_for_answer(page)
        assert page.locator("#down").is_checked()
        dark, bright = (np.mean(colour_at(page, "mean", 0.5, up)) for up in (0.95, 0.05))  # the first input runs down
        assert bright > dark
        box = page.evaluate("page.plot.box")
        assert box["right"] - box["left"] == pytest.approx(box["bottom"] - box["top"])
        page.locator("#down").uncheck()
        left, right = (np.mean(colour_at(page, "mean", across, 0.5)) for across in (0.05, 0.95))
        assert right > left


def test_data_of_two_inputs_stand_beside_one_at_a_time(survey):
    with survey() as seen:
        page = seen.page
        wait_for_answer(page)
        assert page.locator("#maps .title").last.text_content() == "data: 0"
        cells = page.locator("#maps .cell").count()
        assert cells == len(surfaces(6)[0].x)
        slide(page, "which", 3)
        assert page.locator("#maps .title").last.text_content() == "data: 3"
        page.locator("#model").select_option("linear")
        wait_for_answer(page)
        assert page.locator("#plot .data").count() == 0  # they are of two inputs, this model of one
        assert seen.complaints == []


def test_models_of_one_and_of_two_inputs_are_switched(survey):
    with survey("#points=0.5,0.5,1") as seen:
        page = seen.page
        wait_for_answer(page)
        page.locator("#model").select_option("linear")
        wait_for_answer(page)
        assert page.locator("#maps").is_hidden()
        assert page.evaluate("[page.state.points.length, page.state.resolution]") == [0, 201]
        click_at(page, 0.5, 0.5)
        assert page.locator("#points th.number-column").all_inner_texts() == ["x", "y"]
        page.locator("#model").select_option("surface")
        wait_for_answer(page)
        assert page.evaluate("[page.state.points.length, page.state.resolution]") == [0, 28]
        assert seen.complaints == []


def test_maps_are_exported_and_the_lines_reproduce_the_table(survey, browser):
    with survey("#points=0.3,0.6,1;0.7,0.2,-0.5&moved=0:1&resolution=14&seed=3") as seen:
        page = seen.page
        wait_for_answer(page)
        with page.expect_download() as download:
            page.locator("#export-csv").click()
        table = pd.read_csv(download.value.path())
        with page.expect_download() as download:
            page.locator("#export-png").click()
        picture = matplotlib.image.imread(io.BytesIO(download.value.path().read_bytes()), format="png")
        page.locator("#export-lines").click()
        page.locator("#lines-dialog[open]").wait_for()
        lines = page.locator("#lines").text_content()
        page.locator("#lines-close").click()
        link, found = page.url, shown(page)
        assert seen.complaints == []
    assert 0.3 < np.mean(np.ptp(picture[..., :3], axis=2) > 0.1) < 0.95  # mostly maps
    names = {}
    exec(lines, names)
    assert list(table) == ["x0", "x1", "mean", "lower", "upper", "draw0", "latent_curve"]
    np.testing.assert_allclose(table[["x0", "x1"]], names["at"], rtol=1e-12)
    for column, values in (("mean", "mean"), ("upper", "upper"), ("latent_curve", "curve")):
        np.testing.assert_allclose(table[column], names[values], rtol=1e-12)
    np.testing.assert_allclose(table["draw0"], names["draws"][0], rtol=1e-12)
    with visit_address(browser, link) as again:
        wait_for_answer(again.page)
        for name, values in shown(again.page).items():
            np.testing.assert_array_equal(values, found[name])


def contrast(colour, ground):
    """The contrast ratio of the Web Content Accessibility Guidelines; 4.5 is enough for text."""

    def light(text):
        channels = np.array([float(part) for part in re.findall(r"[\d.]+", text)[:3]]) / 255
        linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722] + 0.05

    low, high = sorted([light(colour), light(ground)])
    return high / low
