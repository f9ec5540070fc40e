"""What speaks for an entity and what against it: up to nine numbers, each with one natural direction.

type       log-odds of its type at its least certain word
link       the same, or the log-odds that it begins and ends where it does, whichever is least: its weakest link
beside     log-odds of "O" at the less certain of the words around it that are tagged "O"
apart      1 if no other entity touches it, else 0
distance   log of the distance to the nearest training example, at its farthest word
agreement  share of the neighbors with its type, at its least agreeing word
company    mean `link` of all entities of its sentence

and, where the outputs have the words, for models that do not see capital letters (see `WordCase`):

small_end       1 if it begins or ends with a word in lower case, else 0
capital_beside  1 if a capitalized word that is in no entity stands right beside it, or a bare "@" or "#" right before
                it: part of the name may be missing; else 0

More distance and the last two lower the score, more of any other raises it. An entity is right only if both its ends
are: that is why the words beside it say as much about it as its own. An entity right beside it is another matter than a
doubtful word: whether two that touch are one cut in two, or a list without commas, is a habit of the corpus.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray
from knn_ue.entities.spans import Spans, TagSet
from knn_ue.types import Neighbors, Outputs

INGREDIENTS = ("type", "link", "beside", "apart", "distance", "agreement", "company", "small_end", "capital_beside")
# More of it raises (1) or lowers (-1) the score.
DIRECTIONS = (1, 1, 1, 1, -1, 1, 1, -1, -1)

_LARGEST_LOG_ODDS = 12.0
# Nearer than a third of the usual distance is near enough; twenty times as far is as far as it gets.
_LOG_DISTANCE_RANGE = (-1.0, 3.0)
_HANDLE_MARKS = ("@", "#")
_STOPS = frozenset(".!?")


@dataclass(frozen=True, kw_only=True, eq=False)
class WordCase:
    """Which of n words are `small` (they start in lower case, and are no handle or topic) and which `capital`.

    Both are False outside sentences of usual case, whose words are `telling`: the first word with a letter is
    capitalized, and some word is not. That first word is no `capital`: it is one in every sentence. A `mark` is a bare
    "@" or "#": what follows is the rest of a handle.

    Missed entities are looked for wherever capitals are `meant`: in sentences of usual case, and in careless ones where
    they are sparing, that is, some word has one and at least as many have none. There a capitalized word `stands_out`
    unless it begins a sentence, is a handle or is "I". In shouting and in writing without capitals they mean little.
    """

    telling: BoolArray
    small: BoolArray
    capital: BoolArray
    mark: BoolArray
    meant: BoolArray
    stands_out: BoolArray

    @classmethod
    def of(cls, words: Sequence[str], starts: Sequence[int]) -> "WordCase":
        """Read the words of sentences that begin at the rows `starts`.

        >>> WordCase.of(["The", "bank", "of", "Oslo", ",", "@", "ana"], [0]).small
        array([False,  True,  True, False, False, False, False])
        """
        telling, small, capital, meant, stands_out = np.zeros((5, len(words)), dtype=bool)
        for start, stop in zip(starts, [*starts[1:], len(words)], strict=True):
            sentence = words[start:stop]
            letters = [place for place, word in enumerate(sentence) if any(map(str.isalpha, word))]
            if letters and sentence[letters[0]][:1].isupper() and any(word[:1].islower() for word in sentence):
                telling[start:stop] = True
                for place in letters:
                    small[start + place] = sentence[place][0].islower() and not _is_handle(sentence, place)
                    capital[start + place] = sentence[place][0].isupper() and place > letters[0]
            inside, is_sparing = _capitals_inside(sentence, letters)
            if is_sparing or telling[start]:
                meant[start:stop] = True
                stands_out[[start + place for place in inside]] = True
        mark = np.array([word in _HANDLE_MARKS for word in words], dtype=bool)
        return cls(telling=telling, small=small, capital=capital, mark=mark, meant=meant, stands_out=stands_out)

    def small_end(self, spans: Spans) -> FloatArray:
        """Return 1 (m,) where the first or the last word of an entity is small, else 0."""
        return (self.small[spans.first] | self.small[spans.last]).astype(np.float64)

    def capital_beside(self, spans: Spans) -> FloatArray:
        """Return 1 (m,) where a capital of no entity stands right before or after it, or a mark before it, else 0."""
        before, after = (
            np.where(words & ~spans.covered, -1.0, 0.0) for words in (self.capital | self.mark, self.capital)
        )
        return (np.minimum(spans.before(before), spans.after(after)) < 0).astype(np.float64)


def case_of(outputs: Outputs, spans: Spans) -> WordCase | None:
    """Return the case of the words of `outputs`, None where they have no words, or a model that sees it itself."""
    return None if outputs.words is None or outputs.sees_case else WordCase.of(outputs.words, spans.starts.tolist())


def _capitals_inside(sentence: Sequence[str], letters: Sequence[int]) -> tuple[list[int], bool]:
    """Return where a capital does not follow from a rule of spelling, and whether capitals are sparing."""
    asked = [place for place in letters if not _is_handle(sentence, place)]
    upper = [place for place in asked if sentence[place][0].isupper() and not _is_pronoun(sentence[place])]
    inside = [place for place in upper if place > asked[0] and sentence[place - 1] not in _STOPS]
    n_lower = sum(sentence[place][0].islower() for place in asked)
    return inside, bool(upper) and n_lower >= max(1, len(inside))


def _is_pronoun(word: str) -> bool:
    return word == "I" or word[:2] in ("I'", "I’")


def _is_handle(sentence: Sequence[str], place: int) -> bool:
    before = sentence[place - 1] if place else ""
    return sentence[place].startswith(_HANDLE_MARKS) or before in _HANDLE_MARKS


@dataclass(frozen=True, kw_only=True, eq=False)
class EntityEvidence:
    """The ingredients of m entities that their source has: a column of `values` (m, len(names)) for each name."""

    values: FloatArray
    names: tuple[str, ...] = INGREDIENTS

    def __len__(self) -> int:
        return len(self.values)

    def columns(self, names: Sequence[str], usual: Sequence[float]) -> FloatArray:
        """Return the columns (m, len(names)) of these ingredients, the `usual` value for one that is not there."""
        found = [
            self.values[:, self.names.index(name)] if name in self.names else np.full(len(self), value)
            for name, value in zip(names, usual, strict=True)
        ]
        return np.column_stack(found)


@dataclass(frozen=True, kw_only=True)
class Usual:
    """What an ordinary entity of the validation set looks like: its nearest distance, and `beside` where it has it."""

    distance: float
    beside: float


def gather_evidence(
    outputs: Outputs, neighbors: Neighbors | None, spans: Spans, usual: Usual, case: WordCase | None
) -> EntityEvidence:
    """Return the ingredients of each entity; `neighbors` are those of every word, None where nothing is stored.

    An entity with no word tagged "O" beside it gets the usual value. `case` is that of the words (`case_of`), if known.
    """
    tags = _tags(outputs)
    kind = _log_odds_of_own_type(outputs, spans, tags)
    link = np.minimum(kind, _log_odds_of_ends(outputs, spans, tags))
    beside = _outside_beside(outputs, spans, tags)
    beside = np.where(np.isinf(beside), usual.beside, beside)
    apart = np.where(_touches_another(spans), 0.0, 1.0)
    company = np.bincount(spans.sentence, weights=link)[spans.sentence] / np.bincount(spans.sentence)[spans.sentence]
    found = {"type": kind, "link": link, "beside": beside, "apart": apart, "company": company}
    if neighbors is not None:
        found["distance"] = -spans.lowest(-relative_distance(neighbors, usual.distance))
        found["agreement"] = spans.lowest(type_agreement(neighbors, _kind_of_words(spans), tags))
    if case is not None:
        found |= {"small_end": case.small_end(spans), "capital_beside": case.capital_beside(spans)}
    names = tuple(name for name in INGREDIENTS if name in found)
    return EntityEvidence(values=np.column_stack([found[name] for name in names]), names=names)


def find_usual(outputs: Outputs, neighbors: Neighbors | None, spans: Spans) -> Usual:
    """Return the medians over the entities, or over all words where there is no entity."""
    words = spans.covered if len(spans) else np.ones(len(outputs), dtype=bool)
    nearest = np.zeros(0) if neighbors is None else neighbors.distances[words, 0]
    nearest = nearest[np.isfinite(nearest) & (nearest > 0)]
    beside = _outside_beside(outputs, spans, _tags(outputs))
    beside = beside[np.isfinite(beside)]
    return Usual(
        distance=float(np.median(nearest)) if len(nearest) else 1.0,
        beside=float(np.median(beside)) if len(beside) else 0.0,
    )


def log_odds(logits: FloatArray, chosen: object) -> FloatArray:
    """Return the log-odds (n,), clipped, that softmax(logits) gives the `chosen` classes together.

    >>> log_odds(np.array([[0.0, 0.0, 0.0]]), np.array([True, False, False])).round(3)
    array([-0.693])
    """
    mask = np.asarray(chosen, dtype=bool)
    if mask.all():
        return np.full(len(logits), _LARGEST_LOG_ODDS)
    difference = _log_sum(logits[:, mask]) - _log_sum(logits[:, ~mask])
    return np.clip(difference, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)


def relative_distance(neighbors: Neighbors, usual: float) -> FloatArray:
    """Return the clipped log (n,) of the nearest distance over the usual one; none found is as far as it gets."""
    with np.errstate(divide="ignore"):
        relative: FloatArray = np.log(neighbors.distances[:, 0] / usual)
    return np.clip(relative, *_LOG_DISTANCE_RANGE)


def type_agreement(neighbors: Neighbors, kind: IntArray, tags: TagSet) -> FloatArray:
    """Return the share (n,) of the neighbors whose label is of the type `kind` (n,); -1 is "O", none found differs."""
    # A label the model does not know, or that was not found, has a type of its own.
    kinds = np.append(tags.kind, -2)[np.where(neighbors.labels < len(tags.kind), neighbors.labels, -1)]
    share: FloatArray = (kinds == kind[:, None]).mean(axis=1)
    return share


def _log_odds_of_own_type(outputs: Outputs, spans: Spans, tags: TagSet) -> FloatArray:
    lowest = np.zeros(len(spans))
    for number in np.unique(spans.kind).tolist():
        chosen = spans.kind == number
        lowest[chosen] = spans.lowest(log_odds(outputs.logits, tags.kind == number))[chosen]
    return lowest


def _log_odds_of_ends(outputs: Outputs, spans: Spans, tags: TagSet) -> FloatArray:
    """Return the lesser log-odds (m,) of B- at the first word and of no I- at the word after the last."""
    ends = spans.after(log_odds(outputs.logits, ~tags.continues))
    if not tags.begins.any():
        return ends
    begins = log_odds(outputs.logits, tags.begins)[spans.first]
    opens_sentence = np.isinf(spans.before(np.zeros(len(outputs))))
    # At the start of a sentence it cannot begin earlier, whatever its first tag is.
    return np.minimum(ends, np.where(opens_sentence, np.inf, begins))


def _outside_beside(outputs: Outputs, spans: Spans, tags: TagSet) -> FloatArray:
    """Return the least log-odds (m,) of "O" at the words around it that are tagged "O", inf where there is none."""
    outside = np.where(spans.covered, np.inf, log_odds(outputs.logits, tags.kind < 0))
    return np.minimum(spans.before(outside), spans.after(outside))


def _touches_another(spans: Spans) -> BoolArray:
    """Return for each entity (m,) whether another one ends right before it or begins right after it."""
    free = np.where(spans.covered, 0.0, 1.0)
    touches: BoolArray = np.minimum(spans.before(free), spans.after(free)) == 0
    return touches


def _kind_of_words(spans: Spans) -> IntArray:
    kind = np.full(spans.n_words, -1)
    for number in np.unique(spans.kind).tolist():
        kind[spans.touching(spans.kind == number)] = number
    return kind


def _log_sum(logits: FloatArray) -> FloatArray:
    if not logits.shape[1]:
        return np.full(len(logits), -np.inf)
    highest = logits.max(axis=1).astype(np.float64)
    with np.errstate(over="ignore"):
        total: FloatArray = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return total


def _tags(outputs: Outputs) -> TagSet:
    assert outputs.class_names is not None  # find_entities has run
    return TagSet.of(outputs.class_names)
