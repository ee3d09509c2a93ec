"""Data sets of functions, each with a training and an evaluation part."""

from febm.datasets.base import Dataset
from febm.datasets.quadratic import load_quadratic

__all__ = ["Dataset", "load_quadratic"]
