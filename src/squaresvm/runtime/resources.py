"""Threads, memory and compiled loops: how many, how much is free, and how many rows a block may have.

A BLAS keeps to one thread beside ours, results come in order with bounded look-ahead, locks survive a fork.
Loops are compiled by Numba where it is there, and are Python where it is not.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any, ParamSpec, TypeVar, cast

from threadpoolctl import ThreadpoolController

__all__ = [
    "BLOCK_BYTES",
    "SlowLoopsWarning",
    "available_memory",
    "compiled",
    "fork_safe_lock",
    "in_order",
    "is_compiled",
    "on_threads",
    "read_ahead",
    "row_blocks",
    "thread_count",
    "threads_for_blas",
]

Result = TypeVar("Result")


def thread_count() -> int:
    """Return how many threads to use: the processors at hand, or fewer where OMP_NUM_THREADS says so."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:
        processors = os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # "4,2": four at the outer level.
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
    >>> from squaresvm.runtime.resources import on_threads
    >>> on_threads(lambda t, threads: list(range(t, 5, threads)), 2)
    [[0, 2, 4], [1, 3]]
    """
    if threads == 1:
        return [work(0, 1)]
    with threads_for_blas(), ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work, t, threads) for t in range(1, threads)]
        own = work(0, threads)
        return [own, *(other.result() for other in others)]


T = TypeVar("T")

#: Jobs that may wait beside those that run.
_AHEAD = 2


def in_order(jobs: Iterator[Callable[[], T]]) -> Generator[T, None, None]:
    """Yield the results of jobs that cost nothing to make, such as slices of an array."""
    threads = thread_count()
    if threads == 1:
        for job in jobs:
            yield job()
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="squaresvm-task")
    waiting: deque[Future[T]] = deque()
    try:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) >= threads + _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def read_ahead(jobs: Iterator[Callable[[], T]]) -> Generator[T, None, None]:
    """Yield the results of jobs that are read from somewhere: the next are read while others run.

    At most `thread_count() + 2` jobs and results are held at any time.
    """
    threads = thread_count()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="squaresvm-task")
    room = Semaphore(threads + _AHEAD)
    stop = Event()
    coming: SimpleQueue[Future[T] | None] = SimpleQueue()
    # A daemon: an iterator that nobody closed must not keep the interpreter from ending.
    feeder = Thread(target=_feed, args=(jobs, pool, room, stop, coming), name="squaresvm-reader", daemon=True)
    feeder.start()
    try:
        while (future := coming.get()) is not None:
            yield future.result()
            del future
            room.release()
    finally:
        stop.set()
        room.release()
        feeder.join()
        pool.shutdown(wait=True, cancel_futures=True)


def _feed(
    jobs: Iterator[Callable[[], T]],
    pool: ThreadPoolExecutor,
    room: Semaphore,
    stop: Event,
    coming: SimpleQueue[Future[T] | None],
) -> None:
    """Read jobs while there is room, and hand on the error that ends them."""
    try:
        while True:
            room.acquire()
            if stop.is_set() or (job := next(jobs, None)) is None:
                break
            coming.put(pool.submit(job))
            del job
    except BaseException as error:
        failed: Future[T] = Future()
        failed.set_exception(error)
        coming.put(failed)
    finally:
        close = getattr(jobs, "close", None)
        if close is not None:
            close()
        coming.put(None)


def fork_safe_lock() -> threading.RLock:
    """Return a lock that a forking thread holds across the fork.

    A child has only the thread that forked. A lock that another thread held at that moment would stay closed
    in the child for ever, over data that were half changed. So whoever forks waits until the lock is free,
    takes it, and lets it go in both processes.

    Examples
    --------
    >>> from squaresvm.runtime.resources import fork_safe_lock
    >>> lock = fork_safe_lock()
    >>> with lock, lock:  # The same thread may take it again.
    ...     pass
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


#: Bytes of one temporary block of kernel values.
BLOCK_BYTES = 16 * 2**20


def row_blocks(rows: int, columns: int, at_most: int = BLOCK_BYTES) -> list[slice]:
    """Return slices that cut `rows` into blocks of at most `at_most` bytes for `columns` float64s.

    Examples
    --------
    >>> row_blocks(5, 10, at_most=160)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, at_most // (8 * max(columns, 1)))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def available_memory() -> float:
    """Return the bytes of memory that are free; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


P = ParamSpec("P")
R = TypeVar("R")


class SlowLoopsWarning(UserWarning):
    """Numba is not installed: loops run as Python, with the same results and hundreds of times slower."""


def compiled(
    *, fastmath: bool | set[str] = False, inline: str = "never"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that has a loop compiled when it is first called, without the interpreter's lock.

    What was compiled is kept on disk for the next process. Where no folder for that can be written, neither
    that of the package nor one in the home of the user, each process compiles anew; the environment variable
    ``NUMBA_CACHE_DIR`` names another folder. Without Numba the loop is what it says in Python.

    Use it only in modules that are imported where a loop is about to run: Numba takes half a second.

    Parameters
    ----------
    fastmath : bool or set of str, default=False
        What the compiler may assume of floating-point numbers.
    inline : {'never', 'always'}, default='never'
    """
    numba = _numba()

    def decorate(loop: Callable[P, R]) -> Callable[P, R]:
        if numba is None:
            return loop
        options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "inline": inline}
        try:
            found = numba.njit(cache=True, **options)(loop)
        except RuntimeError:  # There is no folder to keep it in.
            found = numba.njit(**options)(loop)
        return cast(Callable[P, R], found)

    return decorate


@cache
def _numba() -> Any:
    """Return the module; None, and a warning the first time, where it is not installed."""
    try:
        import numba
    except ImportError:
        warnings.warn(
            "numba is not installed: some loops run as Python, with the same results but far slower "
            "(pip install numba)",
            SlowLoopsWarning,
            stacklevel=3,
        )
        return None
    return numba


@cache
def is_compiled() -> bool:
    """Return whether loops are compiled; where they are not, products of NumPy are the faster way."""
    try:
        from numba import config
    except ImportError:
        return False
    return not getattr(config, "DISABLE_JIT", False)
