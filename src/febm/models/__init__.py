"""Models of functions behind one interface."""

from febm.models.base import Posterior, Process
from febm.models.febm import FEBM
from febm.models.fpca import FPCA

__all__ = ["FEBM", "FPCA", "Posterior", "Process"]
