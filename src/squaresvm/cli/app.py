"""The Typer application and its commands."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_info

from squaresvm._version import __version__
from squaresvm.cli.console import AsJson, BadInputError, Commands, Printer, counted, naming
from squaresvm.cli.evaluate import evaluate
from squaresvm.cli.explain import explain
from squaresvm.cli.inspect import inspect
from squaresvm.cli.options import check_page_place
from squaresvm.cli.requests import forget, learn, predict
from squaresvm.cli.serve import serve
from squaresvm.cli.train import train
from squaresvm.cli.verify import receipts, verify
from squaresvm.judging.shares import share_of
from squaresvm.pages import charts
from squaresvm.pages.page import Facts, render, write_atomically
from squaresvm.pages.report import groups
from squaresvm.rows.labels import sign_columns
from squaresvm.runtime.progress import CountProgress, duration

if TYPE_CHECKING:
    from squaresvm import LSSVC

__all__ = ["app", "bench", "versions"]

app = typer.Typer(
    name="squaresvm",
    cls=Commands,
    help="Support vector machines with a squared loss: exact learning, forgetting and verification.",
    epilog="Exit codes: 0 done, 1 not converged (verify: something is false), 2 bad usage or bad input, "
    "3 the result could not be printed, 130 interrupted.",
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
    """Support vector machines with a squared loss: exact learning, forgetting and verification."""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("demo.html"),
    as_json: AsJson = False,
) -> None:
    """Train, evaluate and forget rows on a data set that comes with scikit-learn, and write one HTML page."""
    check_page_place(output)
    printer = Printer(as_json)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        printer.say(line)

    with naming(output):
        _demonstrate(output, say)
    printer.result({"page": str(output), "lines": lines})


def _demonstrate(path: Path, say: Callable[[str], object]) -> None:
    """Train on the breast cancer data of scikit-learn, forget rows with a receipt, and write a page.

    Parameters
    ----------
    path : Path
        Where the page goes.
    say : callable
        Takes each line of the story.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.metrics import brier_score_loss, confusion_matrix
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from squaresvm import LSSVC

    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    X_train, X_test, y_train, y_test = train_test_split(
        X, names, test_size=0.3, random_state=0, stratify=names
    )
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

    say(f"Data: {X.shape[0]} tumours, {X.shape[1]} measurements each; {len(y_train)} rows to learn from.")
    start = time.perf_counter()
    model = LSSVC(C=10.0).fit(X_train, y_train)
    seconds = time.perf_counter() - start
    say(f"Fit: {duration(seconds)} with solver {model.solver_!r} ({model.solver_reason_}).")
    say(f"Certificate: {model.certificate_}.")
    accuracy, loo = model.score(X_test, y_test), model.loo_score()
    majority = max(np.mean(y_test == name) for name in model.classes_)
    error = share_of(model.predict(X_test) == y_test).error
    say(
        f"Accuracy: {accuracy:.1%} +- {error:.1%} on {len(y_test)} test rows; "
        f"always predicting the largest class: {majority:.1%}."
    )
    say(f"Exact leave-one-out accuracy from the same fit, without a refit: {loo:.1%}.")
    p = model.predict_proba(X_test)[:, 1]
    brier = brier_score_loss(y_test == model.classes_[1], p)
    say(f"Probabilities: calibrated on the leave-one-out values, Brier score {brier:.3f} (0 is best).")

    suspects = _suspects(model, y_train)
    withdrawn = [int(name) for name, *_ in suspects[:3]]
    before, shown = model.certificate_, X_train[withdrawn]
    solver = f"{model.solver_!r}: {model.solver_reason_}"
    values = model.decision_function(shown)
    receipt = model.forget(withdrawn)
    say(f"Forgetting request for rows {withdrawn}: {receipt}.")
    keep = np.setdiff1d(np.arange(len(y_train)), withdrawn)
    refit = LSSVC(C=10.0, gamma=model.gamma_).fit(X_train[keep], y_train[keep])
    difference = float(np.abs(refit.decision_function(X_test) - model.decision_function(X_test)).max())
    say(f"Check: decision values differ by {difference:.1e} from a model never trained on these rows.")

    counts = confusion_matrix(y_test, model.predict(X_test), labels=model.classes_)
    facts = Facts(
        title="Breast cancer, least squares support vector classifier",
        summary=f"{len(y_train)} rows, {X.shape[1]} columns, C = 10, gamma = {model.gamma_:.4g}. "
        f"Solver {solver}.",
        figures=[
            (f"{accuracy:.1%}", f"accuracy on {len(y_test)} test rows, standard error {error:.1%}"),
            (f"{majority:.1%}", "share of the largest class: the accuracy of always predicting it"),
            (f"{loo:.1%}", "exact leave-one-out accuracy of the training rows, without a refit"),
            (f"{before.residual:.0e}", f"residual of the certificate: {before.status.value}"),
            (f"{brier:.3f}", "Brier score of the probabilities; 0 is best"),
        ],
        pictures=[
            charts.class_shares(
                model.classes_.tolist(), [int(np.sum(y_train == name)) for name in model.classes_]
            ),
            charts.confusion(model.classes_.tolist(), counts, "Rows of the test set."),
            charts.before_after(
                list(zip(withdrawn, values.tolist(), model.decision_function(shown).tolist(), strict=True)),
                "Decision values of the three forgotten rows, by the model that was trained on them and by "
                f"the model that has forgotten them. Below zero the model predicts {model.classes_[0]}.",
            ),
        ],
        calibration=groups(p, y_test == model.classes_[1]),
        tables=[
            (
                "Rows that look mislabelled",
                "The model without the row predicts the other class; the largest difference comes first.",
                ("id", "label", "decision value without the row"),
                [(name, label, f"{value:+.2f}") for name, label, value in suspects],
            ),
            (
                "Forgetting request",
                "The model now equals one that was never trained on these rows. Their ids are not stored.",
                ("rows forgotten", "rows remaining", "ms", "residual", "largest difference to a refit"),
                [
                    (
                        len(receipt.ids),
                        receipt.remaining,
                        f"{1e3 * receipt.seconds:.1f}",
                        f"{receipt.residual:.1e}",
                        f"{difference:.1e}",
                    )
                ],
            ),
        ],
    )
    write_atomically(path, render(facts))
    say(f"Page: {path}")


def _suspects(model: LSSVC, y: np.ndarray[tuple[int], np.dtype[np.str_]]) -> list[tuple[int, str, float]]:
    """Return id, label and leave-one-out decision of the rows that the others contradict most."""
    decision = model.loo_decision_function()
    sign = sign_columns(y, model.classes_)[:, 0]
    worst = np.argsort(sign * decision)[:6]
    return [(int(model.ids_[i]), str(y[i]), float(decision[i])) for i in worst if sign[i] * decision[i] < 0]


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
        bool, typer.Option("--fetch", help="Fetch missing files from OpenML and the LIBSVM pages.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of results.")] = Path(
        "bench-results"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, without long rows.")] = False,
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Results of an earlier run, to report what became worse.", show_default="no comparison"
        ),
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


_REQUESTS = (train, predict, evaluate, explain, learn, forget)
for command in (*_REQUESTS, inspect, verify, receipts, serve, bench, demo):
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
