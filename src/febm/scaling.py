"""Units off first: inputs to the unit box, outputs through y ↦ (T(y) − mean) / scale, and exactly back.

T is the identity, a logarithm or a power, as in Tukey's ladder; `febm.transforms` has them. Values that pile up at the
low end of their range go on beyond it instead (`febm.censoring`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float64

from febm.censoring import Censoring, choose_censoring
from febm.checks import count
from febm.curves import Curves
from febm.errors import NotFittedError
from febm.gridded import GriddedCurves
from febm.transform_choice import choose_transform
from febm.transforms import IDENTITY, LOGARITHM, Transform, natural

INPUTS = ("box", "none")
OUTPUTS = ("standard", "curve", "none")
TRANSFORMS = ("auto", "identity", "log", "power", "shifted", "censored")
# Of more images than twice this about as many are looked at, evenly spread: units need no more.
MANY_IMAGES = 4096


class Scaling(eqx.Module):
    """How inputs and outputs lose their units; `fit` gives a copy that knows those of the training curves.

    Parameters
    ----------
    inputs : "box" or "none"
        "box" maps the smallest box around the training points to [0, 1]^d_x, and a coordinate that never
        changes to 0.5.
    outputs : "standard", "curve" or "none"
        After the transform. "standard" subtracts the mean and divides by the standard deviation of each
        output over all training values (an output that never changes is only centred). "curve" standardises
        each curve by its own mean and standard deviation. Its level and size are then no part of the model:
        values come back in standardised units, and `apply_values` and `invert_values` leave them as they are.
    transform : "auto", "identity", "log", "power", "shifted" or "censored"
        "log" needs y > 0, "power" y ≥ 0. "shifted" is for skewed values without a natural zero (standardised
        ones, say): a logarithm or root of the distance from the smallest training value, or from the largest,
        that goes on as a straight line before it gets steep, so that every value is allowed. "auto" decides for
        each output. Values are binned by place, each bin gets a Gaussian before and after the transform, and there is
        a transform where one gains more than 0.1 nats of log-likelihood per value (Jacobian included); one value
        counts for at most 3 nats, so that a few cannot decide, and zeros, which have no density under a power, have
        no vote on it. How strong it is (a root, the logarithm, or nothing after all) held-out curves then say, by their
        evidence under a linear model: what is left of a curve once the rest of it is known should be alike
        everywhere. Fewer than 20 curves, and curves without a common grid, leave this to the values. Beyond the
        farthest training value a transform that was chosen goes on as a straight line: a mean over functions would
        else be that of the few that grow by factors there. "censored" is for values of which many are the smallest,
        as black pixels are: the functions behind them go on below, see `febm.censoring`, and what comes back is no
        less than the smallest and no more than the
        largest training value. Densities are then those of the functions. "auto" takes it for an output of whose
        training values at least a fifth are the smallest.
    exponent : positive number, optional
        Of "power". When left out it is chosen from 1/2 and 1/3 in the same way.

    Examples
    --------
    >>> prices = Curves.from_grid([0, 1, 2], [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
    >>> scaling = Scaling(transform="log").fit(prices)
    >>> scaled = scaling.apply(prices)
    >>> scaled.domain[1].tolist(), float(scaled.y.std().round(6))
    ([1.0], 1.0)
    >>> bool(np.allclose(scaling.invert_values(scaled.y), prices.y))
    True
    """

    inputs: str = eqx.field(default="box", static=True)
    outputs: str = eqx.field(default="standard", static=True)
    transform: str = eqx.field(default="auto", static=True)
    exponent: float | int | None = eqx.field(default=None, static=True)
    # What `fit` learns; None before.
    lower: Float64[np.ndarray, " d_x"] | None = None
    width: Float64[np.ndarray, " d_x"] | None = None
    transforms: tuple[Transform, ...] | None = None
    censorings: tuple[Censoring | None, ...] = ()
    mean: Float64[np.ndarray, " d_y"] | None = None
    scale: Float64[np.ndarray, " d_y"] | None = None

    def __check_init__(self) -> None:
        for name, allowed in (("inputs", INPUTS), ("outputs", OUTPUTS), ("transform", TRANSFORMS)):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"Scaling: {name} must be {_one_of(allowed)}; got {value!r}.")
        if self.exponent is None:
            return
        if self.transform != "power":
            raise ValueError(
                f"Scaling: exponent={self.exponent!r} goes with transform='power'; got {self.transform!r}."
            )
        number = isinstance(self.exponent, int | float | np.number) and not isinstance(self.exponent, bool)
        if not (number and math.isfinite(self.exponent) and self.exponent > 0):
            raise ValueError(f"Scaling: exponent must be a positive number; got {self.exponent!r}.")

    @property
    def is_fitted(self) -> bool:
        """Whether the units of training curves are known."""
        return self.lower is not None

    @property
    def d_x(self) -> int:
        """Number of inputs seen in `fit`."""
        return len(self._box()[0])

    @property
    def d_y(self) -> int:
        """Number of outputs seen in `fit`."""
        return len(self._outputs()[0])

    @property
    def is_affine(self) -> bool:
        """Whether the way back is affine, so that it carries means to means."""
        return all(transform.is_identity for transform in self._outputs()[0]) and not any(self.censorings)

    @property
    def exponents(self) -> Float64[np.ndarray, " d_y"]:
        """Of each output's transform: 1 is the identity, 0 the logarithm."""
        return np.array([transform.exponent for transform in self._outputs()[0]])

    def fit(self, curves: Curves) -> Scaling:
        """A copy that knows the units of `curves`; this one stays as it is."""
        lower, upper = curves.domain
        if self.inputs == "none":
            lower, upper = np.zeros(curves.d_x), np.ones(curves.d_x)
        if isinstance(curves, GriddedCurves) and len(curves) > MANY_IMAGES:
            curves = curves[:: len(curves) // MANY_IMAGES]
        y = curves.y
        never = np.flatnonzero(np.isnan(y).all(axis=0))
        if len(never):
            raise ValueError(f"Scaling.fit: output {never[0]} is never observed; leave it out of y.")
        box = dataclasses.replace(self, lower=lower, width=upper - lower)
        censorings = tuple(self._fit_censoring(curves, box, output) for output in range(curves.d_y))
        transforms = tuple(
            IDENTITY if censored else self._fit_transform(curves, box, output)
            for output, censored in enumerate(censorings)
        )
        moments = [self._moments(y[:, output], transform) for output, transform in enumerate(transforms)]
        mean, scale = np.ascontiguousarray(np.array(moments, dtype=np.float64).T)
        return dataclasses.replace(box, transforms=transforms, censorings=censorings, mean=mean, scale=scale)

    def apply(self, curves: Curves) -> Curves:
        """The curves in the unit box, without units."""
        transforms, mean, scale = self._outputs()
        plain = all(transform.is_identity for transform in transforms)
        if isinstance(curves, GriddedCurves) and plain and self.outputs != "curve":
            censorings = [
                censoring and censoring.scaled(factor, shift)
                for censoring, factor, shift in zip(self._beyond, 1 / scale, -mean / scale, strict=True)
            ]
            return curves.scaled(self.apply_points(curves.points), 1 / scale, -mean / scale, censorings)
        values = self._transformed(curves)
        if self.outputs == "curve":
            mean, scale = _curve_moments(values, curves)
        return curves.replace(x=self.apply_points(curves.x), y=(values - mean) / scale)

    def apply_points(self, x: Any) -> np.ndarray:
        """Points `(…, d_x)` in the unit box."""
        lower, divisor, origin = self._box()
        return origin + (_checked_width(x, len(lower), "x", "coordinate") - lower) / divisor

    def invert_points(self, x: Any) -> np.ndarray:
        """Points `(…, d_x)` of the unit box in the units of the training curves."""
        lower, divisor, origin = self._box()
        return lower + divisor * (_checked_width(x, len(lower), "x", "coordinate") - origin)

    def apply_values(self, y: Any) -> np.ndarray:
        """Values `(…, d_y)` without units; as they are when `outputs` is "curve"."""
        transforms, mean, scale = self._outputs()
        y = _checked_width(y, len(transforms), "y", "output")
        if self.outputs == "curve":
            return y
        self._refuse_outside_support(y)
        return (_by_output(y, transforms) - mean) / scale

    def invert_values(self, y: Any) -> np.ndarray:
        """Values `(…, d_y)` back in their units; in standardised units when `outputs` is "curve".

        A power of y cannot be negative: what is below 0 comes back as 0.
        """
        transforms, mean, scale = self._outputs()
        y = _checked_width(y, len(transforms), "y", "output")
        if self.outputs == "curve":
            return y
        ways_back = [
            transform.inverse if censoring is None else censoring.inverse
            for transform, censoring in zip(transforms, self._beyond, strict=True)
        ]
        return _by_output(y * scale + mean, ways_back)

    def of_each(self, curves: Curves) -> list[Scaling]:
        """The scaling of each of the curves by itself, with its own mean and scale when `outputs` is "curve"."""
        if self.outputs != "curve":
            return [self] * len(curves)
        mean, scale = (moments[curves.offsets[:-1]] for moments in _curve_moments(self._transformed(curves), curves))
        return [
            dataclasses.replace(self, outputs="standard", mean=own_mean, scale=own_scale)
            for own_mean, own_scale in zip(mean, scale, strict=True)
        ]

    def log_jacobian(self, curves: Curves) -> Float64[np.ndarray, " curves"]:
        """Σ log|dT/dy| over the observed values of each curve: log p(y) = log p(scaled y) + log_jacobian.

        With `outputs="curve"` the mean and the standard deviation of a curve are taken as given. The slope of
        a power is infinite at 0: it is taken no nearer to 0 than half the smallest positive training value.
        """
        transforms, _, scale = self._outputs()
        if self.outputs == "curve":
            scale = _curve_moments(self._transformed(curves), curves)[1]
        else:
            self._refuse_outside_support(_checked_width(curves.y, len(transforms), "curves.y", "output"))
        slopes = _by_output(curves.y, [transform.log_derivative for transform in transforms]) - np.log(scale)
        return np.add.reduceat(np.where(np.isnan(curves.y), 0.0, slopes).sum(axis=1), curves.offsets[:-1])

    def _fit_censoring(self, curves: Curves, box: Scaling, output: int) -> Censoring | None:
        if self.transform not in ("auto", "censored"):
            return None
        censoring = choose_censoring(curves, box.apply_points(curves.x), output)
        if censoring is None and self.transform == "censored":
            raise ValueError(
                "Scaling: transform='censored' needs values that pile up at the low end of their range; those of "
                f"output {output} do not. Use transform='auto'."
            )
        return censoring

    def _fit_transform(self, curves: Curves, box: Scaling, output: int) -> Transform:
        def chosen(*kinds: str) -> Transform:
            return choose_transform(curves.replace(x=box.apply_points(curves.x)), output, kinds)

        if self.transform == "identity":
            return IDENTITY
        if self.transform == "auto":
            return chosen("identity", "log", "power", "shifted")
        if self.transform == "shifted":
            return chosen("shifted")
        y = curves.y[:, output]
        exponent = LOGARITHM if self.transform == "log" else self.exponent
        transform = natural(1 / 2 if exponent is None else float(exponent), y)
        _refuse(y, transform, output)
        return chosen("power") if exponent is None else transform

    def _moments(self, y: np.ndarray, transform: Transform) -> tuple[float, float]:
        """Mean and scale of one output after its transform."""
        if self.outputs != "standard":
            return 0.0, 1.0
        values = transform(y[~np.isnan(y)])
        return values.mean(), _usable_scale(values.std(), values.min() < values.max()).item()

    def _transformed(self, curves: Curves) -> np.ndarray:
        transforms, _, _ = self._outputs()
        y = _checked_width(curves.y, len(transforms), "curves.y", "output")
        self._refuse_outside_support(y)
        values = _by_output(y, transforms)
        if any(self.censorings):
            points = self.apply_points(curves.x)
            for first, last in itertools.pairwise(curves.offsets):
                for output, censoring in enumerate(self.censorings):
                    if censoring is not None:
                        own = values[None, first:last, output]
                        values[first:last, output] = censoring.continued(points[first:last], own)[0]
        return values

    def _refuse_outside_support(self, y: np.ndarray) -> None:
        for output, transform in enumerate(self._outputs()[0]):
            _refuse(y[..., output], transform, output)

    @property
    def _beyond(self) -> tuple[Censoring | None, ...]:
        """The censoring of each output."""
        return self.censorings or (None,) * self.d_y

    def _box(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower corner, divisor and image of the lower corner; a constant coordinate sits at 0.5."""
        if self.lower is None or self.width is None:
            raise NotFittedError("Scaling is not fitted; call scaling.fit(curves) first and use what it returns.")
        varies = self.width > 0
        return self.lower, np.where(varies, self.width, 1.0), np.where(varies, 0.0, 0.5)

    def _outputs(self) -> tuple[tuple[Transform, ...], np.ndarray, np.ndarray]:
        """Transform, mean and scale of each output."""
        if self.transforms is None or self.mean is None or self.scale is None:
            raise NotFittedError("Scaling is not fitted; call scaling.fit(curves) first and use what it returns.")
        return self.transforms, self.mean, self.scale


NAMED = {
    "auto": Scaling(),
    "none": Scaling(inputs="none", outputs="none", transform="identity"),
    "standard": Scaling(transform="identity"),
    "curve": Scaling(outputs="curve", transform="identity"),
    "log": Scaling(transform="log"),
    "power": Scaling(transform="power"),
    "shifted": Scaling(transform="shifted"),
    "censored": Scaling(transform="censored"),
}


def as_scaling(scaling: Any) -> Scaling:
    """A `Scaling` from one, or from "auto", "none", "standard", "curve", "log", "power", "shifted" or "censored"."""
    if isinstance(scaling, Scaling):
        return scaling
    if isinstance(scaling, str) and scaling in NAMED:
        return NAMED[scaling]
    raise ValueError(f"scaling must be a febm.Scaling or {_one_of(tuple(NAMED))}; got {scaling!r}.")


def _one_of(names: tuple[str, ...]) -> str:
    return " or ".join((", ".join(map(repr, names[:-1])), repr(names[-1])))


def _usable_scale(scale: Any, varies: Any) -> np.ndarray:
    # Rounding gives a constant a tiny standard deviation, and tiny differences one that underflows to 0.
    return np.where(varies & (scale > 0), scale, 1.0)


def _checked_width(values: Any, width: int, name: str, noun: str) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != width:
        raise ValueError(
            f"Scaling: the last axis of {name} must be the {count(width, noun)} seen in fit; got shape {values.shape}."
        )
    return values


def _by_output(values: np.ndarray, functions: Sequence[Callable[[np.ndarray], np.ndarray]]) -> np.ndarray:
    """Each function of its own entry of the last axis."""
    columns = [function(values[..., output]) for output, function in enumerate(functions)]
    return np.stack(columns, axis=-1).astype(np.float64)


def _refuse(y: np.ndarray, transform: Transform, output: int) -> None:
    outside = transform.outside(y)
    if outside.any():
        needs, name = ("y > 0", "log") if transform.exponent == LOGARITHM else ("y ≥ 0", "power")
        raise ValueError(
            f"Scaling: the {name} transform needs {needs}; output {output} has "
            f"{count(int(outside.sum()), 'value')} outside (the smallest is {np.nanmin(y):.6g}). "
            "Use scaling='standard'."
        )


def _curve_moments(values: np.ndarray, curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each curve and output, repeated on the rows of the curve."""
    starts, lengths = curves.offsets[:-1], curves.lengths
    missing = np.isnan(values)
    counts = np.maximum(np.add.reduceat(~missing, starts, axis=0, dtype=np.int64), 1)
    mean = np.repeat(np.add.reduceat(np.where(missing, 0.0, values), starts, axis=0) / counts, lengths, axis=0)
    squares = np.where(missing, 0.0, (values - mean) ** 2)
    scale = np.sqrt(np.add.reduceat(squares, starts, axis=0) / counts)
    low = np.minimum.reduceat(np.where(missing, np.inf, values), starts, axis=0)
    high = np.maximum.reduceat(np.where(missing, -np.inf, values), starts, axis=0)
    return mean, np.repeat(_usable_scale(scale, low < high), lengths, axis=0)
