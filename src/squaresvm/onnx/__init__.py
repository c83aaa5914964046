"""Fitted models, and pipelines that end in one, as ONNX graphs, for places where Python does not run."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.base import SquareSVM
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.features import Nystrom
from squaresvm.judging.calibration import Calibration
from squaresvm.models.model import Model
from squaresvm.onnx.graphs import OPSET, Graph, add_classification, add_features, add_labels, add_regression
from squaresvm.runtime.atomic import replacing
from squaresvm.runtime.extras import install_line

__all__ = ["to_onnx"]


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: npt.DTypeLike = np.float64,
    example: Any = None,
) -> Any:
    """Return a fitted model as an ONNX graph, and write it to a file.

    The graph has one input, ``X`` of shape (rows, n_features), and these outputs:

    - of a classifier ``label`` of shape (rows,), ``decision`` of shape (rows,) or (rows, n_classes), and
      ``probabilities`` of shape (rows, n_classes), whose largest is always that of the label;
    - of a classifier whose rows may have several labels ``label``, ``decision`` and ``probabilities``, all of
      shape (rows, n_labels);
    - of a regressor ``value`` of shape (rows,).

    Parameters
    ----------
    model : estimator, or Pipeline of scikit-learn that ends in one
        Any of the package, fitted from rows or from a stream. Callable and precomputed kernels are refused.
        The steps of a pipeline are those that skl2onnx knows.
    path : path-like, optional
        File to write, whole or not at all.
    dtype : {'float64', 'float32'}, default='float64'
        Type of the input, and of decision values, probabilities and values. Between them the graph computes
        in double precision either way.
    example : data frame, optional
        A row or more, which says what types the columns have: needed by a pipeline that was fitted on a data
        frame. The graph then has one input for each column, of shape (rows, 1), by the column's name.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ImportError
        If the package onnx is not there, or for a pipeline skl2onnx: they come with
        ``pip install 'squaresvm[onnx]'``.
    ValueError
        If the model has a kernel without a formula, or a pipeline a step without a graph.

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
    steps: list[tuple[str, Any]] = []
    if isinstance(model, Pipeline):
        *steps, (_, model) = (step for step in model.steps if not isinstance(step[1], str | None))
    _check_model(model)
    state, calibration = _state_and_calibration(model)
    graph, width = Graph(onnx, kind), int(model.n_features_in_)
    if steps and isinstance(steps[-1][1], Nystrom):
        width = add_features(graph, steps.pop()[1])
    if not isinstance(model, SquareSVMClassifier):
        add_regression(graph, state)
    elif state.classes is None:
        add_labels(graph, state, calibration)
    else:
        add_classification(graph, state, calibration)
    proto = graph.model(type(model).__name__, width)
    names = getattr(model, "feature_names_in_", None)
    if steps:
        proto = _with_steps(onnx, proto, steps, example, OPSET)
    elif names is not None:
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
            f"to_onnx needs the package onnx, which is not installed: {install_line('onnx')}"
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
            "its estimator_"
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


# The steps of a pipeline in front of its model: skl2onnx knows those of scikit-learn ------------------------


