"""Curves of all kinds for property tests: ragged or on a grid, with ids, covariates and missing values."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st

from febm.curves import Curves

numbers = st.floats(-1e6, 1e6)
repeatable = settings(deadline=None, derandomize=True, max_examples=60)
quick = settings(deadline=None, derandomize=True, max_examples=25)


@st.composite
def ragged(draw, *, missing=True, tables=True, distinct=False, widths=3):
    """Curves of any number of coordinates and outputs, perhaps with missing outputs, ids and covariates."""
    n, d_x, d_y = draw(st.integers(1, 6)), draw(st.integers(1, widths)), draw(st.integers(1, widths))
    lengths = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    total = sum(lengths)
    x = draw(arrays.arrays(np.float64, (total, d_x), elements=numbers, unique=distinct))
    y = draw(arrays.arrays(np.float64, (total, d_y), elements=numbers))
    if missing and d_y > 1:
        holes = draw(arrays.arrays(bool, (total, d_y - 1)))
        y[:, 1:][holes] = np.nan
    ids, covariates = draw(labels(n)) if tables else (None, None)
    return Curves(x, y, np.append(0, np.cumsum(lengths)), ids, covariates)


@st.composite
def gridded(draw, *, missing=True, inputs=2, outputs=2):
    """Curves on a sorted grid of one input or two, each with a value at its first point."""
    n, d_x, d_y = draw(st.integers(1, 4)), draw(st.integers(1, inputs)), draw(st.integers(1, outputs))
    sides = [draw(st.integers(1, 4)) for _ in range(d_x)]
    axes = [np.sort(draw(arrays.arrays(np.float64, side, elements=numbers, unique=True))) for side in sides]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d_x)
    values = draw(arrays.arrays(np.float64, (n, len(points), d_y), elements=numbers))
    if missing:
        values[:, 1:][draw(arrays.arrays(bool, (n, len(points) - 1, d_y)))] = np.nan
    return Curves.from_grid(points, values, *draw(labels(n)))


@st.composite
def labels(draw, n):
    """What `n` curves are called, and what is known of them."""
    ids = {
        "none": None,
        "text": [f"c{i}" for i in range(n)],
        "tuples": [(i // 2, f"u{i}") for i in range(n)],
    }[draw(st.sampled_from(["none", "text", "tuples"]))]
    if not draw(st.booleans()):
        return ids, None
    return ids, pd.DataFrame(
        {
            "age": np.arange(n) * 2.5,
            "site": [f"s{i % 2}" for i in range(n)],
            "visits": np.arange(n),
            "born": pd.date_range("2001-02-03", periods=n),
            "kind": pd.Categorical(["b" if i % 2 else "a" for i in range(n)], categories=["b", "a"], ordered=True),
            # With a gap: polars does not tell a nullable column without one from a plain one.
            "treated": pd.array([None if i % 3 == 0 else bool(i % 2) for i in range(n)], dtype="boolean"),
            "weight": [np.nan if i % 2 else float(i) for i in range(n)],
        }
    )


def in_order(curves):
    """The same curves, the points of each sorted."""
    owner = np.repeat(np.arange(len(curves)), curves.lengths)
    rows = np.lexsort([*curves.x.T[::-1], owner])
    return Curves(curves.x[rows], curves.y[rows], curves.offsets, curves.ids, curves.covariates)
