"""The nodes of a model's graph.

===================  ========================================================================
part                 operators
===================  ========================================================================
f = k(x, S) beta + b ``MatMul``, ``Exp``, ``Pow``, ``Tanh``; ``Scan`` over columns (laplacian)
label                ``Greater`` or ``ArgMax``, then ``Gather`` from the classes
probabilities        leads of :mod:`squaresvm.judging.calibration`, ``Sigmoid``, normalised
===================  ========================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm._version import __version__
from squaresvm.features import Nystrom
from squaresvm.judging.calibration import Calibration
from squaresvm.kernels import Kernel
from squaresvm.models.model import Model
from squaresvm.models.state import State
from squaresvm.typing import FloatArray

__all__ = ["OPSET", "Graph", "add_classification", "add_features", "add_labels", "add_regression"]

#: An ONNX file is one protobuf message, and those end at 2 GiB. The rest of the graph is small.
_MOST_BYTES = 2**31 - 2**20


def add_features(graph: Graph, features: Nystrom) -> int:
    """Put the features of `Nystrom` in the place of the rows; return how many columns the rows have."""
    if callable(features._map.kernel.function):
        raise ValueError("a callable kernel is Python code, so the features cannot become an ONNX graph")
    landmarks = features.landmarks_
    Z = np.asarray(landmarks.toarray() if sp.issparse(landmarks) else landmarks, dtype=np.float64)
    block = _add_kernel(graph, features._map.kernel, Z)
    graph.X = graph("MatMul", block, graph.constant(features._map.root.astype(np.float64)))
    return int(features.n_features_in_)


def _add_decision(graph: Graph, state: Model) -> str:
    """Add f at each row, of shape (rows, k)."""
    w, kernel = state.primal, state.settings.kernel
    assert kernel is not None
    if w is not None:
        product = graph("MatMul", graph.X, graph.constant(w))
        return graph("Add", product, graph.constant(state.solution.bias))
    held = state.holding("to_onnx")
    if held.support.size == 0:  # No row counts: f is the bias.
        nothing = np.zeros((held.rows.n_columns, held.solution.bias.size))
        product = graph("MatMul", graph.X, graph.constant(nothing))
    else:
        block = _add_kernel(graph, kernel, _support_rows(held))
        product = graph("MatMul", block, graph.constant(held.dual_coef.T))
    return graph("Add", product, graph.constant(held.solution.bias))


def _support_rows(state: State) -> FloatArray:
    count, n = state.support.size, state.rows.n_columns
    if 8 * count * (n + state.solution.bias.size) > _MOST_BYTES:
        raise ValueError(
            f"{count} support rows of {n} columns are more than the 2 GiB that an ONNX file holds: use "
            "kernel='linear', fewer rows, or RLSSVC or LagrangianSVC, whose support rows are fewer"
        )
    rows = state.rows.take(state.support)
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)


def _add_kernel(graph: Graph, kernel: Kernel, Z: FloatArray) -> str:
    """Add k(x, z) for each row x and each row of Z, by the formulas of :mod:`squaresvm.kernels`."""
    if kernel.function == "laplacian":
        return graph("Exp", graph("Mul", graph.city_block(Z), graph.constant(-kernel.gamma)))
    # Factors are put to Z: runtimes fuse a factor that follows a product, and keep only 32 bits of it.
    if kernel.function == "rbf":
        twice = graph("MatMul", graph.X, graph.constant(2.0 * Z.T))
        norms = graph("ReduceSum", graph("Mul", graph.X, graph.X), graph.constant(np.array([1])), keepdims=1)
        less = graph("Sub", graph("Sub", twice, norms), graph.constant(np.einsum("ij,ij->i", Z, Z)))
        # A squared distance is not negative, whatever rounding says.
        distance = graph("Min", less, graph.constant(0.0))
        return graph("Exp", graph("Mul", distance, graph.constant(kernel.gamma)))
    scaled = graph("MatMul", graph.X, graph.constant(kernel.gamma * Z.T))
    affine = graph("Add", scaled, graph.constant(kernel.coef0))
    if kernel.function == "poly":
        return graph("Pow", affine, graph.constant(float(kernel.degree)))
    return graph("Tanh", affine)


def add_regression(graph: Graph, state: Model) -> None:
    """Add the output `value`: a column each, where there are several."""
    values = _add_decision(graph, state)
    if not state.is_flat:
        graph.output(graph.in_kind(values), "value", graph.kind, "rows", state.solution.bias.size)
        return
    flat = graph("Squeeze", values, graph.constant(np.array([1])))
    graph.output(graph.in_kind(flat), "value", graph.kind, "rows")


def add_classification(graph: Graph, state: Model, calibration: Calibration | None) -> None:
    """Add the outputs `label`, `decision` and, where there is a calibration, `probabilities`."""
    assert state.classes is not None
    classes = _as_labels(state.classes)
    decision = _add_decision(graph, state)
    if classes.size == 2:
        flat = graph("Squeeze", decision, graph.constant(np.array([1])))
        best = graph.cast(graph("Greater", flat, graph.constant(0.0)), np.int64)
        shape: tuple[str | int, ...] = ("rows",)
    else:
        flat, shape = decision, ("rows", classes.size)
        best = graph("ArgMax", decision, axis=1, keepdims=0)
    graph.output(graph("Gather", graph.constant(classes), best, axis=0), "label", classes.dtype, "rows")
    graph.output(graph.in_kind(flat), "decision", graph.kind, *shape)
    if calibration is not None:
        probabilities = _add_probabilities(graph, decision, best, calibration)
        graph.output(probabilities, "probabilities", graph.kind, "rows", classes.size)


def add_labels(graph: Graph, state: Model, calibration: Calibration | None) -> None:
    """Add the same outputs where rows may have several labels: a column each."""
    decision, shape = _add_decision(graph, state), ("rows", state.solution.bias.size)
    is_there = graph("Greater", decision, graph.constant(0.0))
    graph.output(graph.cast(is_there, np.int64), "label", np.int64, *shape)
    graph.output(graph.in_kind(decision), "decision", graph.kind, *shape)
    if calibration is not None:
        above, below = graph.constant(calibration.above), graph.constant(calibration.below)
        logits = graph("Mul", graph("Where", is_there, above, below), decision)
        p = graph("Sigmoid", logits)
        raised = graph("Max", p, graph.constant(np.nextafter(0.5, 1.0)))
        graph.output(graph.in_kind(graph("Where", is_there, raised, p)), "probabilities", graph.kind, *shape)


def _as_labels(classes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the classes in a type that ONNX has."""
    values = classes.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if classes.dtype.kind in "bf":
        return classes.astype(np.bool_ if classes.dtype.kind == "b" else np.float64)
    if all(isinstance(value, int) and abs(value) < 2**63 for value in values):
        return np.array(values, dtype=np.int64)
    raise ValueError(
        f"labels such as {values[0]!r} have no type in ONNX: use integers of 64 bits, strings, booleans or "
        "floats"
    )


