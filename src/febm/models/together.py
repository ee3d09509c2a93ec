"""Several models fitted at once: their trainings go side by side where their shapes agree."""

from collections.abc import Sequence
from typing import Any, TypeVar

from febm.checks import whole_number
from febm.curves import Curves
from febm.fitting import fit_all, steps
from febm.models.base import Process
from febm.models.scaled import ScaledProcess

AnyProcess = TypeVar("AnyProcess", bound=Process)


def fit_together(
    models: Sequence[AnyProcess], curves: Curves | Sequence[Any], *, at_once: int | None = None
) -> list[AnyProcess]:
    """Fit models, each to its own curves, with their trainings side by side in one compiled program.

    What comes back is what separate calls of `fit` would give, but for rounding, which a long training can magnify.
    Small networks leave most of a graphics processor idle, so that several seeds take hardly longer than one.

    Parameters
    ----------
    models
        Models that are not fitted yet, typically of one kind that differ in `random_state`. They are fitted in place.
    curves
        The training curves of each model, or one `Curves` for all.
    at_once
        The most trainings that go side by side. None: on a processor one, because nothing is gained there; elsewhere as
        many as fit into the memory of the device by the compiler's own account.

    Returns
    -------
    list
        The models, fitted.

    Notes
    -----
    Trainings go side by side where they differ in nothing but values: equal settings, equal numbers of curves and of
    points, equal ranks. Those that do not, and models without a training loop, are fitted one after the other. Each
    keeps its own early stop, rates, rescues and checkpoint; one that stops early waits for the others. If a fit fails,
    its error ends the call.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    >>> curves = febm.Curves.from_grid(x, rng.normal(size=(40, 1)) * np.sin(6 * x))
    >>> models = febm.fit_together([febm.EBP(random_state=seed, progress=False) for seed in (0, 1)], curves)
    >>> [len(model.sample(5)) for model in models]
    [5, 5]
    """
    models = list(models)
    for i, model in enumerate(models):
        if not isinstance(model, Process):
            raise TypeError(f"fit_together: models[{i}] is a {type(model).__name__}; give models such as febm.FEBM().")
    if len({id(model) for model in models}) < len(models):
        raise ValueError("fit_together: a model is in `models` more than once; make one for each fit.")
    curves = [curves] * len(models) if isinstance(curves, Curves) else list(curves)
    if len(curves) != len(models):
        raise ValueError(
            f"fit_together: there are {len(models)} models but curves for {len(curves)}; "
            "give one set of curves for each, or one `Curves` for all."
        )
    if at_once is not None:
        at_once = whole_number("fit_together: at_once", at_once)
    fittings = [
        model._fitting(own) if isinstance(model, ScaledProcess) else steps(model.fit(own))
        for model, own in zip(models, curves, strict=True)
    ]
    return fit_all(fittings, at_once=at_once)
