"""Functions of two inputs as maps: what was measured, and what is known of a surface that was seen at some points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from febm.checks import as_points, count, whole_number
from febm.curves import Curves
from febm.images import grid_shape
from febm.models.base import Posterior
from febm.plotting.images import MISSING
from febm.plotting.posterior import require_posterior
from febm.plotting.style import OBSERVED, TRUTH, axes_or_current, require_curve, require_output, tidy
from febm.randomness import RandomState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Layout = Literal["map", "image"]
LAYOUTS = ("map", "image")
VALUES = "viridis"
# Pale where the model is sure, and no colour that values have.
UNCERTAINTY = "Oranges"
ARROWS_ACROSS = 14  # more than these run into each other
# Inputs are drawn to one scale unless that makes a strip of the map.
LONGEST_SIDE = 4.0
LEAST_POINT, LARGEST_POINT = 3.0, 9.0  # of a scattered value, in printer's points


def plot_surface(
    curves: Curves,
    *,
    curve: int = 0,
    output: int | None = None,
    layout: Layout = "map",
    colormap: str = VALUES,
    limits: tuple[float, float] | None = None,
    colorbar: bool = True,
    axes: Axes | None = None,
) -> Axes:
    """Draw one function of two inputs: a map where its points fill a grid, else every point in its colour.

    Parameters
    ----------
    curves
        Curves with two inputs.
    curve
        Which of them, by position.
    output
        Which output is drawn, counted from 0; None: the only one, or two as arrows on a map of their length.
    layout
        "map": the first input runs to the right, the second up; "image": the first runs down, the second to the right.
    colormap
        Matplotlib's name of the colours.
    limits
        The values at the two ends of the colours; None: the smallest and the largest, of lengths 0 and the largest.
    colorbar
        Whether a bar beside the map says what its colours mean.
    axes
        Where to draw; None: the current axes of pyplot.
    """
    owner = "plot_surface"
    _require_layout(layout, owner)
    _require_surfaces(curves, f"{owner}: curves")
    require_curve(curve, len(curves), owner)
    chosen = _outputs(output, curves.d_y, owner)
    one = curves[curve]
    surface = Surface(one.x, one.y[:, chosen])
    low, high = _limits([surface]) if limits is None else limits
    if not low < high:
        raise ValueError(f"{owner}: limits are {limits!r}; give the lowest value and a larger highest one.")
    axes = axes_or_current(axes)
    drawn = _draw(axes, surface, layout, colormap, (low, high))
    if colorbar:
        _draw_bar(axes, drawn)
    return axes


def plot_posterior_maps(
    posterior: Posterior,
    at: Any,
    *,
    curve: int = 0,
    output: int | None = None,
    draws: int = 200,
    context: Curves | None = None,
    truth: Curves | None = None,
    layout: Layout = "map",
    colormap: str = VALUES,
    largest_deviation: float | None = None,
    axes: tuple[Axes, ...] | None = None,
    random_state: RandomState = 0,
) -> tuple[Axes, ...]:
    """Draw what is known of one function of two inputs: its mean and its standard deviation, beside the truth if known.

    Parameters
    ----------
    posterior
        What `condition` gave, of curves with two inputs.
    at
        The points `(m, 2)` of a grid, such as `febm.grid2d(40, 40)`, at which the maps are evaluated.
    curve
        Which of the conditioned curves, by position.
    output
        Which output is drawn, counted from 0; None: the only one, or two as arrows on a map of their length, and the
        root of their two variances together.
    draws
        How many functions the standard deviation is that of, at least two.
    context
        The conditioned curves, of which the points seen are marked.
    truth
        The same curves in full, drawn first, in the colours of the mean.
    layout
        "map": the first input runs to the right, the second up; "image": the first runs down, the second to the right.
    colormap
        Matplotlib's name of the colours of values.
    largest_deviation
        The standard deviation that is drawn darkest, so that maps compare; None: the largest one.
    axes
        The axes for truth (where it is given), mean and standard deviation; None: a new figure with as many.
    random_state
        Which functions are drawn.
    """
    owner = "plot_posterior_maps"
    _require_layout(layout, owner)
    require_posterior(posterior, owner)
    draws = whole_number(f"{owner}: draws", draws, least=2)
    if isinstance(at, Curves):
        raise TypeError(f"{owner}: `at` is Curves; give the points (m, 2) of a grid, such as febm.grid2d(40, 40).")
    points = as_points(at, 2, f"{owner}: at")
    if grid_shape(points) is None:
        raise ValueError(
            f"{owner}: the {count(len(points), 'point')} of `at` fill no grid of rows and columns; give those of one, "
            "such as febm.grid2d(40, 40)."
        )
    require_curve(curve, len(posterior), owner)
    for name, given in (("context", context), ("truth", truth)):
        if given is not None:
            _require_surfaces(given, f"{owner}: {name}")
            _require_as_many(len(given), len(posterior), f"{owner}: {name}")
    mean = np.asarray(posterior.mean(points))[curve]
    chosen = _outputs(output, mean.shape[-1], owner)
    names = [*(["truth"] if truth is not None else []), "posterior mean", "standard deviation"]
    panels = dict(zip(names, _panels(axes, len(names), owner), strict=True))
    shown = {"posterior mean": Surface(points, mean[:, chosen])}
    if truth is not None:
        shown["truth"] = Surface(truth[curve].x, truth[curve].y[:, chosen])
    limits = _limits(list(shown.values()))
    for name, surface in shown.items():
        _draw_bar(panels[name], _draw(panels[name], surface, layout, colormap, limits))
    spread = Surface(points, _spread(posterior, points, curve, chosen, draws, random_state))
    darkest = largest_deviation or _limits([spread])[1]
    last = panels["standard deviation"]
    _draw_bar(last, _draw(last, spread, layout, UNCERTAINTY, (0.0, darkest)))
    for name in ("posterior mean", "standard deviation"):
        panels[name].set_title(name, fontsize=10, color=OBSERVED)
        if context is not None:
            _mark(panels[name], context[curve].x, layout)
    if truth is not None:
        panels["truth"].set_title("truth", fontsize=10, color=OBSERVED)
    return tuple(panels.values())


class Surface(NamedTuple):
    """Values of one output, or arrows of two, at points of two inputs."""

    points: Float[np.ndarray, "points 2"]
    values: Float[np.ndarray, "points outputs"]

    @property
    def has_arrows(self) -> bool:
        """Whether there are two outputs."""
        return self.values.shape[1] == 2

    @property
    def heights(self) -> Float[np.ndarray, " points"]:
        """What colours show: the values, or the lengths of arrows."""
        return np.linalg.norm(self.values, axis=1) if self.has_arrows else self.values[:, 0]


def _spread(
    posterior: Posterior, points: np.ndarray, curve: int, chosen: list[int], draws: int, random_state: RandomState
) -> Float[np.ndarray, "points 1"]:
    """The standard deviation of functions drawn; of two outputs, the root of the sum of their variances."""
    first = range(len(posterior))[curve] * draws
    drawn = posterior.sample(draws, points, random_state=random_state)[first : first + draws]
    values = drawn.y.reshape(draws, len(points), drawn.d_y)[..., chosen]
    return np.sqrt(values.var(axis=0, ddof=1).sum(axis=-1, keepdims=True))


def _limits(surfaces: list[Surface]) -> tuple[float, float]:
    heights = np.concatenate([surface.heights for surface in surfaces])
    low = 0.0 if surfaces[0].has_arrows else float(np.nanmin(heights))
    high = float(np.nanmax(heights))
    # A surface of one value everywhere is drawn in the first colour.
    return low, high if high > low else low + 1.0


def _draw(axes: Axes, surface: Surface, layout: Layout, colormap: str, limits: tuple[float, float]) -> Any:
    """Draw the surface, and give what has its colours."""
    colours: dict[str, Any] = {"cmap": colormap, "vmin": limits[0], "vmax": limits[1]}
    across, up = _oriented(surface.points, layout)
    if grid_shape(np.unique(surface.points, axis=0)) is not None and len(across) > 1:
        drawn: Any = axes.pcolormesh(*_grid(across, up, surface.heights), shading="nearest", rasterized=True, **colours)
    else:
        size = np.clip(0.5 * _inches(axes) * 72 / math.sqrt(len(across)), LEAST_POINT, LARGEST_POINT)
        size = size / 2 if surface.has_arrows else size
        drawn = axes.scatter(across, up, c=surface.heights, s=size**2, linewidths=0, **colours)
    axes.set_facecolor(MISSING)
    if surface.has_arrows:
        _draw_arrows(axes, surface, layout)
    _frame(axes, across, up, layout)
    return drawn


def _draw_bar(axes: Axes, drawn: Any) -> None:
    bar = axes.figure.colorbar(drawn, cax=axes.inset_axes((1.04, 0.0, 0.045, 1.0)))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, labelcolor=OBSERVED, length=2)


def _draw_arrows(axes: Axes, surface: Surface, layout: Layout) -> None:
    """Arrows of two outputs, of a grid some rows and columns only; the longest is as long as their distance."""
    shape = grid_shape(np.unique(surface.points, axis=0))
    kept = np.ones(len(surface.points), dtype=bool)
    if shape is not None:
        for side, coordinate in zip(shape, surface.points.T, strict=True):
            step = math.ceil(side / ARROWS_ACROSS)
            kept &= np.isin(coordinate, np.unique(coordinate)[step // 2 :: step])
    points, values = surface.points[kept], surface.values[kept]
    width = np.ptp(points, axis=0).max() or 1.0
    longest = np.nanmax(np.linalg.norm(values, axis=1)) or 1.0
    arrows = values * 1.2 * width / (min(ARROWS_ACROSS, math.sqrt(len(points))) * longest)
    # Outputs point along inputs: the first output along the first input, wherever that runs.
    across, up = _oriented(arrows, layout)
    axes.quiver(
        *_oriented(points, layout), across, up,
        color=OBSERVED if shape is None else "white",
        angles="xy", scale_units="xy", scale=1.0, width=0.006, headwidth=4, zorder=3,
    )  # fmt: skip


def _mark(axes: Axes, points: np.ndarray, layout: Layout) -> None:
    # The white edge keeps points apart from each other and from the map under them.
    axes.plot(
        *_oriented(points, layout), "o",
        color=TRUTH, markersize=5, markeredgecolor="white", markeredgewidth=0.9, zorder=5, label="points seen",
    )  # fmt: skip


def _frame(axes: Axes, across: np.ndarray, up: np.ndarray, layout: Layout) -> None:
    tidy(axes)
    if layout == "image" and not axes.yaxis_inverted():
        axes.invert_yaxis()
    wide, high = (float(np.ptp(coordinate)) for coordinate in (across, up))
    if 0 < wide <= LONGEST_SIDE * high and high <= LONGEST_SIDE * wide:
        axes.set_aspect("equal")


def _oriented(points: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """What runs across and what runs up or down."""
    first, second = points.T
    return (first, second) if layout == "map" else (second, first)


def _grid(across: np.ndarray, up: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    (columns, column), (rows, row) = (np.unique(coordinate, return_inverse=True) for coordinate in (across, up))
    values = np.full((len(rows), len(columns)), np.nan)
    values[row, column] = heights
    return columns, rows, values


def _panels(axes: tuple[Axes, ...] | None, number: int, owner: str) -> tuple[Axes, ...]:
    if axes is None:
        from matplotlib import pyplot

        _, found = pyplot.subplots(1, number, figsize=(3.4 * number, 3.0), layout="constrained")
        return tuple(found)
    given = tuple(np.ravel(np.asarray(axes, dtype=object)))
    if len(given) != number:
        needed = "truth, mean and standard deviation" if number == 3 else "mean and standard deviation"
        raise ValueError(f"{owner}: axes has {len(given)}; give {number}, for {needed}.")
    return given


def _inches(axes: Axes) -> float:
    return min(axes.bbox.width, axes.bbox.height) / axes.figure.dpi


def _outputs(output: int | None, d_y: int, owner: str) -> list[int]:
    if output is not None:
        require_output(output, d_y, owner)
        return [output]
    if d_y > 2:
        raise ValueError(
            f"{owner}: there are {d_y} outputs, which are neither one value nor an arrow; choose one with `output`."
        )
    return list(range(d_y))


def _require_layout(layout: Any, owner: str) -> None:
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ValueError(f"{owner}: layout is {layout!r}; choose 'map' or 'image'.")


def _require_surfaces(curves: Any, owner: str) -> None:
    if not isinstance(curves, Curves):
        raise TypeError(f"{owner} must be Curves with two inputs; got {type(curves).__name__}.")
    if curves.d_x != 2:
        lines = " plot_curves draws curves of one input." if curves.d_x == 1 else ""
        raise ValueError(f"{owner} have d_x={curves.d_x}; a map has two inputs.{lines}")


def _require_as_many(given: int, total: int, owner: str) -> None:
    if given != total:
        raise ValueError(
            f"{owner} has {count(given, 'curve')}, but the posterior is of {total}; give the curves that were "
            "conditioned on, in the same order."
        )
