"""What a fitted model consists of, as plain numbers: read off its parts, nothing computed by its own code.

Targets and costs are made here from labels, classes and weights: +1 and -1 for each class (one column for
two), and C times the sample weight times the weight of the class. Rows of weight zero are no part of the
problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from squaresvm.typing import FloatArray, IntArray, Matrix
from squaresvm.verifier.verdict import Claim

__all__ = ["Fitted", "Settings", "fitted_models", "rows_and_labels", "targets_and_weights"]

_KINDS = "an estimator of squaresvm, a OneVsOne, a Window, a search, or a pipeline that ends in one"
#: An objective from sums is a difference of larger numbers than one from rows.
_SUMMED = 32.0


@dataclass(frozen=True, eq=False)
class Settings:
    """The numbers of a fit.

    Parameters
    ----------
    is_hinge : bool
        Squared hinge; squared loss otherwise.
    A : float
        Penalty of the bias: 0 where it is free, infinity where there is none.
    C : float
    tol : float
    kernel : str
        Its name; 'precomputed' or 'callable'.
    gamma, degree, coef0 : numbers
    proximal : bool
        Whether the kernel is K W K', W the weights.
    class_weight : dict
    """

    is_hinge: bool
    A: float
    C: float
    tol: float
    kernel: str
    gamma: float
    degree: int
    coef0: float
    proximal: bool
    class_weight: dict[Any, float]


@dataclass(frozen=True, eq=False)
class Fitted:
    """One model: what it claims, its settings and its solution, and its rows where it holds them.

    Parameters
    ----------
    what : str
        Estimator and kernel; of a pair of classes, which.
    claim : Claim
    settings : Settings
    classes : ndarray or None
        None for regression.
    bias : ndarray of shape (k,)
    beta : ndarray of shape (m, k) or None
    w : ndarray of shape (n, k) or None
    rows : int
        Rows of positive weight that the model says it is of.
    n_features : int
    feature_names : tuple of str or None
    X : matrix or None
        Of the rows of positive weight; None where it holds none.
    targets : ndarray of shape (m, k) or None
    weights : ndarray of shape (m,) or None
        Sample weight times class weight.
    given : callable or None
        Kernel values by the numbers of rows, where they are precomputed or a callable's.
    expansion : ndarray of shape (m, k) or None
        Coefficients that a nonlinear proximal SVM decides by.
    is_silent : bool
        Whether the model came from elsewhere without a certificate, so that its claim was made just now.
    lost : float
        By what factor sums over rows, which the objective was taken from after some left, say that they have
        lost digits.
    """

    what: str
    claim: Claim
    settings: Settings
    classes: np.ndarray[Any, Any] | None
    bias: FloatArray
    beta: FloatArray | None
    w: FloatArray | None
    rows: int
    n_features: int
    feature_names: tuple[str, ...] | None
    X: Matrix | None = None
    targets: FloatArray | None = None
    weights: FloatArray | None = None
    given: Callable[[Any, Any], FloatArray] | None = None
    expansion: FloatArray | None = None
    is_silent: bool = False
    lost: float = 1.0

    @property
    def is_streamed(self) -> bool:
        """Whether the model holds no rows."""
        return self.X is None

    @property
    def problem(self) -> tuple[Matrix, FloatArray, FloatArray]:
        """Rows, targets and weights of a model that holds them."""
        assert self.X is not None
        assert self.targets is not None
        assert self.weights is not None
        return self.X, self.targets, self.weights


def fitted_models(model: Any) -> list[Fitted]:
    """Return the models that a fitted estimator consists of: one, or one for each pair of classes.

    Raises
    ------
    NotFittedError
    ValueError
        For what is no model of this package.
    """
    inner = _inner(model)
    votes = getattr(inner, "_votes", None)
    if votes is not None:
        return [
            _fitted(one, f"{type(inner).__name__}, classes {first!r} and {second!r}: ")
            for (first, second), one in votes.pairs.items()
        ]
    return [_fitted(inner, "")]


def rows_and_labels(
    model: Any,
) -> tuple[Matrix, np.ndarray[Any, Any], FloatArray, np.ndarray[Any, Any]]:
    """Return the rows that a model holds, labels, the caller's weights and ids, of all pairs together."""
    inner = _inner(model)
    votes = getattr(inner, "_votes", None)
    if votes is None:
        rows = inner._state.rows
        own = rows.weights if rows.given is None else rows.given
        return rows.X, rows.y, own, rows.ids.values
    parts: dict[Any, Any] = {}
    for one in votes.pairs.values():
        rows = one._state.rows
        parts |= zip(rows.ids.values.tolist(), rows.X, strict=True)
    ids = votes.rows.ids.values
    X = [parts[name] for name in ids.tolist()]
    together = sp.vstack(X, format="csr") if sp.issparse(X[0]) else np.stack(X)
    return together, votes.rows.y, votes.rows.weights, ids


