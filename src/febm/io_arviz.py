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
    variables = {"f": functions} if latents is None else {"f": functions, "z": latents}
    return arviz_base.from_dict(
        {"posterior": variables, "constant_data": {"x": points}},
        # Ids of several levels are written as tuples: a dimension has one label per position.
        coords={"curve": ids.to_flat_index().map(str) if ids.nlevels > 1 else ids.to_numpy()},
        dims={"f": ["curve", "point", "output"], "z": ["curve", "latent"], "x": ["point", "input"]},
    )
