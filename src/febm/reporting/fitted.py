"""The sections about the model itself: what was fitted, how training went, whether chains can be trusted."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from febm.checks import count
from febm.curves import Curves
from febm.reporting import findings
from febm.reporting.page import Block, Facts, Gallery, Paragraph, Section, drawing, table_of
from febm.reporting.subject import Subject, common_points
from febm.reporting.words import cut, interval, short
from febm.transforms import Transform

EXPONENTS = {1.0: "as they are", 0.0: "as logarithms", 0.5: "as square roots"}
TRAININGS = {
    "importance": "importance-sampled maximum likelihood of the energy on a closed-form base",
    "langevin": "the contrastive loss of the paper, with Langevin chains",
}
QUANTITIES = {
    "rhat": "R-hat",
    "ess_bulk": "effective draws, bulk",
    "ess_tail": "effective draws, tails",
    "acceptance": "accepted moves",
    "effective": "effective proposals",
    "gap": "gap to longer chains",
    "gap_pvalue": "p-value of the gap",
}


def fitted_section(subject: Subject) -> Section:
    """What was fitted, and what the curves are that judge it."""
    model = subject.model
    blocks: list[Block] = []
    tables: dict[str, pd.DataFrame] = {}
    if model is None:
        blocks.append(Paragraph("Two sets of curves are compared; no model is involved."))
        blocks.append(Facts("The first set, called “samples” below", tuple(_of_curves(subject.samples))))
        blocks.append(Facts("The second set, called “curves” below", tuple(_of_curves(subject.data))))
        return Section("fitted", "What is compared", tuple(blocks), tables=tables)
    rows = [("class", type(model).__name__), *_settings(model), *_learned(model)]
    blocks.append(Facts("The model: settings that differ from their defaults, and what it learned", tuple(rows)))
    blocks.append(Facts("The curves that it is judged by", tuple(_of_curves(subject.data))))
    if subject.reference is not None:
        held_out = (
            f"These are the evaluation curves of a data set; its {count(len(subject.reference), 'training curve')} are "
            "the reference for how much curves differ among themselves. The report takes for granted that the model "
            "was fitted to the training curves alone."
        )
    else:
        held_out = (
            "The report cannot know whether the model has seen these curves in training. It should not have: only "
            "curves that were held out can tell learning from remembering."
        )
    blocks.append(Paragraph(held_out))
    return Section("fitted", "What was fitted", tuple(blocks), tables=tables)


def training_section(subject: Subject) -> Section:
    """How the held-out score went, and which epoch was kept."""
    title = "How training went"
    history = getattr(subject.model, "history_", None)
    if not isinstance(history, pd.DataFrame) or not {"epoch", "score"} <= set(history.columns) or len(history) < 2:
        return Section("training", title, (Paragraph("This model keeps no history of a training in epochs."),))
    finding = findings.judge_training(
        history, epochs=_allowed_epochs(subject.model), start_is_fitted=_starts_fitted(subject.model)
    )
    with drawing() as panel:
        from febm.plotting import plot_history

        plot_history(history, axes=panel.axes)
        picture = panel.picture(
            alt=f"Held-out score against epoch, {len(history) - 1} epochs.",
            caption="The held-out score, epoch by epoch; higher is better. The best epoch is the one that was kept.",
        )
    blocks: list[Block] = [Gallery((picture,))]
    score = history["score"].to_numpy(dtype=float)
    if np.isfinite(score).any():
        best = int(np.nanargmax(score))
        text = (
            f"The best held-out score is {short(score[best])} at epoch {int(history['epoch'].iloc[best])} of "
            f"{int(history['epoch'].max())}; the start had {short(score[0])}."
        )
        if "seconds" in history and history["seconds"].notna().any():
            text += f" The epochs took {short(history['seconds'].max())} seconds."
        blocks.append(Paragraph(text))
    events = history[history["event"].notna()] if "event" in history else history[:0]
    if len(events):
        rows = [(int(row.epoch), cut(row.event)) for row in events.head(10).itertuples()]
        blocks.append(
            table_of(rows, ("epoch", "what happened"), "Epochs after which training went back to its best state")
        )
    return Section("training", title, tuple(blocks), () if finding is None else (finding,))


def chains_section(subject: Subject) -> Section:
    """Whether the chains that draw samples and posteriors have arrived."""
    from febm.evaluation.chains import chain_report

    title = "Health of the chains"
    assert subject.model is not None
    if not subject.effort.chains:
        return Section("chains", title, (Paragraph("The samplers were not examined: this was a quick look."),))
    table = chain_report(subject.model, subject.context, random_state=subject.key("chains"))
    if table is None:
        text = (
            "This model draws samples and posteriors without chains, so there is nothing that could fail to converge."
        )
        return Section("chains", title, (Paragraph(text),))
    rows = [
        (row.chain, QUANTITIES.get(row.quantity, row.quantity), short(row.value, 4), row.meaning)
        for row in table.itertuples()
    ]
    blocks = (
        Paragraph(
            "Samples and posteriors come from samplers that are right in the long run. Independent runs that agree "
            "(R-hat near 1), many effective draws, and no change under ten times the work say that the run was long "
            "enough."
        ),
        table_of(rows, ("chain", "quantity", "value", "meaning"), "What the samplers say of themselves"),
    )
    return Section("chains", title, blocks, tuple(findings.judge_chains(table)), {"chains": table})


def _of_curves(curves: Curves) -> Iterator[tuple[str, str]]:
    lengths = curves.lengths
    points = str(lengths[0]) if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"
    yield "curves", f"{len(curves):,}"
    yield "points of a curve", points + (" (the same for all)" if common_points(curves) is not None else "")
    yield "domain", " × ".join(interval(low, high) for low, high in zip(*curves.domain, strict=True))
    outputs = [f"{short(np.nanmean(column))} ± {short(np.nanstd(column))}" for column in curves.y.T]
    yield ("values" if curves.d_y == 1 else "values of each output") + ", mean ± standard deviation", "; ".join(outputs)
    missing = int(np.isnan(curves.y).sum())
    if missing:
        yield "missing values", f"{missing:,}"
    yield "ids", cut(", ".join(map(str, curves.ids[:3])) + (", …" if len(curves) > 3 else ""))
    if curves.covariates is not None:
        yield "covariates", cut(", ".join(map(str, curves.covariates.columns)))


def _settings(model: Any) -> Iterator[tuple[str, str]]:
    """The constructor's arguments that are not at their defaults."""
    defaults = {name: each.default for name, each in inspect.signature(type(model).__init__).parameters.items()}
    for name, value in model.get_params(deep=False).items():
        if name != "progress" and repr(value) != repr(defaults.get(name, inspect.Parameter.empty)):
            yield name, cut(repr(value))


