"""Small counts: calls an hour to a surgery, with a likelihood that knows that they are counts.

Most hours have none, one or two calls. A Gaussian model would give fractions and negative numbers; with a Poisson
likelihood the function is the logarithm of a rate, and values are whole. Nothing is exact then, so this model is
trained by chains, with the paper's loss.

    python examples/counts.py [--small] [--out FOLDER]
"""

import numpy as np
from lesson import axes_for, begin, save

import febm
from febm.inference import Effort
from febm.langevin import Chain, StepSize
from febm.models.settings import Langevin, Networks
from febm.training import Optimisation


def days_of_calls(count: int, rng: np.random.Generator) -> tuple[febm.Curves, np.ndarray]:
    """Calls in each of 24 hours, and the rates behind them: quiet days, and days when something goes round."""
    hour = np.arange(24.0)
    busy = rng.choice([0.6, 1.8], (count, 1), p=[0.7, 0.3])
    rates = busy * (0.2 + 2.5 * np.exp(-(((hour - 9 - rng.normal(0, 0.7, (count, 1))) / 2.5) ** 2)))
    rates = rates + busy * np.exp(-(((hour - 16) / 2.0) ** 2))
    return febm.Curves.from_grid(hour, rng.poisson(rates).astype(float)), rates


def settings(small: bool) -> dict:
    """The defaults, or next to nothing."""
    if not small:
        return {}
    chain = Chain(5, StepSize(0.2), metropolis=True)
    return dict(
        rank=4,
        networks=Networks(width=8, depth=1),
        langevin=Langevin(posterior=chain, prior=chain),
        optimisation=Optimisation(epochs=5, batch_size=32),
        effort=Effort(draws=64, particles=64),
    )


def main() -> None:
    small, folder = begin(__doc__)
    rng = np.random.default_rng(0)
    days, _ = days_of_calls(40 if small else 300, rng)
    model = febm.FEBM(likelihood="poisson", random_state=0, progress=not small, **settings(small)).fit(days)

    # Functions are rates; with noise they are counts.
    new_rates = model.sample(30, random_state=1)
    new_calls = model.sample(200, noise=True, random_state=1)
    print(f"New days have {new_calls.y.sum() / 200:.1f} calls, seen ones {days.y.sum() / len(days):.1f};")
    print(f"all whole: {bool((new_calls.y == np.round(new_calls.y)).all())}, the least is {new_calls.y.min():.0f}.")

    # By ten in the morning it shows whether something goes round.
    today, rates = days_of_calls(3, np.random.default_rng(4))
    by_ten = today.select(today.x[:, 0] <= 10)
    posterior = model.condition(by_ten)
    hour = np.linspace(0, 23, 100)

    panels = axes_for(4, "hour")
    febm.plotting.plot_curves(new_rates, axes=panels[0], color=febm.plotting.MODEL)
    panels[0].set(title="30 new rates", ylabel="calls an hour")
    truth = febm.Curves.from_grid(np.arange(24.0), rates)
    for day, axes in enumerate(panels[1:]):
        febm.plotting.plot_posterior(posterior, hour, curve=day, context=by_ten, truth=truth, axes=axes, draws=15)
        axes.set_title(f"{by_ten[day].y.sum():.0f} calls by ten")
    save(panels, folder / "counts.png")


if __name__ == "__main__":
    main()
