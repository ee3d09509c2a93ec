"""What the benchmark knows of the paper, and the rows that a job gives."""

import dataclasses

import numpy as np
import pytest

import febm
from febm.benchmark import Job, published, run_job
from febm.benchmark import jobs as jobs_module
from febm.benchmark.experiments import MODELS
from febm.benchmark.jobs import COLUMNS, CURVE_TABLES, SPLITS
from febm.curves import Curves
from febm.datasets import Dataset


@pytest.fixture(scope="module")
def rows():
    return run_job(Job("FPCA", "quadratic", seed=3), curves=30)


def test_every_number_of_the_paper_is_there():
    """Six models on four data sets: nine errors and one power each; the rows of the two ablations."""
    counts = published().groupby("table").size()
    assert counts[["prediction", "power", "priors", "interpolation"]].tolist() == [6 * 4 * 9, 6 * 4, 4 * 10, 5 * 10]
    cell = published().query("table == 'prediction' and dataset == 'melbourne' and model == 'FEBM'")
    cell = cell[cell.split == "middle"]
    assert cell.set_index("p").value.to_dict() == {"1/4": 0.773, "1/2": 0.421, "3/4": 0.110}


def test_an_error_that_the_paper_calls_high_is_infinite():
    high = published().query("table == 'prediction' and dataset == 'quadratic' and model == 'GaussianProcess'")
    assert high[np.isinf(high.value)][["split", "p"]].values.tolist() == [["middle", "1/4"]]


def test_rows_say_what_they_are_about(rows):
    assert tuple(rows.columns) == COLUMNS
    assert set(rows.table) == set(CURVE_TABLES)
    assert set(rows.seed) == {3}
    assert np.isfinite(rows.value).all()


def test_every_split_has_every_score_once(rows):
    scores = rows[rows.table == "prediction"]
    assert len(scores) == 5 * len(SPLITS)
    assert not scores.duplicated(["split", "p", "metric"]).any()
    assert set(zip(scores.split, scores.p, strict=True)) == {(kind, str(p)) for kind, p in SPLITS}


def test_error_is_that_of_the_posterior_mean(rows):
    data = Job("FPCA", "quadratic", seed=3).data()
    model = febm.FPCA(random_state=3, progress=False).fit(data.train)
    context, target = febm.evaluation.split(data.evaluation[:30], "middle", 1 / 4, random_state=3)
    expected = np.mean((model.condition(context).mean(target).y - target.y) ** 2)
    found = rows.query("split == 'middle' and p == '1/4' and metric == 'mse'").value.item()
    assert found == pytest.approx(expected, rel=1e-6)


def test_power_is_beside_its_floor_where_there_are_curves_enough(rows):
    powers = rows[rows.table == "power"]
    assert set(powers.n) == {10}
    assert set(powers.metric) == {name + suffix for name in ("power", "floor", "resampled") for suffix in ("", "_fpca")}
    assert powers.value.between(0, 1).all()


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_default_and_a_paper_recipe(model):
    for recipe in ("default", "paper"):
        assert type(Job(model, "melbourne", recipe).process()) is getattr(febm, model)


@pytest.mark.parametrize(
    "job", [dict(model="Kriging"), dict(dataset="weather"), dict(recipe="own"), dict(experiment="mine")]
)
def test_jobs_that_do_not_exist_are_refused(job):
    with pytest.raises(ValueError, match="choose one of"):
        Job(**dict(model="FPCA", dataset="quadratic") | job)


def test_a_model_without_a_recipe_of_the_paper_is_refused():
    with pytest.raises(ValueError, match="FPCA has no recipe 'paper' for 'gp'"):
        Job("FPCA", "gp", "paper")


def test_coverage_is_told_for_every_level(rows):
    found = rows[rows.table == "calibration"]
    for metric in ("coverage", "simultaneous"):
        shares = found[found.metric == metric]
        assert "0.9" in set(shares.p)
        assert not shares.p.duplicated().any()
        assert shares.value.between(0, 1).all()
    assert found[found.metric == "coverage"].value.is_monotonic_increasing
    assert {"error", "pit_distance", "marginal_distance"} < set(found.metric)


def test_calibration_is_that_of_the_model():
    """Curves of a Gaussian process, given to that process: its noise, which they lack, can only widen intervals."""
    job = Job("gp", "gp", "paper", experiment="interpolation")
    found = run_job(job, ("fit", "evidence", "calibration"), curves=30).set_index(["metric", "p"]).value
    assert found["coverage", "0.9"] > 0.85
    assert found["coverage", "0.5"] > 0.45
    assert found["log_evidence", ""] > 100  # of 50 values that are known to one part in ten thousand


def test_variants_have_power_and_errors_under_the_name_of_their_table(monkeypatch):
    monkeypatch.setattr(jobs_module, "SPLITS", SPLITS[:2])
    monkeypatch.setattr(jobs_module, "SIZES", (10,))
    monkeypatch.setattr(jobs_module, "KERNELS", {"id": ""})
    job = Job("gp", "gp", "paper", experiment="interpolation", tables=("interpolation",))
    found = run_job(job, curves=12)
    assert set(found.table) == {"interpolation"}
    own = published().query("table == 'interpolation' and model == 'gp'")
    cells = set(zip(found.metric, found.split, found.p, found.n, strict=True))
    assert {("power", "", "", 10), ("mse", "downsample", "1/4", 0)} <= cells
    assert {"power", "mse"} == set(own.metric)
    # The curves have variance 1, and every fourth of 50 points on ten lengths of their kernel says most of them.
    assert (found[found.metric == "mse"].value < 0.1).all()


