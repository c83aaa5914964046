"""``squaresvm bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from squaresvm.cli.console import AsJson, Printer, counted
from squaresvm.cli.failures import BadInputError, naming
from squaresvm.runtime.progress import CountProgress

__all__ = ["bench"]

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
