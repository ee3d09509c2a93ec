"""Data sets of functions, each with a training and an evaluation part."""

from febm.datasets.base import Dataset
from febm.datasets.fashion_mnist import load_fashion_mnist
from febm.datasets.files import MissingDataError
from febm.datasets.gp_draws import load_gp_draws
from febm.datasets.gridwatch import load_gridwatch
from febm.datasets.melbourne import load_melbourne
from febm.datasets.quadratic import load_quadratic
from febm.datasets.stocks import load_stocks

__all__ = [
    "Dataset",
    "MissingDataError",
    "load_fashion_mnist",
    "load_gp_draws",
    "load_gridwatch",
    "load_melbourne",
    "load_quadratic",
    "load_stocks",
]