def _add_probabilities(graph: Graph, decision: str, best: str, calibration: Calibration) -> str:
    """Add the map of :class:`squaresvm.judging.calibration.Calibration`, of shape (rows, n_classes)."""
    n_classes = calibration.above.size
    leads = _add_leads(graph, decision, n_classes)
    above, below = graph.constant(calibration.above), graph.constant(calibration.below)
    slopes = graph("Where", graph("Greater", leads, graph.constant(0.0)), above, below)
    logits = graph("Mul", slopes, leads)
    if calibration.offset is not None:
        logits = graph("Add", logits, graph.constant(calibration.offset))
    raw = graph("Max", graph("Sigmoid", logits), graph.constant(np.finfo(np.float64).tiny))
    one = graph.constant(np.array([1]))
    p = graph.in_kind(graph("Div", raw, graph("ReduceSum", raw, one, keepdims=1)))
    if calibration.offset is not None:
        return p  # Class weights move the decision: the label need not be the likeliest.
    # A lead too small to show beside 0.5 still puts the predicted class on top.
    top = graph("ArgMax", p, axis=1, keepdims=0)
    clash = graph("Unsqueeze", graph("Not", graph("Equal", top, best)), one)
    own = graph("Equal", graph("Unsqueeze", best, one), graph.constant(np.arange(n_classes)))
    raised = _add_next(graph, graph("ReduceMax", p, axes=[1], keepdims=1))
    return graph("Where", graph("And", clash, own), raised, p)


def _add_next(graph: Graph, p: str) -> str:
    """Add a number that is larger by one or two units in the last place."""
    # In two steps: runtimes take a factor of nearly 1 for none.
    twice = np.array(2.0 + 2.0 * np.finfo(graph.kind).eps, dtype=graph.kind)
    half = np.array(0.5, dtype=graph.kind)
    return graph("Mul", graph("Mul", p, graph.constant(twice)), graph.constant(half))


def _add_leads(graph: Graph, decision: str, n_classes: int) -> str:
    """Add f_k - max_{j != k} f_j for each class."""
    if n_classes == 2:
        return graph("Concat", graph("Neg", decision), decision, axis=1)
    ordered = graph("TopK", decision, graph.constant(np.array([2])), axis=1)
    best, second = (graph("Gather", ordered, graph.constant(np.array([i])), axis=1) for i in (0, 1))
    leads = graph("Equal", decision, best)
    return graph("Where", leads, graph("Sub", decision, second), graph("Sub", decision, best))


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
