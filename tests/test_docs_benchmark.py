"""The page of the benchmark shows what its results say."""

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "benchmarks" / "make_page.py"


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("make_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_of_the_pages_are_those_of_the_results(page):
    tables = page.all_tables(page.read(page.RESULTS), page.read(page.MORE_SPLITS))
    texts = [path.read_text("utf-8") for path in page.PAGES]
    assert [page.with_tables(text, tables) for text in texts] == texts
    benchmark, models = (len(page.MARKED.findall(text)) for text in texts)
    assert benchmark == texts[0].count("\n| --- |")
    assert models == len(page.PAPER_CURVES)


def test_new_rows_take_the_place_of_those_of_the_same_model_seed_and_table_only(page):
    row = dict(table="fit", dataset="stocks", model="FEBM", recipe="default", seed=0, split="", p="", metric="s", n=0)
    old = pd.DataFrame([row | {"value": 1.0}, row | {"value": 2.0, "seed": 1}, row | {"value": 3.0, "table": "power"}])
    new = pd.DataFrame([row | {"value": 9.0, "metric": "other"}])
    assert sorted(page.updated(old, new).value) == [2.0, 3.0, 9.0]


def test_seconds_that_are_known_stay_where_that_is_asked_for(page):
    row = dict(table="fit", dataset="stocks", model="FEBM", recipe="default", seed=0, split="", p="", n=0)
    old = pd.DataFrame([row | {"metric": "seconds", "value": 1.0}, row | {"metric": "size", "value": 2.0}])
    new = pd.DataFrame([row | {"metric": "seconds", "value": 8.0}, row | {"metric": "size", "value": 9.0}])
    other = new.assign(seed=1, value=new.value + 10)
    kept = page.updated(old, pd.concat([new, other]), keep_times=True)
    assert sorted(kept.value) == [1.0, 9.0, 18.0, 19.0]
    assert sorted(page.updated(old, new).value) == [8.0, 9.0]
