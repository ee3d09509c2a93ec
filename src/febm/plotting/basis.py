"""Pictures of a basis: the functions that a model is made of, and how much each of them carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from febm.basis import Basis
from febm.checks import as_points, count, whole_number
from febm.curves import Curves
from febm.errors import NotFittedError
from febm.images import grid_shape
from febm.likelihoods import Gaussian
from febm.networks import LinearGenerator
from febm.plotting.images import plot_images
from febm.plotting.style import (
    MODEL,
    OBSERVED,
    TRUTH,
    axes_or_current,
    legend_above_data,
    require_output,
    series,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FUNCTIONS = 6  # that are told apart as lines
LINE_POINTS = 201  # where a function of one input is evaluated
IMAGE_SIDE = 32  # and one of two inputs, in each direction


def plot_basis(
    model: Any, *, at: Any = None, functions: int = MOST_FUNCTIONS, output: int = 0, axes: Axes | None = None
) -> Axes:
    """Draw the mean function, and the mean with one standard deviation of each leading basis function added.

    The legend says what share of the variance of the basis each function carries. Functions of two inputs are images,
    the mean first.

    Parameters
    ----------
    model
        A fitted model with a basis, drawn in the units of the data; or a fitted `Basis`, in its own.
    at
        Points `(m,)` or `(m, d_x)`, of two inputs on a grid; None: the domain of the model, or [0, 1] for a `Basis`.
    functions
        How many basis functions are drawn, at most 6 as lines.
    output
        Which output is drawn, counted from 0; functions that are zero on it are left out.
    axes
        Where to draw; None: the current axes of pyplot.
    """
    basis = _basis_of(model, "plot_basis")
    functions = whole_number("plot_basis: functions", functions)
    points = _points(model, at)
    if points.shape[1] == 1 and functions > MOST_FUNCTIONS:
        raise ValueError(
            f"plot_basis: {functions} functions cannot be told apart in one picture; draw at most {MOST_FUNCTIONS}."
        )
    values, order = _functions(model, basis, points, functions, output)
    shares = basis.spectrum / basis.spectrum.sum()
    axes = axes_or_current(axes)
    if points.shape[1] == 2:
        plot_images(Curves.from_grid(points, values), axes=axes, limit=len(values))
        axes.set_xlabel("mean, then mean + 1 sd of each function")
        return axes
    along = np.argsort(points[:, 0], kind="stable")
    axes.plot(points[along, 0], values[0, along], color=OBSERVED, linewidth=2.4, label="mean")
    for style, k, drawn in zip(series(), order, values[1:], strict=False):
        label = f"{k + 1}: {100 * shares[k]:.2g} %"
        axes.plot(points[along, 0], drawn[along], color=style.color, linestyle=style.dash, linewidth=1.4, label=label)
    axes.set(xlabel="x", ylabel="mean + 1 sd of each function")
    axes.margins(x=0)
    tidy(axes)
    legend_above_data(axes, columns=3)
    return axes


def plot_spectrum(model: Any, *, axes: Axes | None = None) -> Axes:
    """Draw the share of the variance that each basis function carries, and what the first ones together leave out.

    Functions that the model has but does not use are open circles.

    Parameters
    ----------
    model
        A fitted model with a basis, or a fitted `Basis`.
    axes
        Where to draw; None: the current axes of pyplot.
    """
    from matplotlib.ticker import MaxNLocator

    spectrum = _basis_of(model, "plot_spectrum").spectrum
    shares = spectrum / spectrum.sum()
    number = np.arange(1, len(shares) + 1)
    axes = axes_or_current(axes)
    generator = getattr(getattr(model, "model_", None), "generator", None)
    used = number <= (generator.latent_dim if isinstance(generator, LinearGenerator) else len(shares))
    # The last sum leaves rounding errors, which a logarithmic axis would show as if they meant something.
    left = np.cumsum(shares[::-1])[::-1][1:]
    axes.plot(number[:-1], left, "--s", color=TRUTH, markersize=3.5, linewidth=1.3, label="still missing after it")
    axes.plot(number, shares, "-", color=MODEL, linewidth=0.8, alpha=0.6)
    size = 5.5 if len(shares) <= 60 else 3
    axes.plot(number[used], shares[used], "o", color=MODEL, markersize=size, label="of each function")
    if not used.all():
        axes.plot(
            number[~used],
            shares[~used],
            "o",
            color=MODEL,
            markersize=size,
            markerfacecolor="white",
            label="of each one not used",
        )
    axes.set(yscale="log", xlabel="basis function", ylabel="share of the variance")
    edge = max(0.5, 0.02 * len(shares))
    axes.set_xlim(1 - edge, len(shares) + edge)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    tidy(axes)
    legend_above_data(axes)
    return axes


def _basis_of(model: Any, owner: str) -> Basis:
    basis = model if isinstance(model, Basis) else getattr(model, "basis_", None)
    if isinstance(basis, Basis):
        basis.require_fitted()
        return basis
    if hasattr(model, "__sklearn_is_fitted__") and not model.__sklearn_is_fitted__():
        raise NotFittedError(f"{owner}: this {type(model).__name__} is not fitted yet; call `fit(curves)` first.")
    raise TypeError(f"{owner}: {type(model).__name__} has no basis; give a fitted model that has one, or a Basis.")


def _points(model: Any, at: Any) -> Float[np.ndarray, "points d_x"]:
    """The points asked for, or enough of them in the domain to see a function."""
    if isinstance(model, Basis):
        at = np.linspace(0, 1, LINE_POINTS) if at is None else np.asarray(at, dtype=float)
        d_x = 1 if at.ndim < 2 else at.shape[1]
    else:
        d_x = len(model.domain_[0])
    if d_x > 2:
        raise ValueError(f"plot_basis: the basis has d_x={d_x}; only functions of one or two inputs can be drawn.")
    if at is None:
        lower, upper = model.domain_
        if d_x == 1:
            at = np.linspace(lower[0], upper[0], LINE_POINTS)
        elif grid_shape(model.grid_) is not None:
            at = model.grid_
        else:
            sides = [np.linspace(low, high, IMAGE_SIDE) for low, high in zip(lower, upper, strict=True)]
            at = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    return as_points(at, d_x, "plot_basis: at")


def _functions(
    model: Any, basis: Basis, points: np.ndarray, functions: int, output: int
) -> tuple[Float[np.ndarray, "functions+1 points"], np.ndarray]:
    """One output of the mean and of the mean with each function added, and which functions they are."""
    scaled = points if isinstance(model, Basis) else model.scaling_.apply_points(points)
    mean, features = basis.mean(scaled), basis.features(scaled)
    require_output(output, mean.shape[1], "plot_basis")
    order = np.flatnonzero(np.any(features[:, output] != 0, axis=0))[:functions]
    if not len(order):
        raise ValueError(f"plot_basis: {count(basis.rank, 'basis function')} all vanish on output {output}.")
    values = np.stack([mean, *(mean + features[:, :, k] for k in order)])
    if not isinstance(model, Basis):
        likelihood = getattr(getattr(model, "model_", None), "likelihood", None)
        if likelihood is not None and not isinstance(likelihood, Gaussian):
            values = np.asarray(likelihood.mean(values.astype(np.float32)), dtype=float)
        values = model.scaling_.invert_values(values)
    return values[..., output], order
