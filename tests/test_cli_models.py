"""What is asked of a saved model: `febm sample`, `febm impute` and `febm info`."""

import numpy as np
import pandas as pd
import pytest
from command_tables import COLUMNS, answer, call, days, refusal, wide_days

import febm
from febm.storage import read_header, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of days, and functional PCA of them."""
    folder = tmp_path_factory.mktemp("models")
    days().to_csv(folder / "days.csv", index=False)
    found = call("fit", folder / "days.csv", "-o", folder / "days.febm", "--model", "FPCA", *COLUMNS)
    assert found.exit_code == 0, found.output
    return folder


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory):
    """A model of functions of two inputs with two outputs, saved from Python."""
    rng = np.random.default_rng(0)
    points = febm.grid2d(4, 4)
    values = rng.normal(size=(20, 1, 2)) * np.stack([points[:, 0], points[:, 1]], axis=1)
    values = values + 0.01 * rng.normal(size=values.shape)
    path = tmp_path_factory.mktemp("surfaces") / "surfaces.febm"
    febm.FPCA(random_state=0, progress=False).fit(febm.Curves.from_grid(points, values)).save(path)
    return path


def test_samples_are_those_of_the_model_under_the_names_of_the_fit(folder, tmp_path):
    found = answer("sample", folder / "days.febm", "-n", 7, "--at", "0.5:23:10", "-o", tmp_path / "s.csv", "--seed", 4)
    assert (found["curves"], found["points"]) == (7, 10)
    frame = pd.read_csv(tmp_path / "s.csv")
    assert list(frame.columns) == ["day", "hour", "demand"]
    expected = febm.load(folder / "days.febm").sample(7, np.linspace(0.5, 23, 10), random_state=4)
    np.testing.assert_allclose(frame["demand"], expected.y[:, 0])


def test_noise_is_added_when_asked_for(folder, tmp_path):
    for name, noise in (("a.csv", ()), ("b.csv", ("--noise",))):
        answer("sample", folder / "days.febm", "-n", 3, "--at", "1:20:5", "-o", tmp_path / name, *noise)
    difference = pd.read_csv(tmp_path / "a.csv")["demand"] - pd.read_csv(tmp_path / "b.csv")["demand"]
    assert 0.01 < difference.abs().mean() < 1


def test_wide_samples_have_one_row_a_curve(folder, tmp_path):
    answer("sample", folder / "days.febm", "-n", 4, "--at", "1,2.5,20", "-o", tmp_path / "s.parquet", "--wide")
    frame = pd.read_parquet(tmp_path / "s.parquet")
    assert list(frame.columns) == ["day", "1", "2.5", "20"]
    assert len(frame) == 4


def test_several_inputs_and_outputs_have_a_column_each(surfaces, tmp_path):
    answer("sample", surfaces, "-n", 2, "--at", "0.2:0.8:3,0.3:0.7:2", "-o", tmp_path / "s.json")
    frame = pd.read_json(tmp_path / "s.json")
    assert list(frame.columns) == ["curve", "x0", "x1", "y0", "y1"]
    assert len(frame) == 2 * 3 * 2
    line = refusal("sample", surfaces, "-n", 2, "--at", "0:1:3", "-o", tmp_path / "t.json", code=2)
    assert "2 inputs (x0, x1)" in line
    assert "one input and one output" in refusal("sample", surfaces, "--wide", "-o", tmp_path / "t.csv")


def test_missing_values_are_filled_in_with_intervals_that_hold_the_truth(folder, tmp_path):
    full = days(20, seed=1, missing=0.0)
    hidden = np.random.default_rng(0).uniform(size=len(full)) < 0.3
    full.assign(demand=full["demand"].mask(hidden)).to_csv(tmp_path / "partial.csv", index=False)
    found = answer(
        *("impute", folder / "days.febm", tmp_path / "partial.csv", "-o", tmp_path / "f.csv"),
        *("--level", 0.8, "--draws", 3, "--noise"),
    )
    frame = pd.read_csv(tmp_path / "f.csv")
    assert list(frame.columns) == ["day", "hour", "mean", "lower", "upper", "draw_0", "draw_1", "draw_2"]
    assert found["values"] == len(frame) == hidden.sum()
    truth = full[hidden].merge(frame, on=["day", "hour"], validate="one_to_one")
    assert len(truth) == len(frame)
    # 0.8 is promised; with some 90 dependent values, 0.6 and 0.95 are more than four standard errors away.
    inside = (truth["lower"] <= truth["demand"]) & (truth["demand"] <= truth["upper"])
    assert 0.6 < inside.mean() < 0.95
    assert (truth["demand"] - truth["mean"]).abs().mean() < 0.3


def test_an_interval_without_noise_is_of_the_function_and_narrower(folder, tmp_path):
    for name, noise in (("a.csv", ()), ("b.csv", ("--noise",))):
        answer("impute", folder / "days.febm", folder / "days.csv", "-o", tmp_path / name, *noise)
    narrow, wide = (pd.read_csv(tmp_path / name) for name in ("a.csv", "b.csv"))
    assert ((narrow["upper"] - narrow["lower"]) < (wide["upper"] - wide["lower"])).mean() > 0.95


def test_every_curve_is_imputed_at_points_that_are_asked_for(folder, tmp_path):
    answer("impute", folder / "days.febm", folder / "days.csv", "-o", tmp_path / "f.tsv", "--at", "6,12")
    frame = pd.read_csv(tmp_path / "f.tsv", sep="\t")
    assert frame["day"].tolist() == [f"d{day}" for day in range(40) for _ in range(2)]
    assert frame["hour"].tolist() == [6.0, 12.0] * 40


@pytest.mark.parametrize("named", [True, False])
def test_a_wide_table_comes_back_as_it_is_with_its_empty_cells_filled(named, tmp_path):
    table = wide_days().rename(columns={"0.0": "0", "3.0": "03"})
    table = table if named else table.drop(columns="name")
    table.to_csv(tmp_path / "wide.csv", index=False)
    answer("fit", tmp_path / "wide.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", "--wide")
    files = "-o", tmp_path / "f.csv", "--filled", tmp_path / "w.csv"
    found = answer("impute", tmp_path / "m.febm", tmp_path / "wide.csv", *files)
    assert found["filled"] == str(tmp_path / "w.csv")
    filled = pd.read_csv(tmp_path / "w.csv")
    assert list(filled.columns) == list(table.columns)
    empty = table.isna()
    pd.testing.assert_frame_equal(filled.mask(empty), table)
    expected = pd.read_csv(tmp_path / "f.csv")["mean"]
    np.testing.assert_allclose(filled.to_numpy()[empty.to_numpy()].astype(float), expected)


def test_cells_that_were_not_empty_stay_as_they_are_spelled(tmp_path):
    table, model, written = tmp_path / "wide.csv", tmp_path / "m.febm", tmp_path / "w.csv"
    rows = wide_days().to_csv(index=False).splitlines()
    rows[0] = "name,0,3.00,06,9,12,15,18,21,24"
    rows[1] = "007,10,12,,+9.5,NA,1e1,10.50,9,11"
    table.write_text("\n".join(rows) + "\n")
    answer("fit", table, "-o", model, "--model", "FPCA", "--wide")
    found = call("impute", model, table, "--filled", written)
    assert found.exit_code == 0, found.output
    assert str(written) in found.stdout
    filled = written.read_text().splitlines()
    assert filled[0] == rows[0]
    cells = filled[1].split(",")
    assert [*cells[:3], cells[4], *cells[6:]] == ["007", "10", "12", "+9.5", "1e1", "10.50", "9", "11"]
    assert all(5 < float(cells[place]) < 15 for place in (3, 5))


def test_samples_of_a_wide_table_have_its_headers(tmp_path):
    wide_days().rename(columns={"0.0": "0", "3.0": "3.00"}).to_csv(tmp_path / "wide.csv", index=False)
    answer("fit", tmp_path / "wide.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", "--wide")
    answer("sample", tmp_path / "m.febm", "-n", 2, "--wide", "-o", tmp_path / "s.csv")
    first = (tmp_path / "s.csv").read_text().splitlines()[0]
    assert first == "name,0,3.00,6.0,9.0,12.0,15.0,18.0,21.0,24.0"
    answer("sample", tmp_path / "m.febm", "-n", 2, "--wide", "--at", "0,1,3", "-o", tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().splitlines()[0] == "name,0,1,3.00"


def test_a_column_that_was_no_place_in_the_fit_is_none_in_what_follows(tmp_path):
    table = wide_days()
    table.insert(1, "2024", range(len(table)))
    table.to_csv(tmp_path / "wide.csv", index=False)
    fit = "fit", tmp_path / "wide.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", "--wide"
    assert answer(*fit, "--covariate", "2024")["points"] == table.drop(columns=["name", "2024"]).count().sum()
    found = answer("impute", tmp_path / "m.febm", tmp_path / "wide.csv", "--filled", tmp_path / "w.csv")
    assert found["values"] == table.isna().to_numpy().sum()
    assert pd.read_csv(tmp_path / "w.csv")["2024"].tolist() == table["2024"].tolist()


def test_a_long_table_comes_back_as_it_is_with_its_empty_values_filled(folder, tmp_path):
    table = pd.read_csv(folder / "days.csv").assign(remark="as it was")
    table = table.sample(frac=1.0, random_state=0)
    table.loc[table["day"] == "d3", "demand"] = np.nan
    table.to_csv(tmp_path / "p.csv", index=False)
    files = "-o", tmp_path / "f.csv", "--filled", tmp_path / "l.csv"
    answer("impute", folder / "days.febm", tmp_path / "p.csv", *files)
    filled, found = pd.read_csv(tmp_path / "l.csv"), pd.read_csv(tmp_path / "f.csv")
    empty = table["demand"].isna().to_numpy()
    pd.testing.assert_frame_equal(filled.loc[~empty], table.reset_index(drop=True).loc[~empty])
    there = filled[empty].merge(found, on=["day", "hour"])
    np.testing.assert_allclose(there["demand"], there["mean"])
    assert len(there) == len(found)
    assert filled.loc[filled["day"] == "d3", "demand"].isna().all()  # nothing is known of it


def test_a_filled_table_needs_gaps_and_a_file_of_its_own(folder, tmp_path):
    arguments = "impute", folder / "days.febm", folder / "days.csv", "-o", tmp_path / "f.csv", "--filled"
    assert "--at" in refusal(*arguments, tmp_path / "g.csv", "--at", "1,2", code=2)
    assert "same file" in refusal(*arguments, tmp_path / "f.csv", code=2)
    assert "--filled is" in refusal(*arguments, tmp_path / "g.txt")
    assert "nothing to write; give --out, --filled, or both" in refusal(*arguments[:3], code=2)


def test_a_wide_table_is_imputed_in_its_empty_cells(tmp_path):
    wide_days().to_csv(tmp_path / "wide.csv", index=False)
    answer("fit", tmp_path / "wide.csv", "-o", tmp_path / "m.febm", "--model", "FPCA", "--wide")
    answer("impute", tmp_path / "m.febm", tmp_path / "wide.csv", "-o", tmp_path / "f.csv")
    frame = pd.read_csv(tmp_path / "f.csv")
    assert list(frame.columns) == ["name", "x", "mean", "lower", "upper"]
    assert len(frame) == wide_days().isna().to_numpy().sum()


def test_only_the_outputs_that_are_missing_are_filled_in(surfaces, tmp_path):
    frame = pd.DataFrame({"curve": 1, "x0": [0.2, 0.7], "x1": [0.2, 0.7], "y0": [0.1, np.nan], "y1": [np.nan, 0.4]})
    frame.to_csv(tmp_path / "partial.csv", index=False)
    answer("impute", surfaces, tmp_path / "partial.csv", "-o", tmp_path / "f.csv")
    found = pd.read_csv(tmp_path / "f.csv")
    assert list(found.columns) == ["curve", "x0", "x1", "output", "mean", "lower", "upper"]
    assert found["output"].tolist() == ["y1", "y0"]


def test_a_column_with_the_name_of_a_result_is_refused(folder, tmp_path):
    days(3).rename(columns={"hour": "mean"}).to_csv(tmp_path / "d.csv", index=False)
    line = refusal(
        *("impute", folder / "days.febm", tmp_path / "d.csv", "-o", tmp_path / "f.csv"),
        *("--curve", "day", "--x", "mean", "--y", "demand", "--quiet"),
    )
    assert "column 'mean' has the name of one that is to be written" in line


def test_nothing_missing_is_refused_with_the_way_to_ask(folder, tmp_path):
    days(3, missing=0.0).to_csv(tmp_path / "full.csv", index=False)
    line = refusal("impute", folder / "days.febm", tmp_path / "full.csv", "-o", tmp_path / "f.csv", "--quiet")
    assert "no value of 'demand' is missing" in line
    assert "--at" in line


def test_outputs_are_refused_before_the_work(folder, tmp_path):
    (tmp_path / "there.csv").touch()
    model = folder / "days.febm"
    assert "--force" in refusal("sample", model, "-o", tmp_path / "there.csv")
    assert "its ending says the format" in refusal("sample", model, "-o", tmp_path / "s.xlsx")
    assert "--force" in refusal("impute", model, folder / "days.csv", "-o", tmp_path / "there.csv")
    assert "--level is 90.0" in refusal(
        "impute", model, folder / "days.csv", "-o", tmp_path / "f.csv", "--level", 90, code=2
    )


def test_what_is_no_model_is_refused(folder, tmp_path):
    (tmp_path / "m.febm").write_text("no model")
    assert "is not a febm model" in refusal("info", tmp_path / "m.febm")
    assert "is a table; give a model" in refusal("info", folder / "days.csv")
    save({"a": 1}, tmp_path / "d.febm")
    assert "holds a dict, not a model" in refusal("info", tmp_path / "d.febm")


def test_info_says_what_a_model_is_and_where_it_comes_from(folder):
    found = answer("info", folder / "days.febm")
    assert (found["model"], found["curves"], found["data"], found["seed"]) == ("FPCA", 40, "days.csv", 0)
    assert found["columns"]["y"] == ["demand"]
    assert found["versions"]["febm"] == febm.__version__
    frame = days().dropna()
    assert found["domain"] == [[frame["hour"].min(), frame["hour"].max()]]
    shown = call("info", folder / "days.febm").stdout
    assert "hour from" in shown
    assert "curve day; x hour; y demand" in shown


def test_info_of_a_model_that_was_saved_from_python_says_what_is_not_recorded(surfaces):
    found = answer("info", surfaces)
    assert (found["inputs"], found["outputs"], found["curves"], found["columns"]) == (2, 2, None, None)
    assert "not recorded" in call("info", surfaces).stdout


def test_notes_lie_in_the_header_and_a_file_without_them_has_none(tmp_path):
    save([1, 2], tmp_path / "a.febm", notes={"columns": {"x": ["hour"]}, "größe": 1.5})
    save([1, 2], tmp_path / "b.febm")
    assert febm.load(tmp_path / "a.febm") == febm.load(tmp_path / "b.febm") == [1, 2]
    header = read_header(tmp_path / "a.febm")
    assert header.notes == {"columns": {"x": ["hour"]}, "größe": 1.5}
    assert header.version == febm.__version__
    assert read_header(tmp_path / "b.febm").notes == {}
