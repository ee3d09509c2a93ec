"""Which model for these curves? Fit several, and let curves that none of them saw decide.

Two questions are asked of every model. *Does it know the rest of a curve?* The middle half of each held-out curve is
hidden, and log p(hidden values | the others) says how well it was foretold. *Are its samples like data?* A classifier
tries to tell new curves from held-out ones. The curves are parabolas of two kinds, which a Gaussian model must blur.

    python examples/choose_model.py [--small] [--out FOLDER]
"""

import time

import numpy as np
import pandas as pd
from lesson import axes_for, begin, save

import febm
from febm.evaluation import classifier_test, predictive_scores, split, summarise


def two_kinds(count: int, rng: np.random.Generator) -> febm.Curves:
    """Parabolas that open upwards or downwards, with a little noise."""
    x = np.linspace(-1, 1, 20)
    kind, level = rng.choice([-1.0, 1.0], (count, 1)), rng.normal(0, 0.1, (count, 1))
    return febm.Curves.from_grid(x, kind * x**2 + level + rng.normal(0, 0.03, (count, 20)))


def candidates(small: bool) -> dict[str, febm.Process]:
    """All have the same methods, so a comparison is a loop."""
    quiet = dict(random_state=0, progress=False)
    models = {
        "FPCA": febm.FPCA(**quiet),
        "GaussianProcess": febm.GaussianProcess(**quiet),
        "mixture": febm.FEBM(prior="mixture", **quiet),  # F-EBM without its tilt
    }
    return models if small else {**models, "FEBM": febm.FEBM(**quiet), "EBP": febm.EBP(**quiet)}


def main() -> None:
    small, folder = begin(__doc__)
    curves = two_kinds(60 if small else 300, np.random.default_rng(0))
    train, held_out = curves.split(0.6, random_state=0)
    context, target = split(held_out, "middle", 1 / 2)

    rows, samples = {}, {}
    for name, model in candidates(small).items():
        began = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - began
        scores = summarise(predictive_scores(model, context, target, draws=64, random_state=0))
        samples[name] = model.sample(len(held_out), held_out, noise=True, random_state=0)
        rows[name] = {
            "log density": scores.loc["log_density", "mean"],
            "error": scores.loc["mse", "mean"],
            "p, told apart": classifier_test(held_out, samples[name], random_state=0).pvalue,
            "seconds": seconds,
        }
    table = pd.DataFrame(rows).T
    print(table.round(3).to_string())
    print(f"By log density, take {table['log density'].idxmax()}; samples of those with a small p are told from data.")

    panels = axes_for(1 + len(samples), "x")
    febm.plotting.plot_curves(held_out, axes=panels[0])
    panels[0].set_title("held out")
    for axes, (name, drawn) in zip(panels[1:], samples.items(), strict=True):
        febm.plotting.plot_curves(drawn, axes=axes, color=febm.plotting.MODEL)
        axes.set_title(name)
    save(panels, folder / "choose_model.png")


if __name__ == "__main__":
    main()
