"""Entity scores with a verifier beside them: a small reader that learned the tags from the labeled sentences.

See `knn_ue.verifying.spans`: it needs nothing of the tagger, and what the calibrator inside says of an entity joins it.
"""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np

from knn_ue import metrics
from knn_ue.answers import EntityExplanation, Explanation
from knn_ue.arrays import FloatArray
from knn_ue.calibrators.adapted import rescaled_reading
from knn_ue.calibrators.beside import BesideReader, InsideState, arrays_under, open_inside
from knn_ue.calibrators.contract import Common, Found, Stores, TaggedAnswer
from knn_ue.entities import SentenceReading, Spans, TagSet
from knn_ue.errors import InvalidInputError
from knn_ue.folder import Part, as_written, from_plain
from knn_ue.folder.schema import Arrays
from knn_ue.reasons import percent
from knn_ue.types import Outputs
from knn_ue.verifying import SpanParams, SpanVerifier, fit_spans, word_reader
from knn_ue.verifying.logistic import sigmoid
from knn_ue.verifying.opened import Gain, ranks_better

_SPANS = "spans."
_LEAST = 1e-9
_FARTHEST = 12.0  # log-odds


class VerifiedEntities(BesideReader):
    """The entity scores of `base`, joined with what a reader of words would tag; all else stays as `base` has it."""

    kind: ClassVar[str] = "verified-entities"
    keeps_prediction: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State(InsideState):
        """What is saved beside arrays."""

        spans: SpanParams
        gain: Gain

    verifier_: SpanVerifier
    gain_: Gain

    @property
    def gain(self) -> Gain:
        """What the verifier gained in the fit."""
        return self.gain_

    @property
    def reads_entities(self) -> bool:
        """Whether the calibrator inside does."""
        return self.base.reads_entities

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return the reasons of the calibrator inside for each word."""
        return self.base.explain(outputs, top=top, found=found)

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the entities and sentences, joined with the verifier's."""
        return self._joined(outputs, self.base.read(outputs, found=found))[0]

    def answer(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> TaggedAnswer:
        """Return words, entities and why, from one search; the verifier is one of the reasons."""
        inside = self.base.answer(outputs, top=top, found=found)
        reading, probs = self._joined(outputs, inside.reading)
        said = _said(probs, reading.spans, TagSet.of(self.verifier_.params.tags))
        explained = [
            _with_verdict(why, score, best, share)
            for why, score, (best, share) in zip(inside.explanations, reading.scores.tolist(), said, strict=True)
        ]
        return replace(inside, reading=reading, explanations=explained)

    def _joined(self, outputs: Outputs, inside: SentenceReading) -> tuple[SentenceReading, FloatArray]:
        """Return the reading with joined scores, and the probe's tag probabilities (n, tags)."""
        probs = self.verifier_.tag_probs(self._vectors(outputs))
        scores = sigmoid(self.verifier_.log_odds_of(probs, inside.spans, _own(inside)))
        changed = np.log(np.maximum(scores, _LEAST)) - np.log(np.maximum(inside.scores, _LEAST))
        sums = np.bincount(inside.spans.sentence, weights=changed, minlength=len(inside.spans.starts))
        whole = np.minimum(inside.sentence_scores * np.exp(sums), inside.none_missed)
        np.minimum.at(whole, inside.spans.sentence, scores)
        reading = replace(inside, scores=scores, sentence_scores=whole)
        return rescaled_reading(reading, self.log_scales) if self.log_scales else reading, probs

    def _predict_proba(self, outputs: Outputs, found: Found, /) -> FloatArray:
        return self.base.predict_proba(outputs, found=found)

    def _verdict(self, outputs: Outputs, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        raise NotImplementedError  # words keep the scores of the calibrator inside

    def _fit_verifier(self, validation: Outputs, found: Found) -> None:
        if not self.base.reads_entities:
            raise InvalidInputError(
                f"a verifier of entities needs a method that scores them, such as knn-ue-entity, got {self.base.kind}: "
                "choose that, or leave out verifier"
            )
        inside = self.base.read(validation, found=found)
        names = validation.class_names or ()
        gold = [names[number] for number in validation.require_labels("the verifier").tolist()]
        started = perf_counter()
        vectors = self._vectors(validation)
        milliseconds = 1000 * (perf_counter() - started) / len(inside.spans.starts)
        self.verifier_ = fit_spans(vectors, gold, inside.spans, inside.tags.names, _own(inside))
        right, before, after = self.verifier_.right, inside.scores, self.verifier_.left_out
        areas = [metrics.e_aurc(confidence=one, correct=right) if len(right) else 0.0 for one in (before, after)]
        pays = bool(len(right)) and ranks_better(before, after, right)
        self.gain_ = Gain(
            before=areas[0], after=areas[1], n_rows=len(inside.spans.starts), pays=pays, milliseconds=milliseconds
        )

    def _vectors(self, outputs: Outputs) -> FloatArray:
        if outputs.words is None or outputs.groups is None:
            raise InvalidInputError(
                "the verifier reads words, these Outputs have none: pass Outputs(words=..., groups=...)"
            )
        starts = np.flatnonzero(np.diff(outputs.groups, prepend=-1)).tolist()
        sentences = [outputs.words[start:stop] for start, stop in zip(starts, [*starts[1:], len(outputs)], strict=True)]
        return word_reader(self._reader()).read_words(sentences)

    def _is_fitted(self) -> bool:
        return hasattr(self, "verifier_")

    def _own_state(self) -> State:
        return self.State(**self._inside_state(), spans=self.verifier_.params, gain=self.gain_)

    def _arrays(self) -> Arrays:
        learned = {f"{_SPANS}{name}": np.ascontiguousarray(x) for name, x in self.verifier_.state()[1].items()}
        return self._inside_arrays() | learned

    @classmethod
    def from_part(cls, part: Part, *, stores: Stores | None = None) -> Self:
        """Open what `to_part` described: the calibrator inside by its own rules, then what stands beside it."""
        with as_written(part.where, cls.kind):
            state = from_plain(_Read, part.state)
            verified = cls(open_inside(part, state, stores), state.reader)
            verified.verifier_ = SpanVerifier.restored(state.spans, arrays_under(part.arrays, _SPANS))
            verified.gain_ = state.gain
            if state.n_classes is None:
                raise ValueError("it was never fitted")
            verified.n_classes_ = state.n_classes
        return verified.with_log_scales(state.log_scales) if state.log_scales else verified


@dataclass(frozen=True, kw_only=True)
class _Read(VerifiedEntities.State, Common):
    """All that a folder holds of it, as one record."""


def _own(inside: SentenceReading) -> FloatArray:
    """Return the model's own evidence for each entity (m, k), within bounds."""
    return np.clip(inside.evidence.values, -_FARTHEST, _FARTHEST)


def _said(probs: FloatArray, spans: Spans, tags: TagSet) -> list[tuple[str, float]]:
    """Return what the verifier would call each entity, a type or "no entity", and how probable that is on average."""
    names = [*tags.names, "no entity"]
    of_type = np.column_stack([probs[:, tags.kind == number].sum(axis=1) for number in (*range(len(tags.names)), -1)])
    found = []
    for first, last in zip(spans.first.tolist(), spans.last.tolist(), strict=True):
        mean = of_type[first : last + 1].mean(axis=0)
        found.append((names[int(mean.argmax())], float(mean.max())))
    return found


def _with_verdict(why: EntityExplanation, score: float, best: str, share: float) -> EntityExplanation:
    """Return the explanation with the joined score, and the verifier where it agrees or disagrees."""
    if best == why.type:
        return replace(
            why, score=score, raised_by=(*why.raised_by, f"the verifier reads {best} too ({percent(share)})")
        )
    return replace(why, score=score, lowered_by=(f"the verifier reads {best} ({percent(share)})", *why.lowered_by))
