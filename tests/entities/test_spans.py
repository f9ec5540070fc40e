"""Where entities are: the same as in `metrics`, and what surrounds them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from knn_ue import metrics
from knn_ue.entities import find_entities
from knn_ue.entities.missed import hidden_words
from knn_ue.types import Outputs

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TAGS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=5)


def outputs_of(sentences):
    labels = np.concatenate([np.array(s) for s in sentences])
    groups = np.repeat(np.arange(len(sentences)), [len(s) for s in sentences])
    return Outputs(logits=np.eye(len(NAMES))[labels], labels=labels, groups=groups, class_names=NAMES)


@given(TAGS)
def test_entities_are_those_that_metrics_extracts(sentences):
    outputs = outputs_of(sentences)

    spans = find_entities(outputs, outputs.labels)

    expected, start = [], 0
    for sentence in sentences:
        found = metrics.extract_entities([NAMES[tag] for tag in sentence])
        expected += [(kind, start + first, start + last) for kind, first, last in found]
        start += len(sentence)
    names = ("PER", "LOC")
    assert [(names[k], a, b) for k, a, b in zip(spans.kind, spans.first, spans.last, strict=True)] == expected


@given(TAGS, st.randoms())
def test_same_entities_are_those_that_score_entities_calls_correct(sentences, random):
    changed = [[tag if random.random() < 0.6 else random.randrange(5) for tag in s] for s in sentences]
    outputs = outputs_of(sentences)
    predicted = find_entities(outputs, np.concatenate([np.array(s) for s in changed]))
    gold = find_entities(outputs, outputs.labels)

    scores = metrics.score_entities(
        gold=[[NAMES[t] for t in s] for s in sentences],
        predicted=[[NAMES[t] for t in s] for s in changed],
        confidence=[[1.0] * len(s) for s in sentences],
    )

    np.testing.assert_array_equal(predicted.same_in(gold), scores.correct)
    touched = [any(predicted.covered[first : last + 1]) for first, last in zip(gold.first, gold.last, strict=True)]
    expected = np.zeros(len(outputs), dtype=bool)
    for is_touched, first, last in zip(touched, gold.first, gold.last, strict=True):
        expected[first : last + 1] |= not is_touched
    np.testing.assert_array_equal(hidden_words(predicted, gold), expected)


def test_words_beside_an_entity_are_of_its_sentence():
    outputs = outputs_of([[0, 1, 0], [0, 0]])

    spans = find_entities(outputs, outputs.labels)

    assert spans.next_to_one.tolist() == [True, False, True, False, False]
    assert spans.before(np.arange(5.0)).tolist() == [0.0]
    assert spans.after(np.arange(5.0)).tolist() == [2.0]
