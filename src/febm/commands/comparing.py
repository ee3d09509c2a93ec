"""The work of `febm compare`: models fitted to the same curves and scored on the same targets."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import RenderableType

from febm.checks import are, count
from febm.commands.model_settings import make_model, set_epochs, trains_by_epochs
from febm.commands.tabulating import as_rich_table
from febm.commands.terminal import Terminal, one_line
from febm.commands.training import held_out_places
from febm.curves import Curves
from febm.evaluation import predictive_scores, split, summarise

SCORES = ("log_density", "crps", "mse", "coverage_90")
HEADINGS = {"behind": "behind", "log_density": "log density", "crps": "crps", "coverage_90": "90 %"}
DRAWS = 256
LEGEND = "log density, in nats a value, is better higher, crps lower; 90 %: how many % are in 90 % intervals"
HIGHER_IS_BETTER = ("log_density",)


class Entry(NamedTuple):
    """What one model scored on each judging curve, or why it could not."""

    model: str
    scores: pd.DataFrame | None
    fit_seconds: float
    predict_seconds: float
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Contest:
    """The curves that teach, and the two parts of those that judge."""

    training: Curves
    context: Curves
    target: Curves
    seed: int
    too_short: int = 0

    @classmethod
    def of(cls, curves: Curves, *, hold_out: float, shown: float, seed: int) -> Contest:
        """Curves split at random; judging curves too short to be cut in two are left out."""
        held_out = held_out_places(len(curves), hold_out, seed)
        rest = np.setdiff1d(np.arange(len(curves)), held_out)
        if len(rest) < 5:
            raise ValueError(f"{count(len(curves), 'curve')} are too few to compare models by; give at least 7.")
        judging, seen = curves[held_out], np.rint(curves.lengths[held_out] * shown)
        long_enough = (seen >= 1) & (seen < judging.lengths)
        if long_enough.sum() < 2:
            raise ValueError("fewer than 2 judging curves have points enough to be cut in two; raise --hold-out.")
        context, target = split(judging[long_enough], "random", shown, seed)
        return cls(curves[rest], context, target, seed, int(np.sum(~long_enough)))

    def sentence(self) -> str:
        """Who teaches and who judges."""
        teach, judge = count(len(self.training), "curve"), f"{len(self.context):,}"
        short = f" ({self.too_short} too short to judge {are(self.too_short)} left out)" if self.too_short else ""
        return f"{teach} teach, {judge} judge{short}."

    def enter(self, name: str, terminal: Terminal, *, epochs: int | None) -> Entry:
        """Fit and score one model; a failure is kept as a sentence."""
        terminal.say(f"{name} …")
        fitted = started = time.perf_counter()
        try:
            model = make_model(
                name, recipe="default", options={}, settings=(), seed=self.seed, progress=not terminal.quiet
            )
            if epochs is not None and trains_by_epochs(model):
                set_epochs(model, epochs, len(self.training))
            model.fit(self.training)
            fitted = time.perf_counter()
            scores = predictive_scores(model, self.context, self.target, self.seed, draws=DRAWS)
        except Exception as error:
            return Entry(name, None, 0.0, 0.0, one_line(f"{type(error).__name__}: {error}"))
        return Entry(name, scores, fitted - started, time.perf_counter() - fitted)


def ranked(entries: Sequence[Entry], by: str) -> pd.DataFrame:
    """The scores of all models with standard errors, the best first, those that failed last."""
    rows = {entry.model: _row(entry) for entry in entries}
    order = sorted(rows, key=lambda name: _badness(rows[name].get(by, np.nan), by))
    known = {entry.model: entry.scores for entry in entries if entry.scores is not None}
    best = next((name for name in order if name in known), None)
    table = pd.DataFrame([{"model": name, **rows[name]} for name in order])
    if best is None:
        return table
    behind = [_behind(known.get(name), known[best], by) for name in order]
    table.insert(1, "behind", [mean for mean, _ in behind])
    table.insert(2, "behind_se", [error for _, error in behind])
    return table


def shown_ranking(table: pd.DataFrame, by: str) -> list[RenderableType]:
    """The ranking as a person reads it."""
    shown = pd.DataFrame({"model": table["model"]})
    for name, heading in (HEADINGS | {by: HEADINGS.get(by, by)}).items():
        if name in table:
            shown[heading] = [
                _with_error(100 * mean, 100 * error, ".0f")
                if name == "coverage_90"
                else _with_error(mean, error, ".3g")
                for mean, error in zip(table[name], table[f"{name}_se"], strict=True)
            ]
    shown["fit s"] = table["fit_seconds"]
    return [as_rich_table(shown, {"fit s": ".1f"}), f"ranked by {by}; {LEGEND}"]


def _with_error(mean: float, error: float, form: str) -> str:
    if pd.isna(mean):
        return "–"
    return f"{mean:{form}}" + ("" if pd.isna(error) else f" ± {error:.1g}")


def _row(entry: Entry) -> dict[str, float]:
    row: dict[str, float] = {}
    if entry.scores is not None:
        summary = summarise(entry.scores)
        for name in SCORES:
            row |= {name: float(summary["mean"][name]), f"{name}_se": float(summary["standard_error"][name])}
    return row | {"fit_seconds": entry.fit_seconds, "predict_seconds": entry.predict_seconds}


def _badness(score: float, by: str) -> float:
    if np.isnan(score):
        return np.inf
    return -score if by in HIGHER_IS_BETTER else score


def _behind(scores: pd.DataFrame | None, best: pd.DataFrame, by: str) -> tuple[float, float]:
    """How much worse than the best, curve by curve: what two models share of a curve's difficulty cancels."""
    if scores is None:
        return np.nan, np.nan
    worse = (best[by] - scores[by] if by in HIGHER_IS_BETTER else scores[by] - best[by]).to_numpy(dtype=float)
    known = worse[np.isfinite(worse)]
    if len(known) < 2:
        return np.nan, np.nan
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))
