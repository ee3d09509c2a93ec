"""The Gaussian energy-based process (Yang et al., 2020, section 3.2): a Gaussian process with a deep kernel.

    f(x) = m(x) + φ(x)·w,    w ~ N(0, I),    k(x, x') = φ(x)ᵀφ(x')

Features φ, mean m and noise are learned by the marginal likelihood of all curves. Some features are the outputs of a
network; the others are those of a Matérn kernel whose size, length and smoothness are learned. A network has few curves
to learn rough detail from and learns it by heart; with the second part it need not.
"""

import dataclasses
from typing import Literal

import jax
from jaxtyping import PRNGKeyArray

from febm.basis.learned import FeatureNetwork, StationaryFeatures, draw_frequencies
from febm.checks import whole_number
from febm.curves import Curves
from febm.models.feature_process import PAPER_TRAINING, FeatureTraining, LearnedFeatureProcess
from febm.models.settings import PAPER, PAPER_CURVES, PaperCurves, check_choice
from febm.networks import ResidualMLP
from febm.progress import Progress
from febm.randomness import RandomState
from febm.scaling import Scaling


class EBP(LearnedFeatureProcess):
    """Gaussian energy-based process.

    Parameters
    ----------
    features
        Features of the network for each output.
    stationary
        Features of the Matérn kernel for each output; 0 for the network alone.
    mean
        "learned": the network has the mean function as one more output; "zero": the mean of the scaled outputs.
    scaling
        "auto", "standard", "curve", "log", "power", "shifted", "none", or a `Scaling`.
    training
        The network and how it is trained.
    validation
        Share of the curves held out to stop the training and to reduce its rates.
    checkpoint
        A file that training is saved to after every epoch. If it is there already, `fit` with the same curves and
        settings goes on where it stopped; it takes an integer or a key as `random_state`.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> model = febm.EBP(random_state=0, progress=False).fit(curves)
    >>> model.sample(5, at=np.linspace(0, 1, 200))
    <Curves: 5 curves, 200 points each, x in [0, 1], 1 output>
    >>> model.condition(curves[:2]).mean(x).shape
    (2, 20, 1)
    """

    def __init__(
        self,
        *,
        features: int = 16,
        stationary: int = 128,
        mean: Literal["learned", "zero"] = "learned",
        scaling: str | Scaling = "auto",
        training: FeatureTraining = FeatureTraining(),
        validation: float = 0.2,
        checkpoint: str | None = None,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.features = features
        self.stationary = stationary
        self.mean = mean
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
    ) -> "EBP":
        """The paper's baseline: mean zero, three layers of 512 ReLU units with skips.

        It does not say how many features; 100 are no fewer than the curves of its data sets can use.
        """
        check_choice("EBP.paper", "dataset", dataset, PAPER_CURVES)
        return cls(
            features=100,
            stationary=0,
            mean="zero",
            scaling=PAPER[dataset]["scaling"],
            training=dataclasses.replace(PAPER_TRAINING, activation="relu"),
            random_state=random_state,
            progress=progress,
        )

    def _start(self, curves: Curves, key: PRNGKeyArray) -> FeatureNetwork:
        check_choice("EBP", "mean", self.mean, ("learned", "zero"))
        features = whole_number("EBP: features", self.features)
        rank = whole_number("EBP: stationary", self.stationary, least=0)
        wave_key, network_key = jax.random.split(key)
        training = self.training
        has_mean = self.mean == "learned"
        network = ResidualMLP(
            curves.d_x + 2 * training.waves,
            curves.d_y * (features + has_mean),
            width=training.width,
            depth=training.depth,
            activation=training.activation,
            key=network_key,
        )
        frequencies = draw_frequencies(training.waves, curves, wave_key, training.highest_wave)
        stationary = StationaryFeatures.start(rank, curves.d_x) if rank else None
        return FeatureNetwork(frequencies, network, curves.d_y, has_mean, stationary)
