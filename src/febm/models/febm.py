"""F-EBM: a path measure, expanded in a basis and tilted by an energy (section 3 of the paper).

    f(x) = m(x) + Σ_i μ(z)_i √λ_i e_i(x),    p(z) ∝ exp(−E(z)) p₀(z),    y ~ p(y | f(x))

`FEBM()` is the recipe we know to be best; `FEBM.paper(dataset)` the one of the paper's appendix.
"""

import functools
from typing import Any, Literal

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from tinygp.kernels import Kernel

from febm.basis import Basis, Empirical, KarhunenLoeve
from febm.checks import whole_number
from febm.contrastive import Contrastive
from febm.curves import Curves
from febm.fitting import Fitting
from febm.gridded import are_many
from febm.inference import METHODS, Effort, LatentPosterior, Method, PriorDraws, draw_prior, infer
from febm.langevin import Chain
from febm.latent import LatentModel
from febm.likelihoods import Gaussian, Likelihood, as_likelihood
from febm.models.basis_process import PRIOR_STEPS, BasisProcess
from febm.models.recipes import Fitted, fit_by_chains, fit_by_importance, fit_many
from febm.models.settings import PAPER, Langevin, Networks, Plan, as_checkpoint, check_choice
from febm.observations import Observations
from febm.priors import Reference
from febm.progress import Progress
from febm.randomness import RandomState
from febm.scaling import Scaling, as_scaling
from febm.tilting import TiltTraining
from febm.training import Optimisation


