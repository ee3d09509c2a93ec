"""Pictures of curves, posteriors, models and yardsticks: every function takes axes, draws into them, gives them back.

Matplotlib is imported when a picture is drawn, and nothing here needs a screen.
"""

from febm.plotting.basis import plot_basis, plot_spectrum
from febm.plotting.curves import plot_curves, plot_samples_beside_data, plot_split
from febm.plotting.energy import plot_energy
from febm.plotting.evaluation import (
    plot_calibration,
    plot_embedding,
    plot_null,
    plot_pit,
    plot_predictive_cdf,
)
from febm.plotting.history import plot_history
from febm.plotting.images import plot_images
from febm.plotting.posterior import plot_posterior
from febm.plotting.style import MODEL, OBSERVED, PALE, TRUTH
from febm.plotting.surfaces import plot_posterior_maps, plot_surface

__all__ = [
    "MODEL",
    "OBSERVED",
    "PALE",
    "TRUTH",
    "plot_basis",
    "plot_calibration",
    "plot_curves",
    "plot_embedding",
    "plot_energy",
    "plot_history",
    "plot_images",
    "plot_null",
    "plot_pit",
    "plot_posterior",
    "plot_posterior_maps",
    "plot_predictive_cdf",
    "plot_samples_beside_data",
    "plot_spectrum",
    "plot_split",
    "plot_surface",
]
