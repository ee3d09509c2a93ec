"""The model that docs/howto/new_model.md writes obeys the contract, as it stands on the page."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest
from contract import QUICK
from pages import blocks
from test_contract import (  # noqa: F401
    TestBadInput,
    TestEstimator,
    TestPosterior,
    TestSamples,
    context,
    model,
    posterior,
    test_curves_of_every_kind_can_be_learned_sampled_and_completed,
)

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "new_model.md"
# Where the page says the file would be; saved models name it.
HOME = "febm.models.kernel_density"


@pytest.fixture(scope="module")
def make():
    assert importlib.util.find_spec(HOME) is None
    module = types.ModuleType(HOME)
    sys.modules[HOME] = module
    exec(compile(blocks(PAGE)[0].text, str(PAGE), "exec"), module.__dict__)
    yield lambda: module.KernelDensity(**QUICK)
    del sys.modules[HOME]
