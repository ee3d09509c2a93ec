"""Tables for people."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from rich.table import Table


def as_rich_table(frame: pd.DataFrame, formats: Mapping[str, str]) -> Table:
    """The table, numbers in their formats to the right, words to the left, nothing where a number is missing."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in frame.columns:
        table.add_column(str(name), justify="right" if name in formats else "left", no_wrap=True)
    for row in frame.to_dict("records"):
        cells = (
            ("" if pd.isna(value) else format(value, formats[name])) if name in formats else str(value)
            for name, value in row.items()
        )
        table.add_row(*cells)
    return table


def as_facts(rows: Mapping[str, str]) -> Table:
    """Names and what they are, line by line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(name, text)
    return table
