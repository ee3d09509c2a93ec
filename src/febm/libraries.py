"""Optional libraries: told by the type of what is given without importing them, imported where they are needed."""

import importlib
from typing import Any

# The extra that installs a library, and what its distribution is called.
_EXTRAS = {
    "arviz_base": ("arviz", "arviz-base"),
    "polars": ("polars", "polars"),
    "skfda": ("fda", "scikit-fda"),
    "xarray": ("xarray", "xarray"),
}


def comes_from(value: object, library: str, *names: str) -> bool:
    """Whether the type of `value`, or one that it inherits from, is a class of `library`, of these names if given."""
    return any(
        kind.__module__.partition(".")[0] == library and (not names or kind.__name__ in names)
        for kind in type(value).__mro__
    )


def imported(module: str, *, needed_by: str) -> Any:
    """An optional `module`, or a sentence that says what to install."""
    extra, distribution = _EXTRAS[module.partition(".")[0]]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{needed_by} needs {distribution}: {how_to_install(extra)}") from error


def how_to_install(extra: str) -> str:
    """The command that brings the libraries of an extra, and the same for those who have a checkout."""
    return f"pip install 'febm[{extra}]' (in a checkout of febm: pip install '.[{extra}]')"
