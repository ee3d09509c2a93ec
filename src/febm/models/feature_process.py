"""Gaussian processes whose features are learned, by the marginal likelihood of all curves.

    y = m(x) + φ(x)·w + ε,    w ~ N(0, I),    ε ~ N(0, σ²I)

The feature map and σ maximise Σ_i log N(y_i; m(x_i), φ(x_i)φ(x_i)ᵀ + σ²I); conditioning is then exact.
"""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from febm.basis.learned import FeatureMap, FeatureNetwork, Learned
from febm.curves import Curves
from febm.fitting import Fitting
from febm.folding import held_out_parts
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.models.basis_process import BasisProcess
from febm.models.recipes import Fitted
from febm.models.settings import as_checkpoint
from febm.networks import LinearGenerator
from febm.precision import full_float32
from febm.priors import GaussianPrior
from febm.progress import Progress
from febm.training import FROZEN, Group, Information, Objective, Optimisation, Training
from febm.woodbury import log_densities

# Distinct points up to this many times a curve's are evaluated once for a whole batch.
SHARING_LIMIT = 4
START_NOISE = 0.3


@dataclasses.dataclass(frozen=True)
class FeatureTraining:
    """The network of a feature map and how it is trained.

    Attributes
    ----------
    width, depth, activation
        Of the residual network.
    waves
        Cosines and sines of x that the network sees beside x; 0 for x alone.
    highest_wave
        Cycles of the fastest of them across the box of the inputs; None: what the points of a curve resolve.
    smallest_noise
        Least standard deviation of the noise, in units of the scaled outputs. With hardly any noise the likelihood is
        all about the last digits of the curves, and the spread of the functions is learned very slowly.
    group, noise_group
        Rates of the network, and of the noise and the numbers of a stationary kernel.
    optimisation
        The training loop.
    """

    width: int = 128
    depth: int = 3
    activation: str = "silu"
    waves: int = 4
    highest_wave: float | None = 2.0
    smallest_noise: float = 1e-3
    group: Group = Group(rate=1e-3, factor=0.5, minimum=1e-5)
    noise_group: Group = Group(rate=1e-2, factor=0.5, minimum=1e-4)
    optimisation: Optimisation = Optimisation(epochs=1000, batch_size=128, patience=100, plateau=20, averaging=0.99)


# The networks and the training that the paper gives its models: x alone, three layers of 512 units.
PAPER_TRAINING = FeatureTraining(
    width=512,
    waves=0,
    group=Group(rate=1e-3, factor=0.9, minimum=1e-4),
    noise_group=Group(rate=1e-3, factor=0.9, minimum=1e-4),
    optimisation=Optimisation(epochs=500, batch_size=128, averaging=0.0),
)


