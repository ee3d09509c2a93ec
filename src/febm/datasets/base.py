"""What a data set is: curves to learn from, curves to judge by, and where they come from."""

import dataclasses

from febm.curves import Curves


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Training and evaluation curves with their story."""

    train: Curves
    evaluation: Curves
    description: str
    source: str
    licence: str
