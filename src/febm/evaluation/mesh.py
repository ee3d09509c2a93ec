"""Samples of curves as functions on one mesh, where ⟨f, g⟩ = Σ_t w_t f(t)·g(t) stands for the integral.

Points that the curves share are used as they were observed. Curves with points of their own are reconstructed on
a regular mesh by Gaussian-process regression, f̂(t) = m + k(t, x)[k(x, x) + σ²I]⁻¹(y − m), with a Matérn 3/2 kernel,
noise and mean that are fitted to all samples together. Nothing here depends on which sample a curve belongs to, but for
the ends of the mesh where the samples' domains differ: a test that permutes curves between samples keeps its level.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, ArrayLike, Float

from febm.checks import as_points, count, listed
from febm.curves import Curves
from febm.kernel_fit import KernelFit, fit_kernel
from febm.kernels import Constant, Kernel, Matern32
from febm.marginal_likelihood import Design, as_design, in_float64
from febm.precision import float64
from febm.ragged import sorted_union
from febm.randomness import as_key

LINE_POINTS = 100  # of a regular mesh for one coordinate
BOX_POINTS = 400  # of a regular mesh for several coordinates, about
SAME_POINT = 1e-6  # of the width of the domain: points nearer than this are the same but for rounding, float32 included
SAME_END = 0.1  # of the width: domains whose ends are nearer than this differ by the chance of where points fell
BLOCK_ENTRIES = 2**22  # of the covariance matrices that are held at once
NEGLIGIBLE = 1e-12  # of the largest eigenvalue: rounding


class OnMesh(NamedTuple):
    """Samples of curves on common points.

    Attributes
    ----------
    points : where the functions are known.
    weights : quadrature weights of sum 1: the trapezoidal rule for one coordinate, equal ones for several.
    values : one array for each sample, in the order given.
    reconstructed : whether the values are regressions rather than the values observed.
    """

    points: Float[np.ndarray, "mesh d_x"]
    weights: Float[np.ndarray, " mesh"]
    values: tuple[Float[np.ndarray, "curves mesh d_y"], ...]
    reconstructed: bool


def on_common_mesh(*samples: Curves, mesh: Any = None, owner: str) -> OnMesh:
    """The samples as functions on one mesh.

    Parameters
    ----------
    *samples : Curves
        They need as many coordinates and outputs each, and domains that overlap.
    mesh : (points, d_x), optional
        Where to look at the functions. Left out, it is the points that every curve has, where these are at least half
        of the points of the median curve; otherwise 100 regular points of the domain that the samples share, about 400
        for several coordinates. A point that lacks some of its outputs counts as not there. Points nearer than a
        millionth of the domain's width are one.
    owner : the function that asks, for error messages.

    Notes
    -----
    Values at points that every curve has are used as observed; a point given twice has the mean of its values.
    """
    _refuse_unlike(samples, owner)
    pooled = Curves.concatenate(samples)
    sizes = [len(sample) for sample in samples]
    shared = _shared_points(pooled)
    if mesh is not None:
        points = sorted_union(as_points(mesh, pooled.d_x, name=f"{owner}: mesh"))[1]
        _refuse_far(points, samples, owner)
        values = _observed_at(points, pooled, shared)
    elif 2 * len(shared.points) >= np.median(pooled.lengths):
        points, values = shared.points, shared.values
    else:
        points, values = _regular_mesh(*_shared_domain(samples, owner).nearly), None
    reconstructed = values is None
    if values is None:
        _refuse_blank(samples, owner)
        values = _reconstruct(pooled, points, owner)
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return OnMesh(points, _quadrature(points), tuple(parts), reconstructed)


def unit_size(*arrays: Float[np.ndarray, "..."]) -> tuple[tuple[Float[np.ndarray, "..."], ...], int]:
    """The arrays divided by 2**exponent, and the exponent: the largest of all values is then between 1/2 and 1.

    A power of two rounds nothing, and products of such values neither overflow nor, for the largest, vanish. `np.ldexp`
    multiplies by it again.
    """
    largest = max(float(np.fmax.reduce(np.abs(array), axis=None, initial=0.0)) for array in arrays)
    exponent = int(np.frexp(largest)[1])
    return tuple(np.ldexp(array, -exponent) for array in arrays), exponent


def functions_of_unit_size(functions: OnMesh) -> tuple[OnMesh, int]:
    """The functions divided by 2**exponent, as `unit_size` does, and the exponent."""
    values, exponent = unit_size(*functions.values)
    return functions._replace(values=values), exponent


def sample_sizes(functions: OnMesh) -> tuple[int, int]:
    """How many curves each of two samples has."""
    first, second = functions.values
    return len(first), len(second)


def embedded(functions: OnMesh) -> tuple[Float[np.ndarray, "curves coordinates"], ...]:
    """Each sample's values times the roots of the weights, flat: Euclidean distances are then L² distances."""
    root = np.sqrt(functions.weights)[:, None]
    return tuple((values * root).reshape(len(values), -1) for values in functions.values)


