"""The independent verifier: what a model claims, what is true, and how far it can be from the optimum.

It shares no code with what it judges. From the rest of the package it takes how files are opened and sources
are read, and from a fitted model its numbers; all that is computed from them is computed here. What judges
is three modules, to be read in this order in one sitting:

- :mod:`squaresvm.verifier.judgement` derives residual, gap and bound, and takes them of a model;
- :mod:`squaresvm.verifier.kernel_values` has the kernels, tile by tile;
- :mod:`squaresvm.verifier.wide` is the arithmetic: numbers of 106 bits, exact products of matrices.

Around them, :mod:`squaresvm.verifier.reading` reads a fitted model off as plain numbers,
:mod:`squaresvm.verifier.receipts` checks receipts, absence and rows that are shown, and
:mod:`squaresvm.verifier.checking` compares, and says so.
"""

from __future__ import annotations

from squaresvm.verifier.checking import Verdict, verify
from squaresvm.verifier.reading import Claim

__all__ = ["Claim", "Verdict", "verify"]
