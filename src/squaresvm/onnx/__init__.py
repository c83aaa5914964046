"""Fitted models as ONNX graphs, for places where Python does not run."""

from __future__ import annotations

from squaresvm.onnx.export import to_onnx
from squaresvm.onnx.graph import OPSET

__all__ = ["OPSET", "to_onnx"]
