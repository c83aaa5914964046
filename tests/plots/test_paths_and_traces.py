"""How a search went over its iterations, and scores over C, are drawn as they are."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from squaresvm import LSSVC, LSSVCCV, RLSSVC, LagrangianSVC, RelaxedLSSVC
from squaresvm.plots import (
    CPathDisplay,
    TraceDisplay,
)
from squaresvm.solvers import Progress, TwoSmo

mpl.use("Agg")  # No screen is needed.


@pytest.fixture(autouse=True)
def no_figures_left():
    """No test finds figures of another one; those with `ax=` must leave none at all."""
    plt.close("all")
    yield
    plt.close("all")


def data(classes=2, m=60, n=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    score = X[:, 0] + X[:, 1] ** 2 + 0.4 * rng.normal(size=m)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def traced(classes=2):
    return RelaxedLSSVC(A=0.5, solver=TwoSmo(trace=True)).fit(*data(classes))


def search():
    return GridSearchCV(LSSVC(), {"C": [0.1, 10.0, 1.0], "gamma": [2.0, 0.1]}, cv=2).fit(*data())


@pytest.mark.parametrize("x", ["iteration", "seconds"])
def test_the_trace_is_drawn_class_by_class(x):
    model = traced(3)
    display = TraceDisplay.from_estimator(model, x=x)
    assert len(display.objective_lines_) == len(display.residual_lines_) == 3
    for column in range(3):
        steps = [step for step in model.trace_ if step.column == column]
        up, down = display.objective_lines_[column], display.residual_lines_[column]
        np.testing.assert_array_equal(up.get_ydata(), [step.objective for step in steps])
        np.testing.assert_array_equal(down.get_ydata(), [step.residual for step in steps])
        np.testing.assert_array_equal(up.get_xdata(), [getattr(step, x) for step in steps])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["0", "1", "2"]
    assert display.residual_ax_.get_yscale() == "log"
    assert x in display.residual_ax_.get_xlabel()


def test_no_trace():
    with pytest.raises(ValueError, match="the model has no trace: fit with a solver that keeps one"):
        TraceDisplay.from_estimator(LSSVC().fit(*data()))
    with pytest.raises(ValueError, match="x must be 'iteration' or 'seconds'; got 'time'"):
        TraceDisplay.from_estimator(traced(), x="time")
    assert plt.get_fignums() == []


@pytest.mark.parametrize(("first", "scale"), [(29.0, "linear"), (31.0, "log")])
def test_objectives_of_a_wide_range_are_drawn_by_ratios(first, scale):
    trace = [Progress(1, first, 1.0, 0.1, 0.0, 0), Progress(2, 1.0, 0.0, 0.2, 0.0, 0)]
    display = TraceDisplay(trace=trace, tol=1e-6, labels=None, solver="none").plot()
    assert display.ax_.get_yscale() == scale
    display.figure_.canvas.draw()  # A residual of zero has no logarithm, and is left out.


@pytest.mark.parametrize("estimator", [RLSSVC, LagrangianSVC])
def test_a_path_shows_leave_one_out_scores_and_support_rows(estimator):
    X, y = data()
    Cs = [10.0, 0.1, 1.0]
    display = CPathDisplay.from_estimator(estimator(gamma=0.7).fit(X, y), Cs)
    refits = [estimator(C=C, gamma=0.7).fit(X, y) for C in sorted(Cs)]
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), sorted(Cs))
    scores = [model.loo_score(fixed_set=True) for model in refits]
    np.testing.assert_allclose(display.lines_[0].get_ydata(), scores)
    (line,) = display.support_ax_.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [model.support_.size for model in refits])
    assert display.best_.get_ydata() == pytest.approx([max(scores)])
    assert display.best_.get_xdata() == [sorted(Cs)[int(np.argmax(scores))]]


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_grid_search_is_a_line_for_each_gamma(pipeline):
    X, y = data()
    name = "lssvc__" if pipeline else ""
    model = make_pipeline(StandardScaler(), LSSVC()) if pipeline else LSSVC()
    grid = {f"{name}C": [0.1, 10.0, 1.0], f"{name}gamma": [2.0, 0.1]}
    found = GridSearchCV(model, grid, cv=2).fit(X, y)
    display = CPathDisplay.from_estimator(found)
    assert [curve.label for curve in display.curves] == ["gamma = 0.1", "gamma = 2"]
    for line, gamma in zip(display.lines_, [0.1, 2.0], strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [0.1, 1.0, 10.0])
        for C, score in zip(line.get_xdata(), line.get_ydata(), strict=True):
            place = found.cv_results_["params"].index({f"{name}C": C, f"{name}gamma": gamma})
            assert score == found.cv_results_["mean_test_score"][place]
    assert display.best_.get_ydata() == [found.best_score_]
    assert display.support_ax_ is None
    assert display.ax_.get_ylabel() == "mean score of 2 folds"


def test_an_exact_search_shows_all_its_rounds_and_goes_with_its_rows():
    X, y = data()
    model = LSSVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.1, 1.0], refine=1).fit(X, y)
    display = CPathDisplay.from_estimator(model)
    drawn = sum(len(line.get_xdata()) for line in display.lines_)
    assert drawn == len({tuple(cell.values()) for cell in model.cv_results_["params"]})
    assert display.best_.get_ydata() == [model.best_score_]
    assert display.best_.get_xdata() == [model.best_params_["C"]]
    assert display.ax_.get_ylabel() == "leave-one-out score"
    model.forget([3])
    with pytest.raises(AttributeError, match="dropped when rows were forgotten"):
        CPathDisplay.from_estimator(model)


def test_a_search_over_C_alone():
    display = CPathDisplay.from_estimator(LSSVCCV(Cs=[0.1, 1.0], kernel="linear").fit(*data()))
    assert len(display.lines_) == 1


def test_paths_of_what_has_none():
    X, y = data()
    with pytest.raises(TypeError, match=r"a model with C_path \(RLSSVC, LagrangianSVC\); got LSSVC"):
        CPathDisplay.from_estimator(LSSVC().fit(X, y))
    with pytest.raises(ValueError, match="Cs can be given only for a model with C_path"):
        CPathDisplay.from_estimator(search(), [1.0])
    with pytest.raises(ValueError, match=r"must be over C, once; its parameters are \['gamma'\]"):
        CPathDisplay.from_estimator(GridSearchCV(LSSVC(), {"gamma": [0.1, 1.0]}, cv=2).fit(X, y))
    assert plt.get_fignums() == []
