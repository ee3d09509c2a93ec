"""Every model, and the imputer, passes scikit-learn's own checks of an estimator.

For all of them the fast tests run the checks that fit nothing, or the table of `ONE_TABLE`: programs are then compiled
once. FPCA and the imputer pass the complete list there too; for the other models it is among the slow tests.
"""

import pytest
from contract import TINY_MODELS
from sklearn.utils import estimator_checks

import febm

ESTIMATORS = TINY_MODELS | {"Imputer": lambda: febm.Imputer(TINY_MODELS["FPCA"]())}
COMPLETE_AT_ONCE = ("FPCA", "Imputer")
# Checks that fit 20 rows of 3 columns.
ONE_TABLE = (
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
)
NOTHING_FITTED = (
    "check_complex_data",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimator_tags_renamed",
    "check_estimators_empty_data_messages",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_fit2d_1sample",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_transformers_unfitted",
    "check_valid_tag_types",
)
# Of the checks that scikit-learn keeps for its own estimators, those of tables with names.
CHECKS_OF_NAMES = (
    "check_dataframe_column_names_consistency",
    "check_get_feature_names_out_error",
    "check_global_output_transform_pandas",
    "check_inplace_ensure_writeable",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
)


def exceptions(estimator):
    """All that is not as scikit-learn would have it, and why."""
    if isinstance(estimator, febm.FPCA | febm.GaussianProcess | febm.Imputer):
        return {}
    return {"check_parameters_default_constructible": "settings are frozen dataclasses, which are safe as defaults"}


def cases():
    for name, make in ESTIMATORS.items():
        for estimator, check in estimator_checks.estimator_checks_generator(make()):
            kind = check.func.__name__
            marks = []
            if kind in exceptions(estimator):
                marks.append(pytest.mark.xfail(reason=exceptions(estimator)[kind]))
            if name not in COMPLETE_AT_ONCE and kind not in ONE_TABLE + NOTHING_FITTED:
                marks.append(pytest.mark.slow)
            yield pytest.param(estimator, check, id="-".join([name, kind, *check.keywords]), marks=marks)


@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# Some give names to `fit` and none to `transform`, or the reverse, which scikit-learn warns of.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("check", CHECKS_OF_NAMES)
@pytest.mark.parametrize("name", COMPLETE_AT_ONCE)
def test_scikit_learns_checks_of_names(name, check):
    getattr(estimator_checks, check)(name, ESTIMATORS[name]())
