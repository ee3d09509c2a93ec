"""The pictures of samples: data sets down, models across, as in the paper; samples beside data, and both on maps.

Each function gives a figure, or None where the run has no model that it could show. A panel that cannot be drawn stays
empty and warns; the others are drawn.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from febm.benchmark.cells import in_order
from febm.benchmark.experiments import DATASETS, MODELS
from febm.benchmark.shelf import SHOWN, Fitted
from febm.checks import count
from febm.curves import Curves
from febm.reporting.page import page_type
from febm.reporting.words import in_a_sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches of one panel of a grid: eight of them are as wide as a page, with type that can be read there.
PANEL = (1.75, 1.45)
# A panel has room for nearly all of the data and this share on either side: no wild curve flattens the others.
NEARLY_ALL = (0.03, 0.97)
MARGIN = 0.25
# Lines of a hundred curves, thin enough to see through.
THIN: dict[str, Any] = {"alpha": 0.3, "line_width": 0.6}


class Drawn(NamedTuple):
    """A figure, the name of its file, and words for it."""

    name: str
    figure: Figure
    caption: str
    alt: str


def draw_samples(models: Sequence[Fitted]) -> Drawn | None:
    """Samples of every model beside curves of every data set."""
    from matplotlib.ticker import MaxNLocator

    from febm.plotting import MODEL, OBSERVED, plot_curves

    shown = _of_lines(models)
    if not shown:
        return None
    with _grid(shown, first="data") as (figure, panels):
        for dataset, row in panels.items():
            data = _data_of(shown, dataset)
            for label, axes in row.items():
                fitted = _find(shown, dataset, label)
                if label == "data":
                    plot_curves(data, axes=axes, color=OBSERVED, **THIN)
                elif fitted is not None:
                    with panel_of(axes, fitted):
                        plot_curves(fitted.beside_data.samples, axes=axes, color=MODEL, **THIN)
                if label == "data" or fitted is not None:
                    axes.set(xlim=reach(data.x[:, 0], 0.0), ylim=scale_of(data))
                axes.xaxis.set_major_locator(MaxNLocator(3))
                axes.yaxis.set_major_locator(MaxNLocator(4))
                axes.tick_params(labelsize=8, labelleft=label == "data", length=2)
    caption = (
        f"{SHOWN} curves of the data and as many samples of every model at their points, with the noise of an "
        "observation. A row has the scale of its data: what lies far beyond is cut."
    )
    return Drawn("samples", figure, caption, f"Curves of {_listed(panels)}, and samples of the models beside them.")


def draw_maps(models: Sequence[Fitted], method: Literal["pca", "tsne"]) -> Drawn | None:
    """Data and samples of every model as points in a plane."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from febm.evaluation.embedding import embed
    from febm.plotting import plot_embedding

    shown = _of_lines(models)
    if not shown:
        return None
    handles: dict[str, Any] = {}
    with _grid(shown, share=False) as (figure, panels):
        for dataset, row in panels.items():
            for label, axes in row.items():
                fitted = _find(shown, dataset, label)
                if fitted is None:
                    continue
                with panel_of(axes, fitted), threadpool_limits(1):  # t-SNE's steps are too short for threads
                    functions = fitted.beside_data.functions
                    found = embed(functions.curves, functions.samples, method=method, random_state=fitted.seed)
                    plot_embedding(found, axes=axes)
                    handles |= {str(line.get_label()): line for line in axes.lines}
                    points = found.data if method == "pca" else np.concatenate([found.data, found.samples])
                    _frame(axes, points, *((MARGIN, NEARLY_ALL) if method == "pca" else (0.05, (0.0, 1.0))))
        if handles:
            figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=2)
    kind = "principal components of the data" if method == "pca" else "t-SNE of data and samples together"
    cut = " What lies far beyond the data is cut." if method == "pca" else " Only neighbourhoods mean something."
    caption = f"{SHOWN} curves and as many samples as points: {kind}.{cut}"
    return Drawn(method, figure, caption, f"Maps of data and samples of {_listed(panels)} by {kind}.")


