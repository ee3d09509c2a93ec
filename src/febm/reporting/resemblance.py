"""The sections that ask whether samples are like the curves: beside each other, on a map, and by tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd

from febm.checks import count
from febm.curves import Curves
from febm.reporting import findings
from febm.reporting.page import Block, Gallery, Paragraph, Picture, Section, drawing, table_of
from febm.reporting.subject import Subject
from febm.reporting.words import p_value, percent, percent_with_error, short

# More outputs than these would be a page of their own.
SHOWN_OUTPUTS = 3
SHOWN_IMAGES = 25
# What each test looks at, for a reader who has not met it.
LOOKS_AT = {
    "id": "distances between whole curves",
    "fpca": "the main ways in which curves vary",
    "whitened": "all ways in which curves vary, the small ones like the large",
    "sqr": "the curves and their squares",
    "cexp": "the curves' frequencies",
    "cov": "spread and correlation only",
    "classifier": "whether a classifier learns to tell them apart",
    "sliced Wasserstein": "distances along many directions",
}


# How often any of the eight tests, corrected, told two sets of Quadratic curves apart at 5 %, by curves a side: 40
# trials each of 199 permutations, so that a share has a standard error of at most 0.08. Equal sets: at most 0.03.
DIFFERENCES = (
    "one kind in place of two (equal mean and covariance)",
    "a level off by one standard deviation of the levels",
    "levels spread three times as far",
    "levels spread half again as far",
    "a kind of one curve in ten left out",
    "shares of 65 and 35 instead of 50 and 50",
)
SEEN = {
    12: (0.42, 0.07, 0.07, 0.03, 0.03, 0.03),
    30: (1.00, 0.57, 0.65, 0.05, 0.07, 0.10),
    50: (1.00, 0.88, 0.93, 0.05, 0.23, 0.03),
    150: (1.00, 1.00, 1.00, 0.47, 0.90, 0.40),
    340: (1.00, 1.00, 1.00, 1.00, 1.00, 0.88),
}
SEEN_TRIALS = 40


def samples_section(subject: Subject) -> Section:
    """Samples beside curves, the basis, and both as points on a map."""
    data, samples = subject.tested, subject.samples
    shown = min(subject.effort.shown, len(data), len(samples))
    blocks: list[Block] = []
    if data.d_x == 1:
        lines = f"{count(shown, 'curve')} and as many samples, drawn to the same scale."
        if subject.model is not None:
            lines += " The samples have the noise of an observation, as the curves have."
        blocks.append(Paragraph(lines))
        for output in range(min(data.d_y, SHOWN_OUTPUTS)):
            blocks.append(Gallery(_lines(data, samples, output, shown)))
    elif data.d_x == 2:
        blocks.append(Paragraph("Curves of two inputs, drawn as images with the same grey scale."))
        for output in range(min(data.d_y, SHOWN_OUTPUTS)):
            blocks.append(Gallery(_images(data, samples, output, min(shown, SHOWN_IMAGES))))
    else:
        blocks.append(Paragraph(f"Functions of {data.d_x} inputs cannot be drawn on a page."))
    if data.d_y > SHOWN_OUTPUTS:
        blocks.append(Paragraph(f"Of the {data.d_y} outputs, the first {SHOWN_OUTPUTS} are shown."))
    basis = list(_basis(subject))
    if basis:
        blocks.append(Paragraph("What the model's functions are made of:"))
        blocks.append(Gallery(tuple(basis)))
    if subject.effort.embedded:
        maps = (
            "Two maps with one point for each curve. Where samples are like the curves, both kinds of mark lie in the "
            "same places, equally dense."
        )
        blocks += [Paragraph(maps), Gallery(tuple(_maps(subject)))]
    return Section("samples", "Samples beside data", tuple(blocks))


def tests_section(subject: Subject) -> Section:
    """p-values of several tests, corrected for their number, and the table of power."""
    from febm.evaluation.two_sample import power_table

    table, omitted = _tests(subject)
    n, m = len(subject.samples), len(subject.tested)
    effort = subject.effort
    functions, sizes = subject.functions, _sizes(subject)
    power = pd.DataFrame(columns=["kernel", "n", "power", "power_se", "floor", "floor_se"])
    if sizes:
        power = power_table(
            functions.curves,
            functions.samples,
            sizes=sizes,
            kernels=effort.power_kernels,
            trials=effort.trials,
            reference=functions.reference,
            random_state=subject.key("power"),
        )
    rows = [
        (row.test, p_value(row.pvalue), p_value(row.corrected), row.measured, LOOKS_AT.get(row.test, ""))
        for row in table.itertuples()
    ]
    blocks: list[Block] = [
        Paragraph(
            f"Each test asks whether {n} samples and {m} curves could come from the same distribution. A small p-value "
            f"says that they hardly could. Asking {len(table)} times makes a small one by chance likelier, so the "
            f"verdict goes by p-values after Holm's correction: of faultless models, at most {percent(findings.LEVEL)} "
            "are called different by any of the tests."
        ),
        table_of(rows, ("test", "p\u2011value", "corrected", "measured", "looks at"), "Are samples and curves alike?"),
        Paragraph(_what_can_be_seen(min(n, m))),
        *(Paragraph(text) for text in omitted),
    ]
    if functions.reconstructed:
        blocks.append(
            Paragraph(
                "The curves do not share their points, so each was first reconstructed on a regular mesh by a "
                "Gaussian-process regression that is the same for samples and curves."
            )
        )
    if len(power):
        blocks += [
            Paragraph(
                "How often a test with n on either side tells them apart, repeated with different draws. "
                + _floor(subject)
                + f" A test that sees nothing still rejects in about {percent(findings.LEVEL)} of trials."
                + " Sizes are at most half the number of curves, so that trials differ."
            ),
            table_of(
                list(_power_rows(power)), ("kernel", "n", "samples", "curves (floor)"), "Share of trials that reject"
            ),
        ]
    found = [findings.judge_tests(table, sides=subject.sides), findings.judge_power(power, sides=subject.sides)]
    return Section(
        "tests",
        "Tests",
        tuple(blocks),
        tuple(finding for finding in found if finding is not None),
        {"tests": table.drop(columns="measured"), "power": power},
    )


def _tests(subject: Subject) -> tuple[pd.DataFrame, list[str]]:
    """Every test's p-value, and why some were left out."""
    from febm.evaluation.second_opinions import classifier_test, sliced_wasserstein
    from febm.evaluation.two_sample import two_sample_test

    (a, b, *_), effort = subject.functions, subject.effort

    def options(name: str) -> dict[str, Any]:
        return {"permutations": effort.permutations, "random_state": subject.key(f"test {name}")}

    def mmd(kernel: str) -> tuple[float, float, str]:
        found = two_sample_test(a, b, kernel=kernel, **options(kernel))
        return found.statistic, found.pvalue, f"MMD² {short(found.statistic)}"

    def classifier() -> tuple[float, float, str]:
        found = classifier_test(a, b, **options("classifier"))
        return found.statistic, found.pvalue, f"right in {percent(found.accuracy)}"

    def wasserstein() -> tuple[float, float, str]:
        found = sliced_wasserstein(a, b, **options("wasserstein"))
        return found.distance, found.pvalue, f"distance {short(found.distance)}"

    asked: dict[str, Callable[[], tuple[float, float, str]]] = {
        kernel: functools.partial(mmd, kernel) for kernel in effort.kernels
    }
    asked |= {"classifier": classifier, "sliced Wasserstein": wasserstein}
    rows, omitted = [], []
    for name, run in asked.items():
        try:
            rows.append((name, *run(), len(a), len(b)))
        except ValueError as error:
            omitted.append(f"The test “{name}” is left out: {error}")
    if not rows:
        raise ValueError(f"no test could be run ({omitted[0]})")
    table = pd.DataFrame(rows, columns=["test", "statistic", "pvalue", "measured", "n", "m"])
    return table.assign(corrected=findings.holm(table["pvalue"].to_numpy())), omitted


