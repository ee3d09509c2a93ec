"""The paper's Melbourne data: pedestrians counted in each hour of a day, one day at one of ten places a curve."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.datasets.files import DataFiles, Download, opened
from febm.datasets.preparation import in_training_units, in_two_parts, units
from febm.datasets.tables import UNREADABLE, header_of, numbers, read_table, refuse, require_two
from febm.randomness import RandomState

HOURS = 24
SPLIT = (796, 342)
SENSORS = (
    "Bourke Street Mall (North)",
    "Southern Cross Station",
    "New Quay",
    "Flinders St Station Underpass",
    "QV Market-Elizabeth (West)",
    "Convention/Exhibition Centre",
    "Chinatown-Swanston St (North)",
    "Webb Bridge",
    "Tin Alley-Swanston St (West)",
    "Southbank",
)

FILES = DataFiles(
    owner="load_melbourne",
    choices=(("MelbournePedestrian_TRAIN.ts",), ("melbourne.csv",)),
    folder="MelbournePedestrian",
    downloads=(
        Download(
            "MelbournePedestrian_TRAIN.ts",
            "546bb7ad263ea8376cd615ff8c6c077902f3ac20112b5adeef39a8106e318ded",
            (
                "https://raw.githubusercontent.com/SamirMoustafa/Time-Series-Classification/"
                "8778e849ea3e81705d3511747e1841e2401b592e/Univariate_ts/MelbournePedestrian/"
                "MelbournePedestrian_TRAIN.ts",
            ),
        ),
    ),
)


def load_melbourne(
    random_state: RandomState = 0,
    *,
    data_home: str | os.PathLike[str] | None = None,
    complete: bool = True,
    standardise: bool = True,
) -> Dataset:
    """1138 days of hourly pedestrian counts in Melbourne, 2017, at x = hour 0, …, 23; 796 to train on.

    It is the training part of the problem MelbournePedestrian of the UCR archive. The covariates are `sensor`, from 1
    to 10, and `sensor_name`, the place. The paper's split is random and not published; here `random_state` makes it.
    From a file with other than 1138 days it is in the same proportion, 70 %.

    Parameters
    ----------
    random_state
        What the split is drawn with.
    data_home
        A folder with `MelbournePedestrian_TRAIN.ts`, or with `melbourne.csv` (columns split, label, h00, …, h23).
        None: the folder FEBM_DATA names, or else a download into the cache.
    complete
        Whether to drop days with a missing hour. False keeps all 1194, each at the hours that were observed.
    standardise
        Whether to subtract the mean of all training values and divide by their standard deviation, as the paper
        does; both are in `description`. False gives the counts. The authors' released code takes the two numbers
        from the first three curves only, so that errors published in these units are not recovered exactly.

    Examples
    --------
    >>> data = load_melbourne(random_state=0)  # doctest: +SKIP
    >>> len(data.train), len(data.evaluation)  # doctest: +SKIP
    (796, 342)
    """
    (path,) = FILES.paths(data_home)
    counts, sensors = _read_csv(path) if header_of(path)[:1] == ["split"] else _read_ts(path)
    kept = ~np.isnan(counts).any(axis=1) if complete else ~np.isnan(counts).all(axis=1)
    counts, sensors = counts[kept], sensors[kept]
    require_two(path, len(counts), "complete days" if complete else "days")
    table = pd.DataFrame({"sensor": sensors, "sensor_name": [SENSORS[sensor - 1] for sensor in sensors]})
    curves = Curves.from_grid(np.arange(HOURS), counts, covariates=table)
    train, evaluation = in_two_parts(curves, SPLIT, random_state)
    description = f"{len(curves):,} days of hourly pedestrian counts by ten sensors in Melbourne, 2017."
    if standardise:
        train, evaluation, mean, scale = in_training_units(train, evaluation, FILES.owner)
        description += f" {units('count', mean, scale)}"
    return Dataset(
        train=train,
        evaluation=evaluation,
        description=description,
        source="City of Melbourne, pedestrian counting system; edited for the UCR archive (MelbournePedestrian, "
        "training part) by Hoang Anh Dau",
        licence="the archive states none; the counts are open data of the City of Melbourne",
    )


def _read_ts(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Counts and sensors of a `.ts` file: after `@data` a line is `97.0,?,…:class`; hours left off are missing."""
    try:
        with opened(path) as file:
            lines = file.read().decode("utf-8-sig").splitlines()
    except UNREADABLE as error:
        refuse(path, f"cannot be read ({error})")
    starts = [i for i, line in enumerate(lines) if line.strip().lower() == "@data"]
    if not starts:
        refuse(path, "has no line '@data', after which the days would follow")
    days, sensors = [], []
    for i, line in enumerate(lines[starts[0] + 1 :], start=starts[0] + 2):
        if not line.strip() or line.startswith("#"):
            continue
        values, colon, label = line.partition(":")
        if not colon:
            refuse(path, "has no ':' before the class of the day", i)
        days.append(_day(values.split(","), path, i))
        sensors.append(_sensor(label.strip(), path, i))
    return np.array(days).reshape(-1, HOURS), np.array(sensors, dtype=np.int64)


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Counts and sensors of a table with the columns split, label, h00, …, h23."""
    hours = [f"h{hour:02}" for hour in range(HOURS)]
    table = read_table(path, ["split", "label", *hours])
    table = table[table["split"] == "train"]
    counts = np.column_stack([numbers(table, hour, path) for hour in hours])
    labels = zip(table["label"], table.index, strict=True)
    return counts, np.array([_sensor(str(label), path, line) for label, line in labels], dtype=np.int64)


def _day(values: list[str], path: Path, line: int) -> list[float]:
    if len(values) > HOURS:
        refuse(path, f"has {len(values)} values for the {HOURS} hours of a day", line)
    day = [np.nan] * HOURS
    for hour, value in enumerate(map(str.strip, values)):
        if value in ("?", ""):
            continue
        try:
            day[hour] = float(value)
        except ValueError:
            refuse(path, f"has {value!r} at hour {hour}, which is not a number", line)
        if np.isinf(day[hour]):
            refuse(path, f"has {value!r} at hour {hour}, which is not a number", line)
    return day


def _sensor(label: str, path: Path, line: int) -> int:
    if not label.isdecimal() or not 1 <= int(label) <= len(SENSORS):
        refuse(path, f"has the class {label!r}; sensors are numbered from 1 to {len(SENSORS)}", line)
    return int(label)
