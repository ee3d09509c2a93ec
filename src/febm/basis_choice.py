"""The empirical basis of a linear model and its tail: as it is, and with a covariance shrunk to that of a walk.

A few hundred curves do not determine the covariance of a few hundred points. Where curves are rough, a walk with steps
of their size is a good guess at it; where they are smooth it is a bad one, which shows in the evidence and in the gaps
of held-out curves.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from febm.basis import Basis, Empirical
from febm.folding import Folded
from febm.tails import Tail, TailSearch, choose_tail, tail_evidence

SHARE = 0.5
"""Of the walk in the covariance. Held-out curves of prices have the largest density with about a half."""


class Core(NamedTuple):
    """A basis with its folds, and the tail that suits it."""

    folded: Folded
    tail: Tail


def choose_cores(basis: Basis, fold: Callable[[Basis], Folded], search: Callable[[Basis], TailSearch]) -> list[Core]:
    """The basis as it is and, if held-out curves have nothing against it, the same with a shrunk covariance.

    A linear model cannot tell which is better for a mixture: that has covariances to estimate too, from the same few
    curves, and gains most from one that it may keep. Where even a linear model loses, nothing is to be gained.
    """
    core = _core(fold(basis), search)
    plain, has_gaps = core.folded.basis, all(part.gaps for part in core.folded.folds)
    if not isinstance(plain, Empirical) or plain.shrinkage or plain.fitted.method != "grid" or not has_gaps:
        return [core]
    shrunk = fold(Empirical(rank=plain.truncation, method=plain.method, shrinkage=SHARE))
    if not (isinstance(shrunk.basis, Empirical) and shrunk.basis.is_shrunk):
        return [core]
    other = _core(shrunk, search)
    return [core, other] if _evidence(other, search) >= _evidence(core, search) else [core]


def _core(folded: Folded, search: Callable[[Basis], TailSearch]) -> Core:
    return Core(folded, choose_tail(folded.folds, search(folded.basis)))


def _evidence(core: Core, search: Callable[[Basis], TailSearch]) -> float:
    return float(np.mean(tail_evidence(core.folded.folds, search(core.folded.basis), core.tail)))
