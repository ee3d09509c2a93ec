"""Samples as tests take them: arrays read on the grid of the curves beside them, models drawn from, pairs of draws.

Two samples may hold the same curves. What is drawn from both has none of them twice: a pair of equal curves would make
the samples look more alike than two draws of one distribution are.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from febm.checks import count
from febm.curves import Curves
from febm.door import as_curves, holds_points
from febm.models.base import Process
from febm.randomness import numpy_generator


def as_samples(
    values: dict[str, Any], owner: str, *, grid: Float[np.ndarray, "points d_x"] | None = None
) -> list[Curves]:
    """Samples of two curves or more, named by the keys, as `side_by_side` reads them."""
    samples = side_by_side(values, owner, grid=grid)
    for name, sample in zip(values, samples, strict=True):
        if len(sample) < 2:
            raise ValueError(
                f"{owner}: {name} has {count(len(sample), 'curve')}; a test needs at least 2 in each sample."
            )
    return samples


def side_by_side(
    values: dict[str, Any], owner: str, *, grid: Float[np.ndarray, "points d_x"] | None = None
) -> list[Curves]:
    """What is named by the keys as curves: arrays are on the grid of the first that are curves, or on `grid`."""
    for name, value in values.items():
        if isinstance(value, Process):
            raise TypeError(
                f"{owner}: {name} is a model; give curves, such as those of model.sample(n, at, noise=True)."
            )
    known = {name: as_curves(value, f"{owner}: {name}") for name, value in values.items() if holds_points(value)}
    like = next(iter(known.values()), grid)
    return [
        known[name] if name in known else as_curves(value, f"{owner}: {name}", like=like)
        for name, value in values.items()
    ]


def curves_and_draws(values: dict[str, Any], draws: int, key: Any, owner: str) -> list[Curves]:
    """All as curves; a model, one of the first two at most, is sampled at the points of the other's curves."""
    first, second = list(values)[:2]
    models = [name for name in (first, second) if isinstance(values[name], Process)]
    if not models:
        return as_samples(values, owner)
    if len(models) == 2:
        raise TypeError(f"{owner}: both samples are models; draw curves of one of them, with model.sample(n, at).")
    model = values[models[0]]
    curves = {name: value for name, value in values.items() if name != models[0]}
    samples = as_samples(curves, owner, grid=getattr(model, "grid_", None))
    samples.insert(0 if models[0] == first else 1, _draws(model, samples[0], draws, key))
    return samples


def draw_pair(
    size: int, twins: Int[np.ndarray, " second"], n: int, generator: np.random.Generator
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """`n` places in either sample, none of them twins; the sample with fewer curves of its own draws first."""
    if _second_first(size, twins):
        second = generator.choice(len(twins), n, replace=False)
        return generator.choice(np.setdiff1d(np.arange(size), twins[second]), n, replace=False), second
    first = generator.choice(size, n, replace=False)
    return first, generator.choice(np.flatnonzero(~np.isin(twins, first)), n, replace=False)


def largest_draw(size: int, twins: Int[np.ndarray, " second"]) -> int:
    """The largest n that `draw_pair` can draw, whatever it draws first."""
    shared = int(np.sum(twins >= 0))
    first, later = (len(twins), size) if _second_first(size, twins) else (size, len(twins))
    return min(first, max(later - shared, later // 2))


def _second_first(size: int, twins: Int[np.ndarray, " second"]) -> bool:
    return bool((twins >= 0).any()) and len(twins) < size


def twins_of(a: Curves, b: Curves) -> Int[np.ndarray, " second"]:
    """For every curve of `b` the place in `a` of the same curve, or -1; each has one twin at most."""
    if a is b:
        return np.arange(len(a))
    places = defaultdict(list)
    for place in reversed(range(len(a))):
        places[_content(a, place)].append(place)
    twins = np.full(len(b), -1)
    for place in range(len(b)):
        found = places.get(_content(b, place))
        if found:
            twins[place] = found.pop()
    return twins


def _content(curves: Curves, place: int) -> tuple[bytes, bytes]:
    rows = slice(curves.offsets[place], curves.offsets[place + 1])
    return curves.x[rows].tobytes(), curves.y[rows].tobytes()


def _draws(model: Process, like: Curves, draws: int, key: Any) -> Curves:
    """Noisy samples of the model at the points, and with the missing values, of randomly chosen curves."""
    choice_key, sample_key = jax.random.split(key)
    points = like.common_points
    if points is not None and not np.isnan(like.y).any():
        return model.sample(draws, points, noise=True, random_state=sample_key)
    at = like[numpy_generator(choice_key).integers(len(like), size=draws)]
    drawn = model.sample(draws, at, noise=True, random_state=sample_key)
    return drawn.replace(y=np.where(np.isnan(at.y), np.nan, drawn.y)) if drawn.y.shape == at.y.shape else drawn
