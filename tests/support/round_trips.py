"""Models through a file and back."""

from __future__ import annotations

import squaresvm


def again(model, folder, **options):
    """Return the model after a trip to disk."""
    path = folder / "a.model"
    squaresvm.save(model, path, **options)
    assert [entry.name for entry in folder.iterdir()] == ["a.model"]
    return squaresvm.load(path)


def same(a, b):
    """Return whether two arrays are the same in every bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
