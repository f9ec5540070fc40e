"""What a server tells of an adaptation: the numbers, the sentences, and the reliability picture before and after."""

from dataclasses import dataclass
from typing import Any

from knn_ue.adapting import Adaptation
from knn_ue.adapting.check import cross_validated
from knn_ue.metrics import reliability_bins
from knn_ue.pipeline import Fitted

_BINS = 5


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Mean score, share that is right and number of labels of each bin that holds any."""

    confidence: list[float]
    accuracy: list[float]
    count: list[float]


def adapted_facts(fitted: Fitted, domain: str, adaptation: Adaptation, *, force: bool = False) -> dict[str, Any]:
    """Return what `POST /adapt` answers; pictures are null where the labels were not kept."""
    found = fitted.domains.get(domain)
    if found is not None and found.adaptation != adaptation:  # older labels, which these did not replace
        found = None
    main = "entities" if "entities" in adaptation.units else "rows"
    pictures: dict[str, Any] = {"before": None, "after": None}
    if found is not None and len(found.labeled[main]):
        labeled = found.labeled[main]
        scales = cross_validated(labeled, unchanged=adaptation.unchanged, gate=not force)
        for name, scores in (("before", labeled.confidence(0.0)), ("after", labeled.confidence(scales))):
            pictures[name] = vars(_picture(scores, labeled.correct, labeled.weights))
    return {
        "domain": domain,
        "applied": adaptation.applied,
        "kept": found is not None,
        "message": str(adaptation),
        **adaptation.to_plain(),
        **pictures,
    }


def _picture(confidence: Any, correct: Any, weights: Any) -> Picture:
    bins = reliability_bins(confidence=confidence, correct=correct, n_bins=_BINS, sample_weight=weights)
    held = bins.count > 0
    return Picture(
        confidence=bins.confidence[held].tolist(),
        accuracy=bins.accuracy[held].tolist(),
        count=bins.count[held].astype(float).tolist(),
    )
