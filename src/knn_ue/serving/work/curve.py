"""What a server shows of scores and errors: coverage and risk by threshold, and what an adaptation led to."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from knn_ue.adapting import Adaptation
from knn_ue.adapting.check import cross_validated
from knn_ue.metrics import reliability_bins
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.answers import rated_rows

_STEPS = 200
_BINS = 5


@dataclass(frozen=True, kw_only=True)
class RiskCurve:
    """At each of the `thresholds`: the share of answers given, and of those the share that is wrong.

    The thresholds are 0, 0.005 .. 1 and the fitted one. `risk` is None where no answer is given. `kept_apart` says
    whether the calibrator has not seen these rows, or scored each as if
    it had not, which is `as_new`.
    """

    thresholds: list[float]
    coverage: list[float]
    risk: list[float | None]
    n: int
    unit: str
    kept_apart: bool
    as_new: bool


def risk_curve(fitted: Fitted) -> RiskCurve:
    """Return the curve over the rows kept for the threshold, or all validation rows where none were."""
    rows = fitted.validation
    kept_apart, as_new = bool(fitted.held_out.any()), fitted.calibrator.scores_as_new() is not None
    confidence, correct, _ = rated_rows(fitted)
    order = np.argsort(confidence, kind="stable")
    ordered = confidence[order]
    wrong_above = np.append(np.cumsum(~correct[order][::-1])[::-1], 0)
    thresholds = np.linspace(0.0, 1.0, _STEPS + 1).round(4)
    if fitted.threshold is not None and fitted.threshold.threshold is not None:
        # As it is, so that the numbers shown for it are those it was chosen by.
        thresholds = np.unique(np.append(thresholds, fitted.threshold.threshold))
    first = np.searchsorted(ordered, thresholds, side="left")
    given = len(ordered) - first
    wrong = wrong_above[first]
    is_entities = rows.groups is not None and len(confidence) != int(fitted.held_out.sum() if kept_apart else len(rows))
    return RiskCurve(
        thresholds=thresholds.tolist(),
        coverage=(given / max(len(ordered), 1)).tolist(),
        risk=[float(w / g) if g else None for w, g in zip(wrong.tolist(), given.tolist(), strict=True)],
        n=len(ordered),
        unit="entities" if is_entities else "words" if rows.groups is not None else "rows",
        kept_apart=kept_apart or as_new,
        as_new=as_new and not kept_apart,
    )


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
