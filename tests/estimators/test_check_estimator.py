"""Scikit-learn's own checks, for every estimator, with its default and with a linear kernel."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC

ESTIMATORS = (LSSVC, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC, LSSVR)
WEIGHT_CHECKS = (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)


def expected_failures(estimator):
    """Return the checks that must fail: those of weights, where there are calibrated probabilities."""
    if not hasattr(estimator, "predict_proba"):
        return {}
    reason = (
        "predict_proba is calibrated on leave-one-out values, and a row of weight 3 is not three rows "
        "when one is left out; the same check passes on decision_function and predict"
    )
    return {check.__name__: reason for check in WEIGHT_CHECKS}


@parametrize_with_checks(
    [cls(**kernel) for cls in ESTIMATORS for kernel in ({}, {"kernel": "linear"})],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def hide_predict_proba(cls):
    """Return a subclass without probabilities, of which the checks of weights see the rest."""

    def hidden(self):
        raise AttributeError("predict_proba is hidden for this test")

    return type(cls.__name__, (cls,), {"predict_proba": property(hidden), "__module__": __name__})


@pytest.mark.parametrize("check", WEIGHT_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_weights_are_repeated_rows_but_for_probabilities(cls, kernel, check):
    estimator = hide_predict_proba(cls)(kernel=kernel)
    assert not hasattr(estimator, "predict_proba")
    check(cls.__name__, estimator)
