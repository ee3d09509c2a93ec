"""What a saved model promises: the same value back, from one whole file, running nothing that it names."""

import datetime
import json
import os
import sys
import types
from typing import Any, NamedTuple

import equinox as eqx
import hypothesis.extra.numpy as array_strategies
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import sklearn.base
import tinygp
from hypothesis import given, settings
from safetensors import safe_open
from safetensors.numpy import save_file

from febm import storage, storage_files
from febm.errors import FormatError
from febm.networks import ResidualMLP
from febm.precision import float64
from febm.priors import GaussianPrior


def through_json(value: object) -> Any:
    tree, arrays = storage.to_tree(value)
    return storage.from_tree(json.loads(json.dumps(tree, allow_nan=False)), arrays)


def assert_same(left: Any, right: Any) -> None:
    """Equal values of equal types all the way down; NaN equals NaN."""
    assert type(left) is type(right)
    if isinstance(left, list | tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    elif isinstance(left, dict):
        assert_same(list(left.items()), list(right.items()))
    elif isinstance(left, np.ndarray | np.generic | jax.Array):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()
    else:
        assert left == right or (left != left and right != right)


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
array_dtypes = st.one_of(
    array_strategies.boolean_dtypes(),
    array_strategies.integer_dtypes(),
    array_strategies.unsigned_integer_dtypes(),
    array_strategies.floating_dtypes(sizes=(16, 32, 64)),
    array_strategies.complex_number_dtypes(sizes=(64, 128)),
    array_strategies.datetime64_dtypes(min_period="D"),
)
arrays = array_strategies.arrays(array_dtypes, array_strategies.array_shapes(min_dims=0, min_side=0, max_side=3))
hashables = st.one_of(scalars, st.tuples(st.integers(), st.text()))
values = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashables, inner, max_size=3),
    ),
    max_leaves=8,
)


@given(values)
@settings(max_examples=150, deadline=None)
def test_values_come_back_the_same(value):
    assert_same(through_json(value), value)


@given(
    st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=3), st.none()), min_size=1, max_size=5),
    st.lists(st.floats(), min_size=5, max_size=5),
)
@settings(max_examples=50, deadline=None)
def test_tables_come_back_the_same(labels, numbers):
    index = pd.Index(np.array(labels, dtype=object), name="curve")
    table = pd.DataFrame({"label": labels, "number": numbers[: len(labels)]}, index=index)
    pd.testing.assert_frame_equal(through_json(table), table)


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(2, 20, 3, name="curve"),
        pd.Index(["a", "b", "a"]),
        pd.Index([("a", 1), ("b", 2)], tupleize_cols=False),
        pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("a", 3)], names=["stock", None]),
        pd.to_datetime(["2020-01-01", "2020-01-03"]),
        pd.to_datetime(["2020-01-01", "2020-07-03"]).tz_localize("Europe/Berlin"),
        pd.CategoricalIndex(["low", "high", "low"], categories=["low", "high"], ordered=True),
        pd.Index([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]),
        pd.Index([1, None, 3], dtype="Int64"),
    ],
    ids=lambda index: f"{type(index).__name__}-{index.inferred_type}",
)
def test_indices_come_back_the_same(index):
    pd.testing.assert_index_equal(through_json(index), index, exact=True)


def test_a_series_and_a_table_with_repeated_names_come_back_the_same():
    series = pd.Series(["x", None], name="label", index=[3, 4])
    table = pd.DataFrame([[1, 2.5], [3, 4.5]], columns=["a", "a"])
    pd.testing.assert_series_equal(through_json(series), series)
    pd.testing.assert_frame_equal(through_json(table), table)


@pytest.mark.parametrize("value", [pd.Timestamp("2020-01-01 12:30"), datetime.datetime(2020, 1, 1, 12), pd.NaT, pd.NA])
def test_dates_and_missing_values_come_back_the_same(value):
    restored = through_json(value)
    assert type(restored) is type(value)
    assert restored is value or restored == value


def test_jax_arrays_keep_library_and_double_precision():
    with float64():
        value = jnp.linspace(0.0, 1.0, 3)
    restored = through_json((value, np.asarray(value), jnp.ones(2, jnp.bfloat16), np.float32(0.1)))
    assert_same(restored, (value, np.asarray(value), jnp.ones(2, jnp.bfloat16), np.float32(0.1)))
    assert restored[0].dtype == jnp.float64


