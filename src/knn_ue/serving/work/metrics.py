"""What Prometheus reads at /metrics: traffic, the queue, the datastore and drift, in a registry of their own."""

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from knn_ue.answers import AnyAnswer, SentenceAnswer
from knn_ue.serving.work.drift import DriftReport

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128)
_SHARES = tuple(tenth / 10 for tenth in range(1, 11))

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Counters, gauges and histograms of one server. `path` is the template of a route, so that there are few."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second line for each number, of no use to us
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "knn_ue_requests", "Requests answered.", ("method", "path", "status"), registry=registry
        )
        self.seconds = Histogram(
            "knn_ue_request_seconds", "Time to answer.", ("path",), buckets=_SECONDS, registry=registry
        )
        self.cancelled = Counter("knn_ue_cancelled", "Requests whose client went away first.", registry=registry)
        self.refused = Counter("knn_ue_refused", "Requests refused, by code.", ("code",), registry=registry)
        self.batch_items = Histogram(
            "knn_ue_batch_items", "Inputs that went through the model together.", buckets=_ITEMS, registry=registry
        )
        self.batch_seconds = Histogram(
            "knn_ue_batch_seconds", "Time of a batch in the model.", buckets=_SECONDS, registry=registry
        )
        self.confidence = Histogram(
            "knn_ue_confidence", "Calibrated confidence of answers.", buckets=_SHARES, registry=registry
        )
        self.abstained = Counter("knn_ue_abstained", "Answers that were abstentions.", registry=registry)
        self.unfamiliar = Counter("knn_ue_unfamiliar", "Inputs unlike the training data.", registry=registry)
        self.added = Counter("knn_ue_examples_added", "Examples added through this server.", registry=registry)
        self.removed = Counter("knn_ue_examples_removed", "Examples removed through this server.", registry=registry)
        self.swaps = Counter("knn_ue_swaps", "Times the folder was read again and took over.", registry=registry)
        self._drift = {
            name: Gauge(f"knn_ue_drift_{name}", text, ("quantity",), registry=registry)
            for name, text in (
                ("live_median", "Median of the last inputs."),
                ("validation_median", "Median of the validation rows."),
                ("beyond_ratio", "Share of the last inputs beyond the 5 % tail of the validation rows."),
                ("gap", "Largest gap between the distributions of the last inputs and of the validation rows."),
            )
        }
        self._drift_inputs = Gauge("knn_ue_drift_inputs", "Inputs in the window of drift.", registry=registry)
        self._drift_moving = Gauge(
            "knn_ue_drift_moving", "1 where the traffic is moving away from the training data.", registry=registry
        )

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Export what `read` returns at the moment of a scrape."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def observe_batch(self, n_items: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_items.observe(n_items)
        self.batch_seconds.observe(seconds)

    def observe_answers(self, answers: list[AnyAnswer]) -> None:
        """Count what was answered: texts, pairs or entities."""
        for answer in answers:
            self.unfamiliar.inc(bool(answer.unfamiliar))
            for given in answer.entities if isinstance(answer, SentenceAnswer) else [answer]:
                self.confidence.observe(given.score)
                self.abstained.inc(given.abstained)

    def page(self, drift: DriftReport) -> bytes:
        """Return all of them in the text format."""
        self._drift_inputs.set(drift.n)
        self._drift_moving.set(drift.level == "moving")
        for quantity in ("familiarity", "distance", "agreement"):
            side = getattr(drift, quantity)
            if side is None:
                continue
            values = {
                "live_median": side.live_median,
                "validation_median": side.validation_median,
                "beyond_ratio": side.beyond,
                "gap": side.gap,
            }
            for name, value in values.items():
                self._drift[name].labels(quantity).set(float("nan") if value is None else value)
        page: bytes = generate_latest(self._registry)
        return page
