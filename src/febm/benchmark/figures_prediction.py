"""The pictures of prediction: coverage, ways to hide points, and draws of a Gaussian process."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from febm.benchmark.cells import over_seeds, tidy_results
from febm.benchmark.experiments import MODELS
from febm.benchmark.figures import Drawn, drop_legend, panel_of, reach
from febm.benchmark.shelf import Fitted, short_name
from febm.reporting.page import page_type

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPLIT_NAMES = {"random": "random", "middle": "middle", "downsample": "down-sample"}
SPLIT_SHARE = 1 / 4
# Of the GP draws: the paper's level and draws, a share of points that leaves something open, and as many curves as take
# seconds for chains.
LEVEL, DRAWS, GP_SHARE, CURVES = 0.95, 300, 1 / 5, 30
# Errors below this are rounding.
SMALLEST_ERROR = 1e-9
# Panels side by side.
COLUMNS = 4


class Covered(NamedTuple):
    """Coverage by level, as `plot_calibration` takes it."""

    coverage: pd.DataFrame


def draw_coverage(results: pd.DataFrame) -> Drawn | None:
    """How often intervals held the truth against how often they should, a panel for each data set."""
    from febm.plotting import plot_calibration
    from febm.plotting.style import SERIES

    found = coverage_by_level(results)
    if found.empty:
        return None
    # Variants of one model are compared among themselves.
    kinds = list(dict.fromkeys(zip(found["dataset"], found["main"], strict=True)))
    mixed = len({main for _, main in kinds}) > 1
    # A model has the same colour in every panel, whatever else is there.
    everywhere = sorted(dict.fromkeys(found.loc[found["main"], "label"]), key=_place)
    with _panels(len(kinds), (3.1, 3.3)) as (figure, axes):
        for (dataset, main), panel in zip(kinds, axes, strict=True):
            here = found[(found["dataset"] == dataset) & (found["main"] == main)]
            labels = everywhere if main else list(dict.fromkeys(here["label"]))
            if len(labels) > len(SERIES):
                warnings.warn(f"Coverage on {dataset}: only the first {len(SERIES)} models are drawn.", stacklevel=2)
            parts = {label: here[here["label"] == label] for label in labels[: len(SERIES)]}
            named: dict[str, Any] = {
                short_name(label): Covered(part) if len(part) else None for label, part in parts.items()
            }
            plot_calibration(named, axes=panel)
            panel.set_title(dataset if main else f"{dataset}, variants", fontsize=11)
            panel.set(xlabel="probability claimed", ylabel="share inside" if panel is axes[0] else "")
            if mixed and not main:
                _small_legend(panel)
            else:
                drop_legend(panel)
        of_main = [panel for (_, main), panel in zip(kinds, axes, strict=True) if main]
        _legend_below(figure, of_main or axes)
    which = "of a random half of the points" if (results["table"] == "calibration").any() else "of the nine splits"
    caption = f"Share of hidden values {which} inside central intervals: below the diagonal intervals are too narrow."
    return Drawn("coverage", figure, caption, "Coverage of intervals against their level, by data set and model.")


def _place(label: str) -> tuple[bool, int]:
    """Models by their default recipe first, in the order of tables."""
    return label not in MODELS, [label.startswith(model) for model in MODELS].index(True)


def coverage_by_level(results: pd.DataFrame) -> pd.DataFrame:
    """Coverage by level of every model: `dataset`, `label`, `main`, `level`, `coverage`, `standard_error`.

    Of the table of calibration where it was made, else of the 50 % and 90 % intervals of the nine splits.
    """
    rows = tidy_results(results)
    every = rows[(rows["table"] == "calibration") & (rows["metric"] == "coverage")]
    every = every.assign(level=pd.to_numeric(every["p"], errors="coerce"))
    if every.empty:
        every = rows[(rows["table"] == "prediction") & rows["metric"].isin(["coverage_50", "coverage_90"])]
        every = every.assign(level=every["metric"].str[-2:].astype(float) / 100)
        keys = ["dataset", "label", "model", "level", "seed"]
        every = every.groupby(keys, sort=False)["value"].mean().reset_index()
    every = every.assign(main=every["model"].isin(MODELS))
    found = over_seeds(every, "dataset", "main", "label", "level").reset_index()
    names = {"mean": "coverage", "error": "standard_error"}
    found = found.rename(columns=names).sort_values(["level"], kind="stable")
    order = pd.MultiIndex.from_frame(every[["dataset", "main", "label"]].drop_duplicates())
    place = order.get_indexer(pd.MultiIndex.from_frame(found[["dataset", "main", "label"]]))
    found = found.iloc[np.argsort(place, kind="stable")]
    return found.fillna({"standard_error": 0.0})[["dataset", "label", "main", "level", "coverage", "standard_error"]]


def draw_splits(models: Sequence[Fitted]) -> Drawn | None:
    """One quadratic with a quarter of its points seen in three ways, and what the models make of it."""
    from matplotlib.ticker import MaxNLocator

    from febm.evaluation.splits import split
    from febm.plotting import plot_split
    from febm.plotting.style import series, tidy

    shown = [each for each in models if each.dataset == "quadratic" and each.is_main]
    if not shown:
        return None
    curve = shown[0].evaluation[:1]
    grid = np.linspace(*reach(curve.x[:, 0], 0.0), 201)
    with _panels(6, (4.2, 2.6), columns=3) as (figure, axes):
        for (kind, name), panel, below in zip(SPLIT_NAMES.items(), axes[:3], axes[3:], strict=True):
            context, target = split(curve, kind, SPLIT_SHARE, random_state=shown[0].seed)  # type: ignore[arg-type]
            plot_split(context, target, axes=panel)
            for fitted, style in zip(shown, series(), strict=False):
                with panel_of(None, fitted):
                    posterior = fitted.process.condition(context, random_state=fitted.seed)
                    line = {"color": style.color, "linestyle": style.dash, "linewidth": 1.5}
                    panel.plot(grid, np.asarray(posterior.mean(grid))[0, :, 0], label=fitted.label, **line)
                    error = np.abs(np.asarray(posterior.mean(target.x))[0, :, 0] - target.y[:, 0])
                    line |= {"marker": style.marker, "markersize": 3.5, "linewidth": 0.8}
                    below.plot(target.x[:, 0], np.maximum(error, SMALLEST_ERROR), **line)
            panel.set_title(name, fontsize=11)
            drop_legend(panel)
            bottom, top = reach(curve.y[:, 0], 0.3)
            panel.set_ylim(bottom, top)
            panel.spines["left"].set_bounds(bottom, top)
            panel.yaxis.set_major_locator(MaxNLocator(5))
            if below is not axes[3]:
                below.sharey(axes[3])
            below.set(yscale="log", xlim=panel.get_xlim(), ylabel="error" if below is axes[3] else "")
            tidy(below)
        _legend_below(figure, axes)
    caption = (
        "A quadratic of which a quarter of the points is seen, and the mean that each model predicts; below, how far "
        "off it is at the points not seen."
    )
    return Drawn("splits", figure, caption, "Three ways to hide points of a quadratic, with the models' predictions.")


def draw_gp(models: Sequence[Fitted]) -> Drawn | None:
    """95 % intervals of one draw of a Gaussian process, and the average predictive distribution of many."""
    from febm.evaluation.calibration import check_calibration
    from febm.evaluation.splits import split
    from febm.plotting import plot_posterior, plot_predictive_cdf
    from febm.plotting.style import SERIES

    there = [each for each in models if each.dataset == "gp"]
    variants = [each for each in there if not each.is_main]
    shown = (variants or there)[: len(SERIES)]
    if not shown:
        return None
    curves = shown[0].evaluation[:CURVES]
    context, target = split(curves, "random", GP_SHARE, random_state=shown[0].seed)
    grid = np.linspace(*reach(curves.x[:, 0], 0.0), 201)
    named = {}
    with _panels(len(shown) + 1, (3.1, 2.6)) as (figure, axes):
        for fitted, panel in zip(shown, axes[:-1], strict=True):
            panel.set_title(fitted.short_label, fontsize=10)
            with panel_of(panel, fitted):
                posterior = fitted.process.condition(context[:1], random_state=fitted.seed)
                plot_posterior(posterior, grid, level=LEVEL, draws=0, context=context[:1], truth=curves[:1], axes=panel)
                panel.set_ylim(reach(curves[:1].y[:, 0], 0.6))
                found = check_calibration(fitted.process, context, target, draws=DRAWS, random_state=fitted.seed)
                named[fitted.short_label] = found
        if named:
            plot_predictive_cdf(named, axes=axes[-1])
            axes[-1].set_title("average predictive CDF", fontsize=10)
            drop_legend(axes[-1])
        _legend_below(figure, [axes[0], axes[-1]])
    caption = (
        f"A draw of a Gaussian process of which a fifth of the points is seen, with {100 * LEVEL:g}\u00a0% intervals "
        f"of the function; last, the mean predictive distribution function of hidden values of {len(curves)} draws."
    )
    return Drawn("gp", figure, caption, "Intervals of several models for a draw of a Gaussian process.")


@contextlib.contextmanager
def _panels(number: int, size: tuple[float, float], columns: int = COLUMNS) -> Iterator[tuple[Figure, list[Axes]]]:
    """So many panels in rows, without pyplot."""
    from matplotlib.figure import Figure

    columns = min(number, columns)
    rows = math.ceil(number / columns)
    with page_type():
        figure = Figure(figsize=(size[0] * columns, size[1] * rows + 0.4), layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
        for spare in axes[number:]:
            spare.remove()
        yield figure, axes[:number]


def _legend_below(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all panels, of whatever any of them shows."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        rows = math.ceil(len(handles) / max(int(figure.get_figwidth() / 1.5), 1))
        columns = math.ceil(len(handles) / rows)
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)


def _small_legend(panel: Axes) -> None:
    legend = panel.get_legend()
    for text in [] if legend is None else legend.get_texts():
        text.set_fontsize(7.5)
