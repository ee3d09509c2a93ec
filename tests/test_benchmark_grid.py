"""A grid plans each fit once, goes on where it stopped, and keeps what is done whatever happens to the rest."""

import functools
import os
import time

import numpy as np
import pandas as pd
import pytest
from benchmark_work import rows_but_die_at_first, rows_of, start_program
from listening import Listener

import febm
from febm.benchmark import Cluster, Job, Processes, RunFolder, plan, published, run_grid
from febm.benchmark.experiments import EXPERIMENTS, MODELS
from febm.benchmark.folder import read_rows, write_whole
from febm.benchmark.grid import Task, run_task
from febm.benchmark.jobs import COLUMNS
from febm.models.settings import PAPER_CURVES

small_task = functools.partial(run_task, curves=12)


@pytest.fixture
def jobs() -> list[Job]:
    """Three seeds of one model."""
    return plan(["power"], ["quadratic"], ["FPCA"], seeds=3)


class Recorded:
    """Work that remembers its tasks; some of them fail."""

    def __init__(self, failing=()):
        self.failing, self.tasks = failing, []

    def __call__(self, task):
        self.tasks.append(task)
        if task.job.seed in self.failing:
            raise ArithmeticError(f"seed {task.job.seed} is unlucky")
        return rows_of(task)

    @property
    def seeds(self):
        return [task.job.seed for task in self.tasks]


# Planning


def test_tables_that_need_the_same_fit_share_a_job():
    jobs = plan(["power", "prediction", "calibration"], ["quadratic", "gp"], ["FEBM", "FPCA"], seeds=2)
    assert len(jobs) == 2 * 2 * 2
    tables = {job.dataset: set(job.tables) for job in jobs}
    fitted = {"fit", "evidence"}
    assert tables == {"quadratic": fitted | {"power", "prediction", "calibration"}, "gp": fitted | {"calibration"}}


def test_all_of_the_first_seed_comes_first():
    seeds = [job.seed for job in plan(seeds=3)]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1, 2}


def test_files_of_different_jobs_have_different_names():
    names = [job.name for recipe in ("default", "paper") for job in plan(seeds=2, recipe=recipe) if job.seed == 1]
    shared = {job.name for job in plan(["priors", "interpolation"], seeds=2) if job.seed == 1}
    assert len(names) - len(set(names)) == len(shared)  # the two tables that are the paper's in both recipes


@pytest.mark.parametrize("table", ["power", "prediction", "priors", "interpolation"])
def test_every_published_row_has_a_job_in_either_recipe(table):
    rows = published().query("table == @table")
    for recipe in ("default", "paper"):
        found = {(job.dataset, job.model) for job in plan([table], seeds=1, recipe=recipe)}
        assert set(zip(rows.dataset, rows.model, strict=True)) <= found


def test_everything_has_all_tables_and_models():
    jobs = plan(seeds=1)
    assert {table for job in jobs for table in job.tables} == {
        *("fit", "evidence"),
        *("power", "prediction", "calibration", "priors", "interpolation", "images"),
    }
    assert {job.model for job in jobs if job.dataset == "melbourne"} == set(MODELS)
    assert {"FEBM", "FPCA", "bilinear", "bicubic"} <= {job.model for job in jobs if job.dataset == "fashion_mnist"}


def test_models_without_a_recipe_of_the_paper_are_left_out_of_it():
    assert {job.dataset for job in plan(["calibration"], models=["FEBM"], seeds=1, recipe="paper")} == set(PAPER_CURVES)
    images = {job.model for job in plan(["images"], seeds=1, recipe="paper")}
    assert images == {"FEBM", "bilinear", "bicubic"}


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (dict(tables=["scores"]), "tables is 'scores'; choose one of 'power'"),
        (dict(datasets=["weather"]), "datasets is 'weather'; choose one of"),
        (dict(models=["Kriging"]), "models is 'Kriging'; choose one of 'FEBM'"),
        (dict(recipe="own"), "recipe is 'own'; choose one of 'default', 'paper'"),
        (dict(seeds=0), "seeds is 0; give a whole number of at least 1"),
        (dict(tables=["priors"], models=["FPCA"]), r"'priors' has Gaussian\(d_z=100\), .* on quadratic"),
    ],
)
def test_a_grid_that_does_not_exist_is_refused(choice, sentence):
    with pytest.raises(ValueError, match=sentence):
        plan(**choice)


