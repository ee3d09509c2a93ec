"""What is compared with what: the models and the data sets behind every table of the benchmark."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import febm
from febm import datasets
from febm.basis import KarhunenLoeve
from febm.inference import Effort
from febm.kernels import Gaussian
from febm.models.base import Process
from febm.models.settings import PAPER, PAPER_CURVES
from febm.scaling import Scaling

MODELS = ("FEBM", "FPCA", "GaussianProcess", "NeuralProcess", "PiVAE", "EBP", "VIP")
RECIPES = ("default", "paper")

# F-EBM sees pictures some at a time and learns from all 60,000; others need memory or hours for that.
SOME_IMAGES = {"FPCA": 6000, "GaussianProcess": 1000, "NeuralProcess": 6000}
COMPLETED_IMAGES = 1000
IMAGE_MODELS = ("FEBM", "FPCA", "GaussianProcess", "NeuralProcess")
# Ways to fill in pixels that learn nothing, and the order of their splines.
SPLINES = {"bilinear": 1, "bicubic": 3}

# The posterior mean of the paper is that of 100 draws, each the end of a chain of its own.
PAPER_EFFORT = Effort(draws=100, particles=100)
# Such chains take a second for every curve and split, so models that need them complete this many evaluation curves;
# who learns from images by chains has an accelerator, which completes a thousand as well.
CURVES_OF_CHAINS = 50

# The paper's table of priors, on Quadratic with everything else the same.
PRIORS: dict[str, dict[str, Any]] = {
    "Gaussian(d_z=100)": dict(prior="gaussian", latent_dim=100),
    "EBM(d_z=10)": dict(prior="energy", latent_dim=10),
    "EBM(d_z=100)": dict(prior="energy", latent_dim=100),
    "Tilted": dict(prior="tilted", latent_dim=100),
}
# The paper's table of interpolations: kernel and estimator of the eigenfunctions between the points.
EIGENFUNCTIONS = {
    "gaussian + kernel ridge interpolation": ("gaussian", "ridge"),
    "matern + kernel ridge interpolation": ("matern52", "ridge"),
    "gaussian + network interpolation": ("gaussian", "network"),
    "matern + network interpolation": ("matern52", "network"),
}
EXACT = "gp"
# Points of a curve of the GP draws: the paper takes as many eigenfunctions.
GP_RANK = 50


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Models that share a table, the data sets of each table, and how a model is made.

    Attributes
    ----------
    models
        The names, as they stand in the tables.
    datasets
        For every table, its data sets.
    recipes
        Those that the models can be made by.
    build
        From model, data set, recipe and the settings that all models have, the process before it is fitted.
    completed
        How many evaluation curves are completed at most; None: all of them. Tests of samples always see all.
    completed_by_chains
        The same for models that need a chain for every draw.
    """

    models: tuple[str, ...]
    datasets: Mapping[str, tuple[str, ...]]
    recipes: tuple[str, ...]
    build: Callable[[str, str, str, dict[str, Any]], Process]
    completed: int | None = None
    completed_by_chains: int = CURVES_OF_CHAINS

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it fills."""
        return tuple(self.datasets)

    @property
    def all_datasets(self) -> tuple[str, ...]:
        """The data sets of any of its tables."""
        return tuple(dict.fromkeys(name for names in self.datasets.values() for name in names))

    def completed_by(self, model: Process) -> int | None:
        """How many evaluation curves a fitted model completes; None: all of them."""
        return self.completed_by_chains if drawn_by_chains(model) else self.completed

    def offers(self, model: str, dataset: str, recipe: str) -> bool:
        """Whether there is such a model: not all have a recipe of the paper for all data."""
        if model not in self.models or dataset not in self.all_datasets or recipe not in self.recipes:
            return False
        if len(self.recipes) == 1 or recipe == "default" or model in SPLINES:
            return True
        return dataset in (PAPER if model == "FEBM" else PAPER_CURVES)


def drawn_by_chains(model: Process) -> bool:
    """Whether every latent of a posterior is the end of a chain of its own."""
    return isinstance(model, febm.FEBM) and model.training_ == "langevin"


def load_data(dataset: str, seed: int, model: str = "") -> datasets.Dataset:
    """Training and evaluation curves of a data set by its name in tables; of pictures, those that a model takes."""
    if dataset == "gp":
        return datasets.load_gp_draws(random_state=seed)
    if dataset == "fashion_mnist":
        return datasets.load_fashion_mnist(random_state=seed, n_train=SOME_IMAGES.get(model))
    return getattr(datasets, f"load_{dataset}")(random_state=seed)


def _by_recipe(model: str, dataset: str, recipe: str, settings: dict[str, Any]) -> Process:
    cls = getattr(febm, model)
    if recipe == "default":
        return cls(**settings)
    made = cls.paper(dataset, **settings)
    return made.set_params(effort=PAPER_EFFORT) if model == "FEBM" else made


def _with_prior(model: str, dataset: str, recipe: str, settings: dict[str, Any]) -> Process:
    return febm.FEBM(**PAPER[dataset] | PRIORS[model], effort=PAPER_EFFORT, **settings)


def _with_eigenfunctions(model: str, dataset: str, recipe: str, settings: dict[str, Any]) -> Process:
    """F-EBM as on the paper's data without settings of its own, or the process that the curves were drawn from."""
    if model == EXACT:
        # In the units of the data, so that the kernel is the true one; the paper's has noise, which the draws have not.
        raw = Scaling(inputs="none", outputs="none", transform="identity")
        return febm.GaussianProcess(kernel=Gaussian(1.0), mean="zero", fit_kernel=False, scaling=raw, **settings)
    kernel, interpolation = EIGENFUNCTIONS[model]
    basis = KarhunenLoeve(kernel, rank=GP_RANK, interpolation=interpolation)
    unscaled = {"basis": basis, "scaling": PAPER["quadratic"]["scaling"]}
    return febm.FEBM(**PAPER["melbourne"] | unscaled, effort=PAPER_EFFORT, **settings)


EXPERIMENTS = {
    "curves": Experiment(
        models=MODELS,
        datasets={"power": PAPER_CURVES, "prediction": PAPER_CURVES, "calibration": ("gp", *PAPER_CURVES)},
        recipes=RECIPES,
        build=_by_recipe,
    ),
    "priors": Experiment(
        models=tuple(PRIORS),
        datasets={"priors": ("quadratic",)},
        recipes=("paper",),
        build=_with_prior,
        completed=CURVES_OF_CHAINS,
    ),
    "interpolation": Experiment(
        models=(*EIGENFUNCTIONS, EXACT),
        datasets={"interpolation": ("gp",), "calibration": ("gp",)},
        recipes=("paper",),
        build=_with_eigenfunctions,
        completed=CURVES_OF_CHAINS,
    ),
    "images": Experiment(
        models=(*IMAGE_MODELS, *SPLINES),
        datasets={"images": ("fashion_mnist",)},
        recipes=RECIPES,
        build=_by_recipe,
        completed=COMPLETED_IMAGES,
        completed_by_chains=COMPLETED_IMAGES,
    ),
}
TABLES = tuple(dict.fromkeys(table for experiment in EXPERIMENTS.values() for table in experiment.tables))
DATASETS = tuple(dict.fromkeys(name for experiment in EXPERIMENTS.values() for name in experiment.all_datasets))
ALL_MODELS = tuple(dict.fromkeys(name for experiment in EXPERIMENTS.values() for name in experiment.models))
