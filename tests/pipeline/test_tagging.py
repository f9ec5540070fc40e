"""Words and entities: which there are, and how sure they are."""

import numpy as np
import pytest

from knn_ue import metrics
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.rows import labeled_examples
from pipelines import WORDS
from tiny_models import ROWS, save_tiny_model

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_every_word_of_every_sentence_comes_back_in_order(fitted):
    sentences = [["Ada", "went"], [], ["to", "Oslo", "Oslo"], ["\u200b"], ["word"] * 90]

    answers = fitted[WORDS](sentences)

    assert [[word.word for word in answer.words] for answer in answers] == sentences


def test_a_sentence_may_be_a_string(fitted):
    (answer,) = fitted[WORDS]("Ada went to Oslo")

    assert [word.word for word in answer.words] == ["Ada", "went", "to", "Oslo"]


def test_entities_are_those_of_the_tags(fitted):
    answers = fitted[WORDS](ROWS[WORDS](5, start=300))

    for answer in answers:
        expected = metrics.extract_entities([word.tag for word in answer.words])
        assert [(e.type, e.start, e.end - 1) for e in answer.entities] == expected


def test_an_entity_scores_the_product_of_its_words(fitted):
    entities = [(e, a.words[e.start : e.end]) for a in fitted[WORDS](ROWS[WORDS](5)) for e in a.entities]

    assert len(entities) > 0
    for entity, words in entities:
        assert entity.score == pytest.approx(np.prod([word.score for word in words]))
        assert entity.text == " ".join(word.word for word in words)


def test_an_entity_shows_the_neighbors_of_its_first_word(fitted):
    sentence = ROWS[WORDS](1)[0]["tokens"]

    (answer,) = fitted[WORDS]([sentence], top=1)

    nearest = [entity.neighbors[0] for entity in answer.entities]
    assert [near.id for near in nearest] == [entity.start for entity in answer.entities]


def test_a_sentence_without_entities_has_none(models, fitted):
    pipe = fitted[WORDS]

    (answer,) = pipe([[]])

    assert answer.to_dict() == {"words": [], "entities": []}


def test_words_of_a_tagger_without_entities_abstain_one_by_one(tmp_path):
    names = ("DET", "NOUN", "VERB")
    model = save_tiny_model(tmp_path / "pos", family="bert", task=WORDS, class_names=names)
    rows = [{"tokens": ["the", "film", "was"], "tags": list(names)}] * 5
    pipe = UncertaintyPipeline.from_pretrained(model, WORDS, device="cpu").fit(
        rows, rows, n_neighbors=2, allow_leakage=True
    )

    (answer,) = pipe([["the", "film"]], abstain_below=1.0)

    assert [(word.tag, word.abstained) for word in answer.words] == [(None, True)] * 2
    assert answer.entities == ()


BIOES = ("O", "B-PER", "I-PER", "E-PER", "S-PER")


def test_rows_in_iob2_are_refused_where_the_model_speaks_bioes():
    rows = [{"tokens": ["Ada", "Lovelace", "left"], "tags": ["B-PER", "I-PER", "O"]}]

    with pytest.raises(InvalidInputError, match="training tags end no entity with E or S, as the model's do"):
        labeled_examples(rows, WORDS, BIOES, name="training")


def test_rows_in_bioes_suit_a_model_that_speaks_bioes():
    rows = [{"tokens": ["Ada", "Lovelace", "met", "Alan"], "tags": ["B-PER", "E-PER", "O", "S-PER"]}]

    assert len(labeled_examples(rows, WORDS, BIOES, name="training")) == 1


def test_entities_of_a_text_stand_where_the_text_says(fitted):
    text = "Ada  went to\tOslo , then home"

    (answer,) = fitted[WORDS](text)

    assert answer.entities and [word.word for word in answer.words] == text.split()
    assert all(text[x.start_char : x.end_char] == x.text for x in answer.entities)
    assert [x.text.split() for x in answer.entities] == [text.split()[x.start : x.end] for x in answer.entities]


def test_a_text_may_be_a_field(fitted):
    assert fitted[WORDS]({"text": "Ada went"}) == fitted[WORDS]("Ada went")