class LearnedFeatureProcess(BasisProcess):
    """A process on a learned basis.

    Subclasses have the arguments `training`, `validation` and `checkpoint`, and write `_start`.
    """

    training: FeatureTraining
    validation: float
    checkpoint: str | None

    @abc.abstractmethod
    def _start(self, curves: Curves, key: PRNGKeyArray) -> FeatureMap:
        """The feature map before training."""

    def _fit_latent(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitting[Fitted]:
        name = type(self).__name__
        if not 0 < self.validation < 1:
            raise ValueError(f"{name}: validation is {self.validation}; give a share between 0 and 1, such as 0.2.")
        checkpoint = as_checkpoint(name, self.checkpoint)
        split_key, start_key, train_key = jax.random.split(key, 3)
        located = locate(curves)
        held_out, *_ = held_out_parts(len(curves), self.validation, split_key)
        trained = yield Training(
            MarginalLikelihood(),
            FeatureProcess(self._start(curves, start_key), Gaussian(START_NOISE), self.training.smallest_noise),
            located[np.flatnonzero(~held_out)],
            located[np.flatnonzero(held_out)],
            groups={"features": self.training.group, "noise": self.training.noise_group},
            settings=self.training.optimisation,
            key=train_key,
            progress=progress,
            watch=lambda model: {"noise": float(jnp.sqrt(model.noise_variance))},
            checkpoint=checkpoint,
        )
        process: FeatureProcess = trained.model
        variance = float(process.noise_variance)
        basis = Learned(process.map, noise_variance=variance).fit(curves)
        likelihood = Gaussian(np.sqrt(variance))
        model = LatentModel(LinearGenerator(basis.rank, basis.rank), GaussianPrior(basis.rank), likelihood)
        return Fitted(basis, model, trained.history)


class LocatedCurves(eqx.Module):
    """Padded values of curves and where they are; a masked value can hold anything.

    Curves that are `alike` have the same points and mask, which then have no curve axis.
    """

    points: Float[Array, "distinct inputs"]
    index: Int[Array, "*each points"]
    values: Float[Array, "curves points outputs"]
    mask: Bool[Array, "*each points outputs"]
    alike: bool = eqx.field(static=True)
    few: bool = eqx.field(static=True)  # distinct points: so few that all are evaluated for every batch

    def __len__(self) -> int:
        """Number of curves."""
        return self.values.shape[0]

    def __getitem__(self, curves: Any) -> "LocatedCurves":
        """Some of the curves."""
        index, mask = (self.index, self.mask) if self.alike else (self.index[curves], self.mask[curves])
        return LocatedCurves(self.points, index, self.values[curves], mask, self.alike, self.few)


def locate(curves: Curves) -> LocatedCurves:
    """The curves as float32 arrays, each distinct point once."""
    points, index = np.unique(curves.x, axis=0, return_inverse=True)
    numbered = curves.replace(x=index.reshape(-1, 1).astype(float)).padded()
    place = np.asarray(numbered.x)[..., 0].astype(np.int32)
    mask, values = np.asarray(numbered.mask), jnp.asarray(numbered.y, jnp.float32)
    alike = bool((place == place[:1]).all() and (mask == mask[:1]).all())
    few = len(points) <= SHARING_LIMIT * place.shape[1]
    if alike:
        place, mask = place[0], mask[0]
    return LocatedCurves(jnp.asarray(points, jnp.float32), jnp.asarray(place), values, jnp.asarray(mask), alike, few)


class FeatureProcess(eqx.Module):
    """What is trained: the feature map and the noise."""

    map: FeatureMap
    likelihood: Gaussian
    smallest_noise: float = eqx.field(static=True)

    @property
    def noise_variance(self) -> Float[Array, ""]:
        """σ², which cannot fall below its least."""
        return self.likelihood.variance + self.smallest_noise**2

    @full_float32
    def log_densities(self, curves: LocatedCurves) -> Float[Array, " curves"]:
        """The log marginal likelihood of every curve."""
        shape = curves.mask.shape
        if curves.few:
            mean, features = (part[curves.index] for part in self.map(curves.points))
        else:
            mean, features = self.map(curves.points[curves.index.reshape(-1)])
        mean, features = mean.reshape(shape), features.reshape(*shape, -1)
        residual = (curves.values - mean).reshape(len(curves), -1)
        flat = (*shape[:-2], shape[-2] * shape[-1])
        mask = curves.mask.reshape(flat)
        return log_densities(features.reshape(*flat, -1), residual, mask, self.noise_variance)


class MarginalLikelihood(Objective):
    """The log marginal likelihood per observed value."""

    def loss(self, model: FeatureProcess, batch: LocatedCurves, key: PRNGKeyArray) -> tuple[Array, Information]:
        """Of a batch, with fresh randomness in the features where they have any."""
        fresh = eqx.tree_at(lambda tree: tree.map, model, model.map.redrawn(key))
        return -_per_value(fresh, batch), {}

    def score(self, model: FeatureProcess, held_out: LocatedCurves, key: PRNGKeyArray) -> Float[Array, ""]:
        """Of held-out curves, with the features as they will be used."""
        return _per_value(model, held_out)

    def groups(self, model: Any) -> PyTree[str]:
        """The network, and noise and kernel at one rate; frequencies and latents stay as they were drawn."""
        labels = jax.tree.map(lambda leaf: FROZEN, model)
        labels = eqx.tree_at(lambda tree: tree.likelihood.log_scale, labels, "noise")
        network = jax.tree.map(lambda leaf: "features", model.map.network)
        labels = eqx.tree_at(lambda tree: tree.map.network, labels, network)
        if not isinstance(model.map, FeatureNetwork) or model.map.stationary is None:
            return labels

        def kernel(tree: Any) -> tuple[Any, ...]:
            stationary = tree.map.stationary
            return stationary.log_size, stationary.log_length, stationary.log_smoothness

        return eqx.tree_at(kernel, labels, ("noise",) * 3)


def _per_value(model: FeatureProcess, curves: LocatedCurves) -> Float[Array, ""]:
    copies = len(curves) if curves.alike else 1
    return jnp.sum(model.log_densities(curves)) / (copies * jnp.sum(curves.mask))
