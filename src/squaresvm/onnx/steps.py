"""The steps of a pipeline before its model, in front of the model's graph: skl2onnx knows scikit-learn's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from squaresvm.runtime.extras import install_line

__all__ = ["with_steps"]


def with_steps(onnx: Any, graph: Any, steps: list[tuple[str, Any]], example: Any, opset: int) -> Any:
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
            f"what skl2onnx makes of the steps {_named(steps)} is no valid graph in this type "
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
