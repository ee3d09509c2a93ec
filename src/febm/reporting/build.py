"""The report: every yardstick applied to a fitted model, told in plain sentences on one HTML page."""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from febm.checks import count
from febm.randomness import RandomState, as_key
from febm.reporting.findings import Finding
from febm.reporting.fitted import chains_section, fitted_section, training_section
from febm.reporting.page import Code, Facts, Section, guarded, render, table_of, versions, write
from febm.reporting.predicting import Predictions, calibration_section, prediction_section
from febm.reporting.resemblance import samples_section, tests_section
from febm.reporting.subject import ReportEffort, Subject, as_subject

VERDICTS = ("good", "fair", "bad", "unknown")


@dataclasses.dataclass(frozen=True)
class Report:
    """Where the page is, what it says first, and the tables behind it; None for what does not apply.

    Attributes
    ----------
    path : the HTML file.
    findings : what is good and what is not, in the order of the page.
    tests : test, statistic, pvalue, corrected (Holm), n, m.
    power : kernel, n, power, power_se, floor, floor_se.
    scores : one row for each split: mean scores with their standard errors, and the error as a share of the variance.
    calibration : split, of ("values" or "curves"), level, coverage, standard_error.
    chains : chain, quantity, value, meaning.
    seconds : section, seconds.
    """

    path: Path
    findings: tuple[Finding, ...]
    tests: pd.DataFrame | None = None
    power: pd.DataFrame | None = None
    scores: pd.DataFrame | None = None
    calibration: pd.DataFrame | None = None
    chains: pd.DataFrame | None = None
    seconds: pd.DataFrame | None = None

    def __str__(self) -> str:
        lines = [f"{finding.verdict:>7}  {finding.sentence}" for finding in self.findings]
        return "\n".join([str(self.path), *lines])


def report(
    model: Any,
    data: Any,
    path: str | os.PathLike[str],
    *,
    random_state: RandomState = 0,
    context: Any = None,
    title: str | None = None,
    effort: ReportEffort = ReportEffort(),
) -> Report:
    """Judge a fitted model by curves that it has not seen, and write what was found as one HTML file.

    The file holds its pictures and needs neither scripts nor a network. A section that fails says so and leaves the
    others as they are.

    Parameters
    ----------
    model
        A fitted `Process`; or curves (or a 2-D array), which are then compared with `data` as samples of an unknown
        model.
    data
        The curves to judge by: `Curves`, a 2-D array, or a `Dataset`, whose evaluation curves then judge, with its
        training curves as a reference for how much curves differ among themselves. They must be held out, that is,
        the model must not have been fitted to them: the report cannot know.
    path
        The HTML file to write. It appears whole or not at all, and replaces one that is there.
    random_state
        Decides every draw: the same number gives the same findings.
    context
        Partly observed curves that the posterior chains are examined with; None: random halves of some of the data.
    title
        The heading; None: one that names the model.
    effort
        How much work is done.

    Returns
    -------
    Report
        The findings and the tables behind them.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> from febm.reporting import ReportEffort
    >>> x = np.linspace(0, 1, 10)
    >>> curves = febm.Curves.from_grid(x, np.random.default_rng(0).normal(size=(60, 1)) * np.sin(3 * x))
    >>> model = febm.FPCA(random_state=0, progress=False).fit(curves[:40])
    >>> quick = ReportEffort(kernels=("id",), permutations=19, power_sizes=(), predicted=5, draws=32, embedded=10)
    >>> result = report(model, curves[40:], "report.html", effort=quick)
    >>> [finding.verdict for finding in result.findings if finding.topic == "prediction"]
    ['good']
    """
    path = _writable(path)
    subject = as_subject(model, data, context=context, effort=effort, key=as_key(random_state))
    heading = title if title is not None else _heading(subject)
    sections, seconds = [], []
    for anchor, name, make in _plan(subject):
        started = time.perf_counter()
        sections.append(guarded(anchor, name, make))
        seconds.append((name, time.perf_counter() - started))
    timing = pd.DataFrame(seconds, columns=["section", "seconds"])
    sections.append(_made(subject, path, timing, random_state=random_state, title=title))
    found = tuple(finding for section in sections for finding in section.findings)
    write(path, render(heading, _lead(subject, found), sections))
    tables = {name: table for section in sections for name, table in section.tables.items()}
    return Report(path=path, findings=found, seconds=timing, **tables)


