"""Where a training stands between two epochs, what is decided there, and the checkpoint of it."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from febm.checkpoints import read_checkpoint, write_checkpoint

NUMBERS = ("best_score", "history", "best_epoch", "slowdown", "rescues")


@dataclasses.dataclass
class Course:
    """All that a checkpoint has to hold."""

    state: Any
    best: Any
    plateaus: dict[str, Any]
    best_score: float
    history: list[dict[str, Any]]
    best_epoch: int = 0
    slowdown: float = 1.0
    rescues: int = 0

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history) - 1

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The parts that are trees of arrays."""
        return self.state, self.best, self.plateaus

    def save(self, path: Path, mark: str) -> None:
        """Write a checkpoint of the training that `mark` belongs to."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        write_checkpoint(path, self.arrays, numbers, mark)

    def resume(self, path: Path, mark: str) -> "Course":
        """The course as a checkpoint left it, or this one where there is none."""
        found = read_checkpoint(path, self.arrays, mark)
        return self if found is None else Course(*found[0], **found[1])


@eqx.filter_jit
def watch_plateaus(
    groups: tuple[tuple[str, Any], ...], patience: int, states: dict[str, Any], value: Float[Array, ""]
) -> dict[str, Any]:
    """The state of the schedule of every group of parameters, once it is told the newest held-out loss."""
    return {name: group.plateau(patience).update({}, states[name], value=value)[1] for name, group in groups}


def trouble(information: dict[str, float], score: float) -> str | None:
    """What of an epoch is not a number, in words."""
    bad = [name for name, value in {**information, "score": score}.items() if not math.isfinite(value)]
    return f"{', '.join(bad)} not finite" if bad else None
