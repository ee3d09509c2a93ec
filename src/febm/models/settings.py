"""What F-EBM can be told: small frozen groups of settings, the paper's own, and the plan they amount to."""

import dataclasses
from pathlib import Path
from typing import Any, Literal, get_args

from febm.basis import Basis, KarhunenLoeve, RandomFourier
from febm.inference import Effort
from febm.kernels import Matern52
from febm.langevin import Chain, StepSize
from febm.likelihoods import Likelihood
from febm.scaling import Scaling
from febm.tilting import TiltTraining
from febm.training import Group, Optimisation

# The data sets of curves in the paper: every model has a recipe for each of them.
PaperCurves = Literal["quadratic", "melbourne", "stocks", "gridwatch"]
PAPER_CURVES: tuple[str, ...] = get_args(PaperCurves)


@dataclasses.dataclass(frozen=True)
class Networks:
    """Sizes of generator and energy where they are trained by chains."""

    width: int = 128
    depth: int = 3
    activation: str = "silu"


@dataclasses.dataclass(frozen=True)
class Langevin:
    """The chains of the paper's loss and the groups of parameters.

    The defaults are Metropolis-corrected and preconditioned by the linear model: such chains target the model
    itself, so that its samples stay the same when chains run longer.
    """

    posterior: Chain = Chain(20, StepSize(0.3), metropolis=True)
    prior: Chain = Chain(40, StepSize(0.2), metropolis=True)
    precondition: bool = True
    penalty: float = 1e-3
    generator_group: Group = Group(rate=1e-3, factor=0.9, minimum=1e-4)
    noise_group: Group = Group(rate=1e-2, factor=0.9, minimum=1e-4)
    prior_group: Group = Group(rate=1e-4, factor=0.8, minimum=1e-5)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The arguments of an F-EBM with nothing left open."""

    basis: Basis
    likelihood: Likelihood
    generator: str
    prior: str
    base: str
    latent_dim: int | None
    energy_dim: int | None
    components: int | None
    networks: Networks
    langevin: Langevin
    optimisation: Optimisation
    tilt: TiltTraining
    effort: Effort
    validation: float
    choose_rank: bool  # by held-out evidence, up to the rank of the basis
    enrich: bool  # a remainder beside the basis, and curves of different roughness, if held-out curves show them
    checkpoint: Path | None = None  # where training is saved after every epoch

    @property
    def has_mixture(self) -> bool:
        """Whether the base measure is a mixture."""
        return self.prior == "mixture" or (self.prior == "tilted" and self.base == "mixture")


def check_choice(owner: str, name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the allowed names."""
    if not (isinstance(value, str) and value in allowed):
        listed = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{owner}: {name} is {value!r}; choose one of {listed}.")


def _paper(step_size: StepSize, latent_dim: int, scaling: Scaling, rank: int) -> dict[str, Any]:
    """Appendix C of the paper, for data on `rank` points a curve.

    It names a Matérn kernel but neither its smoothness nor its length: 5/2, and what the marginal likelihood says, as
    for the Gaussian process beside it.
    """
    chain = Chain(100, step_size, metropolis=False)
    return {
        "basis": KarhunenLoeve("matern52", rank=rank, interpolation="ridge"),
        "latent_dim": latent_dim,
        "prior": "tilted",
        "base": "gaussian",
        "training": "langevin",
        "generator": "mlp",
        "scaling": scaling,
        "inference": "langevin",
        "networks": Networks(width=512, depth=3, activation="relu"),
        "langevin": Langevin(
            posterior=chain,
            prior=chain,
            precondition=False,
            penalty=0.0,
            generator_group=Group(rate=1e-3, factor=0.9, minimum=1e-4),
            prior_group=Group(rate=1e-3, factor=0.8, minimum=1e-5),
        ),
        "optimisation": Optimisation(epochs=500, batch_size=128, averaging=0.0),
    }


_FALLING = StepSize(1e-2, 1e-3)
_CONSTANT = StepSize(1e-2)
_RAW = Scaling(outputs="none", transform="identity")
_STANDARD = Scaling(outputs="standard", transform="identity")
_EACH_CURVE = Scaling(outputs="curve", transform="identity")

# Section 5 gives no settings for the images beyond features, likelihood and architecture. The other data sets' steps
# are too long for a posterior that 784 pixels tell, and their batches make 60,000 images an hour's work of an
# accelerator.
_IMAGE_CHAINS = Langevin(
    posterior=Chain(100, StepSize(1e-3), metropolis=False),
    prior=Chain(100, StepSize(1e-2), metropolis=False),
    precondition=False,
    penalty=1e-3,
    generator_group=Group(rate=1e-3, factor=0.9, minimum=1e-4),
    prior_group=Group(rate=1e-3, factor=0.8, minimum=1e-5),
)

PAPER: dict[str, dict[str, Any]] = {
    # Parabolas without noise drive a fitted length scale to infinity, so theirs is given: a quarter of the domain.
    "quadratic": {
        **_paper(_FALLING, 100, _RAW, rank=30),
        "basis": KarhunenLoeve(Matern52(0.25), rank=30, interpolation="ridge"),
    },
    "melbourne": _paper(_CONSTANT, 20, _STANDARD, rank=24),
    "stocks": _paper(_CONSTANT, 20, _STANDARD, rank=200),
    "gridwatch": _paper(_CONSTANT, 20, _EACH_CURVE, rank=144),
    "fashion_mnist": {
        **_paper(_CONSTANT, 100, _RAW, rank=784),
        "basis": RandomFourier(),
        "likelihood": "continuous_bernoulli",
        "langevin": _IMAGE_CHAINS,
        "optimisation": Optimisation(epochs=120, batch_size=1000, averaging=0.0),
    },
}


def as_checkpoint(owner: str, checkpoint: Any) -> Path | None:
    """The file that training is saved to, in a folder that exists."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str) or not checkpoint:
        raise TypeError(f"{owner}: checkpoint is {checkpoint!r}; give the name of a file, or None.")
    path = Path(checkpoint)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"{owner}: checkpoint is {checkpoint!r}; name a file in a folder that exists.")
    return path
