"""Learning rates: one for each group of parameters, reduced where the held-out score stands still."""

import dataclasses
from typing import Any

import equinox as eqx
import optax
from jaxtyping import Array, Float


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of parameters with its own rate: Adam, reduced by `factor` on a plateau down to `minimum`."""

    rate: float = 1e-3
    factor: float = 0.9
    minimum: float = 1e-4
    weight_decay: float = 0.0

    def plateau(self, patience: int) -> optax.GradientTransformationExtraArgs:
        """Optax's plateau schedule; the `scale` of its state is what the rate is multiplied by."""
        smallest = min(1.0, self.minimum / self.rate)
        return optax.contrib.reduce_on_plateau(factor=self.factor, patience=patience, min_scale=smallest)


Groups = tuple[tuple[str, Group], ...]


@eqx.filter_jit
def watch_plateaus(groups: Groups, patience: int, states: dict[str, Any], value: Float[Array, ""]) -> dict[str, Any]:
    """The state of every group's schedule once it is told the newest held-out loss."""
    return {name: group.plateau(patience).update({}, states[name], value=value)[1] for name, group in groups}
