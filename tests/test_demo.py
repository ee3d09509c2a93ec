"""What the demo promises: one picture, one table of honest figures, and a command that answers at once."""

import subprocess
import sys

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import febm.demo
from febm import FEBM, Curves, __version__
from febm.cli import app
from febm.demo import DemoResult, run_demo
from febm.plotting import plot_curves, plot_posterior, plot_samples_beside_data
from febm.tilting import TiltTraining

FIGURES = [
    "upward_share_data",
    "upward_share_samples",
    "flat_share_samples",
    "spread_data",
    "spread_samples",
    "mean_squared_error",
    "coverage_scattered",
    "coverage_middle",
    "two_sample_p_value",
    "training_seconds",
]


def small_model() -> FEBM:
    """F-EBM with nothing to search for and little to train."""
    tilt = TiltTraining(width=8, steps=10, proposals=256)
    return FEBM(rank=2, components=2, energy_dim=2, tilt=tilt, random_state=0, progress=False)


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> DemoResult:
    folder = tmp_path_factory.mktemp("demo") / "made" / "by the demo"
    return run_demo(folder, progress=False, model=small_model(), n_curves=60)


def test_demo_writes_one_picture_and_one_table(result):
    assert sorted(path.name for path in result.picture.parent.iterdir()) == ["demo.csv", "demo.png"]


def test_picture_is_a_png_with_something_in_every_third(result):
    assert result.picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = matplotlib.image.imread(result.picture)
    height, width = pixels.shape[:2]
    assert height > 400
    assert width > 1200
    for panel in np.array_split(pixels[..., :3], 3, axis=1):
        ink = np.mean(np.any(panel < 0.95, axis=-1))
        assert 0.02 < ink < 0.6


def test_picture_is_small_enough_for_a_page(result):
    assert result.picture.stat().st_size < 200_000


def test_table_names_every_figure_and_says_what_it_means(result):
    table = pd.read_csv(result.table)
    assert list(table.columns) == ["name", "value", "meaning"]
    assert list(table["name"]) == FIGURES
    assert (table["meaning"].str.len() > 20).all()
    pd.testing.assert_frame_equal(table, result.figures, check_dtype=False)


def test_figures_are_those_of_a_model_that_learned_both_kinds_of_curve(result):
    value = result.figures.set_index("name")["value"]
    assert abs(value["upward_share_data"] - value["upward_share_samples"]) < 0.15
    assert value["flat_share_samples"] < 0.05
    assert 0.5 < value["spread_samples"] / value["spread_data"] < 2
    assert 0 < value["mean_squared_error"] < 25
    assert 0.6 < value["coverage_scattered"] <= 1
    assert 0.6 < value["coverage_middle"] <= 1
    assert 0.01 < value["two_sample_p_value"] <= 1
    assert value["training_seconds"] > 0


def test_same_seed_gives_the_same_figures(result, tmp_path):
    again = run_demo(tmp_path, progress=False, model=small_model(), n_curves=60)
    timed = again.figures["name"] == "training_seconds"
    pd.testing.assert_frame_equal(again.figures[~timed], result.figures[~timed])


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "demo.csv").write_text("of an earlier run")
    run_demo(tmp_path, progress=False, model=small_model(), n_curves=60)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "demo.csv").read_text().startswith("name,value,meaning")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.csv", "demo.png", "notes.txt"]


def test_a_file_in_place_of_the_folder_is_refused_before_any_work(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ValueError, match="stands in the way"):
        run_demo(tmp_path / "taken", model=small_model())
    assert (tmp_path / "taken").read_text() == "mine"


def test_help_names_the_demo_and_its_options():
    runner = CliRunner()
    plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}
    assert "demo" in runner.invoke(app, ["--help"], env=plain).output
    shown = runner.invoke(app, ["demo", "--help"], env=plain).output
    assert all(option in shown for option in ("--out", "--seed", "--quiet"))


def test_version_is_the_version_of_the_package():
    found = CliRunner().invoke(app, ["--version"])
    assert found.exit_code == 0
    assert found.output.strip() == f"febm {__version__}"


def test_help_does_not_wait_for_jax():
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from febm.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print([name for name in ('jax', 'sklearn', 'matplotlib') if name in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.fixture
def fixed_result(result, monkeypatch):
    """The command with its work already done."""
    calls = []

    def done(folder, *, random_state, progress):
        calls.append((str(folder), random_state, progress))
        return result

    monkeypatch.setattr(febm.demo, "run_demo", done)
    return calls


def test_command_says_where_the_files_are_and_what_was_found(result, fixed_result):
    found = CliRunner().invoke(app, ["demo", "--out", "there", "--seed", "3"], env={"COLUMNS": "100"})
    assert found.exit_code == 0
    assert fixed_result == [("there", 3, True)]
    assert str(result.picture) in found.output
    assert str(result.table) in found.output
    assert all(name in found.output for name in FIGURES)


def test_quiet_command_prints_nothing(fixed_result):
    found = CliRunner().invoke(app, ["demo", "--quiet"])
    assert (found.exit_code, found.output) == (0, "")
    assert fixed_result == [("febm-demo", 0, False)]


def test_command_refuses_a_negative_seed(fixed_result):
    assert CliRunner().invoke(app, ["demo", "--seed", "-1"]).exit_code == 2
    assert fixed_result == []


def test_curves_are_drawn_from_left_to_right_whatever_the_order_of_their_points():
    axes = Figure().add_subplot()
    curves = Curves.from_arrays([[2.0, 0.0, 1.0], [1.0, 0.0]], [[4.0, 0.0, 1.0], [1.0, 3.0]])
    assert plot_curves(curves, axes=axes) is axes
    first, second = axes.collections[0].get_segments()
    np.testing.assert_array_equal(first, [[0, 0], [1, 1], [2, 4]])
    np.testing.assert_array_equal(second, [[0, 3], [1, 1]])


def test_samples_and_data_are_drawn_on_the_same_scale_and_equally_many():
    data = Curves.from_grid([0.0, 1.0], np.array([[0.0, 1.0]] * 5))
    samples = Curves.from_grid([0.0, 1.0], np.array([[0.0, 100.0]] * 9))
    left, right = plot_samples_beside_data(data, samples, axes=tuple(Figure().subplots(1, 2)))
    assert left.get_ylim() == right.get_ylim()
    assert left.get_ylim()[1] >= 100
    assert len(left.collections[0].get_segments()) == len(right.collections[0].get_segments()) == 5


def test_curves_of_several_inputs_are_refused():
    surface = Curves.from_grid(np.zeros((3, 2)) + np.arange(3)[:, None], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="only one input and one output"):
        plot_curves(surface, axes=Figure().add_subplot())


def test_posterior_is_drawn_for_the_curve_asked_for(result):
    at = np.linspace(-10, 10, 11)
    context = Curves.from_grid([-9.0, -5.0, 0.0, 5.0, 9.0], [[81.0, 25, 0, 25, 81], [-81.0, -25, 0, -25, -81]])
    posterior = result.model.condition(context, random_state=0)
    for curve, sign in ((0, 1), (1, -1)):
        axes = plot_posterior(posterior, at, curve=curve, draws=4, context=context, axes=Figure().add_subplot())
        band, draws = axes.collections
        middle_of_right_end = np.mean([point[1] for point in band.get_paths()[0].vertices if point[0] == 10])
        assert np.sign(middle_of_right_end) == sign
        assert len(draws.get_segments()) == 4
        assert all(np.sign(line[-1, 1]) == sign for line in draws.get_segments())
        np.testing.assert_array_equal(axes.lines[-1].get_ydata(), context[curve].y[:, 0])
