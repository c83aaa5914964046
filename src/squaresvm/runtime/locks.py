"""Locks that survive a fork."""

from __future__ import annotations

import os
import threading

__all__ = ["fork_safe_lock"]


def fork_safe_lock() -> threading.RLock:
    """Return a lock that a forking thread holds across the fork.

    A child has only the thread that forked. A lock that another thread held at that moment would stay closed
    in the child for ever, over data that were half changed. So whoever forks waits until the lock is free,
    takes it, and lets it go in both processes.

    Examples
    --------
    >>> from squaresvm.runtime.locks import fork_safe_lock
    >>> lock = fork_safe_lock()
    >>> with lock, lock:  # The same thread may take it again.
    ...     pass
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
