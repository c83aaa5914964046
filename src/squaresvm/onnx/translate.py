"""From a model to operators: decision values, labels, probabilities.

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

from squaresvm.judging.calibration import Calibration
from squaresvm.kernels import Kernel
from squaresvm.models.model import Model
from squaresvm.models.state import State
from squaresvm.onnx.graph import Graph
from squaresvm.typing import FloatArray

__all__ = ["add_classification", "add_regression"]

#: An ONNX file is one protobuf message, and those end at 2 GiB. The rest of the graph is small.
_MOST_BYTES = 2**31 - 2**20


def _add_decision(graph: Graph, state: Model) -> str:
    """Add f at each row, of shape (rows, k)."""
    w, kernel = state.primal, state.settings.kernel
    assert kernel is not None
    if w is not None:
        product = graph("MatMul", graph.X, graph.constant(w))
        return graph("Add", product, graph.constant(state.solution.bias))
    assert isinstance(state, State)
    if state.support.size == 0:  # No row counts: f is the bias.
        product = graph(
            "MatMul", graph.X, graph.constant(np.zeros((state.rows.n_columns, state.solution.bias.size)))
        )
    else:
        block = _add_kernel(graph, kernel, _support_rows(state))
        product = graph("MatMul", block, graph.constant(state.dual_coef.T))
    return graph("Add", product, graph.constant(state.solution.bias))


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
    """Add the output `value`."""
    flat = graph("Squeeze", _add_decision(graph, state), graph.constant(np.array([1])))
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
    raw = graph("Sigmoid", graph("Mul", slopes, leads))
    one = graph.constant(np.array([1]))
    p = graph.in_kind(graph("Div", raw, graph("ReduceSum", raw, one, keepdims=1)))
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
