"""What a fitted model consists of, as plain numbers, and the data that it is checked by.

Numbers are read off the parts of a model; nothing is computed by its own code. Targets and costs are made
here from labels, classes and weights: +1 and -1 for each class (one column for two), and C times the sample
weight times the weight of the class. Rows of weight zero are no part of the problem.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from squaresvm.streaming import Source, as_source, file_source, is_source
from squaresvm.typing import FloatArray, Matrix
from squaresvm.verifier.mathematics.subject import Rows, Subject

__all__ = ["Claim", "Fitted", "fitted_models", "inner_model", "rows_of", "source_of", "targets_and_weights"]

_KINDS = "an estimator of squaresvm, a OneVsOne, a Window, a search, or a pipeline that ends in one"
#: An objective from sums is a difference of larger numbers than one from rows.
_SUMMED = 32.0


@dataclass(frozen=True)
class Claim:
    """What a certificate says: residual, gap, objective, and 'converged', 'precision' or another status."""

    residual: float
    gap: float
    objective: float
    status: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(Subject):
    """One model: what it claims, the numbers of its fit, its solution, and its rows where it holds them.

    `classes` is None for regression, `count` the number of rows of positive weight, and `expansion` has the
    coefficients that a nonlinear proximal SVM decides by. `is_silent`: it came from elsewhere without a
    certificate, so that its claim was made just now. `lost`: by what factor sums over rows, which its
    objective was taken from, say that they have lost digits. `has_labels`: its targets say which of several
    labels a row has, 0 and 1 in data.
    """

    what: str
    claim: Claim
    tol: float
    class_weight: dict[Any, float]
    classes: np.ndarray[Any, Any] | None
    count: int
    n_features: int
    feature_names: tuple[str, ...] | None
    expansion: FloatArray | None = None
    is_silent: bool = False
    lost: float = 1.0
    has_labels: bool = False


def fitted_models(model: Any) -> list[Fitted]:
    """Return the models that a fitted estimator consists of: one, or one for each pair of classes."""
    inner = inner_model(model)
    votes, name = getattr(inner, "_votes", None), type(inner).__name__
    if votes is None:
        parts = [part for _, part in inner._state.by_cost]
        several = len(parts) > 1
        return [_fitted(inner, part, f"C = {part.settings.C:g}: " if several else "") for part in parts]
    return [
        _fitted(one, one._state, f"{name}, classes {first!r} and {second!r}: ")
        for (first, second), one in votes.pairs.items()
    ]


def inner_model(model: Any) -> Any:
    """Return the estimator inside searches, windows and pipelines."""
    own = getattr(model, "__dict__", {})
    if "_state" in own or "_votes" in own:
        return model
    if "steps" in own:
        return inner_model(own["steps"][-1][1])
    for name in ("estimator_", "best_estimator_"):  # Of a Window, and of a search.
        if name in own:
            return inner_model(own[name])
    name = type(model).__name__
    if hasattr(type(model), "certificate_") or hasattr(type(model), "learn"):
        raise NotFittedError(f"this {name} is not fitted yet: call 'fit' first")
    raise ValueError(f"a {name} cannot be verified: give {_KINDS}, or the file of a model")


def _fitted(model: Any, state: Any, prefix: str) -> Fitted:
    names = getattr(model, "feature_names_in_", None)
    settings, solution, kernel = state.settings, state.solution, state.settings.kernel
    name = "precomputed" if kernel is None else kernel.name
    known, rows = getattr(state, "known", None), getattr(state, "rows", None)
    claimed = None if known is None else known.claimed
    said = state.certificate if claimed is None else claimed
    common: dict[str, Any] = {
        "what": f"{prefix}{type(model).__name__}, {name} kernel",
        "claim": Claim(float(said.residual), float(said.gap), float(said.objective), str(said.status.value)),
        "is_hinge": settings.loss.value == "squared hinge",
        "A": float(settings.bias.penalty),
        "C": float(settings.C),
        "tol": float(settings.tol),
        "kernel": name,
        "gamma": 1.0 if kernel is None else float(kernel.gamma),
        "degree": 1 if kernel is None else int(kernel.degree),
        "coef0": 0.0 if kernel is None else float(kernel.coef0),
        "proximal": bool(settings.proximal),
        "class_weight": dict(settings.class_weight or {}),
        "classes": state.classes,
        "are_classes": state.classes is not None,
        "bias": solution.bias,
        "beta": None if solution.primal is not None else solution.beta,
        "w": solution.primal,
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else tuple(str(column) for column in names),
    }
    if rows is None:
        lost = 1.0 if state.sums is None else _SUMMED * float(state.sums.loss_of_digits())
        has_labels = state.classes is None and settings.class_weight is not None
        return Fitted(**common, count=int(state.count), lost=lost, has_labels=has_labels)
    targets, weights = targets_and_weights(rows.y, rows.weights, state.classes, common["class_weight"])
    held = slice(None) if np.all(weights > 0.0) else np.flatnonzero(weights > 0.0)
    X = rows.X if isinstance(held, slice) else rows.X[held]
    return Fitted(
        **common,
        count=int(weights[held].size),
        rows=Rows(X, targets[held], weights[held]),
        given=_given(state, X),
        expansion=state.known.expansion if settings.proximal else None,
        is_silent=not state.is_verified and claimed is None,
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

    def between(these: Any, those: Any) -> FloatArray:
        values = kernel.function(X[these], X[those])
        return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)

    return between


def targets_and_weights(
    y: np.ndarray[Any, Any],
    weights: FloatArray | None,
    classes: np.ndarray[Any, Any] | None,
    class_weight: dict[Any, float],
) -> tuple[FloatArray, FloatArray]:
    """Return the targets, one column a class or value, and the weights of rows.

    For a label that is none of the classes, a LookupError with the label as its argument.
    """
    own = np.ones(y.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    if classes is None:
        return np.asarray(y, dtype=np.float64).reshape(y.shape[0], -1), own
    is_of = np.column_stack([y == label for label in classes])
    strange = ~is_of.any(axis=1) & (own > 0.0)  # A row of weight zero may be the only one of its class.
    if strange.any():
        raise LookupError(y[strange].tolist()[0])
    if class_weight:
        factors = np.array([class_weight.get(label, 1.0) for label in classes.tolist()])
        own = own * factors[is_of.argmax(axis=1)]
    signs = np.where(is_of, 1.0, -1.0)
    return (signs[:, 1:] if classes.size == 2 else signs), own


def rows_of(model: Any) -> tuple[Matrix, np.ndarray[Any, Any], FloatArray, np.ndarray[Any, Any]]:
    """Return the rows that a model holds, labels, the caller's weights and ids, of all pairs together."""
    inner = inner_model(model)
    votes = getattr(inner, "_votes", None)
    if votes is None:
        rows = inner._state.rows
        return rows.X, rows.y, rows.weights if rows.given is None else rows.given, rows.ids.values
    parts: dict[int, Any] = {}
    labels, ids = votes.rows.y.tolist(), votes.rows.ids.values
    for pair, one in votes.pairs.items():
        places = (place for place, label in enumerate(labels) if label in pair)
        parts |= zip(places, one._state.rows.X, strict=True)
    X = [parts[place] for place in range(len(labels))]
    together = sp.vstack(X, format="csr") if sp.issparse(X[0]) else np.stack(X)
    return together, votes.rows.y, votes.rows.weights, ids


def source_of(fitted: Fitted, data: Any, label: str | None) -> Source:
    """Return the data, whatever it comes as, as a source; a ValueError where it has other columns."""
    if isinstance(data, str | os.PathLike):
        is_number = fitted.classes is None or fitted.classes.dtype.kind in "fiub"
        source = file_source(data, fitted.n_features, fitted.feature_names, label, is_number=is_number)
    elif label is not None:
        raise ValueError("label names a column of a file: data is none")
    elif isinstance(data, tuple) and len(data) in (2, 3):
        source = as_source(*data)
    elif is_source(data):
        source = data
    else:
        kind = type(data).__name__
        raise ValueError(f"data must be a source, a path, (X, y) or (X, y, sample_weight), got {kind}")
    if source.n_features != fitted.n_features:
        raise ValueError(
            f"the data has {source.n_features} columns, and the model was fitted on {fitted.n_features}"
        )
    for place, pair in enumerate(zip(source.feature_names or (), fitted.feature_names or (), strict=False)):
        if pair[0] != pair[1]:
            raise ValueError(
                f"column {place} of the data is {pair[0]!r}, but the model has {pair[1]!r} there"
            )
    return source
