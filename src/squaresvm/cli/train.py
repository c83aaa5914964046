"""``squaresvm train``."""

from __future__ import annotations

import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import squaresvm
from squaresvm.cli.console import (
    AsJson,
    BadInputError,
    Printer,
    certificate_facts,
    certificate_line,
    column_counts,
    counted,
)
from squaresvm.cli.findings import TrainingFigures, Tuning, say_plan, say_unusual, training_figures, tuned
from squaresvm.cli.inputs import Data, training_rows
from squaresvm.cli.options import (
    Category,
    Date,
    Decimal,
    Drop,
    Encoding,
    Force,
    Header,
    Missing,
    NumberColumn,
    SkipUnlabelled,
    TableOptions,
    Thousands,
    check_model_place,
    check_table_options,
    is_standard_output,
    parsed_dates,
    writable_model,
)
from squaresvm.files import History, Record
from squaresvm.runtime.atomic import locked
from squaresvm.runtime.progress import duration
from squaresvm.solvers.choose import SOLVERS

__all__ = ["train"]

DATA_HELP = "LIBSVM text, CSV or Parquet; plain or gzip; - is the standard input."


class Estimator(StrEnum):
    """What ``--estimator`` takes."""

    LSSVC = "lssvc"
    LSSVR = "lssvr"
    RELAXED = "relaxed"
    PROXIMAL = "proximal"
    LAGRANGIAN = "lagrangian"
    RLSSVC = "rlssvc"

    @property
    def has_penalty(self) -> bool:
        """Whether the bias has a penalty A of the user's choice."""
        return self in (Estimator.RELAXED, Estimator.LAGRANGIAN)

    def make(self, **parameters: Any) -> Any:
        """Return an estimator that is not fitted yet."""
        classes = {
            Estimator.LSSVC: squaresvm.LSSVC,
            Estimator.LSSVR: squaresvm.LSSVR,
            Estimator.RELAXED: squaresvm.RelaxedLSSVC,
            Estimator.PROXIMAL: squaresvm.ProximalSVC,
            Estimator.LAGRANGIAN: squaresvm.LagrangianSVC,
            Estimator.RLSSVC: squaresvm.RLSSVC,
        }
        return classes[self](**parameters)


class KernelName(StrEnum):
    """What ``--kernel`` takes."""

    LINEAR = "linear"
    RBF = "rbf"
    POLY = "poly"
    SIGMOID = "sigmoid"
    LAPLACIAN = "laplacian"


