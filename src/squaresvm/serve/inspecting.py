"""What can be asked of a model itself: receipts, their chain, absence, certificate, verification, report."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

import squaresvm
from squaresvm.files import Record
from squaresvm.serve.endpoint import Endpoint, body_of, json_response, read_body
from squaresvm.serve.failures import RequestError
from squaresvm.serve.folder import Folder
from squaresvm.serve.rows import Limits
from squaresvm.serve.served import ServedModel
from squaresvm.serve.turns import Turns
from squaresvm.serve.view import View
from squaresvm.solution import Certificate

__all__ = ["Inspection"]


class Inspection:
    """The routes for those who want to know how a model is.

    Parameters
    ----------
    folder : Folder
    limits : Limits
    turns : Turns
    """

    def __init__(self, folder: Folder, limits: Limits, turns: Turns) -> None:
        self._folder, self._limits, self._turns = folder, limits, turns
        self._verifying = asyncio.Lock()

    @property
    def endpoints(self) -> list[Endpoint]:
        """All routes."""
        return [
            Endpoint(
                "GET", "/models/{name}/receipts", self.receipts, ("inspect",), "Receipts, newest first."
            ),
            Endpoint(
                "GET",
                "/models/{name}/chain",
                self.chain,
                ("inspect",),
                "The sealed receipts of the model, chained by hashes, as in its file.",
            ),
            Endpoint(
                "POST",
                "/models/{name}/absence",
                self.absence,
                ("inspect",),
                "Prove that no row of an id is held, under the commitment of the last receipt.",
                "Absence",
                ("content-type",),
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
        ]

    async def receipts(self, request: Request) -> Response:
        """Answer `/models/{name}/receipts`."""
        model = self._folder.find(request.path_params["name"])
        most, before = _number(request, "limit", 100), _number(request, "before", None)
        found = await asyncio.to_thread(
            self._folder.journal.receipts, model.name, min(most or 100, 1000), before
        )
        return json_response({"model": model.name, "receipts": [entry.public for entry in found]})

    async def chain(self, request: Request) -> Response:
        """Answer `/models/{name}/chain`."""
        model = self._folder.find(request.path_params["name"])
        await self._saved(model)
        return json_response({"model": model.name, "chain": await self._turns.take(model, model.chain)})

    async def absence(self, request: Request) -> Response:
        """Answer `/models/{name}/absence`."""
        model = self._folder.find(request.path_params["name"])
        sent = body_of(request, await read_body(request, self._limits), None, None, self._limits)
        if "id" not in sent:
            raise RequestError(400, "'id' is missing")
        await self._saved(model)
        return json_response(
            {"model": model.name, **await self._turns.take(model, model.absence, sent["id"])}
        )

    async def _saved(self, model: ServedModel) -> None:
        """Put the model into its file: what is said of it from then on stays true, whatever happens."""
        model.check_changeable()
        if not await self._turns.take(model, self._folder.save, model):
            raise RequestError(507, "the model cannot be saved for now", 30)

    async def certificate(self, request: Request) -> Response:
        """Answer `/models/{name}/certificate`."""
        model = self._folder.find(request.path_params["name"])
        view, certificate = await self._turns.take(model, _certificate, model)
        return json_response(
            {"model": model.name, "number": view.number, "rows": view.rows, **_certificate_facts(certificate)}
        )

    async def verify(self, request: Request) -> Response:
        """Answer `/models/{name}/verify`."""
        model = self._folder.find(request.path_params["name"])
        if self._verifying.locked():
            raise RequestError(503, "a verification is under way", 5)
        async with self._verifying:
            await self._saved(model)
            verdict = await asyncio.to_thread(squaresvm.verify, model.path)
        facts = {"model": model.name, "ok": verdict.ok, "rows": verdict.rows, "faults": list(verdict.faults)}
        facts |= {"residual": verdict.residual, "gap": verdict.gap, "objective": verdict.objective}
        facts |= {"decision_error": verdict.decision_error, "claimed": asdict(verdict.claimed)}
        return json_response(facts)

    async def report(self, request: Request) -> Response:
        """Answer `/models/{name}/report`."""
        model = self._folder.find(request.path_params["name"])
        view, report = await self._turns.take(model, model.report)
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


def _number(request: Request, name: str, default: int | None) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise RequestError(400, f"{name!r} must be a positive whole number")
    return int(text)
