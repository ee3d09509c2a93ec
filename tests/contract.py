"""The models that obey the contract, each with settings that are quick to fit: a new model is one line here."""

from __future__ import annotations

import numpy as np

import febm
from febm.inference import Effort
from febm.models.feature_process import FeatureTraining
from febm.models.settings import Networks
from febm.neural_process_networks import Architecture
from febm.tilting import TiltTraining
from febm.training import Optimisation

QUICK = dict(random_state=0, progress=False)
BRIEF = Optimisation(epochs=200, batch_size=64, patience=50)
SMALL = FeatureTraining(width=32, waves=4, optimisation=BRIEF)
BRIEF_TILT = TiltTraining(steps=40, width=16, proposals=512, blocks=8, networks=2)

MODELS = {
    "FEBM": lambda: febm.FEBM(**QUICK, components=2, tilt=BRIEF_TILT, effort=Effort(draws=128, proposals=512)),
    "FPCA": lambda: febm.FPCA(**QUICK),
    "GaussianProcess": lambda: febm.GaussianProcess(**QUICK),
    "EBP": lambda: febm.EBP(**QUICK, features=16, training=SMALL),
    "VIP": lambda: febm.VIP(**QUICK, functions=48, latent_dim=4, training=SMALL),
    "PiVAE": lambda: febm.PiVAE(
        **QUICK,
        networks=Networks(width=16, depth=1),
        optimisation=Optimisation(epochs=60, batch_size=16),
        effort=Effort(draws=128, particles=128),
    ),
    "NeuralProcess": lambda: febm.NeuralProcess(
        **QUICK,
        latent_dim=4,
        architecture=Architecture(width=32, depth=2),
        samples=2,
        repeats=4,
        optimisation=Optimisation(epochs=120, batch_size=16),
        draws=128,
        proposals=256,
    ),
}
# The smallest settings that still train, for what has to be fitted dozens of times.
BRIEFEST = Optimisation(epochs=2, batch_size=64)
SMALLEST = FeatureTraining(width=4, depth=1, waves=1, optimisation=BRIEFEST)
LEAST_EFFORT = Effort(draws=8, proposals=16, particles=8)

TINY_MODELS = {
    "FEBM": lambda: febm.FEBM(
        **QUICK,
        rank=1,
        remainder=False,
        components=1,
        tilt=TiltTraining(steps=2, width=4, proposals=64, blocks=2, networks=2),
        effort=LEAST_EFFORT,
    ),
    "FPCA": lambda: febm.FPCA(**QUICK, rank=1),
    "GaussianProcess": lambda: febm.GaussianProcess(**QUICK),
    "EBP": lambda: febm.EBP(**QUICK, features=2, stationary=0, training=SMALLEST),
    "VIP": lambda: febm.VIP(**QUICK, functions=4, latent_dim=2, training=SMALLEST),
    "PiVAE": lambda: febm.PiVAE(
        **QUICK, rank=1, networks=Networks(width=4, depth=1), optimisation=BRIEFEST, effort=LEAST_EFFORT
    ),
    "NeuralProcess": lambda: febm.NeuralProcess(
        **QUICK,
        latent_dim=2,
        architecture=Architecture(width=4, depth=1),
        samples=1,
        repeats=1,
        optimisation=BRIEFEST,
        draws=8,
        proposals=16,
    ),
}
# Walked through the contract by `make test-all` only: they take a minute or more each.
LENGTHY = ("VIP", "PiVAE", "NeuralProcess")


def waves(count=60, points=15, seed=0, noise=0.05):
    """Two kinds of noisy wave on [0, 2]."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 2, points)
    weights = rng.normal(size=(count, 2)) + 2.0 * rng.choice([-1, 1], size=(count, 1))
    values = weights @ np.stack([np.sin(3 * x), np.cos(2 * x)])
    return febm.Curves.from_grid(x, values + noise * rng.normal(size=values.shape))


def ragged(count=60, seed=1):
    """The same, each at points of its own, some of which hold NaN."""
    rng = np.random.default_rng(seed)
    curves = waves(count, 40, seed)
    kept = curves.select(rng.uniform(size=len(curves.x)) < 0.4)
    return kept.replace(y=np.where(rng.uniform(size=kept.y.shape) < 0.05, np.nan, kept.y))


def pairs(count=40, seed=2):
    """Two outputs, one of them missing now and then."""
    first, second = waves(count, 15, seed), waves(count, 15, seed + 1)
    values = np.stack([first.y[:, 0], second.y[:, 0] + first.y[:, 0]], axis=1).reshape(count, 15, 2)
    values[0, 3, 1] = np.nan
    return febm.Curves.from_grid(np.linspace(0, 2, 15), values)


def surfaces(count=20, seed=3):
    """Functions of two inputs at scattered points of their own."""
    rng = np.random.default_rng(seed)
    xs = [rng.uniform(size=(16, 2)) for _ in range(count)]
    weights = rng.normal(size=(count, 2))
    ys = [w[0] * np.sin(3 * x[:, 0]) + w[1] * np.cos(2 * x[:, 1]) for x, w in zip(xs, weights, strict=True)]
    return febm.Curves.from_arrays(xs, ys)
