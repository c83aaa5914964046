"""What the server counts, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from squaresvm.serve.folder import Folder

__all__ = ["Metrics"]

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counters of one server.

    Parameters
    ----------
    folder : Folder
    """

    def __init__(self, folder: Folder) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "squaresvm_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "squaresvm_request_seconds",
            "Time from the head of a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._changed = Counter(
            "squaresvm_rows_changed", "Rows learned and forgotten.", ["kind"], registry=self._registry
        )
        self._predicted = Counter("squaresvm_rows_predicted", "Rows predicted.", registry=self._registry)
        self._snapshots = Counter(
            "squaresvm_snapshots", "Model files written, or not.", ["outcome"], registry=self._registry
        )
        self._registry.register(_Gauges(folder))
        folder.on_snapshot = self._count_snapshot

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_rows(self, kind: str, rows: int) -> None:
        """Count rows that were learned, forgotten or predicted."""
        if kind == "predict":
            self._predicted.inc(rows)
        else:
            self._changed.labels(kind).inc(rows)

    def _count_snapshot(self, seconds: float | None) -> None:
        self._snapshots.labels("failed" if seconds is None else "written").inc()

    def text(self) -> bytes:
        """Return all of them."""
        return bytes(generate_latest(self._registry))


class _Gauges(Collector):
    """What is read from the models when somebody asks."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        held = GaugeMetricFamily("squaresvm_rows_held", "Rows that a model holds.", labels=["model"])
        unsaved = GaugeMetricFamily(
            "squaresvm_unsaved_requests", "Requests in the journal, not yet in the file.", labels=["model"]
        )
        ready = GaugeMetricFamily("squaresvm_model_ready", "Whether a model can be asked.", labels=["model"])
        for name, model in sorted(self._folder.models.items()):
            view = model.view
            ready.add_metric([name], float(view is not None))
            unsaved.add_metric([name], float(model.unsaved))
            if view is not None and view.rows is not None:
                held.add_metric([name], float(view.rows))
        yield from (held, unsaved, ready)
