"""Where the files of a data folder come from: ``sources.toml``, read and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Source", "Sources", "load_sources"]

_FILE = Path(__file__).parent / "sources.toml"


@dataclass(frozen=True)
class Source:
    """Where one file comes from: one of `page`, `whole` with `less`, `openml` and `unfetchable`.

    Parameters
    ----------
    page : str or None
        Path below the base address.
    whole, less : str or None
        Files of the folder: the lines of the one less those of the other.
    sha256 : str or None
        Of the text that is kept, before gzip.
    openml : int or None
        Number of a data set.
    label : str or None
        Its column of labels; None: OpenML's target.
    rename : mapping
        Names of columns, from OpenML's to ours.
    rows, columns : int
        How many there must be.
    classes : mapping
        How many rows of each class there must be.
    unfetchable : str or None
        Why it is not to be fetched.
    """

    page: str | None = None
    whole: str | None = None
    less: str | None = None
    sha256: str | None = None
    openml: int | None = None
    label: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    columns: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    unfetchable: str | None = None


@dataclass(frozen=True)
class Sources:
    """The LIBSVM pages' address, and sources by the name of the file."""

    base: str
    files: Mapping[str, Source]


@cache
def load_sources(path: Path = _FILE) -> Sources:
    """Return what ``sources.toml`` declares.

    Examples
    --------
    >>> from squaresvm.bench.sources import load_sources
    >>> load_sources().files["colon-cancer.svm"].page
    'binary/colon-cancer.bz2'
    """
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return Sources(content["base"], {name: Source(**given) for name, given in content["files"].items()})
