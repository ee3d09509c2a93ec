"""Playing with fitted models on a local page: place points, and see the posterior move.

`febm explore MODEL` serves the page. What it shows is made by plain functions of a model, which the Python lines that
the page gives away call too.
"""

from febm.exploring.latents import latent_curve
from febm.exploring.noise import with_noise
from febm.exploring.room import with_room

__all__ = ["latent_curve", "with_noise", "with_room"]
