"""Accuracy and time beside SVC, LogisticRegression, LinearSVC and KernelRidge of scikit-learn.

The documentation shows both, each in three tables (kernels, linear, regression):

python benchmarks/bench_coming_from.py accuracy kernels > docs/measured/kernels_accuracy.csv
python benchmarks/bench_coming_from.py time kernels > docs/measured/kernels_time.csv

Every estimator is tuned on the training rows over the same grid: scikit-learn's by three-fold
cross-validation, ours by exact leave-one-out where there is a search for it. Accuracy is the mean of five
splits into 70 % training and 30 % test rows, columns standardised by the former; time is that of one search
with its final fit, on the first split.

Stated before the first run: on each set our estimators are less than one point below the best peer, or less
than two standard errors of the mean difference over the splits; stderr names those that are not.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from papers_data import svm, table
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from squaresvm import LSSVCCV, LSSVRCV, RLSSVC, LagrangianSVC

SPLITS, FOLDS = 5, 3
CS = np.array([0.1, 1.0, 10.0, 100.0])
#: Times one over the number of columns, which are standardised.
GAMMAS = np.array([0.1, 0.3, 1.0, 3.0])


CLASSES = {
    "sonar": lambda: table("sonar"),
    "wine": lambda: load_wine(return_X_y=True),
    "heart": lambda: table("heart-statlog"),
    "ionosphere": lambda: table("ionosphere"),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "pima": lambda: table("pima"),
    "german": lambda: table("ida_german"),
    "adult (a1a)": lambda: svm("a1a", 123),
    "digits": lambda: load_digits(return_X_y=True),
    "image": lambda: table("ida_image"),
}
VALUES = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(500, noise=1.0, random_state=0),
    "friedman2": lambda: make_friedman2(500, noise=100.0, random_state=0),
    "friedman3": lambda: make_friedman3(500, noise=0.1, random_state=0),
}


def searched(estimator, **grid):
    return GridSearchCV(estimator, grid, cv=FOLDS)


def kernels(n_columns):
    """Return searches over C and gamma, the peer first."""
    gammas = GAMMAS / n_columns
    return {
        "SVC": searched(SVC(), C=CS, gamma=gammas),
        "RLSSVC": searched(RLSSVC(), C=CS, gamma=gammas),
        "LSSVCCV": LSSVCCV(Cs=CS, gammas=gammas, refine=0),
    }


def linear(n_columns):
    """Return searches over C, the peers first."""
    small = CS / 100.0
    return {
        "LogisticRegression": searched(LogisticRegression(max_iter=1000), C=small),
        "LinearSVC": searched(LinearSVC(dual=False), C=small),
        "LagrangianSVC": searched(LagrangianSVC(kernel="linear"), C=2.0 * small),
        "LSSVCCV": LSSVCCV(kernel="linear", Cs=small, refine=0),
    }


def regression(n_columns):
    """Return searches over C, or alpha = 1/C, and gamma, the peer first."""
    gammas = GAMMAS / n_columns
    return {
        "KernelRidge": searched(KernelRidge(kernel="rbf"), alpha=1.0 / CS, gamma=gammas),
        "LSSVRCV": LSSVRCV(Cs=CS, gammas=gammas, refine=0),
    }


TABLES = {"kernels": (kernels, CLASSES), "linear": (linear, CLASSES), "regression": (regression, VALUES)}


def split(X, y, seed, with_classes):
    parts = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y if with_classes else None)
    scaler = StandardScaler().fit(parts[0])
    return scaler.transform(parts[0]), scaler.transform(parts[1]), parts[2], parts[3]


def accuracy(wanted, sets):
    """Print one line a data set: sizes, the baseline, and the score of each estimator on rows not seen."""
    searches, known = TABLES[wanted]
    names = list(searches(1))
    with_classes = known is CLASSES
    baseline = "majority" if with_classes else "mean of y"
    print(",".join(["data set", '"rows, columns"', baseline, *(f"`{name}`" for name in names)]))
    for name in sets or known:
        X, y = known[name]()
        scores = {}
        for seed in range(SPLITS):
            X_train, X_test, y_train, y_test = split(X, y, seed, with_classes)
            for kind, search in searches(X.shape[1]).items():
                scores.setdefault(kind, []).append(search.fit(X_train, y_train).score(X_test, y_test))
        share = f"{100 * np.unique(y, return_counts=True)[1].max() / y.size:.1f}" if with_classes else "0"
        shown = [
            f"{100 * np.mean(scores[kind]):.1f}" if with_classes else f"{np.mean(scores[kind]):.3f}"
            for kind in names
        ]
        print(",".join([name, f'"{X.shape[0]:,} x {X.shape[1]}"', share, *shown]), flush=True)
        compare(name, scores, names, 0.01)


def compare(name, scores, names, allowed):
    """Say on stderr where an estimator of ours is further below its best peer than stated above."""
    ours = [kind for kind in names if kind in ("RLSSVC", "LSSVCCV", "LSSVRCV", "LagrangianSVC")]
    peer = max((kind for kind in names if kind not in ours), key=lambda kind: np.mean(scores[kind]))
    for kind in ours:
        difference = np.subtract(scores[kind], scores[peer])
        error = difference.std(ddof=1) / np.sqrt(SPLITS)
        if difference.mean() < -max(allowed, 2.0 * error):
            print(f"{name}: {kind} {difference.mean():+.3f} +- {error:.3f} against {peer}", file=sys.stderr)


def times(wanted, sets):
    """Print one line a data set: seconds of one search with its final fit."""
    searches, known = TABLES[wanted]
    names = list(searches(1))
    print(",".join(["data set", *(f"`{name}`" for name in names)]))
    for name in sets or known:
        X, y = known[name]()
        X_train, _, y_train, _ = split(X, y, 0, known is CLASSES)
        took = []
        for kind in names:
            searches(X.shape[1])[kind].fit(X_train[::4], y_train[::4])  # Warm up.
            start = time.perf_counter()
            searches(X.shape[1])[kind].fit(X_train, y_train)
            took.append(time.perf_counter() - start)
        print(",".join([name, *(f"{seconds:.2g} s" for seconds in took)]), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, wanted, *sets = sys.argv[1:]
    {"accuracy": accuracy, "time": times}[what](wanted, sets)
