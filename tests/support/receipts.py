"""Models after some requests, whose receipts can be looked at and forged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from squaresvm import LSSVC


def rows(m=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    return X, np.where(X[:, 0] + 0.4 * rng.normal(size=m) > 0.0, "yes", "no")


def history(model=None, **options):
    """Return a model after six requests."""
    X, y = rows()
    model = LSSVC(C=2.0) if model is None else model
    model.fit(X[:20], y[:20], **options)
    model.learn(X[20:], y[20:])
    model.forget([3])
    model.forget([21, 4, 0])
    model.refit()
    model.learn(X[:1], y[:1])
    return model


def rehashed(receipt):
    return replace(receipt, hash=replace(receipt).hashed())
