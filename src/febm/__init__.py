"""Generative models of functions: new curves, missing parts with honest uncertainty, any resolution."""

import importlib
from typing import TYPE_CHECKING, Any

from febm._version import __version__

if TYPE_CHECKING:
    from febm.curves import Curves
    from febm.errors import FebmError, FormatError, NotFittedError
    from febm.evaluation.two_sample import two_sample_test
    from febm.images import grid2d
    from febm.imputing import Imputer
    from febm.models import EBP, FEBM, FPCA, VIP, GaussianProcess, NeuralProcess, PiVAE, Posterior, Process
    from febm.models.together import fit_together
    from febm.reporting import report
    from febm.scaling import Scaling
    from febm.storage import load

__all__ = [
    "EBP",
    "FEBM",
    "FPCA",
    "VIP",
    "Curves",
    "FebmError",
    "FormatError",
    "GaussianProcess",
    "Imputer",
    "NeuralProcess",
    "NotFittedError",
    "PiVAE",
    "Posterior",
    "Process",
    "Scaling",
    "__version__",
    "fit_together",
    "grid2d",
    "load",
    "report",
    "two_sample_test",
]

# Where each public name lives. It is imported when first asked for, so that the command line need not wait for JAX.
_HOMES = {
    "Curves": "febm.curves",
    "FEBM": "febm.models",
    "FPCA": "febm.models",
    "PiVAE": "febm.models",
    "NeuralProcess": "febm.models",
    "GaussianProcess": "febm.models",
    "VIP": "febm.models",
    "EBP": "febm.models",
    "FebmError": "febm.errors",
    "FormatError": "febm.errors",
    "Imputer": "febm.imputing",
    "NotFittedError": "febm.errors",
    "Posterior": "febm.models",
    "Process": "febm.models",
    "Scaling": "febm.scaling",
    "fit_together": "febm.models.together",
    "grid2d": "febm.images",
    "load": "febm.storage",
    "report": "febm.reporting",
    "two_sample_test": "febm.evaluation.two_sample",
}


# Rooms with public names of their own, reached as `febm.kernels.Matern52` without an import of their own.
_ROOMS = ("basis", "datasets", "evaluation", "kernels", "likelihoods", "models", "plotting", "priors", "reporting")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"febm.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'febm' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})
