"""How training went, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from febm.checks import listed
from febm.plotting.style import OBSERVED, TRUTH, axes_or_current, legend_above_data, series, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What the columns of a history are called in a picture.
QUANTITIES = {
    "score": "held-out score (higher is better)",
    "loss": "training loss",
    "noise": "noise (standard deviation, scaled units)",
    "effective": "share of proposals that carry weight",
    "acceptance": "acceptance of posterior chains",
    "prior_acceptance": "acceptance of prior chains",
    "energy_posterior": "energy of posterior draws",
    "energy_prior": "energy of prior draws",
    "log_likelihood": "log-likelihood of posterior draws",
    "gradient": "norm of the gradient",
}


def plot_history(history: Any, *, quantity: str | Sequence[str] = "score", axes: Axes | None = None) -> Axes:
    """Draw how training went, epoch by epoch; the epoch that was kept is marked.

    The view follows the middle 90 % of the values; what lies far outside is a triangle at the edge. Epochs that
    training took back are crosses.

    Parameters
    ----------
    history
        A fitted model, or its `history_`.
    quantity
        The column to draw, or several that share a scale, such as ("acceptance", "prior_acceptance").
    axes
        Where to draw; None: the current axes of pyplot.
    """
    table = _table(history)
    names = [quantity] if isinstance(quantity, str) else list(quantity)
    _require_columns(table, names)
    axes = axes_or_current(axes)
    epochs = table["epoch"].to_numpy(float)
    taken_back = table["event"].notna().to_numpy() if "event" in table else np.zeros(len(table), dtype=bool)
    values = {name: table[name].to_numpy(float) for name in names}
    best = _best(table, taken_back)
    anchor = values["score"][best] if best is not None and "score" in values else np.nan
    bottom, top = _view(np.concatenate(list(values.values())), anchor)
    for style, (name, drawn) in zip(series(), values.items(), strict=False):
        # A line of one point would not be seen.
        marker = style.marker if np.isfinite(drawn).sum() == 1 else ""
        label = QUANTITIES.get(name, name)
        axes.plot(epochs, drawn, color=style.color, linestyle=style.dash, marker=marker, linewidth=1.5, label=label)
        for outside, edge, shape in ((drawn < bottom, bottom, "v"), (drawn > top, top, "^")):
            if outside.any():
                axes.plot(epochs[outside], np.full(outside.sum(), edge), shape, color=style.color, markersize=6)
        if taken_back.any():
            there = np.clip(np.nan_to_num(drawn[taken_back], nan=bottom), bottom, top)
            axes.plot(epochs[taken_back], there, "x", color=TRUTH, markersize=7, markeredgewidth=1.8, zorder=4)
    margin = 0.05 * (top - bottom)
    if best is not None:
        label = f"kept: epoch {epochs[best]:g}"
        axes.vlines(epochs[best], bottom - margin, top + margin, OBSERVED, ":", linewidth=1.4, label=label)
    axes.set(ylim=(bottom - margin, top + margin), xlabel="epoch")
    tidy(axes)
    legend_above_data(axes)
    return axes


def _table(history: Any) -> pd.DataFrame:
    table = history if isinstance(history, pd.DataFrame) else getattr(history, "history_", None)
    if not isinstance(table, pd.DataFrame) or "epoch" not in table or not len(table):
        raise TypeError(
            f"plot_history: {type(history).__name__} has no history of training; give a fitted model that is trained "
            "by epochs, or its history_."
        )
    return table


def _require_columns(table: pd.DataFrame, names: list[str]) -> None:
    there = [name for name in QUANTITIES if name in table and np.isfinite(table[name].to_numpy(float)).any()]
    absent = [name for name in names if name not in there]
    if absent or not names:
        raise ValueError(f"plot_history: quantity is {listed(absent) or 'empty'}; this history has {', '.join(there)}.")


def _best(table: pd.DataFrame, taken_back: np.ndarray) -> int | None:
    """The row that training kept: the first of the highest scores that was not taken back."""
    if "score" not in table:
        return None
    scores = np.where(taken_back, np.nan, table["score"].to_numpy(float))
    finite = np.isfinite(scores)
    return int(np.argmax(np.where(finite, scores, -np.inf))) if finite.any() else None


def _view(values: np.ndarray, anchor: float) -> tuple[float, float]:
    """Limits that a few wild epochs cannot stretch, with `anchor` inside."""
    finite = values[np.isfinite(values)]
    # Of few values, one of them and not a mixture with the wild one beside it.
    low, high = np.quantile(finite, 0.05, method="higher"), np.quantile(finite, 0.95, method="lower")
    span = high - low if high > low else np.ptp(finite)
    bottom, top = max(finite.min(), low - span), min(finite.max(), high + span)
    if np.isfinite(anchor):
        bottom, top = min(bottom, anchor), max(top, anchor)
    # A quantity that never changes gets a view around it.
    return (float(bottom), float(top)) if top > bottom else (bottom - 0.5, top + 0.5)
