"""The Typer application and its commands."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from threadpoolctl import threadpool_info

from squaresvm._version import __version__
from squaresvm.cli.console import AsJson, BadInputError, Commands, Printer, counted, naming
from squaresvm.cli.inputs import check_place
from squaresvm.cli.inspect import inspect
from squaresvm.cli.requests import forget, learn, predict
from squaresvm.cli.train import train
from squaresvm.runtime.progress import CountProgress

__all__ = ["app", "bench", "versions"]

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


#: Exit code where `--compare` found something worse.
WORSE = 1


def bench(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Names of tables, or TOML files.", show_default="all"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of data sets.", show_default="made data only")
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Fetch what the folder has not, from OpenML and the LIBSVM pages.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of results.")] = Path(
        "bench-results"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, without long rows.")] = False,
    compare: Annotated[
        Path | None,
        typer.Option(help="Results of an earlier run: say what became worse.", show_default="no comparison"),
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="List the tables and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the papers' tables beside today's peers; write JSON, Markdown and one HTML page.

    Rows that are finished are kept: run it again to go on after an interruption. With --compare the exit code
    is 1 where a row became slower, by its ratio to a peer of the same run, less accurate, or failed.
    """
    from squaresvm import bench as benchmark

    printer = Printer(as_json)
    wanted = [benchmark.load_table(name) for name in tables or benchmark.known_tables()]
    if names:
        for table in wanted:
            printer.say(f"{table.name}: {table.title} ({table.where})")
        printer.result({"tables": [table.name for table in wanted]})
        return
    if fetch and data is None:
        raise BadInputError("--fetch needs --data FOLDER, where files are kept")
    if data is not None and not data.is_dir() and (not fetch or data.exists()):
        raise BadInputError(f"{data}: no such folder")
    if output.exists() and not output.is_dir():
        raise BadInputError(f"{output}: is a file, not a folder")
    old = None if compare is None else benchmark.read_results(compare)
    if old is not None and (old["mode"] == "quick") != quick:
        raise BadInputError(f"{compare}: holds results of {old['mode']} mode; run in the same mode")
    absent: dict[str, str] = {}
    if fetch and data is not None:
        data.mkdir(parents=True, exist_ok=True)
        with CountProgress(not as_json) as progress:
            absent = benchmark.fetch_missing(wanted, data, quick=quick, progress=progress)
        for name, reason in absent.items():
            printer.note(f"{name}: {reason}")
    with CountProgress(not as_json) as progress, naming(output / "results.json"):
        results = benchmark.run_tables(
            wanted, data=data, output=output, quick=quick, absent=absent, progress=progress
        )
    with naming(output):
        pages = benchmark.write_reports(results, output)
    _tell(printer, results)
    printer.say(f"Report: {pages[0]}")
    facts = {"results": str(output / "results.json"), "reports": [str(page) for page in pages]}
    if old is None:
        printer.result(facts)
        return
    changes, compared = benchmark.compare_results(old, results)
    for change in changes:
        printer.say(f"{change.kind}: {change.table}, {change.row}: {change.text}")
    printer.say(f"Compared {counted(compared, 'row')} with {compare}: {len(changes)} became worse.")
    printer.result({**facts, "compared": compared, "worse": [change._asdict() for change in changes]})
    if changes:
        raise typer.Exit(WORSE)


def _tell(printer: Printer, results: dict[str, Any]) -> None:
    from squaresvm.bench.report import verdict

    for name, entry in results["tables"].items():
        printer.say(f"{name}: {verdict(entry)}")


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
