"""The papers' data sets, as the benchmarks of their algorithms need them, and how to time things."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

#: The relaxed paper's Table 1.
TABLE_1 = (
    "breast-cancer",
    "breast-w",
    "credit-g",
    "heart-c",
    "heart-h",
    "heart-statlog",
    "hepatitis",
    "ionosphere",
    "pima",
    "sick",
    "sonar",
    "vote",
    "kr-vs-kp",
    "mushroom",
)
#: Of these the paper used half.
HALVED = ("kr-vs-kp", "mushroom")


def folder():
    """Return the folder of data sets: $SQUARESVM_DATA, or shared/data beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    found = Path(os.environ.get("SQUARESVM_DATA", default))
    if not found.is_dir():
        raise SystemExit(f"no data sets at {found}; SQUARESVM_DATA names another folder")
    return found


def _number(cell):
    try:
        return float(cell)
    except ValueError:
        return None


def table(name):
    """Return one-hot columns, means in place of missing numbers, and labels +-1 of a CSV file."""
    with open(folder() / f"{name}.csv", newline="") as file:
        header, *lines = csv.reader(file)
    cells = np.array(lines, dtype=object)
    columns = []
    for index in range(len(header) - 1):
        column = cells[:, index]
        values = sorted({cell for cell in column if cell != ""})
        if values and all(_number(cell) is not None for cell in values):
            numbers = np.array([np.nan if cell == "" else float(cell) for cell in column])
            columns.append(np.where(np.isnan(numbers), np.nanmean(numbers), numbers))
        else:
            columns.extend((column == value).astype(float) for value in values)
    labels = cells[:, -1].astype(str)
    y = np.where(labels == np.unique(labels)[-1], 1.0, -1.0)
    X = np.column_stack(columns)
    if name in HALVED:
        half = np.random.default_rng(0).permutation(len(y))[: len(y) // 2]
        X, y = X[half], y[half]
    return X, y


def standardised(X):
    """Return columns of mean 0 and variance 1, constant ones at 0."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def letter():
    """Return the letters, A to M against N to Z, standardised."""
    with open(folder() / "letter.csv", newline="") as file:
        _, *lines = csv.reader(file)
    y = np.array([1.0 if line[-1] <= "M" else -1.0 for line in lines])
    return standardised(np.array([line[:-1] for line in lines], dtype=float)), y


def svm(name, n_features):
    """Return dense rows and labels of a LIBSVM file."""
    X, y = load_svmlight_file(str(folder() / f"{name}.svm"), n_features=n_features)
    return X.toarray(), y


def seconds(prepare, run, repeats=5):
    """Return the median time of run(prepare()), without that of prepare, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        given = prepare()
        start = time.perf_counter()
        result = run(given)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result
