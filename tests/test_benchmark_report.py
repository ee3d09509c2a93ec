"""The report of a benchmark: files for every table and figure, and one page that needs nothing else."""

import io

import numpy as np
import pandas as pd
import pytest
from browser import chromium, visit
from PIL import Image

import febm
from febm import datasets
from febm.benchmark import published
from febm.benchmark.cells import CELLS
from febm.benchmark.figures import draw_maps, draw_samples, scale_of
from febm.benchmark.figures_images import bicubic, draw_image_samples, draw_images, draw_scaled_samples, nearest
from febm.benchmark.figures_prediction import coverage_by_level
from febm.benchmark.report import write_report
from febm.benchmark.shelf import fitted_models
from febm.curves import Curves

FAILED = "curves-VIP-quadratic-default-1"


def scores(models=("FEBM", "FPCA", "GaussianProcess"), data=("quadratic", "melbourne"), seeds=2):
    """A run's rows, every score made up."""
    generator = np.random.default_rng(0)
    rows = []
    for dataset in data:
        for model in models:
            for seed in range(seeds):
                about = dict(dataset=dataset, model=model, recipe="default", seed=seed)
                rows += [
                    about
                    | dict(table="prediction", split=split, p=p, metric=metric, n=0, value=low + generator.uniform())
                    for split, p in CELLS
                    for metric, low in (
                        ("mse", 0),
                        ("log_density", 0),
                        ("crps", 0),
                        ("coverage_90", 0),
                        ("coverage_50", 0),
                    )
                ]
                rows += [
                    about | dict(table="power", split="", p="", metric=metric, n=10, value=generator.uniform())
                    for metric in ("power", "floor", "power_fpca", "floor_fpca")
                ]
                rows.append(about | dict(table="fit", split="", p="", metric="seconds", n=0, value=1.0))
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder of a run with models of two data sets, one broken, and a job that failed."""
    folder = tmp_path_factory.mktemp("run")
    for name in ("models", "errors"):
        (folder / name).mkdir()
    for dataset, data in (
        ("quadratic", datasets.load_quadratic(0, n_train=40, n_evaluation=10)),
        ("gp", datasets.load_gp_draws(0, n_train=20, n_evaluation=10, points=20)),
    ):
        model = febm.FPCA(random_state=0, progress=False).fit(data.train)
        model.save(folder / "models" / f"curves-FPCA-{dataset}-default-0.febm")
    (folder / "models" / "curves-EBP-quadratic-default-0.febm").write_bytes(b"no model")
    (folder / "errors" / f"{FAILED}.txt").write_text("Traceback\n  File …\nFloatingPointError: the loss is <NaN>\n")
    return folder


@pytest.fixture(scope="module")
def page(out):
    return write_report(out, scores(), command="febm benchmark --seeds 2")


@pytest.fixture(scope="module")
def text(page):
    return page.read_text("utf-8")


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def test_page_tables_and_figures_are_in_the_folder_of_the_run(out, page):
    assert page == out / "index.html"
    tables = {"prediction", "power", "log_density", "crps", "coverage", "cost", "verdict", "gains", "standing"}
    assert {path.name for path in (out / "tables").iterdir()} == {f"{n}.{e}" for n in tables for e in ("md", "tex")}
    assert {path.stem for path in (out / "figures").iterdir()} == {"samples", "pca", "tsne", "splits", "gp", "coverage"}
    for path in (out / "figures").iterdir():
        assert Image.open(io.BytesIO(path.read_bytes())).width > 400


def test_verdict_comes_before_tables_and_what_was_run_is_told(text):
    order = ["Against the paper", "Where F-EBM stands</h2>", "Prediction</h2>", "Failed jobs</h2>", "What was run</h2>"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "febm benchmark --seeds 2" in text
    assert "3 models on 2 data sets, seeds 0, 1" in text
    assert febm.__version__ in text


def test_failed_jobs_are_listed_with_the_end_of_their_error(text):
    assert FAILED in text
    assert "FloatingPointError: the loss is &lt;NaN&gt;" in text


def test_a_model_that_cannot_be_read_costs_its_panel_only(text):
    assert "EBP on quadratic is not drawn" in text
    assert "could not be drawn" not in text
    assert "could not be made" not in text


def test_page_holds_its_pictures_and_no_scripts(text):
    assert text.count("data:image/png;base64,") == 6
    assert "<script" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_published_rows_and_best_cells_can_be_told_on_the_page(text):
    assert 'class="quiet"' in text
    assert "<b>" in text.split("Prediction</h2>")[1]


@pytest.mark.parametrize("size", [(360, 740), (1280, 900)], ids=["phone", "desk"])
def test_page_opens_offline_without_complaint_and_never_scrolls_sideways(browser, page, size):
    with visit(browser, page, width=size[0], height=size[1]) as seen:
        assert seen.complaints == []
        assert [url for url in seen.requests if not url.startswith("data:")] == [page.resolve().as_uri()]
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        links = seen.page.locator("a")
        assert all(seen.page.locator(links.nth(i).get_attribute("href")).count() == 1 for i in range(links.count()))


def test_a_run_of_one_model_and_no_fits_has_a_page_too(tmp_path):
    text = write_report(tmp_path, scores(("FPCA",), ("stocks",), 1)).read_text("utf-8")
    assert "F-EBM is not among the models" in text
    assert "One seed" in text
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"coverage"}


def test_no_scores_at_all_have_a_page_that_says_so(tmp_path):
    text = write_report(tmp_path, scores()[:0]).read_text("utf-8")
    assert "No scores yet." in text
    assert list((tmp_path / "tables").iterdir()) == []


def test_data_that_are_not_there_cost_their_pictures_only(tmp_path, monkeypatch, out):
    (tmp_path / "models").mkdir()
    for dataset in ("quadratic", "melbourne"):
        there = (out / "models" / "curves-FPCA-quadratic-default-0.febm").read_bytes()
        (tmp_path / "models" / f"curves-FPCA-{dataset}-default-0.febm").write_bytes(there)

    def missing(**_):
        raise FileNotFoundError("no such data.")

    monkeypatch.setattr(datasets, "load_melbourne", missing)
    with pytest.warns(UserWarning, match=r"FPCA on melbourne is not drawn. FileNotFoundError: no such data\."):
        drawn = draw_samples(fitted_models(tmp_path))
    assert drawn is not None
    assert len(drawn.figure.axes) == 2


def test_models_are_found_by_their_names_in_the_order_of_tables(tmp_path):
    (tmp_path / "models").mkdir()
    names = (
        "interpolation-gaussian + network interpolation-gp-paper-0",
        "curves-EBP-stocks-default-1",
        "curves-EBP-stocks-default-2",
        "curves-FEBM-stocks-paper-0",
        "curves-FEBM-quadratic-default-0",
        "notes",
    )
    for name in names:
        (tmp_path / "models" / f"{name}.febm").touch()
    found = [(each.experiment, each.label, each.dataset) for each in fitted_models(tmp_path)]
    assert found == [
        ("curves", "FEBM", "quadratic"),
        ("curves", "FEBM (paper recipe)", "stocks"),
        ("curves", "EBP", "stocks"),
        ("interpolation", "gaussian + network interpolation", "gp"),
    ]
    assert [each.is_main for each in fitted_models(tmp_path)] == [True, True, True, False]
    assert [each.seed for each in fitted_models(tmp_path)] == [0, 0, 1, 0]


def test_without_models_there_is_nothing_to_draw():
    assert draw_samples([]) is None
    assert draw_maps([], "pca") is None


def test_samples_are_drawn_to_the_scale_of_their_data(out):
    with pytest.warns(UserWarning, match="EBP on quadratic"):
        drawn = draw_samples(fitted_models(out))
    assert drawn is not None
    limits = [axes.get_ylim() for axes in drawn.figure.axes if axes.axison]
    assert limits[0] == limits[1] == limits[2]  # data, FPCA and the empty panel of EBP


def test_one_wild_curve_does_not_set_the_scale_but_peaks_of_all_curves_do():
    values = np.zeros((100, 50))
    values[:, 20] = 1.0
    values[7] = 1e6
    low, high = scale_of(Curves.from_grid(np.arange(50.0), values))
    assert -0.5 < low < 0
    assert 1 < high < 1.5


def test_coverage_comes_from_the_table_of_calibration_where_there_is_one():
    rows = scores(("FPCA",), ("quadratic",), 2)
    splits = coverage_by_level(rows)
    assert splits["level"].tolist() == [0.5, 0.9]
    expected = rows[rows["metric"] == "coverage_50"]["value"].mean()
    assert splits["coverage"].iloc[0] == pytest.approx(expected)
    about = dict(table="calibration", dataset="gp", model="FPCA", recipe="default", seed=0, split="", n=0)
    levels = [about | dict(p=p, metric="coverage", value=float(p) / 2) for p in ("0.95", "0.05")]
    found = coverage_by_level(pd.concat([rows, pd.DataFrame(levels)]))
    assert found[["dataset", "level", "coverage"]].to_numpy().tolist() == [["gp", 0.05, 0.025], ["gp", 0.95, 0.475]]


def test_a_bicubic_spline_goes_through_what_is_seen_and_knows_a_plane():
    lines = (np.arange(8) + 0.5) / 8
    points = np.stack(np.meshgrid(lines, lines, indexing="ij"), axis=-1).reshape(-1, 2)
    plane = 0.2 + 0.3 * points[:, 0] + 0.4 * points[:, 1]
    truth = Curves.from_grid(points, plane[None])
    context, _ = febm.evaluation.split(truth, "downsample", 1 / 4)
    inside = (points < context.x.max()).all(axis=1)
    assert np.allclose(bicubic(context, truth).y[inside, 0], plane[inside])
    assert np.array_equal(nearest(context, truth).y.reshape(8, 8)[::2, ::2].ravel(), context.y[:, 0])


def test_images_are_drawn_seen_filled_in_and_true(tmp_path, monkeypatch):
    """A row of pictures each for what is seen, every model, the spline and the truth."""
    lines = (np.arange(8) + 0.5) / 8
    points = np.stack(np.meshgrid(lines, lines, indexing="ij"), axis=-1).reshape(-1, 2)
    slopes = np.random.default_rng(0).uniform(0, 0.5, (30, 2))
    pictures = Curves.from_grid(points, slopes @ points.T)
    data = datasets.Dataset(pictures[:24], pictures[24:], "slopes", "made here", "none")
    monkeypatch.setattr(datasets, "load_fashion_mnist", lambda *_, **__: data)
    (tmp_path / "models").mkdir()
    febm.FPCA(random_state=0, progress=False).fit(data.train).save(
        tmp_path / "models" / "images-FPCA-fashion_mnist-default-0.febm"
    )
    models = fitted_models(tmp_path)
    drawn = draw_images(models)
    assert drawn is not None
    assert [axes.get_ylabel() for axes in drawn.figure.axes] == ["seen", "FPCA", "bicubic", "truth"]
    assert all(len(axes.images) == 1 for axes in drawn.figure.axes)
    drawn = draw_image_samples(models)
    assert [axes.get_ylabel() for axes in drawn.figure.axes] == ["data", "FPCA"]
    drawn = draw_scaled_samples(models)
    assert [axes.get_ylabel() for axes in drawn.figure.axes] == ["14 × 14", "28 × 28", "56 × 56", "280 × 280"]
    assert all(len(axes.images) == 1 for axes in drawn.figure.axes)
    assert draw_samples(models) is None


def test_every_published_cell_of_febm_has_a_place_in_the_verdict():
    """What the verdict compares with is there under the names that results use."""
    rows = published().query("table == 'prediction' and model == 'FEBM'")
    assert set(zip(rows["split"], rows["p"], strict=True)) == set(CELLS)
