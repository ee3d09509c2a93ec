"""The Karhunen–Loève basis of a kernel, by the Nyström method: λ_i e_i(t) ≈ (1/l) Σ_j k(t, x_j) e_i(x_j).

On the points X the eigenpairs are those of K(X, X)/l, the eigenvectors scaled to norm √l. Between the points
the eigenfunctions come from one of three estimators, and Φ(t) = √λ·e(t).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg
from jaxtyping import Array, Float, PRNGKeyArray

from febm.basis.base import Basis, Rank, check_rank, columns_for_share, copies_per_output
from febm.curves import Curves, as_points
from febm.kernel_fit import MEANS, fit_kernel
from febm.kernels import Kernel, kernel_from_name, kernel_matrix, starting_kernel
from febm.randomness import numpy_generator

INTERPOLATIONS = ("nystrom", "ridge", "network")

# What `rank=None` means: this share of the variance, with at most that many features for each output. It
# leaves out one percent of a standard deviation, less than most noise; rough kernels would want thousands.
DEFAULT_SHARE = 0.9999
DEFAULT_LIMIT = 128

# Rows of the kernel matrix that are held at once: 4096 × 512 points is 16 MB.
BLOCK = 4096

# Farthest-point selection looks at no more candidates than this.
MAX_CANDIDATES = 20_000


class Eigensystem(eqx.Module):
    """What a fitted `KarhunenLoeve` knows: Φ(t) = k(t, X)·coefficients, or √λ·network(t)."""

    kernel: Kernel
    points: Float[np.ndarray, "points d_x"]
    eigenvalues: Float[np.ndarray, " rank"]
    coefficients: Float[np.ndarray, "points columns"] | None
    network: EigenfunctionNetwork | None
    level: Float[np.ndarray, " d_y"]
    noise_variance: float | None


class KarhunenLoeve(Basis):
    """Eigenfunctions of a kernel, largest eigenvalue first.

    Parameters
    ----------
    kernel : a kernel, used as it is; or the name of one, or None for "matern52", whose hyper-parameters and
        noise are then fitted to the curves by marginal likelihood.
    rank : how many features: an integer (of all outputs together), a share of the variance, or None for
        0.9999 of the variance with at most 128 features for each output. Eigenvalues that are zero to
        rounding are left out, so a very smooth kernel can give fewer than were asked for.
    interpolation : how eigenfunctions go on between the points: "nystrom" (the equation above, solved for
        e_i(t)), "ridge" (kernel ridge regression of the eigenvectors on the points) or "network" (a neural
        network fitted to them by least squares).
    points : `(l, d_x)` the points X; None chooses them. With one input they are the midpoints of
        `max_points` equal cells of the domain, so that the measure is uniform on it. With more inputs they
        are the distinct training points or, of more than `max_points`, a subset in which each point is as
        far as can be from those before.
    max_points : the most points to choose.
    mean : "zero", or "constant": one level for each output.
    fit_hyperparameters : True fits the hyper-parameters of a given kernel too; False fits none; None fits
        them only when no kernel object is given.
    ridge : the penalty ρ of "ridge", as a share of the variance Σλ. The regression of the i-th eigenvector
        is e_i(t) = k(t, X)(K + lρI)⁻¹e_i(X), which shrinks the Nyström estimator by λ_i/(λ_i + ρ).
    steps : the Adam steps of "network".

    Outside the domain of the training curves the features fall to zero with the kernel.

    Examples
    --------
    >>> from febm.kernels import Matern52
    >>> x = np.linspace(0, 1, 20)
    >>> curves = Curves.from_grid(x, np.random.default_rng(0).normal(size=(30, 1)) * np.sin(3 * x))
    >>> basis = KarhunenLoeve(Matern52(0.3), rank=5).fit(curves, key=jax.random.key(0))
    >>> basis.features(x[:, None]).shape, bool((np.diff(basis.spectrum) <= 0).all())
    ((20, 1, 5), True)
    """

    kernel: Kernel | str | None
    truncation: Rank = eqx.field(static=True)
    interpolation: str = eqx.field(static=True)
    points: np.ndarray | None
    max_points: int = eqx.field(static=True)
    mean_kind: str = eqx.field(static=True)
    fit_hyperparameters: bool | None = eqx.field(static=True)
    ridge: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    state: Eigensystem | None

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        *,
        rank: Rank = None,
        interpolation: str = "nystrom",
        points: np.ndarray | None = None,
        max_points: int = 512,
        mean: str = "zero",
        fit_hyperparameters: bool | None = None,
        ridge: float = 1e-10,
        steps: int = 3000,
    ) -> None:
        if isinstance(kernel, str):
            kernel_from_name(kernel)
        elif not (kernel is None or isinstance(kernel, Kernel)):
            raise TypeError(f"kernel must be a kernel, the name of one, or None; got {type(kernel).__name__}.")
        if interpolation not in INTERPOLATIONS:
            raise ValueError(f"interpolation must be one of {', '.join(INTERPOLATIONS)}; got {interpolation!r}.")
        if mean not in MEANS:
            raise ValueError(f"mean must be 'zero' or 'constant'; got {mean!r}.")
        if not ridge >= 0:
            raise ValueError(f"ridge must be at least 0; got {ridge!r}.")
        if max_points < 1 or steps < 1:
            raise ValueError(f"max_points and steps must be at least 1; got {max_points!r} and {steps!r}.")
        self.kernel = kernel
        self.truncation = check_rank(rank)
        self.interpolation = interpolation
        self.points = None if points is None else np.asarray(points, dtype=np.float64)
        self.max_points = max_points
        self.mean_kind = mean
        self.fit_hyperparameters = fit_hyperparameters
        self.ridge = ridge
        self.steps = steps
        self.state = None

    def fit(self, curves: Curves, *, key: PRNGKeyArray) -> KarhunenLoeve:
        """A fitted copy: see `Basis.fit`."""
        kernel_key, points_key, network_key = jax.random.split(key, 3)
        level = np.nanmean(curves.y, axis=0) if self.mean_kind == "constant" else np.zeros(curves.d_y)
        kernel, noise = self.kernel, None
        if not isinstance(kernel, Kernel):
            kernel = starting_kernel(kernel or "matern52", curves)
        by_default = not isinstance(self.kernel, Kernel)
        if by_default if self.fit_hyperparameters is None else self.fit_hyperparameters:
            kernel, noise, level, *_ = fit_kernel(kernel, curves, mean=self.mean_kind, key=kernel_key)

        if self.points is not None:
            points = as_points(self.points, curves.d_x, "points")
        else:
            points = choose_points(curves, self.max_points, key=points_key)
        values, vectors, total = nystrom_eigenpairs(kernel, points)
        rank = self._rank(values, total, curves.d_y)
        # A rank that is no multiple of d_y cuts through the copies of the last eigenfunction.
        columns = -(-rank // curves.d_y)
        values, vectors = values[:columns], vectors[:, :columns]

        network = coefficients = None
        if self.interpolation == "network":
            network = fit_network(points, vectors, steps=self.steps, key=network_key)
        else:
            penalty = self.ridge * total if self.interpolation == "ridge" else 0.0
            coefficients = vectors * np.sqrt(values) / (len(points) * (values + penalty))
        spectrum = np.repeat(values, curves.d_y)[:rank]
        state = Eigensystem(kernel, points, spectrum, coefficients, network, np.array(level), noise)
        return eqx.tree_at(lambda basis: basis.state, self, state, is_leaf=lambda value: value is None)

    def mean(self, x: np.ndarray) -> Float[np.ndarray, "points outputs"]:
        """The constant mean of each output."""
        system = self.fitted
        return np.tile(system.level, (len(as_points(x, system.points.shape[1], "x")), 1))

    def features(self, x: np.ndarray) -> Float[np.ndarray, "points outputs rank"]:
        """Φ(x) = √λ·e(x), columns in order of falling λ."""
        system = self.fitted
        d_y = len(system.level)
        x = as_points(x, system.points.shape[1], "x")
        if system.network is not None:
            values = system.network.evaluate(x) * np.sqrt(system.eigenvalues[::d_y])
        else:
            blocks = [x[start : start + BLOCK] for start in range(0, len(x), BLOCK)]
            rows = [kernel_matrix(system.kernel, block, system.points) @ system.coefficients for block in blocks]
            values = np.concatenate(rows)
        return copies_per_output(values, d_y, self.rank)

    @property
    def fitted(self) -> Eigensystem:
        """What was fitted; raises `NotFittedError` before."""
        self.require_fitted()
        assert self.state is not None
        return self.state

    @property
    def spectrum(self) -> Float[np.ndarray, " rank"]:
        """The eigenvalues λ, falling."""
        return self.fitted.eigenvalues

    @property
    def noise_variance(self) -> float | None:
        """The noise variance of the kernel fit; None when no kernel was fitted."""
        return None if self.state is None else self.state.noise_variance

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` made this basis."""
        return self.state is not None

    def _rank(self, values: np.ndarray, total: float, d_y: int) -> int:
        """How many columns, of all outputs together, the truncation keeps of these eigenvalues."""
        if isinstance(self.truncation, int):
            return min(self.truncation, d_y * len(values))
        if isinstance(self.truncation, float):
            return d_y * columns_for_share(values, self.truncation, total)
        return d_y * min(columns_for_share(values, DEFAULT_SHARE, total), DEFAULT_LIMIT)


