"""The Typer application and its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from squaresvm._version import __version__

__all__ = ["app"]

app = typer.Typer(
    name="squaresvm",
    help="Squared-loss support vector machines that learn, forget and prove it.",
    no_args_is_help=True,
    add_completion=True,
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from squaresvm.cli.versions import versions

    typer.echo(f"squaresvm {__version__}")
    for name, version in versions():
        typer.echo(f"  {name}: {version}")
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


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("demo.html"),
) -> None:
    """Train, judge, forget and prove on a data set that comes with scikit-learn, and write one HTML page."""
    from squaresvm.demo import run

    if not output.parent.is_dir():
        typer.echo(f"squaresvm: {output.parent}: no such folder", err=True)
        raise typer.Exit(2)
    if output.is_dir():
        typer.echo(f"squaresvm: {output}: is a folder", err=True)
        raise typer.Exit(2)
    console = Console(highlight=True, soft_wrap=True, markup=False)
    run(output, say=console.print)
