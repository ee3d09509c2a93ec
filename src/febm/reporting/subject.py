"""What a report is about: a model or a set of samples, the curves it is judged by, and how much work may be done."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from febm.checks import whole_number
from febm.curves import Curves
from febm.door import as_curves, holds_points
from febm.models.base import Process
from febm.ragged import sorted_union
from febm.randomness import numpy_generator

# The paper's three ways to hide points, with the shares that stay visible.
SPLITS = (
    *(("downsample", p) for p in (1 / 4, 1 / 3, 1 / 2)),
    *(("middle", p) for p in (1 / 4, 1 / 2, 3 / 4)),
    *(("random", p) for p in (1 / 4, 1 / 2, 3 / 4)),
)
KERNELS = ("id", "fpca", "whitened", "sqr", "cexp", "cov")
# What an effort is made of, as words for how much of it there is, and for none of it.
AMOUNTS = (
    ("tested", "curves on either side of a test", ""),
    ("kernels", "kernels of tests", "no kernels of tests"),
    ("permutations", "shuffles behind a p-value", ""),
    ("power_sizes", "sizes in the table of power", "no table of power"),
    ("trials", "trials behind a power", ""),
    ("predicted", "curves that are predicted", ""),
    ("splits", "ways to hide points", ""),
    ("draws", "draws of a prediction", ""),
    ("embedded", "curves on either side of a map", "no maps of curves and samples"),
    ("chains", "", "samplers not examined"),
)


@dataclasses.dataclass(frozen=True)
class ReportEffort:
    """How much work a report does; the defaults take most of a minute for a few hundred curves on two cores.

    Parameters
    ----------
    tested
        Most curves on either side of a test.
    kernels
        Kernels of the two-sample tests.
    permutations
        Shuffles behind each p-value; corrected for eight tests, fewer than 160 could never reject at 5 %.
    power_sizes, power_kernels, trials
        Sizes, kernels and repetitions of the table of power; no sizes, no table.
    predicted
        Most curves that are predicted in each split.
    draws
        Posterior draws of each of them; a 90 % interval needs 19.
    splits
        Pairs of a kind ("downsample", "middle", "random") and the share of points that is seen.
    embedded
        Most curves on either side of the two maps; 0 for none.
    shown
        Curves in a picture.
    chains
        Whether the samplers are examined.
    """

    tested: int = 500
    kernels: tuple[str, ...] = KERNELS
    permutations: int = 499
    power_sizes: tuple[int, ...] = (10, 50, 150)
    power_kernels: tuple[str, ...] = ("id", "fpca")
    trials: int = 200
    predicted: int = 200
    draws: int = 256
    splits: tuple[tuple[str, float], ...] = SPLITS
    embedded: int = 300
    shown: int = 40
    chains: bool = True

    def __post_init__(self) -> None:
        least = {"tested": 2, "permutations": 1, "trials": 1, "predicted": 1, "draws": 19, "embedded": 0, "shown": 1}
        for name, bound in least.items():
            whole_number(f"ReportEffort: {name}", getattr(self, name), least=bound)

    @classmethod
    def quick(cls) -> ReportEffort:
        """A first look, in less than half the time: what is left out is what takes long, and `less` names it."""
        return cls(
            tested=200,
            power_sizes=(),
            predicted=60,
            splits=(("random", 1 / 2), ("middle", 1 / 2)),
            embedded=0,
            chains=False,
        )

    def less(self) -> str:
        """A sentence that says what is less than by default; empty where nothing is."""
        usual, said = ReportEffort(), []
        for name, noun, none in AMOUNTS:
            mine, theirs = (
                value if isinstance(value, int) else len(value) for value in (getattr(self, name), getattr(usual, name))
            )
            if mine < theirs:
                said.append(f"{mine:,} instead of {theirs:,} {noun}" if mine else none)
        return f"A quick look, with less work than usual: {', '.join(said)}." if said else ""


class Functions(NamedTuple):
    """What is compared, on one mesh."""

    samples: Curves
    curves: Curves
    reference: Curves | None
    reconstructed: bool


class Subject:
    """A model or samples, and the curves to judge by, drawn and cut to size once for all sections."""

    sides = ("samples", "curves")

    def __init__(
        self,
        *,
        model: Process | None,
        given: Curves | None,
        data: Curves,
        reference: Curves | None,
        context: Curves | None,
        effort: ReportEffort,
        key: PRNGKeyArray,
    ) -> None:
        self.model = model
        self.data = data
        self.reference = reference
        self.effort = effort
        self._given = given
        self._context = context
        self._key = key

    def key(self, purpose: str) -> PRNGKeyArray:
        """Randomness of its own for each purpose, so that one section does not change another."""
        return jax.random.fold_in(self._key, zlib.crc32(purpose.encode()))

    @functools.cached_property
    def tested(self) -> Curves:
        """The curves that samples are compared with, in the units of samples."""
        return self._comparable(self._some(self.data, self.effort.tested, "tested"))

    @functools.cached_property
    def compared_reference(self) -> Curves | None:
        """Other curves of the same kind, against which the curves themselves are tested."""
        if self.reference is None:
            return None
        return self._comparable(self._some(self.reference, self.effort.tested, "reference"))

    @functools.cached_property
    def samples(self) -> Curves:
        """Samples with observation noise at the points of the curves: like is compared with like."""
        if self._given is not None:
            return self._some(self._given, self.effort.tested, "samples")
        assert self.model is not None
        at = self.tested
        grid = common_points(at)
        key = self.key("samples")
        if grid is not None:
            drawn = self.model.sample(len(at), at=grid, noise=True, random_state=key)
        else:
            drawn = self.model.sample(len(at), at=at, noise=True, random_state=key)
        if len(drawn.y) == len(at.y) and np.isnan(at.y).any():
            drawn = drawn.replace(y=np.where(np.isnan(at.y), np.nan, drawn.y))
        if not np.isfinite(drawn.y[~np.isnan(at.y)] if drawn.y.shape == at.y.shape else drawn.y).all():
            raise ValueError("the model's samples hold values that are not finite.")
        return drawn

    @functools.cached_property
    def functions(self) -> Functions:
        """Samples, curves and reference on one mesh, made once: curves with points of their own need a regression."""
        from febm.evaluation.mesh import on_common_mesh

        parts = [self.samples, self.tested]
        parts += [] if self.compared_reference is None else [self.compared_reference]
        found = on_common_mesh(*parts, owner="report")
        samples, curves, *rest = (Curves.from_grid(found.points, values) for values in found.values)
        return Functions(samples, curves, rest[0] if rest else None, found.reconstructed)

    @functools.cached_property
    def predicted(self) -> Curves:
        """The curves that are predicted from parts of themselves."""
        return self._some(self.data, self.effort.predicted, "predicted")

    @functools.cached_property
    def context(self) -> Curves:
        """Partly observed curves for the posterior chains."""
        if self._context is not None:
            return self._context
        generator = numpy_generator(self.key("context"))
        some = self.predicted[: min(16, len(self.predicted))]
        seen = generator.uniform(size=len(some.x)) < 0.5
        seen[some.offsets[:-1]] = True
        return some.select(seen)

    def _some(self, curves: Curves, most: int, purpose: str) -> Curves:
        if len(curves) <= most:
            return curves
        return curves[np.sort(numpy_generator(self.key(f"choose {purpose}")).permutation(len(curves))[:most])]

    def _comparable(self, curves: Curves) -> Curves:
        """Curves in the units of samples, which a model of each curve's shape gives without level and size."""
        scaling = getattr(self.model, "scaling_", None)
        if getattr(scaling, "outputs", None) != "curve":
            return curves
        assert scaling is not None
        return curves.replace(y=scaling.apply(curves).y)


