"""Data sets from files as their publishers write them: what is read, dropped, split and standardised, and how."""

import numpy as np
import pandas as pd
import pytest

from febm.datasets import load_gp_draws, load_melbourne, load_stocks
from febm.errors import FormatError


def whole(data):
    """Ids and values of both parts in the order of the file."""
    ids = np.concatenate([data.train.ids, data.evaluation.ids])
    values = np.concatenate([data.train.to_grid()[1], data.evaluation.to_grid()[1]])[..., 0]
    return np.sort(ids), values[np.argsort(ids)]


def whole_table(data):
    ids = np.concatenate([data.train.ids, data.evaluation.ids])
    return pd.concat([data.train.covariates, data.evaluation.covariates]).iloc[np.argsort(ids)].reset_index(drop=True)


# Draws of a Gaussian process


def test_gp_draws_have_the_size_of_the_paper_and_points_of_their_own():
    data = load_gp_draws()
    assert (len(data.train), len(data.evaluation)) == (100, 100)
    assert set(data.train.lengths) == {50}
    assert len(np.unique(data.train.x)) == 100 * 50
    assert data.train.x.min() >= -5
    assert data.train.x.max() <= 5


def test_gp_draws_have_the_covariance_they_claim():
    """Each mean is over 1,000 independent draws: 5 standard errors are left once in 1.7 million times."""
    data = load_gp_draws(n_train=1000, n_evaluation=1, points=2, length_scale=2.0)
    x, y = data.train.x.reshape(-1, 2), data.train.y.reshape(-1, 2)
    k = np.exp(-((x[:, 0] - x[:, 1]) ** 2) / 8)
    assert abs(np.mean(y)) < 5 * np.sqrt(np.mean(1 + k) / 2000)
    # Var(y₁y₂) = 1 + k² and Var(y²) = 2 for unit variances and correlation k.
    assert abs(np.mean(y[:, 0] * y[:, 1] - k)) < 5 * np.sqrt(np.mean(1 + k**2) / 1000)
    assert abs(np.mean(y[:, 0] ** 2) - 1) < 5 * np.sqrt(2 / 1000)


def test_gp_draws_are_free_of_noise():
    """A cubic through the four nearest of 400 points misses a smooth function by about (4 h)⁴ ≪ 1e-3."""
    data = load_gp_draws(n_train=1, n_evaluation=1, points=400, length_scale=1.0)
    x, y = data.train.x[:, 0], data.train.y[:, 0]
    for i in range(50, 350, 10):
        near = [i - 2, i - 1, i + 1, i + 2]
        scale = x[i + 2] - x[i - 2]
        cubic = np.polyfit((x[near] - x[i]) / scale, y[near], 3)
        assert abs(cubic[-1] - y[i]) < 1e-3


@pytest.mark.parametrize("bad", [{"n_train": 0}, {"points": 2.5}, {"length_scale": 0.0}, {"length_scale": np.nan}])
def test_gp_draws_refuse_impossible_sizes(bad):
    with pytest.raises(ValueError, match=f"load_gp_draws: {next(iter(bad))} is"):
        load_gp_draws(**bad)


def test_seed_fixes_the_gp_draws():
    assert load_gp_draws(3).train == load_gp_draws(3).train
    assert load_gp_draws(3).train != load_gp_draws(4).train


# Melbourne

TS_HEADER = """#A comment, with 97.0,42.0:1 in it
@problemName MelbournePedestrian
@timeStamps false
@missing true
@univariate true
@equalLength false
@classLabel true 1 2 3 4 5 6 7 8 9 10
@data
"""


def ts_line(values, label):
    return ",".join("?" if np.isnan(value) else f"{value:.1f}" for value in values) + f":{label}"


@pytest.fixture
def melbourne():
    """20 days, two of them with missing hours and two stored short."""
    counts = np.random.default_rng(0).integers(0, 9000, (20, 24)).astype(float)
    counts[3, [0, 5]] = np.nan
    counts[7, :9] = np.nan
    counts[11, 21:] = np.nan
    counts[12, 9:] = np.nan
    labels = np.arange(20) % 10 + 1
    return counts, labels


def write_ts(folder, counts, labels):
    stored = [row[:21] if i == 11 else row[:9] if i == 12 else row for i, row in enumerate(counts)]
    lines = "\n".join(ts_line(row, label) for row, label in zip(stored, labels, strict=True))
    (folder / "MelbournePedestrian_TRAIN.ts").write_text(TS_HEADER + lines + "\n")