def _inner(model: Any) -> Any:
    """Return the estimator inside searches, windows and pipelines."""
    own = getattr(model, "__dict__", {})
    if "_state" in own or "_votes" in own:
        return model
    if "estimator_" in own:  # A Window.
        return _inner(own["estimator_"])
    if "steps" in own:
        return _inner(own["steps"][-1][1])
    if "best_estimator_" in own:
        return _inner(own["best_estimator_"])
    name = type(model).__name__
    if hasattr(type(model), "certificate_") or hasattr(type(model), "forget"):
        raise NotFittedError(f"this {name} is not fitted yet: call 'fit' first")
    raise ValueError(f"a {name} makes no claim that could be verified: give {_KINDS}, or the file of a model")


def _fitted(model: Any, prefix: str) -> Fitted:
    state, names = model._state, getattr(model, "feature_names_in_", None)
    settings, solution = _settings(state.settings), state.solution
    common = {
        "what": f"{prefix}{type(model).__name__}, {settings.kernel} kernel",
        "claim": _claim(model),
        "settings": settings,
        "classes": state.classes,
        "bias": solution.bias,
        "beta": None if solution.primal is not None else solution.beta,
        "w": solution.primal,
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else tuple(str(name) for name in names),
    }
    rows = getattr(state, "rows", None)
    if rows is None:
        lost = 1.0 if state.sums is None else _SUMMED * float(state.sums.loss_of_digits())
        return Fitted(**common, rows=int(state.count), lost=lost)
    targets, weights = targets_and_weights(rows.y, rows.weights, state.classes, settings.class_weight)
    held: IntArray = np.flatnonzero(weights > 0.0)
    everyone = held.size == weights.size
    X = rows.X if everyone else rows.X[held]
    return Fitted(
        **common,
        rows=int(held.size),
        X=X,
        targets=targets if everyone else targets[held],
        weights=weights if everyone else weights[held],
        given=_given(state, X),
        expansion=state.known.expansion if settings.proximal else None,
        is_silent=not state.is_verified and state.known.claimed is None,
    )


def _claim(model: Any) -> Claim:
    """Return what the file of a model says, where it came from one; else what the model says."""
    known = getattr(model._state, "known", None)
    said = None if known is None else known.claimed
    certificate = model.certificate_ if said is None else said
    return Claim(
        float(certificate.residual),
        float(certificate.gap),
        float(certificate.objective),
        str(certificate.status.value),
    )


def _settings(settings: Any) -> Settings:
    kernel = settings.kernel
    name = "precomputed" if kernel is None else kernel.name
    return Settings(
        is_hinge=settings.loss.value == "squared hinge",
        A=float(settings.bias.penalty),
        C=float(settings.C),
        tol=float(settings.tol),
        kernel=name,
        gamma=1.0 if kernel is None else float(kernel.gamma),
        degree=1 if kernel is None else int(kernel.degree),
        coef0=0.0 if kernel is None else float(kernel.coef0),
        proximal=bool(settings.proximal),
        class_weight=dict(settings.class_weight or {}),
    )


def _given(state: Any, X: Matrix) -> Callable[[Any, Any], FloatArray] | None:
    """Return how kernel values that are not computed here are reached."""
    kernel = state.settings.kernel
    if kernel is None:
        operator = state.problem.operator
        stored = getattr(operator, "inner", operator)
        everyone = np.arange(int(stored.n_rows))
        return lambda these, those: np.asarray(stored.block(everyone[these], everyone[those]))
    if isinstance(kernel.function, str):
        return None
    return lambda these, those: _dense(kernel.function(X[these], X[those]))


def _dense(values: Any) -> FloatArray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64)


def targets_and_weights(
    y: np.ndarray[Any, Any],
    weights: FloatArray | None,
    classes: np.ndarray[Any, Any] | None,
    class_weight: dict[Any, float],
) -> tuple[FloatArray, FloatArray]:
    """Return the targets, one column a class or value, and the weights of rows.

    Raises
    ------
    LookupError
        For a label that is none of the classes; it is the error's argument.
    """
    own = np.ones(y.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    if classes is None:
        values = np.asarray(y, dtype=np.float64)
        return values.reshape(y.shape[0], -1), own
    is_of = np.column_stack([y == label for label in classes])
    if not is_of.any(axis=1).all():
        raise LookupError(y[~is_of.any(axis=1)].tolist()[0])
    factors = np.array([class_weight.get(label, 1.0) for label in classes.tolist()])
    if class_weight:
        own = own * factors[is_of.argmax(axis=1)]
    signs = np.where(is_of, 1.0, -1.0)
    return (signs[:, 1:] if classes.size == 2 else signs), own
