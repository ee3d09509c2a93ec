"""Pictures of the yardsticks: calibration, PIT, predictive CDF, embeddings, and a test with its null sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from febm.checks import count, whole_number
from febm.plotting.style import (
    MODEL,
    OBSERVED,
    PALE,
    SERIES,
    TRUTH,
    Series,
    axes_or_current,
    bare,
    legend,
    legend_above_data,
    series,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from febm.evaluation.calibration import Calibration
    from febm.evaluation.embedding import Embedding

STANDARD_ERRORS = 2  # half the width of a band about a coverage: about 95 %
SAME_DATA = 0.05  # distribution functions of the same observations differ by less, whatever grid they are kept on


def plot_calibration(
    calibration: Calibration | Mapping[str, Calibration | None],
    *,
    simultaneous: bool = False,
    axes: Axes | None = None,
    label: str | None = None,
) -> Axes:
    """Draw how often intervals held the truth against how often they should; on the diagonal they are honest.

    The band is two standard errors wide on either side.

    Parameters
    ----------
    calibration
        What `febm.evaluation.check_calibration` gave, or several by name; of a name with None only the colour is
        used up, so that panels in which others are missing can share a legend.
    simultaneous
        Whether the coverage of whole curves by simultaneous bands is drawn too.
    axes
        Where to draw; None: the current axes of pyplot.
    label
        What the legend calls a single calibration.
    """
    named = list(_by_name(calibration, label or "at single points", "coverage", "plot_calibration", optional=True))
    axes = axes_or_current(axes)
    axes.plot([0, 1], [0, 1], "-", color=PALE, linewidth=1, zorder=1, label="honest")
    styles = series()
    for name, each in named:
        style = next(styles)
        if each is None:
            continue
        _draw_coverage(axes, each.coverage, name, style)
        if simultaneous:
            # A single calibration has names to spare; of several, each has its name twice.
            several = isinstance(calibration, Mapping) or label is not None
            whole = f"{name}, whole curves" if several else "of whole curves"
            _draw_coverage(axes, each.simultaneous, whole, next(styles))
    axes.set(
        xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability that the interval claims", ylabel="share inside"
    )
    ticks = np.linspace(0, 1, 6)
    axes.set(xticks=ticks, yticks=ticks)
    tidy(axes)
    # Above the diagonal intervals are too wide, below too narrow; both corners are free but for gross failures.
    legend(axes, "best")
    return axes


def plot_pit(calibration: Calibration, *, bins: int = 10, axes: Axes | None = None, label: str | None = None) -> Axes:
    """Draw the histogram of the probability integral transform, flat where predictive distributions are right.

    A hump in the middle says that they are too wide, a valley that they are too narrow, a slope that they are off to
    one side. The band holds 95 % of bars if all values were independent; values of one curve are not, so that bars of a
    right model stray beyond it more often.

    Parameters
    ----------
    calibration
        What `febm.evaluation.check_calibration` gave.
    bins
        Number of bars.
    axes
        Where to draw; None: the current axes of pyplot.
    label
        What the legend calls the bars.
    """
    from scipy.stats import binom

    bins = whole_number("plot_pit: bins", bins, least=2)
    if isinstance(calibration, Mapping):
        raise TypeError("plot_pit: bars of several calibrations hide each other; draw each into axes of its own.")
    _require_calibration(calibration, "pit", "plot_pit")
    values = np.asarray(calibration.pit, dtype=float)
    outside = int(np.sum(~((values >= 0) & (values <= 1))))
    if outside or not values.size:
        problem = f"{count(outside, 'value')} outside [0, 1]" if outside else "no values"
        raise ValueError(f"plot_pit: the calibration has {problem}; compute it again with `check_calibration(...)`.")
    axes = axes_or_current(axes)
    heights, edges = np.histogram(values, bins=bins, range=(0, 1), density=True)
    low, high = binom.ppf([0.025, 0.975], values.size, 1 / bins) * bins / values.size
    axes.bar(
        edges[:-1],
        heights,
        width=1 / bins,
        align="edge",
        color=MODEL,
        alpha=0.55,
        edgecolor="white",
        linewidth=1,
        label=label or "observed values",
    )
    axes.axhline(1, color=OBSERVED, linewidth=1.2, linestyle="--", label="uniform, as it should be")
    axes.axhspan(low, high, color=OBSERVED, alpha=0.14, linewidth=0, label="95 % of bars by chance")
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1.05 * max(heights.max(), high)),
        xlabel="predicted probability of a smaller value",
        ylabel="relative frequency",
    )
    tidy(axes)
    legend_above_data(axes)
    return axes


def plot_predictive_cdf(
    calibration: Calibration | Mapping[str, Calibration], *, axes: Axes | None = None, label: str | None = None
) -> Axes:
    """Draw the distribution function of the observed values and the average predictive one of each model.

    Parameters
    ----------
    calibration
        What `febm.evaluation.check_calibration` gave, or several by name, of the same observations.
    axes
        Where to draw; None: the current axes of pyplot.
    label
        What the legend calls a single calibration.
    """
    named = _by_name(calibration, label or "predicted", "predictive_cdf", "plot_predictive_cdf")
    tables = [(name, each.predictive_cdf) for name, each in named]
    first_name, first = tables[0]
    for name, table in tables[1:]:
        there = np.interp(first["value"], table["value"], table["observed"])
        if np.max(np.abs(there - first["observed"])) > SAME_DATA:
            raise ValueError(
                f"plot_predictive_cdf: {first_name!r} and {name!r} were judged by different observations; "
                "draw each into axes of its own."
            )
    axes = axes_or_current(axes)
    axes.plot(first["value"], first["observed"], "-", color=PALE, linewidth=4, solid_capstyle="butt", label="observed")
    for (name, table), style in zip(tables, series(), strict=False):
        axes.plot(
            table["value"], table["predicted"], color=style.color, linestyle=style.dash, linewidth=1.6, label=name
        )
    axes.set(ylim=(0, 1.02), xlabel="value", ylabel="share of values below")
    axes.margins(x=0)
    tidy(axes)
    legend(axes, "best")
    return axes


def plot_embedding(
    embedding: Embedding, *, axes: Axes | None = None, labels: tuple[str, str] = ("data", "samples")
) -> Axes:
    """Draw every curve as a point: open circles for the data, filled triangles for the samples.

    Parameters
    ----------
    embedding
        What `febm.evaluation.embed` gave.
    axes
        Where to draw; None: the current axes of pyplot.
    labels
        What the legend calls data and samples.
    """
    if not all(hasattr(embedding, name) for name in ("data", "samples", "explained")):
        raise TypeError(f"plot_embedding: {type(embedding).__name__} is no embedding; give what `embed` gave.")
    axes = axes_or_current(axes)
    axes.plot(*embedding.samples.T, "^", color=MODEL, alpha=0.6, markersize=5, markeredgewidth=0, label=labels[1])
    axes.plot(
        *embedding.data.T,
        "o",
        color=TRUTH,
        alpha=0.85,
        markersize=5.5,
        markerfacecolor="none",
        markeredgewidth=1.1,
        label=labels[0],
    )
    tidy(axes)
    if embedding.explained is None:
        # Places and distances of t-SNE have no units; only who is near whom means anything.
        bare(axes)
        axes.set(xlabel="t-SNE: only neighbourhoods mean something")
    else:
        for name, share in zip(("x", "y"), embedding.explained, strict=True):
            axes.set(**{f"{name}label": f"component {1 if name == 'x' else 2} ({_percent(share)})"})
    points, triangles = axes.lines[-1], axes.lines[-2]
    legend_above_data(axes, handles=[points, triangles], columns=2)
    return axes


def plot_null(test: Any, *, axes: Axes | None = None, label: str | None = None) -> Axes:
    """Draw what a test statistic is by chance alone, and what it was.

    Parameters
    ----------
    test
        What `two_sample_test`, `classifier_test` or `sliced_wasserstein` gave: anything with `null`, `pvalue`, and
        `statistic` or `distance`.
    axes
        Where to draw; None: the current axes of pyplot.
    label
        What the axis calls the statistic.
    """
    name = next((name for name in ("statistic", "distance") if hasattr(test, name)), None)
    if name is None or not hasattr(test, "null"):
        raise TypeError(
            f"plot_null: {type(test).__name__} has no null sample with an observed statistic; give the result of "
            "two_sample_test, classifier_test or sliced_wasserstein."
        )
    axes = axes_or_current(axes)
    observed = float(getattr(test, name))
    null = np.asarray(test.null, dtype=float)
    bins = np.histogram_bin_edges(null, bins="fd" if np.ptp(null) > 0 else 1)
    # Ties (an accuracy has few values) make a rule for bins ask for very many; beyond 40 bars nobody sees more.
    bins = bins if len(bins) <= 41 else np.linspace(bins[0], bins[-1], 41)
    counts, *_ = axes.hist(
        null, bins=bins.tolist(), color=PALE, edgecolor="white", linewidth=0.5, label="by chance (permuted)"
    )
    top = 1.05 * float(np.max(counts))
    axes.vlines(observed, 0, top, TRUTH, linewidth=2, label=f"observed {observed:.3g}, p = {test.pvalue:.2g}")
    axes.set(ylim=(0, top), xlabel=label or name, ylabel="permutations")
    tidy(axes)
    legend_above_data(axes)
    return axes


def _draw_coverage(axes: Axes, table: pd.DataFrame, label: str, style: Series) -> None:
    level, coverage, error = (table[name].to_numpy(float) for name in ("level", "coverage", "standard_error"))
    low, high = (np.clip(coverage + sign * STANDARD_ERRORS * error, 0, 1) for sign in (-1, 1))
    axes.fill_between(level, low, high, color=style.color, alpha=0.15, linewidth=0)
    axes.plot(
        level,
        coverage,
        color=style.color,
        linestyle=style.dash,
        marker=style.marker,
        markersize=4.5,
        linewidth=1.4,
        label=label,
        clip_on=False,
    )


def _by_name(
    calibration: Any, label: str, needed: str, owner: str, *, optional: bool = False
) -> Iterator[tuple[str, Any]]:
    """Calibrations, all of which have what is `needed`, and what they are called; a single one is called `label`."""
    if not isinstance(calibration, Mapping):
        _require_calibration(calibration, needed, owner)
        return iter([(label, calibration)])
    for each in calibration.values():
        if each is not None or not optional:
            _require_calibration(each, needed, owner)
    if not calibration:
        raise ValueError(f"{owner}: there is no calibration to draw; give at least one.")
    if len(calibration) > len(SERIES):
        raise ValueError(
            f"{owner}: {len(calibration)} calibrations cannot be told apart in one picture; draw at most {len(SERIES)}."
        )
    return iter(calibration.items())


def _require_calibration(calibration: Any, needed: str, owner: str) -> None:
    if not hasattr(calibration, needed):
        raise TypeError(
            f"{owner}: {type(calibration).__name__} is no calibration; give what `febm.evaluation.check_calibration` "
            "gave."
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} % of variance" if share >= 0.01 else f"{100 * share:.1g} % of variance"
