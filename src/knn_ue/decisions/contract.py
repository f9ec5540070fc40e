"""What every decision can do: it is fitted on held-out rows, adds fields to answers, is saved and opened again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from knn_ue.arrays import BoolArray, FloatArray, IntArray

ABSTAINED = "abstained"
SET = "set"


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The n answers a decision is about: texts or pairs, entities of tagged sentences, or words of other taggers.

    `confidence` (n,) is the calibrated score. `probs` (n, classes) and `predicted` (n,) are of texts, pairs and words;
    an entity has neither. `correct` (n,) and `labels` (n,) are known of held-out rows only.

    Where an input may have several answers, `sentence` (n,) is the number of each one's sentence, from 0 on, since they
    are right or wrong together; `document` (n,) that of its document, where rows say so. `n_units` counts documents,
    or else sentences, those without any answer too. `others` are answers to other rows, those that the calibrator was
    fitted on: the thresholds that are tested come from them.
    """

    confidence: FloatArray
    class_names: Sequence[str]
    probs: FloatArray | None = None
    predicted: IntArray | None = None
    correct: BoolArray | None = None
    labels: IntArray | None = None
    sentence: IntArray | None = None
    document: IntArray | None = None
    n_units: int | None = None
    others: "Scored | None" = None

    def __len__(self) -> int:
        return len(self.confidence)


@dataclass(frozen=True, kw_only=True, eq=False)
class Losses:
    """What m units, in the order in which they came, say of a promise: how many answers each shows and how many of
    them are wrong, both (m,); at most `risk` of them should be, and a unit shows at most `cap`."""

    shown: FloatArray
    wrong: FloatArray
    risk: float
    cap: int


@runtime_checkable
class Watchable(Protocol):
    """A decision whose promise can be watched."""

    def losses(self, scored: Scored, /) -> Losses | None:
        """Return what labeled answers say of the promise; None where nothing was promised."""
        ...


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

        `abstained`, a boolean, withholds the answer, `set`, a list of labels, becomes its `set`; everything else goes
        to `Answer.decisions`.
        """
        ...

    def to_plain(self) -> dict[str, Any]:
        """Return the fitted decision as plain JSON."""
        ...

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], /) -> Self:
        """Read what `to_plain` wrote; raise ValueError, TypeError or KeyError where it is something else."""
        ...
