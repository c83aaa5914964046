"""scikit-learn's tests of Ridge, RidgeClassifier and their searches, with LSSVR, LSSVC, LSSVRCV and LSSVCCV.

The problems are the same: a linear kernel, C = 1 / alpha, a free bias or none. So are the searches, by exact
leave-one-out; where a test names folds, scikit-learn's own class stays.
"""

from __future__ import annotations

from support.peer_classes import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from support.peer_tests import LeftOut, Run, check_table, skip_unless_declared, with_ours

skip_unless_declared()

MODULE = "sklearn.linear_model.tests.test_ridge"
OURS = {
    "Ridge": Ridge,
    "RidgeClassifier": RidgeClassifier,
    "RidgeClassifierCV": RidgeClassifierCV,
    "RidgeCV": RidgeCV,
}

UNPENALISED = "alpha = 0 is an infinite C, which is refused"
OTHER_FUNCTION = "a function of scikit-learn, with no estimator in it"
GIVEN_PER_TARGET = "a C for each target is searched for (LSSVRCV), and not given"
POSITIVE = "no bounds on coefficients"
ARRAY_API = "arrays of other libraries are not supported"
SOLVER = "a solver of scikit-learn's own"
WORDS = "expects the words of scikit-learn's message"
MODES = "modes of scikit-learn's search; ours has none"
FOLDS = "with folds the class is scikit-learn's own"
WITH_FOLDS = "KFold(n_splits=5, random_state=None, shuffle=False)"

