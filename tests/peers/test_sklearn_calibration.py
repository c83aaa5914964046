"""scikit-learn's tests of calibration, with our classifiers as those that are calibrated.

LinearSVC is LagrangianSVC; where a test needs nothing but some classifier, LSSVC stands in.
"""

from __future__ import annotations

from support.peer_classes import DecisionTreeClassifier, LinearSVC, LogisticRegression, RandomForestClassifier
from support.peer_tests import LeftOut, Run, check_table, skip_unless_declared, with_ours

skip_unless_declared()

MODULE = "sklearn.tests.test_calibration"
OURS = {
    "LinearSVC": LinearSVC,
    "LogisticRegression": LogisticRegression,
    "DecisionTreeClassifier": DecisionTreeClassifier,
    "RandomForestClassifier": RandomForestClassifier,
}

DEFAULT = "the classifier that scikit-learn takes by default"
UNCALIBRATED = "needs a badly calibrated classifier; our probabilities are calibrated"
OTHER_FUNCTION = "a function of scikit-learn, with no classifier in it"
MOCK = "a classifier made for the test"
ARRAY_API = "arrays of other libraries are not supported"
LOGISTIC = "expects the loss of logistic regression"

TABLE = {
    "test_calibration_method_raises": LeftOut(DEFAULT),
    "test_calibration": LeftOut(UNCALIBRATED),
    "test_calibration_default_estimator": LeftOut(DEFAULT),
    "test_calibration_cv_splitter": LeftOut(DEFAULT),
    "test_calibration_cv_nfold": LeftOut(DEFAULT),
    "test_sample_weight": Run(),
    "test_parallel_execution": Run(slow=True),
    "test_calibration_multiclass": Run(("LinearSVC",), slow=True),
    "test_calibration_zero_probability": LeftOut(MOCK),
    "test_calibration_frozen": LeftOut(UNCALIBRATED),
    "test_calibration_ensemble_false": Run(),
    "test_sigmoid_calibration": LeftOut(OTHER_FUNCTION),
    "test_temperature_scaling": LeftOut(LOGISTIC),
    "test_temperature_scaling_input_validation": LeftOut(OTHER_FUNCTION),
    "test_calibration_curve": LeftOut(OTHER_FUNCTION),
    "test_calibration_nan_imputer": Run(),
    "test_calibration_prob_sum": Run(),
    "test_calibration_less_classes": Run(ignore=(":Number of classes in training fold",)),
    "test_calibration_accepts_ndarray": LeftOut(MOCK),
    "test_calibration_dict_pipeline": LeftOut("the classifier comes from a fixture of scikit-learn's"),
    "test_calibration_attributes": Run(),
    "test_calibration_inconsistent_prefit_n_features_in": Run(),
    "test_calibration_votingclassifier": Run(),
    "test_calibration_display_compute": Run(),
    "test_plot_calibration_curve_pipeline": Run(),
    "test_calibration_display_default_labels": LeftOut(OTHER_FUNCTION),
    "test_calibration_display_label_class_plot": LeftOut(OTHER_FUNCTION),
    "test_calibration_display_name_multiple_calls": Run(),
    "test_calibration_display_ref_line": Run(),
    "test_calibration_curve_pos_label_error_str": LeftOut(OTHER_FUNCTION),
    "test_calibration_curve_pos_label": LeftOut(OTHER_FUNCTION),
    "test_calibration_display_kwargs": Run(),
    "test_calibration_display_pos_label": Run(),
    "test_calibrated_classifier_cv_double_sample_weights_equivalence": Run(),
    "test_calibration_with_fit_params": LeftOut(MOCK),
    "test_calibration_with_sample_weight_estimator": LeftOut(MOCK),
    "test_calibration_without_sample_weight_estimator": LeftOut(MOCK),
    "test_calibration_with_non_sample_aligned_fit_param": Run(),
    "test_calibrated_classifier_cv_works_with_large_confidence_scores": LeftOut(
        "needs decision values beyond 1e4 from a search that did not converge"
    ),
    "test_sigmoid_calibration_max_abs_prediction_threshold": LeftOut(OTHER_FUNCTION),
    "test_float32_predict_proba": LeftOut(MOCK),
    "test_error_less_class_samples_than_folds": LeftOut(DEFAULT),
    "test_temperature_scaling_array_api_compliance": LeftOut(ARRAY_API),
    "test_temperature_scaling_array_api_with_str_y_estimator_not_prefit": LeftOut(ARRAY_API),
}
globals().update(with_ours(MODULE, TABLE, OURS))


def test_every_test_of_the_module_is_in_the_table():
    check_table(MODULE, TABLE, OURS)
