"""A short run of the random histories and fits of ``benchmarks/fuzz_histories.py``, from fixed seeds."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    "seed",
    [
        495000094,  # A file whose sums cancel was refused.
        508000579,  # A linear model that holds no K could not be saved with its factor.
        711000126,  # A row that leaves the factor without digits ended in an error, not in a new factor.
        177000336,  # A receipt of pairs spoke of none of them.
    ],
)
def test_what_long_runs_have_found_stays_mended(seed):
    outcome = random_histories.run(seed, forks=True)
    assert not outcome.failures, "\n".join(map(str, outcome.failures))
