"""scikit-learn's tests of KernelRidge, with LSSVR in its place: no bias, and C = 1 / alpha.

Ridge stays scikit-learn's own, so that one is compared with the other.
"""

from __future__ import annotations

from support.peer_classes import KernelRidge
from support.peer_tests import LeftOut, Run, check_table, skip_unless_declared, with_ours

skip_unless_declared()

MODULE = "sklearn.tests.test_kernel_ridge"
OURS = {"KernelRidge": KernelRidge}

TABLE = {
    "test_kernel_ridge": Run(),
    "test_kernel_ridge_sparse": Run(),
    "test_kernel_ridge_singular_kernel": LeftOut("alpha = 0 is an infinite C, which is refused"),
    "test_kernel_ridge_precomputed": Run(),
    "test_kernel_ridge_precomputed_kernel_unchanged": Run(),
    "test_kernel_ridge_sample_weights": Run(),
    "test_kernel_ridge_multi_output": LeftOut("LSSVR has one target"),
}
globals().update(with_ours(MODULE, TABLE, OURS))


def test_every_test_of_the_module_is_in_the_table():
    check_table(MODULE, TABLE, OURS)
