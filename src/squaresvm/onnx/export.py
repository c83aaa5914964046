"""The way from a fitted model to a file."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.base import SquareSVM
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.judging.calibration import Calibration
from squaresvm.models.model import Model
from squaresvm.onnx.graph import Graph
from squaresvm.onnx.translate import add_classification, add_regression
from squaresvm.runtime.atomic import replacing

__all__ = ["to_onnx"]


def to_onnx(
    model: Any, path: str | os.PathLike[str] | None = None, *, dtype: npt.DTypeLike = np.float64
) -> Any:
    """Return a fitted model as an ONNX graph, and write it to a file.

    The graph has one input, ``X`` of shape (rows, n_features), and these outputs:

    - of a classifier ``label`` of shape (rows,), ``decision`` of shape (rows,) or (rows, n_classes), and
      ``probabilities`` of shape (rows, n_classes), whose largest is always that of the label;
    - of a regressor ``value`` of shape (rows,).

    Parameters
    ----------
    model : estimator
        Any of the package, fitted from rows or from a stream. Callable and precomputed kernels are refused.
    path : path-like, optional
        File to write, whole or not at all.
    dtype : {'float64', 'float32'}, default='float64'
        Type of the input, and of decision values, probabilities and values. Between them the graph computes
        in double precision either way.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ImportError
        If the package onnx is not there: it comes with ``pip install 'squaresvm[onnx]'``.

    Warns
    -----
    UserWarning
        If the model cannot be calibrated, as after learning rows with a model fitted from a stream. The graph
        then has no probabilities.

    Notes
    -----
    The graph uses operator set 17. Labels are 64-bit integers, strings, booleans or floats, as in
    ``classes_``. Rows without a coefficient are left out, but the support rows themselves are in the graph,
    unless the kernel is linear: after `forget`, export anew and delete the former file. The graph does not
    check its input: rows with NaN, which the estimators refuse, give NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC(C=10.0).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> label, decision, probabilities = session.run(None, {"X": X})
    >>> bool(np.all(label == model.predict(X)))
    True
    >>> bool(np.allclose(probabilities, model.predict_proba(X), atol=1e-5))
    True
    """
    onnx = _package()
    kind = _check_dtype(dtype)
    target = None if path is None else _check_path(path)
    _check_model(model)
    state, calibration = _state_and_calibration(model)
    graph = Graph(onnx, kind)
    if state.classes is None:
        add_regression(graph, state)
    else:
        add_classification(graph, state, calibration)
    proto = graph.model(type(model).__name__, model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        onnx.helper.set_model_props(proto, {"feature_names": json.dumps(list(names))})
    if target is not None:
        with replacing(target) as file:
            file.write(proto.SerializeToString())
    return proto


# What can be exported ----------------------------------------------------------------------------------


def _package() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "to_onnx needs the package onnx, which is not installed: pip install 'squaresvm[onnx]'"
        ) from error
    return onnx


def _check_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind not in (np.float64, np.float32):
        raise ValueError(f"dtype must be 'float64' or 'float32'; got {dtype!r}")
    return kind


def _check_path(path: str | os.PathLike[str]) -> Path:
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"path {os.fspath(path)!r} must be a file in a folder that exists")
    return target


def _check_model(model: Any) -> None:
    if not isinstance(model, SquareSVM):
        raise TypeError(
            f"to_onnx takes a fitted estimator of squaresvm; got {type(model).__name__}. Of a Window give "
            "its estimator_, of a pipeline its last step: the steps before it are not part of the graph"
        )
    check_is_fitted(model)
    kernel = model._current().settings.kernel
    if kernel is None or callable(kernel.function):
        what = "a precomputed kernel has no formula" if kernel is None else "a callable kernel is Python code"
        raise ValueError(
            f"{what}, so the model cannot become an ONNX graph: use kernel='linear', 'rbf', 'poly', "
            "'sigmoid' or 'laplacian'"
        )


def _state_and_calibration(model: SquareSVM) -> tuple[Model, Calibration | None]:
    if not isinstance(model, SquareSVMClassifier):
        return model._current(), None
    try:
        return model._calibrated()
    except ValueError as error:
        warnings.warn(f"the graph has no probabilities: {error}", UserWarning, stacklevel=3)
        return model._current(), None
