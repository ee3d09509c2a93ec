"""The neural process (Garnelo et al., 2018): a latent variable, told by an encoder of pairs, turned into a function.

    z ~ N(0, I),    y = f(x, z) + s(x, z)·ε,    q(z | context) from the mean of encoded pairs (x, y)

The decoder learns from whole curves, as a variational autoencoder does, so that the prior means something; the encoder
learns from contexts of random size as well.
"""

from typing import Any, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from febm.checks import share, whole_number
from febm.curves import Curves
from febm.fitting import Fitting
from febm.inference import LatentPosterior
from febm.models.decoder_space import DecoderSpace
from febm.models.functions import LatentFunctionPosterior
from febm.models.latent_process import LatentProcess
from febm.models.scaled import scale_alike
from febm.models.settings import PAPER, PAPER_CURVES, PaperCurves, as_checkpoint, check_choice
from febm.neural_process_inference import METHODS, InferenceMethod, infer, predictive_density
from febm.neural_process_networks import Architecture, NeuralProcessNetwork, Pairs, as_pairs, in_chunks
from febm.neural_process_training import BOUNDS, Bound, ContextBound
from febm.progress import Progress
from febm.randomness import RandomState, as_key
from febm.scaling import Scaling
from febm.training import Group, Optimisation, Training

FEWEST_CURVES = 5
# Few curves are shown so often in an epoch, each time with other points and contexts, that it has about so many.
CURVES_IN_EPOCH = 1024


