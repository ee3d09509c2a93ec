"""A table of text as Markdown, as LaTeX and on a page; `**…**` is bold, as in Markdown, and rows of one group touch."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from febm.reporting.page import Table

BOLD = re.compile(r"\*\*(.+)\*\*")
POWER = re.compile("([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
# What TeX reads as an order or cannot set in its usual type.
TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\u00a0": "~",
        "±": r"$\pm$",
        "·": r"$\cdot$",
        "×": r"$\times$",
        "−": "$-$",
        "–": "--",
        "<": "$<$",
        ">": "$>$",
        "≤": r"$\leq$",
        "∞": r"$\infty$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "é": r"\'e",
    }
)
# The column whose value is written once for all rows that share it.
GROUP = "data set"
# Rows that stand beside those of this library.
QUIET = ("published", "floor", "resampled")


def bold(text: str) -> str:
    """The text, marked as the best of its column."""
    return f"**{text}**"


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown."""
    columns = [str(name) for name in table.columns]
    numeric = page_table(table, "").numeric
    rows = [columns, ["---:" if number else "---" for number in numeric], *_written(table)]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows) + "\n"


def latex(table: pd.DataFrame) -> str:
    """A `tabular` with the rules of booktabs, to be put into a `table` of one's own."""
    numeric = page_table(table, "").numeric
    starts = table.index[_starts_group(table)] if len(table) else []
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{@{{}}{''.join('r' if number else 'l' for number in numeric)}@{{}}}}",
        r"\toprule",
        _tex_row([str(name) for name in table.columns]),
        r"\midrule",
    ]
    for place, row in zip(table.index, _written(table), strict=True):
        if place in starts[1:]:
            lines.append(r"\midrule")
        lines.append(_tex_row(row))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def page_table(table: pd.DataFrame, caption: str) -> Table:
    """The block of a page."""
    rows = list(_written(table))
    marked = {
        (i, j): found.group(1)
        for i, row in enumerate(rows)
        for j, cell in enumerate(row)
        if (found := BOLD.fullmatch(cell))
    }
    plain = tuple(tuple(marked.get((i, j), cell) for j, cell in enumerate(row)) for i, row in enumerate(rows))
    quiet = frozenset(i for i, row in enumerate(plain) if any(cell in QUIET for cell in row[:2]))
    return Table(caption, tuple(map(str, table.columns)), plain, frozenset(marked), quiet)


def _starts_group(table: pd.DataFrame) -> pd.Series:
    if GROUP not in table.columns:
        return pd.Series(False, index=table.index)
    return table[GROUP].ne(table[GROUP].shift())


def _written(table: pd.DataFrame) -> Iterator[list[str]]:
    """The cells of every row; a group's name stands in its first row only."""
    starts = _starts_group(table)
    for first, (_, row) in zip(starts, table.iterrows(), strict=True):
        yield ["" if name == GROUP and not first else str(cell) for name, cell in row.items()]


def _tex_row(cells: list[str]) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


def _tex(text: str) -> str:
    marked = BOLD.fullmatch(text)
    plain = marked.group(1) if marked else text
    parts = POWER.split(plain)
    written = "".join(
        f"$^{{{part.translate(DIGITS)}}}$" if i % 2 else part.translate(TEX) for i, part in enumerate(parts)
    )
    return rf"\textbf{{{written}}}" if marked else written