def _plan(subject: Subject) -> list[tuple[str, str, Callable[[], Section]]]:
    """The sections that apply: a set of curves alone can be compared, but not asked to predict."""
    comparing: list[tuple[str, str, Callable[[], Section]]] = [
        ("samples", "Samples beside data", lambda: samples_section(subject)),
        ("tests", "Tests", lambda: tests_section(subject)),
    ]
    if subject.model is None:
        return [("fitted", "What is compared", lambda: fitted_section(subject)), *comparing]
    predictions = Predictions(subject)
    return [
        ("fitted", "What was fitted", lambda: fitted_section(subject)),
        ("training", "How training went", lambda: training_section(subject)),
        *comparing,
        ("prediction", "Prediction", lambda: prediction_section(predictions)),
        ("calibration", "Calibration", lambda: calibration_section(predictions)),
        ("chains", "Health of the chains", lambda: chains_section(subject)),
    ]


def _made(subject: Subject, path: Path, seconds: pd.DataFrame, *, random_state: Any, title: str | None) -> Section:
    """How the report was made, so that it can be made again."""
    today = datetime.datetime.now(datetime.UTC)
    rows = [*versions(), ("date", f"{today:%Y-%m-%d %H:%M} UTC"), ("random_state", str(random_state))]
    arguments = ["model" if subject.model is not None else "samples", "data", repr(path.name)]
    arguments.append(f"random_state={random_state!r}")
    if title is not None:
        arguments.append(f"title={title!r}")
    if subject.effort != ReportEffort():
        arguments.append(f"effort={_differing(subject.effort)}")
    timed = [(row.section, f"{row.seconds:.1f}") for row in seconds.itertuples()]
    timed.append(("all", f"{seconds['seconds'].sum():.1f}"))
    blocks = (
        Code(f"import febm\n\nfebm.report({', '.join(arguments)})"),
        Facts("Versions and settings", tuple(rows)),
        table_of(timed, ("section", "seconds"), "Time taken"),
    )
    return Section("made", "How this was made", blocks)


def _differing(effort: ReportEffort) -> str:
    default = ReportEffort()
    changed = [
        f"{field.name}={getattr(effort, field.name)!r}"
        for field in dataclasses.fields(effort)
        if getattr(effort, field.name) != getattr(default, field.name)
    ]
    return f"febm.reporting.ReportEffort({', '.join(changed)})"


def _heading(subject: Subject) -> str:
    if subject.model is None:
        return f"{count(len(subject.samples), 'sample')} against {count(len(subject.data), 'curve')}"
    return f"{type(subject.model).__name__}, judged by {count(len(subject.data), 'curve')}"


def _lead(subject: Subject, found: tuple[Finding, ...]) -> str:
    what = "A fitted model, judged by curves" if subject.model is not None else "Two sets of curves, compared"
    verdicts = [finding.verdict for finding in found]
    tally = [f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in verdicts]
    lead = f"{what}. {count(len(found), 'finding')}: {', '.join(tally)}. Each leads to what it rests on."
    return f"{lead} {subject.effort.less()}".rstrip()


def _writable(path: str | os.PathLike[str]) -> Path:
    """The path, refused before any work is done where no file can be written."""
    there = Path(path)
    if there.is_dir():
        raise ValueError(f"report: path is {str(there)!r}, which is a folder; name a file, such as 'report.html'.")
    if not there.parent.is_dir():
        raise ValueError(f"report: the folder {str(there.parent)!r} does not exist; make it, or name another path.")
    return there
