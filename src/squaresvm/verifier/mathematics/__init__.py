"""What judges a model: the definitions, the kernels and the arithmetic, by NumPy and SciPy alone.

Read in this order, in one sitting:

- :mod:`~squaresvm.verifier.mathematics.subject`: a model as plain numbers, which is all that goes in;
- :mod:`~squaresvm.verifier.mathematics.judgement`: residual, gap, objective and bound, derived and computed;
- :mod:`~squaresvm.verifier.mathematics.kernel_values`: the kernels, tile by tile;
- :mod:`~squaresvm.verifier.mathematics.wide`: numbers of 106 bits, and exact products of matrices.
"""
