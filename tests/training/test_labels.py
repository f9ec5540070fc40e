"""Which classes a training set has, and the score that decides."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.encoding import Example
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import extract_entities
from knn_ue.training.labels import check_validation, entity_f1, label_names, score_outputs
from knn_ue.types import Outputs

TEXT, TAGGING = "text-classification", "token-classification"
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def labeled(*labels):
    return [Example(("a text",), (label,)) for label in labels]


def test_classes_are_sorted():
    assert label_names(labeled("pos", "neg", "pos"), TEXT) == ("neg", "pos")


def test_classes_that_are_numbers_are_sorted_by_value():
    assert label_names(labeled("10", "9", "-1"), TEXT) == ("-1", "9", "10")


def test_o_is_the_first_class_and_every_type_has_both_tags():
    examples = [Example(("a", "b"), ("I-LOC", "B-PER"))]

    assert label_names(examples, TAGGING) == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def test_tags_that_mark_no_entities_are_sorted():
    assert label_names([Example(("a", "b"), ("VERB", "NOUN"))], TAGGING) == ("NOUN", "VERB")


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "the training rows are empty"),
        ([Example(("a",))], "the training rows have no labels"),
        (labeled("pos"), r"at least 2 classes, got 1 \(pos\)"),
        ([*labeled("pos"), Example(("a",))], "row 1 has no label"),
    ],
)
def test_a_training_set_without_classes_is_refused(examples, message):
    with pytest.raises(InvalidInputError, match=message):
        label_names(examples, TEXT)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "the validation rows are empty"),
        ([Example(("a",))], "the validation rows have no labels"),
        (labeled("pos", "odd"), "validation row 1 has the label 'odd', .* its 2 labels are: neg, pos"),
    ],
)
def test_a_validation_set_that_does_not_fit_is_refused(examples, message):
    with pytest.raises(InvalidInputError, match=message):
        check_validation(examples, ("neg", "pos"))


def test_tags_without_a_type_get_both_their_tags():
    assert label_names([Example(("a", "b"), ("B", "O"))], "token-classification") == ("O", "B", "I")


sentences = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=8), min_size=1, max_size=6
)


@settings(deadline=None)  # the first call imports scikit-learn
@given(sentences)
def test_f1_equals_seqeval(pairs):
    seqeval = pytest.importorskip("seqeval.metrics")
    gold, predicted = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    groups = [number for number, sentence in enumerate(pairs) for _ in sentence]

    found = entity_f1(list(chain.from_iterable(gold)), list(chain.from_iterable(predicted)), groups)

    assert found == pytest.approx(seqeval.f1_score(gold, predicted, zero_division=0))


@given(sentences)
def test_f1_counts_the_entities_that_the_metrics_count(pairs):
    gold, predicted = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    groups = [number for number, sentence in enumerate(pairs) for _ in sentence]

    found = entity_f1(list(chain.from_iterable(gold)), list(chain.from_iterable(predicted)), groups)

    truth, answers = ([{*extract_entities(tags)} for tags in side] for side in (gold, predicted))
    shared = sum(len(a & b) for a, b in zip(truth, answers, strict=True))
    assert found == pytest.approx(2 * shared / max(1, sum(map(len, truth)) + sum(map(len, answers))))


def test_scores_are_accuracy_and_mean_log_loss():
    logits = np.log([[0.8, 0.2], [0.4, 0.6]])

    scores = score_outputs(Outputs(logits=logits, labels=[0, 0]), entities=False)

    assert scores == pytest.approx({"accuracy": 0.5, "loss": -np.log([0.8, 0.4]).mean()})
