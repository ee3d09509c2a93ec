# ruff: noqa: PT028  # `test_power` is a function of ours, not a test
"""Two-sample tests of functions, which ask whether two sets of curves are draws from one distribution.

The statistic is the unbiased squared maximum mean discrepancy of a kernel between functions, the threshold comes from
permutations of the labels (Wynne and Duncan, JMLR 2022). Power, the share of rejections over repeated small draws, is
the yardstick of a generative model: a perfect one is rejected as often as data against data.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from febm.checks import listed, share, whole_number
from febm.evaluation.function_kernels import Bandwidth, FunctionKernel, check_kernel, gram_matrix
from febm.evaluation.mesh import OnMesh, on_common_mesh, sample_sizes
from febm.evaluation.permutation import label_rows, mean_discrepancies, permutation_pvalue
from febm.evaluation.samples import as_samples, curves_and_draws, draw_pair, largest_draw, twins_of
from febm.randomness import RandomState, as_key, numpy_generator

MODEL_DRAWS = 1000  # of a model that is compared with curves, at least


@dataclass(frozen=True)
class TwoSampleTest:
    """What a two-sample test found.

    Attributes
    ----------
    statistic : the unbiased squared maximum mean discrepancy; near 0, below it too, for equal distributions.
    pvalue : the share of labellings whose statistic is at least as large, the observed one included.
    bandwidth : of the kernel; a pair for "sqr", None for "cov" and for a function; 0 if all curves are the same. That
        of "fpca" and the second of "sqr" are of squares: inf or 0 where these are beyond the range of numbers, which
        touches neither statistic nor p-value.
    null : the statistics of the permuted labellings.
    kernel : its name.
    sizes : how many curves were in each sample.
    reconstructed : whether the curves, which do not share their points, were first reconstructed on a mesh.
    """

    statistic: float
    pvalue: float
    bandwidth: Bandwidth
    null: Float[np.ndarray, " permutations"]
    kernel: str
    sizes: tuple[int, int]
    reconstructed: bool = False

    def __repr__(self) -> str:
        """The result in one line."""
        return (
            f"<TwoSampleTest {self.kernel}: p = {self.pvalue:.3g}, statistic {self.statistic:.4g}, "
            f"{self.sizes[0]} against {self.sizes[1]} curves{', reconstructed' if self.reconstructed else ''}>"
        )


def two_sample_test(
    a: Any,
    b: Any,
    kernel: FunctionKernel = "id",
    permutations: int = 999,
    random_state: RandomState = None,
    *,
    mesh: Any = None,
) -> TwoSampleTest:
    """Test whether two sets of curves come from one distribution.

    Parameters
    ----------
    a, b : Curves, or 2-D arrays whose rows are curves on a common grid
        At least two curves each; they need not be as many. An array beside Curves is on their grid.
    kernel : "id", "fpca", "sqr", "cexp", "cov", "whitened", or a function
        "id" sees what moves much of the variance, "whitened" sees all principal components alike, "sqr" and "cov" look
        at second moments, "cexp" at low frequencies. The moments of "cov" are raw ones: a large level that all curves
        have hides how they differ, so subtract the mean of all curves first. A function of two arrays of curves, flat
        values at the mesh, gives their Gram matrix, as those of `sklearn.metrics.pairwise` do.
    permutations : how many; the smallest p-value is 1/(1 + permutations).
    random_state : of the permutations.
    mesh : where to look at the functions; see Notes.

    Notes
    -----
    Curves that share their points are compared there. Otherwise every curve is first reconstructed on a regular mesh
    (or on `mesh`) by Gaussian-process regression, with hyper-parameters fitted to both samples together. Bandwidths and
    principal components are estimated from both together too, so the level is exact whatever the sizes. It is the
    level of the hypothesis that curves *and their points* have one distribution: samples that were observed at points
    of different kinds (denser, or elsewhere) are reconstructed differently, and the test may see that.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> straight = rng.normal(size=(40, 1)) * np.ones(20)
    >>> tilted = rng.normal(size=(40, 1)) * np.linspace(0, 2, 20)
    >>> bool(two_sample_test(straight, tilted, random_state=0).pvalue < 0.01)
    True
    """
    owner = "two_sample_test"
    name, permutations = check_kernel(kernel, owner), whole_number(f"{owner}: permutations", permutations)
    functions = on_common_mesh(*as_samples({"a": a, "b": b}, owner), mesh=mesh, owner=owner)
    generator = numpy_generator(as_key(random_state))
    found = _discrepancies(kernel, functions, permutations, generator, owner)
    statistics = _in_own_units(found, name, owner)
    return TwoSampleTest(
        statistic=float(statistics[0]),
        pvalue=permutation_pvalue(found.statistics, owner),
        bandwidth=found.bandwidth,
        null=statistics[1:],
        kernel=name,
        sizes=sample_sizes(functions),
        reconstructed=functions.reconstructed,
    )


def test_power(
    a: Any,
    b: Any,
    n: int = 10,
    trials: int = 200,
    kernel: FunctionKernel = "id",
    random_state: RandomState = None,
    *,
    level: float = 0.05,
    permutations: int = 199,
    mesh: Any = None,
) -> float:
    """How often a test of `n` curves of each sample rejects: the share of `trials` with p ≤ `level`.

    Parameters
    ----------
    a, b : Curves, 2-D arrays of curves, or for one of them a fitted model
        Each trial draws `n` curves of both without replacement, and no curve that both samples hold, whatever its
        place in them, is in both draws. If the samples are the same curves, the power is therefore the floor that a
        perfect model would have. A model is sampled, noise included, at the points of the other's curves. An array is
        on the grid of the Curves beside it, or on the one the model was fitted to, where it has one.
    n : the size of either sample in a trial.
    trials : how many.
    kernel, mesh : as in `two_sample_test`.
    random_state : of the draws and the permutations.
    level, permutations : of the test in each trial; `level * (1 + permutations)` should be a whole number.

    Notes
    -----
    Curves go to the common mesh once; kernel, bandwidth and permutations are those of the trial.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> low, high = rng.normal(size=(2, 40, 1)) * np.ones(10) + np.array([0, 3])[:, None, None]
    >>> test_power(low, high, n=10, trials=20, permutations=19, random_state=0)
    1.0
    """
    owner = "test_power"
    check_kernel(kernel, owner)
    settings = _Trials(
        whole_number(f"{owner}: trials", trials),
        share(f"{owner}: level", level),
        whole_number(f"{owner}: permutations", permutations),
    )
    n = whole_number(f"{owner}: n", n, least=2)
    draw_key, trial_key = jax.random.split(as_key(random_state))
    a, b = curves_and_draws({"a": a, "b": b}, max(MODEL_DRAWS, n), draw_key, owner)
    twins = twins_of(a, b)
    same = len(a) == len(b) and bool((twins >= 0).all())
    available, shared = largest_draw(len(a), twins), int(np.sum(twins >= 0))
    if n > available:
        both = "" if not shared else ", the same ones" if same else f", of which {shared} are in both"
        raise ValueError(
            f"{owner}: n is {n}, but there are {len(a)} and {len(b)} curves{both}"
            + (", and the two draws have none in common" if shared else "")
            + f"; n can be {available} at most."
        )
    functions = on_common_mesh(*((a,) if same else (a, b)), mesh=mesh, owner=owner)
    if same:
        functions = functions._replace(values=(functions.values[0], functions.values[0][twins]))
    return _power(functions, twins, n, kernel, settings, numpy_generator(trial_key), owner)


test_power.__test__ = False  # type: ignore[attr-defined]  # the name is not that of a test of ours


def power_table(
    data: Any,
    model: Any,
    *,
    sizes: int | Sequence[int] = (10, 50, 150),
    kernels: FunctionKernel | Sequence[FunctionKernel] = ("id", "fpca"),
    trials: int = 200,
    reference: Any = None,
    level: float = 0.05,
    random_state: RandomState = None,
) -> pd.DataFrame:
    """The power of tests that tell a model from data, and the floor: the power of data against data.

    Parameters
    ----------
    data : Curves, or a 2-D array of curves
        Best curves that the model has not seen.
    model : a fitted model, or curves drawn from one
    sizes : curves of either sample in a trial; sizes that the data do not allow are left out, with a warning.
    kernels : one or more, as in `two_sample_test`.
    trials : for each entry.
    reference : Curves, optional
        Other curves of the same origin, for the floor. Left out, the floor compares disjoint draws of the data. As in
        `test_power`, curves that two samples share are never in both draws of a trial.
    level : of the tests.
    random_state : of the draws and the permutations.

    Returns
    -------
    DataFrame
        Columns kernel, n, power, power_se, floor, floor_se. The standard errors are those of the trials alone: the
        curves that the trials draw from are the same. A floor that cannot be had is NaN.
    """
    owner = "power_table"
    kernels = _one_or_more(kernels, f"{owner}: kernels")
    names = [check_kernel(kernel, owner) for kernel in kernels]
    settings = _Trials(whole_number(f"{owner}: trials", trials), share(f"{owner}: level", level), 199)
    sizes = [whole_number(f"{owner}: sizes", n, least=2) for n in _one_or_more(sizes, f"{owner}: sizes")]
    draw_key, trial_key = jax.random.split(as_key(random_state))
    given = {"data": data, "model": model} | ({} if reference is None else {"reference": reference})
    samples = curves_and_draws(given, max([MODEL_DRAWS, *sizes]), draw_key, owner)
    data, drawn, other = samples[0], samples[1], samples[0 if reference is None else 2]
    twins, floor_twins = twins_of(data, drawn), twins_of(data, other)
    largest, most = largest_draw(len(data), twins), largest_draw(len(data), floor_twins)
    allowed = [n for n in sizes if n <= largest]
    if len(allowed) < len(sizes):
        there = f"{owner}: there are {len(data)} curves of the data and {len(drawn)} of the model"
        if not allowed:
            raise ValueError(f"{there}, so sizes can be {largest} at most; got {listed(sizes)}.")
        left_out = listed(n for n in sizes if n not in allowed)
        warnings.warn(f"{there}; sizes {left_out} are left out.", stacklevel=2)
    functions = on_common_mesh(*samples, owner=owner)
    against, floor = _only(functions, 0, 1), _only(functions, 0, 0 if reference is None else 2)
    without = [n for n in allowed if n > most]
    if without:
        needed = "twice as many curves of the data" if reference is None else "as many curves in reference"
        way_out = "give `reference`, other curves of the same origin" if reference is None else "give more of them"
        warnings.warn(
            f"{owner}: there is no floor for sizes {listed(without)}, which need {needed}; {way_out}.", stacklevel=2
        )
    rows = []
    for kernel, name in zip(kernels, names, strict=True):
        for n in allowed:
            # All kernels see the same draws, so that they differ by what they see in them.
            generator = numpy_generator(jax.random.fold_in(trial_key, n))
            power = _power(against, twins, n, kernel, settings, generator, owner)
            least = _power(floor, floor_twins, n, kernel, settings, generator, owner) if n <= most else np.nan
            power_se, floor_se = (float(np.sqrt(rate * (1 - rate) / settings.count)) for rate in (power, least))
            rows.append((name, n, power, power_se, least, floor_se))
    return pd.DataFrame(rows, columns=["kernel", "n", "power", "power_se", "floor", "floor_se"])


@dataclass(frozen=True)
class _Trials:
    count: int
    level: float
    permutations: int


def _power(
    functions: OnMesh,
    twins: Int[np.ndarray, " second"],
    n: int,
    kernel: FunctionKernel,
    settings: _Trials,
    generator: np.random.Generator,
    owner: str,
) -> float:
    """The share of rejections among trials of `n` curves a side."""
    rejected = 0
    # Products as small as these take longer on several threads, which wait for each other, than on one.
    with threadpool_limits(1, user_api="blas"):
        for _ in range(settings.count):
            first, second = draw_pair(sample_sizes(functions)[0], twins, n, generator)
            trial = functions._replace(values=(functions.values[0][first], functions.values[1][second]))
            found = _discrepancies(kernel, trial, settings.permutations, generator, owner)
            rejected += permutation_pvalue(found.statistics, owner) <= settings.level + 1e-12
    return rejected / settings.count


class _Discrepancies(NamedTuple):
    """The statistic, then those of the permutations, in units of 2**exponent, and the bandwidth."""

    statistics: Float[np.ndarray, " permutations+1"]
    exponent: int
    bandwidth: Bandwidth


def _discrepancies(
    kernel: FunctionKernel, functions: OnMesh, permutations: int, generator: np.random.Generator, owner: str
) -> _Discrepancies:
    gram, sizes = gram_matrix(kernel, functions, owner), sample_sizes(functions)
    statistics = mean_discrepancies(gram.matrix, label_rows(sizes, permutations, generator), sizes)
    return _Discrepancies(statistics, gram.exponent, gram.bandwidth)


def _in_own_units(found: _Discrepancies, kernel: str, owner: str) -> Float[np.ndarray, " permutations+1"]:
    with np.errstate(over="ignore"):
        statistics = np.ldexp(found.statistics, found.exponent)
    largest = np.abs(statistics).max()
    if not np.isfinite(largest) or (largest < np.finfo(float).tiny and found.statistics.any()):
        raise ValueError(
            f"{owner}: the statistic of kernel {kernel}, which goes with a high power of the values, is beyond the "
            "range of numbers; divide all curves by their size."
        )
    return statistics


def _only(functions: OnMesh, *samples: int) -> OnMesh:
    return functions._replace(values=tuple(functions.values[i] for i in samples))


def _one_or_more(value: Any, name: str) -> list[Any]:
    """A list of what is one thing or several."""
    found = [value] if isinstance(value, str) or callable(value) or not isinstance(value, Iterable) else list(value)
    if not found:
        raise ValueError(f"{name} is empty; give at least one.")
    return found
