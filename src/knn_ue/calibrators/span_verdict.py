"""The verifier of given spans as a calibrator: how likely each marked entity is right, and what may have been missed.

It needs words and marks, nothing of the judged model: see `knn_ue.verifying.spans`. Where the model says how sure it
is, that counts too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from knn_ue.answers import EntityExplanation, Explanation
from knn_ue.arrays import FloatArray, softmax
from knn_ue.calibrators.adapted import rescaled_reading
from knn_ue.calibrators.contract import Calibrator, Found, TaggedAnswer
from knn_ue.calibrators.top_label import with_top
from knn_ue.calibrators.verdict import own_scores
from knn_ue.entities import (
    EntityEvidence,
    SentenceReading,
    Spans,
    TagSet,
    find_entities,
    find_missed,
    fit_whole,
    hidden_words,
    share_right,
    whole_scores,
)
from knn_ue.errors import InvalidInputError
from knn_ue.folder import ArrayRule
from knn_ue.folder.schema import Arrays
from knn_ue.reasons import percent
from knn_ue.types import Outputs, Prediction
from knn_ue.verifying import Reader, SpanParams, SpanVerifier, open_reader, word_reader
from knn_ue.verifying.logistic import sigmoid
from knn_ue.verifying.span_rivals import CONSTANT, DIRECT, PLATT, SpanRivals, fit_span_rivals
from knn_ue.verifying.spans import WARN_FROM, judge_spans, learn_tags

_RIVALS = "rivals."
_NO_TERMS = ("weight", "distance_term", "label_term", "usual_distance_term", "usual_label_term", "n_agreeing")
_LEAST_SHOWN = 0.25  # log-odds: less than this goes without saying
_FLOOR = 1e-6
_WARN_FROM = (WARN_FROM, 0.25, 0.35, 0.5, 0.65, 0.8)  # a probe of few sentences is unsure of many words
_ENOUGH_RIGHT = 0.4
_LARGEST = 1e9
_Exponent = Annotated[float, Interval(ge=0.0, le=100.0)]


class SpanVerdict(Calibrator):
    """P(a marked entity is right) from what a reader of words would tag, its type's record, and the model's own score.

    `reader` is a name of `knn_ue.verifying.READERS` that reads words, or a reader. The marks never change.
    """

    kind: ClassVar[str] = "span-verdict"
    keeps_prediction: ClassVar[bool] = False
    explains: ClassVar[bool] = True
    judges_given: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What is saved beside arrays."""

        reader: str
        params: SpanParams
        has_own: bool
        clear_exponent_: _Exponent
        exponents_: tuple[_Exponent, _Exponent]
        warn_from_: Annotated[float, Interval(ge=0.001, le=0.999)]

    reader: "str | Reader"
    ARRAYS: ClassVar[Mapping[str, ArrayRule]] = {
        "weights": ArrayRule(dtype=np.float32, shape=("columns", "tags"), least=-_LARGEST, most=_LARGEST),
        "intercepts": ArrayRule(dtype=np.float64, shape=("tags",)),
        "left_out": ArrayRule(dtype=np.float64, shape=("spans",), least=0, most=1),
        "right": ArrayRule(dtype=np.bool_, shape=("spans",)),
        "kinds": ArrayRule(dtype=np.int64, shape=("spans",), least=0),
        f"{_RIVALS}constant": ArrayRule(dtype=np.float64, shape=("types",), least=0, most=1),
        f"{_RIVALS}weights": ArrayRule(dtype=np.float64, shape=("all",), least=-_LARGEST, most=_LARGEST),
        f"{_RIVALS}scale": ArrayRule(dtype=np.float64, shape=(1,), least=1 / _LARGEST, most=_LARGEST),
        f"{_RIVALS}platt": ArrayRule(dtype=np.float64, shape=(4,), least=-_LARGEST, most=_LARGEST, optional=True),
    }

    verifier_: SpanVerifier
    rivals_: SpanRivals
    has_own: bool
    clear_exponent_: float
    exponents_: tuple[float, float]
    warn_from_: float
    """The probability from which on a word in no entity is worth a warning."""

    def __init__(self, reader: "str | Reader" = "minilm") -> None:
        self.reader = reader

    @property
    def reads_entities(self) -> bool:
        """Whether it was fitted."""
        return self._is_fitted()

    def facts(self) -> dict[str, object]:
        """Return a summary, by name."""
        facts = super().facts()
        for name in ("verifier", "rivals", "clear_exponent", "exponents", "warn_from"):
            facts.pop(name, None)
        return facts | {"reader": self._reader().name}

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the scores of the marked entities and of the sentences, and what may have been missed."""
        del found
        self._check_ready(outputs)
        return self._read(outputs)[0]

    def answer(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> TaggedAnswer:
        """Return words, entities and why."""
        del top, found
        self._check_ready(outputs)
        reading, probs = self._read(outputs)
        prediction = self._prediction(outputs, reading, probs)
        explanations = self._explanations(outputs, reading, probs)
        return TaggedAnswer(prediction=prediction, reading=reading, explanations=explanations)

    def explain(self, outputs: Outputs, *, top: int = 5, found: Found | None = None) -> list[Explanation]:
        """Return an explanation of each word: one in a marked entity has the reasons of the entity."""
        full, names = self.answer(outputs, top=top, found=found), outputs.class_names or ()
        of_word = {row: why for why in full.explanations for row in range(why.start, why.end)}
        words = zip(full.prediction.predicted, full.prediction.confidence, full.prediction.raw_confidence, strict=True)
        return [
            Explanation(
                text=None if outputs.words is None else outputs.words[row],
                label=names[tag],
                score=float(score),
                raw_score=float(raw),
                **dict.fromkeys(_NO_TERMS),
                n_neighbors=0,
                raised_by=of_word[row].raised_by if row in of_word else (),
                lowered_by=of_word[row].lowered_by if row in of_word else (),
                neighbors=(),
            )
            for row, (tag, score, raw) in enumerate(words)
        ]

    def rivals(self) -> Mapping[str, Calibrator]:
        """Return a constant per type, the model's own score where there is one, and a regression on span vectors."""
        names = [CONSTANT, DIRECT, *([PLATT] if self.rivals_.platt is not None else [])]
        return {name: _Rival(name, self) for name in names}

    def rival_reading(self, outputs: Outputs, name: str) -> SentenceReading:
        """Return the reading of `outputs` with the scores of one rival."""
        reading, vectors = self.read(outputs), self._vectors(outputs)
        scores = self.rivals_.scores(vectors, reading.spans, self._own(outputs, reading.spans))[name]
        whole = whole_scores(reading.spans, scores, reading.hidden, self.clear_exponent_, self.exponents_)[1]
        return replace(reading, scores=scores, sentence_scores=whole)

    def rival_words(self, outputs: Outputs, reading: SentenceReading) -> FloatArray:
        """Return probabilities of tags (n, classes) where the entities have the scores of `reading`."""
        return self._word_probs(outputs, reading, self.verifier_.tag_probs(self._vectors(outputs)))

    def _fit(self, validation: Outputs, _found: Found, /) -> None:
        names = validation.class_names or ()
        gold_numbers = validation.require_labels("SpanVerdict.fit")
        gold = [names[number] for number in gold_numbers.tolist()]
        spans, types = find_entities(validation, validation.predicted), TagSet.of(names).names
        own = own_scores(validation)[spans.first]
        self.has_own = bool(len(own)) and not np.isnan(own).all()
        vectors = self._vectors(validation)
        learned = learn_tags(vectors, gold, spans.starts)
        self.verifier_ = judge_spans(learned, gold, spans, types, own if self.has_own else None)
        self.rivals_ = fit_span_rivals(vectors, spans, self.verifier_.right, len(types), own if self.has_own else None)
        hidden = self.verifier_.hidden(learned.left_out, spans)
        known = find_entities(validation, gold_numbers)
        self.warn_from_ = _warn_from(hidden, spans, known)
        scores = np.clip(self.verifier_.left_out, _FLOOR, 1 - _FLOOR)
        self.clear_exponent_, self.exponents_ = fit_whole(spans, known, scores, np.minimum(hidden, 1 - _FLOOR))

    def _predict_proba(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        if not len(outputs):
            return np.zeros((0, outputs.n_classes))
        return self._word_probs(outputs, *self._read(outputs))

    def _prediction(self, outputs: Outputs, reading: SentenceReading, probs: FloatArray) -> Prediction:
        words, rows = self._word_probs(outputs, reading, probs), np.arange(len(outputs))
        return Prediction(
            predicted=outputs.predicted,
            confidence=words[rows, outputs.predicted],
            raw_confidence=softmax(outputs.logits)[rows, outputs.predicted],
            probs=words,
        )

    def _word_probs(self, outputs: Outputs, reading: SentenceReading, probs: FloatArray) -> FloatArray:
        """Return probabilities of tags (n, classes): an entity's words have its score, others that none is hidden."""
        top = 1.0 - reading.hidden
        for first, last, score in zip(reading.spans.first, reading.spans.last, reading.scores, strict=True):
            top[first : last + 1] = score
        return with_top(self._by_class(outputs, probs), outputs.predicted, top)

    def _by_class(self, outputs: Outputs, probs: FloatArray) -> FloatArray:
        names = list(outputs.class_names or ())
        by_class = np.zeros((len(probs), len(names)))
        by_class[:, [names.index(tag) for tag in self.verifier_.params.tags]] = probs
        return by_class

    def _read(self, outputs: Outputs) -> tuple[SentenceReading, FloatArray]:
        """Return the reading, and the probe's tag probabilities (n, tags)."""
        spans, tags = find_entities(outputs, outputs.predicted), TagSet.of(outputs.class_names or ())
        probs = self.verifier_.tag_probs(self._vectors(outputs))
        own = self._own(outputs, spans)
        scores = np.clip(sigmoid(self.verifier_.log_odds_of(probs, spans, own)), _FLOOR, 1 - _FLOOR)
        hidden = np.minimum(self.verifier_.hidden(probs, spans), 1 - _FLOOR)
        none_missed, whole = whole_scores(spans, scores, hidden, self.clear_exponent_, self.exponents_)
        believed = replace(outputs, logits=np.log(np.maximum(self._by_class(outputs, probs), _FLOOR)))
        reading = SentenceReading(
            spans=spans,
            tags=tags,
            evidence=EntityEvidence(values=np.zeros((len(spans), 0)), names=()),
            scores=scores,
            hidden=hidden,
            none_missed=none_missed,
            sentence_scores=whole,
            missed=tuple(find_missed(believed, spans, tags, hidden, np.full(len(outputs), self.warn_from_))),
        )
        return rescaled_reading(reading, self.log_scales) if self.log_scales else reading, probs

    def _own(self, outputs: Outputs, spans: Spans) -> FloatArray | None:
        return own_scores(outputs)[spans.first] if self.has_own else None

    def _explanations(self, outputs: Outputs, reading: SentenceReading, probs: FloatArray) -> list[EntityExplanation]:
        spans, own = reading.spans, self._own(outputs, reading.spans)
        terms = self.verifier_.terms_of(probs, spans, own)
        kinds = TagSet.of(self.verifier_.params.tags)
        stated = sigmoid(own_scores(outputs)[spans.first])
        explained = []
        for row, (kind, first, last) in enumerate(zip(spans.kind, spans.first, spans.last, strict=True)):
            mine = {name: float(values[row]) for name, values in terms.items()}
            name = reading.tags.names[kind]
            raised, lowered = _reasons(mine, name, _reads(probs[first : last + 1], kinds), self._record(int(kind)))
            explained.append(
                EntityExplanation(
                    type=name,
                    text=None,
                    start=int(first),
                    end=int(last) + 1,
                    sentence=int(spans.sentence[row]),
                    score=float(reading.scores[row]),
                    raw_score=None if np.isnan(stated[row]) else float(stated[row]),
                    terms=mine,
                    raised_by=raised,
                    lowered_by=lowered,
                    neighbors=(),
                )
            )
        return explained

    def _record(self, kind: int) -> tuple[int, int]:
        """Return how often the model marked this type in the labeled sentences, and how often it was right."""
        mine = self.verifier_.kinds == kind
        return int(mine.sum()), int(self.verifier_.right[mine].sum())

    def _reader(self) -> Reader:
        return open_reader(self.reader) if isinstance(self.reader, str) else self.reader

    def _vectors(self, outputs: Outputs) -> FloatArray:
        if outputs.words is None or outputs.groups is None:
            raise InvalidInputError(
                "the verifier reads words, these Outputs have none: pass Outputs(words=..., groups=...)"
            )
        starts = np.flatnonzero(np.diff(outputs.groups, prepend=-1)).tolist()
        ends = [*starts[1:], len(outputs)]
        sentences = [outputs.words[start:stop] for start, stop in zip(starts, ends, strict=True) if stop > start]
        return word_reader(self._reader()).read_words(sentences)

    def _own_state(self) -> State:
        return self.State(
            reader=self._reader().name,
            params=self.verifier_.params,
            has_own=self.has_own,
            clear_exponent_=self.clear_exponent_,
            exponents_=self.exponents_,
            warn_from_=self.warn_from_,
        )

    def _arrays(self) -> Arrays:
        rivals = {f"{_RIVALS}{name}": array for name, array in self.rivals_.arrays().items()}
        return {**self.verifier_.state()[1], **rivals}

    def _restore(self, state: State, arrays: Arrays) -> None:
        self.reader, self.has_own = state.reader, state.has_own
        self.clear_exponent_, self.exponents_ = state.clear_exponent_, state.exponents_
        self.warn_from_ = state.warn_from_
        self.verifier_ = SpanVerifier.restored(state.params, arrays)
        theirs = {name.removeprefix(_RIVALS): array for name, array in arrays.items() if name.startswith(_RIVALS)}
        self.rivals_ = SpanRivals.from_arrays(theirs)

    def _check_restored(self) -> None:
        n_types, rivals = len(self.verifier_.params.types), self.rivals_
        sizes = (len(rivals.constant), len(rivals.weights))
        if sizes != (n_types, len(self.verifier_.weights) + n_types + 1):
            raise ValueError("its rivals are not those of its reader and types")
        if int(self.verifier_.kinds.max(initial=0)) >= n_types or self.has_own != bool(self.verifier_.params.own_means):
            raise ValueError("its spans are not those of its types")
        if rivals.platt is not None and rivals.platt.spread <= 0:
            raise ValueError("its own score has no spread")


class _Rival(Calibrator):
    """One plain rival: it was fitted with the verifier, and is not saved."""

    kind: ClassVar[str] = "span-rival"
    keeps_prediction: ClassVar[bool] = False
    judges_given: ClassVar[bool] = True
    reads_entities = True

    def __init__(self, name: str, verdict: SpanVerdict) -> None:
        self._rival, self._verdict = name, verdict

    def read(self, outputs: Outputs, *, found: Found | None = None) -> SentenceReading:
        """Return the reading with its scores."""
        del found
        return self._verdict.rival_reading(outputs, self._rival)

    def _is_fitted(self) -> bool:
        return True

    def _fit(self, _validation: Outputs, _found: Found, /) -> None:
        raise InvalidInputError(f"{self._rival} is fitted with the verifier: fit that")

    def _predict_proba(self, outputs: Outputs, _found: Found, /) -> FloatArray:
        return self._verdict.rival_words(outputs, self.read(outputs))


def _warn_from(hidden: FloatArray, spans: Spans, gold: Spans) -> float:
    """Return the least threshold at which enough warnings about labeled sentences, each read as if new, are right."""
    missed = hidden_words(spans, gold)
    enough = [
        least for least in _WARN_FROM if share_right(hidden >= least, missed, spans, if_none=1.0) >= _ENOUGH_RIGHT
    ]
    return min(enough, default=_WARN_FROM[-1])


def _reads(probs: FloatArray, tags: TagSet) -> tuple[str, float]:
    """Return what the reader would call these words, a type or "no entity", and how probable that is on average."""
    shares = [probs[:, tags.kind == number].sum(axis=1).mean() for number in (*range(len(tags.names)), -1)]
    best = int(np.argmax(shares))
    return (*tags.names, "no entity")[best], float(shares[best])


def _reasons(
    terms: Mapping[str, float], kind: str, read: tuple[str, float], record: tuple[int, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what notably raises and what lowers the score, the strongest first."""
    best, share = read
    said, right = record
    words = {
        "type": f"the reader by itself reads {best} ({percent(share)})",
        "borders": f"the reader is {'sure' if terms['borders'] > 0 else 'not sure'} where it begins and ends",
        "record": f"{kind} was right {right} of the {said} times it was marked",
        "own": f"the model's own score for it is {'high' if terms['own'] > 0 else 'low'}",
    }
    notable = sorted((name for name in words if abs(terms[name]) >= _LEAST_SHOWN), key=lambda name: -abs(terms[name]))
    raised = tuple(words[name] for name in notable if terms[name] > 0)
    return raised, tuple(words[name] for name in notable if terms[name] < 0)
