"""The page in a browser: whole without a network, on a phone, on a desk and on paper."""

import numpy as np
import pytest
from browser import chromium, visit

from febm.curves import Curves
from febm.datasets import load_quadratic
from febm.models import FEBM
from febm.reporting import ReportEffort, report

EFFORT = ReportEffort(
    permutations=99,
    power_sizes=(10, 20),
    power_kernels=("id",),
    trials=10,
    predicted=20,
    draws=64,
    embedded=30,
    shown=10,
)
SIZES = pytest.mark.parametrize("size", [(360, 740), (1200, 900)], ids=["phone", "desk"])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The report of a fitted model, every section and split of it, with words that do not fit a phone."""
    data = load_quadratic(0, n_train=60, n_evaluation=60, points=20)
    model = FEBM(rank=2, components=2, prior="mixture", random_state=0, progress=False).fit(data.train)
    judged = data.evaluation
    judged = Curves.from_grid(
        judged.x[:20, 0], judged.to_grid()[1], ids=[f"{'long' * 20}{i}" for i in range(len(judged))]
    )
    where = tmp_path_factory.mktemp("browser") / "page.html"
    report(model, judged, where, title="A <b>title</b> of one very" + "long" * 30 + "word", effort=EFFORT)
    return where


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@SIZES
def test_page_loads_without_complaint_and_asks_for_nothing_else(browser, path, size):
    with visit(browser, path, width=size[0], height=size[1]) as seen:
        assert seen.complaints == []
        assert [url for url in seen.requests if not url.startswith("data:")] == [path.resolve().as_uri()]


@SIZES
def test_page_never_scrolls_sideways(browser, path, size):
    with visit(browser, path, width=size[0], height=size[1]) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        wide = seen.page.evaluate(
            """() => [...document.querySelectorAll('main *')]
                .filter(each => !each.closest('.scroll, pre') && each.getBoundingClientRect().right > innerWidth + 1)
                .map(each => each.tagName)"""
        )
        assert wide == []


def test_every_picture_is_there_with_words_for_it(browser, path):
    with visit(browser, path) as seen:
        pictures = seen.page.evaluate(
            "[...document.images].map(each => [each.complete, each.naturalWidth, each.width, each.alt.length])"
        )
    assert len(pictures) >= 12
    assert all(complete and natural > 0 and shown > 200 and words > 10 for complete, natural, shown, words in pictures)


def test_links_lead_to_their_sections(browser, path):
    with visit(browser, path, width=360, height=740) as seen:
        links = seen.page.locator("a")
        assert links.count() >= 12
        for i in range(links.count()):
            target = links.nth(i).get_attribute("href")
            assert target is not None
            assert seen.page.locator(target).count() == 1
        seen.page.locator("ul.findings a").first.click()
        heading = seen.page.locator(seen.page.locator("ul.findings a").first.get_attribute("href"))
        assert -1 < heading.bounding_box()["y"] < 740


def test_text_is_dark_enough_to_read(browser, path):
    with visit(browser, path) as seen:
        colours = seen.page.evaluate(
            """() => [...document.querySelectorAll('p, li div, .mark, td, th, figcaption, a, h1, h2')]
                .map(each => getComputedStyle(each).color.match(/\\d+/g).slice(0, 3).map(Number))"""
        )
    assert len(colours) > 50
    assert min(_contrast_with_white(colour) for colour in {tuple(colour) for colour in colours}) >= 4.5


def test_verdicts_are_words_and_not_colours_alone(browser, path):
    with visit(browser, path) as seen:
        marks = seen.page.locator(".mark").all_inner_texts()
    assert marks
    assert all(any(word in mark for word in ("Good", "Fair", "Bad", "Unknown")) for mark in marks)


def test_page_prints_on_some_sheets(browser, path):
    with visit(browser, path) as seen:
        printed = seen.page.pdf(format="A4")
    sheets = printed.count(b"/Type /Page") - printed.count(b"/Type /Pages")
    assert printed.startswith(b"%PDF")
    assert 3 <= sheets <= 20


def _contrast_with_white(colour):
    """The contrast ratio of the Web Content Accessibility Guidelines; 4.5 is enough for text."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(colour) / 255]
    return 1.05 / (np.dot([0.2126, 0.7152, 0.0722], linear) + 0.05)
