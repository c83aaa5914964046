"""What a solver found, and what the problem says of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from squaresvm.typing import FloatArray

__all__ = ["Certificate", "Factor", "Outcome", "Solution", "Status"]


class Outcome(StrEnum):
    """How a search ended, in the solver's own view. The certificate has the last word."""

    FINISHED = "finished"
    MAX_ITER = "max_iter"
    STOPPED = "stopped"


class Status(StrEnum):
    """What the certificate says of a fit.

    Examples
    --------
    >>> from squaresvm import LSSVC
    >>> from sklearn.datasets import load_iris
    >>> model = LSSVC().fit(*load_iris(return_X_y=True))
    >>> str(model.certificate_.status)
    'converged'
    >>> model.certificate_.status.advice
    'the residual is within tol'
    """

    CONVERGED = "converged"
    PRECISION = "precision"
    MAX_ITER = "max_iter"
    STOPPED = "stopped"

    @property
    def advice(self) -> str:
        """What the status means, and what to do about it."""
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "the residual is within tol",
    Status.PRECISION: (
        "the residual is above tol but within what float64 can give for this problem; "
        "scale the columns or lower C if that is not enough"
    ),
    Status.MAX_ITER: (
        "the solver ended before tol was reached; raise max_iter, scale the columns, lower C, "
        "or choose another solver"
    ),
    Status.STOPPED: "a callback stopped the solver; the model is usable, its residual is the true one",
}


_EPSILON = 2.0**-52
#: Error of f, as a share of the targets' scale, from which on a fit that lacks precision is worth a warning.
_MATTERS = 0.1


@dataclass(frozen=True)
class Certificate:
    """How far a fit is from the optimum, computed by the problem and never by the solver.

    Parameters
    ----------
    residual : float
        Scaled violation of the optimality conditions, the quantity that `tol` bounds. Of several classes,
        the worst.
    gap : float
        Primal objective of the model less the dual objective of a feasible point beside it: no other
        model has an objective that is lower by more. Of several classes, the sum.
    objective : float
        Primal objective, ``1/2 |w|^2 + A/2 b^2 + 1/2 sum C_i xi_i^2``. Of several classes, the sum.
    status : Status
    decision_error : float or None, default=None
        Where the status is not ``converged``: a bound on ``|f - f*|`` at the training rows, f* the decision
        function of the optimum, in units of the largest ``|y|`` (1 for classes); of several classes, the
        largest. It follows from the gap G, as the objective is strongly convex. With H the Hessian of (P)
        over the rows whose curvature the gap makes certain (all of them for the squared loss; those with
        ``xi_i > sqrt(2 G / C_i)`` for the squared hinge),
        ``|f(x) - f*(x)| <= sqrt(2 G (x, 1)' inv(H) (x, 1))``, of which ``sqrt(2 G / C_i)`` at such a row, and
        ``sqrt(2 G (k(x, x) + 1/A))`` anywhere, are upper bounds. None where the fit has converged, or where
        it is not known.
    column : int, default=0
        The column of targets that the residual belongs to: with more than two classes, the place of the
        class in ``classes_``.

    Examples
    --------
    >>> from squaresvm import RLSSVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> certificate = RLSSVC(gamma=1e-3, C=10.0).fit(X, y).certificate_
    >>> certificate.residual < 1e-6 and certificate.gap < 1e-6 * certificate.objective
    True
    """

    residual: float
    gap: float
    objective: float
    status: Status
    decision_error: float | None = None
    column: int = 0

    def __post_init__(self) -> None:
        """Take the status by its value: serialisers may return members of an enumeration as plain strings."""
        object.__setattr__(self, "status", Status(self.status))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled, under the same rule."""
        self.__dict__.update(state)
        self.__post_init__()

    def to_json(self) -> dict[str, str | float]:
        """Return status, residual, gap and objective, as JSON has them."""
        return {
            "status": self.status.value,
            "residual": float(self.residual),
            "gap": float(self.gap),
            "objective": float(self.objective),
        }

    def __str__(self) -> str:
        """Return the certificate in one line."""
        line = (
            f"{self.status.value}: residual {self.residual:.1e}, gap {self._shown_gap}, "
            f"objective {self.objective:.6g}"
        )
        if self.decision_error is None:
            return line
        return f"{line}, decision values within {self.decision_error:.1e} of the targets' scale"

    @property
    def _shown_gap(self) -> str:
        """The gap; where it is below the rounding of the objectives that it is the difference of, that."""
        rounding = _EPSILON * abs(self.objective)
        return f"{self.gap:.1e}" if not abs(self.gap) < rounding else f"below {rounding:.0e}"

    @property
    def concern(self) -> str | None:
        """What the user of the model must know, in words; None where there is nothing to warn of.

        That the solver ended above `tol`; or that float64 is not precise enough, and decision values may be
        wrong by more than a tenth of the targets' scale.
        """
        if self.status == Status.MAX_ITER:
            return f"{self}: {self.status.advice}"
        # Not "above": a bound that is no number is a concern too.
        is_large = self.decision_error is not None and not self.decision_error <= _MATTERS
        if self.status == Status.PRECISION and is_large:
            return (
                f"{self}: float64 is too imprecise for this problem, and decision values may be wrong by "
                f"{self.decision_error:.1g} times the scale of the targets; scale the columns, or lower C"
            )
        return None


class Factor:
    """What a solver made on its way to a solution, and a request or a question may go on from.

    There are several kinds. Whoever goes on from one of them asks for that kind; nobody else need know which
    it is.
    """

    @classmethod
    def among(cls, found: object) -> Self | None:
        """Return what came with a solution where it is of this kind; anything else is of no use here."""
        return found if isinstance(found, cls) else None

    def flushed(self) -> Self:
        """Return the factor with nothing left in it that stems from rows that were forgotten."""
        return self


@dataclass(frozen=True, eq=False)
class Solution:
    """Multipliers or primal coefficients of every column of targets.

    Parameters
    ----------
    bias : ndarray of shape (k,)
        Zeros where the problem has none.
    beta : ndarray of shape (m, k), optional
        Signed multipliers. None where `primal` is the model.
    primal : ndarray of shape (n, k), optional
        w, where the solver worked on features.
    n_iter : int, default=1
        Iterations; of several columns the largest number.
    outcome : Outcome
    factor : Factor, optional
        What is behind the solution, where the solver made and kept it.
    trace : tuple, optional
        An entry an iteration, where the solver was asked for them: :class:`squaresvm.solvers.Progress`.
    work : dict, optional
        What the search has cost, in numbers of its own, where the solver counts.
    note : str, default=""
        What is worth telling of the way there, in words; part of ``solver_reason_``.
    """

    bias: FloatArray
    beta: FloatArray | None = None
    primal: FloatArray | None = None
    n_iter: int = 1
    outcome: Outcome = Outcome.FINISHED
    factor: Factor | None = None
    trace: tuple[Any, ...] | None = None
    work: dict[str, float] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Take the outcome by its value: serialisers may return members of enumerations as strings."""
        object.__setattr__(self, "outcome", Outcome(self.outcome))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled, under the same rule."""
        self.__dict__.update(state)
        self.__post_init__()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the factor, which is made again when asked for."""
        return {**self.__dict__, "factor": None}
