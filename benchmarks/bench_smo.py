"""2SMO against `direct`, SesquiSMO against `active-set`: ratios on the same problem, kernel precomputed.

    python benchmarks/bench_smo.py [ratios] [letter] [table] [cures] [memory]

The updates end at a residual of 1e-3, as in the paper; the exact solvers have no such choice.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from papers_data import TABLE_1, letter, seconds, standardised, table
from sklearn.metrics.pairwise import rbf_kernel

from squaresvm import LagrangianSVC, RelaxedLSSVC
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, PrecomputedOperator
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.solvers import ActiveSet, Direct, SesquiSmo, TwoSmo, sesqui_smo, two_smo

TOL = 1e-3
PAIRS = {
    Loss.SQUARED: (RelaxedLSSVC, TwoSmo(), Direct()),
    Loss.SQUARED_HINGE: (LagrangianSVC, SesquiSmo(), ActiveSet()),
}


def problem_of(operator, y, loss, A, C=1.0):
    return Problem(operator, y[:, None], np.full(len(y), C), loss, Bias.penalised(A))


def held(K):
    """Return an operator that has K in its store: what a solver finds when its turn comes."""
    operator = PrecomputedOperator(K)
    operator.full()
    return operator


def compare(title, K, y, A, repeats=7):
    time.sleep(0.5)  # The threads of the BLAS that K was made with go on spinning for a while.
    for loss, (estimator, ours, exact) in PAIRS.items():
        alone, fits = {}, {}
        for solver in (ours, exact):
            alone[solver], found = seconds(
                lambda: problem_of(held(K), y, loss, A),  # noqa: B023
                lambda problem: (problem, solver.solve(problem, tol=TOL, max_iter=None)),  # noqa: B023
                repeats,
            )
            problem, solution = found
            assert problem.residual(solution).max() <= TOL
            del found, problem, solution
            fits[solver], _ = seconds(
                lambda: estimator(kernel="precomputed", A=A, tol=TOL, solver=solver),  # noqa: B023
                lambda model: model.fit(K, y),
                repeats,
            )
        print(
            f"{title:42s} A={A:<8g}{ours.name:>10s} {alone[ours]:7.3f} s (fit {fits[ours]:7.3f})"
            f"{exact.name:>12s} {alone[exact]:7.3f} s (fit {fits[exact]:7.3f})"
            f"   solver x{alone[exact] / alone[ours]:5.1f}  fit x{fits[exact] / fits[ours]:5.1f}",
            flush=True,
        )


def ratios():
    for name in ("mushroom", "kr-vs-kp"):
        X, y = table(name)
        compare(f"{name}/2, {len(y)} rows, gamma=1", rbf_kernel(X, gamma=1.0), y, 1e4)
    for name in ("sick", "mushroom"):
        X, y = table(name)
        K = rbf_kernel(standardised(X), gamma=1.0 / X.shape[1])
        for A in (1.0, 1e4):
            compare(f"{name}, {len(y)} rows, standardised", K, y, A)


def letters():
    X, y = letter()
    K = rbf_kernel(X, gamma=1.0 / X.shape[1])
    for solver in (TwoSmo(), Direct()):
        took, _ = seconds(
            lambda: problem_of(held(K), y, Loss.SQUARED, 1.0),
            lambda problem: solver.solve(problem, tol=TOL, max_iter=None),  # noqa: B023
            repeats=3 if solver.name == "2smo" else 1,
        )
        print(f"letter, {len(y)} rows: {solver.name} {took:.2f} s", flush=True)


def cells():
    for name in TABLE_1:
        X, y = table(name)
        for setting in ("paper", "standardised"):
            rows = X if setting == "paper" else standardised(X)
            operator = DenseOperator(Kernel("rbf", 1.0 if setting == "paper" else 1.0 / X.shape[1]), rows)
            operator.full()
            yield name, setting, operator, y


def everywhere():
    """Both reach 1e-3 on each set of Table 1: the most sweeps that any cell took."""
    most, count = {}, 0
    for name, setting, operator, y in cells():
        for C in (1.0, 10.0):
            for A in (0.01, 1.0, 1e4):
                for loss, (_, solver, _) in PAIRS.items():
                    problem = problem_of(operator, y, loss, A, C)
                    solution = solver.solve(problem, tol=TOL, max_iter=None)
                    status = problem.certify(solution, TOL).status.value
                    key = (solver.name, setting, C, A, status)
                    most[key] = max(most.get(key, (0, "")), (solution.n_iter, name))
                    count += 1
    for key, (sweeps, name) in sorted(most.items(), key=str):
        print(*key, f"at most {sweeps} sweeps, on {name}")
    print(count, "cells")


def cures():
    """Sweeps to 1e-3 with and without each cure, standardised columns, gamma = 1/n; 200 is where they end."""
    print("with both cures | without extrapolation | without the bias apart | with neither")
    thresholds = two_smo._SMALL_A, sesqui_smo._SMALL_A
    plain = two_smo.Extrapolation.step
    for name in ("pima", "sick"):
        X, y = table(name)
        operator = DenseOperator(Kernel("rbf", 1.0 / X.shape[1]), standardised(X))
        operator.full()
        for C, A in ((1.0, 1e4), (10.0, 1e4), (100.0, 1e4), (1.0, 1.0), (1.0, 0.01), (10.0, 0.01)):
            for solver, loss in ((TwoSmo(), Loss.SQUARED), (SesquiSmo(), Loss.SQUARED_HINGE)):
                line = []
                for extrapolate, apart in ((True, True), (False, True), (True, False), (False, False)):
                    two_smo._SMALL_A, sesqui_smo._SMALL_A = thresholds if apart else (0.0, 0.0)
                    two_smo.Extrapolation.step = plain if extrapolate else lambda self, beta, gradient: None
                    start = time.perf_counter()
                    solution = solver.solve(problem_of(operator, y, loss, A, C), tol=TOL, max_iter=200)
                    line.append(f"{solution.n_iter:4d} sweeps {time.perf_counter() - start:6.2f} s")
                print(f"{name:6s}{solver.name:>10s} C={C:<5g} A={A:<6g} {' | '.join(line)}", flush=True)
    two_smo.Extrapolation.step = plain
    two_smo._SMALL_A, sesqui_smo._SMALL_A = thresholds


def memory():
    """Fifty thousand rows, kernel rows on demand."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 10))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0, 1, -1)
    for cls, solver in ((LagrangianSVC, "sesquismo"), (RelaxedLSSVC, "2smo")):
        start = time.perf_counter()
        model = cls(gamma=0.1, C=1.0, solver=solver, tol=1e-3).fit(X, y)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{solver}: {len(y)} rows in {time.perf_counter() - start:.1f} s, {model.n_iter_} sweeps, "
            f"{model.certificate_}, peak memory {peak:.2f} GB",
            flush=True,
        )


PARTS = {"ratios": ratios, "letter": letters, "table": everywhere, "cures": cures, "memory": memory}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        print(f"== {part}")
        PARTS[part]()
