"""The empirical basis of a linear model and its tail: whether the covariance is shrunk to that of a random walk.

A few hundred curves do not determine the covariance of a few hundred points. Where curves are rough, a walk with steps
of their size is a good guess at it; where they are smooth it is a bad one, which shows in the gaps of held-out curves.
"""

from collections.abc import Callable

import numpy as np

from febm.basis import Basis, Empirical
from febm.folding import Folded
from febm.tails import Tail, TailSearch, choose_tail, tail_score

SHARES = (0.5, 0.25)
"""Of the walk in the covariance: those that are tried, the largest first."""


def choose_core(
    basis: Basis, fold: Callable[[Basis], Folded], search: Callable[[Basis], TailSearch]
) -> tuple[Folded, Tail]:
    """The basis, with the largest share of a random walk that does no harm, and its tail.

    Shrunk bases are judged, by evidence and errors in gaps, with the tail of the one that is not. Their own would suit
    them better, so a share that keeps up with none does good.
    """
    folded = fold(basis)
    tail = choose_tail(folded.folds, search(folded.basis))
    if not isinstance(basis, Empirical) or not all(part.gaps for part in folded.folds):
        return folded, tail

    def score(folded: Folded) -> float:
        own = tail if tail.is_plain else tail._replace(rank=folded.rank)
        return float(np.mean(tail_score(folded.folds, search(folded.basis), own)))

    least = score(folded)
    for share in SHARES:
        shrunk = fold(Empirical(rank=basis.truncation, method=basis.method, shrinkage=share))
        if score(shrunk) >= least:
            return shrunk, choose_tail(shrunk.folds, search(shrunk.basis))
    return folded, tail
