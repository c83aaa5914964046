"""Kernels of 10,000 rows and more against scikit-learn, each fit in a process of its own: a crash is a row.

python benchmarks/bench_large_kernels.py [threshold] [ten] [twenty] [memory] [a9a] [landmarks] [covtype]
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time

import numpy as np
from bench_exact import synthetic
from papers_data import folder, standardised
from sklearn.datasets import load_svmlight_file

REPEATS = 3


# What runs in a process of its own ------------------------------------------------------------------------


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def lssvc(m, C, solver, tol=1e-5):
    from squaresvm import LSSVC

    X, y = synthetic(m)
    LSSVC(solver="cg").fit(X[:3500], y[:3500])
    before, start = peak(), time.perf_counter()
    model = LSSVC(C=C, tol=tol, solver=solver).fit(X, y)
    seconds = time.perf_counter() - start
    told = f"{model.solver_}, {model.n_iter_} iterations, {model.certificate_}"
    return {"seconds": seconds, "bytes": peak() - before, "told": told}


def kernel_ridge(m, C):
    from sklearn.kernel_ridge import KernelRidge

    X, y = synthetic(m)
    gamma = 1.0 / (X.shape[1] * X.var())
    KernelRidge(alpha=1 / C, kernel="rbf", gamma=gamma).fit(X[:3500], y[:3500])
    before, start = peak(), time.perf_counter()
    KernelRidge(alpha=1 / C, kernel="rbf", gamma=gamma).fit(X, y)
    return {"seconds": time.perf_counter() - start, "bytes": peak() - before, "told": "no bias"}


def a9a_data():
    X, y = load_svmlight_file(str(folder() / "a9a.svm"), n_features=123)
    T, t = load_svmlight_file(str(folder() / "a9a.t.svm"), n_features=123)
    for rows in (X, T):
        # SVC refuses the 64-bit indices that the reader returns.
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return X, y, T, t


def a9a_fit(name):
    from sklearn.svm import SVC

    import squaresvm

    X, y, T, t = a9a_data()
    peer = name == "SVC"
    estimator = SVC(cache_size=2000) if peer else getattr(squaresvm, name)(tol=1e-4)
    type(estimator)().fit(X[:3500], y[:3500])
    start = time.perf_counter()
    estimator.fit(X, y)
    seconds = time.perf_counter() - start
    told = f"test accuracy {estimator.score(T, t):.4f}"
    told += "" if peer else f", {estimator.solver_}, {estimator.certificate_}"
    return {"seconds": seconds, "told": told}


def pipeline(tol, name="LagrangianSVC", m=200_000, landmarks=1000):
    """The same problem, landmarks included; with a tolerance, by scikit-learn."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    import squaresvm

    X, y = synthetic(m + 20_000)
    X, T, y, t = X[:m], X[m:], y[:m], y[m:]
    gamma = 1.0 / (X.shape[1] * X.var())
    if tol is None:
        model = make_pipeline(
            squaresvm.Nystrom(landmarks, gamma=gamma, random_state=0),
            getattr(squaresvm, name)(kernel="linear", C=2.0, tol=1e-4),
        )
        X, T = X.astype(np.float32), T.astype(np.float32)
    else:
        model = make_pipeline(
            Nystroem(n_components=landmarks, gamma=gamma, random_state=0),
            LinearSVC(C=1.0, dual="auto", tol=tol),
        )
    model.fit(X[:3500], y[:3500])
    start = time.perf_counter()
    model[0].fit(X).transform(X)
    features = time.perf_counter() - start
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    told = f"features {features:.2f} s, accuracy {model.score(T, t):.5f}"
    return {"seconds": seconds, "told": told + (f", {model[-1].certificate_}" if tol is None else "")}


