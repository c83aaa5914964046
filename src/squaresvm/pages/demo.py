"""The main job in one minute: train, judge, forget, prove."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from squaresvm import LSSVC
from squaresvm.pages.page import Facts, render, write_atomically
from squaresvm.pages.report import groups
from squaresvm.rows.labels import sign_columns

__all__ = ["run"]


def run(path: Path, say: Callable[[str], object] = print) -> None:
    """Train on the breast cancer data of scikit-learn, forget rows with a receipt, and write a page.

    Parameters
    ----------
    path : Path
        Where the page goes.
    say : callable, default=print
        Takes each line of the story.
    """
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    X_train, X_test, y_train, y_test = train_test_split(
        X, names, test_size=0.3, random_state=0, stratify=names
    )
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

    say(f"Data: {X.shape[0]} tumours, {X.shape[1]} measurements each; {len(y_train)} rows to learn from.")
    start = time.perf_counter()
    model = LSSVC(C=10.0).fit(X_train, y_train)
    seconds = time.perf_counter() - start
    say(f"Fit: {1e3 * seconds:.0f} ms with solver {model.solver_!r} ({model.solver_reason_}).")
    say(f"Certificate: {model.certificate_}.")
    accuracy, loo = model.score(X_test, y_test), model.loo_score()
    say(f"Accuracy: {accuracy:.1%} on {len(y_test)} rows not seen before.")
    say(f"Exact leave-one-out estimate from the same fit, without any refit: {loo:.1%}.")
    p = model.predict_proba(X_test)[:, 1]
    brier = brier_score_loss(y_test == model.classes_[1], p)
    say(f"Probabilities: calibrated on the leave-one-out values, Brier score {brier:.3f}.")

    suspects = _suspects(model, y_train)
    withdrawn = [int(name) for name, *_ in suspects[:3]]
    before = model.certificate_
    receipt = model.forget(withdrawn)
    say(f"Forgetting request for rows {withdrawn}: {receipt}.")
    keep = np.setdiff1d(np.arange(len(y_train)), withdrawn)
    refit = LSSVC(C=10.0, gamma=model.gamma_).fit(X_train[keep], y_train[keep])
    difference = float(np.abs(refit.decision_function(X_test) - model.decision_function(X_test)).max())
    say(f"Check: a model that never saw them differs by {difference:.1e} in its decision values.")

    facts = Facts(
        title="Breast cancer, least squares support vector classifier",
        summary=f"{len(y_train)} rows, {X.shape[1]} columns, C = 10, gamma = {model.gamma_:.4g}. "
        f"Solver {model.solver_!r}: {model.solver_reason_}.",
        figures=[
            (f"{accuracy:.1%}", f"accuracy on {len(y_test)} rows not seen before"),
            (f"{loo:.1%}", "exact leave-one-out estimate, without a refit"),
            (f"{before.residual:.0e}", f"residual of the certificate: {before.status.value}"),
            (f"{brier:.3f}", "Brier score of the probabilities"),
        ],
        calibration=groups(p, y_test == model.classes_[1]),
        tables=[
            (
                "Rows that look mislabelled",
                "Left out of the fit, the model decides against their label by the widest margin.",
                ("id", "label", "decision without the row"),
                [(name, label, f"{value:+.2f}") for name, label, value in suspects],
            ),
            (
                "Forgotten",
                "The model equals one that was never shown these rows. No list of their ids is kept.",
                ("rows", "remaining", "ms", "residual", "difference to a refit"),
                [
                    (
                        len(receipt.ids),
                        receipt.remaining,
                        f"{1e3 * receipt.seconds:.1f}",
                        f"{receipt.residual:.1e}",
                        f"{difference:.1e}",
                    )
                ],
            ),
        ],
    )
    write_atomically(path, render(facts))
    say(f"Page: {path}")


def _suspects(model: LSSVC, y: np.ndarray[tuple[int], np.dtype[np.str_]]) -> list[tuple[int, str, float]]:
    """Return id, label and leave-one-out decision of the rows that the others contradict most."""
    decision = model.loo_decision_function()
    sign = sign_columns(y, model.classes_)[:, 0]
    worst = np.argsort(sign * decision)[:6]
    return [(int(model.ids_[i]), str(y[i]), float(decision[i])) for i in worst if sign[i] * decision[i] < 0]
