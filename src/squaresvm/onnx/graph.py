"""A graph of standard ONNX operators under construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm._version import __version__
from squaresvm.typing import FloatArray

__all__ = ["OPSET", "Graph"]

#: Version of the standard operators, and of the file format that came with it: onnxruntime 1.12 has both.
OPSET, _IR_VERSION = 17, 8


class Graph:
    """A graph under construction: nodes and constants, each known by its name.

    Parameters
    ----------
    onnx : module
    kind : dtype
        Of input and outputs.
    """

    def __init__(self, onnx: Any, kind: np.dtype[Any]) -> None:
        self._onnx, self.kind = onnx, kind
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []
        self.X = "X" if kind == np.float64 else self.cast("X", np.float64)

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = f"{operator}_{len(self._nodes)}"
        outputs = [name, f"{name}_places"] if operator == "TopK" else [name]
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, outputs, name, **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add an array; return its name."""
        name = f"constant_{len(self._constants)}"
        array = np.ascontiguousarray(values).reshape(np.shape(values))
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, name: str, kind: Any) -> str:
        """Add a change of type."""
        return self("Cast", name, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def output(self, inner: str, name: str, kind: Any, *shape: str | int) -> None:
        """Make a value an output of the graph, in its own type or that of the input."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [inner], [name], name))
        element = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, element, shape))

    def in_kind(self, name: str) -> str:
        """Return the value in the type of the outputs."""
        return name if self.kind == np.float64 else self.cast(name, self.kind)

    def city_block(self, Z: FloatArray) -> str:
        """Add |x - z|_1 for each row x and each z: column by column, so no cube is held."""
        helper, double = self._onnx.helper, self._onnx.TensorProto.DOUBLE
        rows = self("Gather", self("Shape", self.X), self.constant(np.array([0])), axis=0)
        shape = self("Concat", rows, self.constant(np.array([len(Z)])), axis=0)
        start = self("ConstantOfShape", shape, value=self._onnx.numpy_helper.from_array(np.zeros(1)))
        body = helper.make_graph(
            [
                helper.make_node("Unsqueeze", ["x", "last"], ["upright"]),
                helper.make_node("Sub", ["upright", "z"], ["difference"]),
                helper.make_node("Abs", ["difference"], ["distance"]),
                helper.make_node("Add", ["sum", "distance"], ["next"]),
            ],
            "one_column",
            [
                helper.make_tensor_value_info("sum", double, ["rows", len(Z)]),
                helper.make_tensor_value_info("x", double, ["rows"]),
                helper.make_tensor_value_info("z", double, [len(Z)]),
            ],
            [helper.make_tensor_value_info("next", double, ["rows", len(Z)])],
            [self._onnx.numpy_helper.from_array(np.array([1]), "last")],
        )
        columns = self("Transpose", self.X, perm=[1, 0])
        return self("Scan", start, columns, self.constant(Z.T), body=body, num_scan_inputs=2)

    def model(self, name: str, n_features: int) -> Any:
        """Return the finished graph."""
        helper = self._onnx.helper
        element = helper.np_dtype_to_tensor_dtype(self.kind)
        rows = helper.make_tensor_value_info("X", element, ["rows", n_features])
        graph = helper.make_graph(self._nodes, name, [rows], self._outputs, self._constants)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=_IR_VERSION,
            producer_name="squaresvm",
            producer_version=__version__,
        )
