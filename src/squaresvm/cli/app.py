"""The Typer application and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from squaresvm._version import __version__
from squaresvm.cli.bench import bench
from squaresvm.cli.demo import demo
from squaresvm.cli.failures import Commands
from squaresvm.cli.forget import forget
from squaresvm.cli.inspect import inspect
from squaresvm.cli.learn import learn
from squaresvm.cli.predict import predict
from squaresvm.cli.train import train

__all__ = ["app"]

app = typer.Typer(
    name="squaresvm",
    cls=Commands,
    help="Squared-loss support vector machines that learn, forget and prove it.",
    epilog="Exit codes: 0 done, 1 not converged, 2 bad usage or bad input.",
    add_completion=True,
    rich_markup_mode="markdown",
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


for command in (train, predict, learn, forget, inspect, bench, demo):
    app.command()(command)
