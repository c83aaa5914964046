"""Linear models of text-like and other sparse rows beside LinearSVC, to the same objective.

python benchmarks/bench_text.py [text] [classes] [mid] [a9a]

Each line is a ratio in one run: the median seconds of the faster of LinearSVC's two solvers over ours, tol
1e-4 for both, LinearSVC's C (ours is twice that), with the relative difference of the objectives.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from papers_data import svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from squaresvm import LagrangianSVC

TOL, REPEATS = 1e-4, 5


def words(rows, columns, a_row, classes=2, seed=0):
    """Return rows of words by Zipf's law, with words of their own for each class, weighted as texts are."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, columns + 1) ** -0.8
    y = rng.integers(0, classes, rows)
    own = np.stack([rng.permutation(columns)[:2000] for _ in range(classes)])
    found = rng.choice(columns, size=(rows, a_row), p=share / share.sum())
    topical = rng.random((rows, a_row)) < 0.15
    found = np.where(topical, own[y[:, None], rng.integers(0, 2000, (rows, a_row))], found)
    places = (np.repeat(np.arange(rows), a_row), found.ravel())
    X = sp.csr_matrix((np.ones(rows * a_row), places), shape=(rows, columns))
    counts = np.bincount(X.indices, minlength=columns)
    X.data = (1.0 + np.log(X.data)) * np.log(rows / (1.0 + counts))[X.indices]
    flipped = rng.random(rows) < 0.1
    y[flipped] = rng.integers(0, classes, flipped.sum())
    return normalize(X), y


def timed(make, X, y, repeats):
    took = []
    for _ in range(repeats):
        begin = time.perf_counter()
        model = make().fit(X, y)
        took.append(time.perf_counter() - begin)
    return float(np.median(took)), float(np.ptp(took)), model


def objective(model, X, y, C):
    labels = model.classes_ if model.classes_.size > 2 else model.classes_[1:]
    Y = np.where(y[:, None] == labels, 1.0, -1.0)
    slack = np.maximum(0.0, 1.0 - Y * (np.asarray(X @ model.coef_.T) + model.intercept_))
    return 0.5 * (model.coef_**2).sum() + 0.5 * (model.intercept_**2).sum() + C * (slack**2).sum()


def compare(name, X, y, Cs, primal=True, repeats=REPEATS):
    LagrangianSVC(kernel="linear", tol=TOL).fit(X, y)
    for C in Cs:
        ours, spread, model = timed(
            lambda C=C: LagrangianSVC(kernel="linear", C=2 * C, tol=TOL), X, y, repeats
        )
        peers = {}
        for dual in (True, False) if primal else (True,):
            options = {"C": C, "dual": dual, "tol": TOL, "random_state": 0}
            peers[dual] = timed(lambda options=options: LinearSVC(**options), X, y, repeats if dual else 2)
        dual = min(peers, key=lambda dual: peers[dual][0])
        best = peers[dual]
        lead = objective(best[2], X, y, C) / objective(model, X, y, C) - 1.0
        print(
            f"{name}, C = {C:g}: {best[0] / ours:.2f} x LinearSVC(dual={dual}); ours {ours:.3f} s "
            f"(spread {spread:.3f}) by {model.solver_}, theirs {best[0]:.3f} s (spread {best[1]:.3f}); "
            f"their objective is larger by {lead:.1e}",
            flush=True,
        )


def text():
    compare("15,000 x 50,000 words", *words(15_000, 50_000, 80), (0.1, 1.0, 10.0))


def classes():
    compare("the same, 20 classes", *words(15_000, 50_000, 80, 20), (1.0,), primal=False, repeats=3)


def mid():
    compare("20,000 x 10,000 words", *words(20_000, 10_000, 100), (0.01, 1.0, 100.0))


def a9a():
    X, y = svm("a9a", 123)
    compare("a9a", sp.csr_matrix(X), y, (0.01, 1.0, 100.0))


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in sys.argv[1:] or ("text", "classes", "mid", "a9a"):
        globals()[part]()
