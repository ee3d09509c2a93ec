"""Bases that have not seen some of the curves, and those curves projected on them: what choices are made by."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from febm.basis import Basis
from febm.basis.enriched import Enriched, Remainder
from febm.curves import Curves
from febm.gaps import hide_middles
from febm.observations import observe, project_curves
from febm.tails import Fold

# Folds of cross-validation by number of curves: few curves make a single held-out part too noisy to choose by.
MANY_CURVES = 1000


class Folded(NamedTuple):
    """A basis fitted to all curves, and the folds, with the masks of their held-out curves, that choose on it."""

    basis: Basis
    folds: list[Fold]
    held_out: list[np.ndarray]


def fold_basis(
    basis: Basis,
    curves: Curves,
    validation: float,
    latent_dim: int | None,
    key: PRNGKeyArray,
    cosines: np.ndarray | None = None,
) -> Folded:
    """Fit the basis to all curves and, for every fold, to those that are not held out of it.

    With `cosines`, those of a remainder are the last columns of the folds, all of weight 1.
    """
    basis_key, split_key = jax.random.split(key)
    fitted = basis.fit(curves, key=basis_key)
    splits = held_out_parts(len(curves), validation, split_key)
    parts = [basis.fit(curves[~held_out], key=jax.random.fold_in(basis_key, i)) for i, held_out in enumerate(splits)]
    rank = min(latent_dim or fitted.rank, fitted.rank, *(part.rank for part in parts))
    folds = []
    for part, held_out in zip(parts, splits, strict=True):
        whole = part if cosines is None else Enriched(part, np.ones(rank), Remainder.white(cosines), curves.d_y)
        columns = rank if cosines is None else whole.rank
        fitting, judging = curves[~held_out], curves[held_out]
        hidden = hide_middles(observe(whole, judging)) if cosines is not None and curves.d_x == 1 else ()
        folds.append(Fold(project_curves(whole, fitting, columns), project_curves(whole, judging, columns), hidden))
    return Folded(fitted, folds, splits)


def held_out_parts(count: int, validation: float, key: PRNGKeyArray) -> list[np.ndarray]:
    """Masks of held-out curves: one of them for many curves, three disjoint ones for few."""
    if count < 5:
        raise ValueError(f"fit: {count} curves are too few to learn a distribution from; give at least 5.")
    order = np.asarray(jax.random.permutation(key, count))
    size = min(max(1, round(validation * count)), count - 3)
    parts = 1 if count >= MANY_CURVES else min(3, count // size)
    return [np.isin(np.arange(count), order[part * size : (part + 1) * size]) for part in range(parts)]
