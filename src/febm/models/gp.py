"""The Gaussian process: one mean function and one kernel for all curves, and closed forms for everything else.

    f ~ GP(m, k),    y = f(x) + ε,    ε ~ N(0, σ²)

The hyper-parameters of k, and σ², maximise the marginal likelihood of all curves, Σ_i log N(y_i; m(x_i), K_i + σ²I).
"""

from typing import Any, Literal

import jax
import numpy as np
import pandas as pd
from jaxtyping import PRNGKeyArray
from tinygp.kernels import Kernel

from febm.basis import Empirical
from febm.checks import whole_number
from febm.curves import Curves
from febm.kernels import Constant, Matern52, kernel_from_name, split_noise
from febm.models.gp_field import Evaluated, GaussianField, MeanFunction, build_field
from febm.models.gp_fit import fit_given, fit_named
from febm.models.gp_posterior import GaussianPosterior
from febm.models.scaled import ScaledProcess
from febm.models.settings import PAPER, PAPER_CURVES, PaperCurves, check_choice
from febm.progress import Progress
from febm.randomness import RandomState, as_key, numpy_generator
from febm.scaling import Scaling

MEANS = ("smooth", "constant", "zero")
VARIANCES = ("curves", "likelihood")


class GaussianProcess(ScaledProcess):
    """Gaussian-process regression of many curves at once: mean, kernel and noise are shared, posteriors are exact.

    Several outputs are independent and share the kernel.

    Parameters
    ----------
    kernel
        A name such as "matern52": that kernel, with a length for each input, beside a level that each curve has for
        itself; or a kernel of `febm.kernels`, such as `2.0 * Matern52(0.3) + White(0.01)`, in the units of the scaled
        inputs and outputs: where the search for its hyper-parameters starts. A term `White` of it is the noise.
    variance
        Of a kernel given by name. "curves": held at the variance that the curves have about their mean, so that samples
        are as wide as the curves; the likelihood is then maximised over the rest only, and is lower than it could be.
        "likelihood": fitted with the rest, which predicts better where curves are much smoother than the kernel, but
        may give samples that are much wider than the curves. A kernel that is not a name is always fitted in full.
    mean
        "smooth": a mean function, estimated from all curves; "constant": one number for each output; "zero": none, in
        scaled units.
    noise
        The noise variance in scaled units, held fixed; None: fitted.
    fit_kernel
        False: a kernel that is not a name is held as it is, with the noise of its `White` term if it has one.
    scaling
        "auto", "standard", "curve", "log", "power", "shifted", "none", or a `Scaling`.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.

    Attributes
    ----------
    field_ : GaussianField
        Mean, kernel and noise, in scaled units; also as `kernel_` and `noise_variance_`.
    history_ : DataFrame
        The log likelihood, in scaled units, that the search reached on the values that it saw.

    Notes
    -----
    With everything held fixed, evidences and posteriors are those of scikit-learn's `GaussianProcessRegressor`, one for
    each curve, with `optimizer=None` and `alpha` the noise::

        kernel = 2.0 * febm.kernels.Matern52(0.3)
        model = febm.GaussianProcess(kernel=kernel, noise=0.05, mean="zero", scaling="none", fit_kernel=False)
        model.fit(curves)
        model.log_evidence(curves)  # one log marginal likelihood for each curve
        model.condition(curves).mean(at), model.condition(curves).variance(at)

    The variance of `WhiteKernel` is a part of the standard deviation there, and of `variance(at, noise=True)` here.

    Matérn kernels of one input, constants, their sums and products have solvers whose cost grows like the number of
    points: they are used for the fit and the evidence of curves of more than 200 points and for posteriors given more
    than 500. All other covariances are factored as they are.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> model = febm.GaussianProcess(kernel="matern52", random_state=0, progress=False).fit(curves)
    >>> model.sample(5, at=np.linspace(0, 1, 200))
    <Curves: 5 curves, 200 points each, x in [0, 1], 1 output>
    >>> bool(model.log_evidence(curves).sum() > model.log_evidence(curves.replace(y=-3 * curves.y)).sum())
    True
    """

    field_: GaussianField
    history_: pd.DataFrame

    def __init__(
        self,
        *,
        kernel: str | Kernel = "matern52",
        variance: Literal["curves", "likelihood"] = "curves",
        mean: Literal["smooth", "constant", "zero"] = "smooth",
        noise: float | None = None,
        fit_kernel: bool = True,
        scaling: str | Scaling = "standard",
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.kernel = kernel
        self.variance = variance
        self.mean = mean
        self.noise = noise
        self.fit_kernel = fit_kernel
        self.scaling = scaling
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(
        cls,
        dataset: PaperCurves,
        *,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> "GaussianProcess":
        """The baseline of the paper: the Matérn kernel of F-EBM by marginal likelihood, about a constant."""
        check_choice("GaussianProcess.paper", "dataset", dataset, PAPER_CURVES)
        scaling = PAPER[dataset]["scaling"]
        kernel = Constant(1.0) * Matern52(0.2)
        return cls(kernel=kernel, mean="constant", scaling=scaling, random_state=random_state, progress=progress)

    @property
    def kernel_(self) -> Kernel:
        """The fitted kernel, in scaled units."""
        return self.field_.kernel

    @property
    def noise_variance_(self) -> float:
        """The noise variance, in scaled units."""
        return self.field_.noise_variance

    def sample(self, n: int, at: Any = None, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """Draw `n` new functions at the points `at` (by default those of the training curves).

        The same `random_state` gives the same functions whatever `at` is. Farther from the domain of the training
        curves than it is wide, values at different points are drawn independently.
        """
        self._require_fitted("sample")
        n = whole_number(f"{type(self).__name__}.sample: n", n)
        points = self._points(at, n, "sample")
        function_key, noise_key = jax.random.split(as_key(random_state))
        draws = self.field_.draw(n, function_key)
        generator = numpy_generator(noise_key)

        def values(x: np.ndarray, there: Evaluated, chosen: slice) -> np.ndarray:
            drawn = draws.values(there, chosen) + self.field_.mean(x)
            if noise:
                drawn += np.sqrt(self.field_.noise_variance) * generator.standard_normal(drawn.shape)
            return self.scaling_.invert_values(drawn)

        if not isinstance(points, list):
            x = self.scaling_.apply_points(points)
            return Curves.from_grid(points, values(x, self.field_.at(x), slice(None)))
        scaled = [self.scaling_.apply_points(own) for own in points]
        each = [values(x, self.field_.at(x), slice(i, i + 1))[0] for i, x in enumerate(scaled)]
        return Curves.from_arrays(points, each)

    def condition(self, curves: Any, *, random_state: RandomState = None) -> GaussianPosterior:
        """The posterior of each of the partly observed curves; it is exact, so `random_state` changes nothing.

        A plain array is read as one curve a row on the grid of the training curves, NaN where nothing was observed.
        """
        curves = self._context(curves, "condition")
        return GaussianPosterior(self.field_, curves, self.scaling_.apply(curves), self.scaling_)

    @property
    def _fewest_rows(self) -> int:
        return 2 if self.mean == "smooth" else 1

    def _scaling(self, curves: Curves) -> Scaling:
        check_choice("GaussianProcess", "mean", self.mean, MEANS)
        check_choice("GaussianProcess", "variance", self.variance, VARIANCES)
        if isinstance(self.kernel, str):
            kernel_from_name(self.kernel)
        elif not isinstance(self.kernel, Kernel):
            raise TypeError(
                f"GaussianProcess: kernel is {self.kernel!r}; give a name such as 'matern52', or a kernel of "
                "febm.kernels."
            )
        elif self.noise is not None and split_noise(self.kernel).noise_variance is not None:
            raise ValueError(
                f"GaussianProcess: noise is {self.noise!r} and the kernel has a White term, which is the noise too; "
                "give one of them."
            )
        if not isinstance(self.fit_kernel, bool) or (isinstance(self.kernel, str) and not self.fit_kernel):
            raise ValueError(
                f"GaussianProcess: fit_kernel is {self.fit_kernel!r} and kernel is {self.kernel!r}; give True, "
                "or False with a kernel and its values, such as 2.0 * febm.kernels.Matern52(0.3)."
            )
        if self.mean == "smooth" and len(curves) < 2:
            raise ValueError(
                "GaussianProcess.fit: mean='smooth' is estimated from at least 2 curves; got 1. "
                "Use mean='constant' for a single curve."
            )
        return super()._scaling(curves)

    def _learn(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> None:
        mean_key, kernel_key = jax.random.split(key)
        mean = MeanFunction(np.zeros(curves.d_y))
        centred = curves
        if self.mean == "smooth":
            mean = MeanFunction(mean.constant, Empirical().fit(curves, key=mean_key))
            # Residuals about the mean of n curves have n − 1 of n parts of the variance.
            growth = np.sqrt(len(curves) / (len(curves) - 1))
            centred = curves.replace(y=growth * (curves.y - mean(curves.x)))
        about = "constant" if self.mean == "constant" else "zero"
        if isinstance(self.kernel, str):
            free = self.variance == "likelihood"
            found = fit_named(self.kernel, centred, noise=self.noise, mean=about, free_variance=free, key=kernel_key)
        else:
            fixed = not self.fit_kernel
            found = fit_given(self.kernel, centred, noise=self.noise, mean=about, fixed=fixed, key=kernel_key)
        if self.mean == "constant":
            mean = MeanFunction(found.mean)
        self.field_ = build_field(found.kernel, found.noise_variance, mean, curves)
        noise = float(np.sqrt(found.noise_variance))
        self.history_ = pd.DataFrame([{"epoch": 0, "log_likelihood": found.log_likelihood, "noise": noise}])