def train(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Model file; - is stdout.", show_default="DATA's name with .model, here"
        ),
    ] = None,
    estimator: Annotated[Estimator, typer.Option(help="Which model.")] = Estimator.LSSVC,
    C: Annotated[float, typer.Option("--C", "-c", "-C", help="Weight of the loss, above 0.")] = 1.0,
    kernel: Annotated[KernelName, typer.Option(help="Kernel.")] = KernelName.RBF,
    gamma: Annotated[
        str,
        typer.Option("--gamma", "-g", help="Width of the kernel (not linear): a number, 'scale' or 'auto'."),
    ] = "scale",
    degree: Annotated[int, typer.Option("--degree", "-d", help="Degree of poly.")] = 3,
    coef0: Annotated[float, typer.Option("--coef0", "-r", help="Constant term of poly and sigmoid.")] = 0.0,
    A: Annotated[
        float, typer.Option("--A", "-A", help="Penalty on the bias, for relaxed and lagrangian.")
    ] = 1.0,
    solver: Annotated[str, typer.Option(help=f"auto, {', '.join(SOLVERS)}.")] = "auto",
    tol: Annotated[
        float,
        typer.Option(
            "--tol",
            "-e",
            help="Stopping rule: bound on the violation of the optimality conditions, relative to the "
            "targets and computed from the answer. Above it the exit code is 1.",
        ),
    ] = 1e-6,
    max_iter: Annotated[
        int | None, typer.Option(help="Largest number of iterations.", show_default="each solver has its own")
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="'balanced' gives all classes the same total weight.", show_default="all rows alike"
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Search C and gamma by exact leave-one-out (lssvc and lssvr).")
    ] = False,
    label: Annotated[
        str | None,
        typer.Option(help="Column of labels.", show_default="the one called 'label', else the last"),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", help="Column of ids.", show_default="arrival numbers 0, 1, 2, ..."),
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights.", show_default="1 a row")] = None,
    drop: Drop = None,
    category: Category = None,
    number: NumberColumn = None,
    date: Date = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    header: Header = None,
    encoding: Encoding = None,
    skip_unlabelled: SkipUnlabelled = False,
    scale: Annotated[
        bool, typer.Option("--scale/--no-scale", help="Standardise numbers of CSV and Parquet.")
    ] = True,
    missing: Missing = "refuse",
    factor: Annotated[
        bool, typer.Option("--factor", help="Store the factor: a larger file, whose first request is fast.")
    ] = False,
    loo: Annotated[
        bool | None,
        typer.Option("--loo/--no-loo", help="Compute leave-one-out figures.", show_default="where quick"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what each column is taken for, and end.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train a model and write it to a file.

    In CSV and Parquet, numbers are standardised, with currency signs and decimal commas understood; dates are
    days; columns of words become one column of 0 and 1 for each level. --dry-run shows what each column is
    taken for, and the model file knows it. Empty cells, ?, NA, N/A, n/a, NaN and null are missing values.
    """
    output = _output(output, data)
    to_stdout = is_standard_output(output)
    if to_stdout and as_json:
        raise BadInputError("the model and --json cannot both go to the standard output: name a file by -o")
    printer = Printer(as_json, to_stderr=to_stdout)
    if not dry_run:
        check_model_place(output, force, data)
    if tune and estimator not in (Estimator.LSSVC, Estimator.LSSVR):
        raise BadInputError(f"--tune works with lssvc and lssvr; got {estimator.value}")
    regression = estimator is Estimator.LSSVR
    parameters = _parameters(estimator, kernel, gamma, A, class_weight)
    parameters |= {
        "C": C,
        "degree": degree,
        "coef0": coef0,
        "solver": solver,
        "tol": tol,
        "max_iter": max_iter,
    }
    model = estimator.make(**parameters)
    _check(model)
    columns = TableOptions(
        label=label,
        id=id,
        weight=weight,
        drop=tuple(drop or ()),
        categories=tuple(category or ()),
        numbers=tuple(number or ()),
        dates=parsed_dates(date or ()),
        decimal=decimal,
        thousands=thousands,
        scale=scale,
        missing=missing,
        header=header,
        encoding=encoding,
        skip_unlabelled=skip_unlabelled,
    )
    check_table_options(columns)
    with printer.working(f"Reading {data}"):
        rows = training_rows(data, columns, regression=regression)
    for note in rows.notes:
        printer.note(f"{data}: {note}")
    if dry_run:
        say_plan(printer, rows.plan, data, rows.X.shape)
        return
    say_unusual(printer, rows.plan)
    found: Tuning | None = None
    start = time.perf_counter()
    try:
        with printer.working(f"Fitting {rows.y.size} rows"):
            if tune:
                found = tuned(model, rows)
                model.set_params(**found.best)
            model.fit(rows.X, rows.y, sample_weight=rows.weights, ids=rows.ids)
    except ValueError as error:
        raise BadInputError(f"{data}: {error}") from None
    seconds = time.perf_counter() - start
    figures = training_figures(model, rows, printer, loo)
    chosen = () if found is None else tuple(sorted(found.best))
    Record(History().brought("train", int(rows.y.size)), rows.preparation, chosen).attach(model)
    with writable_model(output) as place, printer.writing(place), locked(place):
        squaresvm.save(model, place, factor=factor)
    printer.say(f"Data: {_described(rows, regression)}")
    _report(printer, model, rows, output, seconds, figures, found)
    printer.end(model.certificate_)


def _output(output: Path | None, data: Path) -> Path:
    if output is not None:
        return output
    if str(data) == "-":
        raise BadInputError("rows from the standard input have no name: name the model's file by -o")
    return Path(data.name).with_suffix(".model")


def _parameters(
    estimator: Estimator, kernel: KernelName, gamma: str, A: float, class_weight: str | None
) -> dict[str, Any]:
    parameters: dict[str, Any] = {"kernel": kernel.value, "gamma": _gamma(gamma)}
    if estimator.has_penalty:
        parameters["A"] = A
    elif A != 1.0:
        raise BadInputError(f"-A works with relaxed and lagrangian; got {estimator.value}")
    if class_weight is not None:
        if class_weight != "balanced" or estimator is Estimator.LSSVR:
            raise BadInputError("--class-weight must be 'balanced', and is for classifiers")
        parameters["class_weight"] = class_weight
    return parameters


def _gamma(text: str) -> float | str:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise BadInputError(f"--gamma must be a number, 'scale' or 'auto'; got {text!r}") from None


def _check(model: Any) -> None:
    try:
        model._check_parameters()
    except ValueError as error:
        raise BadInputError(str(error)) from None


def _described(rows: Data, regression: bool) -> str:
    m, n = rows.X.shape
    text = f"{counted(m, 'row')}, {counted(n, 'column')}"
    if rows.preparation is not None:
        text += f" ({column_counts(rows.preparation)})"
    if regression:
        return f"{text}, values {rows.y.min():g} to {rows.y.max():g}"
    classes, counts = np.unique(rows.y, return_counts=True)
    shown = ", ".join(f"{label}: {count}" for label, count in zip(classes[:6], counts[:6], strict=True))
    return f"{text}, labels {shown}{', ...' if classes.size > 6 else ''}"


def _report(
    printer: Printer,
    model: Any,
    rows: Data,
    output: Path,
    seconds: float,
    figures: TrainingFigures,
    found: Tuning | None,
) -> None:
    for line in () if found is None else found.lines():
        printer.say(line)
    printer.say(f"Fit: {duration(seconds)} with solver {model.solver_!r} ({model.solver_reason_}).")
    printer.say(f"Certificate: {certificate_line(model)}.")
    for line in figures.lines():
        printer.say(line)
    printer.say(f"Model: {output}")
    gamma = model.gamma_ if hasattr(model, "gamma_") else None
    printer.result(
        {
            "model": str(output),
            "estimator": type(model).__name__,
            "rows": int(rows.X.shape[0]),
            "columns": int(rows.X.shape[1]),
            "plan": [asdict(plan) for plan in rows.plan],
            "classes": model.classes_ if hasattr(model, "classes_") else None,
            "C": model.C_,
            "kernel": model.kernel,
            "gamma": gamma,
            "solver": model.solver_,
            "solver_reason": model.solver_reason_,
            "n_iter": model.n_iter_,
            "certificate": certificate_facts(model),
            **figures.facts(),
            "tuning": None if found is None else found.facts(),
            "seconds": seconds,
        }
    )
