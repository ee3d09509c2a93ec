# ruff: noqa: PT028  # `test_power` is a function of ours, not a test
"""Two-sample tests of functions, which ask whether two sets of curves are draws from one distribution.

The statistic is the unbiased squared maximum mean discrepancy of a kernel between functions, the threshold comes from
permutations of the labels (Wynne and Duncan, JMLR 2022). Power, the share of rejections over repeated small draws, is
the yardstick of a generative model: a perfect one is rejected as often as data against data.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from febm.checks import listed, whole_number
from febm.curves import Curves
from febm.evaluation.function_kernels import Bandwidth, FunctionKernel, check_kernel, gram_matrix
from febm.evaluation.mesh import OnMesh, on_common_mesh
from febm.evaluation.permutation import (
    as_sample,
    label_rows,
    mean_discrepancies,
    permutation_pvalue,
)
from febm.models.base import Process
from febm.randomness import RandomState, as_key, numpy_generator

MODEL_DRAWS = 1000  # of a model that is compared with curves, at least


@dataclass(frozen=True)
class TwoSampleTest:
    """What a two-sample test found.

    Attributes
    ----------
    statistic : the unbiased squared maximum mean discrepancy; near 0, below it too, for equal distributions.
    pvalue : the share of labellings whose statistic is at least as large, the observed one included.
    bandwidth : of the kernel; a pair for "sqr", None for "cov" and for a function; 0 if all curves are the same.
    null : the statistics of the permuted labellings.
    kernel : its name.
    sizes : how many curves were in each sample.
    """

    statistic: float
    pvalue: float
    bandwidth: Bandwidth
    null: Float[np.ndarray, " permutations"]
    kernel: str
    sizes: tuple[int, int]

    def __repr__(self) -> str:
        """The result in one line."""
        return (
            f"<TwoSampleTest {self.kernel}: p = {self.pvalue:.3g}, statistic {self.statistic:.4g}, "
            f"{self.sizes[0]} against {self.sizes[1]} curves>"
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
        At least two curves each; they need not be as many.
    kernel : "id", "fpca", "sqr", "cexp", "cov", "whitened", or a function
        "id" sees what moves much of the variance, "whitened" sees all principal components alike, "sqr" and "cov" look
        at second moments, "cexp" at low frequencies. A function of two arrays of curves, flat values at the mesh, gives
        their Gram matrix, as those of `sklearn.metrics.pairwise` do.
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
    functions = on_common_mesh(as_sample(a, "a", owner), as_sample(b, "b", owner), mesh=mesh, owner=owner)
    generator = numpy_generator(as_key(random_state))
    statistics, bandwidth = _discrepancies(kernel, functions, permutations, generator, owner)
    return TwoSampleTest(
        statistic=float(statistics[0]),
        pvalue=permutation_pvalue(statistics),
        bandwidth=bandwidth,
        null=statistics[1:],
        kernel=name,
        sizes=_sizes(functions),
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
        Each trial draws `n` curves of both without replacement. If both are the same curves, the two draws have no
        curve in common: the power is then the floor that a perfect model would have. A model is sampled, noise
        included, at the points of the other's curves.
    n : the size of either sample in a trial.
    trials : how many.
    kernel, mesh : as in `two_sample_test`.
    random_state : of the draws and the permutations.
    level, permutations : of the test in each trial; `level * (1 + permutations)` should be a whole number.

    Notes
    -----
    Curves go to the common mesh once; kernel, bandwidth and permutations are those of the trial.
    """
    owner = "test_power"
    check_kernel(kernel, owner)
    settings = _Trials(
        whole_number(f"{owner}: trials", trials),
        _share(level, owner),
        whole_number(f"{owner}: permutations", permutations),
    )
    n = whole_number(f"{owner}: n", n, least=2)
    draw_key, trial_key = jax.random.split(as_key(random_state))
    a, b = _as_samples(a, b, max(MODEL_DRAWS, n), draw_key, owner)
    same = _same_curves(a, b)
    available = len(a) // 2 if same else min(len(a), len(b))
    if n > available:
        raise ValueError(
            f"{owner}: n is {n}, but there are {len(a)} and {len(b)} curves"
            + (", the same ones, and the two draws have none in common" if same else "")
            + f"; n can be {available} at most."
        )
    functions = on_common_mesh(*((a,) if same else (a, b)), mesh=mesh, owner=owner)
    return _power(functions, n, kernel, settings, numpy_generator(trial_key), owner)


test_power.__test__ = False  # type: ignore[attr-defined]  # the name is not that of a test of ours


