"""π-VAE: a variational autoencoder of the coefficients of curves on a basis (Mishra et al., 2020).

    f(x) = m(x) + Φ(x)·decoder(z),    z ~ N(0, I),    y = f(x) + ε

`PiVAE()` is the recipe we know to be best; `PiVAE.paper(dataset)` the one that F-EBM was compared with.
"""

import dataclasses
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from febm.amortised import infer_encoded
from febm.basis import Basis, Empirical
from febm.checks import share, whole_number
from febm.curves import Curves
from febm.folding import fold_basis
from febm.inference import Effort, LatentPosterior, Method
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.models.basis_process import BasisProcess
from febm.models.recipes import SMALLEST_NOISE, Fitted
from febm.models.settings import PAPER, PAPER_CURVES, Networks, PaperCurves, as_checkpoint, check_choice
from febm.networks import Generator, NetworkGenerator, ResidualGenerator, ResidualMLP
from febm.observations import Observations, observe
from febm.priors import GaussianPrior
from febm.progress import Progress
from febm.randomness import RandomState
from febm.scaling import Scaling
from febm.tails import TailSearch, choose_tail, ladder
from febm.training import Group, Optimisation, train
from febm.variational import Autoencoder, EncodedCurves, Encoder, LowerBound

# Latents beyond these cost training more than they give: what they would explain is left to the noise.
LARGEST_LATENT = 20
MLP_LATENT = 5
# Gauss–Newton steps behind the held-out score; the encoder is close already.
REFINEMENTS = 2
# Of the spread of the values: noise that training starts from and takes away. The coarse shape of the distribution is
# learned while it is large; started at the noise of the curves, no step that bends the latents is small enough.
COARSE_NOISE = 0.3
METHODS = ("auto", "importance", "nuts", "mala", "smc")


@dataclasses.dataclass(frozen=True)
class Rates:
    """The groups of parameters: networks, noise, and coefficients where they are free."""

    networks: Group = Group(rate=1e-3, factor=0.5, minimum=1e-6, weight_decay=0.3)
    noise: Group = Group(rate=1e-2, factor=0.5, minimum=1e-5)
    coefficients: Group = Group(rate=5e-3, factor=0.5, minimum=1e-5)


