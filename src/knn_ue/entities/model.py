"""What `fit` learns about entities, and what it then says of a sentence."""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray
from knn_ue.entities.evidence import (
    DIRECTIONS,
    INGREDIENTS,
    EntityEvidence,
    Usual,
    case_of,
    find_usual,
    gather_evidence,
)
from knn_ue.entities.logistic import Guess, SignedLogistic, fit_signed_logistic
from knn_ue.entities.missed import MissedModel, MissedSpan, find_missed, fit_missed, hidden_words
from knn_ue.entities.spans import Spans, TagSet, find_entities
from knn_ue.types import Neighbors, Outputs

# Slopes that held on in-domain sentences under shift (typos, lists, no punctuation: docs/entity_results.md). A
# validation set knows its own domain only, so they are held strongly, most of all distance, `apart` and case.
GUESS = Guess(
    center=(2.5, 2.0, 6.0, 1.0, 0.0, 0.95, 2.0, 0.0, 0.0),
    scale=(1.6, 2.0, 2.0, 0.2, 0.4, 0.2, 1.5, 0.25, 0.25),
    intercept=2.0,
    slopes=(0.5, 0.6, 0.5, 0.2, -0.65, 0.2, 0.3, -0.3, -0.3),
    strength=(100.0, 100.0, 100.0, 500.0, 500.0, 100.0, 100.0, 300.0, 300.0),
)
_EXPONENT_STRENGTH = 10.0
_LARGEST = 1e100


@dataclass(frozen=True, kw_only=True, eq=False)
class SentenceReading:
    """What is known of the s sentences and m entities in n words.

    `scores` (m,): the probability that type and span of an entity are right. `hidden` (n,): that a word tagged "O"
    lies in an entity the model missed, 0 for all others. `none_missed` (s,): that a sentence hides none.
    `sentence_scores` (s,): that all its entities are right and none is missed. `missed`: what is worth a warning.
    """

    spans: Spans
    tags: TagSet
    evidence: EntityEvidence
    scores: FloatArray
    hidden: FloatArray
    none_missed: FloatArray
    sentence_scores: FloatArray
    missed: tuple[MissedSpan, ...]


@dataclass(frozen=True, kw_only=True)
class EntityModel:
    """A regression of the `ingredients` that the validation set had, one of missed entities, and three exponents.

    No entity is missed with probability (product of 1 - hidden over the words) ** `clear_exponent`. A sentence is all
    right with probability (product of its entities' scores) ** exponents[0] * (that none is missed) ** exponents[1],
    and never with more than any of them. Exponents are 1 where errors are independent, below 1 where they cluster.
    """

    usual: Usual
    ingredients: tuple[str, ...]
    entity: SignedLogistic
    missed: MissedModel
    clear_exponent: float
    exponents: tuple[float, float]

    def read(self, outputs: Outputs, neighbors: Neighbors | None) -> SentenceReading:
        """Return what is known of the entities that the model's own tags mark; the tags stay as they are."""
        spans = find_entities(outputs, outputs.predicted)
        assert outputs.class_names is not None  # find_entities has seen them
        tags = TagSet.of(outputs.class_names)
        case = case_of(outputs, spans)
        evidence = gather_evidence(outputs, neighbors, spans, self.usual, case)
        scores = self.entity.probability(self.columns(evidence))
        hidden = self.missed.probability(outputs, spans, tags, case)
        none_missed, whole = whole_scores(spans, scores, hidden, self.clear_exponent, self.exponents)
        return SentenceReading(
            spans=spans,
            tags=tags,
            evidence=evidence,
            scores=scores,
            hidden=hidden,
            none_missed=none_missed,
            sentence_scores=whole,
            missed=tuple(find_missed(outputs, spans, tags, hidden, self.missed.thresholds(len(outputs), case))),
        )

    def columns(self, evidence: EntityEvidence) -> FloatArray:
        """Return the ingredients (m, len(ingredients)) in the order of the regression.

        One that this evidence lacks has its usual value, which neither raises nor lowers the score.
        """
        return evidence.columns(self.ingredients, self.entity.center)

    def check(self) -> None:
        """Raise ValueError unless the numbers, which may come from a folder, can be used together."""
        numbers = (*self.exponents, self.clear_exponent, self.usual.distance, abs(self.usual.beside))
        if not (self.usual.distance > 0 and max(numbers) <= _LARGEST):
            raise ValueError(f"the usual distance must be positive, it and the exponents at most {_LARGEST:.0e}")
        if len(set(self.ingredients)) != len(self.ingredients):
            raise ValueError("an ingredient is named twice")
        ways = [DIRECTIONS[INGREDIENTS.index(name)] for name in self.ingredients]
        slopes = [slope * way for slope, way in zip(self.entity.slopes, ways, strict=True)]
        if min(*slopes, *self.exponents, self.clear_exponent) < 0:
            raise ValueError("a slope or an exponent has the wrong sign")


