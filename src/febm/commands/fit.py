"""`febm fit`: a model learned from a table, saved with the names of the columns that it was learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from febm.commands import checkpoints, options
from febm.commands.options import MODELS, TableForm, model_names
from febm.commands.targets import check_model_target, check_source
from febm.commands.terminal import UsageError, speaking

SETTINGS = "Settings of the model"


def fit(
    data: options.Data,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL", show_default=False, help="File of the model to write.")
    ],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help=f"{', '.join(MODELS)}; any case.")] = "FEBM",
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="default, or paper:DATASET for the paper's settings: quadratic, melbourne, stocks, gridwatch.",
            rich_help_panel=SETTINGS,
        ),
    ] = "default",
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Kernel of the basis or the process: matern12, matern32, matern52, gaussian, …",
            show_default="the curves' own basis",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    rank: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Basis functions, or the share of variance they explain, such as 0.99.",
            show_default="chosen by held-out curves",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="gaussian, student_t, continuous_bernoulli, bernoulli or poisson.",
            show_default="gaussian",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="auto, standard, curve, log, power, shifted or none.",
            show_default="of the model",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the curves that choose settings and stop the training.",
            show_default="0.2",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most passes of the training over the curves.",
            show_default="of the model",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other argument of the model, such as latent_dim=5 or tilt.steps=500; repeatable.",
            show_default="none",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Leave this share of the curves out of the fit; febm report on the same table then judges by them.",
            show_default="none",
        ),
    ] = None,
    seed: options.Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint that a stopped fit left beside MODEL.")
    ] = False,
    force: options.Force = False,
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
    """Learn a model from a table of curves.

    A long table has one row a point, with --curve, --x and --y; a wide one, with --wide, one row a curve. Each curve
    has its own points; missing values are empty. While it is trained, MODEL.checkpoint lies beside MODEL.
    """
    with speaking("fit", as_json=as_json, quiet=quiet, with_traceback=traceback) as terminal:
        form = TableForm.of(curve, x, y, covariate, wide, id)
        (name,) = model_names([model], "--model")
        if hold_out is not None and not 0 < hold_out < 1:
            raise UsageError(f"--hold-out is {hold_out}; give a share between 0 and 1, such as 0.2.")
        check_source(data)
        check_model_target(out, force=force)
        checkpoint = checkpoints.checkpoint_beside(out)
        going_on = checkpoints.goes_on(checkpoint, resume=resume, force=force)

        from febm.commands.curve_tables import read_curve_table

        table = read_curve_table(data, form, terminal)

        from febm.commands.model_settings import make_model, parse_value, set_epochs
        from febm.commands.training import Fit

        process = make_model(
            name,
            recipe=recipe,
            options={
                "kernel": kernel,
                "rank": None if rank is None else parse_value(rank),
                "likelihood": likelihood,
                "scaling": scaling,
                "validation": validation,
            },
            settings=settings or (),
            seed=seed,
            progress=not quiet,
        )
        work = Fit(data, table, process, hold_out=hold_out, seed=seed)
        if epochs is not None:
            set_epochs(process, epochs, len(work.training))
        if resume and not going_on:
            terminal.say(f"{str(checkpoint)!r} is not there; the fit begins at the beginning.")
        terminal.way_on = lambda: checkpoints.way_on(checkpoint)
        if not going_on:
            checkpoints.remove(checkpoint)
        work.run(checkpoint)
        work.save(out)
        checkpoints.remove(checkpoint)
        terminal.show(work.result(out, resumed=going_on), work.sentence(out))
