"""The energy on the latent space: where the tilt makes latents likelier than the base measure, and where rarer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from febm.checks import count
from febm.plotting.style import OBSERVED, PALE, axes_or_current, legend_above_data, tidy
from febm.priors import EnergyPrior, Prior, TiltedPrior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARES = (0.99, 0.9, 0.5)  # of the probability on the slice, inside the contours
REACH = 4.0  # standard deviations about the components of the base that the picture covers
SIDE = 201  # points in each direction
FAINTEST = 0.1  # nats: a tilt below this is invisible in any sample, and should be in a picture


class Slice(NamedTuple):
    """What is drawn, on a grid of two latent coordinates."""

    first: Float[np.ndarray, " side"]
    second: Float[np.ndarray, " side"]
    energy: Float[np.ndarray, "side side"]
    base: Float[np.ndarray, "side side"] | None  # log-densities
    tilted: Float[np.ndarray, "side side"]


def plot_energy(
    model: Any, *, directions: tuple[int, int] = (0, 1), colorbar: bool = True, axes: Axes | None = None
) -> Axes:
    """Draw the energy along two latent coordinates, all others at the mean of the base.

    Colour is E(z) + log Z = log p₀(z)/p(z), in nats: below zero the tilt makes a latent likelier than the base does,
    and above zero rarer. Without a base it is E(z) itself. Contours hold 50, 90 and 99 % of the probability on this
    slice, dashed for the base and solid for the tilted density.

    Parameters
    ----------
    model
        A fitted model with an energy, or its prior.
    directions
        The two latent coordinates, counted from 0.
    colorbar
        Whether a bar beside the axes says what the colours mean.
    axes
        Where to draw; None: the current axes of pyplot.
    """
    from matplotlib.ticker import MaxNLocator

    prior = _prior_of(model)
    found = _slice(prior, _checked(directions, prior.dim))
    axes = axes_or_current(axes)
    region = found.tilted >= _levels(found.tilted)[0]
    if found.base is not None:
        region |= found.base >= _levels(found.base)[0]
    # Far out, where nothing ever is, a network says anything: colours are for where the probability is.
    low, high = np.min(found.energy[region]), np.max(found.energy[region])
    if found.base is not None:
        high = max(abs(low), abs(high), FAINTEST)
        low = -high
    # Bands of round values; the one about zero is neutral.
    centres = np.asarray(MaxNLocator(9).tick_values(low, max(high, low + FAINTEST)))
    step = centres[1] - centres[0]
    colours = axes.contourf(
        found.first,
        found.second,
        found.energy,
        levels=np.append(centres - step / 2, centres[-1] + step / 2),
        cmap=_pale("PuOr_r" if found.base is not None else "Greys"),
        extend="both",
    )
    handles = []
    if found.base is not None:
        handles.append(_contours(axes, found, found.base, "--", "base"))
    handles.append(_contours(axes, found, found.tilted, "-", "tilted" if found.base is not None else "density"))
    axes.set(xlabel=f"latent coordinate {directions[0]}", ylabel=f"latent coordinate {directions[1]}")
    tidy(axes)
    legend_above_data(axes, handles=handles)
    if colorbar:
        bar = axes.figure.colorbar(colours, ax=axes, ticks=centres)
        bar.set_label("energy + log Z (nats)" if found.base is not None else "energy (nats)", color=OBSERVED)
        bar.ax.tick_params(color=PALE, labelcolor=OBSERVED)
        bar.outline.set_visible(False)  # type: ignore[operator]
    return axes


def _prior_of(model: Any) -> EnergyPrior | TiltedPrior:
    prior = model if isinstance(model, Prior) else getattr(getattr(model, "model_", None), "prior", None)
    if isinstance(prior, EnergyPrior | TiltedPrior):
        return prior
    what = type(model).__name__ if prior is None else f"a {type(prior).__name__}"
    raise TypeError(
        f"plot_energy: {what} has no energy; give a fitted FEBM whose prior is 'tilted' or 'energy', or such a prior."
    )


def _checked(directions: Any, dim: int) -> tuple[int, int]:
    chosen = tuple(directions) if isinstance(directions, Sequence | np.ndarray) else ()
    if dim < 2:
        raise ValueError(f"plot_energy: the latent has {count(dim, 'coordinate')}, and the picture needs two.")
    there = all(isinstance(each, int | np.integer) and 0 <= each < dim for each in chosen)
    if len(chosen) != 2 or chosen[0] == chosen[1] or not there:
        raise ValueError(
            f"plot_energy: directions is {directions!r}; give two different coordinates from 0 to {dim - 1}."
        )
    return int(chosen[0]), int(chosen[1])


def _slice(prior: EnergyPrior | TiltedPrior, directions: tuple[int, int]) -> Slice:
    reference = prior.reference
    log_weights, means = (np.asarray(part, dtype=float) for part in reference.components)
    centre = np.exp(log_weights - np.logaddexp.reduce(log_weights)) @ means
    spread = np.sqrt(np.diagonal(np.linalg.inv(np.asarray(reference.within_precision, dtype=float))))
    sides = [
        np.linspace(means[:, i].min() - REACH * spread[i], means[:, i].max() + REACH * spread[i], SIDE)
        for i in directions
    ]
    grid = np.tile(centre, (SIDE * SIDE, 1))
    grid[:, directions] = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    latents = jnp.asarray(grid, jnp.float32)

    def evaluated(function: Any) -> Float[np.ndarray, "side side"]:
        return np.asarray(jax.vmap(function)(latents), dtype=float).reshape(SIDE, SIDE)

    energy, tilted = evaluated(prior.energy), evaluated(prior.log_density)
    base = None
    if isinstance(prior, TiltedPrior):
        energy = energy + float(prior.log_normaliser)
        base = evaluated(prior.base.log_density)
    return Slice(sides[0], sides[1], energy, base, tilted)


def _levels(log_density: Float[np.ndarray, "side side"]) -> list[float]:
    """The log-densities on the borders of the smallest regions that hold the `SHARES` of the slice."""
    falling = np.sort(log_density, axis=None)[::-1]
    held = np.cumsum(np.exp(falling - falling[0]))
    return [float(falling[np.searchsorted(held, share * held[-1])]) for share in SHARES]


def _pale(name: str) -> Any:
    """A colour map without its darkest ends, so that contours can be seen on it."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    ends = (0.15, 0.85) if name == "PuOr_r" else (0.05, 0.6)
    return LinearSegmentedColormap.from_list(f"pale_{name}", colormaps[name](np.linspace(*ends, 64)))


def _contours(
    axes: Axes, found: Slice, log_density: Float[np.ndarray, "side side"], dash: Literal["-", "--"], label: str
) -> Any:
    from matplotlib.lines import Line2D

    width = 1.1 if dash == "--" else 1.6
    axes.contour(
        found.first,
        found.second,
        log_density,
        levels=_levels(log_density),
        colors=OBSERVED,
        linestyles=dash,
        linewidths=width,
    )
    return Line2D([], [], color=OBSERVED, linestyle=dash, linewidth=width, label=f"{label}: 50, 90, 99 %")
