"""GridWatch from its own files: which days count as clean, and what becomes of them."""

import numpy as np
import pandas as pd
import pytest

from febm.datasets import load_gridwatch
from febm.errors import FormatError


def whole(data):
    """Ids and values of both parts in the order of the file."""
    ids = np.concatenate([data.train.ids, data.evaluation.ids])
    values = np.concatenate([data.train.to_grid()[1], data.evaluation.to_grid()[1]])[..., 0]
    return np.sort(ids), values[np.argsort(ids)]


def whole_table(data):
    ids = np.concatenate([data.train.ids, data.evaluation.ids])
    return pd.concat([data.train.covariates, data.evaluation.covariates]).iloc[np.argsort(ids)].reset_index(drop=True)


def smooth_day(date):
    """Times some seconds into their slots, and readings without a fault."""
    slots = pd.date_range(date, periods=288, freq="5min") + pd.Timedelta(seconds=33)
    demand = 30_000 + 8_000 * np.sin(np.arange(288) / 288 * 2 * np.pi - 2) + 50 * (np.arange(288) % 2)
    return pd.Series(demand.round(), index=slots)


def write_gridwatch(path, readings, *, more=False):
    end = ", 50.001, 1234" if more else ""
    lines = [f"{692_291 + i}, {time}, {value:.0f}{end}" for i, (time, value) in enumerate(readings)]
    header = "id, timestamp, demand" + (", frequency, coal" if more else "")
    path.write_bytes("\r\n".join([header, *lines, ""]).encode())


@pytest.fixture
def readings():
    """Days from 2017-12-30 on; those of 2018 with a fault are named in `faulty`, the rest are clean."""
    days = [smooth_day(date) for date in pd.date_range("2017-12-30", "2018-01-14")]
    faulty = {
        "2018-01-02": lambda day: day.drop(day.index[100]),  # a gap
        "2018-01-03": lambda day: day.mask(np.arange(288) == 17, 0),  # a zero
        "2018-01-04": lambda day: day.mask(np.arange(288) == 50, day + 3_000),  # a spike
        "2018-01-05": lambda day: day.mask((np.arange(288) >= 60) & (np.arange(288) < 66), 31_000.0),  # stuck
        "2018-01-06": lambda day: day.mask(np.arange(288) == 200, 63_000.0),  # beyond all demand
    }
    changed = {
        # Five equal readings are no fault yet, nor is a second reading in a slot, of which the first counts.
        "2018-01-07": lambda day: day.mask((np.arange(288) >= 60) & (np.arange(288) < 65), day.iloc[60]),
        "2018-01-08": lambda day: pd.concat(
            [day, pd.Series([0.0], index=[day.index[9] + pd.Timedelta(minutes=4)])]
        ).sort_index(),
    }
    edits = faulty | changed
    days = [edits.get(f"{day.index[0]:%Y-%m-%d}", lambda day: day)(day) for day in days]
    return pd.concat(days), list(faulty)


def as_rows(series):
    return [(time.strftime("%Y-%m-%d %H:%M:%S"), value) for time, value in series.items()]


@pytest.mark.parametrize("more", [False, True])
def test_gridwatch_keeps_clean_days_since_2018(tmp_path, readings, more):
    series, faulty = readings
    write_gridwatch(tmp_path / "gridwatch.csv", as_rows(series), more=more)
    data = load_gridwatch(data_home=tmp_path, standardise=False)
    table = whole_table(data)
    expected = [f"2018-01-{day:02}" for day in range(1, 15) if f"2018-01-{day:02}" not in faulty]
    assert table["date"].tolist() == expected
    assert table["weekday"].tolist() == pd.DatetimeIndex(expected).day_name().tolist()
    _, values = whole(data)
    for date, row in zip(expected, values, strict=True):
        day = series[date]
        np.testing.assert_array_equal(row, day[~day.index.floor("5min").duplicated()][::2])
    np.testing.assert_allclose(data.train.to_grid()[0], np.arange(144) / 6)
    assert (len(data.train), len(data.evaluation)) == (6, 3)


def test_gridwatch_joins_yearly_files_in_any_order_of_lines(tmp_path, readings):
    series, _ = readings
    (tmp_path / "one").mkdir()
    (tmp_path / "years").mkdir()
    write_gridwatch(tmp_path / "one" / "gridwatch.csv", as_rows(series))
    rows = as_rows(series)
    half = len(rows) // 2
    write_gridwatch(tmp_path / "years" / "gridwatch_2017.csv", rows[half:])
    write_gridwatch(tmp_path / "years" / "gridwatch_2018.csv", rows[:half])
    one, years = load_gridwatch(data_home=tmp_path / "one"), load_gridwatch(data_home=tmp_path / "years")
    assert one.train == years.train
    assert one.evaluation == years.evaluation


def test_gridwatch_standardises_every_day_by_itself_and_keeps_the_way_back(tmp_path, readings):
    write_gridwatch(tmp_path / "gridwatch.csv", as_rows(readings[0]))
    raw, data = (load_gridwatch(data_home=tmp_path, standardise=flag) for flag in (False, True))
    values = data.train.to_grid()[1][..., 0]
    np.testing.assert_allclose(values.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(values.std(axis=1), 1)
    mean, scale = (data.train.covariates[[name]].to_numpy() for name in ("mean", "scale"))
    np.testing.assert_allclose(mean + scale * values, raw.train.to_grid()[1][..., 0])


def test_gridwatch_takes_ready_made_days_first(tmp_path, readings):
    write_gridwatch(tmp_path / "gridwatch.csv", as_rows(readings[0]))
    dates = pd.date_range("2020-05-01", periods=3).strftime("%Y-%m-%d")
    columns = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in range(0, 60, 10)]
    days = pd.DataFrame(np.arange(3 * 144).reshape(3, 144), columns=columns, index=pd.Index(dates, name="date"))
    days.to_csv(tmp_path / "gridwatch_days.csv.gz")
    data = load_gridwatch(data_home=tmp_path, standardise=False)
    assert whole_table(data)["date"].tolist() == dates.tolist()
    np.testing.assert_array_equal(whole(data)[1], days)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("2, 2018-01-01 00:05:33, plenty", "'plenty' for 'demand'"),
        ("2, yesterday, 26354", "'yesterday' for 'timestamp'"),
    ],
)
def test_gridwatch_names_file_and_line_of_a_fault(tmp_path, line, fault):
    (tmp_path / "gridwatch.csv").write_text(f"id, timestamp, demand\n1, 2018-01-01 00:00:34, 26450\n\n{line}\n")
    with pytest.raises(FormatError, match=rf"gridwatch.csv, line 4, has {fault}"):
        load_gridwatch(data_home=tmp_path)


def test_gridwatch_says_when_a_file_has_no_clean_days_or_other_columns(tmp_path):
    path = tmp_path / "gridwatch.csv"
    write_gridwatch(path, as_rows(smooth_day("2016-01-01")))
    with pytest.raises(FormatError, match="has too few clean days since 2018-01-01: 0, where at least 2"):
        load_gridwatch(data_home=tmp_path)
    path.write_text("id, time, load\n1, 2018-01-01 00:00:34, 26450\n")
    with pytest.raises(FormatError, match="has no column 'timestamp', 'demand'; its first line is 'id,time,load'"):
        load_gridwatch(data_home=tmp_path)
    path.write_text("")
    with pytest.raises(FormatError, match=r"gridwatch.csv has no column"):
        load_gridwatch(data_home=tmp_path)