def principal_scores(
    functions: OnMesh, *, share: float = 0.99, whiten: bool = True, largest_rank: int | None = None
) -> tuple[Float[np.ndarray, "curves rank"], ...]:
    """Each sample's scores on the principal components of all samples together.

    Parameters
    ----------
    functions : the samples on their mesh.
    share : the share of the pooled variance that the components hold.
    whiten : whether every coordinate is divided by its pooled standard deviation, so that its variance is 1.
    largest_rank : the most components.

    Notes
    -----
    Curves that do not differ have one coordinate, of zeros.
    """
    functions, exponent = functions_of_unit_size(functions)
    coordinates = embedded(functions)
    pooled = np.concatenate(coordinates)
    scores, variances = principal_components(pooled)
    rank = leading(variances, share)
    rank = rank if largest_rank is None else min(rank, max(1, largest_rank))
    scores, variances = scores[:, :rank], variances[:rank]
    scores = scores / np.sqrt(np.where(variances > 0, variances, 1.0)) if whiten else np.ldexp(scores, exponent)
    return tuple(np.split(scores, np.cumsum([len(part) for part in coordinates])[:-1]))


def principal_components(
    pooled: Float[np.ndarray, "curves coordinates"],
) -> tuple[Float[np.ndarray, "curves rank"], Float[np.ndarray, " rank"]]:
    """Centred scores on all components of the rows, and their variances (the mean of the squares), falling."""
    centred = pooled - pooled.mean(axis=0)
    scale = np.abs(pooled).max()
    n, p = centred.shape
    values, vectors = scipy.linalg.eigh(centred.T @ centred if p <= n else centred @ centred.T)
    values, vectors = values[::-1] / n, vectors[:, ::-1]
    # Rounding of the mean alone makes equal curves differ by about 1e-16 of their size.
    kept = values > max(NEGLIGIBLE * values[0], p * np.square(1e-14 * scale))
    if not kept.any():
        return np.zeros((n, 1)), np.zeros(1)
    values, vectors = values[kept], vectors[:, kept]
    scores = centred @ vectors if p <= n else vectors * np.sqrt(n * values)
    # An eigenvector has no sign of its own: the largest score is made positive.
    signs = np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])])
    return scores * signs, values


def leading(variances: Float[np.ndarray, " rank"], share: float) -> int:
    """How many of the falling variances hold `share` of their sum; at least one."""
    held = np.cumsum(variances)
    return int(np.searchsorted(held, share * held[-1] * (1 - 1e-12)) + 1) if held[-1] > 0 else 1


class _Shared(NamedTuple):
    """The points that every curve has, and the values there."""

    points: np.ndarray
    values: np.ndarray


