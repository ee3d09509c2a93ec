"""How exact placed points are: the same model with another scale of its observation noise."""

import copy
import dataclasses

import numpy as np

from febm.likelihoods import Gaussian, StudentT
from febm.models.base import Process
from febm.models.basis_process import BasisProcess
from febm.models.gp import GaussianProcess

SMALLEST, LARGEST = 0.01, 100.0


def with_noise(model: Process, factor: float) -> Process:
    """A copy of a fitted `model` whose noise has `factor` times its standard deviation; the model stays as it is.

    Posteriors then take values to be less exact, or, below 1, more exact than the training curves were.
    """
    number = isinstance(factor, int | float | np.number) and not isinstance(factor, bool)
    if not (number and SMALLEST <= factor <= LARGEST):
        raise ValueError(f"with_noise: factor is {factor!r}; give a number from {SMALLEST:g} to {LARGEST:g}.")
    if factor == 1:
        return model
    if not has_scale(model):
        raise ValueError(
            f"with_noise: the noise of this {type(model).__name__} is no single scale, so it stays as it was learned; "
            "use factor=1."
        )
    changed = copy.copy(model)
    if isinstance(changed, GaussianProcess):
        variance = float(factor**2 * changed.field_.noise_variance)
        changed.field_ = dataclasses.replace(changed.field_, noise_variance=variance)
    elif isinstance(changed, BasisProcess):
        likelihood = changed.model_.likelihood
        assert isinstance(likelihood, Gaussian | StudentT)
        likelihood = likelihood.with_scale(float(factor * likelihood.scale))
        changed.model_ = dataclasses.replace(changed.model_, likelihood=likelihood)
    return changed


def has_scale(model: Process) -> bool:
    """Whether the noise of a model is one number that can be changed."""
    if isinstance(model, BasisProcess):
        return isinstance(model.model_.likelihood, Gaussian | StudentT)
    return isinstance(model, GaussianProcess)
