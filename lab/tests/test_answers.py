"""Answers and measures: entities, people's votes, and every number against a version written out."""

import math
from dataclasses import replace

import numpy as np
import pytest

import reference
from knn_ue import metrics
from knn_ue.calibrators import KnnUEEntity, SoftmaxResponse
from knn_ue.data import TaggedRow, TextRow
from knn_ue.stores import Datastore
from knn_ue.toy import tagged_sentences
from knn_ue.types import Outputs
from knn_ue_lab.reproduce.answers import Answers, answers_of, human_distribution
from knn_ue_lab.reproduce.measures import DETECTION, MEASURES, detection_of, measure_of, scores_of
from knn_ue_lab.reproduce.score import entity_scores_of
from knn_ue_lab.reproduce.task_data import SetRows

TAGS = ("O", "B-PER", "I-PER", "B-MISC")


def tagged(gold, predicted, confidence, groups):
    probs = np.full((len(gold), len(TAGS)), 0.0)
    for row, (tag, sure) in enumerate(zip(predicted, confidence, strict=True)):
        probs[row] = (1 - sure) / (len(TAGS) - 1)
        probs[row, TAGS.index(tag)] = sure
    labels = [TAGS.index(tag) for tag in gold]
    return Outputs(logits=np.log(probs), labels=labels, groups=groups, class_names=TAGS)


def set_rows(n_rows, **options):
    return SetRows(name="x", role="out", rows=[TaggedRow(("a",), ("O",))] * n_rows, labeled=True, **options)


def softmax_answers(outputs, rows):
    return answers_of(outputs, SoftmaxResponse().fit(outputs).predict(outputs), rows)


def test_an_entity_is_as_sure_as_the_product_of_its_words_and_missed_ones_have_confidence_zero():
    outputs = tagged(
        gold=["B-PER", "I-PER", "O", "B-PER"],
        predicted=["B-PER", "I-PER", "O", "O"],
        confidence=[0.9, 0.8, 0.7, 0.6],
        groups=[0, 0, 0, 1],
    )

    found = softmax_answers(outputs, set_rows(2))

    assert found.confidence == pytest.approx([0.72, 0.0])
    assert found.correct.tolist() == [True, False]
    assert found.missed.tolist() == [False, True]
    assert found.group.tolist() == [0, 1]
    assert MEASURES["f1"].function(found) == pytest.approx(2 / 3)
    assert MEASURES["right"].function(found) == 1.0


def test_types_that_a_set_does_not_annotate_are_no_answers():
    outputs = tagged(["O", "B-PER"], ["B-MISC", "B-PER"], [0.9, 0.8], [0, 0])

    kept = softmax_answers(outputs, set_rows(1))
    dropped = softmax_answers(outputs, set_rows(1, ignored=frozenset({"MISC"})))

    assert len(kept.confidence) == 2
    assert dropped.confidence == pytest.approx([0.8])


def test_where_labels_are_not_known_the_entities_that_were_found_are_the_answers():
    outputs = tagged(
        gold=["O", "O", "O", "O"],
        predicted=["B-PER", "I-PER", "O", "B-PER"],
        confidence=[0.9, 0.8, 0.7, 0.6],
        groups=[0, 0, 0, 1],
    )

    found = softmax_answers(outputs, replace(set_rows(2), labeled=False))

    assert found.confidence == pytest.approx([0.72, 0.6])
    assert found.group.tolist() == [0, 1]
    assert found.correct is None
    assert found.missed is None


def test_a_sentence_without_entities_has_no_row_but_keeps_its_number():
    outputs = tagged(["O", "B-PER"], ["O", "B-PER"], [0.9, 0.8], [0, 1])

    found = softmax_answers(outputs, set_rows(2))

    assert found.group.tolist() == [1]