def fit_entity_scores(evidence: EntityEvidence, right: BoolArray, *, ridge: float = 1.0) -> SignedLogistic:
    """Return how likely an entity is right (m,), from the ingredients that its source has."""
    guess = GUESS.held(ridge).take([INGREDIENTS.index(name) for name in evidence.names])
    return fit_signed_logistic(evidence.values, right, guess)


def fit_entity_model(validation: Outputs, neighbors: Neighbors | None, *, ridge: float = 1.0) -> EntityModel:
    """Learn from labeled sentences which predicted entities are right and which gold ones are missed.

    Slopes are held `ridge` times as strongly as usual near those that held on other data.
    """
    predicted = find_entities(validation, validation.predicted)
    gold = find_entities(validation, validation.require_labels("the entities"))
    assert validation.class_names is not None
    tags = TagSet.of(validation.class_names)
    usual = find_usual(validation, neighbors, predicted)
    case = case_of(validation, predicted)
    evidence = gather_evidence(validation, neighbors, predicted, usual, case)
    entity = fit_entity_scores(evidence, predicted.same_in(gold), ridge=ridge)
    missed = fit_missed(validation, predicted, gold, tags, case)
    hidden = missed.probability(validation, predicted, tags, case)
    clear, exponents = fit_whole(predicted, gold, entity.probability(evidence.values), hidden)
    return EntityModel(
        usual=usual,
        ingredients=evidence.names,
        entity=entity,
        missed=missed,
        clear_exponent=clear,
        exponents=exponents,
    )


def fit_whole(
    predicted: Spans, gold: Spans, scores: FloatArray, hidden: FloatArray
) -> tuple[float, tuple[float, float]]:
    """Return the exponents that make scores of whole sentences of those (m,) of entities and of words (n,)."""
    columns = _sentence_columns(predicted, scores, hidden)
    (clear,) = _fit_exponents(columns[:, 1:], none_hidden(predicted, gold))
    first, second = _fit_exponents(columns * [1.0, clear], all_right(predicted, gold))
    return clear, (first, second)


def whole_scores(
    spans: Spans, scores: FloatArray, hidden: FloatArray, clear_exponent: float, exponents: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Return for each sentence (s,) that no entity is missed, and that also all of its entities are right."""
    columns = _sentence_columns(spans, scores, hidden) * [1.0, clear_exponent]
    none_missed = np.exp(columns[:, 1])
    least = none_missed.copy()  # all right is never likelier than the least likely part of it
    np.minimum.at(least, spans.sentence, scores)
    return none_missed, np.minimum(np.exp(columns @ np.array(exponents)), least)


def all_right(predicted: Spans, gold: Spans) -> BoolArray:
    """Return for each sentence (s,) whether its predicted entities are exactly the gold ones."""
    n_sentences = len(predicted.starts)
    wrong = np.bincount(predicted.sentence[~predicted.same_in(gold)], minlength=n_sentences)
    wrong += np.bincount(gold.sentence[~gold.same_in(predicted)], minlength=n_sentences)
    none_wrong: BoolArray = wrong == 0
    return none_wrong


def none_hidden(predicted: Spans, gold: Spans) -> BoolArray:
    """Return for each sentence (s,) whether some predicted entity touches each of its gold entities."""
    n_hidden = np.bincount(predicted.sentence_of_word[hidden_words(predicted, gold)], minlength=len(predicted.starts))
    none: BoolArray = n_hidden == 0
    return none


def _sentence_columns(spans: Spans, scores: FloatArray, hidden: FloatArray) -> FloatArray:
    """Return the log (s, 2) of the product of the entities' scores, and of the chance that no word hides one."""
    n_sentences = len(spans.starts)
    right = np.bincount(spans.sentence, weights=np.log(scores), minlength=n_sentences)
    clear = np.bincount(spans.sentence_of_word, weights=np.log1p(-hidden), minlength=n_sentences)
    return np.column_stack([right, clear])


def _fit_exponents(columns: FloatArray, right: BoolArray) -> tuple[float, ...]:
    """Return the exponents, none negative, that minimize the log-loss of exp(columns @ exponents), held near 1."""
    from scipy.optimize import minimize

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        log_right = np.minimum(columns @ x, -1e-6)
        wrong = -np.expm1(log_right)
        loss = -(log_right[right].sum() + np.log(wrong[~right]).sum()) + 0.5 * _EXPONENT_STRENGTH * ((x - 1) ** 2).sum()
        slope = np.where(right, -1.0, np.exp(log_right) / wrong)
        return float(loss), slope @ columns + _EXPONENT_STRENGTH * (x - 1)

    n = columns.shape[1]
    found = minimize(objective, np.ones(n), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * n).x
    return tuple(float(x) for x in found)
