"""Training that can be taken up again: after every epoch all that the loop carries is in one file, and no pickle is.

The file is a line of JSON (numbers, history, and a fingerprint of what is trained) and then the arrays in the order of
the tree. It is written beside its place and moved there, so that a kill leaves the last whole one.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from febm.errors import FormatError
from febm.files import whole_file

FORMAT = 1


def fingerprint(*parts: PyTree) -> str:
    """A digest of arrays and settings: the same training has the same."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(parts):
        if eqx.is_array(leaf):
            array = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
            digest.update(str((array.shape, array.dtype)).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        else:
            digest.update(repr(leaf).encode())
    digest.update(str(jax.tree.structure(parts)).encode())
    return digest.hexdigest()


def write_checkpoint(path: Path, arrays: PyTree, numbers: dict[str, Any], mark: str) -> None:
    """Write the state of a training whose fingerprint is `mark`."""
    with whole_file(path) as file:
        file.write(json.dumps({"febm_checkpoint": FORMAT, "mark": mark, **numbers}).encode() + b"\n")
        eqx.tree_serialise_leaves(file, arrays)


def read_checkpoint(path: Path, like: PyTree, mark: str) -> tuple[PyTree, dict[str, Any]] | None:
    """The arrays, shaped `like` these, and the numbers; None where there is no file yet."""
    if not path.exists():
        return None
    with open(path, "rb") as file:
        try:
            numbers = json.loads(file.readline())
            known = numbers.pop("febm_checkpoint") == FORMAT
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise FormatError(f"{path} is not a checkpoint of febm; name another file.") from error
        if not known or numbers.pop("mark") != mark:
            raise FormatError(
                f"{path} is the checkpoint of another training (other curves, settings, seed or version); remove it, "
                "or name another file."
            )
        try:
            return eqx.tree_deserialise_leaves(file, like), numbers
        except (ValueError, RuntimeError, EOFError, OSError) as error:
            raise FormatError(f"{path} is damaged ({error}); remove it to start again.") from error
