"""A kernel of your own: what you know about the functions, written as a covariance.

Few curves, so a Gaussian process is the model, and what the data cannot teach the kernel has to say. A sensor on a
rotating shaft sees a pattern that repeats with every turn, grows as the shaft warms up, and slowly drifts. Two kernels
of our own say that: a stationary one, which needs only its profile, and one that is not, which needs `evaluate`.

    python examples/custom_kernel.py [--small] [--out FOLDER]
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from lesson import axes_for, begin, save

import febm
from febm.kernels import Periodic, Stationary, Term, White


class Cauchy(Stationary):
    """k = 1/(1 + r²): a drift with a longer memory than any Matérn kernel has."""

    def profile(self, squared_distance):
        """The kernel as a function of r² = ‖(x − x′)/ℓ‖²."""
        return 1.0 / (1.0 + squared_distance)


class Growing(Term):
    """k = (b + x)(b + x′): straight lines from −b, so that functions fan out from left to right."""

    begin: float = eqx.field(default=1.0, converter=np.float64)

    def evaluate(self, X1, X2):
        """The kernel at two points."""
        return jnp.sum((self.begin + X1) * (self.begin + X2))


def main() -> None:
    small, folder = begin(__doc__)
    rng = np.random.default_rng(0)
    turns = np.linspace(0, 5, 60 if small else 150)
    pattern = (np.sin(2 * np.pi * turns) + 0.4 * np.sin(6 * np.pi * turns)) * (0.5 + 0.3 * turns)
    pace, start, size = rng.uniform(0.3, 1.0, (8, 1)), rng.uniform(0, 6, (8, 1)), rng.normal(1, 0.2, (8, 1))
    signal = size * pattern + 0.8 * np.sin(pace * turns + start)
    curves = febm.Curves.from_grid(turns, signal + rng.normal(0, 0.1, signal.shape))
    train, held_out = curves[:6], curves[6:]

    # Inputs are scaled to [0, 1], so a turn is a fifth. Kernels add and multiply; numbers are constants.
    kernels = {
        "matern52": "matern52",
        "turns and drift": Periodic(0.2) * Cauchy(2.0) + 0.3 * Cauchy(1.0) + White(0.01),
        "growing turns and drift": Periodic(0.2) * Growing(1.0) + 0.3 * Cauchy(1.0) + White(0.01),
    }
    known = held_out.select(held_out.x[:, 0] < 2.5)
    hidden = held_out.select(held_out.x[:, 0] >= 2.5)
    panels = axes_for(len(kernels), "turns")
    for axes, (name, kernel) in zip(panels, kernels.items(), strict=True):
        model = febm.GaussianProcess(mean="constant", kernel=kernel, random_state=0, progress=False).fit(train)
        posterior = model.condition(known)
        density = posterior.log_density(hidden).sum() / len(hidden.x)
        print(f"{name:24s} {density:7.3f} nats a hidden value   {model.kernel_}")
        febm.plotting.plot_posterior(posterior, turns, context=known, truth=held_out, axes=axes, draws=10)
        axes.set_title(f"{name}: {density:.2f} nats")
    save(panels, folder / "custom_kernel.png")


if __name__ == "__main__":
    main()
