"""A fit that waits for its trainings: a generator that yields each `Training` and is sent what came of it.

Fits that wait at the same time have alike trainings done side by side without knowing of each other.
"""

import math
from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

import jax

from febm.replicas import alike
from febm.training import Trained, Training, memory_needed, train_together

T = TypeVar("T")
Fitting: TypeAlias = Generator[Training, Trained, T]

# Of the free memory of a device: the rest is for what its allocator wastes between the pieces.
USABLE_MEMORY = 0.8


def steps(result: T | Fitting[T]) -> Fitting[T]:
    """What a method returns, at once or, where it is a generator, after its trainings."""
    return (yield from result) if isinstance(result, Generator) else result


def fit_alone(fitting: Fitting[T]) -> T:
    """Go through one fit."""
    return fit_all([fitting], at_once=1)[0]


def fit_all(fittings: Sequence[Fitting[T]], *, at_once: int | None = None) -> list[T]:
    """Go through fits with at most `at_once` trainings side by side; None: as many as `room` says."""
    waiting: dict[int, Training] = {}
    results: dict[int, T] = {}

    def go_on(i: int, trained: Trained | None) -> None:
        try:
            waiting[i] = next(fittings[i]) if trained is None else fittings[i].send(trained)
        except StopIteration as end:
            results[i] = end.value

    for i in range(len(fittings)):
        go_on(i, None)
    while waiting:
        wanted = list(waiting)
        found = _train_all([waiting.pop(i) for i in wanted], at_once)
        for i, trained in zip(wanted, found, strict=True):
            go_on(i, trained)
    return [results[i] for i in range(len(fittings))]


def room(trainings: Sequence[Training]) -> int:
    """How many of these alike trainings go side by side: one on a processor, else what the memory has room for."""
    count, free = len(trainings), _free_memory()
    while count > 1 and memory_needed(trainings[:count]) > USABLE_MEMORY * free:
        count = -(-count // 2)
    return count


def _train_all(trainings: list[Training], at_once: int | None) -> list[Trained]:
    found: dict[int, Trained] = {}
    for group in _alike(trainings):
        size = room([trainings[i] for i in group]) if at_once is None else at_once
        for first in range(0, len(group), size):
            part = group[first : first + size]
            found |= zip(part, train_together([trainings[i] for i in part]), strict=True)
    return [found[i] for i in range(len(trainings))]


def _alike(trainings: list[Training]) -> list[list[int]]:
    """The trainings by number, those together that differ in nothing but the values of their arrays."""
    traits = [(one.objective, one.model, one.data, one.held_out, one.groups, one.settings) for one in trainings]
    groups: list[list[int]] = []
    for i, own in enumerate(traits):
        kin = next((group for group in groups if alike(traits[group[0]], own)), None)
        if kin is None:
            groups.append([i])
        else:
            kin.append(i)
    return groups


def _free_memory() -> float:
    """Free bytes of the device. A processor, which gains nothing from trainings side by side, has none for them."""
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return 0.0
    known = device.memory_stats()
    return math.inf if known is None else known["bytes_limit"] - known["bytes_in_use"]
