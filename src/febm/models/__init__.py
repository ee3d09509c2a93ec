"""Models of functions behind one interface."""

from febm.models.base import Posterior, Process
from febm.models.ebp import EBP
from febm.models.febm import FEBM
from febm.models.fpca import FPCA
from febm.models.gp import GaussianProcess
from febm.models.neural_process import NeuralProcess
from febm.models.pi_vae import PiVAE
from febm.models.vip import VIP

__all__ = ["EBP", "FEBM", "FPCA", "VIP", "GaussianProcess", "NeuralProcess", "PiVAE", "Posterior", "Process"]
