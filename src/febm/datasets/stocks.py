"""The paper's Stocks data: the highest price of a day, one company a curve, from February 2013 on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from febm.curves import Curves
from febm.datasets.base import Dataset
from febm.datasets.files import DataFiles, Download
from febm.datasets.preparation import in_training_units, in_two_parts, units
from febm.datasets.tables import dates, header_of, numbers, read_table, refuse, require_two
from febm.randomness import RandomState

STOCKS, DAYS = 400, 200
SPLIT = (200, 200)

FILES = DataFiles(
    owner="load_stocks",
    choices=(("all_stocks_5yr.csv",), ("stocks.csv",)),
    folder="stocks",
    downloads=(
        Download(
            "all_stocks_5yr.csv",
            "6aea253cd19de60b568143991aaf1fa482456565c389205658d236e595e716cf",
            (
                "https://raw.githubusercontent.com/CNuge/kaggle-code/f1109438d6cfb3ffdaa7d4480437cfbaaedd3236/"
                "stock_data/all_stocks_5yr.csv",
                "https://raw.githubusercontent.com/plotly/datasets/master/all_stocks_5yr.csv",
            ),
        ),
    ),
)


def load_stocks(
    random_state: RandomState = 0, *, data_home: str | os.PathLike[str] | None = None, standardise: bool = True
) -> Dataset:
    """Daily high of 400 stocks of the S&P 500 at x = trading day 0, …, 199 since 2013-02-08; 200 to train on.

    Of the 468 stocks with a price on every day of the five years in the file, these are the first 400 in the order of
    their tickers; which 400 the paper has is not published, for its code takes them as a directory lists them. The
    covariate is `ticker`. From a file with fewer stocks or days, all of them are taken and split in halves.

    Parameters
    ----------
    random_state
        What the split is drawn with.
    data_home
        A folder with Kaggle's `all_stocks_5yr.csv` (columns date, open, high, low, close, volume, Name), or with
        `stocks.csv` (a column date and one of highs per ticker). None: the folder FEBM_DATA names, or else a download
        into the cache.
    standardise
        Whether to subtract the mean of all training values and divide by their standard deviation, as the paper
        does; both are in `description`. False gives US dollars. The authors' released code takes the two numbers
        from the first three curves only, so that errors published in these units are not recovered exactly.

    Examples
    --------
    >>> data = load_stocks(random_state=0)  # doctest: +SKIP
    >>> len(data.train), len(data.evaluation)  # doctest: +SKIP
    (200, 200)
    """
    (path,) = FILES.paths(data_home)
    complete = read_highs(path).iloc[:DAYS, :STOCKS]
    require_two(path, complete.shape[1], "stocks with a price on every day")
    curves = Curves.from_grid(
        np.arange(len(complete)), complete.to_numpy().T, covariates=pd.DataFrame({"ticker": list(complete.columns)})
    )
    train, evaluation = in_two_parts(curves, SPLIT, random_state)
    first, last = (day.date().isoformat() for day in complete.index[[0, -1]])
    description = f"Daily high of {len(curves):,} S&P 500 stocks on {len(complete)} trading days, {first} to {last}."
    if standardise:
        train, evaluation, mean, scale = in_training_units(train, evaluation, FILES.owner)
        description += f" {units('US dollars', mean, scale)}"
    return Dataset(
        train=train,
        evaluation=evaluation,
        description=description,
        source="Kaggle, S&P 500 stock data (camnugent/sandp500), by Cam Nugent",
        licence="the author's repository CNuge/kaggle-code is under the MIT licence",
    )


def read_highs(path: Path) -> pd.DataFrame:
    """Highs by date and ticker, both sorted, of the stocks that have one on every day of the file."""
    highs = _read_long(path) if "Name" in header_of(path) else _read_wide(path)
    return highs.loc[:, highs.notna().all()].sort_index(axis=1)


def _read_long(path: Path) -> pd.DataFrame:
    """Highs by date (sorted) and ticker from a table with a row for every stock and day."""
    table = read_table(path, ["date", "high", "Name"])
    nameless = table.index[table["Name"].isna()]
    if len(nameless):
        refuse(path, "has no ticker in the column 'Name'", nameless[0])
    table = pd.DataFrame(
        {"date": dates(table, "date", "%Y-%m-%d", path), "Name": table["Name"], "high": numbers(table, "high", path)}
    )
    twice = table.duplicated(["date", "Name"])
    if twice.any():
        line = table.index[twice][0]
        refuse(path, f"has {table.at[line, 'Name']} a second time on {table.at[line, 'date']:%Y-%m-%d}", line)
    return table.pivot(index="date", columns="Name", values="high")


def _read_wide(path: Path) -> pd.DataFrame:
    """Highs by date (sorted) and ticker from a table with a row for every day and a column for every stock."""
    table = read_table(path)
    if "date" not in table.columns:
        refuse(path, "has neither the columns date, high and Name, nor a column date and one per ticker")
    days = pd.DatetimeIndex(dates(table, "date", "%Y-%m-%d", path))
    if days.has_duplicates:
        again = days.duplicated()
        refuse(path, f"has {days[again][0]:%Y-%m-%d} a second time", table.index[again][0])
    highs = {name: numbers(table, name, path) for name in table.columns if name != "date"}
    return pd.DataFrame(highs, index=days).sort_index()