@pytest.mark.parametrize("name", ["priors", "interpolation"])
def test_variants_of_the_paper_can_be_made(name):
    experiment = EXPERIMENTS[name]
    (dataset,) = experiment.datasets[name]
    made = {model: Job(model, dataset, "paper", experiment=name).process() for model in experiment.models}
    if name == "priors":
        found = {model: (made[model].prior, made[model].latent_dim) for model in made}
        assert found == {
            "Gaussian(d_z=100)": ("gaussian", 100),
            "EBM(d_z=10)": ("energy", 10),
            "EBM(d_z=100)": ("energy", 100),
            "Tilted": ("tilted", 100),
        }
    else:
        assert isinstance(made.pop("gp"), febm.GaussianProcess)
        assert {(model.basis.kernel, model.basis.interpolation) for model in made.values()} == {
            (kernel, interpolation) for kernel in ("gaussian", "matern52") for interpolation in ("ridge", "network")
        }


# Running


def test_a_run_leaves_scores_models_and_all_results(jobs, tmp_path):
    found = run_grid(jobs, tmp_path, progress=False, work=rows_of)
    assert (found.failed, found.computed, found.kept) == ((), 3, 0)
    assert sorted(path.name for path in (tmp_path / "scores").iterdir()) == [f"{job.name}.csv" for job in jobs]
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == [f"{job.name}.febm" for job in jobs]
    assert list((tmp_path / "errors").iterdir()) == []
    table = read_rows(tmp_path / "results.csv")
    assert tuple(table.columns) == COLUMNS
    pd.testing.assert_frame_equal(table, found.results)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), table, check_dtype=False)


def test_what_is_there_is_not_computed_again(jobs, tmp_path):
    run_grid(jobs[:2], tmp_path, progress=False, work=rows_of)
    work = Recorded()
    found = run_grid(jobs, tmp_path, progress=False, work=work)
    assert work.seeds == [2]
    assert (found.computed, found.kept) == (1, 2)
    assert sorted(found.results.seed.unique()) == [0, 1, 2]


def test_a_table_that_is_asked_for_later_is_added_from_the_model_that_was_kept(tmp_path):
    run_grid(plan(["power"], ["quadratic"], ["FPCA"], seeds=2), tmp_path, progress=False, work=rows_of)
    jobs, work = plan(["power", "prediction"], ["quadratic"], ["FPCA"], seeds=2), Recorded()
    found = run_grid(jobs, tmp_path, progress=False, work=work)
    assert [task.tables for task in work.tasks] == [("prediction",)] * 2
    assert [task.model for task in work.tasks] == [b"a model"] * 2
    assert sorted(read_rows(RunFolder(tmp_path).score_path(jobs[0])).table) == [
        "evidence",
        "fit",
        "power",
        "prediction",
    ]
    assert len(found.results) == 2 * 4


def test_a_job_that_fails_is_recorded_and_the_others_go_on(jobs, tmp_path):
    work = Recorded(failing=[1])
    found = run_grid(jobs, tmp_path, progress=False, work=work)
    assert work.seeds == [0, 1, 2]
    assert found.failed == (jobs[1],)
    error = RunFolder(tmp_path).error_path(jobs[1]).read_text()
    assert error.startswith("Traceback")
    assert error.rstrip().endswith("ArithmeticError: seed 1 is unlucky")
    assert sorted(read_rows(tmp_path / "results.csv").seed.unique()) == [0, 2]


def test_a_job_that_failed_runs_again_and_its_error_goes(jobs, tmp_path):
    run_grid(jobs, tmp_path, progress=False, work=Recorded(failing=[1]))
    work = Recorded()
    found = run_grid(jobs, tmp_path, progress=False, work=work)
    assert work.seeds == [1]
    assert found.failed == ()
    assert list((tmp_path / "errors").iterdir()) == []
    assert sorted(found.results.seed.unique()) == [0, 1, 2]


