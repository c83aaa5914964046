"""A factor that is inverted a step with each request: whatever comes in between, the model is exact."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import squaresvm
from squaresvm import LSSVC
from squaresvm.factors import slot_inverse
from squaresvm.factors.slot_inverse import Form
from squaresvm.models.ownership import REQUESTS
from support import histories
from support.histories import PROBES, History, data, loo_values, values

M = 96
#: Columns that are inverted with each request.
STEP = 16
KINDS = ["LSSVC", "LSSVC-balanced", "LSSVC-no-bias", "RelaxedLSSVC", "LSSVR"]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Make small steps, from the third request on."""
    monkeypatch.setattr(slot_inverse, "_PATIENCE", 2)
    monkeypatch.setattr(slot_inverse, "_SHARE", 1e-9)
    monkeypatch.setattr(slot_inverse, "_LEAST", STEP)


def begun(name="LSSVC", kernel="rbf", requests=5, m=M, seed=0):
    """Return a history whose factor is partly inverted: some columns more with each request."""
    kind = "regression" if histories.is_regression(name) else "binary"
    X, y = data(kind, m, seed)
    history = History(histories.estimator(name, kernel, tol=1e-10), kernel, X, y)
    for i in range(requests):
        history.forget([7 * i])
    assert room_of(history.model).form is Form.SPLIT
    return history


def factor_of(model):
    return model._state.solution.factor


def room_of(model):
    return factor_of(model).inverse


def new_rows(history, count=3):
    kind = "regression" if histories.is_regression(type(history.model).__name__) else "binary"
    return data(kind, count, seed=77)


@pytest.mark.parametrize("kernel", ["rbf", "rbf-sparse", "precomputed"])
@pytest.mark.parametrize("name", KINDS)
def test_every_request_on_the_way_is_exact(name, kernel):
    history, splits = begun(name, kernel, requests=3), []
    for i in range(40, 48):
        splits.append(room_of(history.model).split)
        receipt = history.forget([i])
        assert receipt.residual <= 1e-10
        assert not receipt.refactored
        history.assert_as_if_never_seen()
    assert splits[:3] == [STEP, 2 * STEP, 3 * STEP]
    assert room_of(history.model).form is Form.INVERSE


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("requests", [3, 5, 7])
def test_rows_that_come_on_the_way(name, kernel, requests):
    history = begun(name, kernel, requests)
    history.learn(*new_rows(history))
    assert room_of(history.model).form is Form.SPLIT
    history.assert_as_if_never_seen()
    for i in (50, M + 1, 51, 52, M, 53):
        history.forget([i])
        history.assert_as_if_never_seen()


@pytest.mark.parametrize("requests", [3, 5, 7])
@pytest.mark.parametrize("count", [2, 9, 30])
def test_many_rows_at_once_on_the_way(requests, count):
    history = begun(requests=requests)
    history.forget([i for i in range(M) if i % 7][:count])
    history.assert_as_if_never_seen()
    history.forget([95])
    history.assert_as_if_never_seen()


def test_many_rows_that_stand_halfway_are_finished_before_the_first_step(monkeypatch):
    monkeypatch.setattr(slot_inverse, "_PATIENCE", 1)
    X, y = data("binary", M, seed=3)
    history = History(LSSVC(tol=1e-10), "rbf", X, y)
    history.forget(range(10))
    assert room_of(history.model)._halfway == 10
    history.forget([20])
    assert room_of(history.model).form is Form.SPLIT
    assert room_of(history.model)._halfway == 0
    history.assert_as_if_never_seen()


@pytest.mark.parametrize("requests", [3, 5, 7])
def test_leave_one_out_on_the_way(requests):
    history = begun(requests=requests)
    np.testing.assert_allclose(loo_values(history.model), loo_values(history.fresh()), rtol=0, atol=1e-8)
    history.forget([50])
    history.assert_as_if_never_seen()


@pytest.mark.parametrize(("requests", "anew"), [(3, True), (5, True), (7, False)])
def test_flush_on_the_way_leaves_nothing_that_waits(requests, anew):
    history = begun(requests=requests)
    history.model.flush()
    room = room_of(history.model)
    assert factor_of(history.model).signs.size == 0
    assert not room.pending.any()
    assert room.form is (Form.CHOLESKY if anew else Form.INVERSE)
    history.assert_as_if_never_seen()
    history.forget([50])
    history.assert_as_if_never_seen()


