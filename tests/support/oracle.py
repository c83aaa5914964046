"""The referee: docs/family.rst written down naively, in 50 digits, sharing no code with the package.

Slow and plain on purpose. Matrices are dense arrays of ``decimal.Decimal`` (exact copies of the float64
entries), systems are solved by Gaussian elimination, and the squared hinge by Lawson and Hanson's method for
non-negative least squares, which goes through other sets, by another rule, than any solver of the package.
An answer leaves this module only after its optimality conditions have been checked to 25 digits.

Throughout: K (m, m) kernel matrix, y targets, costs C_i > 0, loss ``"squared"`` or ``"hinge"``, and A the
penalty of the bias: 0 is a free bias, infinity is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

DIGITS = 50
SQUARED, HINGE = "squared", "hinge"
FREE, NONE = 0.0, np.inf


@dataclass(frozen=True)
class Answer:
    """The optimum, rounded to float64 once, at the end."""

    beta: np.ndarray
    bias: float
    decision: np.ndarray
    objective: float


# Kernels, entry by entry from their definitions -----------------------------------------------------


def kernel_matrix(name, X, Z, gamma=1.0, degree=3, coef0=0.0):
    """Return k(x, z) for all pairs of rows, distances from differences and not from expanded squares."""
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    inner = (X[:, None, :] * Z[None, :, :]).sum(axis=2)
    apart = X[:, None, :] - Z[None, :, :]
    return {
        "linear": lambda: inner,
        "rbf": lambda: np.exp(-gamma * (apart**2).sum(axis=2)),
        "poly": lambda: (gamma * inner + coef0) ** degree,
        "sigmoid": lambda: np.tanh(gamma * inner + coef0),
        "laplacian": lambda: np.exp(-gamma * np.abs(apart).sum(axis=2)),
    }[name]()


# Linear algebra in 50 digits ---------------------------------------------------------------------------

_exact = np.vectorize(lambda value: Decimal(float(value)), otypes=[object])


def _eliminate(matrix, right):
    """Return inv(matrix) right by Gaussian elimination with partial pivoting, in any number type."""
    a = np.concatenate([matrix, right], axis=1)
    n = len(matrix)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        a[[k, pivot]] = a[[pivot, k]]
        below = a[k + 1 :, k] / a[k, k]
        a[k + 1 :, k:] = a[k + 1 :, k:] - below[:, None] * a[k, k:]
    x = a[:, n:].copy()
    for k in reversed(range(n)):
        x[k] = (x[k] - a[k, k + 1 : n] @ x[k + 1 :]) / a[k, k]
    return x


def _bordered(H, A, zero, one):
    """Return M = [H, 1; 1', -A], or H itself where there is no bias."""
    m = len(H)
    if A == NONE:
        return H
    M = np.full((m + 1, m + 1), one, dtype=H.dtype)
    M[:m, :m] = H
    M[m, m] = zero if A == FREE else -one * _like(A, one)
    return M


def _like(value, one):
    return Decimal(float(value)) if isinstance(one, Decimal) else float(value)


def inverse_diagonal(K, costs, A):
    """Return the diagonal of inv(M), the rows' part of it."""
    with localcontext() as context:
        context.prec = DIGITS
        H = _exact(K) + np.diag(1 / _exact(costs))
        M = _bordered(H, A, Decimal(0), Decimal(1))
        identity = _exact(np.eye(len(M)))
        return np.diagonal(_eliminate(M, identity))[: len(K)].astype(np.float64)


# The optimum -------------------------------------------------------------------------------------------


class _Dual:
    """min 1/2 beta'H beta - y'beta, 1'beta = A b, in one number type."""

    def __init__(self, K, y, costs, A, exact):
        convert = _exact if exact else np.asarray
        self.K, self.y, self.costs, self.A = convert(K), convert(y), convert(costs), A
        self.one, self.zero = (Decimal(1), Decimal(0)) if exact else (1.0, 0.0)
        self.small = Decimal("1e-30") if exact else 1e-9
        self.H = self.K + np.diag(self.one / self.costs)

    def equalities(self, rows):
        """Return the (beta, b) that fits `rows` by equality and leaves the others out."""
        beta, bias = np.full(len(self.y), self.zero), self.zero
        if len(rows) == 0:
            return beta, bias
        M = _bordered(self.H[np.ix_(rows, rows)], self.A, self.zero, self.one)
        right = np.full((len(M), 1), self.zero)
        right[: len(rows), 0] = self.y[rows]
        solution = _eliminate(M, right)[:, 0]
        beta[rows] = solution[: len(rows)]
        return beta, bias if self.A == NONE else solution[-1]

    def non_negative(self, start):
        """Return (beta, b) with y beta >= 0 by Lawson and Hanson, from the rows `start`."""
        rows = list(start)
        beta, bias = self.equalities(rows)
        if rows and min((self.y * beta)[rows]) <= 0:
            rows = self.first_rows()
            beta, bias = self.equalities(rows)
        for _ in range(20 * len(self.y)):
            wants = self.one - self.y * (self.K @ beta + bias)
            wants[rows] = self.zero
            if max(wants) <= self.small:
                return beta, bias, rows
            rows = sorted([*rows, int(np.argmax(wants))])
            beta, bias, rows = self._stay_feasible(beta, rows)
        return beta, bias, rows

    def _stay_feasible(self, beta, rows):
        while True:
            target, bias = self.equalities(rows)
            size, goal = self.y * beta, self.y * target
            blocking = [i for i in rows if goal[i] <= 0]
            if not blocking:
                return target, bias, rows
            # As far towards the target as all stay non-negative; those that reach zero leave.
            ratio = {i: size[i] / (size[i] - goal[i]) if size[i] != goal[i] else 0 for i in blocking}
            step = min(ratio.values())
            beta = beta + step * (target - beta)
            leaving = {i for i in blocking if ratio[i] == step}
            beta[list(leaving)] = self.zero
            rows = [i for i in rows if i not in leaving]

    def first_rows(self):
        """Return rows on which the answer is feasible: none, or one of each side for a free bias."""
        if self.A != FREE:
            return []
        return sorted([int(np.argmax(self.y > 0)), int(np.argmax(self.y < 0))])


def solve(K, y, costs, loss, A):
    """Return the optimum of one column of targets."""
    y, costs = np.asarray(y, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    with localcontext() as context:
        context.prec = DIGITS
        dual = _Dual(K, y, costs, A, exact=True)
        if loss == SQUARED:
            beta, bias = dual.equalities(list(range(len(y))))
        else:
            rough = _Dual(K, y, costs, A, exact=False)
            guess = rough.non_negative(rough.first_rows())[2]  # Saves most of the slow steps.
            beta, bias, _ = dual.non_negative(guess)
        assert _residual(dual, beta, bias, loss) < Decimal("1e-25"), "the oracle itself failed"
        decision = dual.K @ beta + bias
        objective = _objective(dual, beta, bias, decision, loss)
    return Answer(beta.astype(np.float64), float(bias), decision.astype(np.float64), float(objective))


def _objective(dual, beta, bias, decision, loss):
    slack = dual.y - decision
    if loss == HINGE:
        slack = np.array([max(dual.zero, dual.one - v) for v in dual.y * decision])
    total = beta @ (dual.K @ beta) + dual.costs @ slack**2
    if dual.A not in (FREE, NONE):
        total += _like(dual.A, dual.one) * bias**2
    return total / 2


# What the certificate must say -------------------------------------------------------------------------


def _residual(dual, beta, bias, loss):
    """Return the residual of docs/family.rst, line by line."""
    y, A, penalty = dual.y, dual.A, dual.zero
    r = dual.K @ beta + beta / dual.costs + bias - y
    h = np.diagonal(dual.K) + dual.one / dual.costs
    if A not in (FREE, NONE):
        penalty = _like(A, dual.one)
        h = h + dual.one / penalty
    if loss == SQUARED:
        scale = max(abs(y)) or dual.one
        rows = max(abs(r)) / scale
    else:
        rows = max(abs(np.minimum(h * y * beta, y * r)))
    if A == NONE:
        return rows
    size = penalty * abs(bias) + sum(abs(beta))
    left = abs(penalty * bias - sum(beta)) / size if size > 0 else dual.zero
    return max(rows, left)


def residual(K, y, costs, loss, A, beta, bias):
    """Return the certificate's residual of any (beta, bias), free of rounding."""
    with localcontext() as context:
        context.prec = DIGITS
        dual = _Dual(K, y, costs, A, exact=True)
        return float(_residual(dual, _exact(beta), Decimal(float(bias)), loss))


def objective(K, y, costs, loss, A, beta, bias):
    """Return the primal objective of the model that beta and bias stand for, free of rounding."""
    with localcontext() as context:
        context.prec = DIGITS
        dual = _Dual(K, y, costs, A, exact=True)
        beta, bias = _exact(beta), Decimal(float(bias))
        return float(_objective(dual, beta, bias, dual.K @ beta + bias, loss))


def condition(K, costs, A):
    """Return cond(H), with 1/A in H where the bias is penalised."""
    H = np.asarray(K) + np.diag(1.0 / np.asarray(costs))
    if A not in (FREE, NONE):
        H = H + 1.0 / A
    return float(np.linalg.cond(H))


def leave_one_out(K, y, costs, loss, A):
    """Return f at each row, of the model without that row, by m fits."""
    values = np.empty(len(y))
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        answer = solve(K[np.ix_(rest, rest)], y[rest], costs[rest], loss, A)
        values[i] = K[i, rest] @ answer.beta + answer.bias
    return values