def _with_steps(onnx: Any, graph: Any, steps: list[tuple[str, Any]], example: Any, opset: int) -> Any:
    """Return a graph that begins with fitted transformers, and goes on with `graph`.

    Parameters
    ----------
    onnx : module
    graph : onnx.ModelProto
        Of the model; its input is ``X``.
    steps : list of (str, transformer)
    example : data frame or None
        A row or more, to say what types the columns have; None where the first step takes arrays.
    opset : int

    Returns
    -------
    onnx.ModelProto
        With one input for each column of a data frame, each of shape (rows, 1); else with the input ``X``.
    """
    tensor = graph.graph.input[0].type.tensor_type
    element, width = tensor.elem_type, tensor.shape.dim[1].dim_value
    inputs = _inputs(steps[0][1], example, element == onnx.TensorProto.FLOAT)
    front = onnx.compose.add_prefix(_converted(Pipeline(steps), inputs, opset), "steps_", rename_inputs=False)
    (last,) = (output.name for output in front.graph.output)
    # What some steps give is in single precision, or whole numbers.
    front.graph.node.append(onnx.helper.make_node("Cast", [last], ["steps_end"], to=element))
    del front.graph.output[:]
    front.graph.output.append(onnx.helper.make_tensor_value_info("steps_end", element, ["rows", width]))
    # The nodes are those of the set that was asked for; skl2onnx states the oldest that has them.
    del front.opset_import[:]
    front.opset_import.extend(
        [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    )
    front.ir_version = graph.ir_version
    model = onnx.compose.add_prefix(graph, "model_", rename_outputs=False)
    try:
        merged = onnx.compose.merge_models(front, model, io_map=[("steps_end", "model_X")])
        onnx.checker.check_model(merged, full_check=True)
    except (ValueError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ValueError(
            f"skl2onnx made an invalid graph of the steps {_named(steps)} with this dtype "
            f"({_shortened(error)}); try dtype='float32'"
        ) from None
    merged.producer_name, merged.producer_version = graph.producer_name, graph.producer_version
    return merged


def _named(steps: list[tuple[str, Any]]) -> str:
    return ", ".join(repr(name) for name, _ in steps)


def _shortened(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


def _inputs(first: Any, example: Any, is_single: bool) -> list[tuple[str, Any]]:
    """Return name and type of each input."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    number = FloatTensorType if is_single else DoubleTensorType
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        return [("X", number([None, int(first.n_features_in_)]))]
    if example is None or not hasattr(example, "columns"):
        raise ValueError(
            "the pipeline takes data frames: give a row as example=, to say what types the columns have"
        )
    missing = [str(name) for name in names if name not in example.columns]
    if missing:
        raise ValueError(f"example has no column {missing[0]!r}, which the pipeline takes")
    return [
        (
            str(name),
            (number if np.asarray(example[name]).dtype.kind in "biuf" else StringTensorType)([None, 1]),
        )
        for name in names
    ]


def _converted(steps: Pipeline, inputs: list[tuple[str, Any]], opset: int) -> Any:
    """Return the graph that skl2onnx makes of steps; a ValueError where it does not know one."""
    try:
        from skl2onnx import convert_sklearn
    except ImportError as error:
        raise ImportError(
            f"to_onnx of a pipeline needs skl2onnx, which is not installed: {install_line('onnx')}"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of its own use of other packages.
            return convert_sklearn(
                steps,
                initial_types=inputs,
                target_opset={"": opset, "ai.onnx.ml": 3},
                custom_conversion_functions={SimpleImputer: _add_imputer},
                custom_shape_calculators={SimpleImputer: _imputer_shape},
            )
    except Exception as error:  # Of many kinds, for steps that it does not know.
        raise ValueError(
            f"skl2onnx cannot make a graph of the steps {_named(steps.steps)}: {_shortened(error)}"
        ) from None


# Its own imputer is in single precision only -------------------------------------------------------------


def _imputer_shape(operator: Any) -> None:
    """Tell skl2onnx how many columns come out, in the type that goes in."""
    kind = type(operator.inputs[0].type)
    operator.outputs[0].type = kind([None, _kept(operator.raw_operator).size])


def _kept(imputer: SimpleImputer) -> Any:
    """Return the columns that come out: without those that had no value at the fit, unless these are kept."""
    if getattr(imputer, "indicator_", None) is not None:
        raise ValueError("SimpleImputer(add_indicator=True) has no graph")
    if imputer.statistics_.dtype.kind not in "fiu" or not _is_nan(imputer.missing_values):
        raise ValueError("SimpleImputer has a graph for numbers, where missing values are NaN")
    return np.flatnonzero(~np.isnan(imputer.statistics_.astype(np.float64)))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value)


def _add_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Add Where(IsNaN(x), value, x)."""
    from skl2onnx.common.data_types import FloatTensorType

    from onnx import TensorProto

    kept = _kept(operator.raw_operator)
    kind = TensorProto.FLOAT if isinstance(operator.inputs[0].type, FloatTensorType) else TensorProto.DOUBLE
    names = {part: scope.get_unique_variable_name(part) for part in ("kept", "fill", "columns", "gap")}
    fill = operator.raw_operator.statistics_[kept].astype(np.float64)
    container.add_initializer(names["kept"], TensorProto.INT64, [kept.size], kept.tolist())
    container.add_initializer(names["fill"], kind, [1, kept.size], fill.tolist())
    for kind_of, inputs, output, options in (
        ("Gather", [operator.inputs[0].full_name, names["kept"]], names["columns"], {"axis": 1}),
        ("IsNaN", [names["columns"]], names["gap"], {}),
        ("Where", [names["gap"], names["fill"], names["columns"]], operator.outputs[0].full_name, {}),
    ):
        container.add_node(
            kind_of, inputs, [output], name=scope.get_unique_operator_name(kind_of), op_version=9, **options
        )