def test_variants_complete_some_curves_and_score_them_as_others_are(monkeypatch):
    tested = []

    def power(evaluation, other, **_):
        tested.append(len(evaluation))
        return 0.0

    monkeypatch.setattr(jobs_module, "test_power", power)
    monkeypatch.setattr(jobs_module, "SPLITS", SPLITS[-1:])
    found = run_job(Job("gp", "gp", "paper", experiment="interpolation"), ("interpolation", "prediction"))
    scores = found[found.split == "random"].pivot(index="metric", columns="table", values="value")
    assert set(tested) == {100}
    data = Job("gp", "gp", "paper", experiment="interpolation").data()
    assert len(data.evaluation) == 100
    assert scores.interpolation["mse"] == pytest.approx(scores.prediction["mse"], rel=1e-6)
    # One has the quantiles, the other those of 100 draws.
    assert scores.interpolation["coverage_90"] == pytest.approx(scores.prediction["coverage_90"], abs=0.1)


def test_variants_complete_the_first_fifty_curves(monkeypatch):
    seen = []

    def recorded(curves, kind, p, random_state):
        seen.append(curves.ids.tolist())
        return febm.evaluation.split(curves, kind, p, random_state=random_state)

    monkeypatch.setattr(jobs_module, "split", recorded)
    run_job(job := Job("gp", "gp", "paper", experiment="interpolation"), ("fit", "evidence", "calibration"))
    assert seen == [job.data().evaluation[:50].ids.tolist()] * 2


def pictures(number: int, side: int = 8) -> Curves:
    """Pictures that a straight line through every second pixel gets right, but for the last column."""
    rng = np.random.default_rng(0)
    column = np.repeat(rng.random((number, side // 2)), 2, axis=1)
    column[:, 1:-1:2] = (column[:, :-2:2] + column[:, 2::2]) / 2
    centres = (np.arange(side) + 0.5) / side
    points = np.stack(np.meshgrid(centres, centres, indexing="ij"), axis=-1).reshape(-1, 2)
    return Curves.from_grid(points, np.repeat(column[:, None], side, axis=1).reshape(number, -1))


@pytest.fixture
def small_pictures(monkeypatch):
    data = Dataset(pictures(40), pictures(12), "", "", "")
    monkeypatch.setattr(jobs_module, "load_data", lambda *_: data)
    return data


def test_bilinear_pictures_are_straight_between_pixels_and_constant_at_the_end(small_pictures):
    job = Job("bilinear", "fashion_mnist", experiment="images", tables=("images",))
    (row,) = run_job(job).to_dict("records")
    assert (row["split"], row["p"], row["metric"]) == ("downsample", "1/4", "mse")
    assert row["value"] == pytest.approx(0, abs=1e-20)


def test_bicubic_pictures_differ_from_straight_ones(small_pictures):
    job = Job("bicubic", "fashion_mnist", experiment="images", tables=("images",))
    assert 1e-6 < run_job(job).value.item() < 0.02


def test_models_complete_the_same_pixels_of_pictures(small_pictures):
    found = run_job(Job("FPCA", "fashion_mnist", experiment="images", tables=("fit", "images")))
    scores = found[found.table == "images"].set_index("metric").value
    assert set(zip(found[found.table == "images"].split, found[found.table == "images"].p, strict=True)) == {
        ("downsample", "1/4")
    }
    assert scores["mse"] < 1e-4
    assert scores.index.tolist() == [*jobs_module.SCORES, "log_level"]
    assert -0.7 < scores["log_level"] < 0


def test_samples_of_pictures_with_labels_are_judged(monkeypatch):
    made = pictures(52)
    made = Curves(made.x, made.y, made.offsets, covariates={"label": np.arange(52) % 2})
    monkeypatch.setattr(jobs_module, "load_data", lambda *_: Dataset(made[:40], made[40:], "", "", ""))
    found = run_job(Job("FPCA", "fashion_mnist", experiment="images", tables=("images",)))
    samples = found[found.split == "samples"]
    judged = ["sure", "sure_data", "least_share", "variation", "nearest", "nearest_data", "frechet", "frechet_data"]
    assert samples.metric.tolist() == [*judged, "power", "floor"]
    assert samples.n.tolist() == [0] * 8 + [10] * 2
    scores = samples.set_index("metric").value
    assert scores["variation"] == pytest.approx(1.0, abs=0.3)
    assert 0 <= scores["sure"] <= 1


def test_a_job_is_named_by_all_that_tells_it_from_others():
    job = Job("Tilted", "quadratic", "paper", 3, "priors")
    assert job.name == "priors-Tilted-quadratic-paper-3"
    assert dataclasses.replace(job, tables=("fit",)).name == job.name
