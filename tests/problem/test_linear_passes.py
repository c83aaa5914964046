"""Every sum that a pass takes, against plain dense formulas: compiled or not, however the rows are cut."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from squaresvm.problem import Loss, passes
from squaresvm.problem import runners as memory
from squaresvm.problem.judgement import Verify
from squaresvm.problem.linear import ROUNDING, LinearProblem
from squaresvm.problem.passes import Along, Collect, Curvature, Evaluate, Moved, RowBlock
from squaresvm.problem.runners import MemoryRunner
from support import oracle, problems

M, N = 700, 5
every_loss = pytest.mark.parametrize("loss", problems.LOSSES, ids=str)
every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=list(problems.BIASES))

#: How rows are held and gone through: (form, columns of targets, compiled).
WAYS = {
    "array": (np.array, 1, False),
    "array, 3 columns": (np.array, 3, False),
    "float32": (np.float32, 2, False),
    "CSR": (sp.csr_matrix, 1, False),
    "CSR, 3 columns": (sp.csr_matrix, 3, False),
    "compiled": (np.array, 1, True),
    "compiled float32": (np.float32, 1, True),
}
every_way = pytest.mark.parametrize("way", WAYS)


class Data:
    """Rows in one form, and the same rows as plain float64; a point, and a step from it."""

    def __init__(self, way, loss, m=M):
        form, k, self.compiled = WAYS[way]
        rng = np.random.default_rng(len(way) + m)
        # Large means, so that what is not centred shows; zeros, so that sparse rows are sparse.
        X = np.where(rng.random((m, N)) < 0.4, 0.0, rng.normal(3.0, 1.0, (m, N)))
        self.Z = form(X)
        self.X = np.asarray(self.Z.todense() if sp.issparse(self.Z) else self.Z, dtype=np.float64)
        self.y = rng.choice([-1.0, 1.0], (m, k)) if loss == oracle.HINGE else rng.normal(1.0, 2.0, (m, k))
        self.costs = 10.0 ** rng.uniform(-2, 1, m)
        self.loss = loss
        self.w, self.b = 0.3 * rng.normal(size=(N, k)), rng.normal(size=k)
        self.dw, self.db = 0.3 * rng.normal(size=(N, k)), rng.normal(size=k)

    def point(self, time=0.0):
        return self.w + time * self.dw, self.b + time * self.db

    def at(self, w, b):
        return Evaluate(problems.LOSSES[self.loss], w, b)

    def block(self):
        return RowBlock(self.Z, self.y, self.costs, self.compiled)

    def problem(self, A, runner=None):
        runner = runner or MemoryRunner(self.Z, self.y, self.costs, self.compiled)
        return LinearProblem(
            runner, problems.LOSSES[self.loss], problems.bias_of(A), np.abs(self.y).max(axis=0)
        )


# Plain formulas ----------------------------------------------------------------------------------------


def slack(data, w, b):
    f = data.X @ w + b
    return data.y - f if data.loss == oracle.SQUARED else data.y * np.maximum(0.0, 1.0 - data.y * f)


def active(data, w, b):
    return np.ones(data.y.shape, bool) if data.loss == oracle.SQUARED else slack(data, w, b) != 0.0


def objective(data, A, w, b):
    penalty = 0.0 if A == oracle.NONE else A * b**2
    return 0.5 * ((w**2).sum(axis=0) + penalty + data.costs @ slack(data, w, b) ** 2)


def gradient(data, A, w, b):
    beta = data.costs[:, None] * slack(data, w, b)
    return w - data.X.T @ beta, 0.0 * b if A == oracle.NONE else A * b - beta.sum(axis=0)


def assert_moments(found, data, rows, columns):
    """Assert that moments are those of some rows, row by row from their definition."""
    X, y, costs = data.X[rows], data.y[rows][:, columns], data.costs[rows]
    mean, target = costs @ X / costs.sum(), costs @ y / costs.sum()
    away, apart = X - mean, y - target
    expected = {
        "total": costs.sum(),
        "mean": mean,
        "scatter": sum(c * np.outer(z, z) for c, z in zip(costs, away, strict=True)),
        "target": target,
        "response": sum(c * np.outer(z, t) for c, z, t in zip(costs, away, apart, strict=True)),
        "spread": costs @ apart**2,
    }
    for name, value in expected.items():
        size = np.abs(value).max() + 1.0
        np.testing.assert_allclose(getattr(found, name), value, rtol=0, atol=1e-10 * size, err_msg=name)


def certificate(data, A, w, b, j):
    """Return residual and gap of column j by their definitions, with K formed."""
    y, costs, xi = data.y[:, j], data.costs, slack(data, w, b)[:, j]
    K, beta = data.X @ data.X.T, costs * xi
    r = K @ beta + beta / costs + b[j] - y
    h = np.diagonal(K) + 1.0 / costs + (1.0 / A if 0.0 < A < np.inf else 0.0)
    if data.loss == oracle.SQUARED:
        residual = np.abs(r).max() / np.abs(y).max()
    else:
        residual = np.abs(np.minimum(h * y * beta, y * r)).max()
    if oracle.NONE != A:
        size = A * abs(b[j]) + np.abs(beta).sum()
        residual = max(residual, abs(A * b[j] - beta.sum()) / size)
    if oracle.FREE == A and data.loss == oracle.SQUARED:
        beta = beta - beta.mean()
    elif oracle.FREE == A:
        up, down = beta[y > 0].sum(), -beta[y < 0].sum()
        lighter = min(up, down)
        beta = beta * [lighter / (up if sign > 0 else down) if lighter > 0 else 0.0 for sign in y]
    bias = beta.sum() ** 2 / A if 0.0 < A < np.inf else 0.0
    dual = y @ beta - 0.5 * (beta @ K @ beta + beta**2 @ (1.0 / costs) + bias)
    return residual, objective(data, A, w, b)[j] - dual


# Tasks -------------------------------------------------------------------------------------------------


@every_way
@every_loss
def test_loss_and_gradient(way, loss):
    data = Data(way, loss)
    w, b = data.point()
    found, marked = data.at(w, b).with_active(data.block())
    xi = slack(data, w, b)
    beta = data.costs[:, None] * xi
    np.testing.assert_allclose(found.loss, data.costs @ xi**2, rtol=1e-12)
    np.testing.assert_allclose(found.in_w, data.X.T @ beta, rtol=1e-10)
    np.testing.assert_allclose(found.in_b, beta.sum(axis=0), rtol=1e-10)
    np.testing.assert_array_equal(marked, active(data, w, b))
    assert marked.any()
    assert loss == oracle.SQUARED or not marked.all()
    again = data.at(w, b)(data.block())
    np.testing.assert_allclose(again.in_w, found.in_w, rtol=1e-10)


@every_way
@every_loss
def test_moments_of_the_active_rows(way, loss):
    data = Data(way, loss)
    w, b = data.point()
    _, moments = Curvature(data.at(w, b))(data.block())
    k = data.y.shape[1]
    if loss == oracle.SQUARED:
        assert len(moments) == 1  # One serves all columns.
        assert_moments(moments[0], data, np.arange(M), range(k))
        return
    assert len(moments) == k
    for j, found in enumerate(moments):
        assert_moments(found, data, np.flatnonzero(active(data, w, b)[:, j]), [j])


@every_way
def test_one_out_of_several_rows_stands_for_them_all(way):
    data = Data(way, oracle.HINGE)
    w, b = data.point()
    _, moments = Curvature(data.at(w, b), every=4)(data.block())
    for j, found in enumerate(moments):
        some = np.flatnonzero(active(data, w, b)[:, j])
        some = some[some % 64 < 16]
        assert some.size > 0
        assert_moments(found.scaled(1.0 / 4.0), data, some, [j])


@every_way
def test_moments_of_all_rows(way):
    data = Data(way, oracle.SQUARED)
    (found,) = Collect()(data.block())
    assert_moments(found, data, np.arange(M), range(data.y.shape[1]))


@every_way
def test_moments_of_rows_that_change_sides(way):
    data = Data(way, oracle.HINGE)
    was, now = active(data, *data.point()), active(data, *data.point(2.0))
    _, came, left = Moved(data.at(*data.point(2.0)), *data.point())(data.block())
    for j in range(data.y.shape[1]):
        assert_moments(came[j], data, np.flatnonzero(now[:, j] & ~was[:, j]), [j])
        assert_moments(left[j], data, np.flatnonzero(was[:, j] & ~now[:, j]), [j])


@pytest.mark.parametrize("compiled", [False, True])
def test_no_row_changes_sides_between_a_point_and_itself(compiled):
    data = Data("compiled" if compiled else "array", oracle.HINGE)
    _, came, left = Moved(data.at(*data.point()), *data.point())(data.block())
    assert came[0].total == left[0].total == 0.0


@every_way
@every_bias
def test_slopes_along_a_line_are_those_of_the_objective(way, A):
    data = Data(way, oracle.HINGE)
    if oracle.NONE == A:
        data.b, data.db = 0.0 * data.b, 0.0 * data.db
    problem, k = data.problem(A), data.y.shape[1]
    times = np.linspace(0.0, 3.0, 7)[:, None] * np.linspace(1.0, 0.5, k)
    down = gradient(data, A, *data.point())
    decrement = -(down[0] * data.dw).sum(axis=0) - down[1] * data.db
    start = problem.at(*data.point())
    found = problem.slopes(start, data.dw, data.db, times, decrement)
    for slopes, time in zip(found, times, strict=True):
        in_w, in_b = gradient(data, A, *data.point(time))
        exact = (in_w * data.dw).sum(axis=0) + in_b * data.db
        np.testing.assert_allclose(slopes, exact, rtol=1e-9, atol=1e-9 * np.abs(found).max())
        h = 1e-5
        ahead, behind = (objective(data, A, *data.point(time + s)) for s in (h, -h))
        np.testing.assert_allclose(
            slopes, (ahead - behind) / (2 * h), rtol=1e-3, atol=1e-4 * np.abs(found).max()
        )


# The certificate ---------------------------------------------------------------------------------------


@every_way
@every_loss
@every_bias
def test_the_certificate_is_that_of_the_theory_at_any_point(way, loss, A):
    data = Data(way, loss)
    if oracle.NONE == A:
        data.b = 0.0 * data.b
    problem = data.problem(A)
    # Far from the margins, farther, and within them.
    scale = 1.0 / (1.0 + np.abs(data.X @ data.w).max())
    for w, b in [data.point(), (40.0 * data.w, 40.0 * data.b), (scale * data.w, scale * data.b)]:
        verdict = problem.verify(problem.at(w, b))
        np.testing.assert_allclose(verdict.objective, objective(data, A, w, b), rtol=1e-12)
        for j in range(data.y.shape[1]):
            residual, gap = certificate(data, A, w, b, j)
            np.testing.assert_allclose(verdict.residual[j], residual, rtol=1e-9)
            np.testing.assert_allclose(verdict.gap[j], gap, rtol=1e-9)


@pytest.mark.parametrize("compiled", [False, True])
@every_bias
def test_a_row_that_is_hardly_active_counts_by_its_multiplier(compiled, A):
    # One row, active by 1e-6 of a margin, whose defect is large: min(h y beta, y r) is the former.
    Z, y, costs = np.array([[2.0, 0.0]]), np.ones((1, 1)), np.array([0.5])
    w, b = np.array([[0.5 - 5e-7], [3.0]]), np.zeros(1)
    problem = LinearProblem(
        MemoryRunner(Z, y, costs, compiled), Loss.SQUARED_HINGE, problems.bias_of(A), np.ones(1)
    )
    beta, h = 0.5 * (1.0 - 2.0 * w[0, 0]), 4.0 + 2.0 + (1.0 / A if 0.0 < A < np.inf else 0.0)
    r = 4.0 * beta + 2.0 * beta - 1.0
    bias = 0.0 if oracle.NONE == A else 1.0
    expected = max(abs(min(h * beta, r)), bias)
    assert problem.verify(problem.at(w, b)).residual[0] == pytest.approx(expected, rel=1e-6)


@every_way
@every_loss
def test_what_rounding_may_leave(way, loss):
    data = Data(way, loss)
    w, b = data.point()
    xi = np.abs(slack(data, w, b))
    X, costs = np.abs(data.X), data.costs[:, None]
    plain = ROUNDING * (X @ (X.T @ (costs * xi)) + xi + np.abs(b) + np.abs(data.y))
    terms = costs * (X @ np.abs(w) + np.abs(b) + np.abs(data.y)) * (xi > 0.0)
    random = np.finfo(float).eps * X @ np.sqrt(np.square(X).T @ terms**2)
    scale = np.abs(data.y).max(axis=0) if loss == oracle.SQUARED else 1.0
    found = data.problem(0.3).rounding(w, b)
    np.testing.assert_allclose(found, (plain + random).max(axis=0) / scale, rtol=1e-10)


# Blocks ------------------------------------------------------------------------------------------------


class Cut:
    """Rows cut into blocks at given places."""

    passes_are_cheap = False

    def __init__(self, data, cuts):
        self.n_features, self.n_columns = N, data.y.shape[1]
        edges = [0, *sorted(cuts), data.y.shape[0]]
        self.parts = [slice(a, b) for a, b in pairwise(edges) if a < b]
        self.data = data

    def map(self, task):
        d = self.data
        return (task(RowBlock(d.Z[part], d.y[part], d.costs[part], d.compiled)) for part in self.parts)

    def sample(self, size):
        return None


def everything(data, problem):
    """Return all that passes tell, as one list of arrays."""
    w, b = data.point()
    point, moments = problem.with_curvature(w, b)
    verdict = problem.verify(point)
    all_rows = problem.moments()
    told = [
        point.objective,
        point.down_w,
        point.down_b,
        verdict.residual,
        verdict.gap,
        problem.rounding(w, b),
    ]
    for its in (*moments, all_rows):
        told += [its.total, its.mean, its.scatter, its.target, its.response, its.spread]
    if data.loss == oracle.HINGE:
        moved = problem.moved(*data.point(2.0), point, moments)[1]
        told += [value for its in moved for value in (its.total, its.mean, its.scatter)]
        times = np.ones((2, b.size)) * [[0.3], [2.0]]
        told.append(problem.slopes(point, data.dw, data.db, times, np.ones(b.size)))
    return told


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10 * np.abs(other).max())


@given(
    way=st.sampled_from(list(WAYS)),
    loss=st.sampled_from(list(problems.LOSSES)),
    A=st.sampled_from(list(problems.BIASES.values())),
    cuts=st.lists(st.integers(1, 39), max_size=39),
)
def test_however_rows_are_cut_the_sums_are_the_same(way, loss, A, cuts):
    data = Data(way, loss, m=40)
    whole = everything(data, data.problem(A, Cut(data, [])))
    assert_same(everything(data, data.problem(A, Cut(data, cuts))), whole)


@every_way
def test_threads_over_blocks_in_memory_tell_the_same(way, monkeypatch):
    data = Data(way, oracle.HINGE)
    whole = everything(data, data.problem(0.3, Cut(data, [])))
    for name in ("_BLOCK_BYTES", "_COMPILED_BYTES", "_THREADED_BYTES"):
        monkeypatch.setattr(memory, name, 1)
    runner = MemoryRunner(data.Z, data.y, data.costs, data.compiled)
    assert len(list(runner.map(lambda block: block.costs.size))) > 1
    assert_same(everything(data, data.problem(0.3, runner)), whole)


@every_way
def test_moments_from_rows_that_moved_are_those_taken_anew(way, monkeypatch):
    monkeypatch.setattr(passes, "_FEW_ROWS", 8)
    data = Data(way, oracle.HINGE)
    problem = data.problem(oracle.FREE)
    since, moments = problem.with_curvature(*data.point())
    for time in (0.1, 1.0, 3.0):
        w, b = data.point(time)
        point, moved = problem.moved(w, b, since, moments)
        for j, its in enumerate(moved):
            assert_moments(its, data, np.flatnonzero(active(data, w, b)[:, j]), [j])
        assert_same([point.objective, point.down_w], [problem.at(w, b).objective, problem.at(w, b).down_w])
        since, moments = point, moved


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_few_rows_compiled(rows):
    # Fewer than are gone through side by side.
    data = Data("compiled", oracle.HINGE, m=rows)
    plain = Data("compiled", oracle.HINGE, m=rows)
    plain.compiled = False
    for task in (data.at(*data.point()), partial(_residual_of, data)):
        for one, other in zip(_flat(task(data.block())), _flat(task(plain.block())), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def _residual_of(data, block):
    at = data.at(*data.point())
    return Verify(at, at(block).in_w, oracle.FREE)(block)


def _flat(found):
    for part in found if isinstance(found, tuple) else (found,):
        yield from (vars(part).values() if isinstance(part, passes.Totals) else (part,))


def test_a_line_of_the_squared_hinge_only():
    # The derivative at the start is handed over: rows tell how it grows.
    data = Data("array", oracle.HINGE)
    found = Along(*data.point(), data.dw, data.db, np.zeros((1, 1)))(data.block())
    np.testing.assert_array_equal(found.bends, np.zeros((1, 1)))
    inside, change = active(data, *data.point()), data.X @ data.dw + data.db
    np.testing.assert_allclose(found.growth, data.costs @ (change**2 * inside), rtol=1e-12)