def _shared_points(pooled: Curves) -> _Shared:
    complete = ~np.isnan(pooled.y).any(axis=1)
    curve = np.repeat(np.arange(len(pooled)), pooled.lengths)[complete]
    x, y = pooled.x[complete], pooled.y[complete]
    if len(x) == 0:
        return _Shared(np.empty((0, pooled.d_x)), np.empty((len(pooled), 0, pooled.d_y)))
    codes, distinct = sorted_union(_joined(x, pooled))
    size = len(distinct)
    cells = curve * size + codes
    times = np.bincount(cells, minlength=len(pooled) * size).reshape(len(pooled), size)
    everywhere = (times > 0).all(axis=0)
    shares = y / times.ravel()[cells, None]
    values = np.stack(
        [
            np.bincount(cells, weights=column, minlength=times.size).reshape(times.shape)[:, everywhere]
            for column in shares.T
        ],
        axis=2,
    )
    first = np.empty(size, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return _Shared(x[first[everywhere]], values)


def _joined(x: np.ndarray, pooled: Curves) -> np.ndarray:
    """Points as whole numbers along each coordinate, in the same order, equal where they differ by rounding alone."""
    lower, upper = pooled.domain
    steps = np.where(upper > lower, upper - lower, 1.0) * SAME_POINT
    return np.column_stack([_joined_along(coordinate, step) for coordinate, step in zip(x.T, steps, strict=True)])


def _joined_along(coordinate: np.ndarray, step: float) -> np.ndarray:
    codes, distinct = sorted_union(coordinate[:, None])
    x = distinct[:, 0]
    new = np.append(True, np.diff(x) > step)
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    span = x[np.append(starts[1:], len(x)) - 1] - x[starts]
    # A run of neighbours that is longer than a step is not one point but many, which rounding tells apart.
    within = np.where(span[run] > step, np.round((x - x[starts][run]) / step), 0.0)
    return np.cumsum(new | np.append(True, np.diff(within) > 0))[codes]


def _observed_at(points: np.ndarray, pooled: Curves, shared: _Shared) -> np.ndarray | None:
    """The values at `points` if every curve has them all."""
    codes, _ = sorted_union(_joined(np.concatenate([shared.points, points]), pooled))
    place = {code: row for row, code in enumerate(codes[: len(shared.points)].tolist())}
    rows = np.array([place.get(code, -1) for code in codes[len(shared.points) :].tolist()])
    return None if (rows < 0).any() else shared.values[:, rows]


class _Domain(NamedTuple):
    """The box that all samples reach, and how far beyond it they are still taken to reach."""

    lower: np.ndarray
    upper: np.ndarray
    slack: np.ndarray
    nearly: tuple[np.ndarray, np.ndarray]  # the box with ends that differ little set to the outermost


def _shared_domain(samples: tuple[Curves, ...], owner: str) -> _Domain:
    lowers, uppers = (np.stack(ends) for ends in zip(*(sample.domain for sample in samples), strict=True))
    lower, upper = lowers.max(axis=0), uppers.min(axis=0)
    first, last = lowers.min(axis=0), uppers.max(axis=0)
    apart = lower > upper
    if len(lower) == 1:  # on a line, one point is no domain, unless a sample has no other
        apart |= (upper - lower <= SAME_POINT * (last - first)) & (uppers > lowers).all(axis=0)
    if apart.any():
        axis = int(np.flatnonzero(apart)[0])
        spans = " and ".join(
            f"[{low:.6g}, {high:.6g}]" for low, high in zip(lowers.T[axis], uppers.T[axis], strict=True)
        )
        coordinate = "x" if len(lower) == 1 else f"coordinate {axis} of x"
        raise ValueError(
            f"{owner}: the samples have no domain in common: {coordinate} is in {spans}. Functions are compared "
            "where all samples were observed; give curves on overlapping domains."
        )
    slack = SAME_END * (last - first)
    nearly = np.where(lower - first <= slack, first, lower), np.where(last - upper <= slack, last, upper)
    return _Domain(lower, upper, slack, nearly)


def _regular_mesh(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    widths = upper > lower
    free = int(widths.sum())
    size = LINE_POINTS if free <= 1 else max(2, round(BOX_POINTS ** (1 / free)))
    axes = [np.linspace(low, high, size if wide else 1) for low, high, wide in zip(lower, upper, widths, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(lower))


def _quadrature(points: np.ndarray) -> np.ndarray:
    m, d_x = points.shape
    if d_x > 1 or m == 1:
        return np.full(m, 1.0 / m)
    gaps = np.diff(points[:, 0])
    weights = 0.5 * (np.append(gaps, 0.0) + np.append(0.0, gaps))
    return weights / weights.sum()


def _reconstruct(pooled: Curves, points: np.ndarray, owner: str) -> Float[np.ndarray, "curves mesh d_y"]:
    largest = float(np.nanmax(np.abs(pooled.y)))
    (y,), exponent = unit_size(pooled.y)
    pooled = pooled.replace(y=y)
    fit = _fit(pooled)
    kernel, noise = in_float64(fit.kernel), np.asarray(fit.noise_variance)
    design = as_design(pooled.replace(y=pooled.y - fit.mean))
    with float64():
        found = [np.asarray(_regress(kernel, noise, part, points)) for part in _parts(design, len(points))]
    # Rows are replicates of a design, in the order of curves and, within them, of outputs.
    rows = np.moveaxis(np.concatenate(found)[: len(design.mask)], 1, 2)
    centred = np.moveaxis(rows.reshape(len(pooled), pooled.d_y, len(points)), 1, 2)
    with np.errstate(over="ignore"):
        values = np.ldexp(centred + fit.mean, exponent)
    if not np.isfinite(values).all():
        raise ValueError(
            f"{owner}: the curves have values up to {largest:.3g}, and their reconstruction is beyond the range of "
            "numbers; divide the curves of all samples by the same large number."
        )
    return values


def _parts(design: Design, mesh: int) -> Iterator[Design]:
    """The designs in parts of one size, so that they share a compiled program; the last is filled up by empty ones."""
    designs, longest = design.mask.shape
    most = max(1, BLOCK_ENTRIES // (longest + mesh) ** 2)
    size = -(-designs // -(-designs // most))
    for start in range(0, designs, size):
        x, mask, y, output = (part[start : start + size] for part in design)
        more = ((0, size - len(mask)), (0, 0))
        yield Design(
            np.pad(x, (*more, (0, 0)), mode="edge"),
            np.pad(mask, more),
            np.pad(y, (*more, (0, 0))),
            np.pad(output, (*more, (0, 0))),
        )


def _fit(pooled: Curves) -> KernelFit:
    """Kernel, noise and mean of all curves; the order in which the curves come plays no part."""
    # The fit looks at some of the curves when they are many, the same ones whatever their order.
    starts = pooled.offsets[:-1]
    means = np.add.reduceat(np.nan_to_num(pooled.y[:, 0]), starts)
    order = np.lexsort((pooled.lengths, means, pooled.x[starts, 0]))
    pooled = pooled[order]
    lower, upper = pooled.domain
    variance = float(np.nanmean(np.square(pooled.y - np.nanmean(pooled.y, axis=0)))) or 1.0
    kernel = Constant(variance) * Matern32(0.2 * np.where(upper > lower, upper - lower, 1.0))
    return fit_kernel(kernel, pooled, key=as_key(0))


@eqx.filter_jit
def _regress(kernel: Kernel, noise: ArrayLike, data: Design, points: ArrayLike) -> Array:
    """The posterior means `(designs, mesh, replicates)` of centred values."""

    def one(x: Array, mask: Array, y: Array) -> Array:
        # A masked point is independent of all others, and observed at 0: it adds nothing.
        covariance = jnp.where(mask[:, None] & mask[None, :], kernel(x, x), 0.0)
        factor = jnp.linalg.cholesky(covariance + jnp.diag(jnp.where(mask, noise, 1.0)))
        weights = jax.scipy.linalg.cho_solve((factor, True), jnp.where(mask[:, None], y, 0.0))
        return kernel(jnp.asarray(points), x) @ weights

    return jax.vmap(one)(jnp.asarray(data.x), jnp.asarray(data.mask), jnp.asarray(data.y))


def _refuse_unlike(samples: tuple[Curves, ...], owner: str) -> None:
    for noun, widths in (
        ("coordinate", [sample.d_x for sample in samples]),
        ("output", [sample.d_y for sample in samples]),
    ):
        if len(set(widths)) > 1:
            raise ValueError(
                f"{owner}: the samples have {' and '.join(map(str, widths))} {noun}s; functions that are compared "
                "need as many each."
            )


def _refuse_far(points: np.ndarray, samples: tuple[Curves, ...], owner: str) -> None:
    lower, upper, slack, _ = _shared_domain(samples, owner)
    far = np.flatnonzero(((points < lower - slack) | (points > upper + slack)).any(axis=1))
    if len(far):
        box = " × ".join(f"[{low:.6g}, {high:.6g}]" for low, high in zip(lower, upper, strict=True))
        raise ValueError(
            f"{owner}: mesh has {count(len(far), 'point')} far outside the domain {box} that all samples share "
            f"({listed(points[far].tolist())}); functions are compared where all samples were observed."
        )


def _refuse_blank(samples: tuple[Curves, ...], owner: str) -> None:
    for number, sample in enumerate(samples):
        seen = np.logical_or.reduceat(~np.isnan(sample.y), sample.offsets[:-1], axis=0)
        blank = np.flatnonzero(~seen.all(axis=1))
        if len(blank):
            output = int(np.flatnonzero(~seen[blank[0]])[0])
            raise ValueError(
                f"{owner}: curve {sample.ids[blank[0]]!r} of sample {number} has no value of output {output}, so it "
                "cannot be reconstructed; leave it out."
            )
