"""Curves as lines: a sample of them, data beside samples, and the two parts of a split curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from febm.checks import whole_number
from febm.curves import Curves
from febm.plotting.style import (
    MODEL,
    OBSERVED,
    PALE,
    axes_or_current,
    from_left_to_right,
    legend_above_data,
    require_curve,
    require_lines,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_curves(
    curves: Curves,
    *,
    axes: Axes | None = None,
    output: int = 0,
    color: str = OBSERVED,
    alpha: float = 0.5,
    line_width: float = 0.9,
    marker_size: float = 0.0,
    label: str | None = None,
) -> Axes:
    """Draw every curve as a line through its points, from left to right.

    Parameters
    ----------
    curves
        Curves with one input.
    axes
        Where to draw; None: the current axes of pyplot.
    output
        Which output is drawn, counted from 0.
    color, alpha, line_width, marker_size
        How lines look; points are marked where `marker_size`, in printer's points, is above zero.
    label
        What a legend calls these curves.
    """
    from matplotlib.collections import LineCollection

    require_lines(curves, output, "plot_curves")
    axes = axes_or_current(axes)
    lines = [from_left_to_right(curve, output) for curve in curves]
    axes.add_collection(
        LineCollection(lines, colors=color, alpha=alpha, linewidths=line_width, label=label, capstyle="round")
    )
    if marker_size > 0:
        x, y = np.concatenate(lines).T
        axes.plot(x, y, "o", color=color, alpha=alpha, markersize=marker_size, markeredgewidth=0)
    axes.autoscale_view()
    tidy(axes)
    return axes


def plot_samples_beside_data(
    data: Curves,
    samples: Curves,
    *,
    axes: tuple[Axes, Axes] | None = None,
    output: int = 0,
    limit: int = 50,
    marker_size: float = 0.0,
) -> tuple[Axes, Axes]:
    """Draw data and samples in two axes with the same limits, equally many of each.

    Parameters
    ----------
    data, samples
        Curves with one input.
    axes
        The axes for data and for samples; None: a new figure with two.
    output
        Which output is drawn, counted from 0.
    limit
        At most so many curves, the first ones, are drawn of each.
    marker_size
        The points of the data are marked where this is above zero; samples are functions and have none.
    """
    limit = whole_number("plot_samples_beside_data: limit", limit)
    for curves in (data, samples):
        require_lines(curves, output, "plot_samples_beside_data")
    if axes is None:
        from matplotlib import pyplot

        _, (left, right) = pyplot.subplots(1, 2, sharex=True, sharey=True, layout="constrained")
    else:
        left, right = axes
    count = min(limit, len(data), len(samples))
    # Between marked points a line only says which of them belong together.
    width = 0.5 if marker_size > 0 else 0.9
    plot_curves(data[:count], axes=left, output=output, color=OBSERVED, line_width=width, marker_size=marker_size)
    plot_curves(samples[:count], axes=right, output=output, color=MODEL)
    for limits, set_limits in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        ends = np.array([getattr(left, limits)(), getattr(right, limits)()])
        for each in (left, right):
            getattr(each, set_limits)(ends[:, 0].min(), ends[:, 1].max())
    return left, right


def plot_split(context: Curves, target: Curves, *, curve: int = 0, output: int = 0, axes: Axes | None = None) -> Axes:
    """Draw the two parts of one curve: the points that a model is given, and those it has to predict.

    Parameters
    ----------
    context, target
        The parts that `febm.evaluation.split` made, with one input.
    curve
        Which of the curves, by position.
    output
        Which output is drawn, counted from 0.
    axes
        Where to draw; None: the current axes of pyplot.
    """
    for part in (context, target):
        require_lines(part, output, "plot_split")
    if not context.ids.equals(target.ids):
        raise ValueError("plot_split: context and target have different ids; give both parts of the same curves.")
    require_curve(curve, len(context), "plot_split")
    axes = axes_or_current(axes)
    seen, hidden = (from_left_to_right(part[curve], output) for part in (context, target))
    # The line only leads the eye from point to point, so it has no place in the legend.
    whole = np.concatenate([seen, hidden])
    axes.plot(*whole[np.argsort(whole[:, 0], kind="stable")].T, "-", color=PALE, linewidth=0.8, alpha=0.7, zorder=1)
    axes.plot(*seen.T, "o", color=OBSERVED, markersize=6, markeredgewidth=0, zorder=3, label="context, given")
    axes.plot(
        *hidden.T,
        "D",
        color=MODEL,
        markersize=5,
        markerfacecolor="white",
        markeredgewidth=1.2,
        zorder=2,
        label="target, predicted",
    )
    tidy(axes)
    legend_above_data(axes, columns=2)
    return axes
