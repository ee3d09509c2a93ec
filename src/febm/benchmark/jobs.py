"""One model, fitted to one data set with one seed, and all its scores as rows of a table.

Every row has the columns `table`, `dataset`, `model`, `recipe`, `seed`, `split`, `p`, `metric`, `n`, `value`.
"""

import dataclasses
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd

import febm
from febm import datasets
from febm.curves import Curves
from febm.evaluation import predictive_scores, split, test_power
from febm.evaluation.splits import Kind
from febm.models.base import Process
from febm.models.settings import PAPER_CURVES, check_choice

MODELS = ("FEBM", "FPCA", "GaussianProcess", "NeuralProcess", "PiVAE", "EBP", "VIP")
DATASETS = PAPER_CURVES
RECIPES = ("default", "paper")
TABLES = ("fit", "power", "prediction")
SHARES: dict[Kind, str] = {"downsample": "1/4 1/3 1/2", "middle": "1/4 1/2 3/4", "random": "1/4 1/2 3/4"}
SPLITS = tuple((kind, Fraction(share)) for kind, shares in SHARES.items() for share in shares.split())
SIZES = (10, 50, 150)
KERNELS = {"id": "", "fpca": "_fpca"}
DRAWS = 100
SCORES = ("mse", "crps", "log_density", "coverage_90", "coverage_50")


@dataclasses.dataclass(frozen=True)
class Job:
    """What to fit, to what, and with which seed: of the split of the data, of the fit and of the scores."""

    model: str
    dataset: str
    recipe: Literal["default", "paper"] = "default"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("Job", "model", self.model, MODELS)
        check_choice("Job", "dataset", self.dataset, DATASETS)
        check_choice("Job", "recipe", self.recipe, RECIPES)

    def data(self) -> datasets.Dataset:
        """Training and evaluation curves."""
        return getattr(datasets, f"load_{self.dataset}")(random_state=self.seed)

    def process(self) -> Process:
        """The model before it is fitted."""
        cls = getattr(febm, self.model)
        settings: dict[str, Any] = dict(random_state=self.seed, progress=False)
        return cls(**settings) if self.recipe == "default" else cls.paper(self.dataset, **settings)


def run_job(job: Job, tables: tuple[str, ...] = TABLES, *, curves: int | None = None) -> pd.DataFrame:
    """Fit the model and work out its rows of the `tables`.

    Parameters
    ----------
    job
        What to fit.
    tables
        "fit": the seconds it took, those that completing all evaluation curves takes once compiled, and the mean log
        evidence of an evaluation curve; "power": of two-sample tests between evaluation curves and samples, beside the
        floor; "prediction": scores of the paper's nine splits.
    curves
        Judge by this many evaluation curves only.
    """
    data = job.data()
    evaluation = data.evaluation if curves is None else data.evaluation[:curves]
    started = time.perf_counter()
    model = job.process().fit(data.train)
    seconds = time.perf_counter() - started
    found = []
    for table in tables:
        rows = {
            "fit": lambda: _fit(model, evaluation, seconds, job.seed),
            "power": lambda: _power(model, evaluation, data.train, job.seed),
            "prediction": lambda: _prediction(model, evaluation, job.seed),
        }[table]()
        found += [{"table": table, **dataclasses.asdict(job), "split": "", "p": "", "n": 0, **row} for row in rows]
    columns = ["table", "dataset", "model", "recipe", "seed", "split", "p", "metric", "n", "value"]
    return pd.DataFrame(found)[columns]


def _fit(model: Process, evaluation: Curves, seconds: float, seed: int) -> Iterator[dict[str, Any]]:
    yield {"metric": "seconds", "value": seconds}
    context, target = split(evaluation, "random", 1 / 2, random_state=seed)
    for _ in range(2):
        started = time.perf_counter()
        model.condition(context).mean(target)
    yield {"metric": "condition_seconds", "value": time.perf_counter() - started}
    yield {"metric": "log_evidence", "value": float(np.mean(model.log_evidence(evaluation)))}


def _power(model: Process, evaluation: Curves, train: Curves, seed: int) -> Iterator[dict[str, Any]]:
    """Evaluation curves against samples, and against other curves of the data: what a perfect model would have."""
    for n in SIZES:
        if n > len(evaluation):
            continue
        for kernel, suffix in KERNELS.items():
            for metric, other in (("power", model), ("floor", train)):
                value = test_power(evaluation, other, n=n, kernel=kernel, random_state=seed)
                yield {"metric": metric + suffix, "n": n, "value": value}


def _prediction(model: Process, evaluation: Curves, seed: int) -> Iterator[dict[str, Any]]:
    for kind, p in SPLITS:
        context, target = split(evaluation, kind, float(p), random_state=seed)
        scores = predictive_scores(model, context, target, seed, draws=DRAWS)
        for metric in SCORES:
            yield {"split": kind, "p": str(p), "metric": metric, "value": float(scores[metric].mean())}