def common_points(curves: Curves) -> Float[np.ndarray, "points d_x"] | None:
    """The points of every curve where all have the same in the same order and nothing is missing, else None."""
    first = curves.x[: curves.lengths[0]]
    if not (curves.lengths == len(first)).all() or np.isnan(curves.y).any():
        return None
    same = np.array_equal(curves.x, np.tile(first, (len(curves), 1)))
    return first if same else None


def mean_curve_error(target: Curves, curves: Curves) -> Float[np.ndarray, " targets"]:
    """The mean squared distance of each target from the mean of `curves` at its places: the variance to be explained.

    Places are the points themselves where curves share them, otherwise twenty bins of one coordinate, or everything.
    """
    places = _places(np.concatenate([curves.x, target.x]))
    place, target_place = places[: len(curves.x)], places[len(curves.x) :]
    size = int(places.max()) + 1
    squares = np.full(target.y.shape, np.nan)
    for output in range(curves.d_y):
        there = ~np.isnan(curves.y[:, output])
        total = np.bincount(place[there], curves.y[there, output], minlength=size)
        number = np.bincount(place[there], minlength=size)
        mean = np.divide(total, number, out=np.full(size, np.nanmean(curves.y[:, output])), where=number > 0)
        squares[:, output] = (target.y[:, output] - mean[target_place]) ** 2
    known = ~np.isnan(squares)
    starts = target.offsets[:-1]
    sums = np.add.reduceat(np.where(known, squares, 0.0).sum(axis=1), starts)
    return sums / np.maximum(np.add.reduceat(known.sum(axis=1), starts), 1)


