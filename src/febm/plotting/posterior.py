"""What is known of a curve that was seen in part: band, draws, and the points seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from febm.checks import as_points, count, share, whole_number
from febm.curves import Curves
from febm.models.base import Posterior
from febm.plotting.curves import plot_curves
from febm.plotting.style import (
    MODEL,
    OBSERVED,
    TRUTH,
    axes_or_current,
    from_left_to_right,
    require_curve,
    require_lines,
    require_output,
    tidy,
)
from febm.randomness import RandomState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BANDS = ("pointwise", "simultaneous")
NEEDED = ("interval", "sample")  # what a posterior can do and a model or curves cannot


def plot_posterior(
    posterior: Posterior,
    at: Any,
    *,
    curve: int = 0,
    output: int = 0,
    level: float = 0.9,
    band: Literal["pointwise", "simultaneous"] = "pointwise",
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
        What `condition` gave, of curves with one input.
    at
        The points `(m,)` at which band and draws are evaluated.
    curve
        Which of the conditioned curves, by position.
    output
        Which output is drawn, counted from 0.
    level
        The share of the probability that the band holds.
    band
        "pointwise": the band holds that share at each point; "simultaneous": of whole functions, which takes a
        wider band.
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
    if band not in BANDS:
        raise ValueError(f"plot_posterior: band is {band!r}; choose 'pointwise' or 'simultaneous'.")
    require_posterior(posterior, "plot_posterior")
    if isinstance(at, Curves):
        raise TypeError("plot_posterior: `at` is Curves; give the points (m,) at which the band and draws are drawn.")
    level = share("plot_posterior: level", level)
    draws = whole_number("plot_posterior: draws", draws, least=0)
    if np.ndim(at) == 2 and np.shape(at)[1] == 2:
        raise ValueError(
            "plot_posterior: `at` has two inputs, and only one can be drawn as a line; use plot_posterior_maps, or "
            "give plot_images the curves of posterior.sample(n, at)."
        )
    require_curve(curve, len(posterior), "plot_posterior")
    for name, given in (("context", context), ("truth", truth)):
        if given is not None:
            _require_same_curves(given, output, len(posterior), name)
    points = np.sort(as_points(at, 1, "plot_posterior: at"), axis=0)
    lower, upper = _band(posterior, points, level, band, random_state)
    require_output(output, lower.shape[-1], "plot_posterior")
    axes = axes_or_current(axes)
    axes.fill_between(
        points[:, 0],
        lower[curve, :, output],
        upper[curve, :, output],
        color=MODEL,
        alpha=0.16,
        linewidth=0,
        label=f"{100 * level:g} % {'interval' if band == 'pointwise' else 'band of whole curves'}",
    )
    if draws > 0:
        drawn = posterior.sample(draws, points, random_state=random_state)
        first = range(len(posterior))[curve] * draws
        plot_curves(
            drawn[first : first + draws],
            axes=axes,
            output=output,
            color=MODEL,
            alpha=0.45,
            line_width=0.8,
            label="draws given the points",
        )
    if truth is not None:
        x, y = from_left_to_right(truth[curve], output).T
        axes.plot(x, y, "--", color=TRUTH, linewidth=1.6, dash_capstyle="round", label="true curve")
    if context is not None:
        x, y = from_left_to_right(context[curve], output).T
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
    tidy(axes)
    return axes


def require_posterior(posterior: Any, owner: str) -> None:
    """Refuse what is no posterior, such as a model or curves."""
    if isinstance(posterior, type) or not all(callable(getattr(posterior, name, None)) for name in NEEDED):
        raise TypeError(
            f"{owner}: posterior must be what `condition(curves)` of a fitted model gave; got "
            f"{posterior.__name__ if isinstance(posterior, type) else type(posterior).__name__}."
        )


def _require_same_curves(curves: Any, output: int, total: int, name: str) -> None:
    require_lines(curves, output, f"plot_posterior: {name}")
    if len(curves) != total:
        raise ValueError(
            f"plot_posterior: {name} has {count(len(curves), 'curve')}, but the posterior is of {total}; give the "
            "curves that were conditioned on, in the same order."
        )


def _band(
    posterior: Posterior, points: np.ndarray, level: float, band: str, random_state: RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end of the band, each (curves, points, outputs)."""
    if band == "pointwise":
        return posterior.interval(points, level)
    # Imported here: the yardsticks are no part of a picture that does not ask for them.
    from febm.evaluation.calibration import simultaneous_band

    return simultaneous_band(posterior, points, level, random_state=random_state)
