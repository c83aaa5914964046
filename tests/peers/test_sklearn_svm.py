"""scikit-learn's tests of SVC, LinearSVC and SVR, with RLSSVC, LagrangianSVC and LSSVR in their places.

LinearSVC with its default loss is the same problem. SVC and SVR differ from ours in the loss: what holds for
any loss is run, what names numbers of the hinge is not.
"""

from __future__ import annotations

from support.peer_classes import SVC, SVR, LinearSVC
from support.peer_tests import LeftOut, Run, check_table, skip_unless_declared, with_ours

skip_unless_declared()

MODULE = "sklearn.svm.tests.test_svm"
OURS = {"SVC": SVC, "SVR": SVR, "LinearSVC": LinearSVC}

HINGE = "expects numbers of the hinge; ours is squared"
EPSILON = "the epsilon-insensitive loss is not ours"
ONE_CLASS = "no one-class models"
LIBSVM = "attribute of LIBSVM"
LIBLINEAR = "setting of LIBLINEAR that is not ours"
NEGATIVE = "negative weights are refused"
WORDS = "expects the words of scikit-learn's message"
PROBABILITY = "probabilities need no parameter, so none is deprecated"
TIES = "no break_ties: predict always is the largest decision value"
OTHER_FUNCTION = "a function of scikit-learn, with no estimator in it"

NU = "no nu-SVM"

TABLE = {
    "test_libsvm_parameters": LeftOut(HINGE),
    "test_libsvm_iris": Run(),
    "test_precomputed": LeftOut(HINGE),
    "test_svr": Run(),
    "test_linearsvr": LeftOut(EPSILON),
    "test_linearsvr_fit_sampleweight": LeftOut(EPSILON),
    "test_svr_errors": LeftOut("a kernel of the wrong shape is refused by fit, not by predict"),
    "test_oneclass": LeftOut(ONE_CLASS),
    "test_oneclass_decision_function": LeftOut(ONE_CLASS),
    "test_oneclass_score_samples": LeftOut(ONE_CLASS),
    "test_tweak_params": LeftOut(LIBSVM),
    "test_probability": Run(),
    "test_decision_function": LeftOut(HINGE),
    "test_decision_function_shape": LeftOut("values of pairs: many classes are one against the rest here"),
    "test_svr_predict": Run(),
    "test_weight": Run(),
    "test_svm_classifier_sided_sample_weight": Run(without={"estimator": ("NuSVC()",)}, because=NU),
    "test_svm_regressor_sided_sample_weight": Run(without={"estimator": ("NuSVR(C=0.01)",)}, because=NU),
    "test_svm_equivalence_sample_weight_C": Run(),
    "test_negative_sample_weights_mask_all_samples": LeftOut(WORDS),
    "test_negative_weights_svc_leave_just_one_label": LeftOut(NEGATIVE),
    "test_negative_weights_svc_leave_two_labels": LeftOut(NEGATIVE),
    "test_negative_weight_equal_coeffs": Run(
        without={"Estimator": ("NuSVC", "NuSVR"), "sample_weight": ("[1, -0.5, 1, 1, 1, 1]",)},
        because=f"{NU}; {NEGATIVE}",
    ),
    "test_auto_weight": Run(),
    "test_bad_input": LeftOut("sparse rows may follow dense ones"),
    "test_svc_nonfinite_params": LeftOut(WORDS),
    "test_sparse_precomputed": LeftOut("sparse kernel matrices are accepted"),
    "test_sparse_fit_support_vectors_empty": LeftOut(EPSILON),
    "test_linearsvc_parameters": Run(without={"loss": ("'hinge'",), "penalty": ("'l1'",)}, because=LIBLINEAR),
    "test_linearsvc": Run(),
    "test_linearsvc_crammer_singer": LeftOut(LIBLINEAR),
    "test_linearsvc_fit_sampleweight": Run(),
    "test_crammer_singer_binary": LeftOut(LIBLINEAR),
    "test_linearsvc_iris": Run(),
    "test_dense_liblinear_intercept_handling": LeftOut(LIBLINEAR),
    "test_liblinear_set_coef": LeftOut("coef_ can be read, not set"),
    "test_immutable_coef_property": Run(),
    "test_linearsvc_verbose": Run(),
    "test_svc_clone_with_callable_kernel": Run(),
    "test_svc_bad_kernel": Run(),
    "test_libsvm_convergence_warnings": LeftOut(WORDS),
    "test_unfitted": Run(),
    "test_consistent_decision_function": Run(ignore=("::sklearn.exceptions.ConvergenceWarning",)),
    "test_linear_svm_convergence_warnings": LeftOut(WORDS),
    "test_svr_coef_sign": Run(),
    "test_lsvc_intercept_scaling_zero": Run(),
    "test_hasattr_predict_proba": LeftOut(PROBABILITY),
    "test_decision_function_shape_two_class": Run(),
    "test_ovr_decision_function": Run(),
    "test_svc_invalid_break_ties_param": LeftOut(TIES),
    "test_svc_ovr_tie_breaking": LeftOut(TIES),
    "test_gamma_scale": Run(),
    "test_linearsvm_liblinear_sample_weight": Run(
        without={
            "SVM": ("LinearSVR",),
            "params": (
                "{'penalty': 'l1', 'loss': 'squared_hinge', 'dual': False}",
                "{'penalty': 'l2', 'loss': 'hinge', 'dual': True}",
            ),
        },
        because=LIBLINEAR,
    ),
    "test_n_support": LeftOut(LIBSVM),
    "test_custom_kernel_not_array_input": LeftOut("rows are numbers, for a callable kernel too"),
    "test_svc_raises_error_internal_representation": LeftOut(LIBSVM),
    "test_n_iter_libsvm": Run(
        without={"estimator": ("SVC", "NuSVC", "NuSVR", "OneClassSVM")},
        because=f"n_iter_ is one number, not one a pair of classes; {NU}; {ONE_CLASS}",
    ),
    "test_dual_auto": LeftOut(OTHER_FUNCTION),
    "test_dual_auto_edge_cases": LeftOut(OTHER_FUNCTION),
    "test_svm_with_infinite_C": LeftOut("C must be finite"),
    "test_probability_raises_futurewarning": LeftOut(PROBABILITY),
    "test_svc_nusvc_probA_probB_deprecated": LeftOut(LIBSVM),
}
globals().update(with_ours(MODULE, TABLE, OURS))


def test_every_test_of_the_module_is_in_the_table():
    check_table(MODULE, TABLE, OURS)