@contextlib.contextmanager
def _grid(
    shown: Sequence[Fitted], *, first: str | None = None, share: bool = True
) -> Iterator[tuple[Figure, dict[str, dict[str, Axes]]]]:
    """Panels by data set and model; those of models that were not run on a data set stay empty."""
    from matplotlib.figure import Figure

    datasets = in_order((each.dataset for each in shown), DATASETS)
    labels = [*([first] if first else []), *_labels(shown)]
    width, height = PANEL
    with page_type():
        size = (max(width * len(labels) + 0.6, 4.0), height * len(datasets) + 0.7)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(datasets), len(labels), squeeze=False, sharey="row" if share else False)
        panels = {dataset: dict(zip(labels, row, strict=True)) for dataset, row in zip(datasets, axes, strict=True)}
        for dataset, row in panels.items():
            for label, panel in row.items():
                if label != first and _find(shown, dataset, label) is None:
                    panel.set_axis_off()
            left = next(iter(row.values()))
            left.annotate(
                dataset, (0, 0.5), (-38 if share else -8, 0), "axes fraction", "offset points",
                rotation=90, va="center", ha="right", annotation_clip=False,
            )  # fmt: skip
        for label, panel in panels[datasets[0]].items():
            panel.set_title(label, fontsize=10)
        yield figure, panels


@contextlib.contextmanager
def panel_of(axes: Axes | None, fitted: Fitted) -> Iterator[None]:
    """What goes wrong with one model leaves its panel empty, or its line out, and warns."""
    try:
        yield
    except Exception as error:  # whatever a model raises, the other panels must not be lost
        if axes is not None:
            axes.text(0.5, 0.5, "not drawn", transform=axes.transAxes, ha="center", va="center", fontsize=9)
        warnings.warn(f"{fitted.label} on {fitted.dataset} is not drawn. {in_a_sentence(error)}", stacklevel=3)


def _of_lines(models: Sequence[Fitted]) -> list[Fitted]:
    """Models of curves with one input that are compared on all data, of data sets that are there."""
    found: dict[tuple[str, str], Fitted] = {}
    for each in models:
        if each.is_main:
            with panel_of(None, each):
                if each.evaluation.d_x == 1:
                    found.setdefault((each.dataset, each.label), each)
    return list(found.values())


def _labels(shown: Sequence[Fitted]) -> list[str]:
    first = {each.label: each for each in shown}
    return sorted(first, key=lambda label: (MODELS.index(first[label].model), first[label].recipe))


def _find(shown: Sequence[Fitted], dataset: str, label: str) -> Fitted | None:
    return next((each for each in shown if (each.dataset, each.label) == (dataset, label)), None)


def _data_of(shown: Sequence[Fitted], dataset: str) -> Curves:
    return next(each for each in shown if each.dataset == dataset).evaluation


def reach(values: np.ndarray, margin: float, shares: tuple[float, float] = (0.0, 1.0)) -> tuple[float, float]:
    """From one quantile of the values to another, and a share of their distance on either side."""
    low, high = (float(end) for end in np.nanquantile(values, shares))
    room = margin * (high - low) or (0.0 if high > low else 1.0)
    return low - room, high + room


def scale_of(curves: Curves) -> tuple[float, float]:
    """From the lows to the peaks of nearly all curves, and a margin."""
    values, starts = curves.y[:, 0], curves.offsets[:-1]
    low = np.quantile(np.fmin.reduceat(values, starts), NEARLY_ALL[0])
    high = np.quantile(np.fmax.reduceat(values, starts), NEARLY_ALL[1])
    return reach(np.array([low, high]), MARGIN)


def _frame(axes: Axes, points: np.ndarray, margin: float, shares: tuple[float, float]) -> None:
    """A map without a legend of its own and without ticks, which say nothing about neighbourhoods."""
    from febm.plotting import PALE

    drop_legend(axes)
    (left, right), (bottom, top) = (reach(column, margin, shares) for column in points.T)
    axes.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], xlabel="", ylabel="")
    for side, spine in axes.spines.items():
        spine.set(visible=True, color=PALE, linewidth=0.6)
        spine.set_bounds(*((left, right) if side in ("bottom", "top") else (bottom, top)))
    for line in axes.lines:
        line.set_markersize(3.2)


def drop_legend(axes: Axes) -> None:
    """Leave the legend to the whole figure."""
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()


def _listed(panels: dict[str, dict[str, Axes]]) -> str:
    return ", ".join(panels) if len(panels) <= 6 else count(len(panels), "data set")
