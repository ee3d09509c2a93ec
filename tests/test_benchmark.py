"""What the benchmark knows of the paper, and the rows that a job gives."""

import numpy as np
import pytest

import febm
from febm.benchmark import Job, published, run_job
from febm.benchmark.jobs import MODELS, SPLITS, TABLES

COLUMNS = ["table", "dataset", "model", "recipe", "seed", "split", "p", "metric", "n", "value"]


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
    assert list(rows.columns) == COLUMNS
    assert set(rows.table) == set(TABLES)
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
    assert set(powers.metric) == {"power", "floor", "power_fpca", "floor_fpca"}
    assert powers.value.between(0, 1).all()


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_default_and_a_paper_recipe(model):
    for recipe in ("default", "paper"):
        assert type(Job(model, "melbourne", recipe).process()) is getattr(febm, model)


@pytest.mark.parametrize("job", [dict(model="Kriging"), dict(dataset="weather"), dict(recipe="own")])
def test_jobs_that_do_not_exist_are_refused(job):
    with pytest.raises(ValueError, match="choose one of"):
        Job(**dict(model="FPCA", dataset="quadratic") | job)
