"""The default recipe on the paper's Quadratic data: nine predictive errors, signs of samples, longer chains.

Prints, for every seed, the squared error of the posterior mean on unseen points beside the published one, and the
shares of samples with a positive and with a small leading coefficient for the chain as it is and ten times longer.
"""

import argparse
import json
import time
from fractions import Fraction

import numpy as np

import febm
from febm.datasets import load_quadratic
from febm.evaluation import predictive_scores, split, summarise
from febm.models.febm import PRIOR_STEPS

# Predictive squared error of F-EBM as the paper has it: split, share of the points seen, error.
PUBLISHED = {
    ("downsample", "1/4"): 0.005,
    ("downsample", "1/3"): 0.004,
    ("downsample", "1/2"): 0.003,
    ("middle", "1/4"): 0.044,
    ("middle", "1/2"): 0.008,
    ("middle", "3/4"): 0.006,
    ("random", "1/4"): 0.008,
    ("random", "1/2"): 0.005,
    ("random", "3/4"): 0.004,
}


def measure(seed: int) -> dict:
    """Fit one model and judge it."""
    data = load_quadratic(random_state=seed)
    start = time.perf_counter()
    model = febm.FEBM(random_state=seed, progress=False).fit(data.train)
    result: dict = {"seed": seed, "fit_seconds": round(time.perf_counter() - start, 1), "error": {}, "samples": {}}
    for (kind, share), published in PUBLISHED.items():
        context, target = split(data.evaluation, kind, float(Fraction(share)), random_state=seed)
        scores = summarise(predictive_scores(model, context, target, seed))
        result["error"][f"{kind} {share}"] = {"ours": scores.loc["mse", "mean"], "published": published}
    for steps in (PRIOR_STEPS, 10 * PRIOR_STEPS):
        x, _ = data.train.to_grid()
        _, values = model.sample(2000, at=x, random_state=seed, steps=steps).to_grid()
        leading = np.polyfit(x, values[..., 0].T, 2)[0]
        positive, small = np.mean(leading > 0), np.mean(np.abs(leading) < 0.5)
        result["samples"][f"{steps} steps"] = {"positive": float(positive), "small": float(small)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    for seed in parser.parse_args().seeds:
        print(json.dumps(measure(seed), indent=2))


if __name__ == "__main__":
    main()
