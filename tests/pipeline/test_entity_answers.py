"""A tagger fitted with knn-ue-entity: entities, sentences and warnings, from fit to folder."""

import json

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.answers import SentenceAnswer
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.answers import scored_answers
from knn_ue.reasons import percent
from pipelines import N_NEIGHBORS, TEXT, WORDS, said_by_the_model
from tiny_models import ROWS, save_tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")

METHOD = "knn-ue-entity"


@pytest.fixture(scope="module")
def pipe(models):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu")
    validation = said_by_the_model(pipe, 60, start=100, wrong_every=3)
    return pipe.fit(ROWS[WORDS](60), validation, method=METHOD, n_neighbors=N_NEIGHBORS)


def test_tags_and_words_are_those_of_any_other_method(pipe, fitted):
    rows = ROWS[WORDS](10, start=500)

    ours, theirs = pipe(rows), fitted[WORDS](rows)

    for a, b in zip(ours, theirs, strict=True):
        assert [w.tag for w in a.words] == [w.tag for w in b.words]
        places = [[(e.type, e.start, e.end, e.text) for e in x.entities] for x in (a, b)]
        assert places[0] == places[1]


def test_answers_hold_the_scores_of_the_calibrator(pipe):
    rows = ROWS[WORDS](10, start=500)

    answers = pipe([row["tokens"] for row in rows])

    reading = pipe.calibrator_.read(pipe.outputs(rows))
    scores = [entity.score for answer in answers for entity in answer.entities]
    np.testing.assert_allclose(scores, reading.scores, rtol=1e-4)
    np.testing.assert_allclose([a.score for a in answers], reading.sentence_scores, rtol=1e-4)
    np.testing.assert_allclose([a.none_missed for a in answers], reading.none_missed, rtol=1e-4)


def test_an_answer_is_plain_json(pipe):
    answers = [answer.to_dict() for answer in pipe(ROWS[WORDS](3, start=500))]

    assert json.loads(json.dumps(answers)) == answers


def test_an_empty_sentence_is_right_and_hides_nothing(pipe):
    alone = pipe([[]])
    between = pipe([["Ada"], [], ["Oslo"]])

    expected = SentenceAnswer(words=(), entities=(), score=1.0, none_missed=1.0, missed=())
    assert alone == [expected]
    assert between[1] == expected
    assert len(between[2].words) == 1


def test_neighbors_are_those_of_the_first_word(pipe, fitted):
    sentence = ROWS[WORDS](1)[0]["tokens"]

    (ours,), (theirs,) = (x([sentence], top=2) for x in (pipe, fitted[WORDS]))

    assert [e.neighbors for e in ours.entities] == [e.neighbors for e in theirs.entities]
    assert all(e.neighbors == () for e in pipe([sentence], top=0)[0].entities)


def test_a_missed_entity_is_pointed_at_with_its_words(pipe, monkeypatch):
    monkeypatch.setattr("knn_ue.entities.missed._WARN_FROM", 0.0)  # every word tagged O is worth a warning
    sentences = [["Ada", "went"], [], ["to", "Oslo", "now"]]

    for sentence, answer in zip(sentences, pipe(sentences), strict=True):
        outside = [n for n, word in enumerate(answer.words) if word.tag == "O"]
        assert [n for x in answer.missed for n in range(x.start, x.end)] == outside
        for x in answer.missed:
            assert x.text == " ".join(sentence[x.start : x.end])
            assert f"B-{x.type}" in pipe.class_names
            assert 0 <= x.score <= 1


def test_explain_says_why_of_each_sentence(pipe):
    sentences = [row["tokens"] for row in ROWS[WORDS](4, start=500)]

    explained = pipe.explain(sentences, top=2)

    answers = pipe(sentences, top=2)
    assert [x.text for x in explained] == [" ".join(sentence) for sentence in sentences]
    for one, answer in zip(explained, answers, strict=True):
        assert [(e.type, e.start, e.end, e.text) for e in one.entities] == [
            (e.type, e.start, e.end, e.text) for e in answer.entities
        ]
        assert f"all entities right and none missed: {percent(answer.score)}" in str(one)
    assert any(len(e.neighbors) == 2 for one in explained for e in one.entities)


def test_save_then_load_answers_the_same(pipe, tmp_path):
    rows = ROWS[WORDS](5, start=500)
    pipe.save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert loaded.method_ == METHOD
    assert loaded(rows) == pipe(rows)


def test_a_threshold_abstains_by_the_score_of_the_entity(pipe):
    (answer,) = pipe([ROWS[WORDS](1)[0]["tokens"]])
    scores = sorted(e.score for e in answer.entities)

    (abstained,) = pipe([ROWS[WORDS](1)[0]["tokens"]], abstain_below=float(np.nextafter(scores[-1], 2)))

    assert all(e.abstained for e in abstained.entities)
    assert [e.score for e in abstained.entities] == [e.score for e in answer.entities]


def test_target_risk_is_kept_by_the_scores_of_entities(models):
    pipe = UncertaintyPipeline.from_pretrained(models[WORDS], WORDS, device="cpu")
    validation = said_by_the_model(pipe, 120, start=100, wrong_every=6)
    pipe.fit(ROWS[WORDS](60), validation, method=METHOD, n_neighbors=N_NEIGHBORS, target_risk=0.4)
    held_out = pipe.validation_.take(pipe.fitted_.held_out)

    confidence, correct = scored_answers(held_out, pipe.calibrator_)

    np.testing.assert_array_equal(confidence, pipe.calibrator_.read(held_out).scores)
    assert pipe.threshold_.n == len(confidence)
    assert pipe.threshold_.found
    answered = confidence >= pipe.threshold_.threshold
    assert (~correct[answered]).mean() <= 0.4


def test_evaluate_measures_entities_and_sentences(pipe):
    rows = said_by_the_model(pipe, 30, start=900, wrong_every=4)
    outputs = pipe.outputs(rows)

    tables = pipe.evaluate(rows).tables

    reading = pipe.calibrator_.read(outputs)
    _, correct = scored_answers(outputs, pipe.calibrator_)
    ece = metrics.expected_calibration_error(confidence=reading.scores, correct=correct)
    assert tables["test/entities"][METHOD]["ece"] == pytest.approx(ece, abs=1e-6)
    assert set(tables["test/sentences"].scores) == {"raw", METHOD}
    assert tables["test/sentences"]["raw"]["accuracy"] == tables["test/sentences"][METHOD]["accuracy"]


def test_texts_are_none_of_its_business(models):
    pipe = UncertaintyPipeline.from_pretrained(models[TEXT], TEXT, device="cpu")

    with pytest.raises(InvalidInputError, match="knn-ue-entity is for token-classification only"):
        pipe.fit(ROWS[TEXT](20), ROWS[TEXT](20), method=METHOD, n_neighbors=4)


def test_a_tagger_without_entities_has_words_only(tmp_path):
    names = ("DET", "NOUN", "VERB")
    model = save_tiny_model(tmp_path / "pos", family="bert", task=WORDS, class_names=names)
    rows = [{"tokens": ["the", "film", "was"], "tags": list(names)}] * 5
    pipe = UncertaintyPipeline.from_pretrained(model, WORDS, device="cpu")
    pipe.fit(rows, rows, method=METHOD, n_neighbors=2, allow_leakage=True)

    (answer,) = pipe([["the", "film"]])

    assert answer.to_dict().keys() == {"words", "entities", "familiarity", "unfamiliar"}
    assert len(pipe.explain([["the", "film"]])) == 2
