"""From latents to functions: weights, values at any points, and the posterior made of latent draws."""

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from febm.basis import Basis
from febm.checks import share, whole_number
from febm.curves import Curves
from febm.inference import LatentPosterior
from febm.io_arviz import to_datatree
from febm.latent import LatentModel
from febm.likelihoods import Gaussian, Likelihood
from febm.models.base import Posterior, one_grid, points_of
from febm.networks import Generator, LinearGenerator, RoughGenerator
from febm.ragged import bucket
from febm.randomness import RandomState, as_key, numpy_generator
from febm.scaling import Scaling

if TYPE_CHECKING:
    from xarray import DataTree

# Features are evaluated in blocks of points, so that a very fine `at` does not need very much memory.
BLOCK_VALUES = 1 << 24
# Noise is drawn for a multiple of so many points.
NOISE_POINTS = 32
# Points so little beyond the training points (as a share of the domain) are no cause for alarm.
DOMAIN_SLACK = 0.05


class Evaluated(Protocol):
    """Functions at fixed points."""

    def values(
        self, weights: Float[ndarray, "draws weights"], key: PRNGKeyArray | None = None, scaling: Scaling | None = None
    ) -> Float[ndarray, "draws points outputs"]:
        """Values in the units of the data, or of one curve's own `scaling`; a `key` adds observation noise."""


class Space(Protocol):
    """What lies between a latent and a function, as a posterior needs it."""

    @property
    def scaling(self) -> Scaling:
        """From the units of the data to those of the model."""

    @property
    def is_linear(self) -> bool:
        """Whether the mean function is the function of the mean latent."""

    def weights(self, latents: Float[ndarray, "draws latent"]) -> Float[ndarray, "draws weights"]:
        """What `Evaluated.values` turns into functions."""

    def at(self, points: Float[ndarray, "points inputs"]) -> Evaluated:
        """The space at some points."""

    def at_each(self, points: Sequence[Float[ndarray, "_ inputs"]]) -> Iterator[Evaluated]:
        """The space at the points of one curve after the other."""


