"""The verifier as a calibrator: what it says of given answers, why, and that it is saved whole."""

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.calibrators import Verdict
from knn_ue.calibrators.verdict import own_scores
from knn_ue.errors import InvalidInputError
from knn_ue.toy import given_answers, two_blobs
from knn_ue.types import Outputs


@pytest.fixture(scope="module")
def answered():
    labeled, test = given_answers(seed=1)
    return Verdict().fit(labeled), test


def test_right_answers_score_higher_than_wrong_ones(answered):
    verdict, test = answered
    right = test.predicted == test.labels

    assert metrics.auroc(confidence=verdict.predict(test).confidence, correct=right) > 0.9


def test_its_probabilities_sum_to_one_and_give_the_answer_its_score(answered):
    verdict, test = answered

    probs = verdict.predict_proba(test)

    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probs[np.arange(len(test)), test.predicted], verdict.predict(test).confidence)


def test_what_is_saved_gives_the_same_scores(answered, tmp_path):
    verdict, test = answered
    verdict.save(tmp_path / "verdict")

    loaded = Verdict.load(tmp_path / "verdict")

    np.testing.assert_array_equal(loaded.predict_proba(test), verdict.predict_proba(test))


def test_the_reasons_speak_in_the_direction_of_the_score(answered):
    verdict, test = answered

    for why in verdict.explain(test.take(np.arange(60))):
        because = why.raised_by if why.score > why.base_score else why.lowered_by
        assert because
        assert because[0] in why.to_dict()["in_words"]["for" if why.score > why.base_score else "against"]


def test_the_reasons_name_what_the_verifier_would_say_the_record_and_the_own_score():
    labeled, _ = given_answers(seed=1)
    text = "a new match by goal"
    asked = Outputs(logits=np.log([[0.7, 0.1, 0.1, 0.1]]), class_names=labeled.class_names, texts=[text])
    said = labeled.predicted == 0
    right = int((said & (labeled.labels == 0)).sum())

    (why,) = Verdict().fit(labeled).explain(asked, top=3)

    words = why.to_dict()["in_words"]
    assert 'the verifier by itself would answer "sport"' in words["against"]
    assert f'of {said.sum()} times it said "food", {right} were right' in " ".join(words.values())
    assert words["own"] == "The model that gave the answer says 70.0 %."
    assert [near.text in labeled.texts for near in why.neighbors] == [True] * 3


def test_an_answer_that_is_no_label_is_explained_as_such(answered):
    verdict, test = answered
    logits = np.zeros((1, test.n_classes))
    refusal = Outputs(logits=logits, decoded=[3], class_names=test.class_names, texts=test.texts[:1])

    (why,) = verdict.explain(refusal)

    assert why.raw_score == pytest.approx(0.25)
    assert "an answer that is none of the labels counts as wrong" in why.lowered_by


def test_rivals_learned_from_the_same_rows_are_calibrators_by_name(answered):
    verdict, test = answered

    rivals = verdict.rivals()

    assert list(rivals) == ["constant", "regression", "regression per answer"]
    for name, rival in rivals.items():
        scores = rival.predict(test).confidence
        np.testing.assert_allclose(rival.predict_proba(test).sum(axis=1), 1.0)
        assert metrics.auroc(confidence=scores, correct=test.predicted == test.labels) > 0.4, name
    with pytest.raises(InvalidInputError, match="constant is fitted with the verifier"):
        rivals["constant"].fit(test)


def test_a_stated_confidence_counts_and_a_missing_one_does_not():
    logits = np.log([[0.2, 0.8], [0.5, 0.5]])

    np.testing.assert_allclose(own_scores(Outputs(logits=logits)), [np.log(4), 0], atol=1e-9)
    assert np.isnan(own_scores(given_answers(n_test=5)[1])).all()


def test_fewer_than_50_labeled_answers_are_refused_with_the_reason():
    labeled, _ = given_answers(n_labeled=49)

    with pytest.raises(InvalidInputError, match="needs 50 to 5,000 labeled rows, got 49"):
        Verdict().fit(labeled)


def test_outputs_without_texts_are_refused():
    _, validation, _ = two_blobs(seed=0)
    bare = Outputs(logits=validation.logits, labels=validation.labels)

    with pytest.raises(InvalidInputError, match="the verifier reads texts"):
        Verdict().fit(bare)


def test_an_unknown_reader_is_refused_by_name():
    labeled, _ = given_answers()

    with pytest.raises(InvalidInputError, match=r"reader must be one of .*'instant'.*got 'nonsense'"):
        Verdict("nonsense").fit(labeled)