def test_strings_objects_and_other_byte_orders_come_back_as_arrays():
    objects = np.array([None, "a", (1, 2)], dtype=object)
    assert_same(through_json(np.array([["a", "bcd"]])), np.array([["a", "bcd"]]))
    assert through_json(objects).tolist() == objects.tolist()
    assert_same(through_json(np.arange(3, dtype=">f8")), np.arange(3, dtype=">f8"))


def test_a_transposed_array_comes_back_by_value_and_a_read_only_one_read_only():
    array = np.arange(6.0).reshape(2, 3).T
    frozen = array.copy()
    frozen.flags.writeable = False
    restored, restored_frozen = through_json((array, frozen))
    np.testing.assert_array_equal(restored, array)
    assert restored.flags.writeable
    assert not restored_frozen.flags.writeable


def test_an_array_met_twice_is_stored_once():
    array = np.ones(1000)
    _, arrays = storage.to_tree({"here": array, "there": [array]})
    assert len(arrays) == 1


def test_a_key_draws_the_same_numbers_after_loading():
    key = jax.random.key(7)
    np.testing.assert_array_equal(jax.random.normal(through_json(key), (3,)), jax.random.normal(key, (3,)))


@pytest.mark.parametrize(
    "module",
    [
        GaussianPrior(3, scale=0.5),
        ResidualMLP(2, 3, width=4, depth=2, key=jax.random.key(0)),
        eqx.nn.Linear(2, 3, key=jax.random.key(0)),
        2.0 * tinygp.kernels.Matern52(jnp.array([0.1, 0.2])) + tinygp.kernels.ExpSquared(0.3),
    ],
    ids=lambda module: type(module).__name__,
)
def test_modules_come_back_the_same_through_a_file(module, tmp_path):
    storage.save(module, tmp_path / "module.febm")
    restored = storage.load(tmp_path / "module.febm")
    assert type(restored) is type(module)
    assert eqx.tree_equal(restored, module, typematch=True)


def test_a_network_computes_the_same_after_loading(tmp_path):
    network = ResidualMLP(2, "scalar", width=4, depth=2, key=jax.random.key(0))
    storage.save(network, tmp_path / "network.febm")
    z = jnp.array([0.3, -0.2])
    assert storage.load(tmp_path / "network.febm")(z) == network(z)


class Toy(sklearn.base.BaseEstimator):
    def __init__(self, kernel=None, rank=3, added_later="default"):
        self.kernel = kernel
        self.rank = rank
        self.added_later = added_later

    @property
    def derived_(self):
        return self.weights_.sum()


class Summary(NamedTuple):
    mean: Any
    count: int = 0


@pytest.fixture
def toys(monkeypatch):
    """Pretend that the two classes above are defined in a module of febm."""
    module = types.ModuleType("febm.toys")
    for cls in (Toy, Summary):
        monkeypatch.setattr(cls, "__module__", "febm.toys")
        monkeypatch.setattr(module, cls.__name__, cls, raising=False)
    monkeypatch.setitem(sys.modules, "febm.toys", module)


@pytest.mark.usefixtures("toys")
def test_an_estimator_keeps_its_parameters_and_its_fitted_attributes_only(tmp_path):
    model = Toy(kernel=tinygp.kernels.Matern32(0.5), rank=0.9)
    model.weights_ = np.arange(3.0)
    model.summary_ = Summary(mean=jnp.ones(2), count=4)
    model._cache = object()
    storage.save(model, tmp_path / "toy.febm")
    restored = storage.load(tmp_path / "toy.febm")
    assert type(restored) is Toy
    assert restored.get_params(deep=False)["rank"] == 0.9
    assert eqx.tree_equal(restored.kernel, model.kernel, typematch=True)
    assert restored.derived_ == 3.0
    assert_same(restored.summary_, model.summary_)
    assert not hasattr(restored, "_cache")


@pytest.mark.usefixtures("toys")
def test_a_field_younger_than_the_file_has_its_default():
    tree, arrays = storage.to_tree((Toy(added_later="set"), Summary(mean=1.0, count=4)))
    del tree["items"][0]["params"]["added_later"], tree["items"][1]["fields"]["count"]
    model, summary = storage.from_tree(tree, arrays)
    assert (model.added_later, summary.count) == ("default", 0)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("name", ["fit", "__class__", "_private_", "rank"])
def test_a_file_cannot_set_other_attributes_of_an_estimator(name):
    tree, arrays = storage.to_tree(Toy())
    tree["fitted"][name] = 1
    with pytest.raises(FormatError, match=f"'{name}' cannot be an attribute of a fitted Toy"):
        storage.from_tree(tree, arrays)


