"""Processes on a basis, f(x) = m(x) + Φ(x)·μ(z): everything but how the basis and the latent model are learned."""

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float, PRNGKeyArray

from febm.basis import Basis
from febm.checks import whole_number
from febm.curves import Curves
from febm.fitting import Fitting, steps
from febm.inference import (
    CURVES_AT_ONCE,
    Effort,
    LatentPosterior,
    Method,
    PriorDraws,
    draw_prior,
    exact,
    infer,
    settle,
)
from febm.langevin import Chain
from febm.latent import LatentModel
from febm.models.functions import FunctionSpace, LatentFunctionPosterior
from febm.models.latent_process import LatentProcess
from febm.models.recipes import Fitted
from febm.models.scaled import scale_alike
from febm.networks import RoughGenerator
from febm.observations import Observations, observe
from febm.progress import Progress
from febm.randomness import RandomState, as_key

# Metropolis-corrected steps after importance resampling: the weights already give the right distribution, the
# steps only separate draws that share a proposal.
PRIOR_STEPS = 50


class BasisProcess(LatentProcess):
    """A process whose functions are a fitted basis times weights that a latent model generates.

    Subclasses write `_fit_latent`; fitted are `basis_`, `model_` and `history_`. Sampling draws latents from the
    prior, conditioning infers them: exactly where the model is linear and Gaussian, else as `_method` says.
    """

    basis_: Basis
    model_: LatentModel
    history_: pd.DataFrame

    @abc.abstractmethod
    def _fit_latent(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitted | Fitting[Fitted]:
        """The basis and the latent model of scaled curves, and how training went, at once or by a generator."""

    def sample(self, n: int, at: Any = None, *, noise: bool = False, random_state: RandomState = None) -> Curves:
        """Draw `n` new functions at the points `at` (by default those of the training curves).

        The same `random_state` gives the same functions whatever `at` is.
        """
        return self._sample(n, at, noise, random_state, self._draw_latents)

    def condition(self, curves: Any, *, random_state: RandomState = None) -> LatentFunctionPosterior:
        """The posterior of each of the partly observed curves.

        A plain array is read as one curve a row on the grid of the training curves, NaN where nothing was observed.
        """
        curves = self._context(curves, "condition")
        key = self.posterior_key_ if random_state is None else as_key(random_state)
        scaled, scalings = self.scaling_.apply(curves), self.scaling_.of_each(curves)
        observed = observe(self.basis_, scaled)
        jacobian = self.scaling_.log_jacobian(curves)
        method, effort = settle(self._method, self.model_), self._effort
        latent = self._infer(observed, method, effort, key)

        def evidence() -> Float[np.ndarray, " curves"]:
            found = latent.log_evidence
            return (self._infer(observed, "auto", effort, key).log_evidence if found is None else found) + jacobian

        def evidence_with(further: Curves) -> Float[np.ndarray, " curves"]:
            more, more_jacobian = scale_alike(self.scaling_, scalings, further)
            together = observe(self.basis_, scaled.merge(more))
            return self._infer(together, "auto", effort, key).log_evidence + jacobian + more_jacobian

        return LatentFunctionPosterior(
            self._space,
            latent,
            curves.ids,
            scalings=scalings,
            method=method,
            again=lambda draws: self._infer(observed, method, effort.with_draws(draws), key),
            evidence=evidence,
            evidence_with=evidence_with,
        )

    def sample_latents(self, n: int, *, random_state: RandomState = None) -> PriorDraws:
        """`n` latents as `sample` draws them, and what the sampler says of them."""
        self._require_fitted("sample_latents")
        latent_key, _ = jax.random.split(as_key(random_state))
        return self._draw_latents(whole_number(f"{type(self).__name__}.sample_latents: n", n), latent_key)

    @property
    def _n_features_out(self) -> int:
        return self.model_.generator.latent_dim

    def _latent_means(self, curves: Curves) -> Float[np.ndarray, "curves latent"]:
        observed, generator = observe(self.basis_, curves), self.model_.generator
        roughness = generator.leading if isinstance(generator, RoughGenerator) else None
        means = []
        for found in self._inferred_alike(observed, draws=1 if roughness is None else self._effort.draws):
            if roughness is not None:
                # In the latent of the mean function nothing is rough.
                found.mean[:, roughness] = found.draws[:, :, roughness].mean(axis=1)
            means.append(found.mean)
        return np.concatenate(means)

    def _inferred_alike(self, observed: Observations, *, draws: int) -> Iterator[LatentPosterior]:
        """Posteriors of some curves at a time, none of which depends on the curves that happen to be beside it."""
        method, key = settle(self._method, self.model_), self.posterior_key_
        if method == "exact":
            effort = dataclasses.replace(self._effort, draws=draws)
            for first in range(0, len(observed), CURVES_AT_ONCE):
                some = observed[first : first + CURVES_AT_ONCE]
                yield exact(self.model_, some, effort=effort, key=key, alike=True)
            return
        # One at a time: chains part from each other where the rounding of a batch differs.
        for curve in range(len(observed)):
            yield self._infer(observed[curve : curve + 1], method, self._effort, key)

    @property
    def _method(self) -> Method:
        return "auto"

    @property
    def _effort(self) -> Effort:
        return Effort()

    @property
    def _space(self) -> FunctionSpace:
        return FunctionSpace(self.model_, self.basis_, self.scaling_, self.domain_)

    def _learn(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitting[None]:
        self.basis_, self.model_, self.history_ = yield from steps(self._fit_latent(curves, key, progress))

    def _draw_latents(self, n: int, key: PRNGKeyArray) -> PriorDraws:
        return draw_prior(self.model_.prior, n, steps=PRIOR_STEPS, key=key)

    def _infer(self, observed: Observations, method: Method, effort: Effort, key: PRNGKeyArray) -> LatentPosterior:
        return infer(self.model_, observed, method=method, effort=effort, chain=Chain(100), key=key)

    def _sample(
        self,
        n: int,
        at: Any,
        noise: bool,
        random_state: RandomState,
        latents: Callable[[int, PRNGKeyArray], PriorDraws],
    ) -> Curves:
        self._require_fitted("sample")
        n = whole_number(f"{type(self).__name__}.sample: n", n)
        points = self._points(at, n, "sample")
        latent_key, noise_key = jax.random.split(as_key(random_state))
        weights = self._space.weights(latents(n, latent_key).draws)
        key = noise_key if noise else None
        if not isinstance(points, list):
            return Curves.from_grid(points, self._space.at(points).values(weights, key))
        values = [
            there.values(weights[i : i + 1], key if key is None else jax.random.fold_in(key, i))[0]
            for i, there in enumerate(self._space.at_each(points))
        ]
        return Curves.from_arrays(points, values)