def test_the_distance_to_people_is_half_the_sum_of_differences_over_classes_the_model_knows():
    outputs = Outputs(logits=np.log([[0.4, 0.6], [0.9, 0.1]]), labels=[1, 0], class_names=("neg", "pos"))
    rows = [TextRow("a", "pos", {"pos": 3, "neg": 1, "neutral": 6}), TextRow("b", "neg")]

    found = softmax_answers(outputs, SetRows(name="x", role="in", rows=rows, labeled=True))

    assert found.human[0] == pytest.approx(abs(0.6 - 0.75))
    assert math.isnan(found.human[1])
    assert MEASURES["human"].function(found) == pytest.approx(0.15)


def test_a_row_whose_votes_all_went_elsewhere_says_nothing():
    shares = human_distribution([TextRow("a", "pos", {"neutral": 5})], ("neg", "pos"))

    assert np.isnan(shares).all()
    assert human_distribution([TextRow("a", "pos")], ("neg", "pos")) is None


def test_each_measure_equals_its_slow_version():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1, 1], size=60)
    labels = rng.integers(3, size=60)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    answers = Answers(confidence=confidence, correct=correct, group=np.arange(60), probs=probs, labels=labels)

    found = scores_of(answers)

    risk = 1 - correct.mean()
    best = risk + (1 - risk) * math.log(1 - risk)
    assert found["ece"] == pytest.approx(reference.ece(confidence, correct))
    assert found["mce"] == pytest.approx(reference.mce(confidence, correct))
    assert found["auroc"] == pytest.approx(reference.auroc(confidence, correct))
    assert found["e_aurc"] == pytest.approx(reference.aurc(confidence, correct) - best)
    assert found["e_aurc_published"] == pytest.approx(reference.aurc_paper(confidence, correct) - best)
    assert found["brier"] == pytest.approx(reference.brier_top_label(confidence, correct))
    assert found["confidence_wrong"] == pytest.approx(confidence[~correct].mean())
    assert found["class_auroc"] == metrics.class_auroc(probs=probs, labels=labels)


def test_missed_entities_count_in_the_published_e_aurc_only():
    answers = Answers(
        confidence=np.array([0.9, 0.0]),
        correct=np.array([True, False]),
        missed=np.array([False, True]),
        group=np.array([0, 0]),
    )

    assert scores_of(answers)["e_aurc"] == 0.0
    published = metrics.e_aurc(confidence=[0.9, 0.0], correct=[True, False], convention="paper")
    assert scores_of(answers)["e_aurc_published"] == published


def test_published_aupr_has_in_and_out_swapped():
    inside = Answers(confidence=np.array([0.9, 0.8, 0.4]), group=np.arange(3))
    outside = Answers(confidence=np.array([0.7, 0.3]), group=np.arange(2))

    found = detection_of(inside, outside)

    assert found["aupr_in_published"] == found["aupr_out"] != found["aupr_in"]
    assert found["fpr95"] == DETECTION["fpr95"].function(inside, outside)


def test_the_first_texts_are_those_with_the_lowest_numbers():
    answers = Answers(confidence=np.array([0.1, 0.2, 0.3]), group=np.array([0, 0, 4]))

    assert answers.first(4).confidence.tolist() == [0.1, 0.2]


def test_every_measure_has_a_direction_and_a_title():
    assert measure_of("weight_right").arrow == "↑"
    assert measure_of("fpr95").arrow == "↓"


def test_a_method_that_scores_entities_itself_is_heard():
    train, validation, test = tagged_sentences(seed=0)
    ue = KnnUEEntity(Datastore.build(train.features, train.labels), n_neighbors=16).fit(validation)
    rows = set_rows(len(set(test.groups.tolist())))

    found = answers_of(test, ue.predict(test), rows, entity_scores_of(ue, test)).given()

    assert np.sort(found.confidence) == pytest.approx(np.sort(ue.read(test).scores))
    assert entity_scores_of(SoftmaxResponse().fit(validation), test) is None
