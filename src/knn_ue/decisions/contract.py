"""What every decision can do, and how fitted decisions are applied to the scores of answers.

A decision is fitted on held-out rows, adds fields to answers, is saved and opened again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from knn_ue.arrays import BoolArray, FloatArray, IntArray

ABSTAINED = "abstained"


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The n answers a decision is about: texts or pairs, entities of tagged sentences, or words of other taggers.

    `confidence` (n,) is the calibrated score. `probs` (n, classes) and `predicted` (n,) are of texts, pairs and words;
    an entity has neither. `correct` (n,) and `labels` (n,) are known of held-out rows only.
    """

    confidence: FloatArray
    class_names: Sequence[str]
    probs: FloatArray | None = None
    predicted: IntArray | None = None
    correct: BoolArray | None = None
    labels: IntArray | None = None

    def __len__(self) -> int:
        return len(self.confidence)


@runtime_checkable
class Decision(Protocol):
    """Something that is decided about each answer from its score.

    To add one: a class with these members, and a line in `knn_ue.decisions.registry`. A decision that can be chosen by
    name alone (`knn-ue fit --decision KIND`) can be made without arguments. `str` is one sentence for people.
    """

    kind: ClassVar[str]

    def fit(self, held_out: Scored, /) -> Self:
        """Return this decision fitted on rows that neither the model nor the calibrator has seen."""
        ...

    def fields(self, scored: Scored, /) -> Sequence[Mapping[str, Any]]:
        """Return what each answer carries, as plain JSON.

        `abstained`, a boolean, withholds the answer; everything else goes to `Answer.decisions`.
        """
        ...

    def to_plain(self) -> dict[str, Any]:
        """Return the fitted decision as plain JSON."""
        ...

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], /) -> Self:
        """Read what `to_plain` wrote; raise ValueError, TypeError or KeyError where it is something else."""
        ...


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
