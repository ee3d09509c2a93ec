"""Pictures of curves and posteriors: every function takes axes, draws into them, and gives them back.

Matplotlib is imported when a picture is drawn, and nothing here needs a screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from febm.curves import Curves, as_points
from febm.models.base import Posterior
from febm.randomness import RandomState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# One colour for what was observed, one for what the model says, one for the truth behind a posterior.
OBSERVED = "#4a4e57"
MODEL = "#2a6f9e"
TRUTH = "#c2562d"
PALE = "#9aa0a8"


def plot_curves(
    curves: Curves,
    *,
    axes: Axes | None = None,
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
        Curves with one input and one output.
    axes
        Where to draw; None: the current axes of pyplot.
    color, alpha, line_width, marker_size
        How lines look; points are marked where `marker_size`, in printer's points, is above zero.
    label
        What a legend calls these curves.
    """
    from matplotlib.collections import LineCollection

    _require_plain(curves.d_x, curves.d_y, "plot_curves")
    axes = _current_axes() if axes is None else axes
    lines = [_from_left_to_right(curve) for curve in curves]
    axes.add_collection(
        LineCollection(lines, colors=color, alpha=alpha, linewidths=line_width, label=label, capstyle="round")
    )
    if marker_size > 0:
        x, y = np.concatenate(lines).T
        axes.plot(x, y, "o", color=color, alpha=alpha, markersize=marker_size, markeredgewidth=0)
    axes.autoscale_view()
    _tidy(axes)
    return axes


def plot_samples_beside_data(
    data: Curves,
    samples: Curves,
    *,
    axes: tuple[Axes, Axes] | None = None,
    limit: int = 50,
    marker_size: float = 0.0,
) -> tuple[Axes, Axes]:
    """Draw data and samples in two axes with the same limits, equally many of each.

    Parameters
    ----------
    data, samples
        Curves with one input and one output.
    axes
        The axes for data and for samples; None: a new figure with two.
    limit
        At most so many curves, the first ones, are drawn of each.
    marker_size
        The points of the data are marked where this is above zero; samples are functions and have none.
    """
    if limit < 1:
        raise ValueError(f"plot_samples_beside_data: limit is {limit}; draw at least one curve of each.")
    if axes is None:
        from matplotlib import pyplot

        _, (left, right) = pyplot.subplots(1, 2, sharex=True, sharey=True, layout="constrained")
    else:
        left, right = axes
    count = min(limit, len(data), len(samples))
    # Between marked points a line only says which of them belong together.
    width = 0.5 if marker_size > 0 else 0.9
    plot_curves(data[:count], axes=left, color=OBSERVED, line_width=width, marker_size=marker_size)
    plot_curves(samples[:count], axes=right, color=MODEL)
    for limits, set_limits in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        ends = np.array([getattr(left, limits)(), getattr(right, limits)()])
        for each in (left, right):
            getattr(each, set_limits)(ends[:, 0].min(), ends[:, 1].max())
    return left, right


def plot_posterior(
    posterior: Posterior,
    at: Any,
    *,
    curve: int = 0,
    level: float = 0.9,
    draws: int = 30,
    context: Curves | None = None,
    truth: Curves | None = None,
    axes: Axes | None = None,
    random_state: RandomState = 0,
) -> Axes:
    """Draw what is known of one curve: the band of its interval, functions drawn from it, and what was seen of it.

    Parameters
    ----------
    posterior
        What `condition` gave.
    at
        The points `(m,)` at which band and draws are evaluated.
    curve
        Which of the conditioned curves, by position.
    level
        The share of the probability that the band holds at each point.
    draws
        How many functions are drawn; none at 0.
    context
        The conditioned curves, of which the points seen are marked.
    truth
        The same curves in full, drawn dashed.
    axes
        Where to draw; None: the current axes of pyplot.
    random_state
        Which functions are drawn.
    """
    points = np.sort(as_points(at, 1, "plot_posterior: at"), axis=0)
    lower, upper = posterior.interval(points, level)
    _require_plain(1, lower.shape[-1], "plot_posterior")
    axes = _current_axes() if axes is None else axes
    axes.fill_between(
        points[:, 0],
        lower[curve, :, 0],
        upper[curve, :, 0],
        color=MODEL,
        alpha=0.16,
        linewidth=0,
        label=f"{100 * level:g} % interval",
    )
    if draws > 0:
        drawn = posterior.sample(draws, points, random_state=random_state)
        first = range(len(posterior))[curve] * draws
        plot_curves(
            drawn[first : first + draws],
            axes=axes,
            color=MODEL,
            alpha=0.45,
            line_width=0.8,
            label="draws given the points",
        )
    if truth is not None:
        x, y = _from_left_to_right(truth[curve]).T
        axes.plot(x, y, "--", color=TRUTH, linewidth=1.6, dash_capstyle="round", label="true curve")
    if context is not None:
        x, y = _from_left_to_right(context[curve]).T
        # The white edge keeps points apart from each other and from the lines under them.
        axes.plot(
            x,
            y,
            "o",
            color=OBSERVED,
            markersize=5.5,
            markeredgecolor="white",
            markeredgewidth=0.8,
            zorder=5,
            label="points seen",
        )
    _tidy(axes)
    return axes


def _from_left_to_right(curve: Curves) -> np.ndarray:
    """The points `(m, 2)` of one curve in order of x."""
    return np.column_stack([curve.x[:, 0], curve.y[:, 0]])[np.argsort(curve.x[:, 0], kind="stable")]


def _require_plain(d_x: int, d_y: int, owner: str) -> None:
    if (d_x, d_y) != (1, 1):
        raise ValueError(f"{owner}: the curves have d_x={d_x}, d_y={d_y}; only one input and one output can be drawn.")


def _current_axes() -> Axes:
    from matplotlib import pyplot

    return pyplot.gca()


def _tidy(axes: Axes) -> None:
    """Leave only what carries information: two thin spines and quiet ticks."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(color=PALE, labelcolor=OBSERVED)
