"""Where a training stands between two epochs, and the checkpoint of it."""

import dataclasses
from pathlib import Path
from typing import Any

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
