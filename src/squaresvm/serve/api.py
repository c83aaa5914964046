"""What programs can ask: predictions, changes with receipts, and what is served."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from squaresvm.serve.batching import Batcher
from squaresvm.serve.endpoint import Endpoint, body_of, json_response, read_body
from squaresvm.serve.failures import RequestError
from squaresvm.serve.folder import Folder
from squaresvm.serve.inference import model_metadata, parse_infer, render_infer, server_metadata
from squaresvm.serve.metrics import Metrics
from squaresvm.serve.rows import Limits, list_in, rows_for, table_of
from squaresvm.serve.served import ServedModel
from squaresvm.serve.turns import Turns
from squaresvm.serve.view import View

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
    turns : Turns
    """

    def __init__(self, folder: Folder, limits: Limits, metrics: Metrics, turns: Turns) -> None:
        self._folder, self._limits, self._metrics = folder, limits, metrics
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="squaresvm-predict")
        self._batchers: dict[str, Batcher] = {}
        self._turns = turns

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
            _, answer, probabilities = await self._turns.take(model, model.judged, view, wanted.X)
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
            view, answer, p = await self._turns.take(model, model.judged, view, X)
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
        sent = body_of(request, body, label, id, self._limits)
        wanted = sent.get("probabilities", request.query_params.get("probabilities") == "true")
        if not isinstance(wanted, bool):
            raise RequestError(400, "'probabilities' must be true or false")
        if wanted and (not view.has_probabilities or view.classes is None):
            raise RequestError(422, "this model has no probabilities")
        table = table_of(list_in(sent, "records", self._limits), self._limits)
        return wanted, rows_for(table, view.preparation, view.width)

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
        sent = await self._apart(body, functools.partial(body_of, request, body, label, id, self._limits))
        entry, is_repeated = await self._turns.take(model, model.change, kind, sent, key, body)
        if not is_repeated:
            self._metrics.count_rows(kind, entry.receipt["rows"])
        headers = {"idempotent-replayed": "true"} if is_repeated else None
        return json_response({"model": model.name, **entry.public}, headers=headers)

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


def _label_and_id(view: View | None) -> tuple[str | None, str | None]:
    """Return which columns of a table are no features of the model."""
    preparation = None if view is None else view.preparation
    if preparation is None:
        return None, None
    return preparation.label or "label", preparation.id or "id"