@pytest.mark.parametrize("travel", ["copy", "deepcopy", "pickle", "file"])
@pytest.mark.parametrize("requests", [3, 7])
def test_copies_on_the_way_go_their_own_ways(travel, requests, tmp_path):
    history = begun(requests=requests)
    model = history.model
    if travel == "file":
        squaresvm.save(model, tmp_path / "model")
        other = squaresvm.load(tmp_path / "model")
    else:
        ways = {
            "copy": copy.copy,
            "deepcopy": copy.deepcopy,
            "pickle": lambda m: pickle.loads(pickle.dumps(m)),
        }
        other = ways[travel](model)
    before = values(other, PROBES)
    for i in (50, 51, 52):
        history.forget([i])
    history.assert_as_if_never_seen()
    np.testing.assert_array_equal(values(other, PROBES), before)
    for i in (50, 51, 52):
        other.forget([i])
    np.testing.assert_allclose(values(other, PROBES), values(model, PROBES), rtol=0, atol=1e-9)


@pytest.mark.parametrize("requests", [2, 3, 5, 7])
@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_step_is_made_up_for(monkeypatch, requests, late):
    """Whoever presses Ctrl-C while columns are inverted gets the model as it was, and exact requests."""
    X, y = data("binary", M, seed=0)
    history = History(LSSVC(tol=1e-10), "rbf", X, y)
    for i in range(requests):
        history.forget([7 * i])
    before, ids = values(history.model, PROBES), history.model.ids_.tolist()
    plain = slot_inverse.invert_further

    def interrupted(room, split, stop):
        if late:
            plain(room, split, stop)
        else:
            room[split + 4 :, split : split + 4] = np.nan
        raise KeyboardInterrupt

    monkeypatch.setattr(slot_inverse, "invert_further", interrupted)
    with pytest.raises(KeyboardInterrupt):
        history.model.forget([50])
    monkeypatch.setattr(slot_inverse, "invert_further", plain)
    assert values(history.model, PROBES).tobytes() == before.tobytes()
    assert history.model.ids_.tolist() == ids
    assert not factor_of(history.model).is_current
    receipt = history.forget([51])
    assert receipt.refactored
    assert not receipt.sampled
    history.assert_as_if_never_seen()


@pytest.mark.parametrize("requests", [3, 5])
def test_a_step_of_a_request_that_fails_later_is_not_lost(monkeypatch, requests):
    history = begun(requests=requests)
    before, split = values(history.model, PROBES), room_of(history.model).split

    def failing(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("squaresvm.models.factor_steps.FactorStep.check", failing)
        with pytest.raises(MemoryError):
            history.model.forget([50])
    assert values(history.model, PROBES).tobytes() == before.tobytes()
    # What the room stands for has not changed, so the factor holds, and has come a step further.
    assert factor_of(history.model).is_current
    assert room_of(history.model).split == split + STEP
    assert not history.forget([51]).refactored
    history.assert_as_if_never_seen()


def test_an_untouched_model_is_saved_after_requests_that_failed(monkeypatch, tmp_path):
    """Requests that fail may have begun the inversion of a factor that waits for nothing."""
    X, y = data("binary", M, seed=0)
    model = LSSVC(tol=1e-10).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr("squaresvm.models.factor_steps.FactorStep.check", lambda *_: 1 / 0)
        for i in range(4):
            with pytest.raises(ZeroDivisionError):
                model.forget([i])
    assert room_of(model).form is Form.SPLIT
    squaresvm.save(model, tmp_path / "model")
    other = squaresvm.load(tmp_path / "model")
    for one in (model, other):
        one.forget([5])
        fresh = LSSVC(tol=1e-10, gamma=model.gamma_).fit(np.delete(X, 5, axis=0), np.delete(y, 5))
        np.testing.assert_allclose(values(one, PROBES), values(fresh, PROBES), rtol=0, atol=1e-9)


def test_threads_on_the_way():
    """One thread asks for leave-one-out values while another forgets: each finds a whole model."""
    history, errors, stop = begun(requests=3, m=200), [], threading.Event()

    def ask():
        try:
            while not stop.is_set():
                assert np.isfinite(history.model.loo_decision_function()).all()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    for i in range(150, 165):
        with REQUESTS:
            history.forget([i])
        history.assert_as_if_never_seen()
    stop.set()
    thread.join(60)
    assert errors == []


def test_a_superseded_state_on_the_way_has_buffers_of_its_own():
    history = begun(requests=4)
    old, expected = history.model._state, loo_values(history.fresh())
    history.forget([50])
    split = room_of(history.model).split
    np.testing.assert_allclose(old.leave_one_out()[:, 0], expected, rtol=0, atol=1e-8)
    assert room_of(history.model).split == split
    history.forget([51])
    history.assert_as_if_never_seen()


def test_active_sets_are_inverted_by_steps_too():
    X, y = data("binary", 160, seed=1)
    history = History(histories.estimator("RLSSVC", "rbf", tol=1e-10), "rbf", X, y)
    for _ in range(12):
        support = history.model.support_[0]
        history.forget([int(history.model.ids_[support])])
        history.assert_as_if_never_seen()
