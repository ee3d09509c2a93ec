"""The Gaussian energy-based process (Yang et al., 2020, section 3.2): a Gaussian process with a deep kernel.

    f(x) = m(x) + φ(x)·w,    w ~ N(0, I),    k(x, x') = φ(x)ᵀφ(x')

The network φ, the mean m and the noise are learned by the marginal likelihood of all curves.
"""

import dataclasses
from typing import Literal

import jax
from jaxtyping import PRNGKeyArray

from febm.basis.learned import FeatureNetwork, draw_frequencies
from febm.checks import whole_number
from febm.curves import Curves
from febm.models.feature_process import PAPER_TRAINING, FeatureTraining, LearnedFeatureProcess
from febm.models.settings import PAPER, check_choice
from febm.networks import ResidualMLP
from febm.progress import Progress
from febm.randomness import RandomState
from febm.scaling import Scaling


class EBP(LearnedFeatureProcess):
    """Gaussian energy-based process.

    Parameters
    ----------
    features
        Length of φ(x) for each output.
    mean
        "learned": the network has the mean function as one more output; "zero": the mean of the scaled outputs.
    scaling
        "auto", "standard", "curve", "log", "power", "none", or a `Scaling`.
    training
        The network and how it is trained.
    validation
        Share of the curves held out to stop the training and to reduce its rates.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.
    """

    def __init__(
        self,
        *,
        features: int = 64,
        mean: Literal["learned", "zero"] = "learned",
        scaling: str | Scaling = "auto",
        training: FeatureTraining = FeatureTraining(),
        validation: float = 0.2,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.features = features
        self.mean = mean
        self.scaling = scaling
        self.training = training
        self.validation = validation
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(
        cls,
        dataset: Literal["quadratic", "melbourne", "stocks", "gridwatch"],
        *,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> "EBP":
        """The paper's baseline: mean zero, three layers of 512 ReLU units with skips.

        It does not say how many features; 100 are no fewer than the curves of its data sets can use.
        """
        check_choice("EBP.paper", "dataset", dataset, ("quadratic", "melbourne", "stocks", "gridwatch"))
        return cls(
            features=100,
            mean="zero",
            scaling=PAPER[dataset]["scaling"],
            training=dataclasses.replace(PAPER_TRAINING, activation="relu"),
            random_state=random_state,
            progress=progress,
        )

    def _start(self, curves: Curves, key: PRNGKeyArray) -> FeatureNetwork:
        check_choice("EBP", "mean", self.mean, ("learned", "zero"))
        features = whole_number("EBP: features", self.features)
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
        return FeatureNetwork(draw_frequencies(training.waves, curves, wave_key), network, curves.d_y, has_mean)
