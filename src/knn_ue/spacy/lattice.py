"""What spaCy's transition-based NER believes: exact probabilities of every tag and span, without a beam.

The parser reads a text word by word. Its state is the word it stands at and where the open entity began, if one is
open; its scores of the next action depend on nothing else. A softmax over the allowed actions, which is what it was
trained with, therefore makes a lattice: the probability of a tag or of a span is a sum over paths that a forward pass
computes exactly. A beam search sums over the few paths it kept, and takes longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.errors import InvalidInputError

MAX_WORDS = 16  # an entity that is still open after so many words is closed there
_NEGLIGIBLE = 1e-6  # a path less likely than this is closed at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Belief:
    """Probabilities for n words and t types: `outside` (n,), `begins` and `continues` (n, t); each row sums to one.

    `vectors` (n, d) are what the parser sees of each word. `firsts`, `lasts` (m,) and `spans` (m, t) hold the
    probability that an entity of a type covers exactly the words from first to last; spans not listed are negligible.
    """

    types: tuple[str, ...]
    vectors: FloatArray
    outside: FloatArray
    begins: FloatArray
    continues: FloatArray
    firsts: IntArray
    lasts: IntArray
    spans: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class _Moves:
    """Which action numbers begin, continue, end and are an entity of each type, and which is "O"."""

    types: tuple[str, ...]
    begin: IntArray
    inside: IntArray
    last: IntArray
    unit: IntArray
    outside: int

    @classmethod
    def of(cls, names: Sequence[str]) -> "_Moves":
        place = {name: number for number, name in enumerate(names)}
        types = tuple(sorted({name[2:] for name in names if name[:2] == "B-" and name[2:]}))
        columns = [np.array([place[f"{prefix}-{kind}"] for kind in types], dtype=np.int64) for prefix in "BILU"]
        begin, inside, last, unit = columns
        return cls(types=types, begin=begin, inside=inside, last=last, unit=unit, outside=place["O"])


def ner_belief(ner: Any, docs: Sequence[Any]) -> Belief:
    """Return what the component `ner`, an `EntityRecognizer`, believes about the words of `docs`, one after another."""
    # Not `move_names`, which leaves out the action for blocked entities and so counts differently from the scores.
    moves = _Moves.of([ner.moves.get_class_name(number) for number in range(ner.moves.n_moves)])
    ends = np.cumsum([len(doc) for doc in docs], dtype=np.int64)
    n_words = int(ends[-1]) if len(ends) else 0
    if not n_words:
        empty = np.zeros((0, len(moves.types)))
        none = np.zeros(0, dtype=np.int64)
        return Belief(
            types=moves.types,
            vectors=np.zeros((0, ner.model.get_ref("tok2vec").get_dim("nO")), dtype=np.float32),
            outside=np.zeros(0),
            begins=empty,
            continues=empty,
            firsts=none,
            lasts=none,
            spans=empty,
        )
    step = ner.model.predict(docs)
    vectors = np.asarray(step.tokvecs if isinstance(step.tokvecs, np.ndarray) else step.tokvecs.get())
    closes, blank = _must_close(docs), np.concatenate([doc.to_array("IS_SPACE") for doc in docs]).astype(bool)
    begin, unit, outside = _outside_actions(step, moves, closes, blank)
    return _marginals(step, moves, (begin, unit, outside), closes, ends, vectors[:n_words])


def _must_close(docs: Sequence[Any]) -> BoolArray:
    """Return the words (n,) at which an open entity must end: the last of a doc, or of a sentence where that is set."""
    found = []
    for doc in docs:
        starts = doc.to_array("SENT_START") == 1
        found.append(np.append(starts[1:], True) if len(doc) else np.zeros(0, dtype=bool))
    return np.concatenate(found)


def _outside_actions(
    step: Any, moves: _Moves, closes: BoolArray, blank: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the probability of beginning (n, t), of a single word (n, t) and of "O" (n,) where none is open."""
    words = np.arange(len(closes))
    scores = _scores(step, words, np.full(len(words), -1))
    chosen = np.hstack([scores[:, moves.begin], scores[:, moves.unit], scores[:, [moves.outside]]])
    n_types = len(moves.types)
    chosen[closes, :n_types] = -np.inf
    chosen[blank, : 2 * n_types] = -np.inf
    chosen -= chosen.max(axis=1, keepdims=True)
    odds = np.exp(chosen)
    odds /= odds.sum(axis=1, keepdims=True)
    return odds[:, :n_types], odds[:, n_types:-1], odds[:, -1]


