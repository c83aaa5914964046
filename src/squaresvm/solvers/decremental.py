"""DOLSVM, DBLSVM, DOLSSVM and DBLSSVM of Duan, Li, He and Zeng: inv(Q) of the rows that stay comes by blocks.

Equation numbers are those of the decremental paper. Its alpha are signed for the LS-SVM, and not for
the Lagrangian SVM; here they are for both, so that Q = K + diag(1/C) has no labels and serves all classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from squaresvm.linalg.blas import times
from squaresvm.linalg.lapack import cholesky_with_jitter, invert_cholesky_in_place, lower_root, solve_definite
from squaresvm.operators import ProximalOperator
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Factor, Solution
from squaresvm.solvers.direct import refined
from squaresvm.solvers.lagrangian import Lagrangian
from squaresvm.typing import FloatArray, IntArray

__all__ = ["DBLSSVM", "DBLSVM", "DOLSSVM", "DOLSVM", "ExplicitInverse", "StoredInverse", "decremental_for"]


class StoredInverse(Factor):
    """inv(Q), Q = K + diag(1/C), kept whole: what is known before rows leave.

    Parameters
    ----------
    values : ndarray of shape (m, m)
        The inverse, symmetric.
    bias : Bias
        Takes its part as a border, so that a small A does no harm to the inverse.
    is_fresh : bool, default=True
        Whether it was computed from Q, and not by blocks from another inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.problem import Bias
    >>> from squaresvm.solvers.decremental import StoredInverse
    >>> Q = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
    >>> rest = StoredInverse(np.linalg.inv(Q), Bias.free()).without(np.array([1]))
    >>> rest.values.round(12) + 0.0
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    def __init__(self, values: FloatArray, bias: Bias, is_fresh: bool = True) -> None:
        self.values = values
        self.bias = bias
        self.is_fresh = is_fresh
        self._ones = values.sum(axis=1)

    @classmethod
    def of(cls, problem: Problem) -> StoredInverse:
        """Return the inverse of a problem's Q, O(m^3): what the paper calls solving it directly."""
        everyone = np.arange(problem.n_rows)
        Q = problem.operator.block(everyone, everyone)
        diagonal = np.diagonal(Q) + problem.ridge
        inverse = np.array(Q, order="F")

        def refill() -> None:
            inverse[:] = Q

        cholesky_with_jitter(inverse, diagonal, refill)
        invert_cholesky_in_place(inverse)  # inv(Q), which (7) asks for.
        lower = np.tril(inverse, -1)
        return cls(lower + lower.T + np.diag(np.diagonal(inverse)), problem.bias)

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    def without(self, gone: IntArray) -> StoredInverse:
        """Return the inverse of the rows that stay, O(m^2 k).

        Parameters
        ----------
        gone : ndarray
            Positions of the k rows that leave, each once.

        Raises
        ------
        LinAlgError
            U_11 is not positive definite: rounding has taken over, and the inverse must be computed anew.
        """
        rest = dropped(np.arange(self.size), gone)
        U_11 = self.values[np.ix_(gone, gone)]  # The blocks of (8), whatever the order of the rows is.
        U_12 = self.values[np.ix_(gone, rest)]
        U_rest = self.values[np.ix_(rest, rest)]
        U_rest -= times(U_12.T, solve_definite(U_11, U_12))  # (9); a number divides where one row leaves.
        return StoredInverse(U_rest, self.bias, is_fresh=False)

    def joined(self, cross: FloatArray, corner: FloatArray) -> StoredInverse:
        """Return the inverse with k rows more, O(m^2 k): (8) read the other way round.

        Parameters
        ----------
        cross : ndarray of shape (m, k)
            Q between rows held and new ones.
        corner : ndarray of shape (k, k)
            Q of the new ones.
        """
        m, k = cross.shape
        reached = times(self.values, cross)
        schur = corner - times(cross.T, reached)
        lower_root(schur)  # Raises a LinAlgError unless it is definite.
        U_22 = solve_definite(schur, np.eye(k))
        beside = -times(reached, U_22)
        values = np.empty((m + k, m + k))
        values[:m, :m] = self.values - times(beside, reached.T)  # (9), solved for U_rest.
        values[:m, m:], values[m:, :m], values[m:, m:] = beside, beside.T, U_22
        return StoredInverse(values, self.bias, is_fresh=False)

    def bordered(self, rhs: FloatArray, border: FloatArray | float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Return alpha and b: (7) and (12) with y = rhs where the bias is free.

        A penalised bias adds A to the denominator; alpha is then inv(Q + 1 1'/A) rhs.
        """
        alpha = times(self.values, rhs)  # inv(Q) y.
        if self.bias.is_absent:
            return alpha, np.zeros(rhs.shape[1])
        b = (alpha.sum(axis=0) - border) / (self.bias.penalty + self._ones.sum())  # (7) and (12), left.
        return alpha - np.outer(self._ones, b), b  # (7) and (12), right.

    def refine(self, problem: Problem, solution: Solution) -> Solution:
        """Return the solution of the squared loss after a step of iterative refinement."""
        beta, bias = solution.beta, solution.bias
        assert beta is not None
        defect = problem.targets - problem.decision(solution) - problem.ridge[:, None] * beta
        if self.bias.is_absent:
            pull: FloatArray | float = 0.0
        else:
            pull = self.bias.penalty * bias - beta.sum(axis=0)
        step, shift = self.bordered(defect, pull)
        return Solution(beta=beta + step, bias=bias + shift, factor=self)

    def wipe(self) -> None:
        """Overwrite the inverse: rows have left, and nothing of them is to stay."""
        self.values[:] = 0.0
        self._ones[:] = 0.0


@dataclass(frozen=True)
class ExplicitInverse:
    r"""The LS-SVM by the inverse of Q itself, equation (7) of the decremental paper.

    See Also
    --------
    Direct : The same by a Cholesky factor, in a third of the time and more precisely.

    Notes
    -----
    With Q = K + diag(1/C),

    .. math::
        b = \frac{\mathbf 1^\top Q^{-1} y}{A + \mathbf 1^\top Q^{-1} \mathbf 1}, \qquad
        \alpha = Q^{-1} (y - b\, \mathbf 1)

    where the paper has A = 0. The inverse is kept, and `forget` goes on from it by DOLSSVM, where one row
    leaves, or DBLSSVM, where several do: (9) for the inverse and (12) for the solution. `learn` adds rows to
    the inverse by the same blocks.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> model = LSSVC(solver="inverse").fit(*load_iris(return_X_y=True))
    >>> receipt = model.forget([3])
    >>> model.solver_
    'DOLSSVM'
    """

    name = "inverse"
    solves = "the squared loss with any bias, through a kernel matrix of the rows alone"

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared one, and K a matrix that does not change with its rows."""
        is_kernel = problem.operator.features is None and not isinstance(problem.operator, ProximalOperator)
        return problem.loss == Loss.SQUARED and is_kernel

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution with its inverse; `start` is of no use here."""
        return self.solve_with(problem, StoredInverse.of(problem), tol=tol)

    def solve_with(self, problem: Problem, inverse: StoredInverse, *, tol: float) -> Solution:
        """Return the same with the inverse at hand."""
        alpha, b = inverse.bordered(problem.targets)  # (7), or (12) after rows have left.
        solution = Solution(beta=alpha, bias=b, factor=inverse)
        return refined(problem, solution, tol, lambda found: inverse.refine(problem, found))


class _Decremental(ABC):
    """Rows leave: (9) for the inverse, and the solution by it."""

    def forget(
        self,
        rest: Problem,
        before: StoredInverse,
        gone: IntArray,
        *,
        tol: float,
        max_iter: int | None = None,
        start: Solution | None = None,
    ) -> Solution:
        """Return the solution of the rows that stay.

        Parameters
        ----------
        rest : Problem
            Of the rows that stay.
        before : StoredInverse
            Of all rows.
        gone : ndarray
            Which of all rows leave.
        tol : float
        max_iter : int, optional
        start : Solution, optional
            Multipliers of the rows that stay, as they were; from inv(Q) e where there are none.
        """
        inverse = before.without(gone)  # (9): step 3 of Section 3.2, and step 2 of Section 3.3.
        return self.solve_with(rest, inverse, tol=tol, max_iter=max_iter, start=start)

    @abstractmethod
    def solve_with(
        self,
        problem: Problem,
        inverse: StoredInverse,
        *,
        tol: float,
        max_iter: int | None = None,
        start: Solution | None = None,
    ) -> Solution:
        """Return the solution with the inverse at hand."""


@dataclass(frozen=True)
class DBLSVM(_Decremental):
    r"""Batch decremental Lagrangian SVM: several rows leave, and the fixed point goes on.

    Parameters
    ----------
    iteration : Lagrangian, optional
        With the options of the fixed point: ``Lagrangian(stop='step')`` stops as step 5 of the paper does,
        with ``|alpha_new - alpha|`` within the tolerance.

    Notes
    -----
    Steps 1 to 5 of Section 3.2: (9) gives the inverse of the rows that stay, and from their multipliers

    .. math::
        \alpha \leftarrow Q^{-1}\bigl(((Q \alpha - e) - \lambda \alpha)_+ + e\bigr)

    is iterated, (10), with lambda = 1.9 / C. ``LagrangianSVC(solver='lagrangian').forget`` is this algorithm.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LagrangianSVC
    >>> model = LagrangianSVC(solver="lagrangian").fit(*load_iris(return_X_y=True))
    >>> receipt = model.forget([3, 77])
    >>> model.solver_, receipt.residual <= model.tol
    ('DBLSVM', True)
    """

    iteration: Lagrangian = field(default_factory=Lagrangian)
    name = "DBLSVM"
    loss = Loss.SQUARED_HINGE

    def solve_with(
        self,
        problem: Problem,
        inverse: StoredInverse,
        *,
        tol: float,
        max_iter: int | None = None,
        start: Solution | None = None,
    ) -> Solution:
        """Return the fixed point of (10) with the inverse at hand."""
        # (10), steps 2, 4 and 5: (15) of the LSVM paper, from the multipliers that were.
        found = self.iteration.solve_with(problem, inverse, tol=tol, max_iter=max_iter, start=start)
        return replace(found, factor=inverse)


@dataclass(frozen=True)
class DOLSVM(DBLSVM):
    """Online decremental Lagrangian SVM: one row leaves, and U_11 of (9) is a number.

    See :class:`DBLSVM`.
    """

    name = "DOLSVM"


@dataclass(frozen=True)
class DBLSSVM(_Decremental):
    """Batch decremental LS-SVM: several rows leave, (9) gives the inverse and (12) the solution.

    Steps 1 to 3 of Section 3.3 of the decremental paper; ``LSSVC(solver='inverse').forget`` does them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> model = LSSVC(solver="inverse").fit(*load_iris(return_X_y=True))
    >>> receipt = model.forget([3, 77])
    >>> model.solver_, receipt.residual <= model.tol
    ('DBLSSVM', True)
    """

    name = "DBLSSVM"
    loss = Loss.SQUARED

    def solve_with(
        self,
        problem: Problem,
        inverse: StoredInverse,
        *,
        tol: float,
        max_iter: int | None = None,
        start: Solution | None = None,
    ) -> Solution:
        """Return the solution (12) with the inverse at hand."""
        return ExplicitInverse().solve_with(problem, inverse, tol=tol)  # (12), step 3.


@dataclass(frozen=True)
class DOLSSVM(DBLSSVM):
    """Online decremental LS-SVM: one row leaves, and U_11 of (9) is a number.

    See :class:`DBLSSVM`.
    """

    name = "DOLSSVM"


def decremental_for(loss: Loss, count: int, asked: object) -> DBLSVM | DBLSSVM:
    """Return the algorithm for so many rows that leave.

    Parameters
    ----------
    loss : Loss
    count : int
    asked : object
        What ``solver=`` was given: a `Lagrangian` has options of its own.
    """
    if loss == Loss.SQUARED:
        return DOLSSVM() if count == 1 else DBLSSVM()
    iteration = asked if isinstance(asked, Lagrangian) else Lagrangian()
    return DOLSVM(iteration) if count == 1 else DBLSVM(iteration)
