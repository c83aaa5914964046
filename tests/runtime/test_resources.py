"""How many threads are used."""

from __future__ import annotations

import os

import pytest

from squaresvm.runtime.resources import thread_count


@pytest.mark.parametrize(
    ("setting", "count"),
    [(None, 4), ("", 4), ("3", 3), ("9", 4), ("0", 1), ("2,1", 2), (" 2 ", 2), ("many", 4), ("-1", 4)],
)
def test_omp_num_threads_lowers_the_number(monkeypatch, setting, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert thread_count() == count
