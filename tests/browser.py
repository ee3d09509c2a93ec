"""Opens a page in the system's Chromium as a reader without a network would, and says what happened."""

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclasses.dataclass
class Visit:
    """An open page, and everything it said and asked for."""

    page: Any
    complaints: list[str] = dataclasses.field(default_factory=list)
    requests: list[str] = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """The browser; skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in CHROMIUMS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUMS)} is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextlib.contextmanager
def visit(browser: Any, path: Path, *, width: int = 1200, height: int = 900) -> Iterator[Visit]:
    """The file in a window of this size, offline."""
    context = browser.new_context(offline=True, viewport={"width": width, "height": height})
    seen = Visit(context.new_page())
    seen.page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    seen.page.on("pageerror", lambda error: seen.complaints.append(f"error: {error}"))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(path.resolve().as_uri(), wait_until="load")
    yield seen
    context.close()
