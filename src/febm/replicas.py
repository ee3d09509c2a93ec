"""Replicas: one function of the arguments of each, side by side under `vmap`; the arguments have equal shapes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

T = TypeVar("T")


def side_by_side(function: Callable[..., T], replicas: Sequence[tuple[Any, ...]]) -> list[T]:
    """`function` of the arguments of every replica; several are one compiled program."""
    return [function(*replicas[0])] if len(replicas) == 1 else _program(function, list(replicas))


def program_memory(function: Callable[..., Any], replicas: Sequence[tuple[Any, ...]]) -> int:
    """Bytes that `side_by_side` takes for several replicas; what is compiled to know is not compiled again there."""
    found = _program.lower(function, list(replicas)).compile().compiled.memory_analysis()
    return found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes


def alike(one: PyTree, other: PyTree) -> bool:
    """Whether two trees differ in nothing but the values of their arrays, so that they can be replicas."""
    return _traits(one) == _traits(other)


def _traits(tree: PyTree) -> tuple[Any, list[Any]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) if _is_array(leaf) else leaf for leaf in leaves]


def _map(function: Callable[..., T], replicas: list[tuple[Any, ...]]) -> list[T]:
    # Stacked and taken apart within the program: outside of it every replica is a tree of its own.
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves) if _is_array(leaves[0]) else leaves[0], *replicas)
    found = eqx.filter_vmap(function)(*stacked)
    return [_member(found, place) for place in range(len(replicas))]


_program: Any = eqx.filter_jit(_map)


def _member(tree: PyTree, place: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[place] if _is_array(leaf) else leaf, tree)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)