def rewrite(path, *, change_tree=None, **metadata):
    """Tamper with a saved file: its metadata, or the tree in it."""
    with safe_open(path, framework="numpy") as file:
        stored = dict(file.metadata()) | metadata
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if change_tree is not None:
        tree = json.loads(stored["febm_tree"])
        change_tree(tree)
        stored["febm_tree"] = json.dumps(tree)
    save_file(arrays, path, metadata=stored)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "prior.febm"
    storage.save({"prior": GaussianPrior(2), "weights": np.arange(4.0)}, path)
    return path


def prior_node(tree):
    return tree["items"][0][1]


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        (["os", "system"], "only classes of febm, tinygp, equinox.nn are ever rebuilt"),
        (["builtins", "eval"], "only classes of febm"),
        (["subprocess", "Popen"], "only classes of febm"),
        (["equinox", "Module"], "only classes of febm"),
        (["febmalicious.models", "Model"], "only classes of febm"),
        (["febm.__main__", "app"], "only classes of febm"),
        (["febm.storage", "os.system"], "may rebuild"),
        (["febm.storage", "Path"], "may rebuild"),
        (["febm.storage", "load"], "may rebuild"),
        (["febm.storage", "_Writer"], "may rebuild"),
        (["febm.priors", "NoSuchPrior"], "is unknown here; upgrade febm"),
        (["febm.no_such_module", "Prior"], "is unknown here; upgrade febm"),
    ],
    ids=".".join,
)
def test_a_tampered_file_cannot_name_anything_but_an_allowed_class(saved, named, reason):
    rewrite(saved, change_tree=lambda tree: prior_node(tree).update({"class": named}))
    with pytest.raises(FormatError, match=reason):
        storage.load(saved)


