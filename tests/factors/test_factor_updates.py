"""Factors that rows come to and go from, in any order, against dense inverses made anew each time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squaresvm.factors import CholeskyFactor
from squaresvm.factors import slot_inverse as slot_inverse_module
from squaresvm.factors.slot_inverse import PENDING_LIMIT, Form
from squaresvm.operators import KernelStore, PrecomputedOperator
from support import oracle, problems

every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=problems.BIASES.keys())


class Naive:
    """H, the targets, and (beta, b) by a dense inverse of the bordered matrix."""

    def __init__(self, H, Y, A):
        self.H, self.Y, self.A = H, Y, A

    @property
    def inverse(self):
        m = len(self.H)
        if self.A == oracle.NONE:
            return np.linalg.inv(self.H)
        M = np.ones((m + 1, m + 1))
        M[:m, :m], M[m, m] = self.H, -self.A
        return np.linalg.inv(M)

    def assert_equal(self, factor, solution, accuracy=1e-8):
        """Assert that a factor, and the solution that came along with it, are those of H."""
        m, N = len(self.H), self.inverse
        best = N[:, :m] @ self.Y
        beta, bias = best[:m], best[m] if self.A != oracle.NONE else np.zeros(self.Y.shape[1])
        for found in (solution, factor.solve(self.Y)):
            np.testing.assert_allclose(found.beta, beta, rtol=0, atol=accuracy)
            np.testing.assert_allclose(found.bias, bias, rtol=0, atol=accuracy)
        np.testing.assert_allclose(factor.diag_inverse(), np.diagonal(N)[:m], rtol=accuracy)
        unit = np.eye(m)[:, [m // 2]]
        column, beside = factor.bordered(unit)
        np.testing.assert_allclose(column[:, 0], N[:m, m // 2], rtol=0, atol=accuracy)
        if self.A != oracle.NONE:
            np.testing.assert_allclose(beside, N[m, m // 2], rtol=0, atol=accuracy)


class Subject:
    """A factor over a pool of rows, with the operator that gives them slots, beside the naive one."""

    def __init__(self, A, m=20, columns=3, seed=0, pool=200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(pool, 3))
        self.K = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
        self.ridge = 1.0 / rng.uniform(0.3, 8.0, pool)
        self.Y = rng.normal(size=(pool, columns)) + 2.0
        self.A, self.rows, self.waiting = A, list(range(m)), list(range(m, pool))
        self.operator = PrecomputedOperator(self.K[:m, :m])
        store, slots = self.operator.store(), self.operator.slots
        self.factor = CholeskyFactor.build(store, slots, self.ridge[:m], problems.bias_of(A))
        self.solution = self.factor.solve(self.Y[:m])

    @property
    def naive(self):
        rows = self.rows
        return Naive(self.K[np.ix_(rows, rows)] + np.diag(self.ridge[rows]), self.Y[rows], self.A)

    def remove(self, positions):
        keep = np.ones(len(self.rows), dtype=bool)
        keep[positions] = False
        self.factor, self.solution = self.factor.remove(np.array(positions), self.solution)
        before, self.operator = self.operator, self.operator.without(np.array(positions), None)
        before.clear(np.flatnonzero(~keep))
        self.waiting += [self.rows[i] for i in np.flatnonzero(~keep)]
        self.rows = [self.rows[i] for i in np.flatnonzero(keep)]

    def append(self, count):
        new, self.waiting = self.waiting[:count], self.waiting[count:]
        self.rows += new
        self.operator, cross, corner = self.operator.joined(self.K[np.ix_(new, self.rows)])
        shortfall = self.Y[new] - cross.T @ self.solution.beta - self.solution.bias
        slots = self.operator.slots[-count:]
        self.factor, self.solution = self.factor.append(
            slots, cross, corner, self.ridge[new], shortfall, self.solution
        )
        return slots

    def check(self):
        self.naive.assert_equal(self.factor, self.solution)


@st.composite
def sequences(draw):
    """Return what is to happen to a factor: removals, arrivals, repairs, in any order."""
    actions = ["remove", "append", "repair", "rebuild", "invert"]
    steps = st.tuples(st.sampled_from(actions), st.integers(1, 12), st.integers(0, 10**6))
    return draw(st.sampled_from([*problems.BIASES.values()])), draw(st.lists(steps, min_size=1, max_size=14))


@given(sequences())
def test_any_sequence(drawn):
    A, steps = drawn
    subject = Subject(A)
    for action, count, seed in steps:
        if action == "remove" and len(subject.rows) > count + 1:
            some = np.random.default_rng(seed).permutation(len(subject.rows))[:count]
            subject.remove(some.tolist())
        elif action == "append":
            subject.append(count)
        elif action == "repair":
            subject.factor = subject.factor.repaired()
        elif action == "rebuild":
            subject.factor = subject.factor.rebuilt()
        elif action == "invert":
            subject.factor = subject.factor.inverted()
        subject.check()


@every_bias
class TestForms:
    def test_rows_extend_a_cholesky_factor(self, A, block_size):
        """Behind the last row, with nothing waiting, no correction is needed."""
        subject = Subject(A)
        for count in (1, 4, 30):
            subject.append(count)
            assert subject.factor.inverse.form is Form.CHOLESKY
            assert subject.factor.signs.size == 0
            subject.check()
        subject.remove([0, 53, 20])
        subject.check()
        subject.append(2)
        assert subject.factor.signs.size == 5
        subject.check()

    def test_many_requests_turn_it_into_the_inverse(self, A, block_size):
        subject = Subject(A)
        for request in range(8):
            subject.remove([request])
            assert (subject.factor.inverse.form is Form.INVERSE) == (request >= 4)
            subject.check()
        subject.append(3)
        subject.check()

    def test_slots_are_used_again(self, A):
        subject = Subject(A, m=12)
        subject.remove([3, 7])
        assert sorted(subject.append(1).tolist() + subject.append(2).tolist()) == [3, 7, 12]
        subject.check()
        subject.factor = subject.factor.repaired()
        assert subject.factor.size == 13
        everyone = np.arange(len(subject.rows))
        held = subject.operator.block(everyone, everyone)
        np.testing.assert_array_equal(held, subject.K[np.ix_(subject.rows, subject.rows)])
        subject.check()

    @pytest.mark.parametrize("inverted", [False, True], ids=["Cholesky", "inverse"])
    def test_the_store_grows(self, A, inverted):
        """Far beyond the room that it began with, and while corrections wait."""
        subject = Subject(A, m=6)
        capacity = subject.operator.store()._buffer.shape[1]
        if inverted:
            subject.factor = subject.factor.inverted()
        subject.remove([2])
        while len(subject.rows) < 3 * capacity:
            subject.append(5)
            subject.check()
            if not subject.factor.can_wait:
                subject.factor = subject.factor.repaired()
                subject.check()
        assert subject.operator.store()._buffer.shape[1] > capacity

    @pytest.mark.parametrize("count", [1, 7, 20])
    def test_corrections_wait_until_there_are_64(self, A, count):
        subject = Subject(A, m=150)
        done = 0
        while subject.factor.can_wait:
            subject.remove(list(range(count)))
            done += count
            assert subject.factor.signs.size == done
        assert PENDING_LIMIT <= done < PENDING_LIMIT + count
        subject.check()
        subject.factor = subject.factor.repaired()
        assert subject.factor.signs.size == 0
        assert subject.factor.can_wait
        subject.check()
        subject.remove([4])
        subject.check()

    def test_a_batch_on_top_of_those_that_wait(self, A):
        """The last request before a repair may bring as many rows again."""
        subject = Subject(A, m=180)
        for _ in range(PENDING_LIMIT - 1):
            subject.remove([0])
        subject.remove(list(range(PENDING_LIMIT)))
        subject.check()
        subject.factor = subject.factor.repaired()
        subject.check()


@every_bias
class TestHalfway:
    """Many rows that leave a Cholesky factor at once: their columns are finished when somebody asks."""

    @staticmethod
    def begun(A):
        subject = Subject(A, m=40)
        subject.remove(list(range(3, 27, 2)))
        assert subject.factor.inverse._halfway == 12
        return subject

    def test_the_solution_needs_no_more(self, A):
        subject = self.begun(A)
        m, N = len(subject.rows), subject.naive.inverse
        np.testing.assert_allclose(subject.solution.beta, N[:m, :m] @ subject.Y[subject.rows], atol=1e-9)
        assert subject.factor.inverse._halfway == 12

    @pytest.mark.parametrize("mend", ["repaired", "rebuilt", "flushed", "inverted"])
    def test_then_mended(self, A, mend):
        subject = self.begun(A)
        subject.factor = getattr(subject.factor, mend)()
        assert subject.factor.inverse._halfway == 0
        subject.check()

    @pytest.mark.parametrize("count", [1, 12])
    def test_then_more_rows_leave(self, A, count):
        subject = self.begun(A)
        subject.remove(list(range(count)))
        assert subject.factor.inverse._halfway == 0
        subject.check()

    def test_then_rows_come(self, A):
        subject = self.begun(A)
        subject.append(30)
        subject.check()

    def test_and_given_up(self, A):
        """A request that fails leaves its columns behind: those of the next take their place."""
        subject = Subject(A, m=40)
        subject.factor.remove(np.arange(10), subject.solution)
        subject.check()
        subject.append(5)
        subject.check()
        subject.remove([7])
        subject.check()

    def test_beside_an_extension_that_was_given_up(self, A):
        subject = Subject(A, m=40)
        factor, solution, naive = subject.factor, subject.solution, subject.naive
        subject.append(3)
        gone = np.arange(9)
        factor, solution = factor.remove(gone, solution)
        Naive(naive.H[9:, 9:], naive.Y[9:], A).assert_equal(factor, solution)


@every_bias
class TestViews:
    def test_older_ones_stay_valid_until_a_repair(self, A):
        """Through removals, arrivals, the change to an inverse, and more room."""
        subject = Subject(A, m=14)
        seen = []
        for step in range(9):
            seen.append((subject.factor, subject.solution, subject.naive))
            if step % 3 == 2:
                subject.append(4)
            else:
                subject.remove([step, 0] if step else [5])
            for factor, solution, naive in seen:
                assert factor.is_current
                naive.assert_equal(factor, solution)

    def test_older_ones_stay_valid_after_an_extension(self, A):
        subject = Subject(A, m=10)
        before = subject.factor, subject.solution, subject.naive
        subject.append(3)
        middle = subject.factor, subject.solution, subject.naive
        subject.append(25)
        for factor, solution, naive in (before, middle):
            assert factor.is_current
            naive.assert_equal(factor, solution)

    @pytest.mark.parametrize("mend", ["repaired", "rebuilt", "flushed"])
    def test_a_repair_ends_older_ones(self, A, mend):
        subject = Subject(A)
        first = subject.factor
        subject.remove([2, 3])
        second = subject.factor
        subject.factor = getattr(subject.factor, mend)()
        assert subject.factor.is_current
        assert not first.is_current
        assert not second.is_current
        assert not subject.factor.inverse.pending.any()
        subject.check()

    def test_nothing_to_wipe_is_left_alone(self, A):
        factor = Subject(A).factor
        assert factor.flushed() is factor

    def test_an_interrupted_repair_leaves_none(self, A, monkeypatch):
        subject = Subject(A)
        subject.remove([2])

        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(slot_inverse_module, "gram_update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            subject.factor.repaired()
        assert not subject.factor.is_current


@every_bias
class TestShifted:
    """H + V diag(scale) V': what landmarks that come and go do to the nonlinear proximal model."""

    def begin(self, A, m=18):
        rng = np.random.default_rng(3)
        half = rng.normal(size=(m, m))
        naive = Naive(half @ half.T / m + np.diag(rng.uniform(0.5, 2.0, m)), rng.normal(size=(m, 2)), A)
        ridge = rng.uniform(0.1, 0.4, m)
        K = naive.H - np.diag(ridge)
        store = KernelStore(m, lambda rows, columns: K[rows, columns])
        factor = CholeskyFactor.build(store, np.arange(m), ridge, problems.bias_of(A))
        return rng, naive, factor, factor.solve(naive.Y)

    def shift(self, rng, naive, factor, solution, scale):
        V = rng.normal(size=(len(naive.H), len(scale)))
        naive.H = naive.H + V @ np.diag(scale) @ V.T
        return V, *factor.shifted(V, scale, solution)

    @pytest.mark.parametrize("inverted", [False, True], ids=["Cholesky", "inverse"])
    def test_up_and_down(self, A, inverted):
        rng, naive, factor, solution = self.begin(A)
        factor = factor.inverted() if inverted else factor
        scale = np.array([0.7, 2.0, 0.1])
        V, factor, solution = self.shift(rng, naive, factor, solution, scale)
        naive.assert_equal(factor, solution)
        naive.H = naive.H - V @ np.diag(scale) @ V.T
        factor, solution = factor.shifted(V, -scale, solution)
        naive.assert_equal(factor, solution)
        naive.assert_equal(factor.repaired(), solution)

    def test_rows_come_and_go_in_between(self, A):
        rng, naive, factor, solution = self.begin(A)
        for step in range(12):
            _, factor, solution = self.shift(rng, naive, factor, solution, np.array([0.3, 1.1]))
            if step % 2:
                new = rng.normal(size=len(naive.H)) / 5
                factor, solution = self.append(naive, factor, solution, new)
            else:
                gone = [0, step + 1]
                factor, solution = factor.remove(np.array(gone), solution)
                naive.H = np.delete(np.delete(naive.H, gone, 0), gone, 1)
                naive.Y = np.delete(naive.Y, gone, 0)
            if not factor.can_wait or step == 5:
                factor = factor.repaired()
            naive.assert_equal(factor, solution)
        naive.assert_equal(factor.flushed(), solution)

    def append(self, naive, factor, solution, cross):
        target = np.array([[0.5, -2.0]])
        slots = factor.free_slots(1)
        shortfall = target - cross[None] @ solution.beta - solution.bias
        result = factor.append(slots, cross[:, None], np.array([[4.0]]), np.array([0.5]), shortfall, solution)
        m = len(naive.H)
        H = np.full((m + 1, m + 1), 4.5)
        H[:m, :m], H[:m, m], H[m, :m] = naive.H, cross, cross
        naive.H, naive.Y = H, np.vstack([naive.Y, target])
        return result

    def test_cannot_be_rebuilt_from_a_kernel_that_is_another(self, A):
        rng, naive, factor, solution = self.begin(A)
        _, factor, _ = self.shift(rng, naive, factor, solution, np.ones(1))
        with pytest.raises(ValueError, match="another store"):
            factor.rebuilt()
