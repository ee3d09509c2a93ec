"""What a reader is told first: rules that turn a table into a verdict and one plain sentence with its number.

Each rule is a pure function of a table; every threshold is a named constant, with the reason for its value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from febm.checks import count
from febm.reporting.words import in_a_sentence, p_value, percent

Verdict = Literal["good", "fair", "bad", "unknown"]
ORDER: tuple[Verdict, ...] = ("bad", "fair", "unknown", "good")  # the worst first

# The share of faultless models that the tests may call different, all tests of a report together.
LEVEL = 0.05
# A corrected p-value below this is a hint; a faultless model gives one in at most one report of five.
HINT = 0.2
# One kind of curve in place of two was found in all of 40 trials with 30 a side, in 42 % of them with 12.
FEWEST_TESTED = 30
# Rejections beyond those of curves against curves: up to here a user would need many repeats to notice.
POWER_SMALL = 0.10
# From here on the samples are found out about as often as not.
POWER_LARGE = 0.45
# Below, a low share says little: one kind of curve for two was told by the id test in 9 % of trials at 10, 23 % at 50.
FEWEST_FOR_POWER = 50
# Beyond this share of rejections among the curves themselves, they are no yardstick: the level is 0.05.
FLOOR_HIGH = 0.2
# Squared error as a share of the variance about the mean curve: 1 is what the mean curve itself would get.
ERROR_OF_MEAN = 1.0
# At half of the variance a prediction has explained as much as it has left open.
ERROR_HALF = 0.5
# A 90 % interval that holds so many of the values is right for most purposes.
COVERAGE_GOOD = (0.85, 0.95)
# Below, more than twice as many values as promised fall outside; above, intervals are needlessly wide, but safe.
COVERAGE_FAIR = 0.80
# Intervals narrower than this share of the data's spread may be too wide without harm: noiseless data make them so.
WIDTH_NEGLIGIBLE = 0.01
# With a larger standard error the range above cannot be told from its surroundings.
COVERAGE_ERROR = 0.05
# R-hat as Vehtari et al. (2021) read it, and the looser bound that was usual before.
RHAT_GOOD = 1.01
RHAT_FAIR = 1.05
# Effective draws: 400 make R-hat and quantiles reliable (Vehtari et al., 2021); with fewer than 100 not even means are.
DRAWS_GOOD = 400
DRAWS_FAIR = 100
# The gap between short and long chains has one p-value a chain; a faultless pair of them is called different in 2 %.
GAP_LEVEL = 0.01
# Posterior means moved by ten times the work, in standard deviations: what 512 draws give by chance is taken off.
GAP_SMALL = 0.15
# A move of half a standard deviation changes what an interval says.
GAP_LARGE = 0.5
# A best epoch this late among all epochs means that the score was still rising when time was up.
STILL_RISING = 0.95


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing to know: which section it rests on, how it stands, and a sentence with the number."""

    topic: str
    verdict: Verdict
    sentence: str


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The gravest of some verdicts."""
    return min(verdicts, key=ORDER.index)


def holm(pvalues: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's corrected p-values: rejecting those below α errs in at most a share α of reports."""
    values = np.asarray(pvalues, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def judge_tests(tests: pd.DataFrame, *, sides: tuple[str, str]) -> Finding:
    """Whether the two sides can be told apart, from a table with test, corrected (p-value), n and m."""
    n, m = int(tests["n"].iloc[0]), int(tests["m"].iloc[0])
    best = tests.loc[tests["corrected"].idxmin()]
    smallest = float(best["corrected"])
    found = int(np.sum(tests["corrected"] < LEVEL))
    pair = f"{n} {sides[0]} from {m} {sides[1]}"
    where = f"smallest corrected p-value {p_value(smallest)}, by {best['test']}"
    if found:
        who = f"{found} of {len(tests)} tests tell" if found > 1 else f"One of {len(tests)} tests tells"
        return Finding("tests", "bad", f"{who} {pair} ({where}).")
    if min(n, m) < FEWEST_TESTED:
        return Finding(
            "tests",
            "unknown",
            f"No test tells {pair}, but so few curves would show only gross differences ({where}).",
        )
    if smallest < HINT:
        return Finding(
            "tests", "fair", f"No test tells {pair} for certain, but there is a hint of a difference ({where})."
        )
    return Finding("tests", "good", f"None of {len(tests)} tests tells {pair} ({where}).")


def judge_power(power: pd.DataFrame, *, sides: tuple[str, str]) -> Finding | None:
    """How often samples are found out, from a table with kernel, n, power, power_se, floor and floor_se."""
    if len(power) == 0:
        return None
    n = int(power["n"].max())
    rows = power[power["n"] == n]
    # Without a floor, the level that the test promises stands in for it.
    floor = rows["floor"].fillna(LEVEL)
    slack = 2 * np.sqrt(rows["power_se"] ** 2 + rows["floor_se"].fillna(0.0) ** 2)
    excess = rows["power"] - floor - slack
    row = rows.loc[excess.idxmax()]
    share = percent(row["power"])
    sentence = f"With {n} a side, the {row['kernel']} test tells {sides[0]} from {sides[1]} in {share} of trials"
    if math.isnan(row["floor"]):
        sentence += f"; {percent(LEVEL)} would be chance."
    else:
        sentence += f"; {sides[1]} from {sides[1]}, {percent(row['floor'])}."
        if row["floor"] > FLOOR_HIGH:
            sentence += f" That the {sides[1]} differ so much among themselves makes them a poor yardstick."
    largest = float(excess.max())
    if largest > POWER_LARGE:
        verdict: Verdict = "bad"
    elif largest > POWER_SMALL:
        verdict = "fair"
    elif n < FEWEST_FOR_POWER or (row["floor"] > FLOOR_HIGH):
        verdict = "unknown"
        sentence += " With so few a side this test overlooks much." if n < FEWEST_FOR_POWER else ""
    else:
        verdict = "good"
    return Finding("tests", verdict, sentence)


def judge_prediction(scores: pd.DataFrame) -> Finding:
    """Whether unseen points are predicted, from a table with split, error_share and error_share_se."""
    share = scores["error_share"]
    low, high = scores.loc[share.idxmin()], scores.loc[share.idxmax()]
    shown = list(map(percent, share))
    where = f" ({percent(low['error_share'])} with {low['split']}, {percent(high['error_share'])} with {high['split']})"
    if len(set(shown)) == 1:
        where = f" in all {len(scores)} ways of hiding points" if len(scores) > 1 else f", with {low['split']}"
    typically = "" if len(set(shown)) == 1 else "typically "
    sentence = (
        f"The squared error at unseen points is {typically}{percent(float(share.median()))} of the variance about the "
        f"mean curve{where}"
    )
    surely_above = scores[share - 2 * scores["error_share_se"].fillna(0.0) > ERROR_OF_MEAN]
    if len(surely_above):
        lost = surely_above.loc[surely_above["error_share"].idxmax(), "split"]
        return Finding("prediction", "bad", f"{sentence}: for {lost}, the mean curve alone would predict better.")
    if not np.isfinite(share).all():
        return Finding("prediction", "unknown", f"{sentence}; some splits have no error that is a number.")
    if float(share.median()) < ERROR_HALF:
        return Finding("prediction", "good", f"{sentence}.")
    return Finding("prediction", "fair", f"{sentence}: most of it stays open, which the data may or may not allow.")


def judge_coverage(coverage: pd.DataFrame, *, level: float = 0.9, of: str = "values") -> Finding | None:
    """Whether intervals hold what they promise, from a table with split, level, coverage and standard_error.

    `of` says what is covered: "values", one by one, or "curves", as a whole. A column width_share, where there is one,
    holds the width of the intervals as a share of the data's spread.
    """
    rows = coverage[np.isclose(coverage["level"], level) & coverage["coverage"].notna()]
    if len(rows) == 0:
        return None
    rows = rows if "width_share" in rows else rows.assign(width_share=np.inf)
    verdicts = [_coverage_verdict(row.coverage, row.standard_error, row.width_share) for row in rows.itertuples()]
    verdict = worst(verdicts)
    chosen = [row for row, its in zip(rows.itertuples(), verdicts, strict=True) if its == verdict]
    row = max(chosen, key=lambda row: abs(row.coverage - level))
    what = {
        "values": f"{percent(level)} intervals hold {percent(row.coverage)} of the unseen values",
        "curves": f"{percent(level)} bands hold the whole unseen part of {percent(row.coverage)} of the curves",
    }[of]
    error = f"±\u00a0{percent(row.standard_error, 1)}; " if row.standard_error > 0 else ""
    sentence = f"{what} ({error}{row.split})"
    ending = {
        "good": _when_good(row.coverage, row.standard_error),
        "fair": ": a little too narrow." if row.coverage < level else ": wider than they need be.",
        "bad": ": the model is too sure of itself.",
        "unknown": ": too few curves to say more.",
    }[verdict]
    return Finding("calibration", verdict, sentence + ending)


def judge_chains(chains: pd.DataFrame) -> list[Finding]:
    """Whether chains have arrived and are long enough, from a table with chain, quantity and value."""
    findings = []
    for chain, rows in chains.groupby("chain", sort=False):
        parts = list(_chain_parts(rows.groupby("quantity")["value"].agg(["min", "max"])))
        if not parts:
            continue
        verdict = worst([part for part, _ in parts])
        # What is right needs no list of reasons beyond the first three; what is wrong needs the wrong ones only.
        reasons = [reason for part, reason in parts if part == verdict]
        opening = {
            "good": "can be trusted",
            "fair": "can be trusted with some care",
            "bad": "cannot be trusted",
            "unknown": "could not be judged",
        }[verdict]
        what = {"prior": "new curves", "posterior": "predictions"}.get(str(chain), str(chain))
        findings.append(Finding("chains", verdict, f"The sampler of {what} {opening}: {', '.join(reasons[:3])}."))
    return findings


def _chain_parts(values: pd.DataFrame) -> Iterator[tuple[Verdict, str]]:
    """A verdict and a reason for each quantity that has one."""

    def graded(value: float, good: bool, fair: bool) -> Verdict:
        return "unknown" if math.isnan(value) else "good" if good else "fair" if fair else "bad"

    if "rhat" in values.index:
        rhat = float(values.loc["rhat", "max"])
        agree = "runs agree" if rhat < RHAT_GOOD else "runs differ"
        yield (
            graded(rhat, rhat < RHAT_GOOD, rhat < RHAT_FAIR),
            f"{agree} (R-hat {rhat:.3f}, {RHAT_GOOD} or less is good)",
        )
    if "gap_pvalue" in values.index:
        pvalue = float(values.loc["gap_pvalue", "min"])
        change = "nothing" if pvalue >= GAP_LEVEL else "something"
        reason = f"chains ten times as long change {change} (p-value {p_value(pvalue)})"
        yield graded(pvalue, pvalue >= GAP_LEVEL, True), reason
    elif "gap" in values.index:
        gap = float(values.loc["gap", "max"])
        reason = f"ten times the work moves means by {gap:.2f} standard deviations (up to {GAP_SMALL} is chance)"
        yield graded(gap, gap < GAP_SMALL, gap < GAP_LARGE), reason
    for name, noun in (("ess_bulk", "draws"), ("effective", "proposals")):
        if name in values.index:
            draws = float(values.loc[name, "min"])
            reason = f"{draws:,.0f} effective {noun} ({DRAWS_GOOD} are plenty)"
            yield graded(draws, draws >= DRAWS_GOOD, draws >= DRAWS_FAIR), reason


def judge_training(
    history: pd.DataFrame, *, epochs: int | None = None, start_is_fitted: bool = False
) -> Finding | None:
    """Whether training ended well, from a table with epoch, score and perhaps event.

    `epochs` is how many were allowed; `start_is_fitted` says that what training starts from has been fitted already.
    """
    if "score" not in history or "epoch" not in history or len(history) < 2:
        return None
    score = history["score"].to_numpy(dtype=float)
    if not np.isfinite(score).any():
        return Finding("training", "bad", f"No epoch of {len(history) - 1} has a held-out score that is a number.")
    best = int(history["epoch"].iloc[int(np.nanargmax(score))])
    last = int(history["epoch"].max())
    events = int(history["event"].notna().sum()) if "event" in history else 0
    kept = f"Training ran {count(last, 'epoch')} and kept epoch {best}"
    if events:
        return Finding(
            "training",
            "fair",
            f"{kept}; it left the rails and was set back {'once' if events == 1 else f'{events} times'}.",
        )
    if best == 0 and start_is_fitted:
        sentence = (
            f"The fitted base was best by held-out score; {count(last, 'epoch')} of training it further gained nothing."
        )
        return Finding("training", "good", sentence)
    if best == 0:
        return Finding(
            "training", "bad", f"Training ran {count(last, 'epoch')} and kept its start: held-out curves saw no gain."
        )
    if epochs is not None and last >= epochs and best > STILL_RISING * last:
        return Finding("training", "fair", f"{kept}: the held-out score was still rising when the epochs were used up.")
    return Finding("training", "good", f"{kept}, the best by held-out score.")


def failure(topic: str, title: str, error: BaseException) -> Finding:
    """What to say when a section could not be made."""
    return Finding(topic, "bad", f"“{title}” could not be made: {in_a_sentence(error)}")


def _when_good(coverage: float, error: float) -> str:
    low, high = COVERAGE_GOOD
    if low <= coverage <= high:
        return ": as promised."
    return (
        ": as promised, within chance."
        if coverage - 2 * error <= high
        else ": more than promised, but they are narrow."
    )


def _coverage_verdict(coverage: float, error: float, width: float) -> Verdict:
    low, high = coverage - 2 * error, coverage + 2 * error
    if low > COVERAGE_GOOD[1] and width < WIDTH_NEGLIGIBLE:
        return "good"
    if error > COVERAGE_ERROR or not math.isfinite(error):
        return "bad" if high < COVERAGE_FAIR else "unknown"
    if high >= COVERAGE_GOOD[0] and low <= COVERAGE_GOOD[1]:
        return "good"
    return "bad" if high < COVERAGE_FAIR else "fair"
