"""The data sets as they were published: the sizes of the paper, from the folder that FEBM_DATA names."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from febm.datasets import gridwatch, load_fashion_mnist, load_gridwatch, load_melbourne, load_stocks

pytestmark = pytest.mark.skipif(
    not os.environ.get("FEBM_DATA"), reason="FEBM_DATA names no folder with the files of the data sets"
)

SIZES = {
    load_melbourne: (796, 342, 24),
    load_stocks: (200, 200, 200),
    load_gridwatch: (372, 160, 144),
}


@pytest.mark.parametrize(("load", "sizes"), list(SIZES.items()))
def test_sizes_are_those_of_the_paper(load, sizes):
    data = load()
    train, evaluation = data.train.to_grid()[1], data.evaluation.to_grid()[1]
    assert (len(train), len(evaluation)) == sizes[:2]
    assert train.shape[1:] == evaluation.shape[1:] == (sizes[2], 1)
    assert not np.isnan(train).any()
    assert not np.isnan(evaluation).any()


@pytest.mark.parametrize("load", list(SIZES))
def test_split_is_fixed_by_its_seed_disjoint_and_whole(load):
    one, again, other = load(0), load(0), load(1)
    assert one.train == again.train
    assert one.evaluation == again.evaluation
    assert set(one.train.ids) != set(other.train.ids)
    assert not set(one.train.ids) & set(one.evaluation.ids)
    assert sorted([*one.train.ids, *one.evaluation.ids]) == list(range(len(one.train) + len(one.evaluation)))


@pytest.mark.parametrize("load", [load_melbourne, load_stocks])
def test_training_values_have_mean_0_and_variance_1(load):
    train = load().train
    np.testing.assert_allclose([train.y.mean(), train.y.std()], [0, 1], atol=1e-12)


def test_melbourne_has_56_more_days_with_missing_hours():
    data = load_melbourne(complete=False, standardise=False)
    lengths = np.concatenate([data.train.lengths, data.evaluation.lengths])
    assert len(lengths) == 1194
    assert np.sum(24 - lengths) == 82
    assert np.sum(lengths < 24) == 56


def test_stocks_are_the_first_400_of_the_complete_tickers():
    data = load_stocks(standardise=False)
    tickers = sorted([*data.train.covariates["ticker"], *data.evaluation.covariates["ticker"]])
    assert len(set(tickers)) == 400
    assert tickers[:4] == ["A", "AAL", "AAP", "AAPL"]
    assert "ALLE" not in tickers  # listed in November 2013
    apple = data.train if "AAPL" in set(data.train.covariates["ticker"]) else data.evaluation
    row = apple.to_grid()[1][apple.covariates["ticker"].to_list().index("AAPL"), :2, 0]
    np.testing.assert_array_equal(row, [68.4014, 69.2771])


@pytest.fixture(scope="module")
def readings():
    path = Path(os.environ["FEBM_DATA"]) / "gridwatch.csv.gz"
    if not path.exists():
        pytest.skip("the folder that FEBM_DATA names has no gridwatch.csv.gz")
    return path


def test_rule_for_clean_days_gives_the_ready_made_ones(tmp_path, readings):
    (tmp_path / "gridwatch.csv.gz").symlink_to(readings)
    by_rule, ready = load_gridwatch(data_home=tmp_path), load_gridwatch()
    assert by_rule.train == ready.train
    assert by_rule.evaluation == ready.evaluation
    assert sorted(ready.train.covariates["date"])[0] == "2018-01-01"


@pytest.mark.parametrize(("year", "first_id", "download"), [(2018, 692_291, 0), (2019, 797_279, 1)])
def test_checksum_of_a_download_is_that_of_the_same_readings_as_published(readings, year, first_id, download):
    table = pd.read_csv(readings, dtype=str)
    table = table[table["timestamp"].str.startswith(str(year))]
    lines = (f"{first_id + i}, {time}, {mw}" for i, (time, mw) in enumerate(table.itertuples(index=False)))
    content = "\r\n".join(["id, timestamp, demand", *lines, ""]).encode()
    assert hashlib.sha256(content).hexdigest() == gridwatch.FILES.downloads[download].sha256


def test_fashion_mnist_has_70_000_pictures_of_ten_equal_classes():
    data = load_fashion_mnist()
    assert (len(data.train), len(data.evaluation)) == (60_000, 10_000)
    assert data.train.y.shape == (60_000 * 784, 1)
    assert set(data.train.covariates["class_name"].value_counts()) == {6_000}
    assert set(data.evaluation.covariates["label"].value_counts()) == {1_000}
    assert (data.train.y.min(), data.train.y.max()) == (0.0, 1.0)
    assert data.train.covariates["class_name"][0] == "Ankle boot"
