"""Hands that reach into a request while it runs: rows that wait, memory that runs out on command."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from contextlib import contextmanager

import numpy as np

import squaresvm

#: Seconds after which a thread or child that should have answered counts as hanging.
PATIENCE = 5.0
_PACKAGE = os.path.dirname(os.path.abspath(squaresvm.__file__))


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


class FailsAt:
    """Let a MemoryError come out of the n-th call of a function of the package, counted from 0, or of none.

    Memory may run out, or a user press Ctrl-C, in any of them. `calls` says how many there were.
    """

    def __init__(self, call=None):
        self.call, self.calls, self.failed = call, 0, False

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind, error, where):
        sys.settrace(self.before)
        return self.failed and kind is not None and issubclass(kind, MemoryError)

    def _trace(self, frame, event, argument):
        code = frame.f_code
        plain = not code.co_flags & inspect.CO_GENERATOR  # Those are also called to be closed.
        if event == "call" and plain and code.co_filename.startswith(_PACKAGE) and not self.failed:
            self.calls += 1
            if self.calls - 1 == self.call:
                self.failed = True
                raise MemoryError(f"no room for {code.co_qualname}")


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