class FunctionSpace(NamedTuple):
    """Everything between a latent and values in the units of the data."""

    model: LatentModel
    basis: Basis
    scaling: Scaling
    domain: Float[ndarray, "2 inputs"]  # the corners of the box that the training points fill

    def weights(self, latents: Float[ndarray, "draws latent"]) -> Float[ndarray, "draws rank"]:
        """Basis weights w = μ(z), followed by the log-roughness where the model has one."""
        generator = self.model.generator
        if isinstance(generator, LinearGenerator):
            return np.pad(latents, ((0, 0), (0, generator.rank - generator.latent_dim)))
        if isinstance(generator, RoughGenerator):
            leading, roughness, tail = np.split(latents, [generator.leading, generator.leading + 1], axis=1)
            return np.concatenate([leading, np.exp(roughness) * tail, roughness], axis=1)
        return np.asarray(_generate(generator, jnp.asarray(latents, jnp.float32)), dtype=float)

    def at(self, points: Float[ndarray, "points inputs"]) -> "EvaluatedSpace":
        """The space at some points, ready to turn weights into values there."""
        warn_outside(points, self.domain)
        return EvaluatedSpace(self, self.scaling.apply_points(points))

    def at_each(self, points: Sequence[Float[ndarray, "_ inputs"]]) -> Iterator["EvaluatedSpace"]:
        """The space at the points of one curve after the other; features are evaluated for many curves at once."""
        warn_outside(np.concatenate(points), self.domain)
        return self._each(points)

    def _each(self, points: Sequence[Float[ndarray, "_ inputs"]]) -> Iterator["EvaluatedSpace"]:
        for some in _groups(points, BLOCK_VALUES // self.basis.rank):
            scaled = self.scaling.apply_points(np.concatenate(some))
            if len(some) == 1:
                yield EvaluatedSpace(self, scaled)
                continue
            ends = np.cumsum([len(own) for own in some])[:-1]
            each = (np.split(part, ends) for part in (scaled, self.basis.mean(scaled), self.basis.features(scaled)))
            for own, mean, features in zip(*each, strict=True):
                yield EvaluatedSpace(self, own, (mean, features))

    @property
    def is_linear(self) -> bool:
        """Whether the mean function is the function of the mean latent."""
        return (
            isinstance(self.model.generator, LinearGenerator | RoughGenerator)
            and isinstance(self.model.likelihood, Gaussian)
            and self.scaling.is_affine
        )


class EvaluatedSpace:
    """Functions at fixed points; features are evaluated once, or block by block where they would not fit."""

    def __init__(
        self,
        space: FunctionSpace,
        scaled: Float[ndarray, "points inputs"],
        evaluated: tuple[ndarray, ndarray] | None = None,
    ) -> None:
        self._space = space
        self._rank = space.basis.rank if evaluated is None else evaluated[1].shape[-1]
        self._blocks = np.array_split(scaled, -(-len(scaled) * self._rank // BLOCK_VALUES))
        if evaluated is None and len(self._blocks) == 1:
            evaluated = self._evaluate(scaled)
        self._evaluated = None if evaluated is None else [evaluated]

    def functions(self, weights: Float[ndarray, "draws rank"]) -> Float[ndarray, "draws points outputs"]:
        """f = m + Φw, in scaled units."""
        blocks = self._evaluated or map(self._evaluate, self._blocks)
        return np.concatenate(
            [mean + np.tensordot(weights, features, axes=(1, 2)) for mean, features in blocks], axis=1
        )

    def values(
        self, weights: Float[ndarray, "draws rank"], key: PRNGKeyArray | None = None, scaling: Scaling | None = None
    ) -> Float[ndarray, "draws points outputs"]:
        """Values in the units of the data, or of one curve's own `scaling`; a `key` adds observation noise."""
        rank = self._rank
        functions, roughness = self.functions(weights[:, :rank]), np.exp(weights[:, rank:, None])
        likelihood = self._space.model.likelihood
        if key is not None:
            noisy = _with_noise(likelihood, functions, key)
            functions = functions + roughness * (noisy - functions) if roughness.size else noisy
        elif not isinstance(likelihood, Gaussian):
            functions = np.asarray(likelihood.mean(jnp.asarray(functions, jnp.float32)), dtype=float)
        return (scaling or self._space.scaling).invert_values(functions)

    def _evaluate(self, block: Float[ndarray, "points inputs"]) -> tuple[ndarray, ndarray]:
        return self._space.basis.mean(block), self._space.basis.features(block)


class LatentFunctionPosterior(Posterior):
    """The posterior of functions made of latent draws."""

    def __init__(
        self,
        space: Space,
        latent: LatentPosterior,
        ids: pd.Index,
        *,
        scalings: list[Scaling],
        method: str,
        again: Callable[[int], LatentPosterior],
        evidence: Callable[[], Float[ndarray, " curves"]],
        evidence_with: Callable[[Curves], Float[ndarray, " curves"]],
    ) -> None:
        self._space = space
        self._latent = latent
        self.ids = ids
        self._scalings = scalings
        self._method = method
        self._again = again
        self._evidence = evidence
        self._evidence_with = evidence_with

    def mean(self, at: Any) -> Float[ndarray, "curves points outputs"] | Curves:
        """The posterior mean at the points `at`."""
        points = self._points(at, "mean")
        if self._space.is_linear:
            weights = self._space.weights(self._latent.mean)
            means = self._per_curve(
                points, lambda i, there: there.values(weights[i : i + 1], scaling=self._scalings[i])[0]
            )
        else:
            means = self._per_curve(points, lambda i, there: self._draws(i, there).mean(axis=0))
        return self._shaped(means, at)

    def sample(self, n: int, at: Any, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """`n` functions for each curve, with ids (curve, draw)."""
        n = whole_number("Posterior.sample: n", n)
        points = self._points(at, "sample")
        choose_key, noise_key = jax.random.split(as_key(random_state))
        available = self._latent.draws.shape[1]
        latents = self._latent.draws if n <= available else self._again(n).draws
        chosen = numpy_generator(choose_key).permutation(latents.shape[1])[:n]
        ids = pair_ids(self.ids, n)

        def drawn(i: int, there: Evaluated) -> ndarray:
            key = jax.random.fold_in(noise_key, i) if noise else None
            return there.values(self._space.weights(latents[i, chosen]), key, self._scalings[i])

        values = self._per_curve(points, drawn)
        if isinstance(points, list):
            x = np.concatenate([np.tile(own, (n, 1)) for own in points])
            y = np.concatenate([curve.reshape(-1, curve.shape[-1]) for curve in values])
            offsets = np.cumsum([0, *np.repeat([len(own) for own in points], n)])
            return Curves(x, y, offsets, ids=ids)
        return Curves.from_grid(points, np.concatenate(values), ids=ids)

    def interval(self, at: Any, level: float = 0.9, *, noise: bool = False) -> tuple[Any, Any]:
        """Lower and upper end of the central interval that holds `level` of the probability at each point."""
        level = share("Posterior.interval: level", level)
        points = self._points(at, "interval")
        tails = [(1 - level) / 2, (1 + level) / 2]
        # Weibull's quantiles of n draws hold a new value with just the probability asked for, others with less.
        ends = self._per_curve(
            points, lambda i, there: np.quantile(self._draws(i, there, noise), tails, axis=0, method="weibull")
        )
        return self._shaped([end[0] for end in ends], at), self._shaped([end[1] for end in ends], at)

    @functools.cached_property
    def log_evidence(self) -> Float[ndarray, " curves"]:
        """log p(observed values) of every curve, in the units of the data."""
        return self._evidence()

    def log_density(self, curves: Curves) -> Float[ndarray, " curves"]:
        """log p(further values | observed ones) of every curve, as the ratio of two evidences."""
        if not isinstance(curves, Curves) or not curves.ids.equals(self.ids):
            raise ValueError(
                f"Posterior.log_density: give Curves with further values of the {len(self.ids)} conditioned curves, "
                "in the same order and with the same ids."
            )
        return self._evidence_with(curves) - self.log_evidence

    def to_arviz(
        self,
        at: Any,
        *,
        observed: Curves | None = None,
        draws: int | None = None,
        random_state: RandomState = None,
    ) -> "DataTree":
        """Functions `f` at the points `at` and their latents `z`, chain by chain as they were drawn.

        With `draws` they are drawn anew and mixed, in one chain and without latents. `observed` is what was conditioned
        on, for the group `observed_data`.
        """
        if draws is not None:
            return super().to_arviz(at, observed=observed, draws=draws, random_state=random_state)
        points = one_grid(at, self._space.scaling.d_x, "Posterior.to_arviz")
        functions = np.stack(self._per_curve(points, lambda i, there: self._draws(i, there)))
        chains = self._latent.chains

        def by_chain(array: ndarray) -> ndarray:
            return np.moveaxis(array.reshape(len(array), chains, -1, *array.shape[2:]), 0, 2)

        return to_datatree(by_chain(functions), points, self.ids, by_chain(self._latent.draws), observed)

    @property
    def diagnostics(self) -> pd.DataFrame:
        """One row for each curve: the method, the number of draws, and what the sampler says of them."""
        columns = {"method": self._method, "draws": self._latent.draws.shape[1], **self._latent.diagnostics}
        return pd.DataFrame(columns, index=self.ids)

    def _draws(self, curve: int, there: Evaluated, noise: bool = False) -> Float[ndarray, "draws points outputs"]:
        # The noise of an interval is part of its definition, not of a draw: the same one every time.
        key = jax.random.fold_in(jax.random.key(0), curve) if noise else None
        return there.values(self._space.weights(self._latent.draws[curve]), key, self._scalings[curve])

    def _points(self, at: Any, action: str) -> ndarray | list[ndarray]:
        return points_of(at, self._space.scaling.d_x, len(self.ids), f"Posterior.{action}")

    def _per_curve(self, points: ndarray | list[ndarray], value: Callable[[int, Evaluated], ndarray]) -> list[ndarray]:
        if isinstance(points, list):
            return [value(i, there) for i, there in enumerate(self._space.at_each(points))]
        shared = self._space.at(points)
        return [value(i, shared) for i in range(len(self.ids))]

    def _shaped(self, values: list[ndarray], at: Any) -> Any:
        if isinstance(at, Curves):
            return Curves.from_arrays([curve.x for curve in at], values, ids=self.ids)
        return np.stack(values)


def warn_outside(points: Float[ndarray, "points inputs"], domain: Float[ndarray, "2 inputs"]) -> None:
    """Warn of points beyond the box of the training points, at whoever asked a process or a posterior for them."""
    lower, upper = domain
    slack = DOMAIN_SLACK * (upper - lower)
    outside = np.sum(np.any((points < lower - slack) | (points > upper + slack), axis=1))
    if outside:
        warnings.warn(
            f"{outside} of {len(points)} points lie outside the domain of the training curves; "
            "what the model says there is a continuation, and surer than it should be.",
            stacklevel=5,
        )


def pair_ids(ids: pd.Index, draws: int) -> pd.MultiIndex:
    """(curve, draw) for every draw of every curve; the levels of ids that are tuples already are kept apart."""
    names = list(ids.names) if ids.nlevels > 1 else ["curve"]
    levels = [ids.get_level_values(level).repeat(draws) for level in range(ids.nlevels)]
    draw = np.tile(np.arange(draws), len(ids))
    return pd.MultiIndex.from_arrays([*levels, draw], names=[*names, "draw" if "draw" not in names else "draw_again"])


def _groups(points: Sequence[Float[ndarray, "_ inputs"]], most: int) -> Iterator[list[ndarray]]:
    """The curves in order, as many at a time as have at most so many points, or one that has more."""
    group: list[ndarray] = []
    size = 0
    for own in points:
        if group and size + len(own) > most:
            yield group
            group, size = [], 0
        group.append(own)
        size += len(own)
    if group:
        yield group


def _with_noise(
    likelihood: Likelihood, functions: Float[ndarray, "draws points outputs"], key: PRNGKeyArray
) -> Float[ndarray, "draws points outputs"]:
    """Values as they would be observed."""
    # Few lengths ever occur, so that curves with points of their own do not each ask for a program of their own.
    points = functions.shape[1]
    padded = np.pad(functions, ((0, 0), (0, bucket(points, NOISE_POINTS) - points), (0, 0)), mode="edge")
    return np.asarray(_observe(likelihood, jnp.asarray(padded, jnp.float32), key), dtype=float)[:, :points]


@eqx.filter_jit
def _observe(
    likelihood: Likelihood, functions: Float[Array, "draws points outputs"], key: PRNGKeyArray
) -> Float[Array, "draws points outputs"]:
    return likelihood.sample(functions, key)


@eqx.filter_jit
def _generate(generator: Generator, latents: Float[Array, "draws latent"]) -> Float[Array, "draws rank"]:
    return jax.vmap(generator)(latents)
