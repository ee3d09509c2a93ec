"""The tables of a benchmark: numbers with their errors, the published ones beside, and where F-EBM stands."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from febm.benchmark import published
from febm.benchmark.cells import CELL_NAMES, CELLS, MISSING, figure, over_seeds, published_figure, tidy_results
from febm.benchmark.formats import latex, markdown, page_table
from febm.benchmark.standing import beyond_floor, density_gains, judge, standing, standing_table, verdict_table
from febm.benchmark.tables import (
    ablation_table,
    cost_table,
    coverage_table,
    density_table,
    power_table,
    prediction_table,
    sheets,
    wide_table,
)

PLAIN = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789")
PAPER = published()


def row(model, value, *, table="prediction", dataset="stocks", metric="mse", cell=("", ""), **other):
    """One score; everything else as in a run by default settings."""
    known = {"recipe": "default", "seed": 0, "n": 0} | other
    split, p = cell
    return known | dict(table=table, dataset=dataset, model=model, metric=metric, split=split, p=p, value=value)


def scored(model, values, *, metric="mse", dataset="stocks", **other):
    """The nine cells of a model: one value for all, or one for each seed."""
    by_seed = dict(enumerate(np.atleast_1d(values)))
    return [
        row(model, value, metric=metric, dataset=dataset, cell=cell, seed=seed, **other)
        for seed, value in by_seed.items()
        for cell in CELLS
    ]


def frame(*groups):
    return pd.DataFrame([each for group in groups for each in group])


def powers_of(model, powers, floors, *, dataset="stocks", metric="power"):
    return [
        row(model, value, table="power", dataset=dataset, metric=name, n=10, seed=seed)
        for name, values in ((metric, powers), (metric.replace("power", "floor"), floors))
        for seed, value in enumerate(values)
    ]


@pytest.fixture
def run():
    """Two models and three seeds: F-EBM is better by half in every cell, and covers as it should."""
    return frame(
        scored("FEBM", [0.0055, 0.0065, 0.0075]),
        scored("EBP", [0.011, 0.013, 0.015]),
        scored("FEBM", [2.0, 2.1, 2.2], metric="log_density"),
        scored("EBP", [1.5, 1.6, 1.7], metric="log_density"),
        scored("FEBM", [0.9, 0.91, 0.92], metric="coverage_90"),
        scored("EBP", [0.7, 0.71, 0.72], metric="coverage_90"),
        powers_of("FEBM", [0.1, 0.2, 0.3], [0.05, 0.05, 0.05]),
        powers_of("EBP", [0.4, 0.5, 0.6], [0.05, 0.05, 0.05]),
        [
            row(name, 10.0 + seed, table="fit", metric="seconds", seed=seed)
            for name in ("FEBM", "EBP")
            for seed in range(3)
        ],
        [row("FEBM", 500.0, table="fit", metric="log_evidence")],
    )


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.019431, 0.00041, "0.0194 ± 0.0004"),
        (0.019431, 0.00012, "0.01943 ± 0.00012"),
        (0.00084, 0.0004, "0.00084 ± 0.00040"),
        (2.155e-13, 4.1e-14, "(2.2 ± 0.4)·10⁻¹³"),
        (52.3, 8.1, "52 ± 8"),
        (1.0, 0.0, "1.000 ± 0.000"),
        (-0.2377, 0.034, "−0.238 ± 0.034"),
        (123456.0, math.nan, "1.23·10⁵"),
        (0.5, math.nan, "0.500"),
        (math.nan, math.nan, MISSING),
        (math.inf, math.nan, "∞"),
    ],
)
def test_a_number_has_the_digits_that_its_error_leaves(value, error, text):
    assert figure(value, error) == text


@given(st.floats(-14, 9), st.sampled_from([-1, 1]))
def test_what_is_shown_is_the_number_to_three_digits(exponent, sign):
    value = sign * 10.0**exponent
    shown = figure(value).translate(PLAIN).replace("·10", "e")
    assert float(shown) == pytest.approx(value, rel=5.1e-3)


@given(st.floats(-14, 9), st.floats(-4, 0.5))
def test_an_error_is_never_rounded_by_more_than_half_or_the_fourth_digit(exponent, relative):
    value = 10.0**exponent
    error = value * 10.0**relative
    shown = figure(value, error).translate(PLAIN)
    power = re.search(r"·10(-?\d+)$", shown)
    scale = 10.0 ** int(power[1]) if power else 1.0
    mean, spread = (scale * float(part.strip("()")) for part in shown.split("·")[0].split(" ± "))
    assert mean == pytest.approx(value, abs=max(0.51 * error, 6e-4 * value))
    assert spread == pytest.approx(error, abs=max(0.51 * error, 6e-4 * value))


def test_standard_errors_are_those_of_the_mean_over_seeds():
    means = over_seeds(tidy_results(frame(scored("FPCA", [1.0, 2.0, 3.0]))), "label", "split", "p")
    assert means["mean"].eq(2).all()
    assert np.allclose(means["error"], 1 / math.sqrt(3))
    assert means["seeds"].eq(3).all()


def test_one_seed_is_said_and_has_no_error(run):
    alone = run[run["seed"] == 0]
    table = prediction_table(alone, PAPER)
    assert not any("±" in cell for cell in table.astype(str).to_numpy().ravel())
    assert all("One seed" in sheet.caption for sheet in sheets(alone, PAPER))
    assert "over 3 seeds" in sheets(run, PAPER)[0].caption


def test_published_row_stands_below_each_model_and_cells_that_meet_it_are_counted(run):
    table = prediction_table(run, PAPER)
    assert table["model"].tolist() == ["FEBM", "published", "EBP", "published"]
    paper = PAPER.query("table == 'prediction' and dataset == 'stocks' and model == 'FEBM'")
    paper = paper.set_index(["split", "p"])["value"]
    assert table.loc[1, list(CELL_NAMES)].tolist() == [published_figure(paper[cell]) for cell in CELLS]
    assert (paper >= 0.0065).sum() == 5
    assert table.loc[0, "at or below published"] == "5 of 9"


def test_errors_that_the_paper_calls_high_are_shown_as_such():
    table = prediction_table(frame(scored("PiVAE", 0.1)), PAPER)
    assert table.loc[1, "middle 1/4"] == "> 100"


def test_best_of_each_column_is_bold_and_one_alone_is_not(run):
    table = prediction_table(run, PAPER)
    assert table.loc[0, list(CELL_NAMES)].str.startswith("**").all()
    assert not table.loc[1:, list(CELL_NAMES)].stack().str.startswith("**").any()
    alone = prediction_table(run[run["model"] == "EBP"], PAPER)
    assert not alone[list(CELL_NAMES)].stack().str.startswith("**").any()


def test_missing_cells_are_dashes(run):
    part = run[~((run["model"] == "EBP") & (run["split"] == "middle"))]
    table = prediction_table(part, PAPER).set_index("model")
    assert table.loc["EBP", "middle 1/2"] == MISSING
    assert table.loc["EBP", "random 1/2"] != MISSING
    assert table.loc["EBP", "at or below published"].endswith("of 6")


def test_scores_that_were_read_as_words_or_are_not_there_do_no_harm(run):
    words = run.assign(value=run["value"].astype(str))
    words.loc[words["metric"] == "log_density", "value"] = ""
    assert prediction_table(words, PAPER).equals(prediction_table(run, PAPER))
    assert density_table(words)["downsample 1/4"].eq(MISSING).all()


def test_another_recipe_has_rows_of_its_own_and_a_variant_keeps_its_name():
    both = frame(scored("FPCA", 0.1), scored("FPCA", 0.2, recipe="paper"), scored("Tilted", 0.3, recipe="paper"))
    assert prediction_table(both, PAPER)["model"].tolist() == ["FPCA", "FPCA (paper recipe)", "Tilted"]


def test_power_stands_below_its_floor_and_beside_the_published(run):
    table = power_table(run, PAPER)
    assert table["model"].tolist() == ["floor", "FEBM", "EBP"]
    assert table["identity, n = 10"].tolist() == ["0.050 ± 0.000", "**0.200 ± 0.058**", "0.500 ± 0.058"]
    assert table["published, n = 10"].tolist() == [MISSING, "0.08", "0.31"]


def test_power_of_training_curves_drawn_anew_stands_below_the_floor(run):
    drawn = [row("FEBM", 0.1, table="power", dataset="stocks", metric="resampled", n=10)]
    table = power_table(pd.concat([run, frame(drawn)]), PAPER)
    assert table["model"].tolist() == ["floor", "resampled", "FEBM", "EBP"]
    assert table.set_index("model").loc["resampled", "identity, n = 10"] == "0.100"


def test_coverage_out_of_range_is_marked_and_counted(run):
    table = coverage_table(run).set_index("model")
    assert table.loc["EBP", "random 1/2"] == "71.0 ± 0.6 ↓"
    assert table["in range"].to_dict() == {"FEBM": "9 of 9", "EBP": "0 of 9"}
    wide = coverage_table(frame(scored("FPCA", 1.0, metric="coverage_90")))
    assert wide.loc[0, "random 1/2"] == "100.0 ↑"


def test_evidence_stands_beside_density_and_either_may_be_missing(run):
    table = density_table(run).set_index("model")
    assert table.loc["FEBM", "log evidence"] == "500"
    assert table.loc["EBP", "log evidence"] == MISSING
    only = density_table(run[run["metric"] == "log_evidence"])
    assert only["model"].tolist() == ["FEBM"]


def test_cost_has_the_seconds_of_every_model(run):
    table = cost_table(run).set_index("model")
    assert table["fit"].to_dict() == {"FEBM": "11.0 ± 0.6", "EBP": "11.0 ± 0.6"}
    assert table["complete"].eq(MISSING).all()


def test_variants_have_their_power_and_errors_beside_the_papers():
    rows = frame(
        scored("EBM(d_z=10)", 0.02, table="priors", dataset="quadratic", recipe="paper"),
        scored("Tilted", 0.01, table="priors", dataset="quadratic", recipe="paper"),
        [row("Tilted", 0.1, table="priors", dataset="quadratic", metric="power", n=10, recipe="paper")],
    )
    table = ablation_table(rows, PAPER, "priors")
    assert table["model"].tolist() == ["EBM(d_z=10)", "published", "Tilted", "published"]
    assert table["power"].tolist() == [MISSING, "0.10", "0.100", "0.08"]
    assert [sheet.name for sheet in sheets(rows, PAPER)] == ["priors"]


def test_images_have_a_column_for_each_score():
    rows = frame(
        [
            row(name, 0.01, table="images", dataset="fashion_mnist", cell=("downsample", "1/4"))
            for name in ("FPCA", "bicubic")
        ]
    )
    assert wide_table(rows, "images")["squared error"].tolist() == ["0.0100", "0.0100"]


def test_ratios_are_those_of_the_means_and_losses_are_called_losses(run):
    lost = frame(scored("FEBM", [0.020, 0.021, 0.022]), scored("EBP", [0.010, 0.0105, 0.011]), scored("VIP", 0.5))
    cells = standing(lost, PAPER)
    assert np.allclose(cells["over_best"], 2)
    assert set(cells["rival"]) == {"EBP"}
    assert set(standing_table(lost, PAPER)["result"]) == {"clear loss"}
    assert set(standing_table(run, PAPER)["result"]) == {"clear win"}
    assert verdict_table(lost, PAPER).loc[0, ["at or below best rival", "clearly above"]].tolist() == ["0 of 9", "9"]


def test_error_of_a_ratio_is_what_seeds_that_share_data_leave_of_it():
    """Both models are bad with the same seeds: their ratio is known far better than either error."""
    noise = np.array([1.0, 2.0, 3.0])
    cells = standing(frame(scored("FEBM", 0.01 * noise), scored("EBP", 0.02 * noise)), PAPER)
    assert np.allclose(cells["over_best"], 0.5)
    assert np.allclose(cells["over_best_error"], 0, atol=1e-12)


def test_rivals_with_fewer_seeds_are_compared_on_those():
    """The third seed is a hard one: a rival that has not met it is not better for that."""
    hard = np.array([1.0, 1.0, 10.0])
    cells = standing(
        frame(scored("FEBM", 0.01 * hard), scored("EBP", 0.011 * hard), scored("VIP", [0.02, 0.02])), PAPER
    )
    assert set(cells["rival"]) == {"EBP"}
    assert np.allclose(cells["over_best"], 1 / 1.1)


def test_with_one_seed_nothing_is_clear():
    lost = frame(scored("FEBM", 0.02), scored("EBP", 0.01))
    assert set(standing_table(lost, PAPER)["result"]) == {"loss"}
    assert verdict_table(lost, PAPER).loc[0, "clearly above"] == "0"


def test_power_is_taken_from_the_floor_of_the_same_seed(run):
    found = beyond_floor(run)
    assert found[["dataset", "kernel", "n"]].to_numpy().tolist() == [["stocks", "identity", 10]]
    assert found["mean"].item() == pytest.approx(0.15)


def test_density_is_compared_with_each_rival(run):
    found = density_gains(run)
    assert found["rival"].tolist() == ["EBP"]
    assert found["mean"].item() == pytest.approx(0.5)
    assert found[["ahead", "cells"]].to_numpy().tolist() == [[9, 9]]


def test_losses_are_told_as_plainly_as_wins(run):
    def turned(rows):
        names = {"FEBM": "EBP", "EBP": "FEBM"}
        return rows.assign(model=rows["model"].map(names))

    won = {each.sentence.partition(":")[0]: each.verdict for each in judge(run, PAPER)}
    lost = {each.sentence.partition(":")[0]: each.verdict for each in judge(turned(run), PAPER)}
    assert set(won) == set(lost)
    assert len(won) == 5
    duel = "Against the best rival in each cell"
    assert (won[duel], won["Calibration"], won["Log density"]) == ("good", "good", "good")
    assert (lost[duel], lost["Calibration"], lost["Log density"]) == ("bad", "bad", "bad")


def test_a_run_without_febm_has_no_verdict(run):
    others = run[run["model"] != "FEBM"]
    assert judge(others, PAPER) == []
    assert verdict_table(others, PAPER).empty


def test_no_scores_make_no_tables(run):
    assert sheets(run[:0], PAPER) == []
    assert judge(run[:0], PAPER) == []


@pytest.fixture(params=["prediction", "power", "log_density", "coverage", "standing", "verdict"])
def table(request, run):
    more = pd.concat([run, frame(scored("FPCA", [3e-13, 4e-13], dataset="quadratic"))])
    ours = {sheet.name: sheet.table for sheet in sheets(more, PAPER)}
    ours |= {"standing": standing_table(more, PAPER), "verdict": verdict_table(more, PAPER)}
    return ours[request.param]


def test_markdown_has_a_line_for_each_row_and_equally_many_cells(table):
    lines = markdown(table).splitlines()
    assert len(lines) == len(table) + 2
    assert len({line.count("|") for line in lines}) == 1


def test_latex_has_balanced_rows_and_nothing_that_plain_tex_cannot_set(table):
    text = latex(table)
    assert text.isascii()
    lines = text.splitlines()
    assert (lines[2], lines[4], lines[-2], lines[-1]) == (r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}")
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == len(table) + 1
    assert {line.count("&") - line.count(r"\&") for line in rows} == {len(table.columns) - 1}
    assert all(line.count("{") == line.count("}") and line.count("$") % 2 == 0 for line in rows)


def test_latex_escapes_names():
    table = pd.DataFrame({"data set": ["a_b & 50 % #1"], "model": ["EBM(d_z=10) \\ {x} ~ ^"]})
    body = latex(table).splitlines()[5]
    assert body == (r"a\_b \& 50 \% \#1 & EBM(d\_z=10) \textbackslash{} \{x\} \textasciitilde{} \textasciicircum{} \\")


def test_latex_writes_bold_and_powers():
    body = latex(pd.DataFrame({"x": ["**(2.2 ± 0.4)·10⁻¹³**"]})).splitlines()[5]
    assert body == r"\textbf{(2.2 $\pm$ 0.4)$\cdot$10$^{-13}$} \\"


def test_data_sets_are_named_once_and_ruled_apart():
    table = pd.DataFrame({"data set": ["a", "a", "b"], "value": ["1", "2", "3"]})
    assert [line.split("|")[1].strip() for line in markdown(table).splitlines()[2:]] == ["a", "", "b"]
    assert latex(table).splitlines()[5:9] == [r"a & 1 \\", r" & 2 \\", r"\midrule", r"b & 3 \\"]


def test_page_shows_bold_cells_bold_and_published_rows_quiet(run):
    block = page_table(prediction_table(run, PAPER), "errors")
    assert block.quiet == {1, 3}
    assert {place[0] for place in block.bold} == {0}
    assert not any("**" in cell for row in block.rows for cell in row)
