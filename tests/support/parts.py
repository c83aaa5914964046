"""Parts of the suite that can be run alone, by the names of their modules, wherever these lie.

The only list of them: `pytest --part=numerical` reads it, and through it `tools/everywhere.py` and `.ci/run`.
The examples of pages and docstrings, which print digits, belong to each part; name `tests` to leave them out.
"""

from __future__ import annotations

PARTS = {
    # What another BLAS, another processor or another library can change; at most two minutes on two cores.
    "numerical": (
        "test_c_path",
        "test_calibration",
        "test_loops",
        "test_conjugate_gradient",
        "test_corrections",
        "test_descent",
        "test_drift",
        "test_equivalences",
        "test_factor_updates",
        "test_factors",
        "test_forget",
        "test_intervals",
        "test_kernels",
        "test_lapack",
        "test_leave_one_out",
        "test_line_search",
        "test_linear_newton",
        "test_linear_passes",
        "test_linear_wide",
        "test_products",
        "test_nystrom",
        "test_operators",
        "test_oracle",
        "test_papers",
        "test_papers_algorithms",
        "test_precomputed",
        "test_problem",
        "test_properties",
        "test_pruning",
        "test_robust",
        "test_rows_on_demand",
        "test_contract",
        "test_solvers",
        "test_sources_dask",
        "test_weights",
    ),
    # What a BLAS changes most, searches near their limits and blocks from other processes: for every change.
    "kernels": (
        "test_contract",
        "test_descent",
        "test_papers_algorithms",
        "test_rows_on_demand",
        "test_loops",
        "test_sources_dask",
    ),
    # What compiled code does, in loops short enough for Numba's compiler to be switched off.
    "uncompiled": (
        "test_loops",
        "test_factors",
        "test_linear_newton",
        "test_linear_passes",
        "test_line_search",
    ),
}
