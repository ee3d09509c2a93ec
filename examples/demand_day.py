"""A day of electricity demand: at noon, what can be said about the evening.

With the folder of the paper's data in FEBM_DATA the days are those of Great Britain's grid (gridwatch, a value every
ten minutes); without it they are made up: a morning rise, an evening peak, and weekends that begin later.

    python examples/demand_day.py [--small] [--out FOLDER]
"""

import os

import numpy as np
from lesson import axes_for, begin, save

import febm
from febm.datasets import Dataset, load_gridwatch
from febm.evaluation import check_calibration, predictive_scores, summarise


def made_up_days(count: int) -> Dataset:
    """Days at every half hour, in megawatts."""
    rng = np.random.default_rng(0)
    hour = np.linspace(0, 24, 49)
    working = rng.uniform(size=(count, 1)) < 5 / 7
    level, evening = rng.normal(28, 3, (count, 1)), rng.normal(7, 1.5, (count, 1))
    rise = np.where(working, 9.0, 5.0) / (1 + np.exp(-(hour - np.where(working, 6.5, 8.5)) * 1.5))
    fall = np.where(working, 8.0, 5.0) / (1 + np.exp(-(hour - 22) * 1.2))
    demand = level + rise - fall + evening * np.exp(-(((hour - 18) / 2.0) ** 2))
    curves = febm.Curves.from_grid(hour, 1000 * (demand + rng.normal(0, 0.3, demand.shape)))
    return Dataset(*curves.split(0.7, random_state=0), "days of demand", "made up", "none")


def main() -> None:
    small, folder = begin(__doc__)
    real = bool(os.environ.get("FEBM_DATA")) and not small
    data = load_gridwatch(random_state=0, standardise=False) if real else made_up_days(60 if small else 300)
    train, held_out = data.train, data.evaluation
    print(train)

    model = (febm.FPCA if small else febm.FEBM)(random_state=0, progress=not small).fit(train)

    # What is known at noon: the first half of every day that the model has never seen.
    noon = float(np.mean(train.domain))
    morning = held_out.select(held_out.x[:, 0] <= noon)
    rest = held_out.select(held_out.x[:, 0] > noon)
    posterior = model.condition(morning)

    # Judge all of them: proper scores, and whether 90 % intervals hold 90 % of what came.
    scores = summarise(predictive_scores(model, morning, rest, draws=64 if small else 256, random_state=0))
    print(scores)
    coverage = check_calibration(model, morning, rest, draws=64, levels=[0.5, 0.9], random_state=0).coverage
    print(coverage)

    at = np.linspace(*np.ravel(train.domain), 200)
    panels = axes_for(3, "hour")
    for day, axes in enumerate(panels):
        febm.plotting.plot_posterior(posterior, at, curve=day, context=morning, truth=held_out, axes=axes, draws=20)
        axes.set_title(f"day {held_out.ids[day]}")
    panels[0].set_ylabel("demand in MW")
    save(panels, folder / "demand_day.png")


if __name__ == "__main__":
    main()