def _what_can_be_seen(n: int) -> str:
    """What tests of this size can and cannot see, by what they saw where the answer was known."""
    size = max((known for known in SEEN if known <= n), default=min(SEEN))
    shares = ", ".join(f"{what} in {percent(share)}" for what, share in zip(DIFFERENCES, SEEN[size], strict=True))
    opening = (
        f"With {n} a side only gross differences would show, so that no finding says little."
        if n < findings.FEWEST_TESTED
        else f"With {n} a side, not every difference shows."
    )
    return (
        f"{opening} For scale: on quadratic curves of two kinds, with {size} a side, all eight tests together found "
        f"{shares} of {SEEN_TRIALS} trials. Other curves may be easier or harder."
    )


def _floor(subject: Subject) -> str:
    if subject.reference is not None:
        return "The floor is the same test between the curves and the training curves."
    return "The floor is the same test between two halves of the curves."


def _sizes(subject: Subject) -> tuple[int, ...]:
    """The sizes of the trials: up to half of what there is, as larger ones draw nearly the same curves every time."""
    functions = subject.functions
    parts = [part for part in functions[:3] if isinstance(part, Curves)]
    most = min(len(part) for part in parts) // 2
    wanted = subject.effort.power_sizes
    fitting = {size for size in wanted if size <= most}
    if len(fitting) < len(wanted) and most >= min(wanted, default=0):
        fitting.add(most)
    return tuple(sorted(fitting))


