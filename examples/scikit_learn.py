"""Curves in scikit-learn: fill what is missing, describe each curve by a few numbers, predict from them, and search.

A machine leaves a curve of vibration when it starts, with parts missing; some weeks later it is known how long its
bearing lasted. The curves go through a pipeline like any other features: `febm.Imputer` fills the gaps from what the
rest of a curve says, and `transform` of a model gives the mean latent of each curve.

    python examples/scikit_learn.py [--small] [--out FOLDER]
"""

import numpy as np
from lesson import axes_for, begin, save
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import febm


def starts(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Vibration at 40 times, NaN where it was not recorded, and the life of the bearing in weeks."""
    time = np.linspace(0, 1, 40)
    play, pitch = rng.gamma(3, 0.5, (count, 1)), rng.normal(0, 0.1, (count, 1))
    curves = (1 - np.exp(-5 * time)) + 0.6 * play * np.exp(-(((time - 0.4 - pitch) / 0.12) ** 2))
    curves += rng.normal(0, 0.05, curves.shape)
    weeks = 30 - 8 * play[:, 0] + rng.normal(0, 1.0, count)
    first = rng.integers(0, 28, (count, 1))
    gap = (np.arange(40) >= first) & (np.arange(40) < first + 12)
    return np.where(gap | (rng.uniform(size=curves.shape) < 0.3), np.nan, curves), weeks


def main() -> None:
    small, folder = begin(__doc__)
    X, weeks = starts(40 if small else 300, np.random.default_rng(0))
    folds, ranks = (2, [2]) if small else (3, [1, 2, 4, 8])
    fpca = febm.FPCA(random_state=0, progress=False)

    # Three ways to come from curves with gaps to a number.
    ways = {
        "column means, then ridge": make_pipeline(SimpleImputer(), RidgeCV()),
        "febm.Imputer, then ridge": make_pipeline(febm.Imputer(fpca), RidgeCV()),
        "scores of the curves, then ridge": make_pipeline(fpca, RidgeCV()),
    }
    for name, pipeline in ways.items():
        print(f"{name:34s} R² = {cross_val_score(pipeline, X, weeks, cv=folds).mean():.3f}")

    # Settings of the model are searched like those of any other step.
    search = GridSearchCV(ways["scores of the curves, then ridge"], {"fpca__rank": ranks}, cv=folds).fit(X, weeks)
    print(f"Best: {search.best_params_}, R² = {search.best_score_:.3f}")

    # A model by itself is chosen by its score, the log density of held-out values.
    density = GridSearchCV(fpca, {"rank": ranks}, cv=folds).fit(X)
    print(f"By density alone: {density.best_params_}")

    filled = febm.Imputer(fpca).fit(X).transform(X)
    panels = axes_for(3, "time")
    for row, axes in enumerate(panels):
        axes.plot(np.linspace(0, 1, 40), filled[row], "-", color=febm.plotting.MODEL, label="filled")
        axes.plot(np.linspace(0, 1, 40), X[row], "o", color=febm.plotting.OBSERVED, markersize=4, label="recorded")
        axes.set_title(f"{weeks[row]:.0f} weeks")
    panels[0].set_ylabel("vibration")
    panels[0].legend(frameon=False)
    save(panels, folder / "scikit_learn.png")


if __name__ == "__main__":
    main()
