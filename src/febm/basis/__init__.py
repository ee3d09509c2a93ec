"""Bases: a mean function and features Φ(x) = √λ·e(x), from a kernel, from data or from random frequencies."""

from febm.basis.base import Basis
from febm.basis.empirical import Empirical
from febm.basis.enriched import Enriched, Remainder
from febm.basis.fourier import RandomFourier
from febm.basis.karhunen_loeve import KarhunenLoeve
from febm.basis.sums import SumBasis

__all__ = ["Basis", "Empirical", "Enriched", "KarhunenLoeve", "RandomFourier", "Remainder", "SumBasis"]
