"""What programs can ask: predictions, changes with receipts, and how a model is."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

import squaresvm
from squaresvm.files import Record
from squaresvm.readers import Table
from squaresvm.serve.endpoint import Endpoint, Metrics, body_of, json_response, read_body
from squaresvm.serve.folder import Folder
from squaresvm.serve.inference import model_metadata, parse_infer, render_infer, server_metadata
from squaresvm.serve.rows import Limits, RequestError, first_line, held_ids, list_in, table_of
from squaresvm.serve.served import ServedModel
from squaresvm.serve.view import View
from squaresvm.solution import Certificate
from squaresvm.typing import FloatArray

__all__ = ["Api"]

Result = TypeVar("Result")
_READ = ("predict", "inspect")
_INSPECT = ("inspect",)
#: Bodies beyond this are taken apart beside the event loop.
_LARGE_BODY = 2**16


class Api:
    """The routes for programs. What a route says of itself here is its documentation for them."""

    def __init__(self, folder: Folder, limits: Limits, metrics: Metrics) -> None:
        self._folder, self._limits, self._metrics = folder, limits, metrics
        self._verifying = asyncio.Lock()

    @property
    def endpoints(self) -> list[Endpoint]:
        """All routes."""
        v2, one, table = "/v2/models/{name}", "/models/{name}", ("content-type",)
        change, tensors = ("idempotency-key", *table), ("inference-header-content-length",)
        return [
            Endpoint("GET", "/v2", self.server),
            Endpoint("GET", "/v2/health/live", self.live),
            Endpoint("GET", "/v2/health/ready", self.ready),
            Endpoint("GET", v2, self.metadata, _READ),
            Endpoint("GET", f"{v2}/ready", self.model_ready, _READ),
            Endpoint("POST", f"{v2}/infer", self.infer, ("predict",), "Infer", tensors),
            Endpoint("GET", "/models", self.models, _READ),
            Endpoint("GET", one, self.model, _READ),
            Endpoint("POST", f"{one}/predict", self.predict, ("predict",), "Predict", table),
            Endpoint("POST", f"{one}/learn", self.learn, ("learn",), "Learn", change),
            Endpoint("POST", f"{one}/forget", self.forget, ("forget",), "Forget", change),
            Endpoint("GET", f"{one}/receipts", self.receipts, _INSPECT),
            Endpoint("GET", f"{one}/chain", self.chain, _INSPECT),
            Endpoint("POST", f"{one}/absence", self.absence, _INSPECT, "Absence", table),
            Endpoint("GET", f"{one}/certificate", self.certificate, _INSPECT),
            Endpoint("GET", f"{one}/verify", self.verify, _INSPECT),
            Endpoint("GET", f"{one}/report", self.report, _INSPECT),
            Endpoint("GET", "/metrics", self.metrics, _INSPECT),
        ]

    # The server ------------------------------------------------------------------------------------

    async def server(self, request: Request) -> Response:
        """Say what the server is."""
        return json_response(server_metadata())

    async def live(self, request: Request) -> Response:
        """Say whether the server runs."""
        return json_response({"live": True})

    async def ready(self, request: Request) -> Response:
        """Say whether all models can be asked."""
        is_ready = self._folder.is_ready
        return json_response({"ready": is_ready}, 200 if is_ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Give the counters in Prometheus' text format."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    # Models ----------------------------------------------------------------------------------------

    def _model(self, request: Request) -> ServedModel:
        return self._folder.find(request.path_params["name"])

    async def metadata(self, request: Request) -> Response:
        """Give the inputs and outputs of a model."""
        model = self._model(request)
        return json_response(model_metadata(model.name, model.ready_view()))

    async def model_ready(self, request: Request) -> Response:
        """Say whether a model can be asked."""
        model = self._model(request)
        is_ready = model.view is not None
        return json_response({"name": model.name, "ready": is_ready}, 200 if is_ready else 503)

    async def models(self, request: Request) -> Response:
        """List all models."""
        found = [_summary(model) for _, model in sorted(self._folder.models.items())]
        return json_response({"models": found})

    async def model(self, request: Request) -> Response:
        """Say what a model is."""
        model = self._model(request)
        facts = _summary(model)
        if model.view is not None:
            facts |= {"inputs": model_metadata(model.name, model.view)["inputs"]}
        return json_response(facts)

    # Predictions -----------------------------------------------------------------------------------

    async def infer(self, request: Request) -> Response:
        """Predict tensors, by the Open Inference Protocol."""
        model = self._model(request)
        body = await read_body(request, self._limits)
        length = request.headers.get("inference-header-content-length")
        view = model.ready_view()
        wanted = await self._apart(body, functools.partial(parse_infer, body, length, view, self._limits))
        if "probabilities" in wanted.outputs:
            _, answer, probabilities = await model.turn(model.judged, view, wanted.X)
        else:
            answer, probabilities = await model.predictions.answer(view, wanted.X), None
        self._metrics.count_rows("predict", wanted.X.shape[0])
        content, size = render_infer(model.name, wanted, answer, probabilities)
        if size is None:
            return Response(content, media_type="application/json")
        headers = {"inference-header-content-length": str(size)}
        return Response(content, headers=headers, media_type="application/octet-stream")

    async def predict(self, request: Request) -> Response:
        """Predict records, lists of numbers or CSV."""
        model = self._model(request)
        body = await read_body(request, self._limits)
        view = model.ready_view()
        wanted, X, unknown = await self._apart(
            body, functools.partial(self._predict_request, request, body, view)
        )
        facts: dict[str, Any] = {"model": model.name}
        if wanted:
            view, answer, p = await model.turn(model.judged, view, X)
            assert view.classes is not None
            facts |= {"classes": view.classes.tolist(), "probabilities": p.tolist()}
        else:
            answer = await model.predictions.answer(view, X)
        facts["predictions"] = answer.labels.tolist()
        if answer.decision is not None:
            facts["decision"] = answer.decision.tolist()
        if unknown:
            facts["unknown_levels"] = unknown
        self._metrics.count_rows("predict", X.shape[0])
        return json_response(facts)

    def _predict_request(
        self, request: Request, body: bytes, view: View
    ) -> tuple[bool, FloatArray, dict[str, list[str]]]:
        sent = body_of(request, body, ("records", "probabilities"), self._limits, **_label_and_id(view))
        wanted = sent.get("probabilities", request.query_params.get("probabilities") == "true")
        if not isinstance(wanted, bool):
            raise RequestError(400, "'probabilities' must be true or false")
        if wanted and (not view.has_probabilities or view.classes is None):
            raise RequestError(422, "this model has no probabilities")
        table = table_of(list_in(sent, "records", self._limits), self._limits)
        return wanted, view.prepared(table), _unknown_levels(table, view)

    async def _apart(self, body: bytes, work: Callable[[], Result]) -> Result:
        """Take a body apart here, or beside the event loop where that takes long."""
        return work() if len(body) <= _LARGE_BODY else await asyncio.to_thread(work)

    # Changes ---------------------------------------------------------------------------------------

    async def learn(self, request: Request) -> Response:
        """Add rows: the model then equals one that was trained on all of them."""
        return await self._change(request, "learn")

    async def forget(self, request: Request) -> Response:
        """Remove rows, exactly: the model then equals one that was never shown them."""
        return await self._change(request, "forget")

    async def _change(self, request: Request, kind: str) -> Response:
        model = self._model(request)
        body = await read_body(request, self._limits)
        key = request.headers.get("idempotency-key")
        names = ("records", "labels", "ids") if kind == "learn" else ("ids",)
        columns = _label_and_id(model.view)
        sent = await self._apart(
            body, functools.partial(body_of, request, body, names, self._limits, **columns)
        )
        entry, is_repeated = await model.turn(model.change, kind, sent, key, body)
        if not is_repeated:
            self._metrics.count_rows(kind, entry.receipt["rows"])
        headers = {"idempotent-replayed": "true"} if is_repeated else None
        return json_response({"model": model.name, **entry.public}, headers=headers)

    # How a model is --------------------------------------------------------------------------------

    async def receipts(self, request: Request) -> Response:
        """Give the receipts, newest first; ?limit=100&before=NUMBER."""
        model = self._model(request)
        most, before = _number(request, "limit", 100), _number(request, "before", None)
        found = await asyncio.to_thread(
            self._folder.journal.receipts, model.name, min(most or 100, 1000), before
        )
        return json_response({"model": model.name, "receipts": [entry.public for entry in found]})

    async def chain(self, request: Request) -> Response:
        """Give the sealed receipts of the model, chained by hashes, as in its file."""
        model = self._model(request)
        view = await model.turn(model.saved)
        model.check_changeable()
        chain = await asyncio.to_thread(lambda: [one.to_json() for one in view.estimator.receipts_])
        return json_response({"model": model.name, "chain": chain})

    async def absence(self, request: Request) -> Response:
        """Prove that no row of an id is held, under the commitment of the last receipt."""
        model = self._model(request)
        sent = body_of(request, await read_body(request, self._limits), ("id",), self._limits)
        if "id" not in sent:
            raise RequestError(400, "'id' is missing")
        view = await model.turn(model.saved)
        model.check_changeable()
        proof, receipt = await asyncio.to_thread(_absence, view, sent["id"])
        return json_response({"model": model.name, "proof": proof, "receipt": receipt})

    async def certificate(self, request: Request) -> Response:
        """Give residual, gap and objective, computed from the rows."""
        model = self._model(request)
        view, certificate = await model.turn(_certificate, model)
        return json_response(
            {"model": model.name, "number": view.number, "rows": view.rows, **certificate.to_json()}
        )

    async def verify(self, request: Request) -> Response:
        """Save the model, then check its file with the independent verifier."""
        model = self._model(request)
        if self._verifying.locked():
            raise RequestError(503, "a verification is under way", 5)
        async with self._verifying:
            await model.turn(model.saved)
            try:
                verdict = await asyncio.to_thread(squaresvm.verify, model.path)
            except ValueError as error:
                raise RequestError(409, first_line(error)) from None
        facts = {"model": model.name, "ok": verdict.ok, "rows": verdict.rows, "faults": list(verdict.faults)}
        facts |= {"residual": verdict.residual, "gap": verdict.gap, "objective": verdict.objective}
        facts |= {"decision_error": verdict.decision_error, "claimed": asdict(verdict.claimed)}
        return json_response(facts)

    async def report(self, request: Request) -> Response:
        """Give the exact leave-one-out score, calibration, rows that look mislabelled, and history."""
        model = self._model(request)
        view, report = await model.turn(model.report)
        history = Record.of(view.estimator).history
        shares = None if report.shares is None else [part.tolist() for part in report.shares]
        return json_response(
            {
                "model": model.name,
                "number": view.number,
                "rows": view.rows,
                "certificate": report.certificate.to_json(),
                "loo_score": report.score,
                "leave_one_out": [asdict(figure) for figure in report.figures],
                "loo_is_exact": report.is_exact,
                "brier": report.brier,
                "calibration": shares,
                "margins": None if report.margins is None else _histogram(report.margins),
                "suspects": [_plain_row(row) for row in report.suspects],
                "influential": [_plain_row(row) for row in report.influential],
                "history": [asdict(event) for event in history.events],
            }
        )


def _summary(model: ServedModel) -> dict[str, Any]:
    view = model.view
    if view is None:
        return {"name": model.name, "ready": False, "fault": model.fault}
    estimator = view.estimator
    classes = view.classes
    settings = getattr(getattr(estimator, "_state", None), "settings", None)
    kernel = None if settings is None or settings.kernel is None else settings.kernel
    return {
        "name": model.name,
        "ready": True,
        "estimator": type(estimator).__name__,
        "kernel": None if kernel is None else kernel.name,
        "C": None if settings is None else float(settings.C),
        "gamma": None if kernel is None or kernel.name == "linear" else float(kernel.gamma),
        "rows": view.rows,
        "columns": view.columns,
        "n_columns": view.width,
        "classes": None if classes is None else classes.tolist(),
        "learns": view.can_change,
        "number": view.number,
        "unsaved": model.unsaved,
    }


def _label_and_id(view: View | None) -> dict[str, str]:
    """Return which columns of a table are no features of the model."""
    preparation = None if view is None else view.preparation
    if preparation is None:
        return {}
    return {"label": preparation.label or "label", "id": preparation.id or "id"}


def _unknown_levels(table: Table | FloatArray, view: View) -> dict[str, list[str]]:
    """Return, by column, levels that the model does not know: they had no part in what it predicts."""
    found: dict[str, list[str]] = {}
    if isinstance(table, Table) and view.preparation is not None:
        for column, level in view.preparation.unknown_levels(table):
            found.setdefault(column, []).append(level)
    return found


def _absence(view: View, name: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a proof that no row of an id is held, and the receipt that it stands under."""
    try:
        proof = view.estimator.prove_absence(held_ids(view.estimator, [name])[0])
    except ValueError as error:
        raise RequestError(409, first_line(error)) from None
    return proof.to_json(), view.estimator.receipts_[-1].to_json()


def _certificate(model: ServedModel) -> tuple[View, Certificate]:
    view = model.ready_view()
    if not hasattr(view.estimator, "certificate_"):
        raise RequestError(409, "this kind of model has no certificate")
    return view, view.estimator.certificate_


def _histogram(margins: np.ndarray[Any, Any]) -> dict[str, Any]:
    counts, edges = np.histogram(margins, bins=24)
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def _plain_row(row: Any) -> dict[str, Any]:
    name = row.id if isinstance(row.id, int | float | str) else str(row.id)
    return {"id": name, "label": row.label, "expected": row.expected, "value": row.value}


def _number(request: Request, name: str, default: int | None) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise RequestError(400, f"{name!r} must be a positive whole number")
    return int(text)
