"""Several seeds trained side by side against one after the other: the ratio of their times, in one run.

    python benchmarks/seeds.py [--models FEBM EBP …] [--dataset quadratic] [--seeds 5] [--epochs 5] [--paper]

Networks and chains are small by default, as a processor wants them; `--paper` takes those of the paper. Every way is
gone twice: the first time compiles, and the second is what long trainings cost. `whole` times are those of the fits;
the others leave out what comes before and after the training loop. `apart` is the largest difference between the last
held-out scores of the two ways, as a share of the score.
"""

import argparse
import dataclasses
import json
import time

import jax

import febm
from febm import datasets
from febm.benchmark.jobs import DATASETS, Job

MODELS = ("FEBM", "EBP", "VIP", "NeuralProcess")


def process(arguments: argparse.Namespace, name: str, seed: int):
    """The paper's recipe for a model, with the epochs asked for and, unless it is to be as it was, in small."""
    model = Job(name, arguments.dataset, "paper", seed).process()
    settings = model.training if name in ("EBP", "VIP") else model
    epochs = dict(epochs=arguments.epochs, patience=arguments.epochs)
    optimisation = dataclasses.replace(settings.optimisation, **epochs)
    if name in ("EBP", "VIP"):
        small = {} if arguments.paper else dict(width=arguments.width)
        return model.set_params(training=dataclasses.replace(settings, optimisation=optimisation, **small))
    model.set_params(optimisation=optimisation)
    if arguments.paper:
        return model
    if name == "NeuralProcess":
        return model.set_params(architecture=dataclasses.replace(model.architecture, width=arguments.width))
    chains = {part: getattr(model.langevin, part).with_steps(arguments.steps) for part in ("posterior", "prior")}
    return model.set_params(
        networks=dataclasses.replace(model.networks, width=arguments.width),
        langevin=dataclasses.replace(model.langevin, **chains),
    )


def measure(arguments: argparse.Namespace, name: str) -> dict[str, float]:
    """Seconds of both ways, with and without compilation, and their ratios."""
    load = getattr(datasets, f"load_{arguments.dataset}")
    curves = [load(random_state=seed).train[: arguments.curves] for seed in range(arguments.seeds)]
    found, scores = {}, {}
    for way, at_once in (("alone", 1), ("together", arguments.seeds)):
        for run in ("compiling", "compiled"):
            models = [process(arguments, name, seed) for seed in range(arguments.seeds)]
            started = time.perf_counter()
            models = febm.fit_together(models, curves, at_once=at_once)
            found[f"{way}_{run}_whole"] = time.perf_counter() - started
            seconds = [model.history_["seconds"].max() for model in models]
            found[f"{way}_{run}"] = sum(seconds) if at_once == 1 else max(seconds)
        scores[way] = [model.history_["score"].iloc[-1] for model in models]
    for kind in ("compiling", "compiled", "compiling_whole", "compiled_whole"):
        found[f"ratio_{kind}"] = found[f"together_{kind}"] / found[f"alone_{kind}"]
    apart = max(abs(one - other) / abs(one) for one, other in zip(*scores.values(), strict=True))
    return {name: round(value, 4) for name, value in found.items()} | {"apart": apart}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--dataset", default="quadratic", choices=DATASETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--curves", type=int, default=256)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--paper", action="store_true")
    arguments = parser.parse_args()
    print(json.dumps({"device": str(jax.devices()[0]), "jax": jax.__version__} | vars(arguments), default=list))
    for name in arguments.models:
        print(name, json.dumps(measure(arguments, name)), flush=True)


if __name__ == "__main__":
    main()
