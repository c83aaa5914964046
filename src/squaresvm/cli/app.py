"""The Typer application and its commands."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from threadpoolctl import threadpool_info

from squaresvm._version import __version__
from squaresvm.cli.bench import bench
from squaresvm.cli.console import AsJson, Printer
from squaresvm.cli.failures import Commands, naming
from squaresvm.cli.forget import forget
from squaresvm.cli.inputs import check_place
from squaresvm.cli.inspect import inspect
from squaresvm.cli.learn import learn
from squaresvm.cli.predict import predict
from squaresvm.cli.train import train

__all__ = ["app", "versions"]

app = typer.Typer(
    name="squaresvm",
    cls=Commands,
    help="Squared-loss support vector machines that learn, forget and prove it.",
    epilog="Exit codes: 0 done, 1 not converged, 2 bad usage or bad input, 3 the result could not be "
    "printed, 130 interrupted.",
    add_completion=True,
    rich_markup_mode="markdown",
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return

    typer.echo(f"squaresvm {__version__}")
    for name, release in versions():
        typer.echo(f"  {name}: {release}")
    raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print versions and the BLAS in use."
        ),
    ] = False,
) -> None:
    """Squared-loss support vector machines that learn, forget and prove it."""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("demo.html"),
    as_json: AsJson = False,
) -> None:
    """Train, judge, forget and prove on a data set that comes with scikit-learn, and write one HTML page."""
    from squaresvm.pages.demo import run

    check_place(output)
    printer = Printer(as_json)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        printer.say(line)

    with naming(output):
        run(output, say=say)
    printer.result({"page": str(output), "lines": lines})


for command in (train, predict, learn, forget, inspect, bench, demo):
    app.command()(command)


def versions() -> list[tuple[str, str]]:
    """Return names and versions of Python, the core dependencies and the BLAS in use."""
    import scipy.linalg  # noqa: F401 - loads the BLAS that is to be named

    found = [("Python", platform.python_version())]
    found += [(name, version(name)) for name in ("numpy", "scipy", "scikit-learn", "numba")]
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            found.append(("BLAS", f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"))
    return found