def covtype_fit(name, landmarks):
    """All 581,012 rows, by passes over blocks: the features of the landmarks are never held."""
    import squaresvm
    from squaresvm.streaming import ArraySource, MappedSource

    with gzip.open(folder() / "covtype.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)[np.random.default_rng(0).permutation(581_012)]
    X, y = standardised(table[:, :-1]).astype(np.float32), table[:, -1]
    del table
    before, start = resident(), time.perf_counter()
    features = squaresvm.Nystrom(landmarks, gamma=1 / 8, random_state=0).fit(X)
    model = getattr(squaresvm, name)(kernel="linear", C=1.0, tol=1e-3)
    model.fit(MappedSource(ArraySource(X, y), features))
    seconds, grown = time.perf_counter() - start, (peak() - before) / 2**20
    told = f"{grown:.0f} MB beyond the rows, {model.n_iter_} steps, {model.certificate_}"
    known, new = slice(500_000), slice(500_000, None)
    model.fit(MappedSource(ArraySource(X[known], y[known]), features))
    held_out = model.score(MappedSource(ArraySource(X[new], y[new]), features))
    return {"seconds": seconds, "told": f"{told}; of 81,012 rows held out {held_out:.4f} right"}


def resident():
    """Return the bytes in use, and let the peak start from there."""
    with open("/proc/self/clear_refs", "w") as peaks:
        peaks.write("5")
    return peak()


CHILDREN = {work.__name__: work for work in (lssvc, kernel_ridge, a9a_fit, pipeline, covtype_fit)}


# What compares them ---------------------------------------------------------------------------------------


def child(name, *arguments, timeout=900):
    """Return what a child process reports; None where it crashed."""
    command = [sys.executable, "-W", "ignore", __file__, "child", name, json.dumps(arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        print(f"    {name}{arguments}: not done after {timeout} s", flush=True)
        return None
    if done.returncode:
        why = f"signal {-done.returncode}" if done.returncode < 0 else done.stderr.strip().splitlines()[-1:]
        print(f"    {name}{arguments}: CRASHED, {why}", flush=True)
        return None
    report = json.loads(done.stdout.splitlines()[-1])
    print(f"    {name}{arguments}: {report['seconds']:.2f} s, {report['told']}", flush=True)
    return report


def ratio(what, ours, theirs):
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a and b]
    if both:
        ratios = sorted(b["seconds"] / a["seconds"] for a, b in both)
        print(f"{what}: ratio {np.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def threshold():
    """Where conjugate gradients begin to pay."""
    for m in (4000, 6000, 8000, 12_000):
        for C in (1.0, 100.0, 1e4):
            rows = [(child("lssvc", m, C, "cg"), child("lssvc", m, C, "direct"))]
            ratio(f"direct / cg, m = {m}, C = {C:g}", *zip(*rows, strict=True))


def ten():
    rows = [(child("lssvc", 10_000, 1.0, "auto"), child("kernel_ridge", 10_000, 1.0)) for _ in range(REPEATS)]
    ratio("KernelRidge / LSSVC, RBF, m = 10,000, d = 20, C = 1, tol 1e-5", *zip(*rows, strict=True))


def twenty():
    rows = [(child("lssvc", 20_000, 1.0, "auto"), child("lssvc", 20_000, 1.0, "direct"))]
    ratio("direct / auto, LSSVC RBF, m = 20,000, d = 20, C = 1, tol 1e-5", *zip(*rows, strict=True))
    ours, peer = child("lssvc", 20_000, 1.0, "auto"), child("kernel_ridge", 20_000, 1.0)
    ratio("KernelRidge / auto", [ours], [peer])


def memory():
    for m in (10_000, 20_000):
        report = child("lssvc", m, 1.0, "auto")
        print(f"LSSVC RBF, m = {m}: peak {report['bytes'] / (4 * m**2):.2f} x one float32 m x m matrix")


def a9a():
    for name in ("LSSVC", "RLSSVC"):
        ratio(f"SVC / {name}, a9a", [child("a9a_fit", name)], [child("a9a_fit", "SVC")])


def landmarks():
    """LinearSVC's own tolerance ends before the optimum: a smaller one stands beside it."""
    ours = {name: child("pipeline", None, name) for name in ("LagrangianSVC", "RLSSVC", "LSSVC")}
    for tol in (1e-4, 1e-7):
        peer = child("pipeline", tol)
        for name, report in ours.items():
            what = f"Nystroem + LinearSVC(tol={tol:g}) / Nystrom + {name}, 200,000 x 20, 1,000 landmarks"
            ratio(what, [report], [peer])


def covtype():
    child("covtype_fit", "LSSVC", 1000, timeout=1800)
    child("covtype_fit", "RLSSVC", 500, timeout=1800)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(CHILDREN[sys.argv[2]](*json.loads(sys.argv[3]))))
    else:
        for name in sys.argv[1:] or ["threshold", "ten", "twenty", "memory", "a9a", "landmarks", "covtype"]:
            globals()[name]()
