"""Entities of a pipeline with a verifier beside it: nothing is stored, and the folder keeps what was learned."""

import numpy as np
import pytest

spacy = pytest.importorskip("spacy")

from knn_ue import metrics  # noqa: E402
from knn_ue.errors import InvalidInputError  # noqa: E402
from knn_ue.verifying import READERS, WordVectors  # noqa: E402
from tiny_spacy import examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
MAP = {"PERSON": "PER", "GPE": "LOC"}


@pytest.fixture(scope="module")
def letters():
    """A reader of words that sees their letters, known by its name."""

    def counted(sentences):
        words = [word for sentence in sentences for word in sentence]
        return [[*(float(word.lower().count(chr(97 + n))) for n in range(26)), word[0].isupper()] for word in words]

    READERS["letters"] = lambda: WordVectors("letters", counted)
    yield "letters"
    del READERS["letters"]


@pytest.fixture(scope="module")
def nlp(letters):
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": MAP, "reader": letters})
    component.fit(examples(nlp, 60, seed=1), examples(nlp, 60, seed=2))
    return nlp


def scored(nlp, seed):
    confidence, right = [], []
    for example in examples(nlp, 60, seed=seed):
        doc = nlp(example.reference.text)
        gold = {(ent.start_char, ent.end_char, ent.label_) for ent in example.reference.ents}
        confidence += [ent._.confidence for ent in doc.ents]
        right += [(ent.start_char, ent.end_char, MAP.get(ent.label_, ent.label_)) in gold for ent in doc.ents]
    return np.array(confidence), np.array(right)


def test_nothing_is_stored_and_entities_are_ranked(nlp):
    component = nlp.get_pipe("knn_ue_entities")

    confidence, right = scored(nlp, seed=3)

    assert component.pipe_.method_ == "entity-scores"
    assert not component.pipe_.calibrator_.stores
    assert metrics.auroc(confidence=confidence, correct=right) > 0.7


def test_the_verifier_is_one_of_the_reasons(nlp):
    doc = nlp(examples(nlp, 1, seed=4)[0].reference.text)

    reasons = [reason for ent in doc.ents for reason in (*ent._.raised_by, *ent._.lowered_by)]
    assert any(reason.startswith("the verifier reads ") for reason in reasons)


def test_a_saved_pipeline_gives_the_same_scores(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")

    again = spacy.load(tmp_path / "saved")

    np.testing.assert_array_equal(scored(again, seed=3)[0], scored(nlp, seed=3)[0])


def test_a_reader_of_texts_alone_is_refused():
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": MAP, "reader": "instant"})

    with pytest.raises(InvalidInputError, match="gives no word vectors"):
        component.fit(examples(nlp, 60, seed=1), examples(nlp, 60, seed=2))