TABLE = {
    "test_ridge_regression": Run(),
    "test_ridge_regression_hstacked_X": Run(),
    "test_ridge_regression_vstacked_X": Run(),
    "test_ridge_regression_unpenalized": LeftOut(UNPENALISED),
    "test_ridge_regression_unpenalized_hstacked_X": LeftOut(UNPENALISED),
    "test_ridge_regression_unpenalized_vstacked_X": LeftOut(UNPENALISED),
    "test_ridge_regression_sample_weights": Run(),
    "test_primal_dual_relationship": LeftOut(OTHER_FUNCTION),
    "test_ridge_regression_convergence_fail": LeftOut(OTHER_FUNCTION),
    "test_ridge_shapes_type": Run(),
    "test_ridge_intercept": Run(),
    "test_ridge_vs_lstsq": LeftOut(UNPENALISED),
    "test_ridge_individual_penalties": LeftOut(GIVEN_PER_TARGET),
    "test_X_CenterStackOp": LeftOut(OTHER_FUNCTION),
    "test_compute_gram": LeftOut(OTHER_FUNCTION),
    "test_compute_covariance": LeftOut(OTHER_FUNCTION),
    "test_solver_consistency": Run(),
    "test_ridge_gcv_integer_arrays": Run(),
    "test_ridge_gcv_vs_ridge_loo_cv": Run(without={"gcv_mode": ("'svd'",)}, because=MODES, slow=True),
    "test_regularization_limits_ridge": Run(
        without={"solver": ("'lsqr'", "'sparse_cg'")},
        because="at C = 1e16 conjugate gradients end at their limit, and say so",
    ),
    "test_regularization_limits_ridge_classifier_gcv": Run(
        without={"alpha": ("1e-16",)}, because="of dependent columns no digits are left then, in either"
    ),
    "test_regularization_limits_ridge_gcv": Run(without={"gcv_mode": ("'svd'",)}, because=MODES),
    "test_ridge_loo_cv_asym_scoring": Run(),
    "test_ridge_gcv_sample_weights": Run(without={"gcv_mode": ("'svd'",)}, because=MODES, slow=True),
    "test_check_gcv_mode_choice": LeftOut(OTHER_FUNCTION),
    "test_ridge_gcv_cv_results_not_stored": LeftOut("results of a search are always kept, until rows leave"),
    "test_ridge_best_score": Run(without={"cv": ("3",)}, because=FOLDS),
    "test_ridge_cv_individual_penalties": LeftOut(GIVEN_PER_TARGET),
    "test_ridge_classifier_with_scoring": Run(without={"cv": (WITH_FOLDS,)}, because=FOLDS),
    "test_ridge_regression_custom_scoring": LeftOut(
        "of equal scores ours takes the largest alpha, not the first"
    ),
    "test_ridge_array_api_compliance": LeftOut(ARRAY_API),
    "test_ridge_classifier_multilabel_array_api": LeftOut(ARRAY_API),
    "test_ridge_per_target_alpha_array_api": LeftOut(ARRAY_API),
    "test_array_api_error_and_warnings_for_solver_parameter": LeftOut(ARRAY_API),
    "test_array_api_numpy_namespace_no_warning": LeftOut(ARRAY_API),
    "test_dense_sparse": Run(),
    "test_class_weights": Run(),
    "test_class_weight_vs_sample_weight": Run(),
    "test_class_weights_cv": Run(),
    "test_ridgecv_store_cv_results": Run(),
    "test_ridge_classifier_cv_store_cv_results": LeftOut(
        "results of a search are a score a cell, as in GridSearchCV"
    ),
    "test_ridgecv_alphas_conversion": Run(),
    "test_ridgecv_alphas_zero": LeftOut(UNPENALISED),
    "test_ridgecv_sample_weight": Run(
        ignore=("::sklearn.exceptions.UndefinedMetricWarning", ":One or more of the test scores")
    ),
    "test_raises_value_error_if_sample_weights_greater_than_1d": Run(),
    "test_sparse_design_with_sample_weights": Run(),
    "test_ridgecv_int_alphas": Run(),
    "test_ridgecv_alphas_validation": LeftOut(WORDS),
    "test_ridgecv_alphas_scalar": Run(),
    "test_sparse_cg_max_iter": LeftOut(SOLVER),
    "test_n_iter": LeftOut(SOLVER),
    "test_ridge_fit_intercept_sparse": Run(without={"solver": ("'lbfgs'",)}, because=POSITIVE),
    "test_ridge_fit_intercept_sparse_error": LeftOut("every solver takes sparse rows"),
    "test_ridge_fit_intercept_sparse_sag": LeftOut(SOLVER),
    "test_ridge_regression_check_arguments_validity": LeftOut(OTHER_FUNCTION),
    "test_dtype_match": LeftOut("coefficients are float64, whatever the rows are"),
    "test_dtype_match_cholesky": LeftOut(GIVEN_PER_TARGET),
    "test_ridge_regression_dtype_stability": LeftOut(OTHER_FUNCTION),
    "test_ridge_sag_with_X_fortran": Run(),
    "test_ridgeclassifier_multilabel": Run(),
    "test_ridge_positive_regression_test": LeftOut(POSITIVE),
    "test_ridge_ground_truth_positive_test": Run(),
    "test_ridge_positive_error_test": LeftOut(POSITIVE),
    "test_positive_ridge_loss": Run(),
    "test_lbfgs_solver_consistency": LeftOut(OTHER_FUNCTION),
    "test_lbfgs_solver_error": LeftOut(SOLVER),
    "test_ridge_sample_weight_consistency": Run(
        without={"solver": ("'lbfgs'",)}, because=POSITIVE, slow=True
    ),
    "test_ridge_cv_results_predictions": Run(
        ("RidgeCV",),
        without={"gcv_mode": ("'svd'",)},
        because=MODES,
        slow=True,
    ),
    "test_ridge_cv_multioutput_sample_weight": Run(),
    "test_ridge_cv_custom_multioutput_scorer": Run(),
    "test_metadata_routing_with_default_scoring": LeftOut(
        "asks the class itself, which an adapter cannot answer for: see tests/estimators"
    ),
    "test_set_score_request_with_default_scoring": Run(),
}
globals().update(with_ours(MODULE, TABLE, OURS))


def test_every_test_of_the_module_is_in_the_table():
    check_table(MODULE, TABLE, OURS)
