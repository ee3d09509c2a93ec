"""Saved models: a value becomes a JSON tree and its arrays, in one safetensors file; no pickle, ever.

Reading a file runs no code that the file names. Classes are looked up by name in febm, tinygp and
equinox.nn only, and are rebuilt field by field without calling their constructors.
"""

import dataclasses
import importlib
import inspect
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import sklearn.base

from febm._version import __version__
from febm.errors import FormatError
from febm.precision import float64
from febm.storage_files import Arrays, read_file, write_file
from febm.storage_files import read_header as read_header
from febm.storage_tables import TABLE_KINDS, table_from_tree, table_to_tree

ALLOWED_PACKAGES = ("febm", "tinygp", "equinox.nn")

Json: TypeAlias = Any

# What safetensors and NumPy both name; every other dtype travels as its bytes.
_NATIVE_DTYPES = frozenset(
    np.dtype(code).name for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
)


def save(value: object, path: str | os.PathLike[str], *, notes: Mapping[str, Json] | None = None) -> None:
    """Write a model, or any value that `to_tree` takes, to one file.

    The file appears whole or not at all: it is written beside its place and then moved there. `notes`, what JSON can
    hold, say where the value comes from; `read_header` gives them back.
    """
    tree, arrays = to_tree(value)
    metadata = {"febm_tree": json.dumps(tree, allow_nan=False)}
    if notes:
        metadata["febm_notes"] = json.dumps(notes, allow_nan=False)
    write_file(path, metadata, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote; a file that cannot be read whole and safely is a `FormatError`.

    Examples
    --------
    >>> import numpy as np
    >>> import febm
    >>> rows = np.random.default_rng(0).normal(size=(30, 1)) * np.sin(np.arange(12))
    >>> model = febm.FPCA(random_state=0, progress=False).fit(rows)
    >>> model.save("waves.febm")
    >>> again = febm.load("waves.febm")
    >>> again.sample(3, random_state=1) == model.sample(3, random_state=1)
    True
    """
    path = Path(path)
    metadata, arrays = read_file(path, with_arrays=True)
    try:
        return from_tree(json.loads(metadata["febm_tree"]), arrays)
    except FormatError as error:
        raise FormatError(f"{path}: {error} {_on_versions(metadata)}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} is damaged ({error}); copy or save it again.") from error


def _on_versions(metadata: dict[str, str]) -> str:
    written_by = metadata.get("febm_version", "an unknown version")
    way_out = "" if written_by == __version__ else f": read it with febm {written_by}, or fit and save the model again"
    return f"(Saved by febm {written_by}, read by {__version__}{way_out}.)"


def to_tree(value: object) -> tuple[Json, Arrays]:
    """Split a value into a JSON tree and the arrays that it refers to by name.

    Takes None, bool, int, float, str, NumPy and JAX arrays and scalars, JAX keys, tuples, lists,
    dictionaries, dates, pandas tables and indices, and dataclasses (Equinox modules among them), named
    tuples and estimators whose classes are in febm, tinygp or equinox.nn. Anything else is a
    `TypeError` that says where it is.
    """
    writer = _Writer()
    tree = writer.write(value, type(value).__name__)
    return tree, writer.arrays


def from_tree(tree: Json, arrays: Arrays) -> Any:
    """Put together again what `to_tree` took apart."""
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if isinstance(tree, list):
        return [from_tree(item, arrays) for item in tree]
    kind = tree["kind"]
    if kind in TABLE_KINDS:
        return table_from_tree(tree, lambda part: from_tree(part, arrays))
    if kind not in _READERS:
        raise FormatError(f"a part of the kind {kind!r} is unknown here; upgrade febm.")
    return _READERS[kind](tree, arrays)


class _Writer:
    """One walk over a value; an array met twice is stored once."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._names: dict[int, str] = {}
        self._kept_alive: list[object] = []  # an id is only unique while its object lives

    def write(self, value: Any, where: str) -> Json:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
        if type(value) is list:
            return self._write_items(value, where)
        if type(value) is tuple:
            return {"kind": "tuple", "items": self._write_items(value, where)}
        if type(value) is dict:
            pairs = [[self.write(key, where), self.write(v, f"{where}[{key!r}]")] for key, v in value.items()]
            return {"kind": "dict", "items": pairs}
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            return self._write_array(value, where)
        table = table_to_tree(value, lambda part: self.write(part, where))
        if table is not None:
            return table
        return self._write_object(value, where)

    def _write_items(self, items: list | tuple, where: str) -> list:
        return [self.write(item, f"{where}[{index}]") for index, item in enumerate(items)]

    def _write_array(self, value: Any, where: str) -> Json:
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            data = self._write_array(jax.random.key_data(value), where)
            return {"kind": "key", "implementation": str(jax.random.key_impl(value)), "data": data}
        library = "jax" if isinstance(value, jax.Array) else "scalar" if isinstance(value, np.generic) else "numpy"
        array = np.asarray(value)
        node: dict[str, Json] = {
            "kind": "array",
            "library": library,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
        }
        if library == "numpy" and not array.flags.writeable:
            node["read_only"] = True
        if array.dtype.kind in "OU":
            return node | {"items": self._write_items(array.ravel().tolist(), where)}
        if array.dtype.kind == "V":
            if array.dtype.names is not None or array.dtype.name.startswith("void"):
                raise TypeError(f"save: {where} is an array of {array.dtype}, which a febm file cannot hold.")
            node["dtype"] = array.dtype.name  # bfloat16 and its kind, which NumPy knows by name only
        return node | {"name": self._store(value, array)}

    def _store(self, original: object, array: np.ndarray) -> str:
        name = self._names.get(id(original))
        if name is None:
            name = str(len(self.arrays))
            array = np.array(array, order="C", ndmin=0)
            native = array.dtype.name in _NATIVE_DTYPES and array.dtype.isnative
            self.arrays[name] = array if native else np.frombuffer(array.tobytes(), np.uint8)
            self._names[id(original)] = name
            self._kept_alive.append(original)
        return name

    def _write_object(self, value: Any, where: str) -> Json:
        cls: Any = type(value)
        if not _is_allowed(cls.__module__) or "<" in cls.__qualname__:
            raise TypeError(
                f"save: {where} is a {cls.__module__}.{cls.__qualname__}, which a febm file cannot hold; it "
                "holds numbers, strings, arrays, tables, containers of these, and classes defined in the "
                f"modules of {', '.join(ALLOWED_PACKAGES)}. For a function, keep its name instead."
            )
        node = {"class": [cls.__module__, cls.__qualname__]}
        if isinstance(value, sklearn.base.BaseEstimator):
            params = value.get_params(deep=False)
            fitted = {name: part for name, part in vars(value).items() if _is_fitted_name(name)}
            return {
                "kind": "estimator",
                **node,
                "params": self._write_fields(params, where),
                "fitted": self._write_fields(fitted, where),
            }
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {"kind": "module", **node, "fields": self._write_fields(fields, where)}
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            return {
                "kind": "namedtuple",
                **node,
                "fields": self._write_fields(dict(zip(cls._fields, value, strict=True)), where),
            }
        raise TypeError(
            f"save: {where} is a {cls.__qualname__}, which is neither a dataclass, a named tuple nor an "
            "estimator; a febm file cannot hold it."
        )

    def _write_fields(self, fields: dict[str, Any], where: str) -> dict[str, Json]:
        return {name: self.write(part, f"{where}.{name}") for name, part in fields.items()}


def _read_array(tree: Json, arrays: Arrays) -> Any:
    shape, library = tuple(tree["shape"]), tree["library"]
    dtype = jnp.dtype(tree["dtype"])
    array: np.ndarray
    if "items" in tree:
        if dtype.kind not in "OU":
            raise FormatError(f"an array of {dtype} is stored as a list; the file is damaged.")
        items = from_tree(tree["items"], arrays)
        array = np.empty(len(items), dtype)
        for index, item in enumerate(items):  # element by element: an item may itself be a sequence
            array[index] = item
    else:
        if dtype.hasobject:
            raise FormatError("an array of objects is stored as bytes; the file is damaged.")
        array = arrays[tree["name"]]
        if array.dtype != dtype:
            array = array.reshape(-1).view(dtype)
    array = array.reshape(shape)
    if library == "jax":
        with float64():  # or else a float64 array would come back as float32
            return jnp.asarray(array)
    if library == "scalar":
        return array[()]
    if tree.get("read_only", False):
        array = array.view()
        array.flags.writeable = False
    return array


def _read_key(tree: Json, arrays: Arrays) -> jax.Array:
    return jax.random.wrap_key_data(from_tree(tree["data"], arrays), impl=tree["implementation"])


def _read_module(tree: Json, arrays: Arrays) -> Any:
    cls = _find_class(tree, dataclasses.is_dataclass)
    defaults = {field.name: _field_default(field) for field in dataclasses.fields(cls)}
    instance: object = object.__new__(cls)
    for name, value in _read_fields(tree, "fields", defaults, arrays).items():
        object.__setattr__(instance, name, value)
    return instance


def _read_namedtuple(tree: Json, arrays: Arrays) -> Any:
    cls: Any = _find_class(tree, lambda found: issubclass(found, tuple) and hasattr(found, "_fields"))
    defaults = {name: cls._field_defaults.get(name, dataclasses.MISSING) for name in cls._fields}
    return tuple.__new__(cls, _read_fields(tree, "fields", defaults, arrays).values())


def _read_estimator(tree: Json, arrays: Arrays) -> Any:
    cls: Any = _find_class(tree, lambda found: issubclass(found, sklearn.base.BaseEstimator))
    signature = inspect.signature(cls.__init__).parameters
    defaults = {
        name: dataclasses.MISSING if signature[name].default is inspect.Parameter.empty else signature[name].default
        for name in cls._get_param_names()
    }
    instance = object.__new__(cls)
    values = _read_fields(tree, "params", defaults, arrays)
    for name in tree["fitted"]:
        if not _is_fitted_name(name):
            raise FormatError(f"{name!r} cannot be an attribute of a fitted {cls.__qualname__}.")
    values |= {name: from_tree(part, arrays) for name, part in tree["fitted"].items()}
    for name, value in values.items():
        setattr(instance, name, value)
    return instance


_READERS: dict[str, Callable[[Json, Arrays], Any]] = {
    "float": lambda tree, arrays: float(tree["value"]),
    "tuple": lambda tree, arrays: tuple(from_tree(tree["items"], arrays)),
    "dict": lambda tree, arrays: {from_tree(key, arrays): from_tree(value, arrays) for key, value in tree["items"]},
    "array": _read_array,
    "key": _read_key,
    "module": _read_module,
    "namedtuple": _read_namedtuple,
    "estimator": _read_estimator,
}


def _read_fields(tree: Json, part: str, defaults: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """The values of an object's fields, in the class's order; one younger than the file has its default."""
    stored, name_of_class = tree[part], tree["class"][1]
    for name in stored:
        if name not in defaults:
            raise FormatError(f"{name_of_class} has no field {name!r} in this version of febm.")
    values = {}
    for name, default in defaults.items():
        value = from_tree(stored[name], arrays) if name in stored else default
        if value is dataclasses.MISSING:
            raise FormatError(f"the field {name!r} of {name_of_class} is missing from the file.")
        values[name] = value
    return values


def _field_default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_fitted_name(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _is_allowed(module: str) -> bool:
    # A dunder module (febm.__main__) would do something when imported.
    inside = any(module == package or module.startswith(f"{package}.") for package in ALLOWED_PACKAGES)
    return inside and not any(part.startswith("__") for part in module.split("."))


def _find_class(tree: Json, is_of_kind: Callable[[type], bool]) -> type:
    """The class that a file names, if it is defined in an allowed module and is of the kind it should be."""
    module_name, qualified_name = tree["class"]
    full_name = f"{module_name}.{qualified_name}"
    if not _is_allowed(module_name):
        raise FormatError(
            f"the file names {full_name}; only classes of {', '.join(ALLOWED_PACKAGES)} are ever rebuilt "
            "from a file. Do not trust this file."
        )
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualified_name.split("."):
            found = vars(found)[part]
    except (ImportError, KeyError, TypeError) as error:
        raise FormatError(f"the class {full_name} is unknown here; upgrade febm.") from error
    # What an allowed module merely imports (its `os`, say) is not its own, and is out of bounds.
    is_own = isinstance(found, type) and (found.__module__, found.__qualname__) == (
        module_name,
        qualified_name,
    )
    if not is_own or not is_of_kind(found):
        raise FormatError(f"{full_name} is not a class that a file may rebuild. Do not trust this file.")
    return found
