"""Scores and fitted decisions -> what is decided about each answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knn_ue.decisions.contract import ABSTAINED, Decision, Scored


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What was decided about one answer: whether to withhold it, and what the decisions add to it."""

    abstained: bool
    fields: Mapping[str, Any] | None

    def about(self, value: str) -> tuple[str | None, str | None]:
        """Return the label, tag or type to give, and the one it would have been.

        >>> Decided(abstained=True, fields=None).about("pos")
        (None, 'pos')
        """
        return (None, value) if self.abstained else (value, None)


def decide(scored: Scored, decisions: Sequence[Decision], abstain_below: Sequence[float | None]) -> list[Decided]:
    """Return what is decided about each of the n answers.

    Any decision may abstain. Where `abstain_below` (n) is a number, it alone decides on that.
    """
    added: list[dict[str, Any]] = [{} for _ in range(len(scored))]
    abstained = [False] * len(scored)
    for decision in decisions if len(scored) else ():
        for row, fields in zip(range(len(scored)), decision.fields(scored), strict=True):
            added[row] |= fields
            abstained[row] |= bool(added[row].pop(ABSTAINED, False))
    return [
        Decided(abstained=by_decision if least is None else score < least, fields=fields or None)
        for score, least, by_decision, fields in zip(
            scored.confidence.tolist(), abstain_below, abstained, added, strict=True
        )
    ]
