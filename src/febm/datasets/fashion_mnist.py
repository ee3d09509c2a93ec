"""Fashion-MNIST as surfaces: the brightness of a picture of clothing as a function on the unit square."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from jaxtyping import PRNGKeyArray, UInt8

from febm.checks import whole_number
from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.datasets.files import DataFiles, Download, opened
from febm.datasets.tables import UNREADABLE, refuse
from febm.randomness import RandomState, as_key, numpy_generator

SIDE = 28
UNSIGNED_BYTES = 0x08  # the code of the idx format for this type
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CHECKSUMS = (
    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
)
REPOSITORY = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/"
    "data/fashion"
)
FILES = DataFiles(
    owner="load_fashion_mnist",
    choices=(NAMES,),
    folder="fashion_mnist",
    other_folders=("fashion-mnist", "FashionMNIST/raw", "data/fashion"),
    downloads=tuple(
        Download(f"{name}.gz", sha256, (f"{REPOSITORY}/{name}.gz",))
        for name, sha256 in zip(NAMES, CHECKSUMS, strict=True)
    ),
)


def load_fashion_mnist(
    random_state: RandomState = 0,
    *,
    data_home: str | os.PathLike[str] | None = None,
    n_train: int | None = None,
    n_evaluation: int | None = None,
) -> Dataset:
    """60,000 and 10,000 pictures of clothing, 28 by 28 pixels, as functions on the unit square.

    A pixel is the point at its centre: the first coordinate is (row + ½)/28, counted from the top, the second is
    (column + ½)/28, counted from the left. Its value, from 0 (background) to 1, is the byte over 255. The covariates
    are `label`, from 0 to 9, and `class_name`. Both parts are the publisher's.

    Pictures stay bytes until they are looked at: all of them together take 55 MB.

    Parameters
    ----------
    random_state
        What `n_train` and `n_evaluation` pictures are drawn with, where fewer than all are asked for.
    data_home
        A folder with the four idx files of the release, compressed or not. None: the folder FEBM_DATA names, or else
        a download (31 MB) into the cache.
    n_train, n_evaluation
        How many pictures to take of each part, drawn at random and left in the order of the file; None: all.

    Examples
    --------
    >>> data = load_fashion_mnist(n_train=1000, n_evaluation=100)  # doctest: +SKIP
    >>> data.train.lengths.max()  # doctest: +SKIP
    784
    """
    paths = FILES.paths(data_home)
    train_key, evaluation_key = jax.random.split(as_key(random_state))
    train = _pictures(paths[0], paths[1], "n_train", n_train, train_key)
    evaluation = _pictures(paths[2], paths[3], "n_evaluation", n_evaluation, evaluation_key)
    return Dataset(
        train=train,
        evaluation=evaluation,
        description=f"{len(train):,} and {len(evaluation):,} grey pictures of clothing in ten classes, {SIDE} by "
        f"{SIDE} pixels on the unit square, values in [0, 1].",
        source="Fashion-MNIST, Zalando Research (github.com/zalandoresearch/fashion-mnist)",
        licence="MIT, © 2017 Zalando SE",
    )


def _pictures(images_path: Path, labels_path: Path, argument: str, number: int | None, key: PRNGKeyArray) -> Curves:
    """All pictures of one part, or so many of them, as curves."""
    images, labels = _read_idx(images_path, 3), _read_idx(labels_path, 1)
    if images.shape[1:] != (SIDE, SIDE):
        refuse(images_path, f"holds pictures of {images.shape[1]} by {images.shape[2]} pixels, not {SIDE} by {SIDE}")
    if len(labels) != len(images):
        refuse(labels_path, f"holds {len(labels):,} labels for the {len(images):,} pictures of {images_path.name}")
    if len(labels) == 0:
        refuse(images_path, "holds no pictures")
    if labels.max() >= len(CLASSES):
        refuse(labels_path, f"holds the label {labels.max()}; classes are numbered from 0 to {len(CLASSES) - 1}")
    if number is not None:
        name = f"{FILES.owner}: {argument}"
        if whole_number(name, number) > len(images):
            raise ValueError(f"{name} is {number:,}; there are {len(images):,} pictures, give at most so many.")
        chosen = np.sort(numpy_generator(key).choice(len(images), number, replace=False))
        images, labels = images[chosen], labels[chosen]
    names = pd.Categorical.from_codes(labels, categories=list(CLASSES))
    return Curves.from_images(images, labels.astype(np.int64), covariates={"class_name": names.astype(str)})


def _read_idx(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """The array in an idx file: two zero bytes, the type, the number of dimensions, the sizes, and the values."""
    try:
        with opened(path) as file:
            content = file.read()
    except UNREADABLE as error:
        refuse(path, f"cannot be unpacked ({error})")
    start = 4 + 4 * dimensions
    if len(content) < start or content[:4] != bytes([0, 0, UNSIGNED_BYTES, dimensions]):
        refuse(path, f"is not an idx file of bytes in {dimensions} dimensions: it begins with {content[:4].hex(' ')!r}")
    sizes = np.frombuffer(content, dtype=">u4", count=dimensions, offset=4).astype(np.int64)
    if len(content) - start != np.prod(sizes):
        refuse(path, f"has {len(content) - start:,} bytes where its header promises {np.prod(sizes):,}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(sizes)
