"""Random Fourier features: Φ(x) = √(σ²/F)·[cos 2πBx, sin 2πBx] with F rows B_i ~ N(0, s²I).

They are those of a Gaussian kernel of length scale ℓ = 1/(2πs): Φ(x)·Φ(x′) ≈ σ² exp(−‖x − x′‖²/2ℓ²).
"""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from tinygp.kernels import Product

from febm.basis.base import Basis, copies_per_output
from febm.curves import Curves, as_points
from febm.kernel_fit import fit_kernel
from febm.kernels import Constant, Gaussian
from febm.randomness import numpy_generator


class Waves(eqx.Module):
    """What a fitted `RandomFourier` knows."""

    frequencies: Float[np.ndarray, "frequencies d_x"]
    level: Float[np.ndarray, " d_y"]
    variance: float
    noise_variance: float | None


class RandomFourier(Basis):
    """Cosines and sines of random frequency: a Gaussian kernel without a grid of points, good for images.

    The mean function is the mean of the training values, one level for each output, and σ² their variance
    about it. All eigenvalues are σ²/`features`; slow waves come first.

    Parameters
    ----------
    features : how many features for each output: an even number, half of them cosines and half sines.
    scale : s, the typical frequency in cycles per unit of x, the one knob that matters; it stands for the
        length scale 1/(2πs). None finds it, σ² and the noise by the marginal likelihood of a Gaussian kernel.
    """

    count: int = eqx.field(static=True)
    scale: float | None = eqx.field(static=True)
    state: Waves | None

    def __init__(self, features: int = 256, *, scale: float | None = None) -> None:
        if isinstance(features, bool) or not isinstance(features, int | np.integer) or features < 2 or features % 2:
            raise ValueError(f"features must be an even number of at least 2; got {features!r}.")
        if scale is not None and not 0 < scale < np.inf:
            raise ValueError(f"scale must be a positive number of cycles per unit of x, or None; got {scale!r}.")
        self.count = int(features)
        self.scale = None if scale is None else float(scale)
        self.state = None

    def fit(self, curves: Curves, *, key: PRNGKeyArray) -> RandomFourier:
        """A fitted copy: see `Basis.fit`."""
        frequency_key, kernel_key = jax.random.split(key)
        level = np.nanmean(curves.y, axis=0)
        variance = float(np.nanmean(np.square(curves.y - level)))
        scale, noise = self.scale, None
        if scale is None:
            fit = fit_kernel("gaussian", curves, key=kernel_key)
            # The fitted kernel is Constant(σ²) * Gaussian(ℓ), as `starting_kernel` makes it.
            assert isinstance(fit.kernel, Product)
            amplitude, shape = fit.kernel.kernel1, fit.kernel.kernel2
            assert isinstance(amplitude, Constant) and isinstance(shape, Gaussian)  # noqa: PT018
            variance, scale = float(amplitude.value), 1 / (2 * np.pi * float(shape.length_scale))
            noise = fit.noise_variance
        draws = numpy_generator(frequency_key).standard_normal((self.count // 2, curves.d_x))
        frequencies = scale * draws[np.argsort(np.sum(draws**2, axis=1), kind="stable")]
        state = Waves(frequencies, level, variance, noise)
        return eqx.tree_at(lambda basis: basis.state, self, state, is_leaf=lambda value: value is None)

    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """The constant mean of each output."""
        waves = self.fitted
        return np.tile(waves.level, (len(as_points(x, waves.frequencies.shape[1], "x")), 1))

    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """Φ(x), the cosine and sine of one frequency side by side, so that slow waves lead."""
        waves = self.fitted
        x = as_points(x, waves.frequencies.shape[1], "x")
        angles = 2 * np.pi * (x @ waves.frequencies.T)
        columns = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(x), self.count)
        columns *= np.sqrt(waves.variance / len(waves.frequencies))
        return copies_per_output(columns, len(waves.level), self.rank)

    @property
    def fitted(self) -> Waves:
        """What was fitted; raises `NotFittedError` before."""
        self.require_fitted()
        assert self.state is not None
        return self.state

    @property
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """The eigenvalues λ, all the same."""
        return np.full(self.count * len(self.fitted.level), self.fitted.variance / self.count)

    @property
    def noise_variance(self) -> float | None:
        """The noise variance of the kernel fit; None when no kernel was fitted."""
        return None if self.state is None else self.state.noise_variance

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` made this basis."""
        return self.state is not None
