"""`febm test`: whether two sets of curves, or a model and curves, are of one distribution."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from febm.commands import options
from febm.commands.options import TableForm, words
from febm.commands.targets import check_source
from febm.commands.terminal import DIFFERENT, UsageError, speaking

KERNELS = ("id", "fpca", "whitened", "sqr", "cexp", "cov")
LEVEL = 0.05


def two_sample(
    a: Annotated[Path, typer.Argument(metavar="A", show_default=False, help="Table of curves, or a model.")],
    b: Annotated[Path, typer.Argument(metavar="B", show_default=False, help="Table of curves.")],
    kernels: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel",
            metavar="NAMES",
            help=f"{', '.join(KERNELS)}; several by commas or by repeating.",
            show_default="all",
        ),
    ] = None,
    permutations: Annotated[int, typer.Option(min=1, help="Shuffles behind each p-value.")] = 999,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="NUMBERS",
            help="Curves of each side in the small tests whose power is set beside its floor; 0 for none.",
            show_default="10, 50",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Small tests behind each power.")] = 200,
    most: Annotated[int, typer.Option(min=2, help="Most curves of each side, chosen at random.")] = 500,
    fail_below: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Exit with 3 when a p-value, corrected for the number of kernels, is below P.",
            show_default="never",
        ),
    ] = None,
    seed: options.Seed = 0,
    curve: options.Curve = None,
    x: options.X = None,
    y: options.Y = None,
    covariate: options.Covariate = None,
    wide: options.Wide = False,
    id: options.Id = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    traceback: options.Traceback = False,
) -> None:
    """Test whether two sets of curves, or a model and curves, come from one distribution.

    A model is sampled at the points of the curves, noise included; after febm fit --hold-out, give the same table: the
    curves that were held out are B. A table of samples needs noise as data have it: febm sample --noise. Large
    p-values say that no difference was found; power is the share of small tests that find one, floor the share that
    find one between the curves B themselves.
    """
    with speaking("test", as_json=as_json, quiet=quiet, with_traceback=traceback) as terminal:
        form = TableForm.of(curve, x, y, covariate, wide, id)
        chosen = tuple(dict.fromkeys(words(kernels))) or KERNELS
        unknown = [kernel for kernel in chosen if kernel not in KERNELS]
        if unknown:
            raise UsageError(f"--kernel is {unknown[0]!r}; choose from {', '.join(KERNELS)}.")
        if any(not size.isdecimal() or int(size) == 1 for size in words(sizes)):
            raise UsageError(
                f"--size is {', '.join(words(sizes))}; give whole numbers of at least 2, or 0 for no power."
            )
        if fail_below is not None and not 0 < fail_below <= 1:
            raise UsageError(f"--fail-below is {fail_below}; give a p-value, such as 0.05.")
        check_source(a)
        check_source(b)

        from febm.commands.judging import judges

        judged, curves = judges(a, b, form, terminal)

        from febm.checks import count
        from febm.commands.testing import as_sides, power, run_tests, shown_power, shown_tests

        sides = as_sides(judged, curves, most=most, seed=seed)
        tests = run_tests(sides, chosen, permutations=permutations, seed=seed)
        wanted = None if sizes is None else [int(size) for size in words(sizes) if int(size)]
        table = power(sides, wanted, chosen, trials=trials, seed=seed)
        smallest = float(tests["corrected"].min())
        result = {
            "a": a,
            "b": b,
            "curves": [len(sides.a), len(sides.b)],
            "reconstructed": sides.reconstructed,
            "pvalue": smallest,
            "tests": tests.to_dict("records"),
            "power": table.to_dict("records"),
            "seed": seed,
        }
        sentence = (
            f"Smallest p-value, corrected for {count(len(tests), 'kernel')}: {smallest:.3g}. "
            f"{'They differ' if smallest < LEVEL else 'No difference is found'} at the level {LEVEL:.0%}."
        )
        terminal.show(result, *shown_tests(tests, sides), *shown_power(table), sentence)
        if fail_below is not None and smallest < fail_below:
            raise typer.Exit(DIFFERENT)
