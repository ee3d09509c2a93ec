"""Surfaces that are not images: maps of a current from a few buoys.

Somewhere in a square of sea, 100 km wide, an eddy turns, every day another one: here or there, wide or narrow, fast or
slow, to the left or to the right. Buoys drift about and report the current where they happen to be, with an error of
2 cm/s. So every day is a function of two inputs (km east, km north) with two outputs (cm/s east, cm/s north), seen at
points that no other day shares.

From many such days the model learns what eddies look like. Given the few buoys of a new day it then draws the map of
the whole square, and says how far that map can be trusted.

    python examples/surfaces.py --out pictures      # about two minutes on one core
    python examples/surfaces.py --small             # the same in seconds, with too few days to learn much

Two pictures and a table of errors are written.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
from matplotlib import pyplot

import febm
from febm.plotting import plot_posterior_maps, plot_surface

WIDTH = 100.0  # km
NOISE = 2.0  # cm/s
FEW, SOME, MANY = 4, 12, 30  # buoys that are heard of on a new day


# 1. The world. An eddy is known by four numbers; nobody tells them to the model.


def current(points, eddy):
    """The current (cm/s east, cm/s north) of an eddy at points (km east, km north)."""
    east, north, speed, radius = eddy
    away = (points - [east, north]) / radius
    # Fastest at one radius from the centre, still in the middle and far away.
    turning = speed * np.exp(0.5 * (1 - np.sum(away**2, axis=1)))
    return turning[:, None] * np.stack([-away[:, 1], away[:, 0]], axis=1)


def draw_eddies(number, generator):
    """Half of them turn to the left, half to the right."""
    centres = generator.uniform(0.3 * WIDTH, 0.7 * WIDTH, size=(number, 2))
    speeds = generator.choice([-1, 1], size=number) * generator.uniform(20, 45, size=number)
    radii = generator.uniform(14, 24, size=number)
    return np.column_stack([centres, speeds, radii])


def report(eddies, buoys, generator):
    """What the buoys say of every day: ragged curves, each with points of its own."""
    places = [generator.uniform(0, WIDTH, size=(buoys, 2)) for _ in eddies]
    truth = [current(points, eddy) for points, eddy in zip(places, eddies, strict=True)]
    return febm.Curves.from_arrays(places, [values + NOISE * generator.normal(size=values.shape) for values in truth])


# 2. The model.


def models(small):
    """F-EBM and two Gaussian processes to hold it against.

    `FEBM()` would do. A third of its time goes into the tilt, from which held-out days gain next to nothing here: the
    mixture under it already tells the kinds of eddy apart. So it is left out.
    """
    quick = {"components": 2, "remainder": False} if small else {}
    return {
        "FEBM": febm.FEBM(prior="mixture", **quick, random_state=0, progress=False),
        "FPCA": febm.FPCA(random_state=0, progress=False),
        "GaussianProcess": febm.GaussianProcess(random_state=0, progress=False),
    }


# 3. How good is it? The truth is known here, at every point of the square and without noise.


def score(model, eddies, heard, at):
    """The error of the mean and the coverage of 90 % intervals, over the square, given so many buoys a day."""
    truth = np.stack([current(at, eddy) for eddy in eddies])
    posterior = model.condition(heard, random_state=0)
    lower, upper = posterior.interval(at, 0.9)
    error = np.sqrt(np.mean((posterior.mean(at) - truth) ** 2))
    return {"error, cm/s": error, "coverage of 90 %": np.mean((lower <= truth) & (truth <= upper))}


def first_buoys(days, number):
    """The same days, with the first so many of their buoys."""
    place = np.arange(len(days.x)) - np.repeat(days.offsets[:-1], days.lengths)
    return days.select(place < number)


# 4. Pictures.


def draw_days(days, new, path):
    """Some days as the buoys saw them, and as many that the model made up."""
    figure, panels = pyplot.subplots(2, 4, figsize=(10.6, 5.4), layout="constrained", sharex=True, sharey=True)
    for curve, (above, below) in enumerate(panels.T):
        last = curve == panels.shape[1] - 1
        plot_surface(days, curve=curve, limits=(0, 45), colorbar=last, axes=above)
        plot_surface(new, curve=curve, limits=(0, 45), colorbar=last, axes=below)
    panels[0, 0].set_ylabel("days as seen\nkm north")
    panels[1, 0].set_ylabel("new days\nkm north")
    for panel in panels[1]:
        panel.set_xlabel("km east")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def draw_posteriors(model, eddies, days, at, path):
    """The same day from few, some and many buoys: truth, mean and standard deviation."""
    truth = febm.Curves.from_grid(at, np.stack([current(at, eddy) for eddy in eddies]))
    figure, rows = pyplot.subplots(3, 3, figsize=(10.2, 8.6), layout="constrained", sharex=True, sharey=True)
    for row, number in zip(rows, (FEW, SOME, MANY), strict=True):
        heard = first_buoys(days, number)
        posterior = model.condition(heard, random_state=0)
        plot_posterior_maps(posterior, at, context=heard, truth=truth, largest_deviation=25, axes=tuple(row))
        row[0].set_ylabel(f"{number} buoys\nkm north")
    for panel in rows[-1]:
        panel.set_xlabel("km east")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=Path("."), help="folder for the pictures and the table")
    options.add_argument("--small", action="store_true", help="few days, for a look at what happens")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)

    generator = np.random.default_rng(0)
    known, unknown, buoys, side = (25, 4, 30, 8) if chosen.small else (200, 40, 40, 32)
    eddies = draw_eddies(known + unknown, generator)
    days = report(eddies, buoys, generator)
    train, held_out = days[:known], days[known:]

    # Maps are drawn at points of a grid; the model takes any others as well.
    at = WIDTH * febm.grid2d(side, side)
    rows = []
    for name, model in models(chosen.small).items():
        start = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - start
        print(f"{name}: fitted to {known} days in {seconds:.0f} s")
        for number in (FEW, SOME, MANY):
            found = score(model, eddies[known:], first_buoys(held_out, number), at)
            rows.append({"model": name, "buoys": number, **found})
        if name == "FEBM":
            draw_days(train, model.sample(4, at, random_state=1), chosen.out / "surfaces_days.png")
            draw_posteriors(model, eddies[known:], held_out, at, chosen.out / "surfaces_posterior.png")
    table = pd.DataFrame(rows)
    table.to_csv(chosen.out / "surfaces_scores.csv", index=False)
    print(table.to_string(index=False, float_format="{:.3g}".format))


if __name__ == "__main__":
    main()
