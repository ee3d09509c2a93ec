"""Curves of two inputs as images: the first input runs down the rows, the second along the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from febm.checks import as_points, count, whole_number
from febm.curves import Curves
from febm.door import as_curves
from febm.plotting.style import axes_or_current, bare, require_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A colour that no grey scale and hardly a photograph has, for pixels that were not observed.
MISSING = "#f2dcc4"
GAP = 1  # pixels between images
FILLED = 0.1  # of a grid that the points of all curves together must fill; scattered points fill next to nothing
SCATTER_GAP = 0.06  # of the width of a tile


def plot_images(
    curves: Any,
    *,
    shape: tuple[int, int] | None = None,
    pixels: Any = None,
    columns: int | None = None,
    output: int | None = None,
    colormap: str = "gray",
    limits: tuple[float, float] | None = None,
    limit: int = 64,
    scatter: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Draw curves on a grid of two inputs as images side by side, in rows.

    Parameters
    ----------
    curves
        Curves with two inputs; or flat images (one input, or a plain array with one image a row) with their `shape`.
    shape
        Rows and columns of an image; None: what the points of the curves say.
    pixels
        The points of all pixels, such as `febm.grid2d(28, 28)`, where some rows or columns were observed in no curve;
        None: those of the curves.
    columns
        Images in a row; None: about as many as there are rows.
    output
        Which output is drawn; None: the only one, or three as red, green and blue.
    colormap
        Matplotlib's name of the colours of a single output.
    limits
        The values drawn darkest and brightest; None: the smallest and the largest shown, but 0 and 1 for colours
        that stay inside.
    limit
        At most so many images, the first ones, are drawn.
    scatter
        Whether points that do not fill a grid are drawn, each as a square where it lies.
    axes
        Where to draw; None: the current axes of pyplot.

    Notes
    -----
    Every pixel is as large as any other, whatever the spacing of the grid. Pixels that were not observed are
    sand; a row or column in which no curve was observed is left out, unless `pixels` has it.
    """
    curves = as_curves(curves, "plot_images: curves")
    for name, value in (("limit", limit), ("columns", 1 if columns is None else columns)):
        whole_number(f"plot_images: {name}", value)
    shape = None if shape is None else _rows_and_columns(shape)
    # The grid is that of all curves: an image that misses a row keeps its place for it.
    chosen = _outputs(curves, output)
    shown = min(limit, len(curves))
    columns = min(shown, math.ceil(math.sqrt(shown)) if columns is None else columns)
    if scatter:
        return _draw_scatter(axes_or_current(axes), curves[:shown], chosen, columns, colormap, limits)
    images = _as_images(curves, shape, pixels)[:shown][..., chosen]
    low, high = _range(images, limits)
    axes = axes_or_current(axes)
    missing = np.isnan(images).any(axis=-1, keepdims=True)
    if missing.any():
        axes.imshow(_blanks(missing, columns), interpolation="nearest")
    whole = montage(images, columns)
    if len(chosen) == 1:
        axes.imshow(whole[..., 0], cmap=colormap, vmin=low, vmax=high, interpolation="nearest")
    else:
        opaque = ~np.isnan(whole).any(axis=-1, keepdims=True)
        colours = np.clip((whole - low) / (high - low), 0, 1)
        axes.imshow(np.where(opaque, np.append(colours, opaque, axis=-1), 0.0), interpolation="nearest")
    bare(axes)
    return axes