class PiVAE(BasisProcess):
    """Variational autoencoder of functions.

    Parameters
    ----------
    basis
        "auto": the empirical basis of the curves; or a `Basis`, such as the `KarhunenLoeve` basis of a kernel.
    rank
        Number of basis functions, or the share of variance they explain, of the empirical basis; None: 0.9999.
    latent_dim
        Length of z; None: as many leading coefficients as held-out curves support, at most 20 (an "mlp" decoder: 5).
    decoder
        "residual": z are the leading coefficients, bent by a network, w = z + r(z); "mlp": w = μ(z).
    bent_dim
        A "residual" decoder bends this many leading latents; the rest stay Gaussian coefficients.
    coefficients
        What the encoder sees of a training curve: "ridge" estimates from its points; or "free" parameters, one vector
        for each curve, trained with the rest.
    loss
        "bound": the evidence lower bound with learned noise; "squares": Σ(y − Φβ)² + Σ(y − Φβ̂)² + KL.
    scaling
        "auto", "standard", "curve", "log", "power", "shifted", "none", or a `Scaling`.
    inference
        "auto" and "importance": proposals around the modes that climbs from the encoder's latent and from the prior
        find, and tempered particles for curves where these do not suffice; "smc": tempered particles for all curves;
        "nuts" and "mala": chains that start where the encoder puts the ridge coefficients of what was observed.
    networks, rates, optimisation, effort
        Sizes of encoder and decoder; learning rates; the training loop; work per posterior.
    validation
        Share of the curves held out to choose the latent dimension and to stop the training.
    checkpoint
        A file that training is saved to after every epoch and taken up from.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.

    Attributes
    ----------
    encoder_ : Encoder
        q(z | β).
    coefficients_ : array (curves, rank)
        The coefficients β of the training curves, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> model = febm.PiVAE(random_state=0, progress=False).fit(curves)
    >>> model.sample(5, at=np.linspace(0, 1, 200))
    <Curves: 5 curves, 200 points each, x in [0, 1], 1 output>
    >>> model.condition(curves[:2]).mean(x).shape
    (2, 20, 1)
    """

    def __init__(
        self,
        *,
        basis: Literal["auto"] | Basis = "auto",
        rank: int | float | None = None,
        latent_dim: int | None = None,
        decoder: Literal["residual", "mlp"] = "residual",
        bent_dim: int = 10,
        coefficients: Literal["ridge", "free"] = "ridge",
        loss: Literal["bound", "squares"] = "bound",
        scaling: str | Scaling = "auto",
        inference: Literal["auto", "importance", "nuts", "mala", "smc"] = "auto",
        networks: Networks = Networks(width=100, depth=2),
        rates: Rates = Rates(),
        optimisation: Optimisation = Optimisation(batch_size=32, patience=30),
        effort: Effort = Effort(),
        validation: float = 0.2,
        checkpoint: str | None = None,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.basis = basis
        self.rank = rank
        self.latent_dim = latent_dim
        self.decoder = decoder
        self.bent_dim = bent_dim
        self.coefficients = coefficients
        self.loss = loss
        self.scaling = scaling
        self.inference = inference
        self.networks = networks
        self.rates = rates
        self.optimisation = optimisation
        self.effort = effort
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
    ) -> "PiVAE":
        """The settings of the baseline in the appendix of the F-EBM paper for one of its data sets.

        A Matérn basis of as many functions as a curve has points; for Melbourne, FPCA with 99 % of the variance.
        """
        check_choice("PiVAE.paper", "dataset", dataset, PAPER_CURVES)
        constant = Group(rate=5e-3, factor=0.5, minimum=5e-3)
        return cls(
            basis=Empirical(rank=0.99) if dataset == "melbourne" else PAPER[dataset]["basis"],
            latent_dim=5,
            decoder="mlp",
            coefficients="free",
            loss="squares",
            scaling=PAPER[dataset]["scaling"],
            inference="nuts",
            networks=Networks(width=100, depth=1, activation="relu"),
            rates=Rates(constant, constant, constant),
            optimisation=Optimisation(epochs=2000, patience=100, averaging=0.0),
            random_state=random_state,
            progress=progress,
        )

    @property
    def _method(self) -> Method:
        check_choice("PiVAE", "inference", self.inference, METHODS)
        return "importance" if self.inference == "auto" else self.inference

    @property
    def _effort(self) -> Effort:
        return self.effort

    def _scaling(self, curves: Curves) -> Scaling:
        self._check()  # bad arguments are refused before anything is learned
        return super()._scaling(curves)

    def _check(self) -> None:
        check_choice("PiVAE", "decoder", self.decoder, ("residual", "mlp"))
        check_choice("PiVAE", "coefficients", self.coefficients, ("ridge", "free"))
        check_choice("PiVAE", "loss", self.loss, ("bound", "squares"))
        check_choice("PiVAE", "inference", self.inference, METHODS)
        share("PiVAE: validation", self.validation)
        as_checkpoint("PiVAE", self.checkpoint)
        whole_number("PiVAE: bent_dim", self.bent_dim)
        if self.latent_dim is not None:
            whole_number("PiVAE: latent_dim", self.latent_dim)
        if isinstance(self.basis, Basis):
            if self.rank is not None:
                raise ValueError("PiVAE: rank belongs to the basis; give it to it, or leave basis='auto'.")
        else:
            check_choice("PiVAE", "basis", self.basis, ("auto",))

    def _fit_latent(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitted:
        fold_key, model_key, train_key = jax.random.split(key, 3)
        specified = self.basis if isinstance(self.basis, Basis) else Empirical(rank=self.rank)
        basis, folds, (held_out, *_) = fold_basis(specified, curves, self.validation, None, fold_key)
        tail = choose_tail(folds, TailSearch(self._ranks(basis.rank)))
        observed = observe(basis, curves)
        floor = SMALLEST_NOISE * (float(np.nanstd(curves.y)) or 1.0)
        model = self._start(tail.rank, basis.rank, max(np.sqrt(tail.noise_variance), floor), curves, model_key)
        encoded = EncodedCurves(observed.single_precision(), model.encoder.codes(observed), np.full(len(curves), -1))
        judging, learning = np.flatnonzero(held_out), np.flatnonzero(~held_out)
        training = dataclasses.replace(encoded[learning], row=np.arange(len(learning)))
        if self.coefficients == "free":
            model = dataclasses.replace(model, coefficients=training.code.coefficients)
        groups = {"networks": self.rates.networks, "noise": self.rates.noise}
        if self.coefficients == "free":
            groups["coefficients"] = self.rates.coefficients
        trained = train(
            LowerBound(smallest_noise=floor, refinements=REFINEMENTS, squares=self.loss == "squares"),
            model,
            training,
            encoded[judging],
            groups=groups,
            settings=self.optimisation,
            key=train_key,
            progress=progress,
            watch=_noise,
            checkpoint=as_checkpoint("PiVAE", self.checkpoint),
        )
        model = trained.model
        self.encoder_ = model.encoder
        self.coefficients_ = np.array(encoded.code.coefficients, dtype=float)
        if model.coefficients is not None:
            self.coefficients_[learning] = model.coefficients
        noise = max(float(model.latent.likelihood.scale), floor)
        latent = LatentModel(model.latent.generator, model.latent.prior, Gaussian(noise))
        return Fitted(basis, latent, trained.history)

    def _ranks(self, largest: int) -> tuple[int, ...]:
        """The numbers of leading coefficients among which held-out curves choose."""
        if self.decoder == "mlp":
            return (largest,)
        if self.latent_dim is not None:
            return (min(self.latent_dim, largest),)
        return ladder(min(largest, LARGEST_LATENT))

    def _start(self, leading: int, rank: int, noise: float, curves: Curves, key: PRNGKeyArray) -> Autoencoder:
        """Before training: the linear Gaussian model and its posterior where the decoder is residual."""
        decoder_key, encoder_key = jax.random.split(key)
        residual = self.decoder == "residual"
        latent = leading if residual else self.latent_dim or MLP_LATENT
        sizes: dict[str, Any] = dataclasses.asdict(self.networks) | {"zero_last": residual}
        generator: Generator
        if residual:
            bent = min(self.bent_dim, latent)
            network = ResidualMLP(bent, bent, **sizes, key=decoder_key)
            generator = ResidualGenerator(network, rank, leading=bent, latent_dim=latent)
        else:
            generator = NetworkGenerator(ResidualMLP(latent, rank, **sizes, key=decoder_key))
        encoder = Encoder(
            ResidualMLP(rank, 2 * latent, **sizes, key=encoder_key), ridge=float(noise) ** 2, scores=residual
        )
        spread = float(np.nanstd(curves.y)) or 1.0
        start = max(noise, COARSE_NOISE * spread) if residual else 0.5 * spread
        return Autoencoder(LatentModel(generator, GaussianPrior(latent), Gaussian(start)), encoder)

    def _latent_means(self, curves: Curves) -> Float[np.ndarray, "curves latent"]:
        observed = observe(self.basis_, curves)
        # One at a time: in a batch rounding would depend on the curves beside it.
        means = [self.encoder_.centres(observed[i : i + 1]) for i in range(len(observed))]
        return np.concatenate(means, dtype=float)

    def _infer(self, observed: Observations, method: Method, effort: Effort, key: PRNGKeyArray) -> LatentPosterior:
        method = "importance" if method == "auto" else method
        return infer_encoded(self.model_, self.encoder_, observed, method=method, effort=effort, key=key)


def _noise(model: Autoencoder) -> dict[str, float]:
    assert isinstance(model.latent.likelihood, Gaussian)
    return {"noise": float(model.latent.likelihood.scale)}
