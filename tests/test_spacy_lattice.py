"""The lattice's probabilities, against a slow walk over every path of spaCy's own parser."""

import math

import numpy as np
import pytest

pytest.importorskip("spacy")

from knn_ue.errors import InvalidInputError
from knn_ue.spacy.lattice import ner_belief
from knn_ue.spacy.tagging import TypeMap, sentence_groups
from tiny_spacy import examples, trained_pipeline

pytestmark = pytest.mark.slow  # a recognizer is trained
TEXTS = ("Ada Turing met Oslo", "Oslo Lima Ada", "saw Grace", "Rome")


@pytest.fixture(scope="module")
def nlp():
    return trained_pipeline()


def every_path(ner, doc):
    """Yield (probability, tags) of each sequence of actions that the parser may take, by the parser itself."""
    step = ner.model.predict([doc])
    names = [ner.moves.get_class_name(number) for number in range(ner.moves.n_moves)]

    def scores_at(actions):
        (state,) = ner.moves.init_batch([doc])
        for action in actions:
            ner.moves.apply_transition(state, action)
        return state, None if state.is_final() else step.predict([state])[0]

    def walk(actions, probability):
        state, scores = scores_at(actions)
        if scores is None:
            yield probability, actions
            return
        allowed = [name for name in names if ner.moves.is_valid(state, name)]
        odds = {name: math.exp(float(scores[names.index(name)])) for name in allowed}
        for name, value in odds.items():
            share = probability * value / sum(odds.values())
            if share > 1e-7:
                yield from walk([*actions, name], share)

    yield from walk([], 1.0)


@pytest.mark.parametrize("text", TEXTS)
def test_tag_probabilities_equal_the_sum_over_all_paths_of_the_parser(nlp, text):
    ner, doc = nlp.get_pipe("ner"), nlp.make_doc(text)
    expected = {}
    for probability, actions in every_path(ner, doc):
        for place, action in enumerate(actions):
            prefix = {"U": "B", "L": "I"}.get(action[0], action[0])
            key = (place, prefix + action[1:])
            expected[key] = expected.get(key, 0.0) + probability

    belief = ner_belief(ner, [doc])

    for place in range(len(doc)):
        assert belief.outside[place] == pytest.approx(expected.get((place, "O"), 0.0), abs=1e-4)
        for number, kind in enumerate(belief.types):
            assert belief.begins[place, number] == pytest.approx(expected.get((place, f"B-{kind}"), 0), abs=1e-4)
            assert belief.continues[place, number] == pytest.approx(expected.get((place, f"I-{kind}"), 0), abs=1e-4)


def test_a_batch_gives_each_doc_what_it_gets_alone(nlp):
    ner = nlp.get_pipe("ner")
    docs = [nlp.make_doc(text) for text in TEXTS]

    together = ner_belief(ner, docs)

    alone = np.concatenate([ner_belief(ner, [doc]).outside for doc in docs])
    np.testing.assert_allclose(together.outside, alone, atol=1e-6)


def test_every_row_of_probabilities_sums_to_one(nlp):
    docs = [example.predicted for example in examples(nlp, 20, seed=5)]

    belief = ner_belief(nlp.get_pipe("ner"), docs)

    np.testing.assert_allclose(belief.outside + belief.begins.sum(1) + belief.continues.sum(1), 1.0, atol=1e-6)


def test_no_docs_have_no_rows(nlp):
    belief = ner_belief(nlp.get_pipe("ner"), [nlp.make_doc("")])

    assert len(belief.outside) == len(belief.vectors) == 0


def test_a_type_that_is_not_scored_counts_as_outside(nlp):
    belief = ner_belief(nlp.get_pipe("ner"), [nlp.make_doc("Ada Turing met Oslo")])

    logits = TypeMap(types=("LOC",), renamed={"GPE": "LOC"}).logits(belief)

    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1.0, atol=1e-6)
    assert logits[0, 0] == pytest.approx(0.0, abs=0.5)


def test_types_without_a_common_one_are_refused_with_the_way_out():
    with pytest.raises(InvalidInputError, match="have none in common: map them, such as PERSON=PER"):
        TypeMap.between(["PERSON"], ["PER"], {})


def test_a_map_of_a_type_that_is_never_predicted_is_refused():
    with pytest.raises(InvalidInputError, match="got PERSONN: correct the map"):
        TypeMap.between(["PERSON"], ["PER"], {"PERSONN": "PER"})


def test_a_sentence_end_inside_an_entity_does_not_cut_it(nlp):
    doc = nlp.make_doc("Ada Turing met Oslo")
    for word, starts in zip(doc, (True, True, False, True), strict=True):
        word.is_sent_start = starts

    groups = sentence_groups([doc, doc], np.array([1, 2, 0, 3, 1, 2, 0, 3]))

    assert groups.tolist() == [0, 0, 0, 1, 2, 2, 2, 3]
