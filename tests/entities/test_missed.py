"""Missed entities: their probability from the definitions, where a warning is due, and what it covers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from knn_ue.entities import TagSet, find_entities
from knn_ue.entities.evidence import case_of
from knn_ue.entities.logistic import SignedLogistic
from knn_ue.entities.missed import MissedModel, find_missed, fit_missed
from knn_ue.types import Outputs

NAMES = ("O", "B-PER", "I-PER", "B-LOC")
ANY_CASE = SignedLogistic(intercept=-3.0, slopes=(0.8, 0.5), center=(-4.0, 1.0), scale=(1.5, 0.4))
USUAL_CASE = SignedLogistic(intercept=-5.0, slopes=(0.6, 1.0, 0.7), center=(-4.0, 1.0, 0.0), scale=(1.5, 0.4, 0.2))
MODEL = MissedModel(any_case=ANY_CASE, usual_case=USUAL_CASE, warn_from=0.15)
WORD = st.tuples(
    st.sampled_from(["Oslo", "oslo", "the", "The", "@", "1811", ".", "I"]),
    st.lists(st.floats(-6, 6), min_size=4, max_size=4),
)


def outputs_of(sentences, logits):
    return Outputs(
        logits=np.array(logits, dtype=float),
        groups=[number for number, sentence in enumerate(sentences) for _ in sentence],
        class_names=NAMES,
        words=[word for sentence in sentences for word in sentence],
    )


def surely(tag):
    """Logits of a word whose log-odds of any entity are near 4 if it is tagged, else near -1."""
    return [0.0 if name == "O" else (4.0 if name == tag else -6.0) for name in NAMES] if tag != "O" else [2.1, 0, 0, 0]


def probability_of(outputs, model=MODEL):
    spans, tags = find_entities(outputs, outputs.predicted), TagSet.of(NAMES)
    return model.probability(outputs, spans, tags, case_of(outputs, spans))


def warnings_of(sentences, tags, model=MODEL):
    outputs = outputs_of(sentences, [surely(tag) for tag in tags])
    spans = find_entities(outputs, outputs.predicted)
    warn_from = model.thresholds(len(outputs), case_of(outputs, spans))
    found = find_missed(outputs, spans, TagSet.of(NAMES), probability_of(outputs, model), warn_from)
    return [" ".join(outputs.words[x.first : x.last + 1]) for x in found]


@settings(deadline=None)  # a busy machine
@given(st.lists(st.lists(WORD, min_size=1, max_size=6), min_size=1, max_size=3))
def test_the_probability_of_a_missed_entity_equals_that_of_loops(rows):
    outputs = outputs_of([[word for word, _ in row] for row in rows], [x for row in rows for _, x in row])

    found = probability_of(outputs).tolist()

    expected = [value for row in rows for value in slow_probability(*zip(*row, strict=True))]
    assert found == pytest.approx(expected, abs=1e-9)


def slow_probability(words, logits):
    tagged = [max(range(4), key=lambda place, row=row: row[place]) > 0 for row in logits]
    found = []
    for i, (row, (meant, stands_out)) in enumerate(zip(logits, reference.standing_out(words), strict=True)):
        doubt = math.log(sum(math.exp(x) for x in row[1:])) - row[0]
        apart = not any(tagged[max(0, i - 1) : i] + tagged[i + 1 : i + 2])
        values = [doubt, float(apart), float(stands_out)]
        model = USUAL_CASE if meant else ANY_CASE
        parts = zip(values, model.slopes, model.center, model.scale, strict=False)  # the last value may have no slope
        log_odds = model.intercept + sum(slope * (x - middle) / scale for x, slope, middle, scale in parts)
        found.append(0.0 if tagged[i] else 1 / (1 + math.exp(-max(-7.0, min(7.0, log_odds)))))
    return found


def test_a_word_that_stands_out_is_worth_a_warning_where_others_are_not():
    assert warnings_of([["we", "met", "Ana", "again"]], "OOOO") == ["Ana"]
    assert warnings_of([["we", "met", "Ana", "Lee", "again"]], "OOOOO") == ["Ana Lee"]
    assert warnings_of([["we", "met", "Ana"], ["Lee", "met", "Ana"]], "OOOOOO") == ["Ana", "Ana"]


def test_a_capital_beside_an_entity_is_that_entitys_doubt():
    tags = ["O", "O", "B-PER", "O", "O", "O"]

    assert warnings_of([["we", "met", "Ana", "Lee", "in", "Oslo"]], tags) == ["Oslo"]


@pytest.mark.parametrize(("sentence", "due"), [("in the Oslo rain", 0.15), ("in the oslo rain", 0.3)])
def test_a_warning_is_due_earlier_where_capitals_are_meant(sentence, due):
    outputs = outputs_of([sentence.split()], [surely("O")] * 4)
    case = case_of(outputs, find_entities(outputs, outputs.predicted))

    assert MODEL.thresholds(4, case).tolist() == [due] * 4
    assert MissedModel(any_case=ANY_CASE).thresholds(4, case).tolist() == [0.3] * 4
    assert MODEL.thresholds(4, None).tolist() == [0.3] * 4


def fitted_where(share):
    """Fit on sentences without a predicted entity, in which this `share` of the words with a capital hide one."""
    rng = np.random.default_rng(0)
    sentences = [["we", "met", "Ana" if number % 2 else "ana", "again"] for number in range(400)]
    outputs = outputs_of(sentences, [[4 + rng.normal(), 0, 0, 0] for _ in range(1600)])
    gold = np.array([word == "Ana" for word in outputs.words]) & (rng.random(1600) < share)
    spans = find_entities(outputs, outputs.predicted)
    model = fit_missed(
        outputs, spans, find_entities(outputs, gold.astype(int)), TagSet.of(NAMES), case_of(outputs, spans)
    )
    return model, outputs, gold


def test_a_fit_learns_what_a_capital_says_from_careless_sentences_too():
    model, outputs, gold = fitted_where(0.9)

    found = probability_of(outputs, model)

    assert found[gold].mean() > 0.5 > 0.2 > found[~gold].mean()


@pytest.mark.parametrize(("share", "warn_from"), [(0.9, 0.15), (0.4, 0.15), (0.2, 0.3)])
def test_a_warning_is_due_early_only_where_capitals_are_right_often_enough(share, warn_from):
    assert fitted_where(share)[0].warn_from == warn_from


def test_words_of_no_sentence_have_no_warnings():
    outputs = Outputs(logits=np.zeros((0, 4)), groups=[], class_names=NAMES, words=[])

    assert (
        find_missed(outputs, find_entities(outputs, outputs.predicted), TagSet.of(NAMES), np.zeros(0), np.zeros(0))
        == []
    )
