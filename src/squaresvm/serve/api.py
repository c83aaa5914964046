"""What programs can ask: predictions, changes with receipts, and how the models are."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

import squaresvm
from squaresvm.files import Record
from squaresvm.serve.batching import Batcher
from squaresvm.serve.endpoint import Endpoint, json_response, read_body
from squaresvm.serve.failures import RequestError
from squaresvm.serve.folder import Folder
from squaresvm.serve.inference import model_metadata, parse_infer, render_infer, server_metadata
from squaresvm.serve.metrics import Metrics
from squaresvm.serve.rows import Limits, csv_request, json_object, list_in, rows_for, table_of
from squaresvm.serve.served import ServedModel
from squaresvm.serve.view import View
from squaresvm.solution import Certificate

__all__ = ["Api"]

Result = TypeVar("Result")
_READ = ("predict", "inspect")
#: Bodies beyond this are taken apart beside the event loop.
_LARGE_BODY = 2**16


class Api:
    """The routes for programs.

    Parameters
    ----------
    folder : Folder
    limits : Limits
    metrics : Metrics
    """

    def __init__(self, folder: Folder, limits: Limits, metrics: Metrics) -> None:
        self._folder, self._limits, self._metrics = folder, limits, metrics
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="squaresvm-predict")
        self._batchers: dict[str, Batcher] = {}
        self._waiting: dict[str, int] = {}
        self._verifying = asyncio.Lock()

    @property
    def endpoints(self) -> list[Endpoint]:
        """All routes."""
        changes = ("idempotency-key", "content-type")
        return [
            Endpoint("GET", "/v2", self.server, (), "What the server is."),
            Endpoint("GET", "/v2/health/live", self.live, (), "Whether the server runs."),
            Endpoint("GET", "/v2/health/ready", self.ready, (), "Whether all models can be asked."),
            Endpoint("GET", "/v2/models/{name}", self.metadata, _READ, "Inputs and outputs of a model."),
            Endpoint(
                "GET", "/v2/models/{name}/ready", self.model_ready, _READ, "Whether a model can be asked."
            ),
            Endpoint(
                "POST",
                "/v2/models/{name}/infer",
                self.infer,
                ("predict",),
                "Predict tensors, by the Open Inference Protocol.",
                "Infer",
                ("inference-header-content-length",),
            ),
            Endpoint("GET", "/models", self.models, _READ, "All models."),
            Endpoint("GET", "/models/{name}", self.model, _READ, "What a model is."),
            Endpoint(
                "POST",
                "/models/{name}/predict",
                self.predict,
                ("predict",),
                "Predict records, lists of numbers or CSV.",
                "Predict",
                ("content-type",),
            ),
            Endpoint(
                "POST",
                "/models/{name}/learn",
                self.learn,
                ("learn",),
                "Add rows: the model then equals one that was trained on all of them.",
                "Learn",
                changes,
            ),
            Endpoint(
                "POST",
                "/models/{name}/forget",
                self.forget,
                ("forget",),
                "Remove rows, exactly: the model then equals one that was never shown them.",
                "Forget",
                changes,
            ),
            Endpoint(
                "GET", "/models/{name}/receipts", self.receipts, ("inspect",), "Receipts, newest first."
            ),
            Endpoint(
                "GET",
                "/models/{name}/certificate",
                self.certificate,
                ("inspect",),
                "Residual, gap and objective, computed from the rows.",
            ),
            Endpoint(
                "GET",
                "/models/{name}/verify",
                self.verify,
                ("inspect",),
                "Save the model, then check its file with the independent verifier.",
            ),
            Endpoint(
                "GET",
                "/models/{name}/report",
                self.report,
                ("inspect",),
                "Exact leave-one-out score, calibration, rows that look mislabelled, history.",
            ),
            Endpoint("GET", "/metrics", self.metrics, ("inspect",), "Counters in Prometheus' text format."),
        ]

    # The server ------------------------------------------------------------------------------------

    async def server(self, request: Request) -> Response:
        """Answer `/v2`."""
        return json_response(server_metadata())

    async def live(self, request: Request) -> Response:
        """Answer `/v2/health/live`."""
        return json_response({"live": True})

    async def ready(self, request: Request) -> Response:
        """Answer `/v2/health/ready`."""
        is_ready = self._folder.is_ready
        return json_response({"ready": is_ready}, 200 if is_ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Answer `/metrics`."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    # Models ----------------------------------------------------------------------------------------

    def _model(self, request: Request) -> ServedModel:
        return self._folder.find(request.path_params["name"])

    async def metadata(self, request: Request) -> Response:
        """Answer `/v2/models/{name}`."""
        model = self._model(request)
        return json_response(model_metadata(model.name, model.ready_view()))

    async def model_ready(self, request: Request) -> Response:
        """Answer `/v2/models/{name}/ready`."""
        model = self._model(request)
        is_ready = model.view is not None
        return json_response({"name": model.name, "ready": is_ready}, 200 if is_ready else 503)

    async def models(self, request: Request) -> Response:
        """Answer `/models`."""
        found = [_summary(model) for _, model in sorted(self._folder.models.items())]
        return json_response({"models": found})

    async def model(self, request: Request) -> Response:
        """Answer `/models/{name}`."""
        model = self._model(request)
        facts = _summary(model)
        if model.view is not None:
            facts |= {"inputs": model_metadata(model.name, model.view)["inputs"]}
        return json_response(facts)

    # Predictions -----------------------------------------------------------------------------------

    async def infer(self, request: Request) -> Response:
        """Answer `/v2/models/{name}/infer`."""
        model = self._model(request)
        body = await read_body(request, self._limits)
        length = request.headers.get("inference-header-content-length")
        view = model.ready_view()
        wanted = await self._apart(body, functools.partial(parse_infer, body, length, view, self._limits))
        if "probabilities" in wanted.outputs:
            _, answer, probabilities = await self._in_writer(model, model.judged, view, wanted.X)
        else:
            answer, probabilities = await self._batcher(model.name).answer(view, wanted.X), None
        self._metrics.count_rows("predict", wanted.X.shape[0])
        content, size = render_infer(model.name, wanted, answer, probabilities)
        if size is None:
            return Response(content, media_type="application/json")
        headers = {"inference-header-content-length": str(size)}
        return Response(content, headers=headers, media_type="application/octet-stream")

    async def predict(self, request: Request) -> Response:
        """Answer `/models/{name}/predict`."""
        model = self._model(request)
        body = await read_body(request, self._limits)
        view = model.ready_view()
        wanted, X = await self._apart(body, functools.partial(self._predict_request, request, body, view))
        facts: dict[str, Any] = {"model": model.name}
        if wanted:
            view, answer, p = await self._in_writer(model, model.judged, view, X)
            assert view.classes is not None
            facts |= {"classes": view.classes.tolist(), "probabilities": p.tolist()}
        else:
            answer = await self._batcher(model.name).answer(view, X)
        facts["predictions"] = answer.labels.tolist()
        if answer.decision is not None:
            facts["decision"] = answer.decision.tolist()
        self._metrics.count_rows("predict", X.shape[0])
        return json_response(facts)

    def _predict_request(self, request: Request, body: bytes, view: View) -> tuple[bool, Any]:
        label, id = _label_and_id(view)
        sent = self._request(request, body, label, id)
        wanted = sent.get("probabilities", request.query_params.get("probabilities") == "true")
        if not isinstance(wanted, bool):
            raise RequestError(400, "'probabilities' must be true or false")
        if wanted and (not view.has_probabilities or view.classes is None):
            raise RequestError(422, "this model has no probabilities")
        table = table_of(list_in(sent, "records", self._limits), self._limits)
        return wanted, rows_for(table, view.preparation, view.width)

    def _request(self, request: Request, body: bytes, label: str | None, id: str | None) -> dict[str, Any]:
        """Return what a body says, in JSON or in CSV."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            return json_object(body)
        if kind == "text/csv":
            return csv_request(body, label, id, self._limits)
        # Other kinds a page from elsewhere could send in its reader's stead.
        raise RequestError(415, "the Content-Type must be application/json or text/csv")

    def _batcher(self, name: str) -> Batcher:
        if name not in self._batchers:
            self._batchers[name] = Batcher(self._pool, self._limits.waiting)
        return self._batchers[name]

    async def _apart(self, body: bytes, work: Callable[[], Result]) -> Result:
        """Take a body apart here, or beside the event loop where that takes long."""
        return work() if len(body) <= _LARGE_BODY else await asyncio.to_thread(work)

    # Changes ---------------------------------------------------------------------------------------

    async def learn(self, request: Request) -> Response:
        """Answer `/models/{name}/learn`."""
        return await self._change(request, "learn")

    async def forget(self, request: Request) -> Response:
        """Answer `/models/{name}/forget`."""
        return await self._change(request, "forget")

    async def _change(self, request: Request, kind: str) -> Response:
        model = self._model(request)
        body = await read_body(request, self._limits)
        key = request.headers.get("idempotency-key")
        label, id = _label_and_id(model.view)
        sent = await self._apart(body, functools.partial(self._request, request, body, label, id))
        entry, is_repeated = await self._in_writer(model, model.change, kind, sent, key, body)
        if not is_repeated:
            self._metrics.count_rows(kind, entry.receipt["rows"])
        headers = {"idempotent-replayed": "true"} if is_repeated else None
        return json_response({"model": model.name, **entry.public}, headers=headers)

    async def _in_writer(self, model: ServedModel, work: Callable[..., Result], *values: Any) -> Result:
        """Do something where the model is changed, after what waits there, unless that is too much."""
        waiting = self._waiting.get(model.name, 0)
        if waiting >= self._limits.waiting:
            raise RequestError(503, "too many requests wait for this model", 1)
        self._waiting[model.name] = waiting + 1
        try:
            try:
                job = model.writer.submit(work, *values)
            except RuntimeError:
                raise RequestError(503, "the server ends, or the model is gone", 5) from None
            future = asyncio.wrap_future(job)
            done, _ = await asyncio.wait({future}, timeout=self._limits.seconds)
            if not done and job.cancel():
                raise RequestError(503, "the request has waited too long: nothing has changed", 1)
            return await future  # What has begun is awaited: it is done, or refused.
        finally:
            self._waiting[model.name] -= 1

    # Proof -----------------------------------------------------------------------------------------

    async def receipts(self, request: Request) -> Response:
        """Answer `/models/{name}/receipts`."""
        model = self._model(request)
        most, before = _number(request, "limit", 100), _number(request, "before", None)
        found = await asyncio.to_thread(
            self._folder.journal.receipts, model.name, min(most or 100, 1000), before
        )
        return json_response({"model": model.name, "receipts": [entry.public for entry in found]})

    async def certificate(self, request: Request) -> Response:
        """Answer `/models/{name}/certificate`."""
        model = self._model(request)
        view, certificate = await self._in_writer(model, _certificate, model)
        return json_response(
            {"model": model.name, "number": view.number, "rows": view.rows, **_certificate_facts(certificate)}
        )

    async def verify(self, request: Request) -> Response:
        """Answer `/models/{name}/verify`."""
        model = self._model(request)
        model.check_changeable()
        if self._verifying.locked():
            raise RequestError(503, "a verification is under way", 5)
        async with self._verifying:
            if not await self._in_writer(model, self._folder.save, model):
                raise RequestError(507, "the model cannot be saved for now", 30)
            verdict = await asyncio.to_thread(squaresvm.verify, model.path)
        facts = {"model": model.name, "ok": verdict.ok, "rows": verdict.rows, "faults": list(verdict.faults)}
        facts |= {"residual": verdict.residual, "gap": verdict.gap, "objective": verdict.objective}
        facts |= {"decision_error": verdict.decision_error, "claimed": asdict(verdict.claimed)}
        return json_response(facts)

    async def report(self, request: Request) -> Response:
        """Answer `/models/{name}/report`."""
        model = self._model(request)
        view, report = await self._in_writer(model, model.report)
        history = Record.of(view.estimator).history
        shares = None if report.shares is None else [part.tolist() for part in report.shares]
        return json_response(
            {
                "model": model.name,
                "number": view.number,
                "rows": view.rows,
                "certificate": _certificate_facts(report.certificate),
                "loo_score": report.score,
                "loo_is_exact": report.is_exact,
                "brier": report.brier,
                "calibration": shares,
                "margins": None if report.margins is None else _histogram(report.margins),
                "suspects": [_plain_row(row) for row in report.suspects],
                "influential": [_plain_row(row) for row in report.influential],
                "history": [asdict(event) for event in history.events],
            }
        )

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _summary(model: ServedModel) -> dict[str, Any]:
    view = model.view
    if view is None:
        return {"name": model.name, "ready": False, "fault": model.fault}
    estimator = view.estimator
    columns = None if view.preparation is None else [feature.name for feature in view.preparation.features]
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
        "columns": columns,
        "n_columns": view.width,
        "classes": None if classes is None else classes.tolist(),
        "learns": view.can_change,
        "number": view.number,
        "unsaved": model.unsaved,
    }


def _certificate(model: ServedModel) -> tuple[View, Certificate]:
    view = model.ready_view()
    if not hasattr(view.estimator, "certificate_"):
        raise RequestError(409, "this kind of model has no certificate")
    return view, view.estimator.certificate_


def _certificate_facts(certificate: Certificate) -> dict[str, Any]:
    return {
        "status": certificate.status.value,
        "residual": float(certificate.residual),
        "gap": float(certificate.gap),
        "objective": float(certificate.objective),
    }


def _histogram(margins: np.ndarray[Any, Any]) -> dict[str, Any]:
    counts, edges = np.histogram(margins, bins=24)
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def _plain_row(row: Any) -> dict[str, Any]:
    name = row.id if isinstance(row.id, int | float | str) else str(row.id)
    return {"id": name, "label": row.label, "expected": row.expected, "value": row.value}


def _label_and_id(view: View | None) -> tuple[str | None, str | None]:
    """Return which columns of a table are no features of the model."""
    preparation = None if view is None else view.preparation
    if preparation is None:
        return None, None
    return preparation.label or "label", preparation.id or "id"


def _number(request: Request, name: str, default: int | None) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise RequestError(400, f"{name!r} must be a positive whole number")
    return int(text)
