"""Libraries that are not imported before they are needed; optional ones are told by the type of what is given."""

import importlib
from typing import Any

# What each extra brings, as pip is asked for it.
EXTRAS = {
    "arviz": "arviz-base",
    "dask": "dask distributed",
    "explore": "starlette uvicorn",
    "fda": "scikit-fda 'multimethod<2.1'",
    "polars": "polars",
    "xarray": "xarray",
}
# The extra that a library comes with.
_EXTRA_OF = {"arviz_base": "arviz", "polars": "polars", "skfda": "fda", "xarray": "xarray"}


def comes_from(value: object, library: str, *names: str) -> bool:
    """Whether the type of `value`, or one that it inherits from, is a class of `library`, of these names if given."""
    return any(
        kind.__module__.partition(".")[0] == library and (not names or kind.__name__ in names)
        for kind in type(value).__mro__
    )


def imported(module: str, *, needed_by: str) -> Any:
    """An optional `module`, or a sentence that says what to install."""
    extra = _EXTRA_OF[module.partition(".")[0]]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        distribution = EXTRAS[extra].split()[0]
        raise ImportError(f"{needed_by} needs {distribution}: {how_to_install(extra)}") from error


def how_to_install(extra: str) -> str:
    """What brings the libraries of an extra: febm with it, or, where febm is not to be had by its name, they alone."""
    return f"pip install 'febm[{extra}]' (or, alone, pip install {EXTRAS[extra]})"


class _OnDemand:
    """A library that the first use of it imports.

    BlackJAX computes as it is imported, which takes three quarters of a GPU's memory for the process. One that leaves
    all computing to others, as that of `febm benchmark --workers` does, is to leave them the memory too.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        import jax

        with jax.ensure_compile_time_eval():  # the first use may be inside of what is being compiled
            return getattr(importlib.import_module(self._name), attribute)


blackjax: Any = _OnDemand("blackjax")
