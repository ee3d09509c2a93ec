"""F-EBM: a path measure, expanded in a basis and tilted by an energy (section 3 of the paper).

    f(x) = m(x) + Σ_i μ(z)_i √λ_i e_i(x),    p(z) ∝ exp(−E(z)) p₀(z),    y ~ p(y | f(x))

`FEBM()` is the recipe we know to be best; `FEBM.paper(dataset)` the one of the paper's appendix.
"""

from typing import Any, Literal, Self

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from tinygp.kernels import Kernel

from febm.basis import Basis, Empirical, KarhunenLoeve
from febm.checks import whole_number
from febm.contrastive import Contrastive
from febm.curves import Curves, as_curves
from febm.inference import METHODS, Effort, LatentPosterior, Method, PriorDraws, draw_prior, infer, settle
from febm.latent import LatentModel
from febm.likelihoods import Gaussian, Likelihood, as_likelihood
from febm.models.base import Process, points_of
from febm.models.functions import FunctionSpace, LatentFunctionPosterior
from febm.models.recipes import fit_by_chains, fit_by_importance
from febm.models.settings import PAPER, Langevin, Networks, Plan, check_choice
from febm.observations import Observations, observe
from febm.priors import Reference
from febm.progress import Progress, as_progress
from febm.randomness import RandomState, as_key
from febm.scaling import Scaling, as_scaling
from febm.tilting import TiltTraining
from febm.training import Optimisation


