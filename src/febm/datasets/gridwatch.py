"""The paper's GridWatch data: electricity demand of Great Britain over a day, one day a curve."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.datasets.files import DataFiles, Download
from febm.datasets.preparation import in_two_parts
from febm.datasets.tables import dates, header_of, numbers, read_table, refuse, require_two
from febm.randomness import RandomState

DAYS = 532
SPLIT = (372, 160)
SLOTS = 288  # of five minutes
FIRST_DAY = "2018-01-01"
LOWEST, HIGHEST = 12_000, 62_000  # MW; readings outside are faults of the feed
LARGEST_STEP = 2_500  # MW in five minutes
LONGEST_RUN = 5  # of equal readings; more are a feed that stands still
COLUMNS = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in range(0, 60, 10)]

REPOSITORY = (
    "https://raw.githubusercontent.com/GraceESH/psy6422_energy_demand/41fc515413087b7b8008e7d67600a0b9e5db41fa/raw"
)
FILES = DataFiles(
    owner="load_gridwatch",
    choices=(("gridwatch_days.csv",), ("gridwatch.csv",), ("gridwatch_20??.csv",)),
    folder="gridwatch",
    downloads=(
        Download(
            "gridwatch_2018.csv",
            "34eaf589f746f902a56b95c2032821957c24b2d5d2939046873f03b6bf8d9685",
            (f"{REPOSITORY}/gridwatch_2018.csv",),
        ),
        Download(
            "gridwatch_2019.csv",
            "1f42685697cd38d3318ef7740e258d843e57c95643316d398c4b4091a3f4c2db",
            (f"{REPOSITORY}/gridwatch_2019.csv",),
        ),
    ),
)


def load_gridwatch(
    random_state: RandomState = 0, *, data_home: str | os.PathLike[str] | None = None, standardise: bool = True
) -> Dataset:
    """532 days of British electricity demand, every ten minutes at x = hour 0, 1/6, …, 23 5/6; 372 to train on.

    The paper's 532 days are not published. These are the first 532 clean ones since 2018-01-01, where times are taken
    down to five-minute slots, the first reading of a slot counts, and a day is clean if all its 288 slots are filled
    with 12,000 to 62,000 MW, no step between neighbours exceeds 2,500 MW, and no value comes six or more times in a
    row. Every second slot is kept, as in the paper. The covariates are `date`, `weekday`, and the `mean` and `scale`
    of the day's demand in MW. From files with fewer clean days all of them are taken, 70 % to train on.

    Parameters
    ----------
    random_state
        What the split is drawn with.
    data_home
        A folder with GridWatch's own `gridwatch.csv`, or `gridwatch_2018.csv`, `gridwatch_2019.csv`, … (columns id,
        timestamp, demand and perhaps more), or with `gridwatch_days.csv` (columns date, 00:00, 00:10, …, 23:50;
        days that are clean already), which is taken first. None: the folder FEBM_DATA names, or else a download into
        the cache.
    standardise
        Whether every curve is given less its own mean and divided by its own standard deviation, as in the paper.
        The demand in MW is then `mean` + `scale`·y. False gives MW.

    Examples
    --------
    >>> data = load_gridwatch(random_state=0)  # doctest: +SKIP
    >>> len(data.train), len(data.evaluation)  # doctest: +SKIP
    (372, 160)
    """
    paths = FILES.paths(data_home)
    days, demand = _read_days(paths[0]) if header_of(paths[0])[:1] == ["date"] else _clean_days(_readings(paths))
    days, demand = days[:DAYS], demand[:DAYS]
    require_two(paths[0], len(days), f"clean days since {FIRST_DAY}")
    mean, scale = demand.mean(axis=1), demand.std(axis=1)
    table = pd.DataFrame({"date": days.strftime("%Y-%m-%d"), "weekday": days.day_name(), "mean": mean, "scale": scale})
    if standardise:
        still = np.flatnonzero(scale == 0)
        if len(still):
            refuse(paths[0], f"has the same demand all day on {table['date'][still[0]]}, which has no scale")
        demand = (demand - mean[:, None]) / scale[:, None]
    curves = Curves.from_grid(np.arange(len(COLUMNS)) / 6, demand, covariates=table)
    train, evaluation = in_two_parts(curves, SPLIT, random_state)
    unit = "each standardised by itself: MW = mean + scale·y" if standardise else "in MW"
    return Dataset(
        train=train,
        evaluation=evaluation,
        description=f"Electricity demand of Great Britain every ten minutes on {len(curves):,} days, "
        f"{table['date'].iloc[0]} to {table['date'].iloc[-1]}, {unit}.",
        source="GridWatch (gridwatch.templar.co.uk), from Elexon's BM Reports",
        licence="GridWatch states none; the data are Elexon's, published as open data",
    )


def _readings(paths: list[Path]) -> pd.Series:
    """Demand by time, in order of time; a reading without a value is none."""
    parts = []
    for path in paths:
        table = read_table(path, ["timestamp", "demand"])
        times = dates(table, "timestamp", "%Y-%m-%d %H:%M:%S", path)
        parts.append(pd.Series(numbers(table, "demand", path), index=pd.DatetimeIndex(times)))
    return pd.concat(parts).dropna().sort_index(kind="stable")[FIRST_DAY:]


def _clean_days(readings: pd.Series) -> tuple[pd.DatetimeIndex, Float[np.ndarray, "days 144"]]:
    """The days without a fault, and their demand every ten minutes."""
    slots = readings.index.floor("5min")
    first = ~slots.duplicated()
    slots, demand = slots[first], readings.to_numpy()[first]
    days = slots.normalize()
    # A full day is 288 neighbours in time, so that its readings are a row once the other days are gone.
    full = pd.Series(days).map(days.value_counts()).to_numpy() == SLOTS
    days, demand = days[full][::SLOTS], demand[full].reshape(-1, SLOTS)
    steps = np.diff(demand, axis=1)
    plausible = ((demand >= LOWEST) & (demand <= HIGHEST)).all(axis=1) & (np.abs(steps) <= LARGEST_STEP).all(axis=1)
    runs = np.lib.stride_tricks.sliding_window_view(steps == 0, LONGEST_RUN, axis=1)
    clean = plausible & ~np.any(np.all(runs, axis=2), axis=1)
    return days[clean], demand[clean, ::2]


def _read_days(path: Path) -> tuple[pd.DatetimeIndex, Float[np.ndarray, "days 144"]]:
    """Days that are clean already, one a row."""
    table = read_table(path, ["date", *COLUMNS])
    demand = np.column_stack([numbers(table, column, path) for column in COLUMNS])
    holes = np.flatnonzero(np.isnan(demand).any(axis=1))
    if len(holes):
        refuse(path, "has an empty field; days have to be complete", table.index[holes[0]])
    return pd.DatetimeIndex(dates(table, "date", "%Y-%m-%d", path)), demand
