"""Curves as points in a plane, to see what samples have that data lack and the other way round.

PCA is fitted to the data alone, so that its plane is the same for every model, and samples are projected onto it;
t-SNE places data and samples together. Both start from L² distances between functions on a common mesh.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from febm.checks import count, whole_number
from febm.evaluation.mesh import embedded, functions_of_unit_size, on_common_mesh
from febm.evaluation.samples import side_by_side
from febm.randomness import RandomState, as_key, numpy_generator

METHODS = ("pca", "tsne")
TSNE_LIMIT = 1000  # of each kind: t-SNE of some thousand points still takes seconds
LARGEST_PERPLEXITY = 30.0
SAME_CURVE = 1e-14  # of the size of curves: what differs by less does so by rounding
FEWEST = 3  # curves of each kind: two are always on a line


@dataclasses.dataclass(frozen=True)
class Embedding:
    """Data and samples as points in a plane.

    Attributes
    ----------
    data, samples
        One row for each curve.
    method
        "pca" or "tsne".
    explained
        The shares of the variance of the data along the two axes of PCA; None for t-SNE.
    """

    data: Float[np.ndarray, "data 2"]
    samples: Float[np.ndarray, "samples 2"]
    method: str
    explained: tuple[float, float] | None


def embed(
    data: Any,
    samples: Any,
    *,
    method: Literal["pca", "tsne"] = "pca",
    mesh: Any = None,
    limit: int | None = None,
    random_state: RandomState = None,
) -> Embedding:
    """Place curves of data and of a model in a plane.

    Parameters
    ----------
    data, samples
        Curves, or 2-D arrays with one curve a row on a common grid; an array beside Curves is on their grid.
    method
        "pca": the plane of the two leading principal components of the data; "tsne": neighbours stay neighbours.
    mesh
        Points on which functions are compared; None: those that the curves share, or a regular mesh.
    limit
        At most so many curves of each kind are placed, a random choice. None: all of them for PCA; for t-SNE, whose
        picture follows the numbers, equally many of each and at most 1,000.
    random_state
        Decides the choice, and the start of t-SNE.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> placed = embed(rng.normal(size=(30, 10)), rng.normal(size=(20, 10)))
    >>> placed.data.shape, placed.samples.shape
    ((30, 2), (20, 2))
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"embed: method is {method!r}; choose 'pca' or 'tsne'.")
    if limit is not None:
        limit = whole_number("embed: limit", limit, least=FEWEST)
    data, samples = side_by_side({"data": data, "samples": samples}, "embed")
    for name, curves in (("data", data), ("samples", samples)):
        if len(curves) < FEWEST:
            raise ValueError(f"embed: {name} has {count(len(curves), 'curve')}; give at least {FEWEST}.")
    generator = numpy_generator(as_key(random_state))
    functions, exponent = functions_of_unit_size(on_common_mesh(data, samples, mesh=mesh, owner="embed"))
    of_data, of_samples = embedded(functions)
    if of_data.shape[1] < 2:
        raise ValueError("embed: the curves share a single value, which has no plane; give a `mesh` of more points.")
    most = max(len(data), len(samples)) if limit is None else limit
    if method == "pca":
        return _pca(of_data, _chosen(of_data, most, generator), _chosen(of_samples, most, generator), exponent)
    equal = min(len(data), len(samples), TSNE_LIMIT if limit is None else limit)
    return _tsne(_chosen(of_data, equal, generator), _chosen(of_samples, equal, generator), generator)


def _chosen(
    values: Float[np.ndarray, "curves coordinates"], most: int, generator: np.random.Generator
) -> Float[np.ndarray, "chosen coordinates"]:
    """At most so many rows, a random choice in their order."""
    if len(values) <= most:
        return values
    return values[np.sort(generator.choice(len(values), size=most, replace=False))]


def _pca(fitted: np.ndarray, data: np.ndarray, samples: np.ndarray, exponent: int) -> Embedding:
    """In the plane of what is fitted; all are functions divided by 2**exponent, the points are not."""
    from sklearn.decomposition import PCA

    if not np.ptp(fitted, axis=0).any():
        raise ValueError("embed: all curves of data are the same, so they have no principal components.")
    plane = PCA(n_components=2, svd_solver="full").fit(fitted)
    first, second = (float(share) for share in plane.explained_variance_ratio_)
    with np.errstate(over="ignore"):
        placed = [np.ldexp(plane.transform(part), exponent) for part in (data, samples)]
    if not all(np.isfinite(part).all() for part in placed):
        raise ValueError(
            "embed: distances between the curves are beyond the range of numbers; divide all curves by the same large "
            "number."
        )
    return Embedding(placed[0], placed[1], "pca", (first, second))


def _tsne(data: np.ndarray, samples: np.ndarray, generator: np.random.Generator) -> Embedding:
    from sklearn.manifold import TSNE

    both = np.concatenate([data, samples])
    both = both - both.mean(axis=0)
    largest = np.abs(both).max()
    # What is left of equal curves of size 1 is the rounding of their mean. t-SNE itself ends the interpreter on them.
    if largest <= SAME_CURVE:
        raise ValueError("embed: all curves of data and samples are the same, so t-SNE has no neighbours to keep.")
    both /= largest
    # A neighbourhood of perplexity p needs about 3p others, as the original authors advise.
    perplexity = min(LARGEST_PERPLEXITY, (len(both) - 1) / 3)
    placed = TSNE(
        n_components=2,
        perplexity=perplexity,
        init="pca",
        learning_rate="auto",
        random_state=int(generator.integers(2**31)),
        n_jobs=1,
    ).fit_transform(both / np.std(both))
    placed = np.asarray(placed, dtype=float)
    return Embedding(placed[: len(data)], placed[len(data) :], "tsne", None)
