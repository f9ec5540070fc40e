"""The registry of decisions: kind -> class. A UE folder opens its decisions by it."""

from collections.abc import Mapping
from typing import Any

from knn_ue.decisions.contract import Decision
from knn_ue.decisions.risk import RiskThreshold, check_share
from knn_ue.decisions.sets import PredictionSets, SetMethod
from knn_ue.errors import InvalidInputError, StorageError

DECISIONS: dict[str, type[Decision]] = {
    RiskThreshold.kind: RiskThreshold,
    PredictionSets.kind: PredictionSets,
}


def new_decision(kind: str) -> Decision:
    """Return an unfitted decision with its default options.

    >>> new_decision("risk").target_risk
    0.05
    """
    if kind not in DECISIONS:
        raise InvalidInputError(f"{kind!r} is not a known decision: choose one of {', '.join(DECISIONS)}")
    return DECISIONS[kind]()


def promised(
    target_precision: float | None,
    target_risk: float | None,
    delta: float,
    coverage: float | None,
    set_method: SetMethod,
) -> tuple[Decision, ...]:
    """Return the decisions to fit for what `fit` is asked to promise; a target risk is 1 - a target precision.

    >>> [promise.target_risk for promise in promised(0.95, None, 0.1, None, "lac")]
    [0.05]
    """
    if target_precision is not None:
        if target_risk is not None:
            raise InvalidInputError(
                "target_precision and target_risk are two names for one promise: pass one of them",
                shell="--target-precision and --target-risk are two names for one promise: pass one of them",
            )
        check_share(target_precision, "target_precision", "0.95 for 95 %")
        target_risk = round(1.0 - target_precision, 12)
    threshold = () if target_risk is None else (RiskThreshold(target_risk=target_risk, delta=delta),)
    sets = () if coverage is None else (PredictionSets(coverage=coverage, method=set_method),)
    return (*threshold, *sets)


def decision_to_plain(decision: Decision) -> dict[str, Any]:
    """Return a fitted decision as plain JSON."""
    return {"kind": decision.kind, **decision.to_plain()}


def decision_from_plain(stored: Mapping[str, Any]) -> Decision:
    """Read what `decision_to_plain` wrote; a kind that is not registered is an error that names it."""
    plain = dict(stored)
    kind = plain.pop("kind", None)
    if not isinstance(kind, str):
        raise ValueError(f"a decision names no kind, but {type(kind).__name__}")
    if kind not in DECISIONS:
        raise StorageError(
            f"the folder holds the decision {kind[:40]!r}, which is not registered here: register it in "
            "knn_ue.decisions.DECISIONS, or refit"
        )
    return DECISIONS[kind].from_plain(plain)
