"""The sections about prediction: how near, and whether the uncertainty is honest, with parts of the curves hidden."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from febm.checks import count
from febm.curves import Curves
from febm.reporting import findings
from febm.reporting.page import Block, Gallery, Paragraph, Picture, Section, drawing, table_of
from febm.reporting.subject import Subject, common_points, mean_curve_error
from febm.reporting.words import percent, percent_with_error, short, split_name, with_error

# Drawn values of one split that are held at once: 256 MB. Images are large, so fewer of them are predicted.
VALUES_AT_ONCE = 1 << 25
LEVELS = (0.5, 0.9)
LINE_POINTS = 201
SCORES = ("mse", "log_density", "crps", "energy_score", "interval_score_90", "coverage_50", "coverage_90", "width_90")


@dataclasses.dataclass(frozen=True)
class Predicted:
    """One split: its parts, the scores of every curve, and the calibration of all of them."""

    kind: str
    p: float
    context: Curves
    target: Curves
    scores: pd.DataFrame
    calibration: Any

    @property
    def name(self) -> str:
        """Which points were seen."""
        return split_name(self.kind, self.p)


class Predictions:
    """All splits that these curves allow, predicted when first asked for."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @functools.cached_property
    def curves(self) -> Curves:
        """The curves that are predicted."""
        curves = self.subject.predicted
        size = self.subject.effort.draws * int(curves.lengths.max()) * curves.d_y
        return curves[: max(2, min(len(curves), VALUES_AT_ONCE // size))]

    @functools.cached_property
    def found(self) -> tuple[list[Predicted], list[str]]:
        """The splits, and why some were left out."""
        from febm.evaluation.calibration import check_calibration
        from febm.evaluation.prediction import predict
        from febm.evaluation.splits import split

        subject, done, omitted = self.subject, [], []
        assert subject.model is not None
        for kind, p in subject.effort.splits:
            key = subject.key(f"split {kind} {p}")
            try:
                context, target = split(self.curves, kind, p, key)  # type: ignore[arg-type]
            except ValueError as error:
                omitted.append(f"“{split_name(kind, p)}” is left out: {str(error).removeprefix('split: ')}")
                continue
            predicted = predict(subject.model, context, target, draws=subject.effort.draws, random_state=key)
            honest = check_calibration(predicted, levels=_levels(subject.effort.draws), random_state=key)
            done.append(Predicted(kind, p, context, target, predicted.scores(), honest))
        if not done:
            raise ValueError("none of the splits can be made of these curves. " + " ".join(omitted))
        return done, omitted

    @functools.cached_property
    def shown(self) -> Predicted:
        """The split that pictures are drawn of: the random one that shows least, else the first."""
        splits = self.found[0]
        return min((each for each in splits if each.kind == "random"), key=lambda each: each.p, default=splits[0])


def prediction_section(predictions: Predictions) -> Section:
    """Scores of every split, and what the model says of a typical and of the worst curve."""
    splits, omitted = predictions.found
    table = pd.DataFrame([_summary(each, predictions.curves) for each in splits])
    blocks: list[Block] = [
        Paragraph(
            f"Some points of {count(len(predictions.curves), 'curve')} were shown to the model, which then predicted "
            "the others. The error is the mean squared error of the posterior mean; beside it stands its share of the "
            "variance about the mean curve at the same points. A share of 100\u00a0% is what the mean curve alone "
            "would get, 0\u00a0% is perfect. Numbers after ± are standard errors over curves."
        ),
        table_of(
            [_error_cells(row) for row in table.itertuples()],
            ("points", "share of variance", "squared error", "CRPS", "log density per value"),
            "Error at unseen points",
        ),
        table_of(
            [_interval_cells(row) for row in table.itertuples()],
            ("points", "width of 90\u00a0% intervals", "interval score", "energy score"),
            "Width of intervals, and scores of intervals and of whole curves (less is better)",
        ),
        *(Paragraph(text) for text in omitted),
    ]
    pictures = _pictures(predictions)
    if pictures:
        blocks += [
            Paragraph(
                f"Below, what the model says of a typical curve and of the one it predicts worst (by CRPS), with "
                f"{predictions.shown.name}. Band and draws are of the curve itself; the observed values also hold "
                "noise, so some of them may lie outside."
            ),
            Gallery(pictures),
        ]
    return Section("prediction", "Prediction", tuple(blocks), (findings.judge_prediction(table),), {"scores": table})


def calibration_section(predictions: Predictions) -> Section:
    """Whether intervals and bands hold as much as they claim."""
    from febm.plotting import plot_calibration, plot_pit, plot_predictive_cdf

    splits = predictions.found[0]
    spread = float(np.nanstd(predictions.curves.y))
    values, wholes = (
        pd.concat(
            [
                getattr(each.calibration, name).assign(split=each.name, of=of, width_share=_width(each, spread))
                for each in splits
            ]
        )
        for name, of in (("coverage", "values"), ("simultaneous", "curves"))
    )
    table = pd.concat([values, wholes], ignore_index=True)[["split", "of", "level", "coverage", "standard_error"]]
    shown = predictions.shown
    with drawing(height=4.2) as panel:
        plot_calibration({each.name: each.calibration for each in _one_of_each_kind(splits)}, axes=panel.axes)
        coverage = panel.picture(
            alt="Share of values inside intervals against the share that the intervals claim.",
            caption="Below the diagonal intervals are too narrow, above it too wide. Bands are two standard errors.",
        )
    with drawing(height=4.2) as panel:
        plot_calibration({f"whole curves, {shown.name}": _whole(shown.calibration)}, axes=panel.axes)
        whole = panel.picture(
            alt="Share of curves that stay inside bands, against the share that the bands claim.",
            caption="The same for bands that a curve must never leave.",
        )
    with drawing() as panel:
        plot_pit(shown.calibration, axes=panel.axes)
        pit = panel.picture(
            alt="Histogram of predicted probabilities of a smaller value.",
            caption=f"Flat is right; a valley is too sure, a hump too careful, a slope lopsided ({shown.name}).",
        )
    with drawing() as panel:
        plot_predictive_cdf(shown.calibration, axes=panel.axes)
        cdf = panel.picture(
            alt="Distribution of the observed values and the average predicted one.",
            caption=f"All predicted values together, and all observed ones ({shown.name}).",
        )
    blocks = (
        Paragraph(
            "An honest 90\u00a0% interval holds nine of ten unseen values, and an honest 90\u00a0% band the whole "
            "unseen part of nine of ten curves."
        ),
        table_of(list(_coverage_rows(splits)), _coverage_columns(), "How much intervals and bands hold"),
        Gallery((coverage, whole)),
        Gallery((pit, cdf)),
    )
    found = [findings.judge_coverage(values), findings.judge_coverage(wholes, of="curves")]
    kept = tuple(finding for finding in found if finding is not None)
    return Section("calibration", "Calibration", blocks, kept, {"calibration": table})


def _summary(each: Predicted, curves: Curves) -> dict[str, Any]:
    """Means over curves with their standard errors, and the error as a share of the variance."""
    from febm.evaluation.prediction import summarise

    means = summarise(each.scores)
    row: dict[str, Any] = {"split": each.name, "kind": each.kind, "p": each.p, "curves": len(each.scores)}
    for score in SCORES:
        row[score], row[f"{score}_se"] = means.loc[score, "mean"], means.loc[score, "standard_error"]
    error, variance = each.scores["mse"].to_numpy(), mean_curve_error(each.target, curves)
    total = float(variance.mean())
    share = float(error.mean()) / total if total > 0 else np.nan
    row["error_share"] = share
    # The error of a ratio of two means over the same curves.
    spread = np.std(error - share * variance, ddof=1) / np.sqrt(len(error)) if len(error) > 1 else np.nan
    row["error_share_se"] = spread / total if total > 0 else np.nan
    return row


def _error_cells(row: Any) -> tuple[str, ...]:
    scores = (with_error(getattr(row, name), getattr(row, f"{name}_se")) for name in ("mse", "crps", "log_density"))
    return (row.split, percent_with_error(row.error_share, row.error_share_se, 1), *scores)


def _interval_cells(row: Any) -> tuple[str, ...]:
    names = ("width_90", "interval_score_90", "energy_score")
    return (row.split, *(with_error(getattr(row, name), getattr(row, f"{name}_se")) for name in names))


def _coverage_columns() -> tuple[str, ...]:
    return ("points", *(f"{percent(level)} {noun}" for noun in ("intervals", "bands") for level in LEVELS))


def _coverage_rows(splits: list[Predicted]) -> Iterator[tuple[str, ...]]:
    for each in splits:
        cells = []
        for table in (each.calibration.coverage, each.calibration.simultaneous):
            for level in LEVELS:
                row = table[np.isclose(table["level"], level)]
                held = (row["coverage"].iloc[0], row["standard_error"].iloc[0]) if len(row) else (np.nan, np.nan)
                cells.append(percent_with_error(*held))
        yield (each.name, *cells)


def _levels(draws: int) -> list[float]:
    """The levels whose intervals so many draws can tell: at least one draw must fall outside on either side."""
    from febm.evaluation.calibration import LEVELS as ALL

    return [level for level in ALL if (1 - level) * (draws + 1) >= 2 - 1e-9]


def _width(each: Predicted, spread: float) -> float:
    """The width of the 90 % intervals as a share of the spread of the data."""
    return float(each.scores["width_90"].mean()) / spread if spread > 0 else np.inf


def _one_of_each_kind(splits: list[Predicted]) -> list[Predicted]:
    """Of each kind of split the one in the middle of its shares: lines of nine splits could not be told apart."""
    kinds = list(dict.fromkeys(each.kind for each in splits))
    same = ([each for each in splits if each.kind == kind] for kind in kinds)
    return [each[len(each) // 2] for each in same]


def _whole(calibration: Any) -> Any:
    """A calibration whose coverage is that of whole curves."""
    return dataclasses.replace(calibration, coverage=calibration.simultaneous)


def _pictures(predictions: Predictions) -> tuple[Picture, ...]:
    """The posterior of a typical and of the worst curve."""
    shown = predictions.shown
    order = np.argsort(shown.scores["crps"].to_numpy(), kind="stable")
    chosen = {"typical": int(order[(len(order) - 1) // 2]), "worst": int(order[-1])}
    if predictions.curves.d_x == 1:
        return tuple(
            _line(predictions, shown, curve, name, output)
            for output in range(min(predictions.curves.d_y, 2))
            for name, curve in chosen.items()
        )
    if predictions.curves.d_x == 2 and common_points(predictions.curves) is not None:
        return tuple(_image(predictions, shown, curve, name) for name, curve in chosen.items())
    return ()


def _line(predictions: Predictions, shown: Predicted, curve: int, name: str, output: int) -> Picture:
    from febm.plotting import plot_posterior
    from febm.plotting.style import legend_above_data

    model = predictions.subject.model
    assert model is not None
    context, truth = shown.context[[curve]], predictions.curves[[curve]]
    posterior = model.condition(context, random_state=predictions.subject.key("posterior pictures"))
    ends = truth.domain[0][0], truth.domain[1][0]
    with drawing() as panel:
        at = np.linspace(*ends, LINE_POINTS)
        plot_posterior(posterior, at, output=output, context=context, truth=truth, axes=panel.axes)
        panel.axes.set_xlabel("x")
        for line in panel.axes.lines:
            # Data are what was observed, noise included; nobody knows the true curve behind them.
            line.set_label("observed values" if line.get_label() == "true curve" else line.get_label())
        legend_above_data(panel.axes, columns=2)
        of = f", output {output + 1}" if truth.d_y > 1 else ""
        crps = short(shown.scores["crps"].iloc[curve])
        return panel.picture(
            alt=f"Interval, draws, points seen and observed values of a curve ({name}).",
            caption=f"{name.capitalize()}: curve {truth.ids[0]}{of}, CRPS {crps}",
        )


def _image(predictions: Predictions, shown: Predicted, curve: int, name: str) -> Picture:
    from febm.plotting import plot_images

    model = predictions.subject.model
    assert model is not None
    context, truth = shown.context[[curve]], predictions.curves[[curve]]
    mean = np.asarray(
        model.condition(context, random_state=predictions.subject.key("posterior pictures")).mean(truth.x)
    )
    predicted = truth.replace(y=mean[0])
    limits = float(np.nanmin(truth.y[:, 0])), float(np.nanmax(truth.y[:, 0]))
    with drawing(height=1.7) as panel:
        trio = Curves.concatenate([context, predicted, truth])
        kept = limits if limits[0] < limits[1] else None
        plot_images(trio, columns=3, output=0, limits=kept, axes=panel.axes)
        crps = short(shown.scores["crps"].iloc[curve])
        return panel.picture(
            alt=f"Pixels seen, predicted mean and true image ({name}).",
            caption=f"{name.capitalize()}: curve {truth.ids[0]}: seen, predicted, true. CRPS {crps}",
        )
