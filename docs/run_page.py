"""Run the Python of a page: its blocks in order, in one namespace, as a reader would who pastes them one by one.

A block that begins with ```python is run; one that begins with ```python notest is shown only.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language and marks, its text, and the line of the page that the text begins on."""

    info: str
    text: str
    line: int


def blocks(page: Path, info: str = "python") -> list[Block]:
    """The blocks of a page whose fence says exactly `info`."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(match["info"].strip(), match["text"], text.count("\n", 0, match.start()) + 2)
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if block.info == info]


def run(
    page: Path, namespace: dict[str, Any] | None = None, *, changed: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run the Python blocks of a page in the working directory; errors name the page and its line.

    `changed` has what is to be replaced in the code, such as the size of the data.
    """
    namespace = {"__name__": "__page__"} if namespace is None else namespace
    for block in blocks(page):
        text = block.text
        for old, new in (changed or {}).items():
            text = text.replace(old, new)
        exec(compile("\n" * (block.line - 1) + text, str(page), "exec"), namespace)
    return namespace