class FEBM(Process):
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
    latent_dim
        Length of z; None: the rank of the basis, for an "mlp" generator 20.
    prior
        "tilted": p₀ tilted by an energy; "energy": exp(−E) alone; "mixture" and "gaussian": p₀ alone.
    base
        p₀ of a tilted prior, "gaussian" or "mixture"; "auto" takes the mixture where it conditions in closed form.
    energy_dim
        The energy sees this many leading coordinates; None: chosen with the base, or all of them.
    components
        Components of the mixture; None: chosen by held-out evidence.
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
        "auto", "standard", "curve", "log", "power", "none", or a `Scaling`.
    inference
        "auto", "langevin", "mala", "nuts" or "smc"; see `febm.inference`.
    networks, langevin, optimisation, tilt, effort
        Sizes of networks; chains of the paper's loss; the training loop; training of the tilt; work per posterior.
    validation
        Share of the curves held out to choose the base, to stop the training and to reduce its rates.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.
    """

    def __init__(
        self,
        *,
        basis: Literal["auto"] | Basis = "auto",
        kernel: str | Kernel | None = None,
        rank: int | float | None = None,
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
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.basis = basis
        self.kernel = kernel
        self.rank = rank
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

    def fit(self, curves: Any, y: None = None) -> Self:
        """Learn the distribution of `curves`; afterwards see `history_`."""
        curves = as_curves(curves, "FEBM.fit: curves")
        plan, training = self._plan()
        scaling = self._scaling(plan.likelihood)
        plan.likelihood.check_support(curves.y)
        fit_key, posterior_key = jax.random.split(as_key(self.random_state))
        scaling = scaling.fit(curves)
        recipe = fit_by_importance if training == "importance" else fit_by_chains
        fitted = recipe(plan, scaling.apply(curves), fit_key, as_progress(self.progress))
        self.scaling_ = scaling
        self.basis_, self.model_, self.history_ = fitted
        self.training_ = training
        self.posterior_key_ = posterior_key
        self.domain_ = np.stack(curves.domain)
        self.grid_ = _default_points(curves)
        return self

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
        self._require_fitted("sample")
        n = whole_number("FEBM.sample: n", n)
        points = points_of(self.grid_ if at is None else at, self.scaling_.d_x, n, "FEBM.sample")
        latent_key, noise_key = jax.random.split(as_key(random_state))
        weights = self._space.weights(self._draw_latents(n, steps, latent_key).draws)
        key = noise_key if noise else None
        if not isinstance(points, list):
            return Curves.from_grid(points, self._space.at(points).values(weights, key))
        values = [
            self._space.at(own).values(weights[i : i + 1], key if key is None else jax.random.fold_in(key, i))[0]
            for i, own in enumerate(points)
        ]
        return Curves.from_arrays(points, values)

    def condition(self, curves: Any, *, random_state: RandomState = None) -> LatentFunctionPosterior:
        """The posterior of each of the partly observed curves.

        A plain array is read as one curve a row on the grid of the training curves, NaN where nothing was observed.
        """
        self._require_fitted("condition")
        curves = as_curves(curves, "FEBM.condition: curves", like=self.grid_)
        if (curves.d_x, curves.d_y) != (self.scaling_.d_x, self.scaling_.d_y):
            raise ValueError(
                f"FEBM.condition: the curves have d_x={curves.d_x}, d_y={curves.d_y}; "
                f"the model was fitted with d_x={self.scaling_.d_x}, d_y={self.scaling_.d_y}."
            )
        key = self.posterior_key_ if random_state is None else as_key(random_state)
        scaled, scalings = self.scaling_.apply(curves), self.scaling_.of_each(curves)
        observed = observe(self.basis_, scaled)
        jacobian = self.scaling_.log_jacobian(curves)
        check_choice("FEBM", "inference", self.inference, METHODS)
        method = settle(self.inference, self.model_)

        def posterior(observed: Observations, method: Method, effort: Effort) -> LatentPosterior:
            return infer(
                self.model_,
                observed,
                method=method,
                effort=effort,
                chain=self.langevin.posterior,
                precondition=self.langevin.precondition,
                key=key,
            )

        latent = posterior(observed, method, self.effort)

        def evidence() -> Float[np.ndarray, " curves"]:
            found = latent.log_evidence
            return (posterior(observed, "auto", self.effort).log_evidence if found is None else found) + jacobian

        def evidence_with(further: Curves) -> Float[np.ndarray, " curves"]:
            more, more_jacobian = _scale_alike(self.scaling_, scalings, further)
            together = observe(self.basis_, scaled.merge(more.replace(ids=scaled.ids)))
            return posterior(together, "auto", self.effort).log_evidence + jacobian + more_jacobian

        def again(draws: int) -> LatentPosterior:
            return posterior(observed, method, self.effort.with_draws(draws))

        return LatentFunctionPosterior(
            self._space,
            latent,
            curves.ids,
            scalings=scalings,
            method=method,
            again=again,
            evidence=evidence,
            evidence_with=evidence_with,
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "model_")

    @property
    def _space(self) -> FunctionSpace:
        return FunctionSpace(self.model_, self.basis_, self.scaling_, self.domain_)

    def sample_latents(self, n: int, *, steps: int | None = None, random_state: RandomState = None) -> PriorDraws:
        """`n` latents as `sample` draws them with the same arguments, and what the sampler says of them."""
        self._require_fitted("sample_latents")
        latent_key, _ = jax.random.split(as_key(random_state))
        return self._draw_latents(whole_number("FEBM.sample_latents: n", n), steps, latent_key)

    def chain_steps(self) -> int | None:
        """The length of the chain that draws latents; None where they are drawn exactly."""
        self._require_fitted("chain_steps")
        if self.training_ == "langevin" and not self.langevin.prior.metropolis:
            return self.langevin.prior.steps
        return None if isinstance(self.model_.prior, Reference) else PRIOR_STEPS

    def _draw_latents(self, n: int, steps: int | None, key: PRNGKeyArray) -> PriorDraws:
        chain = self.langevin.prior
        if self.training_ == "langevin" and not chain.metropolis:
            # A plain short chain is itself the model: it is right for the steps it was trained with.
            chain = chain if steps is None else chain.with_steps(steps)
            return _short_run(self.model_, Contrastive(chain, chain, precondition=False), n, key)
        return draw_prior(self.model_.prior, n, steps=PRIOR_STEPS if steps is None else steps, key=key)

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
        )
        return plan, training

    def _scaling(self, likelihood: Likelihood) -> Scaling:
        if likelihood.scales_outputs:
            return as_scaling(self.scaling)
        counts = Scaling(outputs="none", transform="identity")
        scaling = counts if isinstance(self.scaling, str) and self.scaling == "auto" else as_scaling(self.scaling)
        if (scaling.outputs, scaling.transform) != (counts.outputs, counts.transform):
            raise ValueError(
                f"FEBM: scaling is {self.scaling!r}, but a {type(likelihood).__name__} likelihood needs its values as "
                "they are; use scaling='auto'."
            )
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


# Metropolis-corrected steps after importance resampling: the weights already give the right distribution, the
# steps only separate draws that share a proposal.
PRIOR_STEPS = 50
# Where curves have their own points there is no grid to come back to; this many points show a function well.
DEFAULT_POINTS = 200


@eqx.filter_jit
def _run_short(model: LatentModel, objective: Contrastive, n: int, key: PRNGKeyArray) -> Float[Array, "n latent"]:
    return objective.prior_draws(model, n, key)[0]


def _short_run(model: LatentModel, objective: Contrastive, n: int, key: PRNGKeyArray) -> PriorDraws:
    return PriorDraws(np.asarray(_run_short(model, objective, n, key), dtype=float), {})


def _scale_alike(scaling: Scaling, scalings: list[Scaling], further: Curves) -> tuple[Curves, Float[np.ndarray, " n"]]:
    """Further values of curves in the units that what was observed first gave to each, and their log Jacobian."""
    if scaling.outputs != "curve":
        return scaling.apply(further), scaling.log_jacobian(further)
    each = list(zip(scalings, further, strict=True))
    jacobian = np.concatenate([own.log_jacobian(curve) for own, curve in each])
    return Curves.concatenate([own.apply(curve) for own, curve in each]), jacobian


def _default_points(curves: Curves) -> Float[np.ndarray, "points inputs"]:
    """The points of the training curves where they are few, else a grid over their domain."""
    points = np.unique(curves.x, axis=0)
    if len(points) <= 2 * np.max(curves.lengths):
        return points
    lower, upper = curves.domain
    side = max(2, round(DEFAULT_POINTS ** (1 / curves.d_x)))
    axes = [np.linspace(low, high, side) for low, high in zip(lower, upper, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, curves.d_x)