def montage(
    images: Float[np.ndarray, "images rows columns outputs"], columns: int
) -> Float[np.ndarray, "height width outputs"]:
    """All images in one array, `columns` in a row, with NaN between them."""
    n, height, width, outputs = images.shape
    rows = math.ceil(n / columns)
    whole = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, outputs), np.nan)
    for i, image in enumerate(images):
        top, left = (i // columns) * (height + GAP), (i % columns) * (width + GAP)
        whole[top : top + height, left : left + width] = image
    return whole


def _rows_and_columns(shape: Any) -> tuple[int, int]:
    sides = tuple(shape) if isinstance(shape, Sequence | np.ndarray) and not isinstance(shape, str) else ()
    if len(sides) != 2 or not all(isinstance(side, int | np.integer) and side > 0 for side in sides):
        raise ValueError(
            f"plot_images: shape is {shape!r}; give the numbers of rows and columns of an image, such as (28, 28)."
        )
    return int(sides[0]), int(sides[1])


def _outputs(curves: Curves, output: int | None) -> list[int]:
    if output is not None:
        require_output(output, curves.d_y, "plot_images")
        return [output]
    if curves.d_y not in (1, 3):
        raise ValueError(
            f"plot_images: the curves have {curves.d_y} outputs, which are neither a grey value nor a colour; "
            "choose one with `output`."
        )
    return list(range(curves.d_y))


def _as_images(
    curves: Curves, shape: tuple[int, int] | None, pixels: Any = None
) -> Float[np.ndarray, "images rows columns outputs"]:
    """Values on the grid of all points of all curves, NaN where nothing was observed."""
    if curves.d_x > 2 or (curves.d_x == 1 and shape is None):
        raise ValueError(
            f"plot_images: the curves have d_x={curves.d_x}; an image has two inputs. "
            "Flat images need their `shape`; plot_curves draws curves of one input."
        )
    points, values = curves.to_grid()
    if curves.d_x == 1:
        assert shape is not None
        if math.prod(shape) != len(points):
            raise ValueError(f"plot_images: shape is {shape!r}, but the curves have {count(len(points), 'point')}.")
        return values.reshape(len(curves), *shape, curves.d_y)
    known = points if pixels is None else as_points(pixels, 2, "plot_images: pixels")
    lines = [np.unique(coordinate) for coordinate in known.T]
    row, column = (np.searchsorted(line, place) for line, place in zip(lines, points.T, strict=True))
    found = len(lines[0]), len(lines[1])
    if pixels is not None and not all(np.isin(place, line).all() for place, line in zip(points.T, lines, strict=True)):
        raise ValueError(
            "plot_images: pixels has not all rows and columns that the curves have; give the points of every pixel."
        )
    if len(known) < FILLED * math.prod(found):
        raise ValueError(
            f"plot_images: the {len(points):,} points of the curves do not fill a grid of rows and columns; "
            "use scatter=True, or sample the functions at the points of a grid."
        )
    if shape is not None and shape != found:
        raise ValueError(f"plot_images: shape is {shape!r}, but the curves have a grid of {found[0]} × {found[1]}.")
    images = np.full((len(curves), *found, curves.d_y), np.nan)
    images[:, row, column] = values
    return images


def _range(values: np.ndarray, limits: tuple[float, float] | None) -> tuple[float, float]:
    low, high = (np.nanmin(values), np.nanmax(values)) if limits is None else limits
    if limits is None and values.shape[-1] == 3 and low >= 0 and high <= 1:
        return 0.0, 1.0
    if limits is not None and not low < high:
        raise ValueError(f"plot_images: limits are {limits!r}; give the darkest value and a larger brightest one.")
    # An image of one value everywhere is drawn as the darkest.
    return float(low), float(high) if high > low else float(low) + 1.0


def _blanks(missing: np.ndarray, columns: int) -> np.ndarray:
    """The pixels that are missing in the colour for them, all others transparent."""
    from matplotlib.colors import to_rgba

    return np.where(montage(missing.astype(float), columns) == 1, to_rgba(MISSING), 0.0)


def _draw_scatter(
    axes: Axes,
    curves: Curves,
    chosen: list[int],
    columns: int,
    colormap: str,
    limits: tuple[float, float] | None,
) -> Axes:
    """Every point as a square in the tile of its curve, which is the domain as a square."""
    from matplotlib.patches import Rectangle

    if curves.d_x != 2:
        raise ValueError(f"plot_images: the curves have d_x={curves.d_x}; scatter=True draws points of two inputs.")
    lower, upper = curves.domain
    inside = (curves.x - lower) / np.where(upper > lower, upper - lower, 1.0)
    corners = (1 + SCATTER_GAP) * np.stack(np.divmod(np.arange(len(curves)), columns), axis=1)
    y, x = (inside + np.repeat(corners, curves.lengths, axis=0)).T
    for top, left in corners:
        axes.add_patch(Rectangle((left, top), 1, 1, color=MISSING, linewidth=0))
    seen = ~np.isnan(curves.y[:, chosen]).any(axis=1)
    values = curves.y[seen][:, chosen]
    low, high = _range(values, limits)
    # As many square markers as would fill the tiles side by side, in printer's points of these axes.
    across = math.sqrt(float(np.median(curves.lengths))) * columns
    size = (0.6 * axes.bbox.width / axes.figure.dpi * 72 / across) ** 2
    if len(chosen) == 1:
        axes.scatter(x[seen], y[seen], c=values[:, 0], s=size, marker="s", cmap=colormap, vmin=low, vmax=high, lw=0)
    else:
        axes.scatter(x[seen], y[seen], c=np.clip((values - low) / (high - low), 0, 1), s=size, marker="s", lw=0)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    bare(axes)
    return axes
