"""Posteriors for ArviZ: draws with named dimensions chain, draw, curve, point and output, in one `DataTree`.

A `DataTree` of xarray is what ArviZ calls its InferenceData from version 1 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

from febm.libraries import imported

if TYPE_CHECKING:
    from xarray import DataTree

    from febm.curves import Curves


def to_datatree(
    functions: Float[np.ndarray, "chains draws curves points outputs"],
    points: Float[np.ndarray, "points inputs"],
    ids: pd.Index,
    latents: Float[np.ndarray, "chains draws curves latent"] | None = None,
    observed: Curves | None = None,
) -> DataTree:
    """The groups `posterior` (functions `f`, latents `z` where there are any) and `constant_data` (points `x`).

    With `observed` there is also `observed_data` (values `y`), and `constant_data` says where: `observed_x`, and the id
    of the curve, `observed_curve`.
    """
    arviz_base = imported("arviz_base", needed_by="Posterior.to_arviz")
    _check_shapes(functions, points, ids, latents)
    # Ids of several levels are written as tuples: a dimension has one label per position.
    labels = ids.to_flat_index().map(str).to_numpy() if ids.nlevels > 1 else ids.to_numpy()
    groups = {"posterior": {"f": functions}, "constant_data": {"x": points}}
    if latents is not None:
        groups["posterior"]["z"] = latents
    if observed is not None:
        _check_ids(observed, ids)
        groups["observed_data"] = {"y": observed.y}
        groups["constant_data"]["observed_x"] = observed.x
        groups["constant_data"]["observed_curve"] = np.repeat(labels, observed.lengths)
    return arviz_base.from_dict(groups, coords={"curve": labels}, dims=_DIMENSIONS)


_DIMENSIONS = {
    "f": ["curve", "point", "output"],
    "z": ["curve", "latent"],
    "x": ["point", "input"],
    "y": ["observation", "output"],
    "observed_x": ["observation", "input"],
    "observed_curve": ["observation"],
}


def _check_ids(observed: Curves, ids: pd.Index) -> None:
    if not observed.ids.equals(ids):
        raise ValueError(
            f"Posterior.to_arviz: observed must be the {len(ids)} curves that were conditioned on, in the same order "
            "and with the same ids."
        )


def _check_shapes(functions: np.ndarray, points: np.ndarray, ids: pd.Index, latents: np.ndarray | None) -> None:
    """Refuse arrays whose dimensions would get each other's names."""
    if np.ndim(points) != 2 or np.ndim(functions) != 5 or np.shape(functions)[2:4] != (len(ids), len(points)):
        raise ValueError(
            f"Posterior.to_arviz: functions have shape {np.shape(functions)} for {len(ids)} curves at points of shape "
            f"{np.shape(points)}; they must be (chains, draws, curves, points, outputs) at one set of points for all "
            "curves."
        )
    if latents is not None and (np.ndim(latents) != 4 or np.shape(latents)[:3] != np.shape(functions)[:3]):
        raise ValueError(
            f"Posterior.to_arviz: latents have shape {np.shape(latents)} beside functions of {np.shape(functions)}; "
            "they must be (chains, draws, curves, latent), as many of each as functions."
        )
