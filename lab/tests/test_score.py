"""What a method is asked, and that it answers the same when it is asked less."""

from dataclasses import replace

import numpy as np
import pytest

from knn_ue.calibrators import DensityAwareCalibration, SoftmaxResponse
from knn_ue.data import TaggedRow
from knn_ue.methods import METHODS, Search
from knn_ue.toy import tagged_sentences, two_blobs
from knn_ue_lab.detection import DETECTORS
from knn_ue_lab.reproduce.answers import answers_of
from knn_ue_lab.reproduce.detect import detection_answers, word_scores
from knn_ue_lab.reproduce.scales import SCALES
from knn_ue_lab.reproduce.score import said
from knn_ue_lab.reproduce.task_data import SetRows


def with_layers(outputs):
    return replace(outputs, layers=[outputs.features, 2 * outputs.features + 1])


@pytest.fixture(scope="module")
def tagged():
    train, validation, test = map(with_layers, tagged_sentences(n_train=60, n_validation=60, n_test=80))
    return DensityAwareCalibration.from_layers(train, n_neighbors=8).fit(validation), test


def test_asked_only_of_words_of_entities_dac_says_the_same_of_every_entity(tagged):
    calibrator, test = tagged
    rows = SetRows(name="x", role="in", rows=[TaggedRow(("a",), ("O",))] * 80, labeled=True)

    _, whole = said(calibrator, test)
    _, part = said(calibrator, test, entity_words=True)

    outside = np.array(test.class_names)[test.predicted] == "O"
    assert outside.any() and not np.allclose(whole.confidence[outside], part.confidence[outside])
    found, expected = (answers_of(test, one, rows) for one in (part, whole))
    np.testing.assert_allclose(found.confidence, expected.confidence, rtol=1e-6)
    np.testing.assert_array_equal(found.correct, expected.correct)
    np.testing.assert_allclose(part.probs.sum(axis=1), 1.0)


@pytest.mark.parametrize("method", ["knn-ue", "nuq", "sdm"])
def test_asked_only_of_words_of_entities_a_method_that_searches_says_the_same_of_every_entity(method):
    train, validation, test = tagged_sentences(n_train=60, n_validation=60, n_test=80)
    calibrator = METHODS[method].make(train, Search(n_neighbors=8)).fit(validation)
    rows = SetRows(name="x", role="in", rows=[TaggedRow(("a",), ("O",))] * 80, labeled=True)

    found, expected = (
        answers_of(test, said(calibrator, test, entity_words=few)[1], rows).confidence for few in (True, False)
    )

    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", DETECTORS)
def test_asked_only_of_words_of_entities_a_detector_scores_every_entity_the_same(name):
    train, _, test = (
        replace(outputs, views=np.stack([outputs.features, outputs.features**2], axis=1))
        for outputs in tagged_sentences(n_train=60, n_validation=60, n_test=80)
    )
    detector = DETECTORS[name]().fit(train)
    rows = SetRows(name="x", role="in", rows=[TaggedRow(("a",), ("O",))] * 80, labeled=True)

    found, expected = (
        detection_answers(test, word_scores(detector, test, entity_words=few), rows).confidence for few in (True, False)
    )

    assert len(found) > 20
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_other_methods_and_texts_are_asked_of_every_row(tagged):
    _, test = tagged
    softmax = SoftmaxResponse().fit(test)
    np.testing.assert_array_equal(said(softmax, test, entity_words=True)[1].probs, softmax.predict_proba(test))

    train, validation, texts = map(with_layers, two_blobs(n_train=60, n_validation=60, n_test=40))
    calibrator = DensityAwareCalibration.from_layers(train, n_neighbors=8).fit(validation)
    np.testing.assert_array_equal(said(calibrator, texts, entity_words=True)[1].probs, calibrator.predict_proba(texts))


def test_the_committed_scale_asks_of_every_word():
    assert {name: scale.entity_words for name, scale in SCALES.items()} == {
        "small": False,
        "reference": True,
        "base": True,
        "paper": False,
    }
