"""The fitted models of a run that are shown, those of the first seed, with their data and samples."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from febm import datasets, storage
from febm.benchmark.cells import in_order
from febm.benchmark.experiments import DATASETS, MODELS
from febm.benchmark.published import published
from febm.curves import Curves
from febm.models.base import Process
from febm.randomness import as_key
from febm.reporting.subject import ReportEffort, Subject, as_subject

# Curves of either kind in a picture, as in the paper.
SHOWN = 100
# Pictures that are completed; each has some hundred points.
SHOWN_IMAGES = 8
LOADERS = {"gp": "gp_draws"}


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A model in the folder of a run, read when first asked for."""

    path: Path
    experiment: str
    model: str
    dataset: str
    recipe: str
    seed: int
    curves: Callable[[str, int], Curves | Exception] = dataclasses.field(repr=False, compare=False)

    @property
    def label(self) -> str:
        """What tables call it."""
        return f"{self.model} ({self.recipe} recipe)" if self.recipe != "default" and self.is_main else self.model

    @property
    def short_label(self) -> str:
        """What pictures call it, where there is little room."""
        return short_name(self.label)

    @property
    def is_main(self) -> bool:
        """Whether it is one of the models that are compared on all data, and no variant of one."""
        return self.model in MODELS

    @functools.cached_property
    def process(self) -> Process:
        """The model."""
        return storage.load(self.path)

    @property
    def evaluation(self) -> Curves:
        """Some curves that it has not seen."""
        found = self.curves(self.dataset, self.seed)
        if isinstance(found, Exception):
            raise found
        return found

    @functools.cached_property
    def beside_data(self) -> Subject:
        """Curves, and as many samples at their points."""
        effort = ReportEffort(tested=SHOWN, embedded=SHOWN)
        return as_subject(self.process, self.evaluation, context=None, effort=effort, key=as_key(self.seed))


def short_name(label: str) -> str:
    """The name of a variant in a word or two."""
    if label == "gp":
        return "exact GP"
    return label.replace(" + kernel ridge interpolation", ", ridge").replace(" + network interpolation", ", network")


def fitted_models(out: Path) -> list[Fitted]:
    """The models in the folder `out`, the lowest seed of each, by data set and model in the order of the tables."""
    # Read once for all models, and looked for once where they are not there.
    curves = functools.lru_cache(_curves_or_error)
    found = []
    for path in sorted((out / "models").glob("*.febm")):
        parts = path.stem.rsplit("-", 3)
        experiment, _, model = parts[0].partition("-")
        if len(parts) == 4 and model and parts[3].isdigit():
            found.append(Fitted(path, experiment, model, parts[1], parts[2], int(parts[3]), curves))
    known = [*MODELS, *published()["model"].unique()]
    places = {name: place for place, name in enumerate(in_order((each.model for each in found), known))}
    sets = {name: place for place, name in enumerate(in_order((each.dataset for each in found), DATASETS))}
    found.sort(key=lambda each: (sets[each.dataset], places[each.model], each.recipe, -each.seed))
    return list({(each.experiment, each.dataset, each.model, each.recipe): each for each in found}.values())


def evaluation_curves(dataset: str, seed: int) -> Curves:
    """Some curves of a data set, drawn at random, that models of this seed were not fitted to."""
    name = LOADERS.get(dataset, dataset)
    if name == "fashion_mnist":
        return datasets.load_fashion_mnist(seed, n_train=1, n_evaluation=SHOWN_IMAGES).evaluation
    curves = getattr(datasets, f"load_{name}")(random_state=seed).evaluation
    # Not the first ones: curves of one place or one season follow each other.
    return curves[np.sort(np.random.default_rng(seed).permutation(len(curves))[:SHOWN])]


def _curves_or_error(dataset: str, seed: int) -> Curves | Exception:
    try:
        return evaluation_curves(dataset, seed)
    except Exception as error:  # raised again for every picture of this data set, without looking again
        return error
