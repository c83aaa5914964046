"""A short run of the random histories and fits of ``benchmarks/fuzz_histories.py``, from fixed seeds."""

from __future__ import annotations

from support import random_histories

HISTORIES, FITS = 60, 200


def test_random_histories_give_no_wrong_answer_in_silence():
    failures = []
    for seed in range(HISTORIES):
        failures += random_histories.run(seed, steps=25).failures
    assert not failures, "\n".join(map(str, failures))


def test_random_fits_over_many_decades_give_no_wrong_answer_in_silence():
    failures = []
    for seed in range(10**9, 10**9 + FITS):
        failures += random_histories.run(seed, steps=1, wild=True).failures
    assert not failures, "\n".join(map(str, failures))
