"""Where the jobs of a grid run: in this process, in worker processes, or on a cluster.

An engine knows nothing of jobs: it applies a function to tasks and says, in the order in which they finish, what came
of each. The error of one task is its own; so is the death of the process that works on it.
"""

import abc
import collections
import contextlib
import dataclasses
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from febm.checks import whole_number
from febm.libraries import how_to_install

# A worker may be killed for what others on the machine do (memory), so its task gets another chance; not a third one.
CHANCES = 2
# What the numerical libraries size their pools of threads by; JAX reads the first.
THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Of an accelerator, for all workers together: the rest is for what its own libraries keep for every process.
ACCELERATOR_MEMORY = 0.85
CONNECT_SECONDS = 30

Work = Callable[[Any], Any]
_Outcome = tuple[Any, str | None, float]  # value, error, seconds


class Finished(NamedTuple):
    """What came of a task: a value, or the traceback of its error."""

    task: Any
    value: Any
    error: str | None
    seconds: float


class Engine(abc.ABC):
    """Something that gets tasks done."""

    @abc.abstractmethod
    def run(self, work: Work, tasks: Iterable[Any]) -> Generator[Finished, None, None]:
        """Apply `work` to every task, and give what came of each as it finishes."""


@dataclasses.dataclass(frozen=True)
class Here(Engine):
    """One task after the other, in this process."""

    def run(self, work: Work, tasks: Iterable[Any]) -> Generator[Finished, None, None]:
        """In the order of the tasks."""
        for task in tasks:
            yield Finished(task, *_attempt(work, task))


@dataclasses.dataclass(frozen=True)
class Processes(Engine):
    """Worker processes on this machine, each with its share of the cores and of the accelerator's memory.

    They are started afresh, not forked: JAX does not survive that. A script that uses them therefore needs
    `if __name__ == "__main__":` around what it does.
    """

    workers: int

    def __post_init__(self) -> None:
        whole_number("Processes: workers", self.workers)

    def run(self, work: Work, tasks: Iterable[Any]) -> Generator[Finished, None, None]:
        """Each worker is a pool of its own, so that a death is known to be that of one task and harms no other."""
        waiting = collections.deque((task, CHANCES) for task in tasks)
        running: dict[Future[_Outcome], tuple[_Worker, Any, int]] = {}
        workers = min(self.workers, len(waiting))
        with _share_of_machine(max(1, workers)), contextlib.ExitStack() as stack:
            idle = [stack.enter_context(_Worker()) for _ in range(workers)]
            for worker in idle:
                worker.require_started()
            while waiting or running:
                while waiting and idle:
                    worker, (task, chances) = idle.pop(), waiting.popleft()
                    running[worker.submit(work, task)] = worker, task, chances
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    worker, task, chances = running.pop(future)
                    idle.append(worker)
                    try:
                        outcome = future.result()
                    except BrokenProcessPool:
                        worker.restart()
                        if chances > 1:
                            waiting.append((task, chances - 1))
                            continue
                        outcome = _lost(f"The worker process died {CHANCES} times: killed, or out of memory.\n")
                    except Exception:  # what came of it could not be sent back
                        outcome = _lost(traceback.format_exc())
                    yield Finished(task, *outcome)


@dataclasses.dataclass(frozen=True)
class Cluster(Engine):
    """The workers of a Dask scheduler, which need febm and the data; one thread each is best.

    Tasks of a worker that is lost run again elsewhere. Files are written here, by what comes back.
    """

    address: str

    def run(self, work: Work, tasks: Iterable[Any]) -> Generator[Finished, None, None]:
        """As the workers get them done; what is not done is taken back when nobody wants more."""
        with self._connect() as client:
            from distributed import as_completed

            given = [(task, client.submit(_attempt, work, task, pure=False, retries=CHANCES - 1)) for task in tasks]
            tasks_of = {future.key: task for task, future in given}
            try:
                for future in as_completed([future for _, future in given]):
                    try:
                        outcome = future.result()
                    except Exception:  # lost with its worker too often, or with the scheduler
                        outcome = _lost(traceback.format_exc())
                    yield Finished(tasks_of[future.key], *outcome)
            finally:
                with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to cancel
                    client.cancel([future for _, future in given], force=True)

    def _connect(self) -> Any:
        try:
            from distributed import Client
        except ImportError as error:
            raise ImportError(
                f"Cluster: the scheduler at {self.address} needs Dask, which is not installed; "
                f"{how_to_install('dask')}."
            ) from error
        try:
            return Client(self.address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"Cluster: there is no Dask scheduler at {self.address!r} ({error}); start one with `dask scheduler` "
                "and give the address that it prints, such as tcp://127.0.0.1:8786."
            ) from error


class _Worker:
    """One process that takes one task at a time."""

    pool: ProcessPoolExecutor
    pid: Future[int]
    busy: Future[_Outcome] | None

    def __enter__(self) -> "_Worker":
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.busy is not None and not self.busy.done():  # nobody wants the rest: waiting for it may take hours
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid.result(), signal.SIGTERM)
        self.pool.shutdown()

    def submit(self, work: Work, task: Any) -> Future[_Outcome]:
        try:
            self.busy = self.pool.submit(_attempt, work, task)
        except BrokenProcessPool:  # it died with nothing to do
            self.restart()
            self.busy = self.pool.submit(_attempt, work, task)
        return self.busy

    def restart(self) -> None:
        self.pool.shutdown()
        self._start()
        self.require_started()

    def require_started(self) -> None:
        try:
            self.pid.result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "Processes: a worker process does not start; what it said is above. A script that uses workers must "
                "do so under `if __name__ == '__main__':`."
            ) from error

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin_worker)
        self.pid, self.busy = self.pool.submit(os.getpid), None


def _begin_worker() -> None:
    """Ctrl-C is for the parent, which then ends its workers; they do not outlive it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _share_of_machine(workers: int) -> Iterator[None]:
    """Processes that start meanwhile have their share of the cores, and take at most theirs of accelerator memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = dict.fromkeys(THREADS, str(max(1, cores // workers)))
    wanted["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # by default each takes three quarters at once, as this one may
    # What a process has had once it never gives back. JAX refuses this setting beside that of the old name.
    if "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ:
        wanted["XLA_CLIENT_MEM_FRACTION"] = f"{ACCELERATOR_MEMORY / workers:.3f}"
    changed = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name in changed:
            os.environ.pop(name, None)


def _attempt(work: Work, task: Any) -> _Outcome:
    """The value or the error as text: exceptions do not all survive the way between processes."""
    started = time.perf_counter()
    try:
        value, error = work(task), None
    except Exception:
        value, error = None, traceback.format_exc()
    return value, error, time.perf_counter() - started


def _lost(error: str) -> _Outcome:
    return None, error, float("nan")
