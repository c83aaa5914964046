"""``squaresvm demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squaresvm.cli.console import AsJson, Teller
from squaresvm.cli.models import check_place

__all__ = ["demo"]


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("demo.html"),
    as_json: AsJson = False,
) -> None:
    """Train, judge, forget and prove on a data set that comes with scikit-learn, and write one HTML page."""
    from squaresvm.pages.demo import run

    check_place(output)
    teller = Teller(as_json)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        teller.say(line)

    run(output, say=say)
    teller.result({"page": str(output), "lines": lines})
