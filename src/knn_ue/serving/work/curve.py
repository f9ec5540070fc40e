"""Coverage and risk on the validation rows for each threshold: what the slider of the page shows."""

from dataclasses import dataclass

import numpy as np

from knn_ue.pipeline import Fitted
from knn_ue.pipeline.answers import scored_answers

_STEPS = 200


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
    kept_apart = bool(fitted.held_out.any())
    rows = fitted.validation.take(fitted.held_out) if kept_apart else fitted.validation
    as_new = None if kept_apart else fitted.calibrator.scores_as_new()
    if as_new is None:
        confidence, correct = scored_answers(rows, fitted.calibrator)
    else:
        confidence, correct = as_new, rows.predicted == rows.require_labels("the curve")
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
    is_entities = rows.groups is not None and len(confidence) != len(rows)
    return RiskCurve(
        thresholds=thresholds.tolist(),
        coverage=(given / max(len(ordered), 1)).tolist(),
        risk=[float(w / g) if g else None for w, g in zip(wrong.tolist(), given.tolist(), strict=True)],
        n=len(ordered),
        unit="entities" if is_entities else "words" if rows.groups is not None else "rows",
        kept_apart=kept_apart or as_new is not None,
        as_new=as_new is not None,
    )
