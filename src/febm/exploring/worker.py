"""One thread that computes what is asked, one request after the other, and one that warms up while nobody asks."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

LONGEST_WAIT = 20.0  # seconds for what is being compiled when the end comes
# Seconds without a question before a step: a drag asks more often than the first, a visitor who clicks than the second.
SHORT_PAUSE, LONG_PAUSE = 0.25, 2.0


class Step(NamedTuple):
    """A part of a warm-up, to be taken when nobody has asked for some seconds."""

    job: Callable[[], object]
    pause: float = SHORT_PAUSE


class Worker:
    """Threads for numerical work; what is cancelled before its turn is never computed.

    JAX compiles code for shapes that it has not seen, which takes seconds: `warm_up` lets it see them in steps. They
    are taken beside the requests, so that none waits for a step, unless it needs the very code that is being compiled.
    A step that fails ends the warm-up; the request that needs it will say why.
    """

    def __init__(self, warm_up: Iterator[Step]) -> None:
        self._warm_up = warm_up
        self._jobs: queue.Queue[tuple[Future[Any], Callable[[], Any]] | None] = queue.Queue()
        self._asked = 0  # requests that are not answered yet
        self._answered = -LONG_PAUSE  # when the last one was
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._warm = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"febm-explore-{name}", daemon=True)
            for name, target in (("answers", self._answer), ("warm-up", self._take_steps))
        ]

    def start(self) -> None:
        """Begin with the warm-up, and to answer."""
        for thread in self._threads:
            thread.start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Compute `job` when its turn comes."""
        future: Future[T] = Future()
        with self._changed:
            self._asked += 1
        self._jobs.put((future, job))
        return future

    def wait_until_warm(self, timeout: float) -> bool:
        """Wait for the end of the warm-up; False where it did not come in time."""
        return self._warm.wait(timeout)

    def stop(self) -> None:
        """End after what is being computed."""
        self._stopped.set()
        self._jobs.put(None)
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(LONGEST_WAIT)

    def _answer(self) -> None:
        while (job := self._jobs.get()) is not None and not self._stopped.is_set():
            _compute(*job)
            with self._changed:
                self._asked -= 1
                self._answered = time.monotonic()
                self._changed.notify_all()

    def _take_steps(self) -> None:
        with contextlib.suppress(Exception):
            for step in self._warm_up:
                self._wait_until_idle(step.pause)
                if self._stopped.is_set():
                    return
                step.job()
        self._warm.set()

    def _wait_until_idle(self, pause: float) -> None:
        with self._changed:
            while not self._stopped.is_set():
                self._changed.wait_for(lambda: self._asked == 0 or self._stopped.is_set())
                left = self._answered + pause - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)


def _compute(future: Future[Any], job: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)
