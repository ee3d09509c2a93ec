"""How every picture looks: few quiet colours, each series with a marker and a dash of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from febm.checks import count
from febm.curves import Curves

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# One colour for what was observed, one for what the model says, one for the truth behind a posterior.
OBSERVED = "#4a4e57"
MODEL = "#2a6f9e"
TRUTH = "#c2562d"
PALE = "#9aa0a8"

# Type below this cannot be read on a phone, where a picture is about 4.5 inches wide.
SMALLEST_TYPE = 9.0


class Series(NamedTuple):
    """What tells one series from another, in colour and in grey."""

    color: str
    marker: str
    dash: Any


# Told apart by people who do not see red or green, and by marker and dash without any colour.
SERIES = (
    Series(MODEL, "o", "-"),
    Series(TRUTH, "s", (0, (5, 1.5))),
    Series("#6a8532", "^", (0, (1, 1.2))),
    Series("#7b4f8f", "D", (0, (6, 1.5, 1, 1.5))),
    Series("#b78a1c", "v", (0, (3, 1, 1, 1, 1, 1))),
    Series("#2f9c95", "P", (0, (8, 3))),
    Series("#a8326d", "X", (0, (2, 2))),
    Series("#6e5846", "*", (0, (10, 2, 2, 2))),
)


def series() -> Iterator[Series]:
    """Styles for one series after another, from the start again when there are many."""
    return cycle(SERIES)


def axes_or_current(axes: Axes | None) -> Axes:
    """The axes given; None: the current axes of pyplot."""
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.gca()


def tidy(axes: Axes) -> None:
    """Leave only what carries information: two thin spines and quiet ticks."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(which="both", color=PALE, labelcolor=OBSERVED)
    _tint_labels(axes)


def bare(axes: Axes) -> None:
    """No ticks and no frame, for pictures whose axes have no units."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    _tint_labels(axes)


def legend(
    axes: Axes, place: Literal["best", "upper left"], *, handles: Sequence[Artist] | None = None, columns: int = 1
) -> None:
    """A legend without a frame, of all that has a label or of `handles`, at a place that the data leave free."""
    handles = axes.get_legend_handles_labels()[0] if handles is None else handles
    axes.legend(handles=handles, loc=place, ncols=columns, frameon=False, fontsize=SMALLEST_TYPE, labelcolor=OBSERVED)


def legend_above_data(axes: Axes, *, handles: Sequence[Artist] | None = None, columns: int = 1) -> None:
    """A legend in room of its own at the top of the axes, where it covers nothing."""
    handles = axes.get_legend_handles_labels()[0] if handles is None else handles
    rows = math.ceil(len(handles) / columns)
    height = axes.bbox.height / axes.figure.dpi * 72
    room = min((1.45 * SMALLEST_TYPE * rows + 8) / height, 0.6)
    bottom, top = axes.get_ylim()
    # Ticks and the line beside them end where the data do.
    for minor in (False, True):
        ticks = axes.get_yticks(minor=minor)
        axes.set_yticks(ticks[(ticks >= bottom) & (ticks <= top)], minor=minor)
    axes.spines["left"].set_bounds(bottom, top)
    if axes.get_yscale() == "log":
        axes.set_ylim(bottom, bottom * (top / bottom) ** (1 / (1 - room)))
    else:
        axes.set_ylim(bottom, bottom + (top - bottom) / (1 - room))
    legend(axes, "upper left", handles=handles, columns=columns)


def require_lines(curves: Curves, output: int, owner: str) -> None:
    """Refuse what is no lines: no curves at all, several inputs, or an output that is not there."""
    if not isinstance(curves, Curves):
        raise TypeError(
            f"{owner}: curves must be Curves, which say at which points they were observed; got "
            f"{type(curves).__name__}. An array whose rows are curves goes through Curves.from_grid(x, array)."
        )
    if curves.d_x != 1:
        images = " Curves on a grid of two inputs are pictures: use plot_images." if curves.d_x == 2 else ""
        raise ValueError(
            f"{owner}: the curves have d_x={curves.d_x}, d_y={curves.d_y}; only one input and one output can be drawn "
            f"as a line.{images}"
        )
    require_output(output, curves.d_y, owner)


def require_output(output: int, d_y: int, owner: str) -> None:
    """Refuse the number of an output that is not there."""
    if isinstance(output, bool) or not isinstance(output, int | np.integer) or not 0 <= output < d_y:
        raise ValueError(f"{owner}: output is {output!r}; there {_are_outputs(d_y)}, counted from 0.")


def require_curve(curve: int, total: int, owner: str) -> None:
    """Refuse the position of a curve that is not there."""
    if isinstance(curve, bool) or not isinstance(curve, int | np.integer) or not -total <= curve < total:
        raise ValueError(f"{owner}: curve is {curve!r}; give a position among {count(total, 'curve')}, from 0.")


def from_left_to_right(curve: Curves, output: int) -> np.ndarray:
    """The points `(m, 2)` of one curve, where this output was observed, in order of x."""
    points = np.column_stack([curve.x[:, 0], curve.y[:, output]])
    points = points[~np.isnan(points[:, 1])]
    return points[np.argsort(points[:, 0], kind="stable")]


def _tint_labels(axes: Axes) -> None:
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(OBSERVED)


def _are_outputs(d_y: int) -> str:
    return f"{'is' if d_y == 1 else 'are'} {count(d_y, 'output')}"
