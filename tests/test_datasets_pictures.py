"""Fashion-MNIST from idx files: pictures as functions on the unit square, and files that hold none."""

import gzip
import struct

import numpy as np
import pytest

from febm.datasets import load_fashion_mnist
from febm.errors import FormatError


def write_idx(path, array, *, packed):
    content = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    if packed:
        path = path.with_name(path.name + ".gz")
        content = gzip.compress(content)
    path.write_bytes(content)


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def pictures(tmp_path, request):
    """A folder of 12 and 5 pictures, and what is in it."""
    generator = np.random.default_rng(2)
    content = {}
    for part, n in (("train", 12), ("t10k", 5)):
        content[part] = generator.integers(0, 256, (n, 28, 28)), np.arange(n) % 10
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", content[part][0], packed=request.param)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", content[part][1], packed=request.param)
    return tmp_path, content


def test_pictures_are_functions_of_row_and_column(pictures):
    folder, content = pictures
    data = load_fashion_mnist(data_home=folder)
    images, labels = content["train"]
    assert (len(data.train), len(data.evaluation)) == (12, 5)
    np.testing.assert_array_equal(data.train.covariates["label"], labels)
    row, column = 3, 20
    at = np.flatnonzero((data.train.x == [(row + 0.5) / 28, (column + 0.5) / 28]).all(axis=1))
    np.testing.assert_allclose(data.train.y[at, 0], images[:, row, column] / 255)
    assert data.train.y.min() >= 0
    assert data.train.y.max() <= 1
    assert data.train.covariates["class_name"].tolist()[:3] == ["T-shirt/top", "Trouser", "Pullover"]


def test_some_pictures_are_drawn_at_random_and_stay_in_order(pictures):
    folder, content = pictures
    first, again, other = (
        load_fashion_mnist(seed, data_home=folder, n_train=6, n_evaluation=2).train for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other
    flat = content["train"][0].reshape(12, -1) / 255
    places = [int(np.flatnonzero((flat == row).all(axis=1))[0]) for row in first.y.reshape(6, -1)]
    assert places == sorted(set(places))


def test_more_pictures_than_there_are_cannot_be_had(pictures):
    with pytest.raises(ValueError, match="load_fashion_mnist: n_evaluation is 6; there are 5 pictures"):
        load_fashion_mnist(data_home=pictures[0], n_evaluation=6)
    with pytest.raises(ValueError, match="load_fashion_mnist: n_train is 0; give a whole number"):
        load_fashion_mnist(data_home=pictures[0], n_train=0)


@pytest.mark.parametrize(
    ("array", "fault"),
    [
        (np.zeros((12, 14, 14)), "pictures of 14 by 14 pixels, not 28 by 28"),
        (np.zeros((11, 28, 28)), "12 labels for the 11 pictures"),
        (np.zeros((12, 28 * 28)), "is not an idx file of bytes in 3 dimensions: it begins with '00 00 08 02'"),
    ],
)
def test_pictures_of_another_kind_are_refused(tmp_path, array, fault):
    for name in ("train", "t10k"):
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", np.zeros(12), packed=False)
        write_idx(tmp_path / f"{name}-images-idx3-ubyte", array, packed=False)
    with pytest.raises(FormatError, match=f"idx._ubyte.*{fault}".replace("_", "-")):
        load_fashion_mnist(data_home=tmp_path)


def test_a_label_without_a_class_is_refused(tmp_path):
    for name in ("train", "t10k"):
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", np.full(2, 10), packed=False)
        write_idx(tmp_path / f"{name}-images-idx3-ubyte", np.zeros((2, 28, 28)), packed=False)
    with pytest.raises(FormatError, match="holds the label 10; classes are numbered from 0 to 9"):
        load_fashion_mnist(data_home=tmp_path)


@pytest.mark.parametrize("pictures", [True], indirect=True, ids=["gzip"])
def test_a_file_cut_short_is_refused(pictures):
    path = pictures[0] / "t10k-images-idx3-ubyte.gz"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FormatError, match=r"t10k-images-idx3-ubyte\.gz cannot be unpacked"):
        load_fashion_mnist(data_home=pictures[0])
    path.write_bytes(gzip.compress(gzip.decompress(content)[:-1]))
    with pytest.raises(FormatError, match="has 3,919 bytes where its header promises 3,920"):
        load_fashion_mnist(data_home=pictures[0])
