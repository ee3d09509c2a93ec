"""Functional PCA: the Gaussian process with the mean and covariance that the curves themselves have.

    f(x) = m(x) + Σ_k ξ_k √λ_k e_k(x),    ξ_k ~ N(0, 1) independent,    y = f(x) + ε

Mean, eigenfunctions and noise come from all curves together, however sparse each is; the scores of a curve are then
known by conditional expectation (Yao, Müller and Wang, JASA 2005, call this PACE).
"""

import numpy as np
import pandas as pd
from jaxtyping import PRNGKeyArray

from febm.basis import Empirical
from febm.curves import Curves
from febm.latent import LatentModel
from febm.likelihoods import Gaussian
from febm.models.basis_process import BasisProcess
from febm.models.recipes import Fitted, fold_basis
from febm.networks import LinearGenerator
from febm.priors import GaussianPrior
from febm.progress import Progress
from febm.randomness import RandomState
from febm.scaling import Scaling
from febm.tilting import BaseSearch, choose_base, ladder


class FPCA(BasisProcess):
    """Functional principal component analysis as a model of functions: Gaussian scores on the curves' own basis.

    Parameters
    ----------
    rank
        Number of components, or the share of the variance they explain; None: as many as held-out curves support.
    scaling
        "auto", "standard", "curve", "log", "power", "none", or a `Scaling`.
    validation
        Share of the curves held out to choose rank and noise.
    random_state
        None, an integer or a JAX key.
    progress
        True for a bar, False for silence, or a `Progress`.
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

    def _fit_latent(self, curves: Curves, key: PRNGKeyArray, progress: Progress) -> Fitted:
        basis, folds, _ = fold_basis(Empirical(rank=self.rank), curves, self.validation, None, key)
        ranks = ladder(basis.rank) if self.rank is None else (basis.rank,)
        choice = choose_base(folds, BaseSearch(ranks, components=()))
        noise = float(np.sqrt(choice.noise_variance))
        model = LatentModel(
            LinearGenerator(choice.rank, basis.rank), GaussianPrior(choice.rank), Gaussian().with_scale(noise)
        )
        history = pd.DataFrame([{"epoch": 0, "score": choice.evidence, "noise": noise}])
        return Fitted(basis, model, history)
