"""Work on several threads, with a BLAS that keeps to one for as long."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["on_threads", "thread_count", "threads_for_blas"]

Result = TypeVar("Result")


def thread_count() -> int:
    """Return how many threads to use: the processors at hand, or fewer where OMP_NUM_THREADS says so."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:
        processors = os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(processors, int(wanted))) if wanted.isdigit() else max(1, processors)


@cache
def _controller() -> Any:
    return ThreadpoolController()


class _SingleBlas:
    """Counts who needs a BLAS on one thread: the first sets it so, the last sets it back.

    The setting belongs to the whole process. Two fits that each remembered and restored it could leave it at
    one thread for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limit.__exit__(None, None, None)
                    self._limit = None


threads_for_blas = _SingleBlas()


def on_threads(work: Callable[[int, int], Result], threads: int) -> list[Result]:
    """Return ``work(t, threads)`` for each thread t, all run at once.

    Parameters
    ----------
    work : callable
        Does the share t of the work. Shares are fixed, so that results do not depend on who was quicker.
    threads : int

    Examples
    --------
    >>> from squaresvm.operators.threads import on_threads
    >>> on_threads(lambda t, threads: list(range(t, 5, threads)), 2)
    [[0, 2, 4], [1, 3]]
    """
    if threads == 1:
        return [work(0, 1)]
    with threads_for_blas(), ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work, t, threads) for t in range(1, threads)]
        own = work(0, threads)
        return [own, *(other.result() for other in others)]
