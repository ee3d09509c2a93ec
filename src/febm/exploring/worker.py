"""One thread that computes: requests one after the other, and, while nobody asks, the next step of a warm-up."""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST_WAIT = 20.0  # seconds for what is being compiled when the end comes


class Worker:
    """A thread for numerical work; what is cancelled before its turn is never computed.

    JAX compiles code for shapes that it has not seen, which takes seconds: `warm_up` lets it see them in steps, each
    taken only when no request waits. A step that fails ends the warm-up; the request that needs it will say why.
    """

    def __init__(self, warm_up: Iterator[None]) -> None:
        self._warm_up: Iterator[None] | None = warm_up
        self._jobs: queue.Queue[tuple[Future[Any], Callable[[], Any]] | None] = queue.Queue()
        self._stopped = threading.Event()
        self._warm = threading.Event()
        self._thread = threading.Thread(target=self._run, name="febm-explore", daemon=True)

    def start(self) -> None:
        """Begin with the warm-up."""
        self._thread.start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Compute `job` when its turn comes."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        return future

    def wait_until_warm(self, timeout: float) -> bool:
        """Wait for the end of the warm-up; False where it did not come in time."""
        return self._warm.wait(timeout)

    def stop(self) -> None:
        """End after the step that is being computed."""
        self._stopped.set()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(LONGEST_WAIT)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                job = self._jobs.get(block=self._warm_up is None)
            except queue.Empty:
                self._take_step()
                continue
            if job is not None:
                _compute(*job)

    def _take_step(self) -> None:
        assert self._warm_up is not None
        try:
            next(self._warm_up)
        except Exception:  # StopIteration among them: the warm-up is over, one way or the other
            self._warm_up = None
            self._warm.set()


def _compute(future: Future[Any], job: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)