def _marginals(
    step: Any,
    moves: _Moves,
    actions: tuple[FloatArray, FloatArray, FloatArray],
    closes: BoolArray,
    ends: IntArray,
    vectors: FloatArray,
) -> Belief:
    begin, unit, outside = actions
    firsts, lasts, spans = [np.arange(len(closes))], [np.arange(len(closes))], [unit]
    inner: list[tuple[IntArray, IntArray, FloatArray]] = []
    start = np.flatnonzero(begin.sum(axis=1) > _NEGLIGIBLE)
    reach = begin[start]
    for length in range(2, MAX_WORDS + 1):
        word = start + length - 1
        inner.append((start, word, reach))
        ending = _ending(step, moves, start, word)
        ending[closes[word] | (length == MAX_WORDS)] = 1.0
        firsts.append(start)
        lasts.append(word)
        spans.append(reach * ending)
        reach = reach * (1.0 - ending)
        kept = reach.sum(axis=1) > _NEGLIGIBLE
        start, reach = start[kept], reach[kept]
        if not len(start):
            break
    first, last, given = np.concatenate(firsts), np.concatenate(lasts), np.concatenate(spans)
    arrive = _arrivals(first, last, given.sum(axis=1), outside, ends)
    continues = np.zeros_like(begin)
    for since, word, share in inner:  # each word once in every round, so that += is enough
        continues[word] += arrive[since][:, None] * share
    begins = arrive[:, None] * (begin + unit)
    total = arrive * outside + begins.sum(axis=1) + continues.sum(axis=1)
    return Belief(
        types=moves.types,
        vectors=vectors,
        outside=arrive * outside / total,
        begins=begins / total[:, None],
        continues=continues / total[:, None],
        firsts=first,
        lasts=last,
        spans=given * arrive[first][:, None],
    )


def _arrivals(first: IntArray, last: IntArray, given: FloatArray, outside: FloatArray, ends: IntArray) -> FloatArray:
    """Return the probability (n,) that the parser comes to each word with no entity open."""
    order = np.argsort(first, kind="stable")
    from_word, to_word, share = first[order].tolist(), (last[order] + 1).tolist(), given[order].tolist()
    n_words = len(outside)
    arrive = [0.0] * (n_words + 1)
    opens = {0, *ends.tolist()}
    stay, edge, n_edges = outside.tolist(), 0, len(from_word)
    for word in range(n_words):
        if word in opens:
            arrive[word] = 1.0
        here = arrive[word]
        arrive[word + 1] += here * stay[word]
        while edge < n_edges and from_word[edge] == word:
            arrive[to_word[edge]] += here * share[edge]
            edge += 1
    return np.array(arrive[:-1])


def _ending(step: Any, moves: _Moves, start: IntArray, word: IntArray) -> FloatArray:
    """Return the probability (m, t) that the entity begun at `start` (m,) ends at `word` (m,), while it is open."""
    scores = _scores(step, word, start)
    difference = np.clip(scores[:, moves.inside] - scores[:, moves.last], -50.0, 50.0)
    ending: FloatArray = 1.0 / (1.0 + np.exp(difference))
    return ending


def _scores(step: Any, word: IntArray, start: IntArray) -> FloatArray:
    """Return the scores (m, actions) of the parser at `word` with an entity open since `start`, -1 where none is."""
    n_tokens = step.state2vec.get_dim("nF")
    ids = np.full((len(word), n_tokens), -1, dtype=np.int32)
    ids[:, 0] = word
    is_open = start >= 0
    if n_tokens == 3:
        ids[is_open, 1], ids[is_open, 2] = start[is_open], word[is_open] - 1
    elif n_tokens == 6:
        for place in range(1, 6):
            inside = is_open & (start + place - 1 < word)
            ids[inside, place] = (start + place - 1)[inside]
    elif n_tokens != 1:
        raise InvalidInputError(
            f"the parser must see 1, 3 or 6 words of a state, this one sees {n_tokens}: use a component of type ner"
        )
    hidden = step.state2vec.predict(ids)
    scores = hidden if step.vec2scores is None else step.vec2scores.predict(step.ops.asarray(hidden))
    return np.asarray(scores if isinstance(scores, np.ndarray) else scores.get(), dtype=np.float64)
