"""Sums that rows come to and go from, in any order, against sums made anew."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm.factors import Moments, MomentsFactor
from support import oracle, problems

every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=problems.BIASES.keys())


class TestMoments:
    """Sums over rows, added and subtracted in any order."""

    def rows(self, m, seed, mean=3.0):
        rng = np.random.default_rng(seed)
        return rng.normal(size=(m, 3)) + mean, rng.normal(size=(m, 2)), rng.uniform(0.2, 4.0, m)

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
    def test_any_sequence(self, form):
        rng = np.random.default_rng(0)
        X, Y, costs = self.rows(80, seed=1)
        held = list(range(20))
        sums = Moments.of(form(X[held]), costs[held], Y[held])
        for _ in range(60):
            out = sorted(set(range(80)) - set(held))
            leaves = (rng.random() < 0.5 and len(held) > 8) or len(out) < 5
            some = rng.choice(held if leaves else out, size=rng.integers(1, 5), replace=False).tolist()
            block = Moments.of(form(X[some]), costs[some], Y[some])
            sums = sums.minus(block) if leaves else sums.plus(block)
            held = [i for i in held if i not in some] if leaves else held + some
            self.assert_equal(sums, Moments.of(X[held], costs[held], Y[held]), 1e-9)

    @staticmethod
    def assert_equal(found, expected, accuracy):
        for name in ("total", "mean", "scatter", "target", "response"):
            one, other = getattr(found, name), getattr(expected, name)
            size = max(1.0, np.abs(other).max())
            np.testing.assert_allclose(one, other, rtol=0, atol=accuracy * size, err_msg=name)

    def test_the_order_of_addition_does_not_matter(self):
        parts = [Moments.of(X, c, Y) for X, Y, c in (self.rows(m, seed=m) for m in (1, 5, 9))]
        one = parts[0].plus(parts[1]).plus(parts[2])
        other = parts[2].plus(parts[0].plus(parts[1]))
        self.assert_equal(one, other, 1e-13)

    @every_bias
    def test_large_means_cost_no_digits(self, A):
        X, Y, costs = self.rows(40, seed=0, mean=1e6)
        whole, block = Moments.of(X, costs, Y), Moments.of(X[30:], costs[30:], Y[30:])
        rest = Moments.of(X[:30], costs[:30], Y[:30])
        bias = problems.bias_of(A)
        found = MomentsFactor(whole.minus(block), bias).minimum()[0]
        if A == oracle.FREE:  # With any other bias the means are part of the model, and its condition.
            np.testing.assert_allclose(found, MomentsFactor(rest, bias).minimum()[0], rtol=0, atol=1e-7)
        self.assert_equal(whole.minus(block), rest, 1e-7)
