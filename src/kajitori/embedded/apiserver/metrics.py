"""The metrics of /metrics, under the names of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kajitori.embedded.store import Store


class _StoredObjects(Collector):
    """Numbers of stored objects, counted when the metrics are read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("apiserver_storage_objects", "Objects stored, by resource", labels=["resource"])
        for name in sorted(self._store.resources()):
            group, _, plural = name.partition("/")
            family.add_metric([f"{plural}.{group}" if group else plural], self._store.count(name))
        yield family


class Metrics:
    """Metrics of one server."""

    def __init__(self, store: Store) -> None:
        self._registry = CollectorRegistry()
        labels = ("verb", "resource", "code")
        self._requests = Counter("apiserver_request_total", "Requests answered", labels, registry=self._registry)
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Seconds until the answer was written; of watches, how long they lasted",
            ("verb", "resource"),
            registry=self._registry,
        )
        self.watches = Gauge("apiserver_longrunning_requests", "Watches open now", registry=self._registry)
        self._registry.register(_StoredObjects(store))

    def observe(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(verb, resource, str(code)).inc()
        self._seconds.labels(verb, resource).observe(seconds)

    def expose(self) -> tuple[bytes, str]:
        """Return the metrics in text form, and the content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
