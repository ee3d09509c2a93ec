"""The empirical basis of a linear model and its tail: whether the covariance is shrunk to that of a walk.

A few hundred curves do not determine the covariance of a few hundred points. Where curves are rough, a walk with steps
of their size is a good guess at it; where they are smooth it is a bad one, which shows in the evidence and in the gaps
of held-out curves.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from febm.basis import Basis, Empirical
from febm.folding import Folded
from febm.tails import Tail, TailSearch, choose_tail, gap_errors, tail_evidence

GAIN = 1.0
"""Nats of evidence per held-out curve that shrinking has to gain: where curves are many it hardly changes anything."""
WORSE = 1.1
"""Squared errors in gaps may be larger by this factor: those of rough curves stay within 2 %, of smooth ones triple."""


class Core(NamedTuple):
    """A basis with its folds, and the tail that suits it."""

    folded: Folded
    tail: Tail


def choose_core(basis: Basis, fold: Callable[[Basis], Folded], search: Callable[[Basis], TailSearch]) -> Core:
    """The basis, with a shrunk covariance if held-out curves are better off with it, and its tail.

    Better off: under a linear model their evidence is clearly larger, and errors in their gaps are not.
    """
    core = _core(fold(basis), search)
    plain, has_gaps = core.folded.basis, all(part.gaps for part in core.folded.folds)
    if not isinstance(plain, Empirical) or plain.shrinkage or plain.fitted.method != "grid" or not has_gaps:
        return core
    shrunk = fold(Empirical(rank=plain.truncation, method=plain.method, shrinkage="walk"))
    if not (isinstance(shrunk.basis, Empirical) and shrunk.basis.is_shrunk):
        return core
    other = _core(shrunk, search)
    return other if _is_better(other, core, search) else core


def _core(folded: Folded, search: Callable[[Basis], TailSearch]) -> Core:
    return Core(folded, choose_tail(folded.folds, search(folded.basis)))


def _is_better(core: Core, other: Core, search: Callable[[Basis], TailSearch]) -> bool:
    (evidence, error), (least, most) = _judge(core, search), _judge(other, search)
    return evidence >= least + GAIN and error <= WORSE * most


def _judge(core: Core, search: Callable[[Basis], TailSearch]) -> tuple[float, float]:
    """The mean evidence of held-out curves, and the geometric mean of the squared errors in their gaps."""
    given = core.folded.folds, search(core.folded.basis), core.tail
    return float(np.mean(tail_evidence(*given))), float(np.exp(np.mean(np.log(gap_errors(*given)))))
