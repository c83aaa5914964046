"""A request that a window refuses leaves it bit for bit as it was, and as exact afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import LSSVC, Window
from support.histories import N_COLUMNS, loo_values, pickled, precomputed_kernel
from support.streams import Stream, every_model, ways

NAN = np.full((1, N_COLUMNS), np.nan)
ROWS = np.random.default_rng(8).normal(size=(40, N_COLUMNS))


def fingerprint(stream):
    """Return all numbers that the window shows, as bytes."""
    model = stream.window.estimator_
    arrays = [model.dual_coef_, model.intercept_, model.support_, stream.values()]
    if stream.by == "age":
        arrays.append(stream.window.times_)
    if hasattr(model, "predict_proba"):
        arrays.append(model.predict_proba(stream.at()))
    parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
    return parts, model.ids_.tolist(), model.certificate_, model.C_, model.n_features_in_


def refuse(stream, request, error, match):
    """Assert that a request is refused without a trace, and that the window goes on exactly."""
    stream.learn(3)
    held = stream.window.estimator_
    before, left_out = fingerprint(stream), loo_values(held)
    with pytest.raises(error, match=match):
        request(stream.window)
    assert stream.window.estimator_ is held
    assert fingerprint(stream) == before
    np.testing.assert_allclose(loo_values(held), left_out, rtol=0, atol=1e-9)
    for count in (1, 25):
        stream.learn(count)
        stream.assert_exact()


def good_labels(stream, count):
    return stream.y[stream.arrived : stream.arrived + count]


def times(stream, count, shift=1.0):
    return {"times": stream.times[stream.arrived] + shift + np.arange(count)} if stream.by == "age" else {}


@ways
@every_model
class TestEveryModel:
    def test_nan(self, name, kernel, by):
        stream = Stream(name, kernel, by)
        bad = NAN if kernel != "precomputed" else np.full((1, stream.kept.size + 1), np.nan)

        def request(window):
            window.learn(bad, good_labels(stream, 1), **times(stream, 1))

        refuse(stream, request, ValueError, "NaN")

    def test_rows_of_one_class_that_fill_the_window(self, name, kernel, by):
        """The rows have been learned on trial when it turns out that nothing else would be left."""
        stream = Stream(name, kernel, by)
        if name == "LSSVR":
            return  # Any value will do for regression.

        def request(window):
            X = ROWS
            if kernel == "precomputed":
                X = precomputed_kernel(X, np.vstack([stream.X[stream.kept], X]))
            window.learn(X, np.full(40, "yes"), **times(stream, 40))

        refuse(stream, request, ValueError, "one class only, 'yes'")

    def test_one_row_that_would_be_left_alone(self, name, kernel, by):
        """It has been written where the rows held are, and it is not to be seen there."""
        stream = Stream(name, kernel, by)
        if name == "LSSVR":
            return  # One row will do for regression.

        def request(window):
            X = 3.0 * ROWS[:1]
            if kernel == "precomputed":
                X = precomputed_kernel(X, np.vstack([stream.X[stream.kept], X]))
            window.set_params(size=1 if by == "count" else 1e-3)
            try:
                window.learn(X, ["yes"], [50.0], **times(stream, 1, shift=100.0))
            finally:
                window.set_params(size=stream.size)

        with pytest.raises(ValueError, match="one class only, 'yes'"):
            request(stream.window)
        stream.assert_exact(left_out=True)
        refuse(stream, request, ValueError, "one class only, 'yes'")

    def test_forget(self, name, kernel, by):
        stream = Stream(name, kernel, by)
        refuse(stream, lambda window: window.forget([window.ids_[1], -5]), KeyError, "-5")

    def test_pickle_is_that_of_a_window_that_was_not_asked(self, name, kernel, by):
        touched, twin = Stream(name, kernel, by), Stream(name, kernel, by)
        width = touched.kept.size + 1 if kernel == "precomputed" else N_COLUMNS
        with pytest.raises(ValueError, match="NaN"):
            touched.window.learn(np.full((1, width), np.nan), good_labels(touched, 1), **times(touched, 1))
        assert pickled(touched.window) == pickled(twin.window)


class TestTimes:
    @pytest.mark.parametrize(
        ("given", "match"),
        [
            (lambda now: None, "by age"),
            (lambda now: [now + 2, now + 1], "must not fall"),
            (lambda now: [now - 50, now], "must not fall"),
            (lambda now: [now], "one number a row, 2"),
            (lambda now: [[now, now]], "one number a row"),
            (lambda now: [now, np.nan], "finite"),
            (lambda now: [now, np.inf], "finite"),
        ],
        ids=["missing", "fall", "fall below", "short", "2-D", "NaN", "inf"],
    )
    def test_bad(self, given, match):
        stream = Stream("LSSVC", by="age")

        def request(window):
            window.learn(ROWS[:2], good_labels(stream, 2), times=given(window.times_[-1]))

        refuse(stream, request, ValueError, match)

    def test_where_the_window_is_by_count(self):
        stream = Stream("LSSVC")
        refuse(stream, lambda w: w.learn(ROWS[:2], ["yes", "no"], times=[1, 2]), ValueError, "by count")

    def test_fit_that_fails_keeps_the_model(self):
        stream = Stream("LSSVC", by="age")
        late = np.append(np.zeros(39), 100.0)  # The last row alone is in the window.
        labels = np.resize(["yes", "no"], 40)
        refuse(stream, lambda window: window.fit(ROWS, labels, times=late), ValueError, "one class only")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((ROWS[:2], ["yes"]), "inconsistent|samples"),
        ((ROWS[:2, :-1], ["yes", "no"]), "features"),
        ((ROWS[:2], ["yes", "no"], [1.0, -1.0]), "weight"),
        ((ROWS[:2], ["yes", "no"], [1.0]), "weight"),
        ((ROWS[:2], ["yes", "no"], None, ["a", "b"]), "ids"),
    ],
    ids=["labels", "columns", "negative weight", "weights", "ids"],
)
def test_bad_arguments(arguments, match):
    refuse(Stream("LSSVC"), lambda window: window.learn(*arguments), ValueError, match)


@pytest.mark.parametrize("size", [0, 2.5, np.nan, np.inf, "10", None])
class TestSize:
    def test_at_fit(self, size):
        with pytest.raises((ValueError, TypeError), match="size"):
            Window(LSSVC(), size).fit(ROWS, np.arange(40) % 2)

    def test_set_after_fit(self, size):
        stream = Stream("LSSVC")

        def request(window):
            try:
                window.set_params(size=size).learn(ROWS[:2], ["yes", "no"])
            finally:
                window.set_params(size=18)

        refuse(stream, request, (ValueError, TypeError), "size")


def test_a_whole_number_may_come_as_a_float_and_grow():
    stream = Stream("LSSVC", size=12.0)
    assert stream.window.ids_.size == 12
    stream.window.size = stream.size = 15
    for _ in range(5):
        stream.learn(1)
        stream.assert_exact()
    assert stream.window.ids_.size == 15
