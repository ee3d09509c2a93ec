"""A grid of jobs that can be stopped at any time: every job leaves its file as it finishes, and runs no more."""

import contextlib
import dataclasses
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import pandas as pd

from febm import storage
from febm.benchmark.engines import Engine, Here
from febm.benchmark.experiments import ALL_MODELS, DATASETS, EXPERIMENTS, RECIPES, SPLINES, TABLES
from febm.benchmark.folder import RunFolder
from febm.benchmark.jobs import FITTED_TABLES, Job, fit_together, score_job
from febm.benchmark.watching import GridBar
from febm.checks import count, whole_number
from febm.models.base import Process
from febm.models.settings import check_choice
from febm.progress import Progress, as_progress


class Task(NamedTuple):
    """The part of a job that is still to do, and its fitted model where that is kept from before."""

    job: Job
    tables: tuple[str, ...]
    model: bytes | None


class Outcome(NamedTuple):
    """What a task found: rows, and the model where this task fitted it."""

    rows: pd.DataFrame
    model: bytes | None


class GridResult(NamedTuple):
    """What a folder holds after a run.

    Attributes
    ----------
    results : DataFrame
        All rows in the folder.
    failed : tuple of Job
        The jobs of this run that have an error; they run again next time.
    computed, kept : int
        How many jobs of this run were computed, and how many were there already.
    """

    results: pd.DataFrame
    failed: tuple[Job, ...]
    computed: int
    kept: int


def plan(
    tables: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: int = 5,
    recipe: str = "default",
) -> list[Job]:
    """The jobs behind some tables, all of the first seed first; None stands for everything.

    Data sets and models that a table does not have are left out of it. The tables "priors" and "interpolation" compare
    variants of the paper's own recipe, whatever `recipe` is.

    Examples
    --------
    >>> [job.name for job in plan(["power", "prediction"], ["quadratic"], ["FEBM", "FPCA"], seeds=1)]
    ['curves-FEBM-quadratic-default-0', 'curves-FPCA-quadratic-default-0']
    """
    for name, given, allowed in (
        ("tables", tables, TABLES),
        ("datasets", datasets, DATASETS),
        ("models", models, ALL_MODELS),
    ):
        for value in given or ():
            check_choice("plan", name, value, allowed)
    check_choice("plan", "recipe", recipe, RECIPES)
    whole_number("plan: seeds", seeds)
    found: dict[str, Job] = {}
    for seed in range(seeds):
        for job in _jobs_of_seed(tables or TABLES, datasets or DATASETS, models or ALL_MODELS, recipe, seed):
            before = found.get(job.name)
            found[job.name] = job if before is None else _with_tables(before, job.tables)
    if not found:
        raise ValueError(_nothing_there(tables or TABLES, recipe))
    return list(found.values())


def run_grid(
    jobs: Sequence[Job],
    out: str | os.PathLike[str],
    engine: Engine = Here(),
    *,
    progress: bool | Progress = True,
    together: bool | None = None,
    work: Callable[[Task], Outcome] | None = None,
) -> GridResult:
    """Run what the folder `out` does not hold yet, and put all results together there.

    A job that fails leaves its traceback in the folder and is run again next time; the others go on. However the run
    ends, what was finished stays: the same call goes on from there.

    Parameters
    ----------
    jobs
        As `plan` makes them.
    out
        The folder; see `febm.benchmark.RunFolder` for what is in it.
    engine
        `Here()`, `Processes(workers)` or `Cluster(address)`.
    progress
        True for a bar, False for silence, or a `Progress`.
    together
        Fit the seeds of a model side by side in one program before any is scored, if its jobs gain by that; None: where
        the engine has an accelerator. Models of which that fails are fitted one by one.
    work
        What does a task; by default `run_task`.
    """
    folder = RunFolder(out)
    folder.make()
    watch = GridBar() if progress is True else as_progress(progress)
    groups = _groups(jobs, folder)
    if groups and (_is_accelerated(engine) if together is None else together):
        _fit_groups(groups, folder, engine, watch)
    tasks = list(_to_do(jobs, folder))
    failed: list[Job] = []
    done = 0
    try:
        with (
            watch.task(len(tasks), "benchmark") as report,
            contextlib.closing((engine if tasks else Here()).run(work or run_task, tasks)) as stream,
        ):
            for finished in stream:
                job, done = finished.task.job, done + 1
                if finished.error is None:
                    folder.keep(job, *finished.value)
                    watch.message(f"done    {job.name} ({finished.seconds:.0f} s)")
                else:
                    folder.fail(job, finished.error)
                    failed.append(job)
                    watch.message(f"failed  {job.name}: {last_line(finished.error)}")
                report({"epoch": done, "failed": len(failed), "left": len(tasks) - done})
    finally:
        results = folder.write_results()
    return GridResult(results, tuple(failed), len(tasks), len(jobs) - len(tasks))


