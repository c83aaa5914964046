"""Where a long fit stands, on disk: replaced whole after each pass, so that a killed fit can go on."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["Checkpoint"]

_FORMAT = "squaresvm checkpoint 1"


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
        folder = self.path.absolute().parent
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=self.path.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, purpose=np.array(self.purpose), **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def read(self) -> dict[str, FloatArray] | None:
        """Return the arrays of the file; None where there is none.

        Raises
        ------
        ValueError
            If the file is damaged, or of a fit with other parameters or other data.
        """
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as held:
                found = {name: held[name] for name in held.files}
            purpose = str(found.pop("purpose"))
        except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path} is no checkpoint, or damaged: delete it to start anew") from error
        if purpose != self.purpose:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit ({_difference(self.purpose, purpose)}): "
                "delete it to start anew"
            )
        return found

    def remove(self) -> None:
        """Delete the file: the fit has ended."""
        self.path.unlink(missing_ok=True)


def _difference(wanted: str, found: str) -> str:
    try:
        mine, theirs = json.loads(wanted), json.loads(found)
        names = [name for name in mine if theirs.get(name) != mine[name]]
    except (ValueError, AttributeError):
        return "of an unknown kind"
    return f"{', '.join(names)} differ" if names else "of another version"
