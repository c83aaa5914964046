"""The Lagrangian SVM paper's largest problem: 2,000,000 rows of 10 columns, linear, nu = 1/m.

    python benchmarks/bench_lagrangian.py [ROWS]

The paper took 82 minutes on a notebook of its time, 7 minutes on a workstation.
"""

from __future__ import annotations

import resource
import sys
import time

from squaresvm import LagrangianSVC
from squaresvm.datasets import make_ndc


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(rows):
    X, y = make_ndc(rows, random_state=0)
    before = peak()
    for C in (1.0 / rows, 100.0 / rows):
        start = time.perf_counter()
        model = LagrangianSVC(kernel="linear", C=C, solver="lagrangian", tol=1e-5).fit(X, y)
        print(
            f"{rows} x {X.shape[1]}, C={C:g}: {time.perf_counter() - start:.1f} s, "
            f"{model.n_iter_} iterations, {model.certificate_}, accuracy {model.score(X, y):.3f}, "
            f"peak memory {peak() - before:.2f} GB beyond the {X.nbytes / 2**30:.2f} GB of rows",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
