"""Training rows: features, labels, weights and ids, held in one place and replaced whole."""

from __future__ import annotations

from squaresvm.rows.rows import Ids, Rows, canonical_csr, ids_from, owned

__all__ = ["Ids", "Rows", "canonical_csr", "ids_from", "owned"]
