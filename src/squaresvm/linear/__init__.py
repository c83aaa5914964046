"""Linear models by passes over blocks of rows: in memory, from disk, on a cluster."""

from __future__ import annotations

from squaresvm.linear.memory import MemoryPieces
from squaresvm.linear.passes import Piece
from squaresvm.linear.problem import LinearProblem, Pieces, Point, Verdict
from squaresvm.linear.streamed import Encoding, StreamedPieces
from squaresvm.linear.survey import Look, Sample, Survey

__all__ = [
    "Encoding",
    "LinearProblem",
    "Look",
    "MemoryPieces",
    "Piece",
    "Pieces",
    "Point",
    "Sample",
    "StreamedPieces",
    "Survey",
    "Verdict",
]
