"""Posteriors for ArviZ: draws with named dimensions chain, draw, curve, point and output, in one `DataTree`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

if TYPE_CHECKING:
    from xarray import DataTree


def to_datatree(
    functions: Float[np.ndarray, "chains draws curves points outputs"],
    points: Float[np.ndarray, "points inputs"],
    ids: pd.Index,
    latents: Float[np.ndarray, "chains draws curves latent"] | None = None,
) -> DataTree:
    """The groups `posterior` (functions `f`, latents `z` where there are any) and `constant_data` (points `x`)."""
    try:
        import arviz_base
    except ImportError as error:
        raise ImportError("Posterior.to_arviz needs arviz-base: pip install 'febm[arviz]'") from error
    _check_shapes(functions, points, ids, latents)
    variables = {"f": functions} if latents is None else {"f": functions, "z": latents}
    return arviz_base.from_dict(
        {"posterior": variables, "constant_data": {"x": points}},
        # Ids of several levels are written as tuples: a dimension has one label per position.
        coords={"curve": ids.to_flat_index().map(str) if ids.nlevels > 1 else ids.to_numpy()},
        dims={"f": ["curve", "point", "output"], "z": ["curve", "latent"], "x": ["point", "input"]},
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
