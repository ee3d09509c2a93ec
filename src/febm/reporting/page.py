"""The page: sections made of paragraphs, tables and pictures, written as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import importlib.metadata
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pandas as pd

from febm._version import __version__
from febm.files import whole_file
from febm.reporting.findings import Finding, failure
from febm.reporting.words import in_a_sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# About the width of half a page or a phone when shown, with enough pixels to look sharp on either.
WIDTH, HEIGHT, DPI = 4.4, 3.1, 164
TEMPLATE = "page.html.jinja"
LIBRARIES = ("jax", "numpy", "scipy", "scikit-learn", "matplotlib")


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
    """Rows of text; columns whose every entry opens like a number are set flush right.

    Cells at the places `bold` (row, column) are set bold, rows in `quiet` in a softer ink.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()
    quiet: frozenset[int] = frozenset()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        if not self.rows:
            return (False,) * len(self.columns)
        return tuple(
            all(cell[:1].isdigit() or cell[:1] in "–−-<>±(∞" for cell in column)
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

    @property
    def shown_width(self) -> int:
        """How wide it is on a screen where its type is as large as in print."""
        return round(self.width * 96 / DPI)


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room, under each other where there is not; or each as `wide` as it is."""

    kind: ClassVar[str] = "gallery"
    pictures: tuple[Picture, ...]
    wide: bool = False


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
        """The drawing as it stands."""
        return picture_of(png_of(self.figure), alt=alt, caption=caption)


def png_of(figure: Figure) -> bytes:
    """The figure as a picture with a palette: it looks the same and takes a third of the space."""
    from PIL import Image

    pixels, small = io.BytesIO(), io.BytesIO()
    figure.savefig(pixels, dpi=DPI, format="rgba")
    width, height = (int(inches * DPI) for inches in figure.get_size_inches())
    whole = Image.frombytes("RGBA", (width, height), pixels.getvalue())
    whole.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(small, "png")
    return small.getvalue()


def picture_of(png: bytes, *, alt: str, caption: str) -> Picture:
    """A picture that is part of the page."""
    from PIL import Image

    image = Image.open(io.BytesIO(png))
    uri = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
    return Picture(uri, image.width, image.height, alt, caption)


@contextlib.contextmanager
def page_type() -> Iterator[None]:
    """Figures made inside have the type of the page."""
    from matplotlib import rc_context

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
        yield


@contextlib.contextmanager
def drawing(*, height: float = HEIGHT) -> Iterator[Drawing]:
    """A figure of one panel, without pyplot, in the type of the page."""
    from matplotlib.figure import Figure

    with page_type():
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield Drawing(figure, figure.subplots())


def guarded(anchor: str, title: str, make: Callable[[], Section]) -> Section:
    """The section with its warnings; or, if it fails, a section that says so."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            section = make()
        except Exception as error:  # whatever a model raises, the other sections must not be lost
            text = f"This section could not be made. {in_a_sentence(error)}"
            section = Section(anchor, title, (Paragraph(text),), (failure(anchor, title, error),))
    # What a library says to its users' developers is no news for a reader of the page.
    said = dict.fromkeys(
        str(each.message)
        for each in caught
        if issubclass(each.category, UserWarning | RuntimeWarning) and not issubclass(each.category, DeprecationWarning)
    )
    notes = tuple(Paragraph(f"Note: {text}") for text in list(said)[:5])
    return dataclasses.replace(section, blocks=(*section.blocks, *notes))


def versions() -> list[tuple[str, str]]:
    """The library and those that its numbers rest on, each with its version."""
    return [("febm", __version__), *((name, importlib.metadata.version(name)) for name in LIBRARIES)]


def render(title: str, lead: str, sections: Sequence[Section], *, wide: bool = False) -> str:
    """The HTML of a page, as `wide` as large tables need it; everything that is put into it is escaped."""
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
        title=title, lead=lead, sections=sections, findings=findings, titles=titles, wide=wide
    )


def write(path: Path, content: str | bytes) -> None:
    """Write the file whole or not at all: a reader never sees half of it."""
    with whole_file(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
