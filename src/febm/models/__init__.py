"""Models of functions behind one interface."""

from febm.models.base import Posterior, Process
from febm.models.febm import FEBM

__all__ = ["FEBM", "Posterior", "Process"]
