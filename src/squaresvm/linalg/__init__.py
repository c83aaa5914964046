"""Products and factorisations: BLAS and LAPACK in place, and the small definite systems between them."""