def _learned(model: Any) -> Iterator[tuple[str, str]]:
    """What the fitted model says of itself, where it has such things."""
    training = getattr(model, "training_", None)
    if training is not None:
        yield "training", TRAININGS.get(training, cut(training))
    basis: Any = getattr(model, "basis_", None)
    if hasattr(basis, "rank"):
        yield "basis", f"{type(basis).__name__}, {count(int(basis.rank), 'function')}"
    latent = getattr(model, "model_", None)
    generator: Any = getattr(latent, "generator", None)
    prior = getattr(latent, "prior", None)
    if hasattr(generator, "latent_dim"):
        yield "latent", f"{count(int(generator.latent_dim), 'coordinate')}, {type(generator).__name__}"
    if prior is not None:
        yield "prior", _prior(prior)
    scaling = getattr(model, "scaling_", None)
    transforms = getattr(scaling, "transforms", None)
    if transforms is not None:
        yield "values are modelled", "; ".join(map(_transform, transforms))
    scale = getattr(getattr(latent, "likelihood", None), "scale", None)
    if scale is not None:
        yield "noise, standard deviation", _noise(float(scale), scaling)


def _transform(transform: Transform) -> str:
    name = EXPONENTS.get(transform.exponent, f"to the power {transform.exponent:g}")
    if not transform.is_shifted:
        return name
    side = "smallest" if transform.sign > 0 else "largest"
    return f"{name} of their distance from the {side}, {transform.origin:.4g}"


def _prior(prior: Any) -> str:
    base = getattr(prior, "base", prior)
    weights = getattr(base, "log_weights", None)
    text = type(base).__name__.removesuffix("Prior").lower() or type(base).__name__
    text += "" if weights is None else f" of {count(len(weights), 'component')}"
    energy = getattr(prior, "energy", None)
    if energy is None:
        return text
    seen = getattr(energy, "dim", None)
    on = "" if seen is None else f" on {count(int(seen), 'coordinate')}"
    return f"energy{on}" if base is prior else f"{text}, tilted by an energy{on}"


def _noise(scale: float, scaling: Any) -> str:
    """The noise in the units of the data where that is one number for each output."""
    units = getattr(scaling, "scale", None)
    if units is None or not scaling.is_affine or scaling.outputs == "curve":
        return f"{short(scale)} in scaled units"
    return "; ".join(short(scale * unit) for unit in units) + " in the units of the data"


def _starts_fitted(model: Any) -> bool:
    return getattr(model, "training_", None) == "importance"


def _allowed_epochs(model: Any) -> int | None:
    if getattr(model, "training_", None) != "langevin":
        return None
    return getattr(getattr(model, "optimisation", None), "epochs", None)
