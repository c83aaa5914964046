"""Tuning and probabilities without refits: the search beside GridSearchCV, calibration, many classes.

python benchmarks/bench_tuning.py [search] [stages] [probabilities] [classes] [default] [letter]

Thresholds, stated before measuring: `default` at least 2 x and `letter` at least 10 x as fast as GridSearchCV
over SVC, 5 x 5 cells, 5 folds, two processes; accuracy on rows that neither saw within 0.5 points.
"""

from __future__ import annotations

import csv
import gzip
import sys
import time

import numpy as np
from bench_exact import synthetic
from papers_data import folder, svm, table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from squaresvm import LSSVC, LSSVCCV
from squaresvm.kernels import Kernel
from squaresvm.search.paths import KernelFamily, KernelPath

#: Steps of 4 over the range that LIBSVM's guide recommends.
CS = [2.0**power for power in range(-5, 12, 2)]
GAMMAS = [2.0**power for power in range(-13, 4, 2)]
REPEATS = 5


def timed(work, repeats=1):
    """Return the median seconds of `work`, and its last result."""
    took, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        took.append(time.perf_counter() - start)
    return float(np.median(took)), result


def search():
    """a1a, 9 values of C and 9 of gamma; the second of two runs each, so that workers are warm."""
    X, y = svm("a1a", 123)
    test, labels = svm("a1a.t", 123)

    def peer():
        grid = GridSearchCV(SVC(), {"C": CS, "gamma": GAMMAS}, cv=10, n_jobs=2)
        return grid.fit(X, y)

    def ours(n_jobs):
        return LSSVCCV(Cs=CS, gammas=GAMMAS, n_jobs=n_jobs).fit(X, y)

    rows = [("LSSVCCV, n_jobs=2", lambda: ours(2)), ("LSSVCCV, n_jobs=1", lambda: ours(None))]
    found = {}
    for name, work in [*rows, ("GridSearchCV(SVC, cv=10, n_jobs=2)", peer)]:
        work()
        found[name], model = timed(work, 1 if work is peer else 3)
        best = {key: float(value) for key, value in model.best_params_.items()}
        print(
            f"{name}: {found[name]:.2f} s, {best}, test accuracy {model.score(test, labels):.4f}", flush=True
        )
    *mine, theirs = found.values()
    for (name, _), took in zip(rows, mine, strict=True):
        print(f"{name}: {theirs / took:.1f} x faster", flush=True)


def stages():
    """Where the time of one gamma goes, one thread and two."""
    X, y = svm("a1a", 123)
    family, ones = KernelFamily(Kernel("rbf"), X), np.ones(len(y))
    for threads in (1, 2):
        with threadpool_limits(threads):
            kernel, _ = timed(lambda: family(0.025), REPEATS)
            whole, path = timed(lambda: KernelPath(family(0.025), y[:, None], ones, free_bias=True), REPEATS)
            sweep, _ = timed(lambda: list(path.left_out(CS)), REPEATS)  # noqa: B023
            eigen, _ = timed(lambda: np.linalg.eigh(family(0.025)), 1)
        print(
            f"{threads} threads: kernel {kernel:.3f} s, reduction {whole - kernel:.3f} s, "
            f"all C {sweep:.3f} s; an eigendecomposition {eigen - kernel:.3f} s",
            flush=True,
        )


def probabilities():
    """A fit with probabilities ready against a plain one, m = 4,000; scikit-learn's way beside it."""
    X, y = synthetic(4000)
    rows = [
        ("LSSVC", lambda: LSSVC().fit(X, y)),
        ("LSSVC, probabilities ready", lambda: LSSVC().fit(X, y)._calibrated()),
        ("CalibratedClassifierCV(LSSVC(), ensemble=False)", lambda: calibrated(LSSVC()).fit(X, y)),
        ("SVC", lambda: SVC().fit(X, y)),
        ("CalibratedClassifierCV(SVC(), ensemble=False)", lambda: calibrated(SVC()).fit(X, y)),
    ]
    plain = 0.0
    for name, work in rows:
        work()
        took, _ = timed(work, 3)
        plain = took if name in ("LSSVC", "SVC") else plain
        print(f"{name}: {took:.2f} s, {took / plain:.1f} x the plain fit", flush=True)


def calibrated(estimator):
    return CalibratedClassifierCV(estimator, ensemble=False)


def usps():
    with gzip.open(folder() / "usps.csv.gz", "rt", newline="") as file:
        _, *lines = csv.reader(file)
    cells = np.array(lines)
    return cells[:, :-1].astype(float), cells[:, -1]


def classes():
    """usps: ten classes against one binary problem of the same rows."""
    X, y = usps()
    one = y == np.unique(y)[0]
    for work in (lambda: LSSVC().fit(X, one), lambda: LSSVC().fit(X, y)):
        work()
    times = []
    for _ in range(7):
        times.append([timed(lambda: LSSVC().fit(X, one))[0], timed(lambda: LSSVC().fit(X, y))[0]])
    binary, ten = np.median(times, axis=0)
    ratios = np.sort([b / a for a, b in times])
    print(
        f"usps, {len(y)} rows: two classes {binary:.2f} s, ten {ten:.2f} s, ratio "
        f"{np.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )


def against_grid(name, X, y, rows=None):
    """Time the default search against a grid of 5 x 5 cells over SVC, on two thirds of the rows."""
    train, test, labels, truth = train_test_split(X, y, train_size=rows or 2 / 3, random_state=0, stratify=y)
    scale = StandardScaler().fit(train)
    train, test = scale.transform(train), scale.transform(test)
    gamma = 1.0 / train.shape[1]
    cells = {"C": [0.1, 1.0, 10.0, 100.0, 1000.0], "gamma": [gamma * 4.0**power for power in range(-3, 2)]}
    ours, model = timed(lambda: LSSVCCV().fit(train, labels))
    peer, grid = timed(lambda: GridSearchCV(SVC(), cells, cv=5, n_jobs=2).fit(train, labels))
    mine, theirs = model.score(test, truth), grid.score(test, truth)
    exact = np.mean(model.cv_results_["exact"])
    print(
        f"{name}, {len(labels)} x {train.shape[1]}, {len(model.classes_)} classes: {ours:.2f} s, peer "
        f"{peer:.2f} s, {peer / ours:.1f} x; accuracy {100 * mine:.2f} and {100 * theirs:.2f}, "
        f"{100 * (mine - theirs):+.2f} points; {exact:.0%} of the cells exact",
        flush=True,
    )


def letters():
    with open(folder() / "letter.csv", newline="") as file:
        _, *lines = csv.reader(file)
    cells, place = np.array(lines), [cell[0].isalpha() for cell in lines[0]].index(True)
    return np.delete(cells, place, axis=1).astype(float), cells[:, place]


def default():
    """Sets of about 2,000 to 4,000 rows: ten digits, two classes of categories, and three letters."""
    against_grid("kr-vs-kp", *table("kr-vs-kp"))
    against_grid("sick", *table("sick"))
    X, y = usps()
    against_grid("usps", X, y, rows=3000)
    X, y = letters()
    some = np.isin(y, list("ABCDEFG"))  # Seven classes, as segment has.
    against_grid("letter, A to G", X[some], y[some], rows=2079)


def letter():
    """All of letter, A-M against N-Z: 20,000 rows, of which 18,000 are searched over."""
    X, y = letters()
    against_grid("letter, A-M against N-Z", X, np.where(y <= "M", 1, -1), rows=18_000)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["search", "stages", "probabilities", "classes"]:
        globals()[name]()
