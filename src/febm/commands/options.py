"""The options that several commands have, spelled and explained once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from febm.commands.terminal import UsageError

MODELS = ("FEBM", "FPCA", "GaussianProcess", "NeuralProcess", "PiVAE", "EBP", "VIP")

TABLE = "Table"
SPEAKING = "Speaking"

DATA_HELP = "Table of curves: .csv, .csv.gz, .tsv, .parquet or .json (records)."
MODEL_HELP = "Model, as febm fit writes it."

Data = Annotated[Path, typer.Argument(metavar="DATA", show_default=False, help=DATA_HELP)]
Model = Annotated[Path, typer.Argument(metavar="MODEL", show_default=False, help=MODEL_HELP)]
ModelOrTable = Annotated[
    Path, typer.Argument(metavar="MODEL", show_default=False, help="Model, or a table of curves in its place.")
]

Curve = Annotated[
    list[str] | None,
    typer.Option(
        "--curve",
        metavar="NAME",
        help="Column that tells curves apart; several by commas.",
        show_default="guessed",
        rich_help_panel=TABLE,
    ),
]
X = Annotated[
    list[str] | None,
    typer.Option(
        "--x",
        metavar="NAME",
        help="Column of x, such as the time; several by commas or by repeating. With --wide: a name for the headers.",
        show_default="guessed",
        rich_help_panel=TABLE,
    ),
]
Y = Annotated[
    list[str] | None,
    typer.Option(
        "--y",
        metavar="NAME",
        help="Column of the value, empty where missing; several as --x. With --wide: a name for the values.",
        show_default="guessed",
        rich_help_panel=TABLE,
    ),
]
Covariate = Annotated[
    list[str] | None,
    typer.Option(
        "--covariate",
        metavar="NAME",
        help="Column that is constant along a curve; several as --x.",
        show_default="none",
        rich_help_panel=TABLE,
    ),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="One curve a row; headers that are numbers are x.", rich_help_panel=TABLE)
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="With --wide: the column of names of curves.",
        show_default="guessed, or counted",
        rich_help_panel=TABLE,
    ),
]

At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="POINTS",
        help="start:stop:count (both ends included), a comma list, or a table of points, in units of x. Several "
        "inputs: a range for each, 0:1:28,0:1:28, or --at repeated.",
        show_default=False,
    ),
]
Noise = Annotated[bool, typer.Option("--noise", help="Values with observation noise, not the functions themselves.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Decides everything random.")]

TableOut = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        show_default=False,
        help="Table to write: .csv, .csv.gz, .tsv, .parquet or .json (records).",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.", rich_help_panel=SPEAKING)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=SPEAKING)]
Traceback = Annotated[
    bool,
    typer.Option(
        "--traceback", envvar="FEBM_TRACEBACK", help="Show where an error comes from.", rich_help_panel=SPEAKING
    ),
]


@dataclasses.dataclass(frozen=True)
class TableForm:
    """How a table is laid out, as far as the user says: column names, or nothing where they are to be found out."""

    curve: tuple[str, ...] = ()
    x: tuple[str, ...] = ()
    y: tuple[str, ...] = ()
    covariate: tuple[str, ...] = ()
    wide: bool = False
    id: str | None = None

    @classmethod
    def of(
        cls,
        curve: Iterable[str] | None,
        x: Iterable[str] | None,
        y: Iterable[str] | None,
        covariate: Iterable[str] | None,
        wide: bool,
        id: str | None,
    ) -> TableForm:
        """From the options, refused where they contradict each other."""
        form = cls(tuple(curve or ()), tuple(x or ()), tuple(y or ()), tuple(covariate or ()), wide, id)
        if wide and form.curve:
            raise UsageError("--curve belongs to a long table; in a wide one --id names the column of names of curves.")
        if wide and (len(words(form.x)) > 1 or len(words(form.y)) > 1):
            raise UsageError("--wide has one x, in its headers, and one y; --x and --y give each a name.")
        if id is not None and not wide:
            raise UsageError("--id belongs to --wide; in a long table --curve tells curves apart.")
        return form


def words(given: Iterable[str] | None) -> tuple[str, ...]:
    """The words of an option that is repeated, holds commas, or both."""
    return tuple(word.strip() for value in given or () for word in value.split(",") if word.strip())


def model_names(given: Iterable[str], option: str) -> tuple[str, ...]:
    """The models that words stand for, whatever their case; two have short names as well."""
    known = {name.lower(): name for name in MODELS} | {"gp": "GaussianProcess", "np": "NeuralProcess"}
    unknown = [word for word in given if word.lower() not in known]
    if unknown:
        raise UsageError(f"{option} is {unknown[0]!r}; choose one of {', '.join(MODELS)}.")
    return tuple(dict.fromkeys(known[word.lower()] for word in given))
