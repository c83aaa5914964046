"""The independent verifier: what a model claims, what is true, and how far it can be from the optimum.

It shares no code with what it judges. What judges is :mod:`squaresvm.verifier.mathematics`, which imports
NumPy and SciPy and nothing else of this package: a model goes in as plain numbers, what is true comes out.
Start there; the rest carries numbers to it and compares:

- :mod:`squaresvm.verifier.reading` reads a fitted model off as plain numbers, and its targets and costs;
- :mod:`squaresvm.verifier.passes` reads rows from a source, in pieces that fit into memory;
- :mod:`squaresvm.verifier.receipts` checks receipts, absence and rows that are shown;
- :mod:`squaresvm.verifier.checking` compares what is true with what is claimed, and says so.
"""

from __future__ import annotations

from squaresvm.verifier.checking import Verdict, verify
from squaresvm.verifier.reading import Claim

__all__ = ["Claim", "Verdict", "verify"]
