"""Generative models of functions: new curves, missing parts with honest uncertainty, any resolution."""

from febm._version import __version__
from febm.curves import Curves
from febm.errors import FebmError, FormatError, NotFittedError
from febm.models import FEBM, Posterior, Process
from febm.scaling import Scaling
from febm.storage import load

__all__ = [
    "FEBM",
    "Curves",
    "FebmError",
    "FormatError",
    "NotFittedError",
    "Posterior",
    "Process",
    "Scaling",
    "__version__",
    "load",
]