class FEBM(BasisProcess):
    """Energy-based model of functions.

    Parameters
    ----------
    basis
        "auto": the Karhunen–Loève basis of `kernel` where one is given, else the empirical basis of the curves;
        or a `Basis`.
    kernel
        A kernel (in the units of the scaled inputs), or a name such as "matern52", whose hyper-parameters are
        then fitted.
    rank
        Number of basis functions, or the share of variance they explain; None: what held-out curves support of an
        empirical basis, and what a kernel's basis needs to be the kernel.
    remainder
        Whether, beside the empirical basis, there may be a stationary remainder, curves that differ in roughness, and a
        covariance shrunk to that of a random walk (`Empirical(shrinkage="walk")`); held-out curves then say which.
    latent_dim
        Length of z; None: the rank of the basis, for an "mlp" generator 20.
    prior
        "tilted": p₀ tilted by an energy; "energy": exp(−E) alone; "mixture" and "gaussian": p₀ alone.
    base
        p₀ of a tilted prior, "gaussian" or "mixture"; "auto" takes the mixture where it conditions in closed form.
    energy_dim
        The energy sees this many leading coordinates; None: chosen with the base, or all of them.
    components
        Components of the mixture; None: chosen by held-out evidence, and fitted from five starts where they are more
        than two: the base is the mean of the fits. Images by the thousand get a component for every 150, at most 400.
    training
        "importance": maximum likelihood of the tilt by importance sampling (linear generator, Gaussian noise);
        "langevin": the paper's loss; "auto": the first where it applies.
    generator
        "linear": w = z; "residual": w = z + r(z); "mlp": w = μ(z); "auto": linear where training by importance
        applies, else residual.
    likelihood
        "gaussian", "student_t", "continuous_bernoulli", "bernoulli", "poisson", or a `Likelihood`, whose scale is in
        the units of the scaled outputs (of the data, with scaling="none").
    scaling
        "auto", "standard", "curve", "log", "power", "shifted", "none", or a `Scaling`.
    inference
        "auto", "langevin", "mala", "nuts" or "smc"; see `febm.inference`.
    networks, langevin, optimisation, tilt, effort
        Sizes of networks; chains of the paper's loss; the training loop; training of the tilt; work per posterior.
    validation
        Share of the curves held out to choose the base, to stop the training and to reduce its rates.
    checkpoint
        A file that training is saved to after every epoch. If it is there already, `fit` with the same curves and
        settings goes on where it stopped; it takes an integer or a key as `random_state`.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.

    Notes
    -----
    Images, and other curves that are kept as they came, are seen some at a time where they have more than four million
    values. Their base measure is a mixture of local Gaussians on 256 coordinates (`febm.local_mixture`), and is not
    tilted.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(40, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.05 * rng.normal(size=waves.shape))
    >>> model = febm.FEBM(random_state=0, progress=False).fit(curves)
    >>> model.sample(100, at=np.linspace(0, 1, 1000))
    <Curves: 100 curves, 1,000 points each, x in [0, 1], 1 output>

    What was seen of a curve, here two of them before x = 0.5, says where the rest of it may be:

    >>> posterior = model.condition(curves[:2].select(curves[:2].x[:, 0] < 0.5))
    >>> posterior.mean(x).shape
    (2, 20, 1)
    >>> lower, upper = posterior.interval(x, 0.9)
    >>> bool((lower < upper).all())
    True
    """

    def __init__(
        self,
        *,
        basis: Literal["auto"] | Basis = "auto",
        kernel: str | Kernel | None = None,
        rank: int | float | None = None,
        remainder: bool = True,
        latent_dim: int | None = None,
        prior: Literal["tilted", "energy", "gaussian", "mixture"] = "tilted",
        base: Literal["auto", "gaussian", "mixture"] = "auto",
        energy_dim: int | None = None,
        components: int | None = None,
        training: Literal["auto", "langevin", "importance"] = "auto",
        generator: Literal["auto", "residual", "mlp", "linear"] = "auto",
        likelihood: str | Likelihood = "gaussian",
        scaling: str | Scaling = "auto",
        inference: Method = "auto",
        networks: Networks = Networks(),
        langevin: Langevin = Langevin(),
        optimisation: Optimisation = Optimisation(),
        tilt: TiltTraining = TiltTraining(),
        effort: Effort = Effort(),
        validation: float = 0.2,
        checkpoint: str | None = None,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.basis = basis
        self.kernel = kernel
        self.rank = rank
        self.remainder = remainder
        self.latent_dim = latent_dim
        self.prior = prior
        self.base = base
        self.energy_dim = energy_dim
        self.components = components
        self.training = training
        self.generator = generator
        self.likelihood = likelihood
        self.scaling = scaling
        self.inference = inference
        self.networks = networks
        self.langevin = langevin
        self.optimisation = optimisation
        self.tilt = tilt
        self.effort = effort
        self.validation = validation
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(
        cls,
        dataset: Literal["quadratic", "melbourne", "stocks", "gridwatch", "fashion_mnist"],
        *,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> "FEBM":
        """The settings of the paper's appendix for one of its data sets."""
        check_choice("FEBM.paper", "dataset", dataset, tuple(PAPER))
        return cls(**PAPER[dataset], random_state=random_state, progress=progress)

    def sample(
        self,
        n: int,
        at: Any = None,
        *,
        noise: bool = False,
        steps: int | None = None,
        random_state: RandomState = None,
    ) -> Curves:
        """Draw `n` new functions at the points `at` (by default those of the training curves).

        `steps` is the length of the chain that draws latents; None takes the length that the model was made for.
        The same `random_state` gives the same functions whatever `at` is.
        """
        return self._sample(n, at, noise, random_state, functools.partial(self._draw_latents, steps=steps))

    def chain_steps(self) -> int | None:
        """The length of the chain that draws latents; None where they are drawn exactly."""
        self._require_fitted("chain_steps")
        if self._short_chain is not None:
            return self._short_chain.steps
        return None if isinstance(self.model_.prior, Reference) else PRIOR_STEPS

    @property
    def _method(self) -> Method:
        check_choice("FEBM", "inference", self.inference, METHODS)
        return self.inference

    @property
    def _effort(self) -> Effort:
        return self.effort

    @property
    def _short_chain(self) -> Chain | None:
        """A plain short chain is itself the model: it is right for the steps it was trained with."""
        chain = self.langevin.prior
        return chain if self.training_ == "langevin" and not chain.metropolis else None

    def _fit_latent(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitted | Fitting[Fitted]:
        plan, self.training_ = self._plan()
        if self.training_ == "importance" and plan.has_mixture and are_many(curves):
            return fit_many(plan, curves, key)
        recipe = fit_by_importance if self.training_ == "importance" else fit_by_chains
        return recipe(plan, curves, key, progress)

    def _draw_latents(self, n: int, key: PRNGKeyArray, *, steps: int | None = None) -> PriorDraws:
        if steps is not None:
            steps = whole_number("FEBM.sample: steps", steps)
        chain = self._short_chain
        if chain is None:
            return draw_prior(self.model_.prior, n, steps=steps or PRIOR_STEPS, key=key)
        chain = chain if steps is None else chain.with_steps(steps)
        return PriorDraws(_run_short(self.model_, Contrastive(chain, chain, precondition=False), n, key), {})

    def _infer(self, observed: Observations, method: Method, effort: Effort, key: PRNGKeyArray) -> LatentPosterior:
        return infer(
            self.model_,
            observed,
            method=method,
            effort=effort,
            chain=self.langevin.posterior,
            precondition=self.langevin.precondition,
            key=key,
        )

    def _plan(self) -> tuple[Plan, str]:
        """Check the arguments and settle what "auto" leaves open."""
        check_choice("FEBM", "prior", self.prior, ("tilted", "energy", "gaussian", "mixture"))
        check_choice("FEBM", "base", self.base, ("auto", "gaussian", "mixture"))
        check_choice("FEBM", "training", self.training, ("auto", "langevin", "importance"))
        check_choice("FEBM", "generator", self.generator, ("auto", "residual", "mlp", "linear"))
        check_choice("FEBM", "inference", self.inference, METHODS)
        for name in ("latent_dim", "energy_dim", "components"):
            if getattr(self, name) is not None:
                whole_number(f"FEBM: {name}", getattr(self, name))
        if not 0 < self.validation < 1:
            raise ValueError(f"FEBM: validation is {self.validation}; give a share between 0 and 1, such as 0.2.")
        likelihood = as_likelihood(self.likelihood)
        closed = isinstance(likelihood, Gaussian) and self.prior != "energy" and self.generator in ("auto", "linear")
        if self.training == "importance" and not closed:
            raise ValueError(
                "FEBM: training='importance' needs generator='linear', likelihood='gaussian' and a prior other than "
                f"'energy'; got {self.generator!r}, {self.likelihood!r}, {self.prior!r}. "
                "Use training='langevin' or 'auto'."
            )
        training = ("importance" if closed else "langevin") if self.training == "auto" else self.training
        default = ("linear", "mixture") if training == "importance" else ("residual", "gaussian")
        plan = Plan(
            basis=self._basis(),
            likelihood=likelihood,
            generator=default[0] if self.generator == "auto" else self.generator,
            prior=self.prior,
            base=default[1] if self.base == "auto" else self.base,
            latent_dim=self.latent_dim,
            energy_dim=self.energy_dim,
            components=self.components,
            networks=self.networks,
            langevin=self.langevin,
            optimisation=self.optimisation,
            tilt=self.tilt,
            effort=self.effort,
            validation=self.validation,
            choose_rank=isinstance(self.basis, str)
            and self.kernel is None
            and self.rank is None
            and self.latent_dim is None,
            enrich=self.remainder and isinstance(self.basis, str) and self.kernel is None and self.latent_dim is None,
            checkpoint=as_checkpoint("FEBM", self.checkpoint),
        )
        return plan, training

    def _scaling(self, curves: Curves) -> Scaling:
        self._plan()  # bad arguments are refused before anything is learned
        likelihood = as_likelihood(self.likelihood)
        scaling = as_scaling(self.scaling)
        if not likelihood.scales_outputs:
            scaling = _unscaled(scaling, isinstance(self.scaling, str) and self.scaling == "auto", likelihood)
        likelihood.check_support(curves.y)
        return scaling

    def _basis(self) -> Basis:
        if isinstance(self.basis, Basis):
            if self.rank is not None or self.kernel is not None:
                raise ValueError("FEBM: rank and kernel belong to the basis; give them to it, or leave basis='auto'.")
            return self.basis
        check_choice("FEBM", "basis", self.basis, ("auto",))
        if self.kernel is None:
            return Empirical(rank=self.rank)
        return KarhunenLoeve(self.kernel, rank=self.rank)


def _unscaled(scaling: Scaling, chosen_by_us: bool, likelihood: Likelihood) -> Scaling:
    """The scaling for values that mean something as they are, such as counts."""
    as_is = Scaling(outputs="none", transform="identity")
    if chosen_by_us:
        return as_is
    if (scaling.outputs, scaling.transform) != (as_is.outputs, as_is.transform):
        raise ValueError(
            f"FEBM: scaling takes units off the outputs, but a {type(likelihood).__name__} likelihood needs its values "
            "as they are; use scaling='auto'."
        )
    return scaling


def _run_short(model: LatentModel, objective: Contrastive, n: int, key: PRNGKeyArray) -> Float[np.ndarray, "n latent"]:
    return np.asarray(_compiled_short(model, objective, n, key), dtype=float)


@eqx.filter_jit
def _compiled_short(model: LatentModel, objective: Contrastive, n: int, key: PRNGKeyArray) -> Float[Array, "n latent"]:
    return objective.prior_draws(model, n, key)[0]
