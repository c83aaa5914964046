"""Times for the documentation's tables of estimators and solvers, as CSV: medians of three.

python benchmarks/bench_choose.py estimators > docs/measured/estimators.csv
python benchmarks/bench_choose.py linear > docs/measured/linear.csv
python benchmarks/bench_choose.py solvers > docs/measured/solvers.csv
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from bench_exact import synthetic
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.datasets import make_ndc

REPEATS = 3
M = 2000
#: Rows for exact leave-one-out values, which take the squared hinge a solve for each support row.
FEW = 500
ESTIMATORS = (LSSVC, LSSVR, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def shown(value):
    """Return a time with two digits, in the unit that suits it."""
    if value < 0.0995:
        return f"{1e3 * value:.2g} ms"
    return f"{value:.2g} s"


def typical(works):
    """Return the median time of some works, the first of which only warms up."""
    return shown(np.median([seconds(work) for work in works][1:]))


def fitted(estimator, X, y):
    """Yield a fresh model for each repetition, and one more."""
    for _ in range(REPEATS + 1):
        yield estimator().fit(X, y)


def estimators():
    X, y = synthetic(M)
    new_X, new_y = synthetic(1, seed=1)
    columns = f"fit,forget one row,learn one row,first probabilities,support rows,leave-one-out of {FEW} rows"
    print(f'"estimator, RBF, {M:,} x 20",{columns}')
    for estimator in ESTIMATORS:
        fit = typical([lambda e=estimator: e().fit(X, y)] * (REPEATS + 1))
        forget = typical([lambda m=m: m.forget([7]) for m in fitted(estimator, X, y)])
        learn = typical([lambda m=m: m.learn(new_X, new_y) for m in fitted(estimator, X, y)])
        model = estimator().fit(X, y)
        leave = typical([m.loo_score for m in fitted(estimator, X[:FEW], y[:FEW])])
        proba = "none"
        if hasattr(model, "predict_proba"):
            proba = shown(seconds(lambda m=model: m.predict_proba(X[:1])))
        cells = (fit, forget, learn, proba, f'"{model.support_.size:,}"', leave)
        print(f'"`{estimator.__name__}`",{",".join(cells)}', flush=True)


def linear():
    X, y = make_ndc(200_000, 20, random_state=0)
    print('"estimator, linear, 200,000 x 20",fit,"forget 1,000 rows","learn 1,000 rows"')
    gone, extra = range(1000), (X[:1000], y[:1000])
    for base in ESTIMATORS:

        def estimator(base=base):
            return base(kernel="linear", C=0.1)

        fit = typical([lambda e=estimator: e().fit(X, y)] * (REPEATS + 1))
        forget = typical([lambda m=m: m.forget(gone) for m in fitted(estimator, X, y)])
        learn = typical([lambda m=m: m.learn(*extra) for m in fitted(estimator, X, y)])
        print(f'"`{base.__name__}`",{fit},{forget},{learn}', flush=True)


#: Estimators with one of each problem, and the solvers that fit it.
PROBLEMS = (
    (LSSVC, ("direct", "sumt", "substitution", "penalty-flow")),
    (RelaxedLSSVC, ("direct", "2smo")),
    (LagrangianSVC, ("active-set", "sesquismo", "lagrangian")),
    (RLSSVC, ("active-set",)),
)


def solved(estimator, solver, C, X, y):
    """Return the time of a fit, or that it did not reach `tol`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator(solver=solver, C=C)
        time = typical([lambda: model.fit(X, y)] * (REPEATS + 1))
    status = model.certificate_.status
    return time if status == "converged" else f"{status} after {time}"


def solvers():
    X, y = synthetic(M)
    print(f'"estimator, RBF, {M:,} x 20",solver,C = 0.1,C = 1,C = 100')
    for estimator, names in PROBLEMS:
        for name in names:
            times = ",".join(solved(estimator, name, C, X, y) for C in (0.1, 1.0, 100.0))
            print(f"`{estimator.__name__}`,``'{name}'``,{times}", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["estimators", "linear", "solvers"]:
        globals()[name]()
