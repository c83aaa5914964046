"""Plots: what is drawn, against the models, and that nothing else is touched."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from squaresvm import LSSVC, LSSVR, RLSSVC, RelaxedLSSVC
from squaresvm.plots import (
    CPathDisplay,
    DecisionRegionDisplay,
    LooCalibrationDisplay,
    SupportSpectrumDisplay,
    TraceDisplay,
)
from squaresvm.solvers import TwoSmo
from squaresvm.streaming import ArraySource

mpl.use("Agg")  # No screen is needed.

from matplotlib import pyplot as plt
from matplotlib.figure import Figure


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


DISPLAYS = {
    "regions": lambda ax: DecisionRegionDisplay.from_estimator(
        RLSSVC().fit(*data()), grid_resolution=20, ax=ax
    ),
    "spectrum": lambda ax: SupportSpectrumDisplay.from_estimator(LSSVC().fit(*data()), ax=ax),
    "calibration": lambda ax: LooCalibrationDisplay.from_estimator(LSSVC().fit(*data()), ax=ax),
    "trace": lambda ax: TraceDisplay.from_estimator(traced(), ax=ax),
    "C path": lambda ax: CPathDisplay.from_estimator(RLSSVC().fit(*data()), [0.1, 10.0], ax=ax),
    "search": lambda ax: CPathDisplay.from_estimator(search(), ax=ax),
}
each_display = pytest.mark.parametrize("draw", DISPLAYS.values(), ids=DISPLAYS)


# The convention ---------------------------------------------------------------------------------------


@each_display
def test_a_new_figure_or_the_axes_given(draw):
    display = draw(None)
    assert [plt.figure(number) for number in plt.get_fignums()] == [display.figure_]
    assert display.ax_.figure is display.figure_
    other = Figure()
    ax = other.subplots()
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.figure_ is other
    assert len(plt.get_fignums()) == 1
    display.figure_.canvas.draw()


@each_display
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_axes_among_others_leave_pyplot_as_it_was(draw, layout):
    figure, axes = plt.subplots(2, 2, layout=layout)
    plt.sca(axes[0, 1])
    settings = dict(mpl.rcParams)
    room = axes[1, 0].get_position()
    display = draw(axes[1, 0])
    assert plt.gca() is axes[0, 1]
    assert plt.get_fignums() == [figure.number]
    assert dict(mpl.rcParams) == settings
    assert not axes[0, 0].has_data()
    if layout is None:
        # What is drawn stays within the room that was given.
        drawn = [ax for ax in figure.axes if ax is display.ax_ or ax not in axes]
        for ax in drawn:
            place = ax.get_position()
            assert place.x0 >= room.x0 - 1e-9
            assert place.y0 >= room.y0 - 1e-9
            assert place.x1 <= room.x1 + 1e-9
            assert place.y1 <= room.y1 + 1e-9
    figure.canvas.draw()


@each_display
def test_axes_without_a_grid(draw):
    figure = plt.figure()
    ax = figure.add_axes((0.2, 0.2, 0.6, 0.6))
    display = draw(ax)
    assert display.ax_ is ax
    bottoms = [each.get_position().y0 for each in figure.axes]
    assert min(bottoms) == pytest.approx(0.2)
    assert max(each.get_position().y1 for each in figure.axes) == pytest.approx(0.8)


@pytest.mark.parametrize("name", ["regions", "spectrum", "calibration", "trace", "search"])
def test_without_matplotlib(name, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install '.*\[plot\]'"):
        DISPLAYS[name](None)


@pytest.mark.parametrize(
    "display",
    [DecisionRegionDisplay, SupportSpectrumDisplay, LooCalibrationDisplay, TraceDisplay, CPathDisplay],
)
def test_not_fitted_or_not_ours(display):
    with pytest.raises(NotFittedError):
        display.from_estimator(LSSVC())
    pipeline = make_pipeline(StandardScaler(), LSSVC()).fit(*data())
    with pytest.raises(TypeError, match="got Pipeline"):
        display.from_estimator(pipeline)
    assert plt.get_fignums() == []


# Decision regions -------------------------------------------------------------------------------------


def vertices(contours):
    return np.concatenate([path.vertices for contour in contours for path in contour.get_paths()])


def test_boundary_and_margins_are_where_f_says():
    X, y = data()
    model = RLSSVC(C=5.0, gamma=0.4).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(model)
    assert np.abs(model.decision_function(vertices(display.boundaries_))).max() < 0.02
    assert len(display.margins_) == 2
    for contour, level in zip(display.margins_, [-1.0, 1.0], strict=True):
        np.testing.assert_allclose(model.decision_function(vertices([contour])), level, atol=0.02)
    assert DecisionRegionDisplay.from_estimator(model, margins=False).margins_ == []


@pytest.mark.parametrize("classes", [2, 4])
def test_regions_are_those_of_predict(classes):
    X, y = data(classes)
    model = LSSVC(C=5.0).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(model, grid_resolution=60)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    predicted = model.predict(grid)
    assert len(display.regions_) == classes
    for label, region in enumerate(display.regions_):
        (path,) = region.get_paths()
        inside = path.contains_points(grid)
        # The edge of the area lies between grid points: some of those beside it may fall either way.
        assert np.mean(inside != (predicted == label)) < 0.05


def test_support_rows_are_sized_by_their_coefficients():
    X, y = data(3)
    model = RLSSVC(C=5.0).fit(X, np.array(["a", "b", "c"])[y])
    display = DecisionRegionDisplay.from_estimator(model, grid_resolution=20)
    sizes, offsets = [], []
    for label, points in enumerate(display.rows_):
        np.testing.assert_array_equal(points.get_offsets(), X[y == label])
        sizes.append(points.get_sizes())
        offsets.append(np.flatnonzero(y == label))
    sizes, offsets = np.concatenate(sizes), np.concatenate(offsets)
    largest = np.zeros(len(y))
    largest[model.support_] = np.abs(model.dual_coef_).max(axis=0)
    largest = largest[offsets]
    assert np.count_nonzero(largest == 0.0) > 0
    assert sizes[largest == 0.0].max() < sizes[largest > 0.0].min()
    # Area, which the eye compares, is linear in |beta|.
    assert np.corrcoef(sizes[largest > 0.0], largest[largest > 0.0])[0, 1] == pytest.approx(1.0)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["a", "b", "c", "f = 1"]
    markers = [points.get_paths()[0].vertices.tolist() for points in display.rows_]
    assert markers[0] != markers[1] != markers[2] != markers[0]


def test_the_extent_and_names_of_features():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    model = LSSVC().fit(pandas.DataFrame(X, columns=["height", "width"]), y)
    display = DecisionRegionDisplay.from_estimator(model, [[-9.0, 0.0], [9.0, 1.0]], grid_resolution=20)
    assert display.ax_.get_xlabel() == "height"
    assert display.ax_.get_ylabel() == "width"
    assert display.ax_.get_xlim()[0] < -9.0
    assert display.ax_.get_ylim()[1] < 2.0


@pytest.mark.parametrize("C", [1e-6, 1e8])
def test_regions_of_odd_models(C):
    X, y = data()
    X[:, 1] = 3.0  # A constant column; at C = 1e-6 one class is everywhere the best.
    weights = np.ones(len(y))
    weights[:5] = 0.0
    model = LSSVC(C=C).fit(sp.csr_matrix(X), y, weights)
    display = DecisionRegionDisplay.from_estimator(model, grid_resolution=10)
    display.figure_.canvas.draw()
    assert sum(len(points.get_offsets()) for points in display.rows_) == len(y)


def test_regions_of_a_stream_need_rows():
    X, y = data()
    model = LSSVC(kernel="linear").fit(ArraySource(X, y))
    with pytest.raises(ValueError, match="give some as X"):
        DecisionRegionDisplay.from_estimator(model)
    display = DecisionRegionDisplay.from_estimator(model, X)
    assert np.abs(model.decision_function(vertices(display.boundaries_))).max() < 1e-6


def test_regions_of_what_has_none():
    X, y = data(n=3)
    with pytest.raises(ValueError, match="two features; the model has 3"):
        DecisionRegionDisplay.from_estimator(LSSVC().fit(X, y))
    with pytest.raises(TypeError, match="takes a classifier; got LSSVR"):
        DecisionRegionDisplay.from_estimator(LSSVR().fit(X[:, :2], X[:, 2]))
    with pytest.raises(ValueError, match="precomputed kernel has no features"):
        DecisionRegionDisplay.from_estimator(LSSVC(kernel="precomputed").fit(X @ X.T, y))
    model = LSSVC().fit(X[:, :2], y)
    with pytest.raises(ValueError, match=r"of shape \(rows, 2\); got shape \(60, 3\)"):
        DecisionRegionDisplay.from_estimator(model, X)
    with pytest.raises(ValueError, match="must be finite"):
        DecisionRegionDisplay.from_estimator(model, [[np.nan, 1.0]])
    with pytest.raises(ValueError, match="grid_resolution must be an integer of at least 2"):
        DecisionRegionDisplay.from_estimator(model, grid_resolution=1)
    assert plt.get_fignums() == []


# Support values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_the_spectrum_is_sorted_beta(classes):
    model = RLSSVC(C=5.0).fit(*data(classes))
    display = SupportSpectrumDisplay.from_estimator(model)
    assert len(display.lines_) == len(model.dual_coef_)
    for line, beta in zip(display.lines_, model.dual_coef_, strict=True):
        expected = sorted((abs(value) for value in beta if value != 0.0), reverse=True)
        np.testing.assert_array_equal(line.get_ydata(), expected)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(expected) + 1))
    assert display.ax_.get_xlim()[1] == 61
    assert len({line.get_linestyle() for line in display.lines_}) == len(display.lines_)


def test_spectra_of_regression_of_constants_and_of_streams():
    X, y = data()
    display = SupportSpectrumDisplay.from_estimator(LSSVR().fit(X, X[:, 0]))
    assert len(display.lines_[0].get_ydata()) == 60
    empty = SupportSpectrumDisplay.from_estimator(LSSVR().fit(X, np.full(60, 2.0)))
    assert len(empty.lines_[0].get_ydata()) == 0
    empty.figure_.canvas.draw()
    with pytest.raises(ValueError, match="the spectrum needs the rows"):
        SupportSpectrumDisplay.from_estimator(LSSVC(kernel="linear").fit(ArraySource(X, y)))


# Leave-one-out calibration --------------------------------------------------------


def refitted_probabilities(model, X, y):
    """Return the probability of each row from a fit without it, by the calibration of the whole model."""
    values = np.array(
        [
            type(model)(**model.get_params())
            .fit(np.delete(X, i, 0), np.delete(y, i))
            .decision_function(X[[i]])[0]
            for i in range(len(y))
        ]
    )
    _, calibration = model._calibrated()
    return calibration.probabilities(values.reshape(len(y), -1))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_reliability_curve_is_that_of_refits(strategy):
    X, y = data(m=50)
    model = LSSVC(C=2.0, gamma=0.5).fit(X, y)
    display = LooCalibrationDisplay.from_estimator(model, n_bins=4, strategy=strategy)
    p = refitted_probabilities(model, X, y)[:, 1]
    true, mean = calibration_curve(y, p, n_bins=4, strategy=strategy)
    np.testing.assert_allclose(display.line_.get_ydata(), true, rtol=1e-8)
    np.testing.assert_allclose(display.line_.get_xdata(), mean, rtol=1e-8)
    assert display.brier == pytest.approx(brier_score_loss(y, p))
    counts = [bar.get_height() for bar in display.bars_]
    np.testing.assert_array_equal(counts, np.histogram(p, 20, (0.0, 1.0))[0])
    assert display.histogram_ax_.get_xlabel() == "leave-one-out probability of class 1"


def test_many_classes_are_judged_by_what_was_predicted():
    X, y = data(3, m=50)
    model = LSSVC(C=2.0, gamma=0.5).fit(X, y)
    p = refitted_probabilities(model, X, y)
    display = LooCalibrationDisplay.from_estimator(model, n_bins=3)
    true, mean = calibration_curve(p.argmax(axis=1) == y, p.max(axis=1), n_bins=3, strategy="quantile")
    np.testing.assert_allclose(display.prob_true, true, rtol=1e-8)
    np.testing.assert_allclose(display.prob_pred, mean, rtol=1e-8)
    one = LooCalibrationDisplay.from_estimator(model, n_bins=3, pos_label=2)
    true, mean = calibration_curve(y == 2, p[:, 2], n_bins=3, strategy="quantile")
    np.testing.assert_allclose(one.prob_true, true, rtol=1e-8)
    np.testing.assert_allclose(one.prob_pred, mean, rtol=1e-8)


def test_weights_count_in_the_curve():
    X, y = data()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    weights[:4] = 0.0
    model = LSSVC(kernel="linear").fit(X, y, weights)
    display = LooCalibrationDisplay.from_estimator(model, n_bins=1)
    assert display.prob_true == pytest.approx(np.average(y, weights=weights))
    assert sum(bar.get_height() for bar in display.bars_) == pytest.approx(weights.sum())
    assert display.histogram_ax_.get_ylabel() == "weight of rows"


def test_the_squared_hinge_takes_its_set_as_given_unless_told():
    X, y = data()
    model = RLSSVC(C=3.0).fit(X, y)
    for fixed in (True, False):
        display = LooCalibrationDisplay.from_estimator(model, fixed_set=fixed)
        values = model.loo_decision_function(fixed_set=fixed)
        _, calibration = model._calibrated()
        np.testing.assert_allclose(display.y_prob, calibration.probabilities(values[:, None])[:, 1])


def test_calibration_of_what_has_none():
    X, y = data()
    model = LSSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"pos_label must be one of the classes \[0, 1\]; got 7"):
        LooCalibrationDisplay.from_estimator(model, pos_label=7)
    with pytest.raises(ValueError, match="strategy must be 'uniform' or 'quantile'"):
        LooCalibrationDisplay.from_estimator(model, strategy="even")
    with pytest.raises(ValueError, match="n_bins"):
        LooCalibrationDisplay.from_estimator(model, n_bins=0)
    with pytest.raises(TypeError, match="takes a classifier"):
        LooCalibrationDisplay.from_estimator(LSSVR().fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="leaving one out needs the rows"):
        LooCalibrationDisplay.from_estimator(LSSVC(kernel="linear").fit(ArraySource(X, y)))
    assert plt.get_fignums() == []
