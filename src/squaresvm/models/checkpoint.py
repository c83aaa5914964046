"""Where a long fit stands, on disk: replaced whole after each pass, so that a killed fit can go on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.factors import Moments
from squaresvm.models.model import Settings
from squaresvm.problem.survey import Survey
from squaresvm.runtime.atomic import remove_leftovers, replacing
from squaresvm.typing import FloatArray

__all__ = ["Checkpoint", "purpose_of"]

_FORMAT = "squaresvm checkpoint 2"
_SUMS = ("mean", "scatter", "target", "response", "spread")


@dataclass(frozen=True)
class Checkpoint:
    """An iterate in a file.

    Parameters
    ----------
    path : Path
    purpose : str
        What the fit depends on, in JSON: a checkpoint of another fit is refused.
    """

    path: Path
    purpose: str

    @classmethod
    def of(cls, path: str | os.PathLike[str], purpose: dict[str, Any]) -> Checkpoint:
        """Return the checkpoint of a fit, whether or not there is a file yet."""
        where = Path(path)
        if where.is_dir() or not where.absolute().parent.is_dir():
            raise ValueError(f"checkpoint {where} must be a file in a folder that exists")
        return cls(where, json.dumps({"format": _FORMAT, **purpose}, sort_keys=True))

    def write(self, **arrays: FloatArray) -> None:
        """Replace the file: it is always the former one or the new one."""
        named: dict[str, Any] = {**arrays, "purpose": np.array(self.purpose), "digest": _digest(arrays)}
        with replacing(self.path) as file:
            np.savez(file, **named)

    def keep(self, w: FloatArray, b: FloatArray) -> None:
        """Keep the coefficients of a search."""
        self.write(w=w, b=b)

    def keep_sums(self, moments: Moments) -> None:
        """Keep sums over the rows."""
        bounds = np.array([moments.largest, moments.lightest], dtype=np.float64)
        self.write(total=np.array(moments.total), bounds=bounds, **{n: getattr(moments, n) for n in _SUMS})

    @staticmethod
    def sums_in(held: dict[str, FloatArray]) -> Moments:
        """Return the sums that `keep_sums` kept."""
        parts = (held[name] for name in _SUMS)
        sums = Moments(float(held["total"]), *parts)
        if "bounds" not in held or not np.isfinite(held["bounds"]).all():
            return sums
        largest, lightest = held["bounds"].tolist()
        return replace(sums, largest=largest, lightest=lightest)

    def read(self) -> dict[str, FloatArray] | None:
        """Return the arrays of the file; None where there is none.

        What killed fits left half-written beside it is removed.

        Raises
        ------
        ValueError
            If the file is damaged, or of a fit with other parameters or other data.
        """
        remove_leftovers(self.path)
        if not self.path.exists():
            return None
        try:
            found = _arrays_in(self.path)
            purpose, digest = str(found.pop("purpose")), found.pop("digest")
            whole = np.array_equal(digest, _digest(found))
        except Exception as error:  # Damage in a zip file shows in more ways than can be listed.
            raise ValueError(
                f"{self.path} is not a checkpoint, or is damaged: delete it to start again"
            ) from error
        if purpose != self.purpose:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit ({_difference(self.purpose, purpose)}): "
                "delete it to start again"
            )
        if not whole:
            raise ValueError(f"{self.path} is not a checkpoint, or is damaged: delete it to start again")
        return found

    def remove(self) -> None:
        """Delete the file: the fit has ended."""
        self.path.unlink(missing_ok=True)
        remove_leftovers(self.path)


def purpose_of(settings: Settings, survey: Survey, n_features: int, by_sums: bool) -> dict[str, Any]:
    """Return what a fit from a source depends on."""
    return {
        "kept": "sums" if by_sums else "coefficients",
        "loss": settings.loss.value,
        "A": repr(settings.bias.penalty),
        "C": repr(settings.C),
        "class_weight": {str(label): weight for label, weight in (settings.class_weight or {}).items()},
        "rows": survey.rows,
        "features": n_features,
        "weights": [f"{weight:.9g}" for weight in survey.weights],
        "counts": survey.counts.tolist(),
        "largest value": [f"{value:.9g}" for value in survey.scale],
        "labels": [str(label) for label in survey.labels.tolist()],
        "data": f"{survey.fingerprint:016x}",
    }


def _arrays_in(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def _digest(arrays: dict[str, FloatArray]) -> np.ndarray[Any, Any]:
    """Return the SHA-256 of names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        digest.update(array.view(np.uint8).data if array.ndim else array.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _difference(wanted: str, found: str) -> str:
    try:
        mine, theirs = json.loads(wanted), json.loads(found)
        names = [name for name in mine if theirs.get(name) != mine[name]]
    except (ValueError, AttributeError):
        return "of an unknown kind"
    return f"{', '.join(names)} differ" if names else "of another version"
