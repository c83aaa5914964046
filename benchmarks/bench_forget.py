"""Learning and forgetting against a refit with the same estimator, kernel included: one run.

python benchmarks/bench_forget.py [kernel] [hinge] [linear] [decremental]
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np
from bench_exact import synthetic
from papers_data import folder

from squaresvm import LSSVC, RLSSVC
from squaresvm.datasets import make_ndc

M, REPEATS = 4000, 5


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def kernel():
    X, y = synthetic(M)
    LSSVC().fit(X, y)
    refit = np.median([timed(lambda: LSSVC().fit(X, y))[0] for _ in range(REPEATS)])
    print(f"LSSVC RBF, m = {M}, d = 20: refit {refit:.3f} s")
    single = {
        "forget one row, first request": lambda model: model.forget([7]),
        "forget 50 rows, first request": lambda model: model.forget(range(50)),
        "learn one row, first request": lambda model: model.learn(0.9 * X[:1], y[:1]),
    }
    for name, request in single.items():
        took = [timed(partial(request, model))[0] for model in fitted(X, y)]
        print(f"  {name}: {1e3 * np.median(took):.1f} ms, {refit / np.median(took):.0f} x a refit")
    took = [timed(model.loo_decision_function)[0] for model in fitted(X, y)]
    print(f"  all {M} leave-one-out values: {np.median(took):.3f} s, {np.median(took) / refit:.2f} fits")
    model = LSSVC().fit(X, y)
    took, receipts = timed(lambda: [model.forget([i]) for i in range(1000)])
    worst = max(receipt.residual for receipt in receipts)
    rate = 1000 * refit / took
    print(f"  1,000 single requests: {took:.2f} s, {rate:.0f} x a refit each, residual {worst:.0e}")
    fresh = LSSVC(gamma=model.gamma_).fit(X[1000:], y[1000:])
    difference = np.abs(fresh.decision_function(X[:500]) - model.decision_function(X[:500])).max()
    print(f"  difference to a fresh fit of the rest: {difference:.0e}")


def fitted(X, y):
    for _ in range(REPEATS):
        yield LSSVC().fit(X, y)


def hinge():
    X, y = synthetic(M)
    RLSSVC().fit(X, y)
    refit = np.median([timed(lambda: RLSSVC().fit(X, y))[0] for _ in range(3)])
    model = RLSSVC().fit(X, y)
    support = set(model.support_.tolist())
    others = [i for i in range(M) if i not in support][:20]
    inside = [i for i in range(M) if i in support][:20]
    for name, rows in (("no support vectors", others), ("support vectors", inside)):
        took = [timed(lambda row=row: model.forget([row]))[0] for row in rows]
        print(
            f"RLSSVC, m = {M}: forget one of the {name}: {1e3 * np.median(took):.1f} ms, "
            f"{refit / np.median(took):.0f} x a refit"
        )


def linear():
    X, y = make_ndc(2_000_000, 10, random_state=0)
    LSSVC(kernel="linear", C=0.1).fit(X[:1000], y[:1000])
    refit = np.median([timed(lambda: LSSVC(kernel="linear", C=0.1).fit(X, y))[0] for _ in range(3)])
    model = LSSVC(kernel="linear", C=0.1).fit(X, y)
    rng = np.random.default_rng(0)
    took = [
        timed(lambda: model.forget(rng.choice(model.ids_, 1000, replace=False)))[0] for _ in range(REPEATS)
    ]
    print(
        f"LSSVC linear, 2,000,000 x 10: fit {refit:.2f} s, forget 1,000 rows {1e3 * np.median(took):.0f} ms, "
        f"{np.median(took) / refit:.1%} of a fit"
    )


#: Seconds of Tables 1 and 2 of the decremental paper, k = 1, 20, 50: batch and decremental LS-SVM.
DECREMENTAL = {"thyroid": 140, "ringnorm": 400, "german": 700, "splice": 1000, "image": 1300}


def decremental():
    """Its data sets at its sizes, k = 1, 20, 50; gamma and C of our own, for time does not depend on them."""
    for name, m in DECREMENTAL.items():
        table = np.genfromtxt(folder() / f"ida_{name}.csv", delimiter=",", skip_header=1)[:m]
        X, y = table[:, :-1], table[:, -1]
        refit = np.median([timed(lambda: LSSVC().fit(X, y))[0] for _ in range(REPEATS)])  # noqa: B023
        for k in (1, 20, 50):
            took = [timed(partial(model.forget, range(k)))[0] for model in fitted(X, y)]
            median = np.median(took)
            print(f"{name}, m = {m}, k = {k}: {1e3 * median:.2f} ms, {refit / median:.1f} x a refit")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["kernel", "hinge", "linear", "decremental"]:
        globals()[name]()
