"""The registry of decisions: kind -> class. A UE folder opens its decisions by it."""

from collections.abc import Mapping
from typing import Any

from knn_ue.decisions.contract import Decision
from knn_ue.decisions.risk import RiskThreshold
from knn_ue.errors import InvalidInputError, StorageError

DECISIONS: dict[str, type[Decision]] = {
    RiskThreshold.kind: RiskThreshold,
}


def new_decision(kind: str) -> Decision:
    """Return an unfitted decision with its default options.

    >>> new_decision("risk").target_risk
    0.05
    """
    if kind not in DECISIONS:
        raise InvalidInputError(f"{kind!r} is not a known decision: choose one of {', '.join(DECISIONS)}")
    return DECISIONS[kind]()


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