def test_melbourne_drops_days_with_a_missing_hour(tmp_path, melbourne):
    counts, labels = melbourne
    write_ts(tmp_path, counts, labels)
    data = load_melbourne(data_home=tmp_path, standardise=False)
    complete = ~np.isnan(counts).any(axis=1)
    ids, values = whole(data)
    np.testing.assert_array_equal(values, counts[complete])
    np.testing.assert_array_equal(ids, np.arange(16))
    np.testing.assert_array_equal(whole_table(data)["sensor"], labels[complete])
    np.testing.assert_array_equal(data.train.to_grid()[0], np.arange(24))


def test_melbourne_keeps_them_at_the_observed_hours_when_asked(tmp_path, melbourne):
    write_ts(tmp_path, *melbourne)
    data = load_melbourne(data_home=tmp_path, complete=False, standardise=False)
    np.testing.assert_array_equal(whole(data)[1], melbourne[0])


def test_melbourne_names_the_place_of_every_sensor(tmp_path, melbourne):
    write_ts(tmp_path, *melbourne)
    table = whole_table(load_melbourne(data_home=tmp_path, complete=False))
    places = dict(zip(table["sensor"], table["sensor_name"], strict=True))
    assert places[1] == "Bourke Street Mall (North)"
    assert places[10] == "Southbank"
    assert len(set(places.values())) == 10


def test_melbourne_is_standardised_by_its_training_part(tmp_path, melbourne):
    write_ts(tmp_path, *melbourne)
    raw, data = (load_melbourne(data_home=tmp_path, standardise=flag) for flag in (False, True))
    mean, scale = raw.train.y.mean(), raw.train.y.std()
    np.testing.assert_allclose(data.train.y, (raw.train.y - mean) / scale, rtol=1e-12)
    np.testing.assert_allclose(data.evaluation.y, (raw.evaluation.y - mean) / scale, rtol=1e-12)
    assert f"count = {mean:.10g} + {scale:.10g}·y" in data.description


def test_melbourne_reads_the_compact_table_alike(tmp_path, melbourne):
    counts, labels = melbourne
    write_ts(tmp_path, counts, labels)
    expected = load_melbourne(data_home=tmp_path)
    (tmp_path / "MelbournePedestrian_TRAIN.ts").unlink()
    table = pd.DataFrame(counts, columns=[f"h{hour:02}" for hour in range(24)]).astype("Int64")
    table.insert(0, "label", labels)
    table.insert(0, "split", "train")
    test_day = table.iloc[:1].assign(split="test")
    pd.concat([table, test_day]).to_csv(tmp_path / "melbourne.csv.gz", index=False)
    data = load_melbourne(data_home=tmp_path)
    assert data.train == expected.train
    assert data.evaluation == expected.evaluation


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("1.0,many:3", "'many' at hour 1"),
        ("1.0,inf:3", "'inf' at hour 1"),
        ("1.0,2.0", "no ':'"),
        ("1.0,2.0:11", "class '11'"),
        (",".join(["1.0"] * 25) + ":3", "25 values"),
    ],
)
def test_melbourne_names_file_and_line_of_a_fault(tmp_path, melbourne, line, fault):
    counts, labels = melbourne
    good = ts_line(counts[0], labels[0])
    (tmp_path / "MelbournePedestrian_TRAIN.ts").write_text(TS_HEADER + f"{good}\n{line}\n{good}\n")
    with pytest.raises(FormatError, match=rf"MelbournePedestrian_TRAIN.ts, line 10, has .*{fault}"):
        load_melbourne(data_home=tmp_path)


def test_melbourne_needs_the_data_line_and_two_days(tmp_path, melbourne):
    path = tmp_path / "MelbournePedestrian_TRAIN.ts"
    path.write_text("@problemName MelbournePedestrian\n")
    with pytest.raises(FormatError, match="no line '@data'"):
        load_melbourne(data_home=tmp_path)
    path.write_text(TS_HEADER + ts_line(melbourne[0][0], 1) + "\n")
    with pytest.raises(FormatError, match="has too few complete days: 1, where at least 2"):
        load_melbourne(data_home=tmp_path)


def test_melbourne_of_one_value_has_no_scale(tmp_path):
    (tmp_path / "MelbournePedestrian_TRAIN.ts").write_text(TS_HEADER + (ts_line(np.ones(24), 1) + "\n") * 3)
    with pytest.raises(ValueError, match="all training values are 1, so they have no scale; give standardise=False"):
        load_melbourne(data_home=tmp_path)


# Stocks


@pytest.fixture
def prices():
    """210 days of 12 tickers: LATE is listed late, GAP misses a day long after those that are kept, NA is a name."""
    dates = pd.bdate_range("2013-02-08", periods=210)
    names = ["ZZZ", "LATE", "AAPL", "AAP", "GAP", "NA", "B", "C", "D", "E", "F", "G"]
    high = pd.DataFrame(
        np.random.default_rng(1).uniform(5, 500, (210, 12)).round(4), index=dates.strftime("%Y-%m-%d"), columns=names
    )
    high.loc[high.index[:30], "LATE"] = np.nan
    high.loc[high.index[205], "GAP"] = np.nan
    return high