class NeuralProcess(LatentProcess):
    """A latent neural process.

    Parameters
    ----------
    latent_dim
        Length of z.
    architecture
        Sizes of encoder and decoder, features of x, and how the noise is modelled.
    bound
        "marginal": decoder and prior maximise the likelihood of whole curves, and the encoder learns beside that what
        contexts say; "conditional": that of targets given contexts, as in the literature.
    empty
        Share of the training contexts that are empty: what teaches the prior where the bound is conditional.
    samples
        Latents for each curve in a training step; more than one makes the bound importance-weighted, which costs time
        and corrects the noise where the coordinates of z depend on each other given a curve.
    points
        The most points of a curve in a training step, drawn anew each time.
    repeats
        How often an epoch shows every curve, or "auto": so often that it shows about 1,024.
    inference
        "importance": draws from p(z | context) by importance sampling around its modes; "amortised": draws from the
        encoder's q(z | context), as in the literature.
    draws, proposals
        Latents that make up a posterior, and importance proposals behind them and behind every evidence.
    optimisation, networks_group, noise_group
        The training loop, and the rates of the networks and of the noise.
    scaling
        "auto", "standard", "curve", "log", "power", "shifted", "none", or a `Scaling`.
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
    `log_evidence` is an importance-sampled estimate. Its error for a curve is about 1/√e nats where e is the effective
    number of proposals, which `Posterior.diagnostics` reports. `log_density` of further values is a ratio of two such
    evidences; with `inference="amortised"` it is log E_{q(z|context)} p(further | z), the density of what is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> model = febm.NeuralProcess(random_state=0, progress=False).fit(curves)
    >>> model.sample(5, at=np.linspace(0, 1, 200))
    <Curves: 5 curves, 200 points each, x in [0, 1], 1 output>
    >>> model.condition(curves[:2]).mean(x).shape
    (2, 20, 1)
    """

    def __init__(
        self,
        *,
        latent_dim: int = 16,
        architecture: Architecture = Architecture(),
        bound: Bound = "marginal",
        empty: float = 0.0,
        samples: int = 4,
        points: int = 64,
        repeats: int | Literal["auto"] = "auto",
        inference: InferenceMethod = "importance",
        draws: int = 256,
        proposals: int = 512,
        optimisation: Optimisation = Optimisation(epochs=200, batch_size=16, patience=30, plateau=6),
        networks_group: Group = Group(rate=3e-3, factor=0.5, minimum=1e-4),
        noise_group: Group = Group(rate=1e-2, factor=0.5, minimum=5e-4),
        scaling: str | Scaling = "auto",
        validation: float = 0.2,
        checkpoint: str | None = None,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.latent_dim = latent_dim
        self.architecture = architecture
        self.bound = bound
        self.empty = empty
        self.samples = samples
        self.points = points
        self.repeats = repeats
        self.inference = inference
        self.draws = draws
        self.proposals = proposals
        self.optimisation = optimisation
        self.networks_group = networks_group
        self.noise_group = noise_group
        self.scaling = scaling
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
    ) -> Self:
        """The settings of the paper's appendix for one of its data sets."""
        check_choice("NeuralProcess.paper", "dataset", dataset, PAPER_CURVES)
        return cls(
            latent_dim=512,
            architecture=Architecture(
                width=512,
                activation="relu",
                representation=512,
                frequencies=0,
                noise="network",
                smallest_noise=0.1,
                noise_slope=0.9,
                noise_range=np.inf,
                smallest_spread=0.1,
            ),
            bound="conditional",
            empty=0.5,
            samples=1,
            points=WHOLE_CURVES,
            repeats=1,
            inference="amortised",
            optimisation=Optimisation(epochs=1000, batch_size=128, averaging=0.0),
            networks_group=Group(rate=1e-3, factor=0.9, minimum=1e-4),
            noise_group=Group(rate=1e-3, factor=0.9, minimum=1e-4),
            scaling=PAPER[dataset]["scaling"],
            random_state=random_state,
            progress=progress,
        )

    def sample(self, n: int, at: Any = None, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """Draw `n` new functions at the points `at` (by default those of the training curves).

        The same `random_state` gives the same functions whatever `at` is.
        """
        self._require_fitted("sample")
        n = whole_number("NeuralProcess.sample: n", n)
        points = self._points(at, n, "sample")
        latent_key, noise_key = jax.random.split(as_key(random_state))
        latents = np.asarray(self.network_.prior.sample(latent_key, n), dtype=float)
        key = noise_key if noise else None
        if not isinstance(points, list):
            return Curves.from_grid(points, self._space.at(points).values(latents, key))
        values = [
            self._space.at(own).values(latents[i : i + 1], key if key is None else jax.random.fold_in(key, i))[0]
            for i, own in enumerate(points)
        ]
        return Curves.from_arrays(points, values)

    def condition(self, curves: Any, *, random_state: RandomState = None) -> LatentFunctionPosterior:
        """The posterior of each of the partly observed curves.

        A plain array is read as one curve a row on the grid of the training curves, NaN where nothing was observed.
        """
        self._check()
        curves = self._context(curves, "condition")
        key = self.posterior_key_ if random_state is None else as_key(random_state)
        scaled, scalings = self.scaling_.apply(curves), self.scaling_.of_each(curves)
        jacobian = self.scaling_.log_jacobian(curves)
        latent = self._infer(scaled, self.draws, key)

        def evidence() -> Float[np.ndarray, " curves"]:
            assert latent.log_evidence is not None
            return latent.log_evidence + jacobian

        def evidence_with(further: Curves) -> Float[np.ndarray, " curves"]:
            more, more_jacobian = scale_alike(self.scaling_, scalings, further)
            if self.inference == "amortised":
                gained = predictive_density(
                    self.network_, as_pairs(scaled), as_pairs(more), proposals=self.proposals, key=key
                )
                return evidence() + gained + more_jacobian
            together = self._infer(scaled.merge(more), self.draws, key).log_evidence
            assert together is not None
            return together + jacobian + more_jacobian

        return LatentFunctionPosterior(
            self._space,
            latent,
            curves.ids,
            scalings=scalings,
            method=self.inference,
            again=lambda draws: self._infer(scaled, draws, key),
            evidence=evidence,
            evidence_with=evidence_with,
        )

    @property
    def _n_features_out(self) -> int:
        return self.network_.latent_dim

    def _latent_means(self, curves: Curves) -> Float[np.ndarray, "curves latent"]:
        # One at a time: in a batch rounding would depend on the curves beside it.
        return in_chunks(_encode, self.network_, (as_pairs(curves),), size=1).astype(float)

    @property
    def _space(self) -> DecoderSpace:
        return DecoderSpace(self.network_, self.scaling_, self.domain_)

    def _infer(self, scaled: Curves, draws: int, key: PRNGKeyArray) -> LatentPosterior:
        proposals = max(self.proposals, 2 * draws)
        return infer(self.network_, as_pairs(scaled), method=self.inference, draws=draws, proposals=proposals, key=key)

    def _learn(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitting[None]:
        if len(curves) < FEWEST_CURVES:
            raise ValueError(
                f"NeuralProcess.fit: {len(curves)} curves are too few to learn a distribution from; "
                f"give at least {FEWEST_CURVES}."
            )
        split_key, network_key, train_key = jax.random.split(key, 3)
        network = NeuralProcessNetwork(curves.d_x, curves.d_y, self.latent_dim, self.architecture, key=network_key)
        order = jax.random.permutation(split_key, len(curves))
        held_out = max(1, round(self.validation * len(curves)))
        pairs = as_pairs(curves)
        trained = yield Training(
            ContextBound(self.bound, float(self.empty), self.samples, self.points),
            network,
            pairs[jnp.tile(order[held_out:], self._repeats(len(curves) - held_out))],
            pairs[order[:held_out]],
            groups={"networks": self.networks_group, "noise": self.noise_group},
            settings=self.optimisation,
            key=train_key,
            progress=progress,
            watch=_noise,
            checkpoint=as_checkpoint("NeuralProcess", self.checkpoint),
        )
        self.network_, self.history_ = trained.model, trained.history

    def _repeats(self, count: int) -> int:
        return max(1, round(CURVES_IN_EPOCH / count)) if self.repeats == "auto" else int(self.repeats)

    def _scaling(self, curves: Curves) -> Scaling:
        self._check()  # bad arguments are refused before anything is learned
        return super()._scaling(curves)

    def _check(self) -> None:
        check_choice("NeuralProcess", "inference", self.inference, METHODS)
        check_choice("NeuralProcess", "bound", self.bound, BOUNDS)
        check_choice("NeuralProcess", "architecture.noise", self.architecture.noise, ("constant", "network"))
        for name in ("latent_dim", "samples", "points", "draws", "proposals"):
            whole_number(f"NeuralProcess: {name}", getattr(self, name))
        if not (isinstance(self.empty, int | float) and 0 <= self.empty <= 1):
            raise ValueError(f"NeuralProcess: empty is {self.empty!r}; give a share from 0 to 1.")
        if self.repeats != "auto":
            whole_number("NeuralProcess: repeats", self.repeats)
        share("NeuralProcess: validation", self.validation)
        as_checkpoint("NeuralProcess", self.checkpoint)


# More points than a curve of the paper has.
WHOLE_CURVES = 1024


def _noise(network: NeuralProcessNetwork) -> dict[str, float]:
    settings = network.architecture
    scale = settings.smallest_noise + settings.noise_slope * jax.nn.softplus(network.noise)
    return {"noise": float(jnp.mean(scale))} if settings.noise == "constant" else {}


@eqx.filter_jit
def _encode(network: NeuralProcessNetwork, pairs: Pairs) -> Float[Array, "curves latent"]:
    return jax.vmap(lambda own: network.encode(own).mean)(pairs)
