"""Recognizers that listen to a transformer: the same component, features and beliefs."""

import numpy as np
import pytest

spacy = pytest.importorskip("spacy")
pytest.importorskip("spacy_curated_transformers")

from knn_ue import UncertaintyPipeline  # noqa: E402
from knn_ue.spacy.lattice import ner_belief  # noqa: E402
from tiny_spacy import IN_THE_DATA, examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a transformer is trained
TEXT = "Ada Turing met Zorbl in Oslo today."


def fitted(component):
    nlp = trained_pipeline(component=component, transformer=True)
    config = {"map": IN_THE_DATA, "source": component}
    nlp.add_pipe("knn_ue_entities", config=config).fit(examples(nlp, 80, seed=1), examples(nlp, 80, seed=2))
    return nlp


@pytest.fixture(scope="module")
def nlp():
    return fitted("ner")


def scores(doc):
    return [(ent.text, ent.label_, round(ent._.confidence, 5)) for ent in doc.ents]


def test_the_belief_agrees_with_what_the_recognizer_decides(nlp):
    doc = nlp("Grace Hopper thanked Rome today.")

    belief = ner_belief(nlp.get_pipe("ner"), [doc])

    assert doc.ents and all(belief.begins[ent.start, belief.types.index(ent.label_)] > 0.5 for ent in doc.ents)
    np.testing.assert_allclose(belief.outside + belief.begins.sum(1) + belief.continues.sum(1), 1.0, rtol=1e-6)


def test_right_entities_score_higher_than_wrong_ones(nlp):
    right, wrong = [], []
    for example in examples(nlp, 80, seed=9):
        gold = {(ent.start, ent.end, ent.label_) for ent in example.reference.ents}
        for ent in nlp(example.reference.text).ents:
            (right if (ent.start, ent.end, IN_THE_DATA[ent.label_]) in gold else wrong).append(ent._.confidence)

    assert len(wrong) > 5 and np.mean(right) > np.mean(wrong) + 0.1


def test_a_saved_pipeline_and_a_stream_give_equal_scores(nlp, tmp_path):
    texts = [TEXT, "", "Grace Hopper thanked Rome today."]
    nlp.to_disk(tmp_path / "saved")

    streamed = [scores(doc) for doc in spacy.load(tmp_path / "saved").pipe(texts, batch_size=2)]
    served = UncertaintyPipeline.load(tmp_path / "saved" / "knn_ue_entities")(TEXT)[0]

    assert streamed == [scores(nlp(text)) for text in texts]
    assert [round(x.score, 5) for x in served.entities] == [x[2] for x in scores(nlp(TEXT))]


def test_more_docs_than_are_remembered_are_computed_again(nlp):
    texts = ["Grace Hopper thanked Rome today."] * 1100

    (answer, *_, last) = UncertaintyPipeline(
        nlp.get_pipe("knn_ue_entities").pipe_.encoder, nlp.get_pipe("knn_ue_entities").pipe_.fitted_
    )(texts)

    assert [x.score for x in answer.entities] == pytest.approx([x.score for x in last.entities])


def test_a_span_categorizer_on_a_transformer_is_scored_too():
    nlp = fitted("spancat")

    doc = nlp("Grace Hopper thanked Rome today.")

    assert doc.spans["sc"] and any(span._.confidence is not None for span in doc.spans["sc"])
