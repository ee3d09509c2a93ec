"""The demo: F-EBM learns two kinds of curve from scattered noisy points, then samples, completes and is tested.

The Quadratic functions f(x) = a·x² + b, a = ±1, are seen as data usually come: every training curve at 12 of its
30 points, with noise of standard deviation 5. What the model says is judged by held-out functions, free of noise.
"""

from __future__ import annotations

import dataclasses
import io
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from febm.curves import Curves
from febm.datasets import load_quadratic
from febm.evaluation.two_sample import two_sample_test
from febm.models import FEBM, Posterior, Process
from febm.progress import Progress
from febm.randomness import RandomState, as_key, numpy_generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = "demo.png"
TABLE = "demo.csv"

TRAINING_POINTS = 12
CONTEXT_POINTS = 7
NOISE = 5.0
LEVEL = 0.9
SAMPLES = 1000  # for shares: their standard error is then below 0.016
SHOWN = 40  # curves in each panel of the picture
TESTED = 150  # samples, and as many held-out curves, in the two-sample test


@dataclasses.dataclass(frozen=True)
class DemoResult:
    """What the demo wrote and found: two files, the figures in the table, and the fitted model."""

    picture: Path
    table: Path
    figures: pd.DataFrame
    model: Process


def run_demo(
    folder: str | os.PathLike[str],
    *,
    random_state: RandomState = 0,
    progress: bool | Progress = True,
    model: Process | None = None,
    n_curves: int = 200,
) -> DemoResult:
    """Train, sample, complete and test a model on the Quadratic data; write `demo.png` and `demo.csv`.

    Parameters
    ----------
    folder
        Where the two files go; it is made where it does not exist. Other files in it are left alone.
    random_state
        Decides the data, the training and every draw.
    progress
        True for a bar, False for silence, or a `Progress`; a `model` that is given has its own.
    model
        What to fit; None: `FEBM()`.
    n_curves
        Curves to train with, and as many held out.
    """
    folder = _made(folder)
    data_key, view_key, model_key, draw_key = jax.random.split(as_key(random_state), 4)
    data = load_quadratic(data_key, n_train=n_curves, n_evaluation=n_curves)
    generator = numpy_generator(view_key)
    grid, functions = _on_grid(data.evaluation)

    training = _observe(data.train, _scattered(data.train, TRAINING_POINTS, generator), generator)
    model = FEBM(random_state=model_key, progress=progress) if model is None else model
    started = time.perf_counter()
    model.fit(training)
    seconds = time.perf_counter() - started

    samples = model.sample(SAMPLES, at=grid, random_state=draw_key)
    scattered = _scattered(data.evaluation, CONTEXT_POINTS, generator)
    middle = _middle(data.evaluation, CONTEXT_POINTS)
    contexts = [_observe(data.evaluation, seen, generator) for seen in (scattered, middle)]
    posteriors = [model.condition(context, random_state=draw_key) for context in contexts]

    drawn = _on_grid(samples)[1]
    tested = min(TESTED, n_curves)
    figures = _figures(
        data=_coefficients(*_on_grid(data.train)),
        samples=_coefficients(grid, drawn),
        scattered=_judge(posteriors[0], grid, functions, ~scattered),
        middle=_judge(posteriors[1], grid, functions, ~middle),
        p_value=two_sample_test(samples[:tested], data.evaluation[:tested], random_state=draw_key).pvalue,
        tested=tested,
        seconds=seconds,
    )
    figures.to_csv(folder / TABLE, index=False)
    _draw(folder / PICTURE, training, samples, contexts[1], posteriors[1], data.evaluation)
    return DemoResult(folder / PICTURE, folder / TABLE, figures, model)