def write_kaggle(path, high, *, shuffled=True):
    long = high.stack().dropna().rename_axis(["date", "Name"]).rename("high").reset_index()
    long = long.assign(open=1.0, low=2.0, close=3.0, volume=4)
    if shuffled:
        long = long.sample(frac=1, random_state=0)
    # A day without a high has a row in the publisher's file, too.
    gap = pd.DataFrame([{"date": high.index[205], "Name": "GAP", "low": 2.0, "close": 3.0, "volume": 4}])
    columns = ["date", "open", "high", "low", "close", "volume", "Name"]
    pd.concat([long, gap])[columns].to_csv(path, index=False)


def test_stocks_are_the_complete_tickers_in_order_over_the_first_200_days(tmp_path, prices):
    write_kaggle(tmp_path / "all_stocks_5yr.csv", prices)
    data = load_stocks(data_home=tmp_path, standardise=False)
    expected = sorted(set(prices.columns) - {"LATE", "GAP"})
    assert whole_table(data)["ticker"].tolist() == expected
    np.testing.assert_array_equal(whole(data)[1], prices[expected].iloc[:200].T)
    np.testing.assert_array_equal(data.train.to_grid()[0], np.arange(200))
    assert (len(data.train), len(data.evaluation)) == (5, 5)


def test_stocks_read_the_wide_table_alike(tmp_path, prices):
    (tmp_path / "wide").mkdir()
    write_kaggle(tmp_path / "all_stocks_5yr.csv", prices)
    prices.rename_axis("date").to_csv(tmp_path / "wide" / "stocks.csv.gz")
    one, other = load_stocks(data_home=tmp_path), load_stocks(data_home=tmp_path / "wide")
    assert one.train == other.train
    assert one.evaluation == other.evaluation


def test_stocks_are_standardised_by_their_training_part(tmp_path, prices):
    write_kaggle(tmp_path / "all_stocks_5yr.csv", prices)
    data = load_stocks(data_home=tmp_path)
    np.testing.assert_allclose([data.train.y.mean(), data.train.y.std()], [0, 1], atol=1e-12)
    assert abs(data.evaluation.y.mean()) > 1e-6
    assert "2013-02-08 to 2013-11-14" in data.description
    assert "US dollars = " in data.description


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("2013-02-12,1,dear,1,1,1,AA", "line 4, has 'dear' for 'high'"),
        ("12/02/2013,1,2.5,1,1,1,AA", "line 4, has '12/02/2013' for 'date'"),
        ("2013-02-12,1,2.5,1,1,1,", "line 4, has no ticker"),
        ("2013-02-11,1,2.5,1,1,1,AA", "line 4, has AA a second time on 2013-02-11"),
    ],
)
def test_stocks_name_file_and_line_of_a_fault(tmp_path, line, fault):
    head = "date,open,high,low,close,volume,Name\n2013-02-08,1,2.5,1,1,1,AA\n2013-02-11,1,2.5,1,1,1,AA\n"
    (tmp_path / "all_stocks_5yr.csv").write_text(head + line + "\n")
    with pytest.raises(FormatError, match=f"all_stocks_5yr.csv, {fault}"):
        load_stocks(data_home=tmp_path)


def test_stocks_refuse_a_table_that_is_neither_long_nor_wide(tmp_path):
    (tmp_path / "stocks.csv").write_text("day,AA\n1,2\n")
    with pytest.raises(FormatError, match="neither the columns date, high and Name, nor a column date"):
        load_stocks(data_home=tmp_path)


def test_stocks_refuse_a_date_twice(tmp_path):
    (tmp_path / "stocks.csv").write_text("date,AA,B\n2013-02-08,1,2\n2013-02-08,1,2\n")
    with pytest.raises(FormatError, match=r"stocks.csv, line 3, has 2013-02-08 a second time"):
        load_stocks(data_home=tmp_path)


# Splits


def test_split_is_fixed_by_its_seed_and_leaves_nothing_out(tmp_path):
    counts = np.random.default_rng(3).integers(0, 99, (50, 24)).astype(float)
    (tmp_path / "MelbournePedestrian_TRAIN.ts").write_text(TS_HEADER + "\n".join(ts_line(row, 1) for row in counts))
    one, again, other = (load_melbourne(seed, data_home=tmp_path) for seed in (0, 0, 1))
    assert one.train == again.train
    assert one.evaluation == again.evaluation
    assert set(one.train.ids) != set(other.train.ids)
    assert not set(one.train.ids) & set(one.evaluation.ids)
    assert set(one.train.ids) | set(one.evaluation.ids) == set(range(50))
    assert len(one.train) == 35  # 796 of 1138, of 50
