"""Exact error from one fit against refits: folds, groups, several targets, sets of labels; one run.

python benchmarks/bench_left_out.py [folds] [targets] [sets]

Thresholds, stated before measuring: 5 folds and 50 groups of LSSVC at m = 4,000 take at most 3 x one fit; ten
targets at most 1.3 x one; sets of labels at least 20 x faster than MAPIE's with refits.
"""

from __future__ import annotations

import importlib.util
import sys
import time

import numpy as np
from bench_exact import alternating, synthetic
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from squaresvm import LSSVC, LSSVR

M, REPEATS = 4000, 3


def seconds(work):
    """Return the least time of a few runs."""
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def folds():
    """Time values of all rows after a fit, which it does not include, against the fit."""
    X, y = synthetic(M)
    cv, groups = StratifiedKFold(5), np.arange(M) % 50
    for what, arguments in (("5 folds", {"cv": cv}), ("50 groups", {"groups": groups})):
        fits, crossed = [], []
        for _ in range(REPEATS + 1):
            start = time.perf_counter()
            model = LSSVC().fit(X, y)
            middle = time.perf_counter()
            model.cross_decision_function(**arguments)
            fits.append(middle - start)
            crossed.append(time.perf_counter() - middle)
        fit, cross = min(fits[1:]), min(crossed[1:])
        print(f"{what}, m = {M}: {cross:.2f} s, {cross / fit:.2f} x one fit ({fit:.2f} s)", flush=True)
    refits = seconds(lambda: cross_val_predict(LSSVC(), X, y, cv=cv, method="decision_function"))
    print(f"cross_val_predict with 5 refits: {refits:.2f} s, {refits / fit:.2f} x one fit", flush=True)


def targets():
    """Time a fit of ten targets against one, and KernelRidge beside it."""
    X, _ = synthetic(M)
    Y = np.column_stack([np.sin(X @ np.eye(20)[j]) for j in range(10)])
    one, ten, ratios = alternating(lambda: LSSVR().fit(X, Y[:, 0]), lambda: LSSVR().fit(X, Y), REPEATS)
    print(f"ten targets, m = {M}: {ten:.2f} s, {np.median(ratios):.2f} x one ({one:.2f} s)", flush=True)
    peer = seconds(lambda: KernelRidge(kernel="rbf", gamma=0.05).fit(X, Y))
    print(f"KernelRidge, ten targets: {peer:.2f} s, {peer / ten:.2f} x ours", flush=True)


def sets():
    """Time sets of labels of 500 rows after a fit on 4,000 against MAPIE's, cross-conformal with refits.

    In turn, each time of a new fit, which ours does not include: what it has found out is kept.
    """
    X, y = synthetic(M + 500)
    labels = (y > 0).astype(int)
    peers = () if importlib.util.find_spec("mapie") is None else (5, 20)
    ours, fits, theirs = [], [], {cv: [] for cv in peers}
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        model = LSSVC().fit(X[:M], labels[:M])
        middle = time.perf_counter()
        found = model.predict_set(X[M:], 0.9)
        ours.append(time.perf_counter() - middle)
        fits.append(middle - start)
        for cv in peers:
            theirs[cv].append(cross_conformal(X, labels, cv) if cv == 5 or len(theirs[cv]) < 2 else np.inf)
    took, fit = min(ours[1:]), min(fits[1:])
    inside = found[np.arange(500), labels[M:]].mean()
    print(f"predict_set, {M} models without a row each: {took:.3f} s after a fit of {fit:.2f} s", flush=True)
    print(f"  {found.sum(axis=1).mean():.2f} labels a set, {inside:.2f} of the truths", flush=True)
    for cv, all_took in theirs.items():
        peer = min(all_took[1:])
        whole = peer / took * M / cv
        print(
            f"MAPIE, {cv} refits: {peer:.2f} s, {peer / took:.1f} x ours (in proportion, {M}: {whole:.0f} x)"
        )
        print(f"  with our fit: {peer / (took + fit):.1f} x", flush=True)
    if not peers:
        print("MAPIE is not installed: no peer", flush=True)


def cross_conformal(X, labels, cv):
    """Return what MAPIE takes with its refits, as many as there are folds and one of all rows."""
    from mapie.classification import CrossConformalClassifier

    peer = CrossConformalClassifier(LSSVC(), confidence_level=0.9, cv=cv)
    start = time.perf_counter()
    peer.fit_conformalize(X[:M], labels[:M])
    peer.predict_set(X[M:])
    return time.perf_counter() - start


if __name__ == "__main__":
    for name in sys.argv[1:] or ["folds", "targets", "sets"]:
        globals()[name]()
