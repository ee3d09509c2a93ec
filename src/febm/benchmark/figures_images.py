"""The pictures of images: samples beside data, functions at several resolutions, and pixels filled in.

Each function gives a figure of whatever models of images there are, or None where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool

from febm.benchmark.figures import Drawn, panel_of
from febm.benchmark.shelf import Fitted
from febm.curves import Curves
from febm.images import grid2d
from febm.reporting.page import page_type

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDES = (14, 28, 56, 280)
# Functions that a standard deviation is that of, and the one that is drawn white.
DRAWS, WHITE = 100, 0.4


def draw_image_samples(models: Sequence[Fitted]) -> Drawn | None:
    """Samples of every model below pictures of the data."""
    shown = _of_images(models)
    if not shown:
        return None
    truth = shown[0].evaluation
    with page_type():
        figure, panels = _rows(["data", *(each.label for each in shown)], len(truth))
        _show(truth, panels["data"])
        for fitted in shown:
            with panel_of(panels[fitted.label], fitted):
                points = truth.common_points
                _show(fitted.process.sample(len(truth), points, random_state=fitted.seed), panels[fitted.label])
    caption = "Pictures of the data, and as many samples of every model."
    return Drawn("image_samples", figure, caption, "Rows of pictures: data, and samples of each model.")


def draw_scaled_samples(models: Sequence[Fitted]) -> Drawn | None:
    """The same functions of F-EBM, or of the first model there is, at several resolutions."""
    shown = sorted(_of_images(models), key=lambda each: each.model != "FEBM")
    if not shown:
        return None
    fitted, count = shown[0], len(shown[0].evaluation)
    names = {f"{side} × {side}": side for side in SIDES}
    with page_type():
        figure, panels = _rows(list(names), count)
        for name, side in names.items():
            with panel_of(panels[name], fitted):
                _show(fitted.process.sample(count, grid2d(side, side), random_state=fitted.seed), panels[name])
    caption = f"Samples of {fitted.label}, each one function, at four resolutions; the data have 28 × 28 pixels."
    return Drawn("scaled_samples", figure, caption, "The same sampled pictures, from coarse to fine.")


def draw_images(models: Sequence[Fitted]) -> Drawn | None:
    """Pictures of clothing, every second pixel of each direction seen, filled in by the models and by a spline."""
    from febm.evaluation.splits import split

    shown = _of_images(models)
    if not shown:
        return None
    truth = shown[0].evaluation
    context, _ = split(truth, "downsample", 1 / 4)
    with page_type():
        figure, panels = _rows(["seen", *(each.label for each in shown), "bicubic", "truth"], len(truth))
        known = {"seen": nearest(context, truth), "bicubic": bicubic(context, truth), "truth": truth}
        for label, pictures in known.items():
            _show(pictures, panels[label])
        for fitted in shown:
            with panel_of(panels[fitted.label], fitted):
                mean = fitted.process.condition(context, random_state=fitted.seed).mean(truth)
                assert isinstance(mean, Curves)
                _show(mean, panels[fitted.label])
    caption = (
        "Pictures of which every second row and column is seen: what the models and a bicubic spline make of them."
    )
    return Drawn("images", figure, caption, "Low-resolution pictures, filled in by models and a spline, and the truth.")


class Part(NamedTuple):
    """A way to show a part of every picture: which pixels, words for it, and whether they are a smaller picture."""

    seen: Callable[[Curves, int], Bool[np.ndarray, " pixels"]]
    words: str
    is_picture: bool = False


def _upper_half(pictures: Curves, seed: int) -> Bool[np.ndarray, " pixels"]:
    return pictures.x[:, 0] < 0.5


def _tenth(pictures: Curves, seed: int) -> Bool[np.ndarray, " pixels"]:
    generator = np.random.default_rng(seed)
    orders = [generator.permutation(pixels) for pixels in pictures.lengths]
    return np.concatenate([order < round(0.1 * len(order)) for order in orders])


def _every_second(pictures: Curves, seed: int) -> Bool[np.ndarray, " pixels"]:
    lines = [np.unique(axis, return_inverse=True)[1] for axis in pictures.x.T]
    return (lines[0] % 2 == 0) & (lines[1] % 2 == 0)


PARTS = {
    "half": Part(_upper_half, "of which the upper half is seen"),
    "tenth": Part(_tenth, "of which a tenth of the pixels, at random, is seen"),
    "upscaled": Part(_every_second, "of which every second row and column is seen", is_picture=True),
}


def draw_part(models: Sequence[Fitted], name: str) -> Drawn | None:
    """What every model knows of pictures that are seen in part: its mean and a draw, and how sure the first one is."""
    part = PARTS[name]
    shown = sorted(_of_images(models), key=lambda each: each.model != "FEBM")
    if not shown:
        return None
    truth, seed = shown[0].evaluation, shown[0].seed
    seen = part.seen(truth, seed)
    rows = {fitted.label: ["mean", "draw", *(["spread"] if fitted is shown[0] else [])] for fitted in shown}
    labels = [f"{label}\n{kind}" for label, kinds in rows.items() for kind in kinds]
    with page_type():
        figure, panels = _rows(["seen", *labels, "truth"], len(truth))
        _show(truth.select(seen), panels["seen"], pixels=None if part.is_picture else truth.common_points)
        for fitted in shown:
            kinds = rows[fitted.label]
            with panel_of(panels[f"{fitted.label}\n{kinds[0]}"], fitted):
                for kind, pictures in _known(fitted, truth.select(seen), truth, kinds).items():
                    _show(pictures, panels[f"{fitted.label}\n{kind}"], white=WHITE if kind == "spread" else 1.0)
        _show(truth, panels["truth"])
    caption = (
        f"Pictures {part.words}: for every model the mean of what they may be and one draw from it; for "
        f"{shown[0].label} also the standard deviation of {DRAWS} draws, from 0 (black) to {WHITE:g} (white)."
    )
    return Drawn(f"images_{name}", figure, caption, f"Rows of pictures {part.words}, completed by models, and whole.")


def _known(fitted: Fitted, context: Curves, truth: Curves, kinds: Sequence[str]) -> dict[str, Curves]:
    """The pictures of each kind that a model makes of what is seen."""
    posterior = fitted.process.condition(context, random_state=fitted.seed)
    mean = posterior.mean(truth)
    assert isinstance(mean, Curves)
    draws = DRAWS if "spread" in kinds else 1
    drawn = posterior.sample(draws, truth.common_points, random_state=fitted.seed).y.reshape(len(truth), draws, -1)
    found = {"mean": mean, "draw": truth.replace(y=drawn[:, 0].reshape(-1, 1))}
    if "spread" in kinds:
        found["spread"] = truth.replace(y=drawn.std(axis=1, ddof=1).reshape(-1, 1))
    return found


def bicubic(context: Curves, at: Curves) -> Curves:
    """Pictures by the cubic spline through the pixels seen; beyond the last of them it stays as it is there."""
    from scipy.interpolate import RectBivariateSpline

    filled = []
    for seen, whole in zip(context, at, strict=True):
        rows, columns = (np.unique(axis) for axis in seen.x.T)
        order = np.lexsort(seen.x.T[::-1])
        spline = RectBivariateSpline(rows, columns, seen.y[order, 0].reshape(len(rows), len(columns)), kx=3, ky=3, s=0)
        places = np.clip(whole.x, seen.x.min(axis=0), seen.x.max(axis=0))
        filled.append(np.clip(spline.ev(*places.T), 0.0, 1.0))
    return at.replace(y=np.concatenate(filled)[:, None])


def nearest(context: Curves, at: Curves) -> Curves:
    """Pictures in which a pixel seen fills the place up to the next one."""
    filled = []
    for seen, whole in zip(context, at, strict=True):
        rows, columns = (np.unique(axis) for axis in seen.x.T)
        pixels = seen.y[np.lexsort(seen.x.T[::-1]), 0].reshape(len(rows), len(columns))
        row, column = (
            np.maximum(np.searchsorted(lines, place, side="right") - 1, 0)
            for lines, place in zip((rows, columns), whole.x.T, strict=True)
        )
        filled.append(pixels[row, column])
    return at.replace(y=np.concatenate(filled)[:, None])


def _of_images(models: Sequence[Fitted]) -> list[Fitted]:
    return [each for each in models if each.dataset == "fashion_mnist"]


def _rows(labels: Sequence[str], pictures: int) -> tuple[Figure, Mapping[str, Axes]]:
    """A row of so many pictures for every label."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # Pictures stand at the right end of their rows and leave the room that is over to the labels.
    longest = max(len(line) for label in labels for line in label.replace(" (", "\n(").splitlines())
    size = (pictures + 0.11 * longest, 1.03 * len(labels))
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.15))
    panels = dict(zip(labels, figure.subplots(len(labels), 1, squeeze=False)[:, 0], strict=True))
    for label, panel in panels.items():
        _name(panel, label)
    return figure, panels


def _show(pictures: Curves, panel: Axes, *, white: float = 1.0, pixels: np.ndarray | None = None) -> None:
    from febm.plotting import plot_images

    label = panel.get_ylabel()
    plot_images(pictures, pixels=pixels, columns=len(pictures), limits=(0.0, white), axes=panel)
    _name(panel, label)


def _name(panel: Axes, label: str) -> None:
    panel.set(xticks=[], yticks=[], anchor="E")
    # A recipe stands below its model, to leave room for the pictures.
    panel.set_ylabel(label.replace(" (", "\n("), rotation=0, ha="right", va="center", fontsize=10)
