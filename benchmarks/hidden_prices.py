"""How far the error in the middle half of *stocks* is from what can be reached, in the units of the benchmark.

Prints the mean squared error over the splits of the benchmark, first of linear predictions: the conditional mean under
a covariance part of which is that of a random walk. For each transform of the prices its share is the one that is best
on the evaluation curves themselves, which no honest model can know; once with half of the curves to learn from, and
once with all but a twentieth of the 400, so that nearly twice as many say what the covariance is. Then that of F-EBM,
and how much of it the five stocks that cost most have. (With --linear without F-EBM, which takes some minutes.)
"""

import argparse
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import febm
from febm.basis.grid import complete_moments, walk_covariance
from febm.datasets import load_stocks
from febm.evaluation import split

TRANSFORMS = {
    "identity": (lambda y: y, lambda t: t),
    "square root": (np.sqrt, np.square),
    "cube root": (np.cbrt, lambda t: t**3),
    "logarithm": (np.log, np.exp),
}
SHARES = (0.3, 0.5, 0.6, 0.7, 0.85, 1.0)
# Of the variance of the values: a covariance of 200 curves and 200 points has to be inverted.
NOISE = 1e-6
FOLDS = 20
EXPENSIVE = 5


class Split(NamedTuple):
    """Prices in dollars, one curve a row; whose they are; and the unit that errors are measured in."""

    train: np.ndarray
    evaluation: np.ndarray
    tickers: tuple[list[str], list[str]]
    unit: float


def load(seed: int) -> Split:
    data = load_stocks(seed, standardise=False)
    parts = data.train, data.evaluation
    train, evaluation = (part.y.reshape(len(part), -1) for part in parts)
    return Split(train, evaluation, tuple(list(part.covariates["ticker"]) for part in parts), float(train.std()))


def curves(values: np.ndarray) -> febm.Curves:
    return febm.Curves.from_grid(np.arange(values.shape[1]), values)


def hidden(values: np.ndarray) -> np.ndarray:
    """Which days of a curve are."""
    _, target = split(curves(values[:1]), "middle", 1 / 2)
    return np.isin(np.arange(values.shape[1]), target.x[:, 0])


def linear(train: np.ndarray, evaluation: np.ndarray, transform: str, share: float) -> np.ndarray:
    """Squared errors in dollars, one for each evaluation curve."""
    forth, back = TRANSFORMS[transform]
    mean, sample = complete_moments(forth(train))
    covariance = (1 - share) * sample + share * walk_covariance(sample, np.arange(len(sample)))
    covariance += NOISE * np.mean(np.diagonal(sample)) * np.eye(len(sample))
    gap = hidden(train)
    weights = np.linalg.solve(covariance[np.ix_(~gap, ~gap)], covariance[np.ix_(~gap, gap)])
    predicted = back(mean[gap] + (forth(evaluation)[:, ~gap] - mean[~gap]) @ weights)
    return np.mean((predicted - evaluation[:, gap]) ** 2, axis=1)


def by_model(train: np.ndarray, evaluation: np.ndarray, seed: int) -> np.ndarray:
    """The same of F-EBM, which sees values in the units of its training curves, as in the benchmark."""
    centre, unit = train.mean(), train.std()
    model = febm.FEBM(random_state=seed, progress=False).fit(curves((train - centre) / unit))
    context, target = split(curves((evaluation - centre) / unit), "middle", 1 / 2)
    predicted = model.condition(context).mean(target).y.reshape(len(evaluation), -1)
    return unit**2 * np.mean((predicted - target.y.reshape(len(evaluation), -1)) ** 2, axis=1)


def with_nearly_all(parts: Split, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> dict[str, float]:
    """The error for each stock when nearly all others are there to learn from."""
    everything, tickers = np.concatenate([parts.train, parts.evaluation]), np.concatenate(parts.tickers)
    found = {}
    for fold in range(FOLDS):
        left_out = np.arange(len(everything)) % FOLDS == fold
        errors = predict(everything[~left_out], everything[left_out])
        found.update(zip(tickers[left_out].tolist(), errors.tolist(), strict=True))
    return found


def told(name: str, errors: list[float]) -> str:
    spread = np.std(errors, ddof=1) / np.sqrt(len(errors))
    return f"{name:58} {np.mean(errors):.5f} ± {spread:.5f}   {' '.join(f'{error:.5f}' for error in errors)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="at least 2")
    parser.add_argument("--linear", action="store_true", help="leave out F-EBM")
    options = parser.parse_args()
    splits = [load(seed) for seed in range(options.seeds)]
    highest = max(parts.evaluation.max() for parts in splits)
    for seed, parts in enumerate(splits):
        side = "training" if parts.train.max() == highest else "evaluation"
        print(f"split {seed}: unit {parts.unit:.1f} dollars; the stock that costs most is a {side} curve")
    for transform in TRANSFORMS:
        half, nearly_all = [], []
        for share in SHARES:
            predict = functools.partial(linear, transform=transform, share=share)
            half.append([predict(parts.train, parts.evaluation).mean() / parts.unit**2 for parts in splits])
            error_of = with_nearly_all(splits[0], predict)
            nearly_all.append(
                [np.mean([error_of[ticker] for ticker in parts.tickers[1]]) / parts.unit**2 for parts in splits]
            )
        for name, errors in (("", half), (", nearly all curves", nearly_all)):
            best = int(np.argmin(np.mean(errors, axis=1)))
            print(told(f"linear, {transform}, {SHARES[best]:.0%} of a walk{name}", errors[best]))
    if options.linear:
        return
    fitted = [by_model(parts.train, parts.evaluation, seed) for seed, parts in enumerate(splits)]
    print(told("F-EBM", [float(e.mean() / parts.unit**2) for e, parts in zip(fitted, splits, strict=True)]))
    for seed, (errors, parts) in enumerate(zip(fitted, splits, strict=True)):
        dear = np.argsort(parts.evaluation.max(axis=1))[-EXPENSIVE:]
        print(f"split {seed}: the {EXPENSIVE} stocks that cost most have {errors[dear].sum() / errors.sum():.0%} of it")


if __name__ == "__main__":
    main()