def test_after_an_interruption_the_results_of_what_is_done_are_there(jobs, tmp_path):
    def interrupted(task):
        if task.job.seed == 1:
            raise KeyboardInterrupt
        return rows_of(task)

    with pytest.raises(KeyboardInterrupt):
        run_grid(jobs, tmp_path, progress=False, work=interrupted)
    assert set(read_rows(tmp_path / "results.csv").seed) == {0}
    assert list((tmp_path / "errors").iterdir()) == []


def test_a_run_that_is_killed_goes_on_where_it_stopped(jobs, tmp_path):
    program = (
        "import sys\n"
        "from benchmark_work import rows_until_the_third_seed\n"
        "from febm.benchmark import plan, run_grid\n"
        "jobs = plan(['power'], ['quadratic'], ['FPCA'], seeds=3)\n"
        "run_grid(jobs, sys.argv[1], progress=False, work=rows_until_the_third_seed)\n"
    )
    with start_program(tmp_path, program, tmp_path) as run:
        deadline = time.monotonic() + 120
        while not RunFolder(tmp_path).score_path(jobs[1]).exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        run.kill()
    work = Recorded()
    found = run_grid(jobs, tmp_path, progress=False, work=work)
    assert work.seeds == [2]
    assert sorted(found.results.seed.unique()) == [0, 1, 2]


def test_a_process_that_leaves_the_work_to_others_leaves_them_the_accelerator_too(tmp_path):
    """By starting JAX's backend a process takes three quarters of a GPU's memory."""
    program = (
        "import sys\n"
        "import jax\n"
        "from benchmark_work import rows_of\n"
        "import febm.benchmark.command\n"
        "from febm.benchmark import Processes, plan, run_grid\n"
        "from jax._src.xla_bridge import backends_are_initialized\n"
        "if __name__ == '__main__':\n"
        "    jobs = plan(['power'], ['quadratic'], ['FEBM', 'NeuralProcess'], seeds=2)\n"
        "    found = run_grid(jobs, sys.argv[1], Processes(1), progress=False, work=rows_of)\n"
        "    print(found.computed, backends_are_initialized())\n"
        "    jax.devices()\n"
        "    print(backends_are_initialized())\n"
    )
    printed, _ = start_program(tmp_path, program, tmp_path / "run").communicate()
    assert printed.split() == ["4", "False", "True"]


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    write_whole(path, b"before")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"after, and cut off")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_a_kill_left_unfinished_are_not_results(jobs, tmp_path):
    run_grid(jobs[:1], tmp_path, progress=False, work=rows_of)
    (tmp_path / "scores" / f".{jobs[1].name}.csv.0a1b.tmp").write_text("table,data")
    assert set(run_grid(jobs[:1], tmp_path, progress=False, work=rows_of).results.seed) == {0}


def test_a_file_in_place_of_the_folder_is_refused(jobs, tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ValueError, match="is a file that stands in the way"):
        run_grid(jobs, tmp_path / "taken", progress=False, work=rows_of)


def test_rows_come_back_from_a_file_as_they_were(jobs, tmp_path):
    folder = RunFolder(tmp_path)
    folder.make()
    rows, _ = rows_of(Task(jobs[0], jobs[0].tables, None))
    rows = pd.concat([rows] * 2, ignore_index=True).assign(value=[0.1 + 0.2, np.nan, np.inf] * 2)
    rows.loc[0, "p"] = "0.9"
    folder.keep(jobs[0], rows, None)
    pd.testing.assert_frame_equal(read_rows(folder.score_path(jobs[0])), rows, check_dtype=False)


def test_a_job_without_rows_leaves_a_file_without_rows(jobs, tmp_path):
    found = run_grid(jobs[:1], tmp_path, progress=False, work=lambda task: (rows_of(task)[0][:0], None))
    assert found.results.empty
    assert tuple(read_rows(tmp_path / "results.csv").columns) == COLUMNS
    assert RunFolder(tmp_path).missing(jobs[0]) == jobs[0].tables


