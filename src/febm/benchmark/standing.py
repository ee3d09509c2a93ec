"""Where F-EBM stands: beside its published row, and beside the best of the other models here, cell by cell.

A ratio is F-EBM's error over the other's, above 1 a loss. Its standard error is that of a ratio of means of the same
seeds, which share their data: the spread of f_s − R·g_s over the mean of g.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from febm.benchmark.cells import (
    CELLS,
    MISSING,
    figure,
    fixed,
    in_order,
    over_seeds,
    published_figure,
    tidy_results,
)
from febm.benchmark.experiments import MODELS
from febm.benchmark.formats import GROUP
from febm.benchmark.jobs import KERNELS
from febm.benchmark.tables import KERNEL_NAMES, Sheet
from febm.reporting.findings import COVERAGE_FAIR, COVERAGE_GOOD, POWER_LARGE, POWER_SMALL, Finding, Verdict

FLAGSHIP = "FEBM"
# A ratio that exceeds 1 by so many standard errors is a loss that more seeds would hardly undo.
CLEAR = 2
# Nats for each value: a density that is lower by so little is lower by a twentieth.
CLOSE = 0.05


def standing(results: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """F-EBM, its published number and its best rival in every cell that it was run in.

    Columns `dataset`, `split`, `p`, `febm`, `febm_error`, `published`, `over_published`, `rival`, `best`, `over_best`,
    `over_best_error`; NaN where there is nothing to compare with. Rivals are compared on the seeds that they share with
    F-EBM.
    """
    own, rivals = _sides(results)
    errors, others = (side[side["metric"] == "mse"] for side in (own, rivals))
    told = published[(published["table"] == "prediction") & (published["model"] == FLAGSHIP)]
    told = told.set_index(["dataset", "split", "p"])["value"]
    found = []
    mine_of, theirs_of = _by_seed(errors), _by_seed(others)
    for dataset in dict.fromkeys(errors["dataset"]):
        rivals_here = dict.fromkeys(others.loc[others["dataset"] == dataset, "label"])
        for split, p in CELLS:
            mine = next((values for key, values in mine_of.items() if key[1:] == (dataset, split, p)), None)
            if mine is None:
                continue
            there = {label: theirs_of.get((label, dataset, split, p), pd.Series(dtype=float)) for label in rivals_here}
            ratios = {label: _ratio(mine, values) for label, values in there.items()}
            known = [label for label, (ratio, _) in ratios.items() if not math.isnan(ratio)]
            rival = max(known, key=lambda label: ratios[label][0], default="")
            theirs = there.get(rival, pd.Series(dtype=float))
            ratio, error = ratios.get(rival, (math.nan, math.nan))
            paper = told.get((dataset, split, p), math.nan)
            found.append(
                {
                    "dataset": dataset,
                    "split": split,
                    "p": p,
                    "febm": mine.mean(),
                    "febm_error": mine.sem() if len(mine) > 1 else math.nan,
                    "published": paper,
                    "over_published": mine.mean() / paper,
                    "rival": rival,
                    "best": theirs.mean() if len(theirs) else math.nan,
                    "over_best": ratio,
                    "over_best_error": error,
                }
            )
    columns = "dataset split p febm febm_error published over_published rival best over_best over_best_error"
    return pd.DataFrame(found, columns=columns.split())


def beyond_floor(results: pd.DataFrame) -> pd.DataFrame:
    """Power of F-EBM less the floor of the same seeds: `dataset`, `kernel`, `n`, `mean`, `error`."""
    own, _ = _sides(results)
    rows = own[own["table"] == "power"].pivot_table(index=["dataset", "seed", "n"], columns="metric", values="value")
    found = []
    for kernel, suffix in KERNELS.items():
        if {f"power{suffix}", f"floor{suffix}"} <= set(rows.columns):
            above = (rows[f"power{suffix}"] - rows[f"floor{suffix}"]).rename("value").dropna().reset_index()
            found.append(over_seeds(above, "dataset", "n").reset_index().assign(kernel=KERNEL_NAMES[kernel]))
    columns = ["dataset", "kernel", "n", "mean", "error"]
    return pd.concat(found)[columns].reset_index(drop=True) if found else pd.DataFrame(columns=columns)


def density_gains(results: pd.DataFrame) -> pd.DataFrame:
    """Log density of F-EBM less that of each rival, mean of the cells that both have.

    Columns `dataset`, `rival`, `mean`, `error` (over seeds), `ahead` and `cells`.
    """
    own, rivals = _sides(results)
    keys = ["dataset", "split", "p", "seed"]
    mine, theirs = (side[(side["table"] == "prediction") & (side["metric"] == "log_density")] for side in (own, rivals))
    both = theirs.merge(mine[[*keys, "value"]], on=keys, suffixes=("_rival", ""))
    both["value"] = both["value"] - both["value_rival"]
    found = []
    for (dataset, label), part in both.groupby(["dataset", "label"], sort=False):
        seeds = part.groupby("seed")["value"].mean()
        cells = part.groupby(["split", "p"])["value"].mean()
        error = seeds.sem() if len(seeds) > 1 else math.nan
        found.append((dataset, label, seeds.mean(), error, int((cells >= 0).sum()), len(cells)))
    return pd.DataFrame(found, columns=["dataset", "rival", "mean", "error", "ahead", "cells"])


def coverage_cells(results: pd.DataFrame) -> pd.DataFrame:
    """Coverage of F-EBM's 90 % intervals in every cell: `dataset`, `split`, `p`, `mean`."""
    own, _ = _sides(results)
    rows = own[(own["table"] == "prediction") & (own["metric"] == "coverage_90")]
    return over_seeds(rows, "dataset", "split", "p").reset_index()[["dataset", "split", "p", "mean"]]


