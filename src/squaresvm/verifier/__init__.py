"""The independent verifier: what a model claims, what is true, and how far it can be from the optimum.

It shares no code with what it judges. From the rest of the package it takes how files are opened and how
sources are read, and from a fitted model its numbers; all that is computed from them is computed here.

- :mod:`squaresvm.verifier.wide` is the arithmetic: numbers of 106 bits, exact products of matrices;
- :mod:`squaresvm.verifier.kernel_values` has the kernels, tile by tile;
- :mod:`squaresvm.verifier.conditions` derives residual, gap and the bound, which are taken
  by :mod:`squaresvm.verifier.multipliers` and, for models in w, by :mod:`squaresvm.verifier.primal`;
- :mod:`squaresvm.verifier.reading` reads a fitted model, :mod:`squaresvm.verifier.rows_held` compares rows;
- :mod:`squaresvm.verifier.checking` puts them together.
"""

from __future__ import annotations

from squaresvm.verifier.checking import verify
from squaresvm.verifier.verdict import Claim, Verdict

__all__ = ["Claim", "Verdict", "verify"]