def _places(x: Float[np.ndarray, "points d_x"]) -> np.ndarray:
    """In which place each point lies, counted from 0."""
    places, points = sorted_union(x)
    if 5 * len(points) <= len(x):  # at least five values at a point, on average
        return places
    if x.shape[1] == 1:
        return np.searchsorted(np.quantile(x[:, 0], np.linspace(0, 1, 21)[1:-1]), x[:, 0])
    return np.zeros(len(x), dtype=int)


def as_subject(
    model: Any, data: Any, *, context: Any, effort: ReportEffort, key: PRNGKeyArray, owner: str = "report"
) -> Subject:
    """Check what was given, and say with a sentence what is wrong with it."""
    from febm.datasets.base import Dataset

    reference = None
    if isinstance(data, Dataset):
        data, reference = data.evaluation, data.train
    curves = as_curves(data, f"{owner}: data")
    if isinstance(model, type):
        raise TypeError(
            f"{owner}: model is the class {model.__name__}; give a fitted model, {model.__name__}().fit(curves)."
        )
    process = model if isinstance(model, Process) else None
    given = None if process is not None else as_curves(model, f"{owner}: model, which is no Process,")
    if process is not None:
        process._require_fitted(owner)
        curves = _on_grid_of(process, data, curves)
    if given is not None and (given.d_x, given.d_y) != (curves.d_x, curves.d_y):
        raise ValueError(
            f"{owner}: the samples have d_x={given.d_x}, d_y={given.d_y}, the data d_x={curves.d_x}, d_y={curves.d_y}; "
            "both sets of curves need the same."
        )
    if len(curves) < 2 or (given is not None and len(given) < 2):
        raise ValueError(
            f"{owner}: there is one curve on a side; a distribution needs at least two curves to be judged."
        )
    part = None if context is None else as_curves(context, f"{owner}: context")
    return Subject(model=process, given=given, data=curves, reference=reference, context=part, effort=effort, key=key)


def _on_grid_of(model: Process, data: Any, curves: Curves) -> Curves:
    """A plain array is on the grid that the model was fitted on, if that has as many points."""
    grid = getattr(model, "grid_", None)
    if holds_points(data) or grid is None or np.ndim(data) != 2 or np.shape(data)[1] != len(grid):
        return curves
    return curves.replace(x=np.asarray(grid)[curves.x[:, 0].astype(int)])
