"""How to install an optional part: from where the package itself was installed."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

__all__ = ["install_line"]


def install_line(extra: str) -> str:
    """Return the command that installs an extra, from the folder of a checkout where that is the source.

    Examples
    --------
    >>> from squaresvm.runtime.extras import install_line
    >>> install_line("cli").endswith("[cli]'")
    True
    """
    return f"pip install '{_source()}[{extra}]'"


def _source() -> str:
    try:
        described = distribution("squaresvm").read_text("direct_url.json")
        found = json.loads(described) if described else {}
    except (PackageNotFoundError, ValueError):
        return "squaresvm"
    url = urlparse(str(found.get("url", "")))
    folder = Path(unquote(url.path))
    return str(folder) if url.scheme == "file" and folder.is_dir() else "squaresvm"
