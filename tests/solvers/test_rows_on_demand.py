"""Rows of K that are computed when asked for: the same matrix, and the same answers in little memory."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from squaresvm import RelaxedLSSVC, Status
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, OnDemandOperator, RowCache
from squaresvm.solvers import (
    SesquiSmo,
    Substitution,
    Sumt,
    TwoSmo,
)
from squaresvm.solvers.choose import choose, wants_rows
from support import oracle, problems


class TestRowsOnDemand:
    def operators(self, m=90):
        X = problems.rows(m=m)
        return OnDemandOperator(Kernel("rbf", gamma=0.4), X), DenseOperator(Kernel("rbf", gamma=0.4), X)

    def test_it_is_the_same_matrix(self):
        lazy, dense = self.operators()
        b = np.random.default_rng(0).normal(size=(90, 2))
        b[::3] = 0.0
        np.testing.assert_allclose(lazy.matmul(b), dense.matmul(b), atol=1e-12)
        np.testing.assert_allclose(lazy.magnitude(b), dense.magnitude(b), atol=1e-12)
        rows, columns = np.array([3, 1, 50]), np.arange(90)[::-1]
        np.testing.assert_allclose(lazy.block(rows, columns), dense.block(rows, columns), atol=1e-14)
        assert lazy.full() is None
        lazy.store()
        np.testing.assert_allclose(lazy.matmul(b), dense.matmul(b), atol=1e-12)

    @pytest.mark.parametrize("capacity", [2, 7, 90])
    def test_the_cache_holds_what_it_says(self, capacity):
        lazy, dense = self.operators()
        cache_, K = RowCache(lazy, 8 * 90 * capacity), dense.full()
        assert cache_.values.nbytes == 8 * 90 * capacity
        for row in np.random.default_rng(0).integers(90, size=200):
            np.testing.assert_allclose(cache_.row(int(row)), K[row], atol=1e-14)
            held = np.flatnonzero(cache_.place >= 0)
            assert held.size <= capacity
            assert np.unique(cache_.place[held]).size == held.size

    @pytest.mark.parametrize("rows", [2, 10, 60])
    @pytest.mark.parametrize("cls", [TwoSmo, SesquiSmo, Sumt, Substitution])
    @pytest.mark.parametrize("A", [0.01, 1.0, 1e4])
    def test_little_memory_changes_nothing_but_the_time(self, cls, rows, A):
        lazy, dense = self.operators()
        y = problems.signs(lazy.X)
        loss = oracle.HINGE if cls is SesquiSmo else oracle.SQUARED
        A = oracle.FREE if cls in (Sumt, Substitution) else A
        few = problems.problem_of(lazy, y, np.ones(90), loss, A)
        found = cls(memory=8 * 90 * rows).solve(few, tol=1e-9, max_iter=None)
        all_ = cls().solve(problems.problem_of(dense, y, np.ones(90), loss, A), tol=1e-9, max_iter=None)
        assert few.certify(found, 1e-9).status is Status.CONVERGED
        np.testing.assert_allclose(found.beta, all_.beta, rtol=0, atol=1e-7)

    def test_estimators_use_it_where_k_exceeds_the_memory(self):
        X, y = load_iris(return_X_y=True)
        model = RelaxedLSSVC(solver=TwoSmo(memory=8 * 150 * 20)).fit(X, y)
        assert isinstance(model._state.problem.operator, OnDemandOperator)
        exact = RelaxedLSSVC(tol=1e-6).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-5)
        assert wants_rows("2smo", 50_000)
        assert not wants_rows("2smo", 5_000)
        assert not wants_rows("direct", 5_000)

    @pytest.mark.parametrize("loss", [oracle.SQUARED, oracle.HINGE])
    @pytest.mark.parametrize("A", [oracle.FREE, 1.0, oracle.NONE])
    def test_auto_takes_a_solver_that_works_on_rows(self, loss, A):
        lazy, _ = self.operators()
        problem = problems.problem_of(lazy, problems.signs(lazy.X), np.ones(90), loss, A)
        solver, reason = choose(problem, "auto")
        assert "does not fit the free memory" in reason
        solution = solver.solve(problem, tol=1e-6, max_iter=None)
        assert not lazy.is_held
        assert problem.certify(solution, 1e-6).status is Status.CONVERGED
