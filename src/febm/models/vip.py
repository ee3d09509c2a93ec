"""The variational implicit process with a neural sampler (Ma, Li and Hernández-Lobato, 2019).

    f = g(·, z),  z ~ N(0, I);    m = mean_s f_s,  Φ_s = (f_s − m)/√S,  f_s = g(·, z_s);    y ~ N(m, ΦΦᵀ + σ²I)

The sleep phase takes the mean and the covariance of the sampler's functions for those of a Gaussian process; the wake
phase moves the sampler g and the noise σ up the marginal likelihood of that process.
"""

from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from febm.basis.learned import DrawnFunctions, FunctionSampler, Learned, draw_frequencies
from febm.checks import whole_number
from febm.curves import Curves
from febm.inference import PriorDraws
from febm.models.feature_process import PAPER_TRAINING, FeatureTraining, LearnedFeatureProcess
from febm.models.settings import PAPER, PAPER_CURVES, PaperCurves, check_choice
from febm.networks import ResidualMLP
from febm.progress import Progress
from febm.randomness import RandomState, as_key
from febm.scaling import Scaling
from febm.training import Group, Optimisation

# A network of (x, z) is evaluated once for every function: half the width of EBP's network costs more than all of that.
SAMPLER_TRAINING = FeatureTraining(
    width=64,
    waves=16,
    highest_wave=None,
    smallest_noise=0.03,
    group=Group(rate=2e-3, factor=0.5, minimum=1e-5),
    # Small batches: a step costs what the functions cost, and the spread of the functions takes thousands of steps.
    optimisation=Optimisation(epochs=600, batch_size=16, patience=100, plateau=20),
)


class VIP(LearnedFeatureProcess):
    """Variational implicit process.

    There are two distributions here. The implicit process g(·, z) can be drawn from but has no density: it gives the
    samples. The Gaussian process with the mean and the covariance of S of its functions, whose z_s are drawn once, has
    all the rest: what training maximises, `condition`, `log_evidence` and `score` are about that one.

    Parameters
    ----------
    functions
        S, how many functions stand for the implicit process: fresh ones in every step of training, a fixed set after.
    latent_dim
        Length of z.
    samples
        "implicit": `sample` draws g(·, z) with new z; "gaussian": it draws from the Gaussian process, as
        `log_evidence` sees it.
    scaling
        "auto", "standard", "curve", "log", "power", "shifted", "none", or a `Scaling`.
    training
        The network g and how it is trained.
    validation
        Share of the curves held out to stop the training and to reduce its rates.
    checkpoint
        A file that training is saved to after every epoch. If it is there already, `fit` with the same curves and
        settings goes on where it stopped; it takes an integer or a key as `random_state`.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.

    Notes
    -----
    The implicit process is drawn from by default because its functions need not be Gaussian.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> model = febm.VIP(random_state=0, progress=False).fit(curves)
    >>> model.sample(5, at=np.linspace(0, 1, 200))
    <Curves: 5 curves, 200 points each, x in [0, 1], 1 output>
    >>> model.condition(curves[:2]).mean(x).shape
    (2, 20, 1)
    """

    basis_: Learned

    def __init__(
        self,
        *,
        functions: int = 128,
        latent_dim: int = 10,
        samples: Literal["implicit", "gaussian"] = "implicit",
        scaling: str | Scaling = "auto",
        training: FeatureTraining = SAMPLER_TRAINING,
        validation: float = 0.2,
        checkpoint: str | None = None,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.functions = functions
        self.latent_dim = latent_dim
        self.samples = samples
        self.scaling = scaling
        self.training = training
        self.validation = validation
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(
        cls,
        dataset: PaperCurves,
        *,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> "VIP":
        """The paper's baseline: three layers of 512 SiLU units with skips.

        It gives neither S nor the length of z: 100 functions, and as many latents as its own model has.
        """
        check_choice("VIP.paper", "dataset", dataset, PAPER_CURVES)
        return cls(
            functions=100,
            latent_dim=PAPER[dataset]["latent_dim"],
            scaling=PAPER[dataset]["scaling"],
            training=PAPER_TRAINING,
            random_state=random_state,
            progress=progress,
        )

    def sample(self, n: int, at: Any = None, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """Draw `n` new functions at the points `at` (by default those of the training curves).

        The same `random_state` gives the same functions whatever `at` is.
        """
        if self._draws_gaussian:
            return super().sample(n, at, noise=noise, random_state=random_state)
        self._require_fitted("sample")
        n = whole_number("VIP.sample: n", n)
        points = self._points(at, n, "sample")
        latent_key, noise_key = jax.random.split(as_key(random_state))
        latents = self._draw_latents(n, latent_key).draws
        key = noise_key if noise else None
        if not isinstance(points, list):
            return Curves.from_grid(points, self._drawn(points, latents, key))
        values = [
            self._drawn(own, latents[i : i + 1], key if key is None else jax.random.fold_in(key, i))[0]
            for i, own in enumerate(points)
        ]
        return Curves.from_arrays(points, values)

    @property
    def _draws_gaussian(self) -> bool:
        check_choice("VIP", "samples", self.samples, ("implicit", "gaussian"))
        return self.samples == "gaussian"

    def _draw_latents(self, n: int, key: PRNGKeyArray) -> PriorDraws:
        if self._draws_gaussian:
            return super()._draw_latents(n, key)
        return PriorDraws(np.asarray(jax.random.normal(key, (n, self._sampler.latents.shape[1])), dtype=float), {})

    def _drawn(self, points: np.ndarray, latents: np.ndarray, key: PRNGKeyArray | None) -> np.ndarray:
        """The functions of `latents` in the units of the data, each a basis function of weight one."""
        space = self._space._replace(basis=DrawnFunctions(self._sampler, latents))
        return space.at(points).values(np.eye(len(latents)), key)

    @property
    def _sampler(self) -> FunctionSampler:
        sampler = self.basis_.map
        assert isinstance(sampler, FunctionSampler)
        return sampler

    def _start(self, curves: Curves, key: PRNGKeyArray) -> FunctionSampler:
        check_choice("VIP", "samples", self.samples, ("implicit", "gaussian"))
        functions = whole_number("VIP: functions", self.functions)
        if functions < 2:
            raise ValueError(f"VIP: functions is {functions}; a covariance needs at least 2.")
        latent_dim = whole_number("VIP: latent_dim", self.latent_dim)
        wave_key, network_key, latent_key = jax.random.split(key, 3)
        training = self.training
        network = ResidualMLP(
            curves.d_x + 2 * training.waves + latent_dim,
            curves.d_y,
            width=training.width,
            depth=training.depth,
            activation=training.activation,
            key=network_key,
        )
        latents = jax.random.normal(latent_key, (functions, latent_dim))
        frequencies = draw_frequencies(training.waves, curves, wave_key, training.highest_wave)
        return FunctionSampler(frequencies, network, latents)