def test_worker_processes_write_what_one_process_writes(jobs, tmp_path, monkeypatch):
    monkeypatch.setenv("FEBM_TEST_MARKER", str(tmp_path / "mark"))
    found = run_grid(jobs, tmp_path / "out", Processes(2), progress=False, work=rows_but_die_at_first)
    assert (tmp_path / "mark").exists()
    assert found.failed == ()
    expected = run_grid(jobs, tmp_path / "alone", progress=False, work=rows_of).results
    pd.testing.assert_frame_equal(found.results, expected)


def test_a_cluster_that_loses_a_worker_in_the_middle_of_a_job_loses_no_job(jobs, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("FEBM_TEST_MARKER", str(tmp_path / "mark"))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        engine = Cluster(cluster.scheduler_address)
        found = run_grid(jobs, tmp_path / "out", engine, progress=False, work=rows_but_die_at_first)
    assert (tmp_path / "mark").exists()
    assert found.failed == ()
    expected = run_grid(jobs, tmp_path / "alone", progress=False, work=rows_of).results
    pd.testing.assert_frame_equal(found.results, expected)


# Seeds side by side


def test_seeds_that_are_fitted_side_by_side_are_scored_from_the_models_that_were_kept(tmp_path):
    jobs = plan(["prediction"], ["quadratic"], ["FPCA", "GaussianProcess"], seeds=2)
    work = Recorded()
    found = run_grid(jobs, tmp_path, progress=False, together=True, work=work)
    assert [task.tables for task in work.tasks] == [("evidence", "prediction")] * 4
    models = [febm.load(RunFolder(tmp_path).model_path(job)) for job in jobs]
    assert [type(model).__name__ for model in models] == [job.model for job in jobs]
    assert [model.random_state for model in models] == [job.seed for job in jobs]
    seconds = found.results.query("table == 'fit'").set_index(["model", "seed"]).value
    assert (seconds > 0).all()
    assert seconds["FPCA", 0] == seconds["FPCA", 1]  # a share of the time of both


def test_a_run_that_is_stopped_after_the_fits_does_not_fit_again(jobs, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        run_grid(jobs, tmp_path, progress=False, together=True, work=interrupt)
    monkeypatch.setattr(febm.FPCA, "fit", fail)
    work = Recorded()
    run_grid(jobs, tmp_path, progress=False, together=True, work=work)
    assert [task.tables for task in work.tasks] == [("evidence", "power")] * 3


def test_seeds_that_cannot_be_fitted_side_by_side_are_fitted_one_by_one(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(febm, "fit_together", fail)
    work = Recorded()
    found = run_grid(jobs, tmp_path, progress=False, together=True, work=work)
    assert [(task.tables, task.model) for task in work.tasks] == [(("fit", "evidence", "power"), None)] * 3
    assert found.failed == ()


def test_jobs_that_gain_nothing_from_it_are_not_fitted_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(febm, "fit_together", fail)
    jobs = plan(["power"], ["quadratic"], ["FEBM"], seeds=2)
    listener, work = Listener(), Recorded()
    run_grid(jobs, tmp_path, progress=listener, together=True, work=work)
    assert [task.tables for task in work.tasks] == [("fit", "evidence", "power")] * 2
    assert [message.split()[0] for message in listener.heard] == ["done", "done"]
    assert all(job.fits_together for job in plan(["power"], ["stocks"], ["FEBM"], recipe="paper"))


def interrupt(*_):
    raise KeyboardInterrupt


def fail(*_, **__):
    raise MemoryError("no room")


# The work itself


def test_scores_from_a_kept_model_are_those_of_a_fresh_fit(tmp_path):
    power, both = (plan(tables, ["quadratic"], ["FPCA"], seeds=1) for tables in (["power"], ["power", "prediction"]))
    run_grid(power, tmp_path / "later", progress=False, work=small_task)
    kept = febm.load(RunFolder(tmp_path / "later").model_path(power[0]))
    assert isinstance(kept, febm.FPCA)
    found = run_grid(both, tmp_path / "later", progress=False, work=small_task).results
    expected = run_grid(both, tmp_path / "at once", progress=False, work=small_task).results
    timed = expected.metric.str.endswith("seconds")
    assert (found.metric == expected.metric).all()
    np.testing.assert_allclose(found.value[~timed], expected.value[~timed], rtol=1e-5, atol=1e-12)
