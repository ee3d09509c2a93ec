"""The page: sections made of paragraphs, tables and pictures, written as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pandas as pd

from febm.reporting.findings import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# About the width of half a page or a phone when shown, with enough pixels to look sharp on either.
WIDTH, HEIGHT, DPI = 4.4, 3.1, 164
TEMPLATE = "page.html.jinja"


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclasses.dataclass(frozen=True)
class Code:
    """Lines of Python."""

    kind: ClassVar[str] = "code"
    text: str


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text; columns whose every entry opens like a number are set flush right."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        return tuple(
            all(cell[:1].isdigit() or cell[:1] in "–−-<>±" for cell in column)
            for column in zip(*self.rows, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Facts:
    """Names and what belongs to them."""

    kind: ClassVar[str] = "facts"
    caption: str
    rows: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture that is part of the page."""

    kind: ClassVar[str] = "picture"
    uri: str
    width: int
    height: int
    alt: str
    caption: str


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room, under each other where there is not."""

    kind: ClassVar[str] = "gallery"
    pictures: tuple[Picture, ...]


Block: TypeAlias = Paragraph | Code | Table | Facts | Gallery


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page, what it found, and the tables it rests on."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    findings: tuple[Finding, ...] = ()
    tables: dict[str, pd.DataFrame] = dataclasses.field(default_factory=dict)


def table_of(rows: Sequence[Sequence[Any]], columns: Sequence[str], caption: str) -> Table:
    """A table of anything that has a text."""
    return Table(caption, tuple(columns), tuple(tuple(str(cell) for cell in row) for row in rows))


class Drawing:
    """One panel to draw into; `picture` says what became of it."""

    def __init__(self, figure: Figure, axes: Axes) -> None:
        self.figure = figure
        self.axes = axes

    def picture(self, *, alt: str, caption: str) -> Picture:
        """The drawing as a picture with a palette: it looks the same and takes a third of the space."""
        from PIL import Image

        whole, small = io.BytesIO(), io.BytesIO()
        self.figure.savefig(whole, dpi=DPI)
        image = Image.open(whole).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        image.save(small, "png", optimize=True)
        uri = "data:image/png;base64," + base64.b64encode(small.getvalue()).decode("ascii")
        return Picture(uri, image.width, image.height, alt, caption)


@contextlib.contextmanager
def drawing(*, height: float = HEIGHT) -> Iterator[Drawing]:
    """A figure of one panel, without pyplot, in the type of the page."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from febm.plotting import OBSERVED

    with rc_context(
        {
            "font.size": 11,
            "text.color": OBSERVED,
            "axes.labelcolor": OBSERVED,
            "legend.frameon": False,
            "legend.fontsize": 9.5,
        }
    ):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield Drawing(figure, figure.subplots())


def render(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The HTML of a page; everything that is put into it is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("febm.reporting", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    findings = [finding for section in sections for finding in section.findings]
    titles = {section.anchor: section.title for section in sections}
    return environment.get_template(TEMPLATE).render(
        title=title, lead=lead, sections=sections, findings=findings, titles=titles
    )


def write(path: Path, text: str) -> None:
    """Write the file whole or not at all: a reader never sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # mkstemp makes files that only their owner can read; a report is as public as other new files.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