def _power_rows(power: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in power.itertuples():
        floor = percent_with_error(row.floor, row.floor_se)
        yield str(row.kernel), str(row.n), percent_with_error(row.power, row.power_se), floor


def _named(output: int, total: int) -> str:
    return "" if total == 1 else f", output {output + 1}"


def _lines(data: Curves, samples: Curves, output: int, shown: int) -> tuple[Picture, Picture]:
    from febm.plotting import plot_samples_beside_data

    with drawing() as left, drawing() as right:
        # Few points a curve are worth marking; between them a line only says which belong together.
        size = 2.0 if np.median(data.lengths) <= 15 else 0.0
        kept = [_observed(curves, output)[:shown] for curves in (data, samples)]
        plot_samples_beside_data(*kept, axes=(left.axes, right.axes), output=output, limit=shown, marker_size=size)
        for panel in (left, right):
            panel.axes.set_xlabel("x")
        left.axes.set_ylabel("value")
        # One scale means one frame: without the label of the left one the right one would come out wider.
        right.axes.set_ylabel(" ")
        name = _named(output, data.d_y)
        return (
            left.picture(alt=f"{shown} curves of the data{name}, as lines.", caption=f"Data{name}"),
            right.picture(alt=f"{shown} samples{name}, as lines, to the same scale.", caption=f"Samples{name}"),
        )


def _observed(curves: Curves, output: int) -> Curves:
    """The curves of which this output was observed at all."""
    known = np.add.reduceat(~np.isnan(curves.y[:, output]), curves.offsets[:-1]) > 0
    return curves if known.all() else curves[known]


def _images(data: Curves, samples: Curves, output: int, shown: int) -> tuple[Picture, ...]:
    from febm.plotting import plot_images

    both = [curves.y[: curves.offsets[min(shown, len(curves))], output] for curves in (data, samples)]
    limits = min(np.nanmin(values) for values in both), max(np.nanmax(values) for values in both)
    name = _named(output, data.d_y)
    pictures = []
    for curves, caption in ((data, "Data"), (samples, "Samples")):
        with drawing(height=4.5) as panel:
            options: dict[str, Any] = {
                "output": output,
                "limits": limits if limits[0] < limits[1] else None,
                "limit": shown,
            }
            try:
                plot_images(curves[: min(shown, len(curves))], axes=panel.axes, **options)
            except ValueError:  # points that fill no grid
                panel.axes.clear()
                plot_images(curves[: min(shown, len(curves))], axes=panel.axes, scatter=True, **options)
            pictures.append(panel.picture(alt=f"{shown} {caption.lower()} images{name}.", caption=f"{caption}{name}"))
    return tuple(pictures)


def _basis(subject: Subject) -> Iterator[Picture]:
    """The basis functions and their spectrum, for models that have them."""
    from febm.plotting import plot_basis, plot_spectrum

    basis = getattr(subject.model, "basis_", None)
    if basis is None or not hasattr(basis, "spectrum"):
        return
    if subject.data.d_x <= 2:
        with drawing() as panel:
            plot_basis(subject.model, axes=panel.axes)
            yield panel.picture(
                alt="The mean function and the leading basis functions.",
                caption="The leading basis functions" + (", first output" if subject.data.d_y > 1 else ""),
            )
    with drawing() as panel:
        plot_spectrum(subject.model, axes=panel.axes)
        yield panel.picture(alt="Variance of each basis function, falling.", caption="How much each of them varies")


def _maps(subject: Subject) -> Iterator[Picture]:
    """PCA and t-SNE of curves and samples together."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from febm.evaluation.embedding import embed
    from febm.plotting import plot_embedding

    most = subject.effort.embedded
    functions = subject.functions
    data, samples = (curves[: min(most, len(curves))] for curves in (functions.curves, functions.samples))
    methods: tuple[tuple[Literal["pca", "tsne"], str], ...] = (("pca", "Principal components"), ("tsne", "t-SNE"))
    for method, name in methods:
        if method == "tsne" and len(data) + len(samples) < 20:
            continue  # too few points to have neighbourhoods
        # t-SNE takes many short steps, between which threads would only wait for each other.
        with threadpool_limits(1):
            found = embed(data, samples, method=method, random_state=subject.key(method))
        with drawing(height=3.8) as panel:
            plot_embedding(found, axes=panel.axes, labels=("curves", "samples"))
            yield panel.picture(alt=f"{name}: {len(data)} curves and {len(samples)} samples as points.", caption=name)
