"""Where the package came from: how to install an optional part, and where its documentation is."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

__all__ = ["Documented", "install_line"]


def install_line(extra: str) -> str:
    """Return the command that installs an extra, from the folder of a checkout where that is the source.

    Examples
    --------
    >>> from squaresvm.runtime.extras import install_line
    >>> install_line("cli").endswith("[cli]'")
    True
    """
    return f"pip install '{_source()}[{extra}]'"


class Documented:
    """Links the HTML of an estimator in notebooks to its page of the documentation, as scikit-learn does."""

    _doc_link_module = "squaresvm"

    @property
    def _doc_link_template(self) -> str:
        """The address of the page, for scikit-learn to fill in; empty where no documentation is known."""
        root = documentation()
        return f"{root}/generated/squaresvm.{{estimator_name}}.html" if root else ""


@cache
def documentation() -> str:
    """Return where the documentation is: as the package's metadata says, or as it was built in a checkout."""
    try:
        named = [
            line.split(", ", 1) for line in distribution("squaresvm").metadata.get_all("Project-URL") or ()
        ]
    except PackageNotFoundError:
        named = []
    address = next((url for name, url in named if name.lower() == "documentation"), "")
    built = Path(_source()) / "docs" / "_build" / "html"
    return address.rstrip("/") or (built.as_uri() if (built / "index.html").is_file() else "")


def _source() -> str:
    try:
        described = distribution("squaresvm").read_text("direct_url.json")
        found = json.loads(described) if described else {}
    except (PackageNotFoundError, ValueError):
        return "squaresvm"
    url = urlparse(str(found.get("url", "")))
    folder = Path(unquote(url.path))
    return str(folder) if url.scheme == "file" and folder.is_dir() else "squaresvm"
