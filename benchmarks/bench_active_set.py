"""The RLSSVM paper's switches, refactoring, and the hybrid; then the time over C, beside SVC.

python benchmarks/bench_active_set.py [reuse] [path]
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
from papers_data import seconds, svm
from sklearn.svm import SVC

from squaresvm import RLSSVC
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.solvers import ActiveSet

#: Gaussian settings of Table 3, L2 loss: features, C, gamma.
SETS = {"splice": (60, 10.0, 1.6e-2), "a1a": (123, 1.0, 2.5e-2), "w1a": (300, 10.0, 2.5e-2)}
#: Seconds that a peer may take for one fit.
PATIENCE = 30


def reuse():
    for name, (n, C, gamma) in SETS.items():
        X, y = svm(name, n)

        def held():
            operator = DenseOperator(Kernel("rbf", gamma), X)  # noqa: B023
            operator.full()
            return Problem(operator, y[:, None], np.full(len(y), C), Loss.SQUARED_HINGE, Bias.free())  # noqa: B023

        for cap in (None, 1000):
            for way in ("hybrid", "switches", "refactor"):
                solver = ActiveSet(reuse=way, n_sv_max=cap)
                solver.solve(held(), tol=1e-6, max_iter=None)  # What is compiled is compiled now.
                took, solution = seconds(
                    held,
                    lambda problem: solver.solve(problem, tol=1e-6, max_iter=None),  # noqa: B023
                    repeats=7,
                )
                work = solution.work
                print(
                    f"{name:7s} n_sv_max={cap!s:5s} {way:9s} {took:7.3f} s, {solution.n_iter:3d} steps, "
                    f"{np.count_nonzero(solution.beta)} support vectors, factor work "
                    f"{work['factor'] / work['refactoring']:5.2f} of refactoring",
                    flush=True,
                )


def path():
    """Linear kernel, Tables 9 to 11."""
    for name, (n, _, _) in SETS.items():
        X, y = svm(name, n)
        ours = []
        for exponent in range(-4, 5):
            C = 10.0**exponent
            took, _ = seconds(
                lambda: RLSSVC(kernel="linear", C=C, solver="active-set"),  # noqa: B023
                lambda model: model.fit(X, y),  # noqa: B023
                repeats=5,
            )
            ours.append(took)
            print(
                f"{name:7s} C=1e{exponent:+d} active-set {took:7.3f} s   SVC {peer(name, n, C)}", flush=True
            )
        print(f"{name:7s} slowest / fastest: {max(ours) / min(ours):.1f}", flush=True)


def peer(name, n, C):
    """Return the time of SVC, which at large C takes minutes, in a child that can be ended."""
    command = [sys.executable, __file__, "svc", name, str(n), str(C)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except subprocess.TimeoutExpired:
        return f"more than {PATIENCE} s"
    return done.stdout.strip()


def svc(name, n, C):
    X, y = svm(name, int(n))
    start = time.perf_counter()
    SVC(kernel="linear", C=float(C)).fit(X, y)
    print(f"{time.perf_counter() - start:7.3f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["svc"]:
        svc(*sys.argv[2:])
    else:
        for part in sys.argv[1:] or ("reuse", "path"):
            print(f"== {part}")
            {"reuse": reuse, "path": path}[part]()
