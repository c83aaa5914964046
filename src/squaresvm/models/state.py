"""A trained model that holds its rows, whole and frozen: rows, numbers of the fit, solution, certificate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.factors import CholeskyFactor
from squaresvm.judging.calibration import Calibration
from squaresvm.judging.leave_one_out import Cost, fixed_set, leave_one_out_at_cost
from squaresvm.judging.left_out import FOLDS, LeftOut, left_out, values_by_folds
from squaresvm.judging.scores import variances
from squaresvm.kernels import Kernel
from squaresvm.linalg.blas import times
from squaresvm.models import updates
from squaresvm.models.factor_steps import Watch
from squaresvm.models.model import Known, Model, NewRows, Update
from squaresvm.models.ownership import Claim, SupersededError
from squaresvm.models.problems import make_problem, positive
from squaresvm.operators import DenseOperator, LinearOperator, Operator, StoredOperator
from squaresvm.problem import Loss, Problem
from squaresvm.problem.products import is_large
from squaresvm.rows import Rows
from squaresvm.solution import Certificate, Factor, Solution
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["State"]

#: Bytes of w beyond which sparse rows with fewer entries than columns predict without it.
_LARGE_W = 2**26


@dataclass(frozen=True, eq=False, kw_only=True)
class State(Model):
    """A model as it stands after `fit`, `learn` or `forget`. Nothing in it changes any more.

    Parameters
    ----------
    rows : Rows
        All rows held. The solution is of the problem over those of positive weight.
    operator : Operator or None
        How K is reached; None: made from the rows when asked for.
    requests : int, default=0
        Requests since the residual of all rows was last taken.
    watch : Watch or None
        Random combinations of all rows, by which drift is seen between full checks.
    is_verified : bool, default=True
        Whether factor and multipliers were computed here. What came from a file is checked in full before
        the first receipt.
    claim : Claim
        To the buffers that requests change, see :mod:`squaresvm.models.ownership`.
    known : Known
        What has been computed already.
    """

    rows: Rows
    operator: Operator | None
    requests: int = 0
    watch: Watch | None = None
    is_verified: bool = True
    claim: Claim = field(default_factory=Claim)
    known: Known = field(default_factory=Known)

    # What belongs to the rows ----------------------------------------------------------------------

    @cached_property
    def weights(self) -> FloatArray:
        """Sample weight times class weight of each row held."""
        return self.settings.row_weights(self.rows.y, self.rows.weights)

    @property
    def given_weights(self) -> FloatArray:
        """Sample weight of each row held as the caller gave it: what probabilities and scores go by."""
        return self.rows.weights if self.rows.given is None else self.rows.given

    @cached_property
    def held(self) -> IntArray:
        """Where the rows of the problem, those of positive weight, stand among the rows held."""
        return positive(self.weights)

    @property
    def n_rows(self) -> int:
        """Number of rows held."""
        return self.rows.count

    @property
    def is_flat(self) -> bool:
        """Whether values of a regression came, and go, as one a row: y may be a column as well."""
        return self.rows.y.ndim == 1

    def like_held(self, X: Matrix) -> Matrix:
        """Return new rows dense or sparse, whichever the rows held are."""
        if sp.issparse(self.rows.base):
            return X if sp.issparse(X) else sp.csr_matrix(X)
        return X.toarray() if sp.issparse(X) else X

    def takes_shape(self, y: np.ndarray[Any, Any]) -> bool:
        """Return whether new values of a regression come in the shape of those that it was fitted on."""
        return y.ndim == self.rows.y.ndim and super().takes_shape(y)

    @property
    def holds_rows(self) -> bool:
        """Whether the model has the rows that it is of."""
        return True

    def holding(self, what: str) -> State:
        """Return the model itself, with its rows."""
        return self

    def attribute(self, name: str) -> Any:
        """Return what only a model that holds its rows has."""
        return getattr(self, name)

    # Buffers that requests change: see `ownership` -------------------------------------------------

    @property
    def problem(self) -> Problem:
        """The problem that the solution belongs to; over buffers of its own once others have the line's."""
        if not self.claim.is_live:
            return self._own_problem()
        if self.known.problem is None:
            self.known.problem = self._make_problem(self.operator)
        return self.known.problem

    def _own_problem(self) -> Problem:
        known = self.known
        if known.own_problem is None:
            linear = known.problem is not None and isinstance(known.problem.operator, LinearOperator)
            struck = self.solution.primal is not None and self.rows.may_be_erased
            if self.settings.kernel is None or struck:
                raise SupersededError(
                    "a later request has replaced this model, and what this needs was removed with the rows "
                    "that were forgotten: use the current model, or copy a model before the request"
                )
            known.own_problem = known.problem if linear else self._make_problem(None)
        assert known.own_problem is not None
        return known.own_problem

    def _make_problem(self, operator: Operator | None) -> Problem:
        in_w = self.solution.primal is not None
        return make_problem(self.rows, self.settings, self.classes, operator, in_w)

    @property
    def factor(self) -> Factor | None:
        """What factor the solution came with, as long as it may be used."""
        return self.solution.factor if self.claim.is_live else None

    def kernel_factor(self) -> CholeskyFactor:
        """Return the factor of H: the current one, or one made now and kept."""
        problem, known = self.problem, self.known
        found = self.factor if known.factor is None else known.factor
        factor = CholeskyFactor.current(found, problem)
        if factor is not self.factor:
            known.factor = factor
        return factor

    @property
    def current_solution(self) -> Solution:
        """The solution with a factor that may be used, or none."""
        factor = self.factor
        if self.known.factor is not None and self.known.factor.is_current:
            factor = self.known.factor
        return self.solution if factor is self.solution.factor else replace(self.solution, factor=factor)

    # What can be asked -----------------------------------------------------------------------------

    @property
    def certificate(self) -> Certificate:
        """Residual of all rows, gap, objective, status."""
        if self.known.certificate is None:
            self.known.certificate = self.problem.certify(self.solution, self.settings.tol)
        return self.known.certificate

    @property
    def claimed(self) -> Certificate:
        """What the model says of itself: as it came, where it came from elsewhere, or its certificate."""
        return self.certificate if self.known.claimed is None else self.known.claimed

    @property
    def calibration(self) -> Calibration | None:
        """The map to probabilities, once it has been asked for."""
        return self.known.calibration

    @cached_property
    def primal(self) -> FloatArray | None:
        """The vector w, of shape (n, k), of a linear model; None for other kernels."""
        if self.solution.primal is not None or not self.settings.is_linear:
            return self.solution.primal
        assert self.solution.beta is not None
        return times(self.rows.take(self.held).T, self.solution.beta)

    @property
    def _is_wider_than_its_entries(self) -> bool:
        """Whether w would take far more memory than sparse rows do: they may name any column up to 2^31."""
        base: Any = self.rows.base
        if self.solution.primal is not None or not self.settings.is_linear or not sp.issparse(base):
            return False
        return bool(8 * base.shape[1] * self.solution.bias.size > _LARGE_W and base.shape[1] > base.nnz)

    @property
    def expansion(self) -> FloatArray:
        """Coefficients of k(x_i, .) in f, of shape (m, k), over the problem's rows."""
        if self.solution.beta is not None and not self.settings.proximal:
            return self.solution.beta
        if self.known.expansion is None:
            problem = self.problem
            self.known.expansion = problem.operator.expand(problem.multipliers(self.solution))
        return self.known.expansion

    @cached_property
    def support(self) -> IntArray:
        """Where the rows with a coefficient that is not zero stand among those held."""
        used: IntArray = np.flatnonzero(np.any(self.expansion != 0.0, axis=1))
        return self.held[used]

    @cached_property
    def dual_coef(self) -> FloatArray:
        """Coefficients of the support rows, of shape (k, n_support)."""
        used = np.any(self.expansion != 0.0, axis=1)
        return np.ascontiguousarray(self.expansion[used].T)

    def decision(self, X: Matrix) -> FloatArray:
        """Return f at new rows, of shape (rows, k)."""
        if not self._is_wider_than_its_entries and self.primal is not None:
            return super().decision(X)
        if self.settings.kernel is None:
            if X.shape[1] != self.rows.count:
                raise ValueError(
                    f"kernel values with {self.rows.count} rows are needed, in the order of ids_; "
                    f"got {X.shape[1]} columns"
                )
            X = X if self.held.size == self.rows.count else X[:, self.held]
        # Kernel values with new rows come from the rows themselves and from no buffer.
        known = self.known.problem
        operator = self.problem.operator if known is None else known.operator
        return operator.cross(X, self.expansion) + self.solution.bias

    def leave_one_out(self, fixed: bool = False) -> FloatArray:
        """Return f at each row of positive weight, of the model without that row, of shape (m, k)."""
        known, (problem, solution) = self.known, self.judged
        if fixed and self.settings.loss == Loss.SQUARED_HINGE:
            return fixed_set(problem, solution)
        if known.left_out is None:
            known.left_out, known.loo_cost = leave_one_out_at_cost(problem, solution, self.settings.tol)
            known.left_out.flags.writeable = False
        return known.left_out

    @property
    def calibrated_on(self) -> str:
        """Which values probabilities are calibrated on."""
        Z = self.problem.operator.features
        if Z is not None and is_large(Z):
            return f"values of {FOLDS} folds, each by a warm re-solve without it"
        is_squared = self.settings.loss == Loss.SQUARED
        return "leave-one-out values" + ("" if is_squared else " with the active set held fixed")

    def values_to_calibrate_on(self) -> FloatArray:
        """Return f at each row of positive weight, of a model without it, of shape (m, k)."""
        Z = self.problem.operator.features
        if Z is None or not is_large(Z):
            return self.leave_one_out(fixed=True)
        labels = self.rows.y[self.held].reshape(self.held.size, -1)[:, 0]  # Of several the first.
        return values_by_folds(*self.judged, labels, self.settings.tol)

    def variances(self, X: Matrix) -> FloatArray:
        """Return the variance of f at new rows, of shape (rows, k), of the Gaussian process that it is."""
        kernel = self.settings.kernel
        if kernel is None:
            raise ValueError(
                "return_std needs k(x, x) of the rows, which a precomputed kernel matrix does not hold: give "
                "the kernel as a callable"
            )
        alike = variances(*self.judged, X, kernel, lambda: self.rows.take(self.held))
        return np.repeat(alike[:, None], self.solution.bias.size, axis=1)

    def without_folds(self, folds: Sequence[IntArray]) -> FloatArray:
        """Return f at each row of positive weight, of the model without its fold, of shape (m, k).

        Parameters
        ----------
        folds : sequence of ndarrays
            Positions among the rows of positive weight: each in one fold; some folds may have none.
        """
        if max(rows.size for rows in folds) < 2 and self.settings.loss == Loss.SQUARED:
            return self.leave_one_out()
        begin, steps = time.perf_counter(), list[int]()
        values, without = np.empty_like(self.problem.targets), self.left_out(steps)
        for rows in folds:
            if rows.size:
                values[rows] = without.values(rows)
        self.known.loo_cost = Cost(len(steps), sum(steps), time.perf_counter() - begin)
        return values

    def left_out(self, steps: list[int] | None = None) -> LeftOut:
        """Return the models without some of the rows of positive weight; re-solves note their steps."""
        if self.problem.loss == Loss.SQUARED and self.problem.operator.features is None:
            self.kernel_factor()  # Kept, where the solver made none.
        problem, solution = self.judged
        return left_out(problem, solution, self.settings.tol, steps)

    @property
    def judged(self) -> tuple[Problem, Solution]:
        """Problem and solution for questions about rows left out.

        Of wide rows that a linear model holds without a kernel matrix it has one, the smaller system, unless
        that would be far larger than the rows.
        """
        problem = self.problem
        Z = problem.operator.features
        if Z is None or Z.shape[1] < Z.shape[0] or is_large(Z):
            return problem, self.current_solution
        return self._by_kernel

    @cached_property
    def _by_kernel(self) -> tuple[Problem, Solution]:
        problem = self.problem
        operator = DenseOperator(Kernel("linear"), problem.operator.features)
        whole = Problem(operator, problem.targets, problem.costs, problem.loss, problem.bias)
        beta = problem.multipliers(self.solution)
        return whole, replace(self.solution, beta=beta, primal=None, factor=None)

    # From one state to the next --------------------------------------------------------------------

    def learn(self, new: NewRows) -> Update:
        """Return the model with new rows."""
        return updates.learn(self, new)

    def positions_of(self, ids: Any) -> IntArray:
        """Return where the rows of some ids stand, at least one."""
        return self.rows.ids.some_positions(ids)

    def forget(self, positions: IntArray, *, verify: bool = False) -> Update:
        """Return the model without the rows at some positions."""
        return updates.forget(self, positions, verify=verify)

    def forget_rows(self, gone: NewRows) -> Update:
        """Raise a ValueError: the rows of this model have names."""
        raise ValueError("the rows of this model are held under ids: use forget(ids)")

    def forget_from(self, source: Source, numbers: list[Any]) -> Update:
        """Raise a ValueError: the rows of this model have names."""
        raise ValueError("the model holds its rows, and forgets them by their ids: give no source")

    def flushed(self) -> State:
        """Return the model with nothing left in its factor that stems from forgotten rows."""
        factor, solution = self.factor, self.solution
        flushed = None if factor is None else factor.flushed()
        if flushed is not factor:
            solution = replace(solution, factor=flushed)
        rows = self.rows.compact()
        if solution is self.solution and rows is self.rows:
            return self
        # The model is the same: what was computed from a buffer that requests change is not computed again.
        known = self.known.without_buffers()
        operator = self.operator if rows is self.rows else None
        if rows is self.rows:
            known.problem = self.known.problem
        return replace(self, solution=solution, rows=rows, operator=operator, known=known)

    def detached(self) -> State:
        """Return the same model with store, factor and rows of its own: requests to one leave the other."""
        operator = None
        if self.settings.kernel is None:
            shared = self.problem.operator
            assert isinstance(shared, StoredOperator)
            operator = shared.private()
        return replace(
            self,
            rows=self.rows.private(),
            operator=operator,
            solution=replace(self.solution, factor=None),
            watch=None,
            claim=Claim(),
            known=self.known.without_buffers(),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be computed again; a precomputed K is kept."""
        names = ("rows", "settings", "classes", "solution", "solver", "reason", "is_verified")
        kept = {name: getattr(self, name) for name in names}
        kept["calibration"] = self.known.calibration
        kept["claimed"] = self.known.claimed or self.known.certificate
        kept["operator"] = self.operator if self.settings.kernel is None else None
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Restore a state, the owner of a line of its own."""
        known = Known(calibration=kept.pop("calibration", None), claimed=kept.pop("claimed", None))
        self.__dict__.update(kept, requests=0, watch=None, claim=Claim(), known=known)
