"""``squaresvm train``."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import squaresvm
from squaresvm.cli.console import AsJson, BadInputError, Printer, column_counts, counted, facts_of
from squaresvm.cli.inputs import Data, TableOptions, check_place, training_rows
from squaresvm.files import History, Record
from squaresvm.problem import Loss
from squaresvm.readers.preparation import MISSING_RULES
from squaresvm.runtime.atomic import locked
from squaresvm.solvers.choose import SOLVERS

__all__ = ["train"]

#: Rows up to which the leave-one-out score is worth the wait, which is about that of the fit.
_FEW_ROWS = 4000

#: Parameters that a search takes from the command line as the fit does.
_SHARED = ("kernel", "degree", "coef0", "tol", "class_weight")

DATA_HELP = "LIBSVM text, CSV with a line of names, or Parquet; plain or gzip."


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
        typer.Option("--output", "-o", help="Model file.", show_default="DATA's name with .model, here"),
    ] = None,
    estimator: Annotated[Estimator, typer.Option(help="Which model.")] = Estimator.LSSVC,
    C: Annotated[float, typer.Option("--C", "-c", "-C", help="Weight of the loss, above 0.")] = 1.0,
    kernel: Annotated[KernelName, typer.Option(help="Kernel.")] = KernelName.RBF,
    gamma: Annotated[
        str,
        typer.Option(
            "--gamma", "-g", help="Of rbf, poly, sigmoid and laplacian: a number, 'scale' or 'auto'."
        ),
    ] = "scale",
    degree: Annotated[int, typer.Option("--degree", "-d", help="Of poly.")] = 3,
    coef0: Annotated[float, typer.Option("--coef0", "-r", help="Of poly and sigmoid.")] = 0.0,
    A: Annotated[
        float, typer.Option("--A", "-A", help="Penalty on the bias, of relaxed and lagrangian.")
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
        int | None, typer.Option(help="Iterations at most.", show_default="each solver has its own")
    ] = None,
    class_weight: Annotated[
        str | None, typer.Option(help="'balanced' weighs all classes alike.", show_default="all rows alike")
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
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column that is no feature; repeatable.", show_default="none")
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(help="Column whose numbers are categories; repeatable.", show_default="none"),
    ] = None,
    scale: Annotated[
        bool, typer.Option("--scale/--no-scale", help="Standardise numbers of CSV and Parquet.")
    ] = True,
    missing: Annotated[
        str,
        typer.Option(help="Missing values: 'refuse', or 'mean': numbers the mean, categories no level."),
    ] = "refuse",
    factor: Annotated[
        bool, typer.Option("--factor", help="Store the factor: a larger file, whose first request is fast.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model and write it to a file.

    In CSV and Parquet, columns of text become one column of 0 and 1 for each level and numbers are
    standardised; the model file knows how. Empty cells, ?, NA, N/A, NaN and null are missing values.
    """
    printer = Printer(as_json)
    output = Path(data.name).with_suffix(".model") if output is None else output
    check_place(output, data)
    if missing not in MISSING_RULES:
        raise BadInputError(f"--missing must be one of {', '.join(MISSING_RULES)}; got {missing!r}")
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
    columns = TableOptions(label, id, weight, tuple(ignore or ()), tuple(category or ()), scale, missing)
    with printer.working(f"Reading {data}"):
        rows = training_rows(data, columns, regression=regression)
    for name in rows.left_out:
        printer.note(f"column {name!r} is left out: no row differs from its mean")
    start = time.perf_counter()
    try:
        with printer.working(f"Fitting {rows.y.size} rows"):
            if tune:
                model.set_params(**_tuned(estimator, model, rows))
            model.fit(rows.X, rows.y, sample_weight=rows.weights, ids=rows.ids)
    except ValueError as error:
        raise BadInputError(f"{data}: {error}") from None
    seconds = time.perf_counter() - start
    loo = _score(model, printer)
    Record(History().brought("train", int(rows.y.size)), rows.preparation).attach(model)
    with printer.writing(output), locked(output):
        squaresvm.save(model, output, factor=factor)
    printer.say(f"Data: {_described(rows, regression)}")
    _report(printer, model, rows, output, seconds, loo)
    printer.end(model.certificate_)


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


def _tuned(estimator: Estimator, model: Any, rows: Data) -> dict[str, Any]:
    """Return the best C and gamma by exact leave-one-out."""
    from squaresvm import search

    searches = {Estimator.LSSVC: "LSSVCCV", Estimator.LSSVR: "LSSVRCV"}
    shared = {name: getattr(model, name) for name in _SHARED if hasattr(model, name)}
    found = getattr(search, searches[estimator])(**shared)
    found.fit(rows.X, rows.y, sample_weight=rows.weights)
    best: dict[str, Any] = {name: found.best_params_[name] for name in found.best_params_}
    return best


def _score(model: Any, printer: Printer) -> float | None:
    """Return the leave-one-out score where it costs about as much as the fit, which the hinge's does not."""
    if model._loss != Loss.SQUARED or not 2 <= model.ids_.size <= _FEW_ROWS:
        return None
    with printer.working("Leaving one row out"):
        return float(model.loo_score())


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
    printer: Printer, model: Any, rows: Data, output: Path, seconds: float, loo: float | None
) -> None:
    printer.say(f"Fit: {1e3 * seconds:.0f} ms with solver {model.solver_!r} ({model.solver_reason_}).")
    printer.say(f"Certificate: {model.certificate_}.")
    if loo is not None:
        kind = "accuracy" if hasattr(model, "classes_") else "R2"
        printer.say(f"Exact leave-one-out {kind}: {loo:.4f}.")
    printer.say(f"Model: {output}")
    gamma = model.gamma_ if hasattr(model, "gamma_") else None
    printer.result(
        {
            "model": str(output),
            "estimator": type(model).__name__,
            "rows": int(rows.X.shape[0]),
            "columns": int(rows.X.shape[1]),
            "classes": model.classes_ if hasattr(model, "classes_") else None,
            "C": model.C_,
            "kernel": model.kernel,
            "gamma": gamma,
            "solver": model.solver_,
            "solver_reason": model.solver_reason_,
            "n_iter": model.n_iter_,
            "certificate": facts_of(model.certificate_),
            "loo_score": loo,
            "seconds": seconds,
        }
    )
