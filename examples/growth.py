"""Growth records with missing parts: children who were measured now and then, and some who left.

A growth study measures children when they come. Some come often, some a few times; some move away at ten. What will
they be like at eighteen? Every record helps, however short: the model learns the shape of growth from all of them.

    python examples/growth.py [--small] [--out FOLDER]
"""

import numpy as np
from lesson import axes_for, begin, save

import febm


def measured_children(count: int, rng: np.random.Generator) -> tuple[febm.Curves, febm.Curves]:
    """Heights in cm as they were measured, and the whole curves that nobody has seen."""
    age = np.linspace(1, 18, 69)
    final, spurt, tempo = (rng.normal(*moments, (count, 1)) for moments in ((172, 8), (13, 1.1), (1, 0.08)))
    # Fast at first, slower in childhood, and a spurt that comes early for some and late for others.
    childhood = 0.42 + 0.48 * (1 - np.exp(-0.16 * tempo * age))
    heights = final * (childhood + 0.10 / (1 + np.exp(-1.4 * (age - spurt))))
    whole = febm.Curves.from_grid(age, heights, ids=[f"child {i}" for i in range(count)])
    seen = rng.uniform(size=heights.shape) < rng.choice([0.08, 0.2, 0.4], size=(count, 1))
    seen &= age < np.where(rng.uniform(size=(count, 1)) < 0.3, 10, 19)  # three of ten leave the study at ten
    seen[:, 0] = True
    records = whole.replace(y=whole.y + rng.normal(0, 0.4, whole.y.shape)).select(seen.ravel())
    return records, whole


def main() -> None:
    small, folder = begin(__doc__)
    rng = np.random.default_rng(0)
    records, _ = measured_children(60 if small else 250, rng)
    print(records)

    # Records may be as short as one visit; the model takes them as they are.
    model = (febm.FPCA if small else febm.FEBM)(random_state=0, progress=not small).fit(records)

    # Other children, seen until they were nine: what is known of the rest?
    newcomers, their_lives = measured_children(40, rng)
    early = newcomers.select(newcomers.x[:, 0] < 9)
    age = np.linspace(1, 18, 100)
    posterior = model.condition(early)
    lower, upper = posterior.interval(age, 0.9)
    truth = their_lives.y.reshape(40, 69)
    adult = truth[:, -1]
    inside = np.mean((lower[:, -1, 0] <= adult) & (adult <= upper[:, -1, 0]))
    print(f"Seen until nine, the height at eighteen is known to ± {np.mean(upper - lower, axis=0)[-1, 0] / 2:.1f} cm;")
    print(f"{inside:.0%} of 40 children end in their 90 % interval.")

    panels = axes_for(3, "age in years")
    most_seen = np.argsort(early.lengths)
    for axes, child in zip(panels, most_seen[[0, 20, -1]], strict=True):
        febm.plotting.plot_posterior(
            posterior, age, curve=int(child), context=early, truth=their_lives, axes=axes, draws=20
        )
        axes.set_title(f"{early.lengths[child]} visits before nine")
    panels[0].set_ylabel("height in cm")
    save(panels, folder / "growth.png")


if __name__ == "__main__":
    main()
