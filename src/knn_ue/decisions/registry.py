"""The registry of decisions: kind -> class. A UE folder opens its decisions by it."""

from collections.abc import Iterable, Mapping
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


def to_plain(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return fitted decisions as plain JSON."""
    return [{"kind": decision.kind, **decision.to_plain()} for decision in decisions]


def from_plain(plain: Iterable[Mapping[str, Any]]) -> tuple[Decision, ...]:
    """Read what `to_plain` wrote; a kind that is not registered is an error that names it."""
    return tuple(_read(dict(one)) for one in plain)


def _read(plain: dict[str, Any]) -> Decision:
    kind = plain.pop("kind", None)
    if not isinstance(kind, str):
        raise ValueError(f"a decision names no kind, but {type(kind).__name__}")
    if kind not in DECISIONS:
        raise StorageError(
            f"the folder holds the decision {kind[:40]!r}, which is not registered here: register it in "
            "knn_ue.decisions.DECISIONS, or fit again"
        )
    return DECISIONS[kind].from_plain(plain)
