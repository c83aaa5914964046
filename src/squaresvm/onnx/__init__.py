"""Fitted models, and pipelines that end in one, as ONNX graphs."""

from __future__ import annotations

from squaresvm.onnx.graphs import OPSET, Graph, add_classification, add_regression, to_onnx

__all__ = ["OPSET", "Graph", "add_classification", "add_regression", "to_onnx"]
