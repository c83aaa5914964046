"""Hands that reach into a request while it runs: rows that wait, estimators that fail on command."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager

import numpy as np

from squaresvm import LSSVC

#: Seconds after which a thread or child that should have answered counts as hanging.
PATIENCE = 5.0


class Rows:
    """Rows that call `then` once, at the moment when an estimator reads them."""

    def __init__(self, X, then):
        self.X, self.then, self.shape = X, then, X.shape

    def __len__(self):
        return len(self.X)

    def __array__(self, dtype=None, copy=None):
        then, self.then = self.then, None
        if then is not None:
            then()
        return np.asarray(self.X, dtype=dtype)


class Failing(LSSVC):
    """An LSSVC whose `forget` ends in a MemoryError, after its work, at one call of all that are made.

    The count is of the class, because wrappers copy their estimators: use `failing_at`.
    """

    calls = 0
    at = 0

    def forget(self, ids, **more):
        receipt = super().forget(ids, **more)
        Failing.calls += 1
        if Failing.calls == Failing.at:
            raise MemoryError("no room for the last step")
        return receipt


@contextmanager
def failing_at(call):
    """Let the given call of `Failing.forget`, counted from 1, end in a MemoryError."""
    Failing.calls, Failing.at = 0, call
    try:
        yield
    finally:
        Failing.at = 0


@contextmanager
def frequent_switches():
    """Let threads alternate many times within one call."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def start(target):
    """Return a started thread, and the list to which it puts what `target` raises."""
    errors = []

    def run():
        try:
            target()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, errors


def in_child(action):
    """Return how `action` ended in a forked child: 'done', 'hangs', or 'fails'."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "hangs" if os.WTERMSIG(status) == signal.SIGALRM else "fails"
    return "done" if os.WEXITSTATUS(status) == 0 else "fails"