def nystrom_eigenpairs(kernel: Kernel, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Eigenvalues of K(X, X)/l, falling; eigenvectors of norm √l as columns; the sum of all eigenvalues."""
    l = len(points)  # noqa: E741 (the paper's letter)
    gram = kernel_matrix(kernel, points) / l
    if not np.isfinite(gram).all():
        raise ValueError("kernel: its matrix on the points of the basis is not finite; check its hyper-parameters.")
    values, vectors = scipy.linalg.eigh(gram, driver="evd")
    values, vectors = values[::-1], vectors[:, ::-1]
    # Below this, an eigenvalue is rounding error of the largest one, and its eigenvector is noise.
    kept = values > l * np.finfo(np.float64).eps * values[0]
    if not kept.any():
        raise ValueError("kernel: its matrix on the points of the basis has no positive eigenvalue.")
    vectors = vectors[:, kept] * np.sqrt(l)
    # A sign is arbitrary; fixed by the first entry that is not small, it is at least the same in every run.
    leading = np.argmax(np.abs(vectors) > 0.5 * np.abs(vectors).max(axis=0), axis=0)
    signs = np.sign(vectors[leading, np.arange(vectors.shape[1])])
    return values[kept].copy(), vectors * signs, float(np.trace(gram))


def choose_points(curves: Curves, max_points: int, *, key: PRNGKeyArray) -> Float[np.ndarray, "points inputs"]:
    """Points that stand for the domain of the curves: see `KarhunenLoeve`."""
    if curves.d_x == 1:
        lower, upper = curves.domain
        return lower + (upper - lower) * (np.arange(max_points)[:, None] + 0.5) / max_points
    # Images by the thousand share their points, and have no list of all of them until somebody asks.
    shared = curves.common_points
    candidates = np.unique(curves.x if shared is None else shared, axis=0)
    if len(candidates) <= max_points:
        return candidates
    if len(candidates) > MAX_CANDIDATES:
        generator = numpy_generator(key)
        candidates = candidates[np.sort(generator.choice(len(candidates), MAX_CANDIDATES, replace=False))]
    # Farthest-point selection, in units of the width of each input.
    widths = np.ptp(candidates, axis=0)
    scaled = candidates / np.where(widths > 0, widths, 1.0)
    chosen = [int(np.argmin(np.sum((scaled - scaled.mean(axis=0)) ** 2, axis=1)))]
    distances = np.full(len(scaled), np.inf)
    while len(chosen) < max_points:
        distances = np.minimum(distances, np.sum((scaled - scaled[chosen[-1]]) ** 2, axis=1))
        chosen.append(int(np.argmax(distances)))
    return candidates[np.sort(chosen)]


class EigenfunctionNetwork(eqx.Module):
    """A small network from a point to all eigenfunctions, float32 inside.

    Its inputs are cosines and sines of rising frequency of the point in its box: a plain network learns the
    slow eigenfunctions and hardly ever the fast ones.
    """

    lower: np.ndarray
    width: np.ndarray
    harmonics: int = eqx.field(static=True)
    layers: tuple[eqx.nn.Linear, ...]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " eigenfunctions"]:
        """All eigenfunctions at one point."""
        box = (x - self.lower) / self.width
        angles = jnp.pi * jnp.outer(jnp.arange(1, self.harmonics + 1), box).ravel()
        hidden = jnp.concatenate([box, jnp.cos(angles), jnp.sin(angles)])
        for layer in self.layers[:-1]:
            hidden = jax.nn.silu(layer(hidden))
        return self.layers[-1](hidden)

    def evaluate(self, x: np.ndarray) -> Float[np.ndarray, "points eigenfunctions"]:
        """All eigenfunctions at `x (m, d_x)`."""
        return np.asarray(_evaluate_network(self, jnp.asarray(x, jnp.float32)), dtype=np.float64)


def fit_network(points: np.ndarray, targets: np.ndarray, *, steps: int, key: PRNGKeyArray) -> EigenfunctionNetwork:
    """Least squares of `targets (l, r)` on `points (l, d_x)` by Adam, all points at each step."""
    l, d_x = points.shape  # noqa: E741
    rank = targets.shape[1]
    # Half a period for each eigenfunction, as many as the points can tell apart.
    harmonics = max(1, min(int(np.ceil(rank ** (1 / d_x))) + 1, int(l ** (1 / d_x)) // 2))
    sizes = [d_x * (1 + 2 * harmonics), 128, 128, rank]
    keys = jax.random.split(key, len(sizes) - 1)
    layers = tuple(eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=True))
    lower, width = points.min(axis=0), np.ptp(points, axis=0)
    width = np.where(width > 0, width, 1.0)
    network = EigenfunctionNetwork(lower.astype(np.float32), width.astype(np.float32), harmonics, layers)
    layers = _train(network, jnp.asarray(points, jnp.float32), jnp.asarray(targets, jnp.float32), steps)
    return eqx.tree_at(lambda fitted: fitted.layers, network, jax.tree.map(np.asarray, layers))


@eqx.filter_jit
def _train(network: EigenfunctionNetwork, x: Array, y: Array, steps: int) -> tuple[eqx.nn.Linear, ...]:
    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, steps))

    def loss(layers: tuple[eqx.nn.Linear, ...]) -> Array:
        fitted = eqx.tree_at(lambda part: part.layers, network, layers)
        return jnp.mean(jnp.square(jax.vmap(fitted)(x) - y))

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        layers, state = carry
        updates, state = optimiser.update(jax.grad(loss)(layers), state)
        return (optax.apply_updates(layers, updates), state), None

    start = (network.layers, optimiser.init(network.layers))
    (layers, _), _ = jax.lax.scan(step, start, None, length=steps)
    return layers


@eqx.filter_jit
def _evaluate_network(network: EigenfunctionNetwork, x: Array) -> Array:
    return jax.vmap(network)(x)
