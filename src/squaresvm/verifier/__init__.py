"""The independent verifier: what a model claims, what is true, and how far it can be from the optimum.

It shares no code with what it judges. From the rest of the package it takes how files are opened and sources
are read, and from a fitted model its numbers; all that is computed from them is computed here. To read it in
one sitting:

- :mod:`squaresvm.verifier.wide` is the arithmetic: numbers of 106 bits, exact products of matrices;
- :mod:`squaresvm.verifier.kernel_values` has the kernels, tile by tile;
- :mod:`squaresvm.verifier.conditions` derives residual, gap and bound, and takes them of multipliers;
- :mod:`squaresvm.verifier.primal` takes them of models in w, by passes;
- :mod:`squaresvm.verifier.reading` reads a fitted model, and the data that it is checked by;
- :mod:`squaresvm.verifier.receipts` checks the receipts, and that an id is absent;
- :mod:`squaresvm.verifier.checking` compares, and says so.
"""

from __future__ import annotations

from squaresvm.verifier.checking import Verdict, verify
from squaresvm.verifier.reading import Claim

__all__ = ["Claim", "Verdict", "verify"]
