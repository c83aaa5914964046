"""Jobs on threads, their results in order, and never many of them ahead of the reader."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from typing import TypeVar

__all__ = ["in_order", "read_ahead", "thread_count"]

T = TypeVar("T")

#: Jobs that may wait beside those that run.
_AHEAD = 2


def thread_count() -> int:
    """Return how many threads a pass uses: one for each processor that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
