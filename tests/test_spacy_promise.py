"""The precision that the component promises: which entities are marked, and that it survives the disk."""

import warnings

import pytest

spacy = pytest.importorskip("spacy")

from tiny_spacy import examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
MAP = {"PERSON": "PER", "GPE": "LOC"}


@pytest.fixture(scope="module", params=["auto", None])
def nlp(request):
    nlp = trained_pipeline()
    nlp.add_pipe("knn_ue_entities", config={"map": MAP, "reader": request.param, "target_precision": 0.5})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nlp.get_pipe("knn_ue_entities").fit(examples(nlp, 80, seed=1), examples(nlp, 240, seed=2))
    return nlp


def test_entities_above_the_threshold_are_marked_as_promised(nlp):
    promised = nlp.get_pipe("knn_ue_entities").pipe_.threshold_

    entities = [ent for doc in nlp.pipe(x.reference.text for x in examples(nlp, 30, seed=5)) for ent in doc.ents]

    assert promised.found and (promised.unit, promised.n_units) == ("document", 120)
    assert [ent._.promised for ent in entities] == [ent._.confidence >= promised.threshold for ent in entities]
    assert any(ent._.promised for ent in entities)


def test_a_loaded_pipeline_marks_the_same_and_knows_its_promise(nlp, tmp_path):
    texts = [x.reference.text for x in examples(nlp, 10, seed=6)]
    nlp.to_disk(tmp_path / "pipeline")

    again = spacy.load(tmp_path / "pipeline")

    marked = [[[ent._.promised for ent in doc.ents] for doc in one.pipe(texts)] for one in (nlp, again)]
    assert marked[0] == marked[1]
    assert again.get_pipe("knn_ue_entities").pipe_.promises == nlp.get_pipe("knn_ue_entities").pipe_.promises


def test_without_a_target_nothing_is_said_of_a_promise():
    nlp = trained_pipeline()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nlp.add_pipe("knn_ue_entities", config={"map": MAP, "reader": None}).fit(examples(nlp, 80, seed=1))

    doc = nlp("Ada Turing met Zorbl in Oslo today.")

    assert doc.ents and all(ent._.promised is None for ent in doc.ents)
