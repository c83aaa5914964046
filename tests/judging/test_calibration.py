"""Probabilities agree with predictions, come from leave-one-out values, and are better for it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from squaresvm import LSSVC, LSSVR, RLSSVC, OneVsOne, load, save
from squaresvm.judging.calibration import Calibration
from squaresvm.streaming import ArraySource
from support import histories
from support.histories import PROBES, data

CLASSIFIERS = [name for name in histories.ESTIMATORS if not histories.is_regression(name)]
SQUARED = ["LSSVC", "LSSVC-balanced", "RelaxedLSSVC", "ProximalSVC"]
#: Values that tie, that vanish beside 1, and that saturate.
edges = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-17, -1e-17, 1e-300, 1.0 + 2**-52, 0.5, 40.0, -800.0])
numbers = st.one_of(edges, st.floats(-1e6, 1e6))


@st.composite
def decisions(draw, columns=None):
    """Return decision values of shape (rows, 1 or k)."""
    k = columns or draw(st.sampled_from([1, 3, 4]))
    rows = draw(st.lists(st.lists(numbers, min_size=k, max_size=k), min_size=1, max_size=12))
    return np.array(rows)


@st.composite
def maps(draw, classes):
    """Return a calibration fitted to values that need not make sense."""
    columns = 1 if classes == 2 else classes
    m, rng = draw(st.integers(1, 30)), np.random.default_rng(draw(st.integers(0, 10**6)))
    decision = np.round(draw(st.sampled_from([0.01, 1.0, 50.0])) * rng.normal(size=(m, columns)), 2)
    return Calibration.fit(decision, rng.integers(classes, size=m), rng.uniform(0.1, 3.0, m))


def labels(decision):
    """Return the position of the label that `predict` gives."""
    return (decision[:, 0] > 0).astype(int) if decision.shape[1] == 1 else decision.argmax(axis=1)


class TestAgreesWithPredict:
    @given(st.data())
    def test_for_any_decision_values(self, drawn):
        decision = drawn.draw(decisions())
        classes = max(2, decision.shape[1])
        p = drawn.draw(maps(classes)).probabilities(decision)
        assert p.shape == (decision.shape[0], classes)
        assert p.min() >= 0
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(p.argmax(axis=1), labels(decision))

    @pytest.mark.parametrize("tiny", [2.0**-53, 1e-17, 1e-300, 5e-324])
    def test_where_half_is_all_that_a_float_can_say(self, tiny):
        """p rounds to 0.5 for both, and argmax takes the first: it must not."""
        two = Calibration(np.array([0.7, 0.7]), np.array([0.7, 0.7]))
        np.testing.assert_array_equal(two.probabilities(np.array([[tiny], [-tiny]])).argmax(axis=1), [1, 0])
        three = Calibration(np.array([0.7, 1.1, 0.3]), np.array([2.0, 0.5, 0.7]))
        decision = np.array([[0.0, -1.0, tiny], [-3.0, 0.0, tiny], [0.0, tiny, 0.0]])
        np.testing.assert_array_equal(three.probabilities(decision).argmax(axis=1), [2, 2, 1])

    @pytest.mark.parametrize("kind", ["binary", "multi"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_of_a_model(self, name, kernel, kind):
        if name == "LagrangianSVC-augment" and kernel == "precomputed":
            return  # It needs the rows.
        X, y = data(kind, 40, seed=2)
        weights = histories.weights_with_zeros(40, seed=3)
        history = histories.History(histories.estimator(name, kernel), kernel, X, y, weights)
        probes = history.at(np.vstack([PROBES, X, 1e4 * PROBES]))
        p = history.model.predict_proba(probes)
        assert p.shape == (len(probes), history.model.classes_.size)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-14)
        if not name.endswith("balanced"):  # Class weights move the decision, not the probabilities.
            likeliest = history.model.classes_[p.argmax(axis=1)]
            np.testing.assert_array_equal(likeliest, history.model.predict(probes))
        assert np.abs(p - 0.5).max() > 0.2  # They do say something.

    def test_of_a_tie(self):
        """Opposite rows and a probe in the middle: f is zero, and the first class is predicted."""
        model = RLSSVC(kernel="linear", C=2.0, fit_intercept=False).fit([[-1.0], [1.0]] * 4, ["a", "b"] * 4)
        assert model.decision_function([[0.0]]) == 0.0
        assert model.predict_proba([[0.0]]).tolist() == [[0.5, 0.5]]
        assert model.predict([[0.0]]).tolist() == ["a"]


class TestShape:
    @given(st.data())
    def test_two_classes_are_half_and_half_at_the_threshold(self, drawn):
        p = drawn.draw(maps(2)).probabilities(np.array([[0.0], [-0.0]]))
        assert p.tolist() == [[0.5, 0.5], [0.5, 0.5]]

    @given(st.data())
    def test_monotone_in_the_own_value(self, drawn):
        classes = drawn.draw(st.sampled_from([2, 3, 4]))
        columns = 1 if classes == 2 else classes
        row = drawn.draw(st.lists(st.floats(-5, 5), min_size=columns, max_size=columns))
        k = drawn.draw(st.integers(0, columns - 1))
        decision = np.tile(row, (101, 1))
        decision[:, k] = np.linspace(-7, 7, 101)
        p = drawn.draw(maps(classes)).probabilities(decision)[:, 1 if classes == 2 else k]
        assert np.diff(p).min() >= -1e-12
        assert p[-1] > p[0]

    @pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
    def test_separable_data_have_finite_slopes(self, scale):
        decision = scale * np.array([[-2.0], [-1.0], [1.0], [3.0]])
        found = Calibration.fit(decision, np.array([0, 0, 1, 1]), np.ones(4))
        assert np.isfinite([found.above, found.below]).all()
        p = found.probabilities(decision)
        assert 0.5 < p[2, 1] < p[3, 1] < 0.999
        unscaled = Calibration.fit(decision / scale, np.array([0, 0, 1, 1]), np.ones(4))
        np.testing.assert_allclose(p, unscaled.probabilities(decision / scale), atol=1e-6)

    def test_separable_model(self):
        X = np.array([[-2.0], [-1.5], [-1.0], [1.0], [1.5], [2.0]])
        p = LSSVC(C=100.0, kernel="linear").fit(X, X[:, 0] > 0).predict_proba(X)
        assert ((p > 0.001) & (p < 0.999)).all()

    @given(st.integers(0, 10**6), st.sampled_from([2, 3]))
    def test_a_row_of_weight_two_is_two_rows(self, seed, classes):
        rng = np.random.default_rng(seed)
        decision = rng.normal(size=(25, 1 if classes == 2 else classes))
        codes, weights = rng.integers(classes, size=25), rng.uniform(0.5, 2.0, 25)
        doubled, twice = weights.copy(), [*range(25), 7]
        doubled[7] *= 2
        by_weight = Calibration.fit(decision, codes, doubled)
        by_rows = Calibration.fit(decision[twice], codes[twice], weights[twice])
        np.testing.assert_allclose(by_weight.above, by_rows.above, rtol=2e-3)
        np.testing.assert_allclose(by_weight.below, by_rows.below, rtol=2e-3)

    def test_weights_matter(self):
        decision, codes = np.array([[-1.0], [0.5], [1.0], [2.0]]), np.array([0, 0, 1, 1])
        light = Calibration.fit(decision, codes, np.ones(4))
        heavy = Calibration.fit(decision, codes, np.array([1.0, 5.0, 1.0, 1.0]))  # The wrong one.
        assert heavy.above[1] < 0.7 * light.above[1]


class TestFromLeaveOneOut:
    @pytest.mark.parametrize("kind", ["binary", "multi"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    @pytest.mark.parametrize("name", SQUARED)
    def test_values_are_those_of_refits(self, name, kernel, kind, monkeypatch):
        X, y = data(kind, 24, seed=6)
        weights = np.random.default_rng(7).uniform(0.5, 2.0, 24)
        history = histories.History(histories.estimator(name, kernel), kernel, X, y, weights)
        used = {}
        fit = Calibration.fit

        def spy(decision, codes, given, with_offset):
            used.update(decision=decision, codes=codes, weights=given, with_offset=with_offset)
            return fit(decision, codes, given, with_offset)

        monkeypatch.setattr(Calibration, "fit", spy)
        history.model.predict_proba(PROBES)
        for i in range(24):
            fresh = history.fresh(np.delete(np.arange(24), i))
            np.testing.assert_allclose(
                used["decision"][i], np.atleast_1d(fresh.decision_function(X[[i]])[0]), atol=1e-8
            )
        assert history.model.classes_[used["codes"]].tolist() == y.tolist()
        np.testing.assert_allclose(used["weights"], weights, rtol=1e-12)
        assert used["with_offset"] == (name == "LSSVC-balanced")

    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_anew_after_forget_and_learn(self, name):
        X, y = data("binary", 40, seed=8)
        history = histories.History(histories.estimator(name, "rbf"), "rbf", X, y)
        before = history.model.predict_proba(PROBES)
        for step in (
            lambda: history.forget([0, 3, 11, 12]),
            lambda: history.learn(*data("binary", 5, seed=9)),
        ):
            step()
            after = history.model.predict_proba(PROBES)
            np.testing.assert_allclose(after, history.fresh().predict_proba(PROBES), atol=1e-4)
            assert np.abs(after - before).max() > 1e-3
            before = after

    @pytest.mark.parametrize("asked", [False, True])
    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_survives_pickling(self, name, asked):
        X, y = data("multi", 40, seed=8)
        model = histories.estimator(name, "rbf").fit(X, y)
        model.forget([4, 5])
        if asked:
            model.predict_proba(PROBES)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(again.predict_proba(PROBES), model.predict_proba(PROBES), atol=1e-6)


def brier(p, y, classes):
    return float(((p - (y[:, None] == classes)) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits])
def test_better_than_a_sigmoid_of_training_outputs(load):
    """On average over five halves: outputs at rows that were trained on look surer than they are."""
    X, y = load(return_X_y=True)
    ours, theirs = [], []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))[:500]
        train, test = np.array_split(order, 2)
        scaler = StandardScaler().fit(X[train])
        seen, unseen = scaler.transform(X[train]), scaler.transform(X[test])
        model = LSSVC(C=10.0).fit(seen, y[train])
        platt = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid").fit(seen, y[train])
        ours.append(brier(model.predict_proba(unseen), y[test], model.classes_))
        theirs.append(brier(platt.predict_proba(unseen), y[test], platt.classes_))
    assert np.mean(ours) < np.mean(theirs)
    assert np.mean(ours) < 0.1


def imbalanced(seed, classes=2, rows=400):
    """Return rows of which few are of the last class, and four times as many new ones of the same kind."""
    rng = np.random.default_rng(seed)
    shares = {2: [0.94, 0.06], 3: [0.8, 0.15, 0.05]}[classes]
    y = rng.choice(classes, size=5 * rows, p=shares)
    X = rng.normal(size=(5 * rows, 4)) + 1.5 * np.eye(4)[y]
    return X[:rows], y[:rows], X[rows:], y[rows:]


def rare_cases(name):
    """Return rows of a set that comes with scikit-learn, and which of them are of a rare class."""
    if name == "an eight of ten digits":
        X, y = load_digits(return_X_y=True)
        return X, y == 8
    if name == "few malignant tumours":
        X, y = load_breast_cancer(return_X_y=True)
        rows = np.concatenate([np.flatnonzero(y == 0)[:30], np.flatnonzero(y == 1)])
        return X[rows], y[rows] == 0
    X, y = load_diabetes(return_X_y=True)
    return X, y > 270


class TestClassWeights:
    """Probabilities are of the data as they come, whatever the weights of the classes."""

    @pytest.mark.parametrize("model", [LSSVC(C=0.5), RLSSVC(kernel="linear"), OneVsOne(LSSVC())], ids=str)
    @pytest.mark.parametrize(("seed", "classes"), [(0, 2), (1, 2), (2, 3)])
    def test_the_mean_is_the_share_of_the_class(self, model, seed, classes):
        X, y, new, truth = imbalanced(seed, classes, rows=800)
        balanced = {"estimator__class_weight" if isinstance(model, OneVsOne) else "class_weight": "balanced"}
        p = clone(model).set_params(**balanced).fit(X, y).predict_proba(new)
        shares = np.bincount(y, minlength=classes) / y.size
        assert np.abs(p.mean(axis=0) - shares).max() < 0.02
        assert roc_auc_score(truth == classes - 1, p[:, -1]) > 0.6

    @pytest.mark.parametrize("model", [LSSVC(), RLSSVC()], ids=str)
    @pytest.mark.parametrize(
        "name", ["an eight of ten digits", "few malignant tumours", "the worst diabetes"]
    )
    def test_the_mean_is_the_share_on_rows_that_were_measured(self, name, model):
        X, y = rare_cases(name)
        seen, new, y_seen, y_new = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
        assert 0.04 < y.mean() < 0.12
        steps = make_pipeline(StandardScaler(), clone(model).set_params(class_weight="balanced"))
        p = steps.fit(seen, y_seen).predict_proba(new)[:, 1]
        assert abs(p.mean() - y_new.mean()) < 0.02

    def test_a_logistic_regression_of_the_decision_values_agrees(self):
        """An independent peer: with slopes that are alike, (1b) is Platt's map."""
        X, y, new, _ = imbalanced(5, rows=1500)
        model = LSSVC(kernel="linear", class_weight="balanced").fit(X, y)
        peer = LogisticRegression(C=1e6).fit(model.loo_decision_function()[:, None], y)
        expected = peer.predict_proba(model.decision_function(new)[:, None])
        np.testing.assert_allclose(model.predict_proba(new), expected, atol=0.06)

    def test_sample_weights_count(self):
        X, y, _, _ = imbalanced(3)
        weights = np.where(y == 1, 5.0, 1.0)
        model = LSSVC(class_weight={0: 1.0, 1: 3.0}).fit(X, y, sample_weight=weights)
        p = model._calibrated()[1].probabilities(model.loo_decision_function()[:, None])[:, 1]
        assert np.average(p, weights=weights) == pytest.approx(np.average(y, weights=weights), abs=0.005)

    def test_equal_weights_are_none(self):
        X, y, new, _ = imbalanced(4)
        plain, equal = LSSVC(C=2.0).fit(X, y), LSSVC(C=1.0, class_weight={0: 2.0, 1: 2.0}).fit(X, y)
        np.testing.assert_allclose(equal.predict_proba(new), plain.predict_proba(new), atol=1e-6)

    def test_from_a_stream(self):
        X, y, new, _ = imbalanced(6)
        model = LSSVC(kernel="linear", class_weight="balanced").fit(ArraySource(X, y))
        assert model.predict_proba(new)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)

    @pytest.mark.parametrize("wrap", [lambda model: model, OneVsOne])
    @pytest.mark.parametrize("classes", [2, 3])
    def test_in_files(self, tmp_path, wrap, classes):
        X, y, new, _ = imbalanced(7, classes, rows=80)
        expected = wrap(LSSVC(class_weight="balanced")).fit(X, y)
        before = expected.predict_proba(new)
        save(expected, tmp_path / "m")
        np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(new), before)

    @pytest.mark.parametrize("rows", [([[0.0], [1.0]], [0, 1]), ([[0.0], [0.0], [1.0]], [1, 0, 0])])
    def test_few_rows(self, rows):
        X, y = np.array(rows[0]), np.array(rows[1])
        p = LSSVC(class_weight={0: 1.0, 1: 9.0}).fit(X, y).predict_proba(X)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)

    def test_leave_one_out_score_is_plain_accuracy(self):
        X, y, _, _ = imbalanced(8)
        model = LSSVC(C=0.3, class_weight="balanced").fit(X, y)
        expected = accuracy_score(y, (model.loo_decision_function() > 0).astype(int))
        assert model.loo_score() == pytest.approx(expected, abs=1e-12)
        weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
        model.fit(X, y, sample_weight=weights)
        found = (model.loo_decision_function() > 0).astype(int)
        assert model.loo_score() == pytest.approx(accuracy_score(y, found, sample_weight=weights), abs=1e-12)

    def test_robust_weights_do_not_flatter(self):
        """Rows that look like outliers count in a score as the caller weighed them."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1.0, 1.0, size=(60, 1))
        y = X[:, 0] + np.where(np.arange(60) % 10 == 0, 5.0, 0.0)
        model = LSSVR(robust=2).fit(X, y)
        assert model.robust_weights_.min() < 0.1
        assert model.loo_score() == pytest.approx(r2_score(y, model.loo_predict()), abs=1e-12)
