"""One model, fitted to one data set with one seed, and all its scores as rows of a table.

Every row has the columns `table`, `dataset`, `model`, `recipe`, `seed`, `split`, `p`, `metric`, `n`, `value`.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.ndimage

import febm
from febm import datasets
from febm.benchmark.experiments import (
    CURVES_OF_CHAINS,
    EXPERIMENTS,
    RECIPES,
    SPLINES,
    Experiment,
    drawn_by_chains,
    load_data,
)
from febm.curves import Curves
from febm.evaluation import PictureJudge, check_calibration, split, test_power
from febm.evaluation.prediction import Predictive, predict_in_blocks
from febm.evaluation.samples import curves_and_draws
from febm.evaluation.scoring import level_log_score
from febm.evaluation.splits import Kind
from febm.models.base import Process
from febm.models.settings import check_choice
from febm.randomness import as_key

COLUMNS = ("table", "dataset", "model", "recipe", "seed", "split", "p", "metric", "n", "value")
# What every fitted model has rows of, whichever tables it is wanted for.
FITTED_TABLES = ("fit", "evidence")
CURVE_TABLES = (*FITTED_TABLES, "power", "prediction", "calibration")
SHARES: dict[Kind, str] = {"downsample": "1/4 1/3 1/2", "middle": "1/4 1/2 3/4", "random": "1/4 1/2 3/4"}
SPLITS = tuple((kind, Fraction(share)) for kind, shares in SHARES.items() for share in shares.split())
EVERY_SECOND_PIXEL: tuple[Kind, Fraction] = ("downsample", Fraction(1, 4))
SIZES = (10, 50, 150)
KERNELS = {"id": "", "fpca": "_fpca"}
DRAWS = 100
JUDGED_IMAGES = 5000
# Samples that the tests of power draw from. With a thousand, which thousand it is moves the power at n = 150 by 0.1.
POWER_DRAWS = 4000
# Tests behind a power: with 200 one of 0.07 is known to 0.018, and two of them differ by 0.05 for no reason.
TRIALS = 500
SCORES = ("mse", "crps", "log_density", "coverage_90", "coverage_50")
# Densities of pixels cannot be compared where one model has black for a value and another for all that is below it;
# probabilities of their levels can.
GREY_LEVELS = np.linspace(0, 1, 17)
# Draws behind the intervals of the calibration table: 99 % ones need 199.
CALIBRATION_DRAWS = 300


@dataclasses.dataclass(frozen=True)
class Job:
    """What to fit, to what, and with which seed: of the split of the data, of the fit and of the scores.

    Attributes
    ----------
    model, dataset, recipe, seed
        As in the columns of the results.
    experiment
        What the model is compared in: "curves", "priors", "interpolation" or "images".
    tables
        The tables that its scores are wanted for, "fit" and "evidence" among them: one fit serves them all.
    """

    model: str
    dataset: str
    recipe: str = "default"
    seed: int = 0
    experiment: str = "curves"
    tables: tuple[str, ...] = CURVE_TABLES

    def __post_init__(self) -> None:
        check_choice("Job", "experiment", self.experiment, tuple(EXPERIMENTS))
        check_choice("Job", "model", self.model, self.setting.models)
        check_choice("Job", "dataset", self.dataset, self.setting.all_datasets)
        check_choice("Job", "recipe", self.recipe, RECIPES)
        if not self.setting.offers(self.model, self.dataset, self.recipe):
            raise ValueError(f"Job: {self.model} has no recipe {self.recipe!r} for {self.dataset!r}; take the other.")

    @property
    def setting(self) -> Experiment:
        """The experiment that it is a part of."""
        return EXPERIMENTS[self.experiment]

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.experiment}-{self.model}-{self.dataset}-{self.recipe}-{self.seed}"

    @property
    def fits_together(self) -> bool:
        """Whether its seeds are quicker side by side: not by our recipe of F-EBM, much of which is work of the host."""
        return (self.model, self.recipe) != ("FEBM", "default")

    def data(self) -> datasets.Dataset:
        """Training and evaluation curves."""
        return load_data(self.dataset, self.seed, self.model)

    def process(self) -> Process:
        """The model before it is fitted."""
        settings: dict[str, Any] = dict(random_state=self.seed, progress=False)
        return self.setting.build(self.model, self.dataset, self.recipe, settings)


class Scored(NamedTuple):
    """The rows of a job, and the model that they are the scores of; None where nothing is fitted."""

    rows: pd.DataFrame
    model: Process | None


class Case(NamedTuple):
    """What the scores of a table are worked out from."""

    model: Process
    train: Curves
    evaluation: Curves
    completed: Curves  # those of the evaluation curves that parts are hidden of
    seconds: float
    seed: int


Rows = Iterator[dict[str, Any]]


def run_job(job: Job, tables: tuple[str, ...] | None = None, *, curves: int | None = None) -> pd.DataFrame:
    """Fit the model and work out its rows of the `tables`.

    Parameters
    ----------
    job
        What to fit.
    tables
        By default those of the job. "fit": the seconds it took; "evidence": the mean log evidence of an evaluation
        curve, and the seconds that completing all of them takes once compiled; "power": of two-sample tests between
        evaluation curves and samples, beside the floor; "prediction": scores of the paper's nine splits;
        "calibration": the share of values (`coverage`) and of whole curves (`simultaneous`) inside their intervals for
        each level `p`, and how far the mean predictive distribution is from that of the data; "priors" and
        "interpolation": power, errors and coverages of the paper's variants; "images": prediction of the pixels between
        every second one, and what a classifier and a close look say of samples.
    curves
        Judge by this many evaluation curves only.
    """
    return score_job(job, tables, curves=curves).rows


def score_job(
    job: Job, tables: tuple[str, ...] | None = None, *, curves: int | None = None, model: Process | None = None
) -> Scored:
    """As `run_job`, with the model; one that was fitted before, by the same job, is not fitted again."""
    tables = job.tables if tables is None else tables
    data = job.data()
    evaluation = data.evaluation if curves is None else data.evaluation[:curves]
    if job.model in SPLINES:
        rows = _between_pixels(SPLINES[job.model], evaluation[: job.setting.completed])
        return Scored(_table(job, {"images": rows}), None)
    seconds = float("nan")
    if model is None:
        started = time.perf_counter()
        model = job.process().fit(data.train)
        seconds = time.perf_counter() - started
    completed = evaluation[: job.setting.completed_by(model)]
    case = Case(model, data.train, evaluation, completed, seconds, job.seed)
    with warnings.catch_warnings():
        # The score is then missing from the rows, which says the same.
        warnings.filterwarnings("ignore", message=".*log_density is NaN")
        return Scored(_table(job, {table: ROWS[table](case) for table in tables}), model)


def fit_together(jobs: Sequence[Job]) -> list[Scored]:
    """Fit the models of some jobs side by side; their rows say the share of the time that each had."""
    started = time.perf_counter()
    models = febm.fit_together([job.process() for job in jobs], [job.data().train for job in jobs])
    seconds = (time.perf_counter() - started) / len(jobs)
    return [Scored(_table(job, {"fit": _seconds(seconds)}), model) for job, model in zip(jobs, models, strict=True)]


def _table(job: Job, found: dict[str, Rows]) -> pd.DataFrame:
    about = {name: getattr(job, name) for name in ("dataset", "model", "recipe", "seed")}
    rows = [
        {"table": table, **about, "split": "", "p": "", "n": 0, **row} for table, rows in found.items() for row in rows
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _seconds(taken: float) -> Rows:
    yield {"metric": "seconds", "value": taken}


def _evidence(case: Case) -> Rows:
    completed = case.completed[: CURVES_OF_CHAINS if drawn_by_chains(case.model) else None]
    context, target = split(completed, "random", 1 / 2, random_state=case.seed)
    for _ in range(2):
        started = time.perf_counter()
        case.model.condition(context).mean(target)
    yield {"metric": "condition_seconds", "value": time.perf_counter() - started}
    yield {"metric": "log_evidence", "value": float(np.mean(case.model.log_evidence(completed)))}


def _power(case: Case) -> Rows:
    """Evaluation curves against samples, against other curves of the data, and against draws with replacement of these.

    A perfect model would have the second, a model that knows the training curves by heart and nothing else the third.
    """
    given = {"evaluation": case.evaluation, "model": case.model}
    _, samples = curves_and_draws(given, POWER_DRAWS, as_key(case.seed), "benchmark")
    again = np.random.default_rng(case.seed).integers(len(case.train), size=POWER_DRAWS)
    others = {"power": samples, "floor": case.train, "resampled": case.train[again]}
    for n in SIZES:
        if n > len(case.evaluation):
            continue
        for kernel, suffix in KERNELS.items():
            for metric, other in others.items():
                value = test_power(case.evaluation, other, n=n, trials=TRIALS, kernel=kernel, random_state=case.seed)
                yield {"metric": metric + suffix, "n": n, "value": value}


def _prediction(case: Case) -> Rows:
    for kind, p in SPLITS:
        yield from _split_scores(case, kind, p)


def _variant(case: Case) -> Rows:
    yield from _power(case)
    yield from _prediction(case)


def _images(case: Case) -> Rows:
    yield from _split_scores(case, *EVERY_SECOND_PIXEL, levels=GREY_LEVELS)
    yield from _judged_samples(case)


def _judged_samples(case: Case) -> Rows:
    """What a classifier and a close look say of samples, where pictures have labels to learn it from."""
    everything = load_data("fashion_mnist", case.seed)
    about = everything.train.covariates
    if about is None or "label" not in about:
        return
    data = everything.evaluation[:JUDGED_IMAGES].to_images()
    judge = PictureJudge(everything.train.to_images(), about["label"].to_numpy())
    samples = case.model.sample(len(data), everything.evaluation.common_points, random_state=case.seed).to_images()
    found = judge.score(samples, data)
    scores = {
        "sure": found.sure,
        "sure_data": found.sure_data,
        "least_share": found.shares.min(),
        "variation": found.variation / found.variation_data,
        "nearest": found.nearest,
        "nearest_data": found.nearest_data,
        "frechet": found.frechet,
        "frechet_data": found.frechet_data,
    }
    for metric, value in scores.items():
        yield {"split": "samples", "metric": metric, "value": float(value)}
    others = everything.train[: len(data)].to_images()
    seen, *compared = (_as_curves(judge.features(pictures)) for pictures in (data, samples, others))
    for n in (n for n in SIZES if n <= len(data)):
        for metric, other in zip(("power", "floor"), compared, strict=True):
            value = test_power(seen, other, n=n, trials=TRIALS, random_state=case.seed)
            yield {"split": "samples", "metric": metric, "n": n, "value": value}


def _as_curves(features: np.ndarray) -> Curves:
    """Features as functions of their number, which is how tests take them."""
    return Curves.from_grid(np.arange(features.shape[1]), features)


def _split_scores(case: Case, kind: Kind, p: Fraction, levels: np.ndarray | None = None) -> Rows:
    """Means over curves; densities under latents that only chains draw take too long, and are left out."""
    context, target = split(case.completed, kind, float(p), random_state=case.seed)
    parts = predict_in_blocks(
        case.model,
        context,
        target,
        draws=DRAWS,
        noise=True,
        random_state=case.seed,
        owner="benchmark",
        densities=not drawn_by_chains(case.model),
    )
    means = pd.concat([_each_curve(part, levels) for part in parts]).mean()
    for metric, value in means.dropna().items():
        yield {"split": kind, "p": str(p), "metric": metric, "value": float(value)}


def _each_curve(part: Predictive, levels: np.ndarray | None) -> pd.DataFrame:
    scores = part.scores()[list(SCORES)]
    if levels is None:
        return scores
    found = np.add.reduceat(level_log_score(part.draws, part.observed, levels), part.offsets[:-1])
    return scores.assign(log_level=found / np.diff(part.offsets))


def _calibration(case: Case) -> Rows:
    """Of a random half of the points given the other half; `p` is the level."""
    context, target = split(case.completed, "random", 1 / 2, random_state=case.seed)
    found = check_calibration(case.model, context, target, draws=CALIBRATION_DRAWS, random_state=case.seed)
    for metric, shares in (("coverage", found.coverage), ("simultaneous", found.simultaneous)):
        for level, share in zip(shares["level"], shares["coverage"], strict=True):
            yield {"p": f"{level:g}", "metric": metric, "value": float(share)}
    for metric in ("error", "pit_distance", "marginal_distance"):
        yield {"metric": metric, "value": getattr(found, metric)}


def _between_pixels(order: int, evaluation: Curves) -> Rows:
    """The error of a spline through every second pixel; beyond the last of them it stays as it is there."""
    x, values = evaluation.to_grid()
    side = round(len(x) ** 0.5)
    pictures = values.reshape(len(evaluation), side, side)
    places = np.indices((side, side)) / 2
    unseen = (places % 1 > 0).any(axis=0)
    filled = [
        scipy.ndimage.map_coordinates(picture[::2, ::2], places[:, unseen], order=order, mode="nearest")
        for picture in pictures
    ]
    kind, p = EVERY_SECOND_PIXEL
    # Brightness is between 0 and 1, which splines do not know.
    error = float(np.mean((np.clip(filled, 0, 1) - pictures[:, unseen]) ** 2))
    yield {"split": kind, "p": str(p), "metric": "mse", "value": error}


ROWS: dict[str, Callable[[Case], Rows]] = {
    "fit": lambda case: _seconds(case.seconds),
    "evidence": _evidence,
    "power": _power,
    "prediction": _prediction,
    "calibration": _calibration,
    "priors": _variant,
    "interpolation": _variant,
    "images": _images,
}