def run_task(task: Task, *, curves: int | None = None) -> Outcome:
    """Fit and score what a task asks for, by so many evaluation curves."""
    before = None if task.model is None else _from_bytes(task.model)
    rows, model = score_job(task.job, task.tables, curves=curves, model=before)
    return Outcome(rows, _to_bytes(model) if before is None and model is not None else None)


def run_group(jobs: Sequence[Job]) -> list[Outcome]:
    """Fit the models of some jobs side by side."""
    return [Outcome(rows, _to_bytes(model)) for rows, model in fit_together(jobs) if model is not None]


def last_line(error: str) -> str:
    """What a traceback ends with."""
    return error.strip().rpartition("\n")[2]


def _groups(jobs: Sequence[Job], folder: RunFolder) -> list[tuple[Job, ...]]:
    """Jobs that differ in nothing but the seed and gain by being fitted side by side, where that is still to do."""
    groups: dict[Job, list[Job]] = {}
    for job in jobs:
        if job.fits_together and "fit" in folder.missing(job):
            groups.setdefault(dataclasses.replace(job, seed=0), []).append(job)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _is_accelerated(engine: Engine) -> bool:
    """Whether tasks run where there is an accelerator. They are asked: by asking, a process takes memory of it."""
    with contextlib.closing(engine.run(_has_accelerator, [None])) as stream:
        return bool(next(stream).value)


def _has_accelerator(_: None) -> bool:
    return jax.default_backend() != "cpu"


def _fit_groups(tasks: Sequence[tuple[Job, ...]], folder: RunFolder, engine: Engine, watch: Progress) -> None:
    """Fit the jobs of each group side by side, and keep the models."""
    done = 0
    with (
        watch.task(len(tasks), "fits") as report,
        contextlib.closing(engine.run(run_group, tasks)) as stream,
    ):
        for finished in stream:
            done += 1
            name = f"{finished.task[0].name} and {count(len(finished.task) - 1, 'other seed')}"
            if finished.error is None:
                for job, outcome in zip(finished.task, finished.value, strict=True):
                    folder.keep(job, *outcome)
                watch.message(f"fitted  {name} ({finished.seconds:.0f} s)")
            else:
                watch.message(f"apart   {name}: {last_line(finished.error)}")
            report({"epoch": done, "failed": 0, "left": len(tasks) - done})


def _to_do(jobs: Iterable[Job], folder: RunFolder) -> Iterator[Task]:
    for job in jobs:
        missing = folder.missing(job)
        if missing:
            # How long the fit took is known only from a fit.
            yield Task(job, missing, None if "fit" in missing else folder.model(job))


def _jobs_of_seed(
    tables: Sequence[str], datasets: Sequence[str], models: Sequence[str], recipe: str, seed: int
) -> Iterator[Job]:
    for table, (name, experiment) in itertools.product(tables, EXPERIMENTS.items()):
        own = recipe if len(experiment.recipes) > 1 else experiment.recipes[0]
        for dataset, model in itertools.product(experiment.datasets.get(table, ()), experiment.models):
            if dataset in datasets and model in models and experiment.offers(model, dataset, own):
                wanted = (table,) if model in SPLINES else (*FITTED_TABLES, table)
                yield Job(model, dataset, own, seed, name, wanted)


def _with_tables(job: Job, tables: tuple[str, ...]) -> Job:
    return dataclasses.replace(job, tables=tuple(dict.fromkeys(job.tables + tables)))


def _nothing_there(tables: Sequence[str], recipe: str) -> str:
    there = [
        f"{table!r} has {', '.join(experiment.models)} on {', '.join(experiment.datasets[table])}"
        for table in tables
        for experiment in EXPERIMENTS.values()
        if table in experiment.datasets
    ]
    return (
        f"plan: no job has these tables, datasets, models and the recipe {recipe!r} together. " + "; ".join(there) + "."
    )


def _to_bytes(model: Process) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.febm")
        model.save(path)
        return path.read_bytes()


def _from_bytes(contents: bytes) -> Process:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.febm")
        path.write_bytes(contents)
        return storage.load(path)
