"""Engines get every task done, whatever becomes of the others, of a worker or of the whole run."""

import contextlib
import os
import sys
import time

import pytest
from benchmark_work import (
    die_at_first,
    die_unless_even,
    environment,
    interrupt_itself,
    no_way_back,
    process_id,
    sleep_if_second,
    square,
    square_of_even,
    start_program,
)

from febm.benchmark import Cluster, Here, Processes
from febm.benchmark.engines import ACCELERATOR_MEMORY, CHANCES, THREADS

ENGINES = [Here(), Processes(2)]


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether the process ends within some seconds."""
    for _ in range(int(10 * seconds)):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(") ")[2].startswith("Z"):  # ended, and its parent has not asked
                return True
        time.sleep(0.1)
    return False


def written(path, seconds: float = 60.0) -> str:
    """What a file says, once it is there."""
    for _ in range(int(10 * seconds)):
        if path.exists():
            return path.read_text()
        time.sleep(0.1)
    raise TimeoutError(path)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_error_of_a_task_is_its_own(engine):
    found = {finished.task: finished for finished in engine.run(square_of_even, range(5))}
    assert {task: finished.value for task, finished in found.items()} == {0: 0, 1: None, 2: 4, 3: None, 4: 16}
    assert "ValueError: 3 is odd" in found[3].error
    assert [found[task].error for task in (0, 2, 4)] == [None] * 3
    assert all(finished.seconds >= 0 for finished in found.values())


def test_workers_are_other_processes_that_stay():
    found = {finished.value for finished in Processes(2).run(process_id, range(6))}
    assert os.getpid() not in found
    assert len(found) <= 2
    assert all(map(gone, found))


def test_a_worker_that_is_killed_loses_nothing(tmp_path):
    found = {finished.task: finished for finished in Processes(2).run(die_at_first, [1, tmp_path / "mark", 2, 3])}
    assert {task: finished.value for task, finished in found.items()} == {
        1: 1,
        2: 2,
        3: 3,
        tmp_path / "mark": "survived",
    }
    assert all(finished.error is None for finished in found.values())


def test_a_task_that_kills_its_worker_again_is_given_up_and_the_others_are_done():
    found = {finished.task: finished for finished in Processes(2).run(die_unless_even, range(4))}
    assert [found[task].value for task in range(4)] == [0, None, 4, None]
    assert f"died {CHANCES} times" in found[1].error


def test_a_value_that_cannot_be_sent_is_the_error_of_its_task():
    (found,) = Processes(1).run(no_way_back, [0])
    assert found.value is None
    assert "pickle" in found.error.lower()


def test_workers_share_the_cores_unless_the_user_says_how_many(monkeypatch):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    cores = len(os.sched_getaffinity(0))
    found = Processes(cores + 1).run(environment, [THREADS] * cores)
    assert [finished.value for finished in found] == [["1", "7", "1", "1"]] * cores
    assert "NPROC" not in os.environ


@pytest.mark.parametrize(
    ("given", "shares"),
    [
        ({}, [f"{ACCELERATOR_MEMORY / 2:.3f}", None]),
        ({"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3"}, [None, "0.3"]),
        ({"XLA_CLIENT_MEM_FRACTION": "0.3"}, ["0.3", None]),
    ],
)
def test_workers_share_the_memory_of_an_accelerator_unless_the_user_says_how_much(monkeypatch, given, shares):
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = Processes(3).run(environment, [names] * 2)
    assert [finished.value for finished in found] == [[*shares, "false"]] * 2


def test_a_run_that_nobody_wants_more_of_ends_its_workers(tmp_path):
    run = Processes(2).run(sleep_if_second, [tmp_path / "first", tmp_path / "second"])
    assert next(run).value == "first"
    pid = int(written(tmp_path / "second"))
    started = time.monotonic()
    run.close()
    assert gone(pid)
    assert time.monotonic() - started < 60


def test_workers_do_not_outlive_a_run_that_is_killed(tmp_path):
    program = (
        "import sys, pathlib\n"
        "from benchmark_work import sleep_long\n"
        "from febm.benchmark import Processes\n"
        "if __name__ == '__main__':\n"
        "    list(Processes(1).run(sleep_long, [pathlib.Path(sys.argv[1])]))\n"
    )
    with start_program(tmp_path, program, tmp_path / "mark") as run:
        worker = int(written(tmp_path / "mark"))
        run.kill()
    assert gone(worker)


def test_a_number_of_workers_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="workers is 0; give a whole number of at least 1"):
        Processes(0)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as made:
        yield made


def test_cluster_does_every_task_and_an_error_is_that_of_its_task(cluster):
    found = {finished.task: finished for finished in Cluster(cluster.scheduler_address).run(square_of_even, range(4))}
    assert [found[task].value for task in range(4)] == [0, None, 4, None]
    assert "ValueError: 3 is odd" in found[3].error


def test_a_worker_of_the_cluster_that_is_killed_loses_nothing(cluster, tmp_path):
    tasks = [1, tmp_path / "mark", 2, 3]
    found = {finished.task: finished for finished in Cluster(cluster.scheduler_address).run(die_at_first, tasks)}
    assert {task: finished.value for task, finished in found.items()} == dict(
        zip(tasks, [1, "survived", 2, 3], strict=True)
    )
    assert (tmp_path / "mark").exists()


def test_a_scheduler_that_is_not_there_is_said_to_be_missing(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("febm.benchmark.engines.CONNECT_SECONDS", 1)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:9'"):
        list(Cluster("tcp://127.0.0.1:9").run(square, [1]))


def test_without_dask_the_way_to_get_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'febm\[dask\]' \(or, alone, pip install dask distributed\)"):
        list(Cluster("tcp://127.0.0.1:9").run(square, [1]))


def test_interrupt_signal_is_left_to_the_parent():
    (found,) = Processes(1).run(interrupt_itself, [0])
    assert (found.value, found.error) == ("still here", None)