def test_a_file_naming_a_foreign_module_does_not_import_it(saved, tmp_path, monkeypatch):
    (tmp_path / "trap_for_storage.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    rewrite(saved, change_tree=lambda tree: prior_node(tree).update({"class": ["trap_for_storage", "Trap"]}))
    with pytest.raises(FormatError, match="Do not trust this file"):
        storage.load(saved)
    assert "trap_for_storage" not in sys.modules


@pytest.mark.parametrize("kind", ["namedtuple", "estimator"])
def test_a_class_of_another_kind_than_the_file_says_is_refused(saved, kind):
    rewrite(saved, change_tree=lambda tree: prior_node(tree).update({"kind": kind}))
    with pytest.raises(FormatError, match="not a class that a file may rebuild"):
        storage.load(saved)


def test_an_array_of_objects_is_never_made_from_bytes(saved):
    rewrite(saved, change_tree=lambda tree: tree["items"][1][1].update({"dtype": "|O"}))
    with pytest.raises(FormatError, match="array of objects is stored as bytes"):
        storage.load(saved)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda tree: prior_node(tree)["fields"].update({"colour": 1}),
            "GaussianPrior has no field 'colour'",
        ),
        (lambda tree: prior_node(tree)["fields"].pop("dim"), "the field 'dim' of GaussianPrior is missing"),
        (lambda tree: tree.update({"kind": "novelty"}), "the kind 'novelty' is unknown here; upgrade febm"),
        (lambda tree: tree["items"][1][1].update({"shape": [3, 7]}), "is damaged"),
        (lambda tree: tree["items"][1][1].update({"name": "77"}), "is damaged"),
        (lambda tree: tree["items"][1][1].update({"dtype": "<U3", "items": None}), "is damaged"),
        (lambda tree: tree["items"][1][1].update({"items": [1.0]}), "is stored as a list"),
        (lambda tree: tree.pop("kind"), "is damaged"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(saved, change, reason):
    rewrite(saved, change_tree=change)
    with pytest.raises(FormatError, match=reason):
        storage.load(saved)


def test_a_tree_that_is_not_json_is_damaged(saved):
    rewrite(saved, febm_tree="{")
    with pytest.raises(FormatError, match=r"is damaged .*; copy or save it again"):
        storage.load(saved)


def test_a_newer_format_asks_for_an_upgrade(saved):
    rewrite(saved, febm_format=str(storage_files.FORMAT + 1))
    with pytest.raises(FormatError, match=r"has format 2, newer than the format 1 .*: upgrade febm"):
        storage.load(saved)


def test_an_older_format_asks_for_the_version_that_wrote_it_or_another_fit(saved):
    rewrite(saved, febm_format="0", febm_version="0.0.7")
    with pytest.raises(FormatError, match=r"has format 0, older than .*: read it with febm 0\.0\.7, or fit and save"):
        storage.load(saved)


def test_an_error_names_the_version_that_saved_the_file_and_the_way_out(saved):
    rewrite(saved, febm_version="9.9", change_tree=lambda tree: tree.update({"kind": "novelty"}))
    with pytest.raises(FormatError, match=r"Saved by febm 9\.9, read by .*: read it with febm 9\.9, or fit and save"):
        storage.load(saved)


RANDOM_BYTES = np.random.default_rng(0).bytes(500)


@pytest.mark.parametrize(
    "contents", [b"", b"abc", b"curve,x,y\n1,2,3\n", b"\x80\x05pickle {", b"PK\x03\x04" * 9, RANDOM_BYTES]
)
def test_other_files_are_not_febm_models(tmp_path, contents):
    path = tmp_path / "other.febm"
    path.write_bytes(contents)
    with pytest.raises(FormatError, match=r"is not a febm model; give a file written by `model\.save`"):
        storage.load(path)


def test_another_safetensors_file_is_not_a_febm_model(tmp_path):
    save_file({"weight": np.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(FormatError, match="a safetensors file but not a febm model"):
        storage.load(tmp_path / "other.safetensors")


def test_every_truncation_is_refused(saved):
    whole = saved.read_bytes()
    for size in range(0, len(whole), 7):
        saved.write_bytes(whole[:size])
        with pytest.raises(FormatError, match="truncated" if size > 8 else "not a febm model"):
            storage.load(saved)


def test_a_missing_file_is_named_with_its_folder_and_the_models_there(saved):
    missing = saved.with_name("nothing.febm")
    with pytest.raises(FileNotFoundError) as caught:
        storage.load(missing)
    sentence = f"load: there is no file {str(missing)!r} in the folder {str(saved.parent)!r}; give the path"
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(f"such as {str(saved)!r}.")


def test_a_missing_file_is_named_as_it_was_given_and_its_folder_in_full(saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    saved.with_name("another.febm").touch()
    with pytest.raises(FileNotFoundError) as caught:
        storage.load("prior")
    assert f"no file 'prior' in the folder {str(saved.parent)!r}" in str(caught.value)
    assert str(caught.value).endswith("such as 'prior.febm', 'another.febm'.")


def test_a_file_in_a_missing_folder_says_that_the_folder_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*, for there is no folder .*nowhere'; give the path"):
        storage.load(tmp_path / "nowhere" / "model.febm")


def test_a_folder_is_not_a_model_but_may_hold_one(saved):
    with pytest.raises(IsADirectoryError, match=r"is a folder; give a file .*, such as '.*prior\.febm'\."):
        storage.load(saved.parent)
    saved.unlink()
    with pytest.raises(IsADirectoryError, match=r"is a folder; give a file written by `model\.save`\."):
        storage.read_header(saved.parent)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"activation": jax.nn.tanh}, r"save: dict\['activation'\] is a .*, which a febm file cannot hold"),
        ([1, sklearn.base.BaseEstimator()], r"save: list\[1\] is a sklearn\.base\.BaseEstimator"),
        (Summary(mean=1.0), r"save: Summary is a .*test_storage\.Summary"),
        (storage.save, "For a function, keep its name instead"),
        (
            (storage._Writer(),),
            r"save: tuple\[0\] is a _Writer, .* neither a dataclass, a named tuple nor an",
        ),
        (eqx.nn.Lambda(jax.nn.relu), r"save: Lambda\.fn is a"),
        (b"bytes", r"is a builtins\.bytes"),
        (np.zeros(2, [("x", float)]), "is an array of .*, which a febm file cannot hold"),
        (pd.period_range("2020", periods=2, freq="Y"), r"column of the type period.* cannot be written"),
        (pd.Timestamp("2020-01-01", tz="UTC"), r"is a pandas\..*Timestamp"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_when_saving(tmp_path, value, reason):
    with pytest.raises(TypeError, match=reason):
        storage.save(value, tmp_path / "value.febm")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        storage.save(GaussianPrior(5), saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_a_saved_file_has_the_permissions_of_any_new_file(saved):
    other = saved.with_name("other")
    other.touch()
    assert saved.stat().st_mode == other.stat().st_mode


def test_saving_needs_less_header_than_safetensors_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_files, "HEADER_LIMIT", 1000)
    with pytest.raises(ValueError, match="keep long lists as arrays"):
        storage.save(["word"] * 1000, tmp_path / "long.febm")
