"""Functional PCA: the Gaussian process with the mean and covariance that the curves themselves have.

    f(x) = m(x) + Σ_k ξ_k √λ_k e_k(x),    ξ_k ~ N(0, 1) independent,    y = f(x) + ε

Mean, eigenfunctions and noise come from all curves together, however sparse each is; the scores of a curve are then
known by conditional expectation (Yao, Müller and Wang, JASA 2005, call this PACE).
"""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, PRNGKeyArray

from febm.basis import Empirical
from febm.curves import Curves
from febm.folding import fold_basis
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.models.base import one_grid
from febm.models.basis_process import BasisProcess
from febm.models.recipes import Fitted
from febm.models.settings import PAPER, PAPER_CURVES, PaperCurves, check_choice
from febm.networks import LinearGenerator
from febm.priors import GaussianPrior
from febm.progress import Progress
from febm.randomness import RandomState
from febm.scaling import Scaling
from febm.tails import TailSearch, choose_tail, ladder, tail_evidence


class FPCA(BasisProcess):
    """Functional principal component analysis as a model of functions: Gaussian scores on the curves' own basis.

    Parameters
    ----------
    rank
        Number of components, or the share of the variance they explain; None: as many as held-out curves support.
    scaling
        "auto", "standard", "curve", "log", "power", "shifted", "none", or a `Scaling`.
    validation
        Share of the curves held out to choose rank and noise.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.

    Attributes
    ----------
    basis_ : Empirical
        Mean and eigenfunctions, in scaled units; `rank_` of them are used.
    history_ : DataFrame
        The held-out evidence per value and the noise that were chosen.

    Notes
    -----
    `transform` gives the scores √λ_k E[ξ_k | values] of partly observed curves, in scaled units. Eigenfunctions are
    orthonormal in L² of the domain, of measure 1. On an even grid of m points they are the
    components of scikit-learn's `PCA` times √m, and eigenvalues are its `explained_variance_` over m.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> waves = rng.normal(size=(30, 2)) @ np.stack([np.sin(6 * x), np.cos(4 * x)])
    >>> curves = febm.Curves.from_grid(x, waves + 0.01 * rng.normal(size=waves.shape))
    >>> model = febm.FPCA(random_state=0, progress=False).fit(curves)
    >>> model.sample(3, np.linspace(0, 1, 101))
    <Curves: 3 curves, 101 points each, x in [0, 1], 1 output>
    >>> seen = curves[:2].select(curves[:2].x[:, 0] < 0.5)
    >>> posterior = model.condition(seen)
    >>> posterior.mean(x).shape
    (2, 20, 1)
    >>> lower, upper = posterior.interval(x, 0.9)
    >>> bool((lower <= upper).all())
    True
    """

    def __init__(
        self,
        *,
        rank: int | float | None = None,
        scaling: str | Scaling = "standard",
        validation: float = 0.2,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> None:
        self.rank = rank
        self.scaling = scaling
        self.validation = validation
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(
        cls,
        dataset: PaperCurves,
        *,
        random_state: RandomState = None,
        progress: bool | Progress = True,
    ) -> "FPCA":
        """Functional PCA as the paper has it among its bases, with 0.99 of the variance; it fits no model of it."""
        check_choice("FPCA.paper", "dataset", dataset, PAPER_CURVES)
        return cls(rank=0.99, scaling=PAPER[dataset]["scaling"], random_state=random_state, progress=progress)

    @property
    def rank_(self) -> int:
        """How many components there are."""
        return self.model_.generator.latent_dim

    @property
    def eigenvalues_(self) -> Float[np.ndarray, " rank"]:
        """The variances λ of the scores, falling, in scaled units."""
        return self.basis_.spectrum[: self.rank_]

    @property
    def noise_variance_(self) -> float:
        """The noise variance, in scaled units."""
        likelihood = self.model_.likelihood
        assert isinstance(likelihood, Gaussian)
        return float(likelihood.variance)

    def eigenfunctions(self, at: Any = None) -> Float[np.ndarray, "points outputs rank"]:
        """The eigenfunctions e_k at the points `at` (by default those of the training curves), in scaled units."""
        self._require_fitted("eigenfunctions")
        points = one_grid(self.grid_ if at is None else at, self.scaling_.d_x, "FPCA.eigenfunctions")
        return self.basis_.eigenfunctions(self.scaling_.apply_points(points))[:, :, : self.rank_]

    def _latent_means(self, curves: Curves) -> Float[np.ndarray, "curves rank"]:
        return super()._latent_means(curves) * np.sqrt(self.eigenvalues_)

    def _fit_latent(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitted:
        basis, folds, _ = fold_basis(Empirical(rank=self.rank), curves, self.validation, None, key)
        ranks = ladder(basis.rank) if self.rank is None else (basis.rank,)
        tail = choose_tail(folds, TailSearch(ranks))
        noise = float(np.sqrt(tail.noise_variance))
        generator, prior = LinearGenerator(tail.rank, basis.rank), GaussianPrior(tail.rank)
        model = LatentModel(generator, prior, Gaussian().with_scale(noise))
        evidence = float(np.mean(tail_evidence(folds, TailSearch(ranks), tail)))
        history = pd.DataFrame([{"epoch": 0, "score": evidence, "noise": noise}])
        return Fitted(basis, model, history)
