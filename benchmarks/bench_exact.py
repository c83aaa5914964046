"""The exact solvers against scikit-learn: same work, same optimum, one run.

python benchmarks/bench_exact.py [kernel_ridge] [svc] [memory] [imports]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
from papers_data import svm
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from squaresvm import LSSVC, RLSSVC

REPEATS = 5


def synthetic(m, n=20, seed=0):
    """Return rows with a nonlinear boundary and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    return X, np.sign(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=m))


def alternating(ours, theirs, repeats=REPEATS):
    """Return median seconds of both, run in turn so that both meet the same machine, and all ratios."""
    ours(), theirs()
    times = []
    for _ in range(repeats):
        pair = []
        for work in (ours, theirs):
            start = time.perf_counter()
            work()
            pair.append(time.perf_counter() - start)
        times.append(pair)
    a, b = np.array(times).T
    return np.median(a), np.median(b), np.sort(b / a)


def report(what, ours, theirs, ratios):
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    print(f"{what}: {ours:.3f} s, peer {theirs:.3f} s, ratio {np.median(ratios):.2f} ({spread})", flush=True)


def kernel_ridge():
    X, y = synthetic(4000)
    gamma = 1.0 / (X.shape[1] * X.var())
    ours, theirs, ratios = alternating(
        lambda: LSSVC().fit(X, y), lambda: KernelRidge(kernel="rbf", gamma=gamma).fit(X, y)
    )
    report("LSSVC RBF, m = 4,000, d = 20, against KernelRidge", ours, theirs, ratios)


def svc():
    splice = svm("splice", 60)
    for name, (X, y), gamma, C in [
        ("splice", splice, 1.6e-2, 10.0),
        ("m = 5,000, d = 20", synthetic(5000), 0.05, 1.0),
    ]:

        def peer():
            K = rbf_kernel(X, gamma=gamma)  # noqa: B023
            K[np.diag_indices_from(K)] += 1.0 / C  # noqa: B023
            return SVC(kernel="precomputed", C=1e12, tol=1e-6).fit(K, y)  # noqa: B023

        def ours():
            return RLSSVC(C=C, gamma=gamma).fit(X, y)  # noqa: B023

        took, other, ratios = alternating(ours, peer, 5 * REPEATS if len(y) < 2000 else REPEATS)
        model, reference = ours(), peer()
        K = rbf_kernel(X[:200], X, gamma=gamma)
        theirs = K[:, reference.support_] @ reference.dual_coef_[0] + reference.intercept_[0]
        difference = np.abs(model.decision_function(X[:200]) - theirs).max()
        report(
            f"RLSSVC RBF, {name}, against SVC on K + I/C (differ by {difference:.0e})", took, other, ratios
        )


MEMORY = """
import numpy as np
from squaresvm import LSSVC
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
rng = np.random.default_rng(0)
X = rng.normal(size=({m}, 20)); y = np.sign(X[:, 0])
LSSVC().fit(X[:200], y[:200])
before = peak()
LSSVC().fit(X, y)
after = peak()
print((after - before) * 1024 / (8 * {m} ** 2))
"""


def memory():
    for m in (4000, 9000):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY.format(m=m)], capture_output=True, text=True, check=True
        )
        print(f"LSSVC RBF, m = {m}: peak {float(done.stdout):.2f} x one m x m float64 matrix", flush=True)


IMPORTS = """
import time
start = time.perf_counter()
import sklearn.svm
middle = time.perf_counter()
import squaresvm
print(middle - start, time.perf_counter() - middle)
"""


def imports():
    took = []
    for _ in range(REPEATS):
        done = subprocess.run(
            [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, env=dict(os.environ)
        )
        took.append([float(part) for part in done.stdout.split()])
    base, over = np.median(took, axis=0)
    print(f"import sklearn.svm {base:.2f} s, squaresvm {over:.2f} s over that", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["kernel_ridge", "svc", "memory", "imports"]:
        globals()[name]()