def standing_table(results: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """`standing` as text."""
    found = [
        {
            GROUP: row.dataset,
            "cell": f"{row.split} {row.p}",
            "F-EBM": figure(row.febm, row.febm_error),
            "published": published_figure(row.published),
            "ratio to published": figure(row.over_published),
            "best rival": row.rival or MISSING,
            "rival's error": figure(row.best),
            "ratio to best rival": figure(row.over_best, row.over_best_error),
            "result": _result(row),
        }
        for row in standing(results, published).itertuples()
    ]
    return pd.DataFrame(found)


def verdict_table(results: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """A row for each data set: cells won and lost, the worst of them, power beyond the floor, coverage."""
    cells, power = standing(results, published), beyond_floor(results)
    coverage = coverage_cells(results)
    datasets = dict.fromkeys([*cells["dataset"], *power["dataset"], *coverage["dataset"]])
    found = []
    for dataset in datasets:
        here, tests, covered = (table[table["dataset"] == dataset] for table in (cells, power, coverage))
        inside = covered["mean"].between(*COVERAGE_GOOD)
        row = {
            GROUP: dataset,
            "at or below published": _share(here["over_published"] <= 1, here["over_published"].notna()),
            "worst ratio to published": figure(here["over_published"].max()),
            "at or below best rival": _share(here["over_best"] <= 1, here["over_best"].notna()),
            "clearly above": str(int(_clear(here).sum())) if here["over_best"].notna().any() else MISSING,
            "worst ratio to a rival": _worst(here),
            "power − floor, largest": MISSING if tests.empty else _largest_power(tests),
            "coverage in range": _share(inside, covered["mean"].notna()),
        }
        found.append(row)
    return pd.DataFrame(found)


def gains_table(results: pd.DataFrame) -> pd.DataFrame:
    """`density_gains` as text, a column for each rival."""
    gains = density_gains(results)
    shown = [f"{figure(each.mean, each.error)} ({each.ahead} of {each.cells})" for each in gains.itertuples()]
    rivals = in_order(gains["rival"], MODELS)
    table = gains.assign(text=shown).pivot(index="dataset", columns="rival", values="text")
    table = table.reindex(index=dict.fromkeys(gains["dataset"]), columns=rivals).fillna(MISSING)
    return table.rename_axis(index=GROUP, columns=None).reset_index()


def standing_sheets(results: pd.DataFrame, published: pd.DataFrame) -> list[Sheet]:
    """The tables of the verdict that have any rows."""
    found = [
        Sheet(
            "verdict",
            "Verdict",
            "For each data set: cells of F-EBM's squared error at or below the published one and at or below the best "
            "of the other models here, the worst ratios (above 1 is a loss, clearly above by more than two standard "
            "errors), how much more often samples are told from data than data from data, and cells in which "
            "90\u00a0% intervals hold 85 to 95\u00a0% of the values.",
            verdict_table(results, published),
        ),
        Sheet(
            "gains",
            "Log density, F-EBM less each rival",
            "F-EBM's log density of a hidden value less that of each rival, mean of the nine cells in nats (below 0 is "
            "a loss), and in how many of them it is not below.",
            gains_table(results),
        ),
        Sheet(
            "standing",
            "Cell by cell",
            "F-EBM's squared error, the published one, and that of the best rival in the cell. A ratio above 1 is a "
            "loss, a clear one where it is above 1 by more than two standard errors.",
            standing_table(results, published),
        ),
    ]
    return [sheet for sheet in found if len(sheet.table)]


def judge(results: pd.DataFrame, published: pd.DataFrame) -> list[Finding]:
    """What a reader should know first, wins and losses alike, over all data sets of the run."""
    return list(_judge(tidy_results(results), published))


def _judge(results: pd.DataFrame, published: pd.DataFrame) -> Iterator[Finding]:
    cells = standing(results, published)
    paper = cells[cells["over_published"].notna()]
    if len(paper):
        met = int((paper["over_published"] <= 1).sum())
        worst = paper.loc[paper["over_published"].idxmax()]
        sentence = (
            f"Against the paper: F-EBM's squared error is at or below its published one in {met} of {len(paper)} "
            f"cells; the worst is {figure(worst['over_published'])} times the published ({_place(worst)})."
        )
        yield Finding("standing", _by_share(met, len(paper)), sentence)
    duels = cells[cells["over_best"].notna()]
    if len(duels):
        met, clear = int((duels["over_best"] <= 1).sum()), int(_clear(duels).sum())
        worst = duels.loc[duels["over_best"].idxmax()]
        sentence = (
            f"Against the best rival in each cell: at or below it in {met} of {len(duels)}, clearly above in {clear}; "
            f"the worst is {figure(worst['over_best'])} times that of {worst['rival']} ({_place(worst)})."
        )
        yield Finding("standing", _by_share(met, len(duels)), sentence)
    power = beyond_floor(results)
    if len(power):
        worst = power.loc[power["mean"].idxmax()]
        verdict: Verdict = "good" if worst["mean"] <= POWER_SMALL else "fair" if worst["mean"] < POWER_LARGE else "bad"
        sentence = (
            f"Samples: tests tell them from data more often than data from data by at most "
            f"{figure(worst['mean'])} of trials ({worst['dataset']}, {worst['kernel']} kernel, n = {worst['n']})."
        )
        yield Finding("samples", verdict, sentence)
    coverage = coverage_cells(results)
    if len(coverage):
        inside = int(coverage["mean"].between(*COVERAGE_GOOD).sum())
        low, high = coverage.loc[coverage["mean"].idxmin()], coverage.loc[coverage["mean"].idxmax()]
        verdict = "good" if inside == len(coverage) else "fair" if low["mean"] >= COVERAGE_FAIR else "bad"
        sentence = (
            f"Calibration: 90\u00a0% intervals hold 85 to 95\u00a0% of values in {inside} of {len(coverage)} cells; "
            f"from {100 * low['mean']:.0f}\u00a0% ({_place(low)}) to {100 * high['mean']:.0f}\u00a0% ({_place(high)})."
        )
        yield Finding("calibration", verdict, sentence)
    yield from _judge_density(density_gains(results))


def _judge_density(gains: pd.DataFrame) -> Iterator[Finding]:
    if gains.empty:
        return
    worst, behind = gains.loc[gains["mean"].idxmin()], gains[gains["mean"] < 0]
    verdict: Verdict = "good" if behind.empty else "fair" if worst["mean"] >= -CLOSE else "bad"
    where = f"{worst['rival']}, {worst['dataset']}"
    if behind.empty:
        end = f"the smallest lead is {figure(worst['mean'])} nats a value ({where})."
    else:
        end = f"behind in {len(behind)}, at worst by {figure(-worst['mean'])} nats a value ({where})."
    ahead = len(gains) - len(behind)
    yield Finding(
        "density", verdict, f"Log density: ahead in {ahead} of {len(gains)} pairs of data set and rival; {end}"
    )


def _sides(results: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of F-EBM, by its default recipe where that was run, and those of all other models."""
    rows = tidy_results(results)
    rows = rows[rows["table"].isin(["prediction", "power"])]
    own = rows[rows["model"] == FLAGSHIP]
    recipes = set(own["recipe"])
    own = own[own["recipe"] == ("default" if "default" in recipes or not recipes else sorted(recipes)[0])]
    return own, rows[rows["model"] != FLAGSHIP]


def _by_seed(rows: pd.DataFrame) -> dict[tuple[str, ...], pd.Series]:
    """The values of label, data set and cell, by seed."""
    grouped = rows.set_index("seed").groupby(["label", "dataset", "split", "p"])["value"]
    return dict(iter(grouped))


def _ratio(mine: pd.Series, theirs: pd.Series) -> tuple[float, float]:
    """The ratio of the means over the seeds that both have, and its standard error."""
    shared = mine.index.intersection(theirs.index)
    if shared.empty:
        return math.nan, math.nan
    ratio = float(mine[shared].mean() / theirs[shared].mean())
    if len(shared) < 2:
        return ratio, math.nan
    apart = mine[shared] - ratio * theirs[shared]
    return ratio, float(apart.std() / math.sqrt(len(shared)) / theirs[shared].mean())


def _clear(cells: pd.DataFrame) -> pd.Series:
    """Which cells are losses beyond chance; of one seed nobody knows what chance does."""
    return cells["over_best"] - CLEAR * cells["over_best_error"].fillna(np.inf) > 1


def _result(row: tuple) -> str:  # type: ignore[type-arg]
    ratio, error = float(row.over_best), float(row.over_best_error)  # type: ignore[attr-defined]
    if math.isnan(ratio):
        return MISSING
    if ratio > 1:
        return "clear loss" if ratio - CLEAR * error > 1 else "loss"
    return "clear win" if ratio + CLEAR * error < 1 else "win"


def _share(met: pd.Series, known: pd.Series) -> str:
    return f"{int((met & known).sum())} of {int(known.sum())}" if known.any() else MISSING


def _worst(cells: pd.DataFrame) -> str:
    if not cells["over_best"].notna().any():
        return MISSING
    worst = cells.loc[cells["over_best"].idxmax()]
    return f"{figure(worst['over_best'], worst['over_best_error'])} ({worst['rival']}, {worst['split']} {worst['p']})"


def _largest_power(tests: pd.DataFrame) -> str:
    worst = tests.loc[tests["mean"].idxmax()]
    return f"{fixed(worst['mean'], worst['error'], 3)} ({worst['kernel']}, n = {worst['n']})"


def _place(row: pd.Series) -> str:
    return f"{row['dataset']}, {row['split']} {row['p']}"


def _by_share(met: int, total: int) -> Verdict:
    """All is good, at least half is fair."""
    return "good" if met == total else "fair" if 2 * met >= total else "bad"