def power_table(
    data: Any,
    model: Any,
    *,
    sizes: Sequence[int] = (10, 50, 150),
    kernels: Sequence[FunctionKernel] = ("id", "fpca"),
    trials: int = 200,
    reference: Any = None,
    level: float = 0.05,
    random_state: RandomState = None,
) -> pd.DataFrame:
    """The power of tests that tell a model from data, and the floor: the power of data against data.

    Parameters
    ----------
    data : Curves
        Best curves that the model has not seen.
    model : a fitted model, or curves drawn from one
    sizes : curves of either sample in a trial; sizes that the data do not allow are left out, with a warning.
    kernels : as in `two_sample_test`.
    trials : for each entry.
    reference : Curves, optional
        Other curves of the same origin, for the floor. Left out, the floor compares disjoint draws of the data.
    level : of the tests.
    random_state : of the draws and the permutations.

    Returns
    -------
    DataFrame
        Columns kernel, n, power, power_se, floor, floor_se. The standard errors are those of the trials alone: the
        curves that the trials draw from are the same. A floor that cannot be had is NaN.
    """
    owner = "power_table"
    names = [check_kernel(kernel, owner) for kernel in kernels]
    settings = _Trials(whole_number(f"{owner}: trials", trials), _share(level, owner), 199)
    sizes = [whole_number(f"{owner}: sizes", n, least=2) for n in sizes]
    draw_key, trial_key = jax.random.split(as_key(random_state))
    data, drawn = _as_samples(data, model, max([MODEL_DRAWS, *sizes]), draw_key, owner)
    samples = [data, drawn] if reference is None else [data, drawn, as_sample(reference, "reference", owner)]
    functions = on_common_mesh(*samples, owner=owner)
    allowed = [n for n in sizes if n <= min(len(data), len(drawn))]
    if len(allowed) < len(sizes):
        left_out = listed(n for n in sizes if n not in allowed)
        warnings.warn(
            f"{owner}: there are {len(data)} curves of the data and {len(drawn)} of the model; sizes {left_out} are "
            "left out.",
            stacklevel=2,
        )
    floor = _only(functions, 0) if reference is None else _only(functions, 0, 2)
    most = len(data) // 2 if reference is None else len(samples[2])
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
            power = _power(_only(functions, 0, 1), n, kernel, settings, generator, owner)
            least = _power(floor, n, kernel, settings, generator, owner) if n <= most else np.nan
            errors = (float(np.sqrt(share * (1 - share) / trials)) for share in (power, least))
            power_se, floor_se = errors
            rows.append((name, n, power, power_se, least, floor_se))
    return pd.DataFrame(rows, columns=["kernel", "n", "power", "power_se", "floor", "floor_se"])


@dataclass(frozen=True)
class _Trials:
    count: int
    level: float
    permutations: int


def _power(
    functions: OnMesh,
    n: int,
    kernel: FunctionKernel,
    settings: _Trials,
    generator: np.random.Generator,
    owner: str,
) -> float:
    """The share of rejections among trials of `n` curves a side; of one sample, disjoint draws are compared."""
    rejected = 0
    # Products as small as these take longer on several threads, which wait for each other, than on one.
    with threadpool_limits(1, user_api="blas"):
        for _ in range(settings.count):
            trial = functions._replace(values=_draw_pair(functions.values, n, generator))
            statistics, _ = _discrepancies(kernel, trial, settings.permutations, generator, owner)
            rejected += permutation_pvalue(statistics) <= settings.level + 1e-12
    return rejected / settings.count


def _draw_pair(
    samples: tuple[np.ndarray, ...], n: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    if len(samples) == 1:
        picked = generator.choice(len(samples[0]), 2 * n, replace=False)
        return samples[0][picked[:n]], samples[0][picked[n:]]
    first, second = (sample[generator.choice(len(sample), n, replace=False)] for sample in samples)
    return first, second


def _discrepancies(
    kernel: FunctionKernel, functions: OnMesh, permutations: int, generator: np.random.Generator, owner: str
) -> tuple[Float[np.ndarray, " permutations+1"], Bandwidth]:
    """The statistic, then those of the permutations, and the bandwidth."""
    gram, sizes = gram_matrix(kernel, functions, owner), _sizes(functions)
    return mean_discrepancies(gram.matrix, label_rows(sizes, permutations, generator), sizes), gram.bandwidth


def _sizes(functions: OnMesh) -> tuple[int, int]:
    first, second = functions.values
    return len(first), len(second)


def _only(functions: OnMesh, *samples: int) -> OnMesh:
    return functions._replace(values=tuple(functions.values[i] for i in samples))


def _as_samples(a: Any, b: Any, draws: int, key: Any, owner: str) -> tuple[Curves, Curves]:
    """Both as curves: a model is sampled at the points of the other's curves."""
    if isinstance(a, Process) and isinstance(b, Process):
        raise TypeError(f"{owner}: both samples are models; draw curves of one of them, with model.sample(n, at).")
    if isinstance(a, Process):
        b = as_sample(b, "the second sample", owner)
        return _draws(a, b, draws, key), b
    a = as_sample(a, "the first sample", owner)
    return a, _draws(b, a, draws, key) if isinstance(b, Process) else as_sample(b, "the second sample", owner)


def _draws(model: Process, like: Curves, draws: int, key: Any) -> Curves:
    """Noisy samples of the model at the points, and with the missing values, of randomly chosen curves."""
    choice_key, sample_key = jax.random.split(key)
    alike = np.all(like.lengths == like.lengths[0])
    if (
        alike
        and np.all(like.x.reshape(len(like), -1) == like.x[: like.lengths[0]].ravel())
        and not np.isnan(like.y).any()
    ):
        return model.sample(draws, like[0].x, noise=True, random_state=sample_key)
    at = like[numpy_generator(choice_key).integers(len(like), size=draws)]
    drawn = model.sample(draws, at, noise=True, random_state=sample_key)
    return drawn.replace(y=np.where(np.isnan(at.y), np.nan, drawn.y)) if drawn.y.shape == at.y.shape else drawn


def _same_curves(a: Curves, b: Curves) -> bool:
    return a is b or (
        np.array_equal(a.offsets, b.offsets) and np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y, equal_nan=True)
    )


def _share(level: Any, owner: str) -> float:
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise ValueError(f"{owner}: level is {level!r}; give a share between 0 and 1, such as 0.05.")
    return float(level)