def _made(folder: str | os.PathLike[str]) -> Path:
    """The folder, made before any work is done so that a bad one is refused at once."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(
            f"run_demo: folder is {str(path)!r}, which a file stands in the way of; name another."
        ) from error
    return path


def _scattered(curves: Curves, count: int, generator: np.random.Generator) -> Bool[np.ndarray, "curves points"]:
    """A random choice of `count` points of every curve."""
    size = int(curves.lengths[0])
    chosen = np.broadcast_to(np.arange(size) < count, (len(curves), size))
    return generator.permuted(chosen, axis=1)


def _middle(curves: Curves, count: int) -> Bool[np.ndarray, "curves points"]:
    """The `count` points of every curve that are nearest to zero."""
    distance = np.abs(curves.x[:, 0]).reshape(len(curves), -1)
    return distance.argsort(axis=1, kind="stable").argsort(axis=1) < count


def _observe(curves: Curves, seen: Bool[np.ndarray, "curves points"], generator: np.random.Generator) -> Curves:
    """The points of the curves that are seen, with noise."""
    there = curves.select(seen.ravel())
    return there.replace(y=there.y + NOISE * generator.normal(size=there.y.shape))


def _on_grid(curves: Curves) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, "curves points"]]:
    grid, values = curves.to_grid()
    return grid, values[..., 0]


def _coefficients(
    grid: Float[np.ndarray, " points"], values: Float[np.ndarray, "curves points"]
) -> tuple[Float[np.ndarray, " curves"], Float[np.ndarray, " curves"]]:
    """The a and b of the quadratic nearest to each curve."""
    b, _, a = np.polynomial.polynomial.polyfit(grid, values.T, 2)
    return a, b


def _judge(
    posterior: Posterior,
    grid: Float[np.ndarray, " points"],
    functions: Float[np.ndarray, "curves points"],
    unseen: Bool[np.ndarray, "curves points"],
) -> tuple[float, float]:
    """Mean squared error of the mean and coverage of the interval, over unseen points."""
    mean = np.asarray(posterior.mean(grid))[..., 0]
    lower, upper = (np.asarray(end)[..., 0] for end in posterior.interval(grid, LEVEL))
    inside = (lower <= functions) & (functions <= upper)
    return float(np.mean((mean - functions)[unseen] ** 2)), float(np.mean(inside[unseen]))


def _figures(
    *,
    data: tuple[np.ndarray, np.ndarray],
    samples: tuple[np.ndarray, np.ndarray],
    scattered: tuple[float, float],
    middle: tuple[float, float],
    p_value: float,
    tested: int,
    seconds: float,
) -> pd.DataFrame:
    """The table: what each figure is called, its value, and what it means in plain words."""
    (a, b), (a_samples, b_samples) = data, samples
    learned, new = f"the {len(a)} training curves", f"{len(a_samples)} new curves"
    rows = [
        ("upward_share_data", np.mean(a > 0), f"share of {learned} that open upwards (a > 0 in a·x² + b)"),
        ("upward_share_samples", np.mean(a_samples > 0), f"share of {new} that open upwards"),
        (
            "flat_share_samples",
            np.mean(np.abs(a_samples) < 0.5),
            f"share of {new} that are neither kind (|a| < 0.5); the data have a = 1 or -1",
        ),
        ("spread_data", np.std(b), f"standard deviation of b over {learned}"),
        ("spread_samples", np.std(b_samples), f"standard deviation of b over {new}"),
        (
            "mean_squared_error",
            scattered[0],
            f"mean squared error of the posterior mean at unseen points of held-out curves, given {CONTEXT_POINTS} "
            f"scattered noisy points; the noise has variance {NOISE**2:g}",
        ),
        (
            "coverage_scattered",
            scattered[1],
            f"share of the unseen true values inside the {LEVEL:.0%} interval, given those points; {LEVEL:g} is ideal",
        ),
        (
            "coverage_middle",
            middle[1],
            f"coverage given {CONTEXT_POINTS} points in the middle, which leave open which way a curve turns",
        ),
        (
            "two_sample_p_value",
            p_value,
            f"permutation test between {tested} new curves and {tested} held-out ones; "
            "below 0.05 it tells them apart (it sees kinds and their shares well, a wrong spread of b hardly)",
        ),
        ("training_seconds", seconds, "time that fitting took on this machine"),
    ]
    table = pd.DataFrame(rows, columns=["name", "value", "meaning"])
    return table.assign(value=[float(f"{value:.3g}") for value in table["value"]])


def _draw(path: Path, training: Curves, samples: Curves, context: Curves, posterior: Posterior, truth: Curves) -> None:
    """One picture: the data, new curves beside them, and a held-out curve given seven points."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from febm.plotting import OBSERVED, plot_posterior, plot_samples_beside_data

    # Of the held-out curves, the one that its points leave most undecided: its mean is the flattest.
    grid, _ = _on_grid(truth)
    mean = np.asarray(posterior.mean(grid))[..., 0]
    undecided = int(np.argmin(np.abs(_coefficients(grid, mean)[0])))
    with rc_context({"font.size": 11, "axes.titlesize": 12, "text.color": OBSERVED, "axes.labelcolor": OBSERVED}):
        figure = Figure(figsize=(12, 4.3), layout="constrained")
        left, centre, right = figure.subplots(1, 3, sharex=True, sharey=True)
        shown = min(SHOWN, len(training))
        plot_samples_beside_data(training, samples, axes=(left, centre), limit=shown, marker_size=3.0)
        plot_posterior(
            posterior,
            np.linspace(grid[0], grid[-1], 201),
            curve=undecided,
            level=LEVEL,
            draws=SHOWN,
            context=context,
            truth=truth,
            axes=right,
        )
        titles = (
            f"Data: {shown} of {len(training)} curves,\neach seen at {TRAINING_POINTS} noisy points",
            f"{shown} new curves\nfrom the fitted model",
            f"A held-out curve: these {CONTEXT_POINTS} points\nleave both kinds possible",
        )
        for axes, title in zip((left, centre, right), titles, strict=True):
            axes.set_title(title, loc="left")
            axes.set_xlabel("x (arbitrary units)")
        left.set_ylabel("f(x) (arbitrary units)")
        right.legend(loc="upper center", frameon=False, fontsize=9.5)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Write the picture with a palette: it looks the same and takes a third of the space."""
    from PIL import Image

    whole = io.BytesIO()
    figure.savefig(whole, dpi=150)
    Image.open(whole).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
