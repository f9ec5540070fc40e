"""The component in a pipeline: what it sets, what it leaves alone, and that it survives the disk."""

import json
import warnings

import numpy as np
import pytest

spacy = pytest.importorskip("spacy")

from spacy.tokens import DocBin, Span  # noqa: E402

from held import fitted_in  # noqa: E402
from knn_ue import UncertaintyPipeline  # noqa: E402
from knn_ue.errors import InvalidInputError, NotFittedError, StorageError  # noqa: E402
from knn_ue.spacy import EntityConfidence  # noqa: E402
from knn_ue.spacy.gold import gold_docs, read_examples  # noqa: E402
from tiny_spacy import examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
MAP = {"PERSON": "PER", "GPE": "LOC"}
TEXT = "Ada Turing met Zorbl in Oslo today."


@pytest.fixture(scope="module")
def nlp():
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": MAP})
    component.fit(examples(nlp, 80, seed=1), examples(nlp, 80, seed=2))
    return nlp


def scores(doc):
    return [(ent.text, ent.label_, round(ent._.confidence, 6)) for ent in doc.ents]


def test_every_entity_has_a_probability_reasons_and_neighbors(nlp):
    doc = nlp(TEXT)

    assert doc.ents
    for ent in doc.ents:
        assert 0 < ent._.confidence < 1 and 0 <= ent._.familiar <= 1
        assert isinstance(ent._.raised_by, list) and isinstance(ent._.lowered_by, list)
        assert len(ent._.neighbors) == 3 and "[" in ent._.neighbors[0]["text"]
    assert 0 < doc._.confidence <= min(ent._.confidence for ent in doc.ents)


def test_scores_rank_right_entities_above_wrong_ones(nlp):
    right, wrong = [], []
    for example in examples(nlp, 80, seed=9):
        gold = {(ent.start, ent.end, ent.label_) for ent in example.reference.ents}
        for ent in nlp(example.reference.text).ents:
            (right if (ent.start, ent.end, MAP[ent.label_]) in gold else wrong).append(ent._.confidence)

    assert len(wrong) > 10 and np.mean(right) > np.mean(wrong) + 0.2


def test_nothing_else_of_the_doc_changes(nlp):
    plain = nlp(TEXT, disable=["knn_ue_entities"])

    scored = nlp(TEXT)

    assert scored.to_json() == plain.to_json()
    np.testing.assert_array_equal(
        scored.to_array(["ORTH", "ENT_IOB", "ENT_TYPE"]), plain.to_array(["ORTH", "ENT_IOB", "ENT_TYPE"])
    )


def test_a_stream_gives_what_single_docs_give(nlp):
    texts = [example.reference.text for example in examples(nlp, 10, seed=4)]

    together = [scores(doc) for doc in nlp.pipe(texts, batch_size=4)]

    assert together == [scores(nlp(text)) for text in texts]


def test_two_processes_give_what_one_gives(nlp):
    texts = [example.reference.text for example in examples(nlp, 6, seed=4)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork of a process with threads
        found = [scores(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=3)]

    assert found == [scores(nlp(text)) for text in texts]


def test_an_empty_doc_is_right_and_hides_nothing(nlp):
    doc = nlp("")

    assert doc._.confidence == 1.0 and doc._.likely_missed == []


def test_a_type_that_the_data_does_not_have_gets_no_score(nlp):
    doc = nlp(TEXT, disable=["knn_ue_entities"])
    doc.set_ents([Span(doc, 0, 2, label="DATE")])

    nlp.get_pipe("knn_ue_entities")(doc)

    assert doc.ents[0]._.confidence is None


def test_a_missed_entity_is_a_span_with_type_and_probability(nlp):
    doc = nlp(TEXT, disable=["knn_ue_entities"])
    doc.set_ents([], default="outside")

    nlp.get_pipe("knn_ue_entities")(doc)

    missed = doc._.likely_missed
    assert {span.label_ for span in missed} <= {"PER", "LOC"} and missed
    assert all(0.15 <= span._.confidence <= 1 for span in missed)


def test_a_saved_pipeline_gives_equal_scores(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")

    opened = spacy.load(tmp_path / "saved")

    assert scores(opened(TEXT)) == scores(nlp(TEXT))


def test_the_folder_of_the_component_is_a_ue_folder(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")

    pipe = UncertaintyPipeline.load(tmp_path / "saved" / "knn_ue_entities")

    (answer,) = pipe([["Ada", "Turing", "met", "Oslo"]])
    doc = nlp("Ada Turing met Oslo")
    assert [round(x.score, 6) for x in answer.entities] == [round(x._.confidence, 6) for x in doc.ents]


def test_a_folder_taken_out_of_its_pipeline_says_where_it_belongs(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "knn_ue_entities").rename(tmp_path / "alone")

    with pytest.raises(StorageError, match="must be in the folder of its spaCy pipeline"):
        UncertaintyPipeline.load(tmp_path / "alone")


def test_a_damaged_folder_is_refused_in_one_sentence(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    meta = fitted_in(tmp_path / "saved" / "knn_ue_entities") / "fitted.json"
    meta.write_text(meta.read_text().replace('"renamed"', '"renamd"'))

    with pytest.raises(StorageError, match=r"fitted\.json") as error:
        spacy.load(tmp_path / "saved")
    assert "\n" not in str(error.value)


def test_stored_corrections_are_found_by_the_next_doc(nlp):
    component = nlp.get_pipe("knn_ue_entities")
    doc = corrected(nlp)

    ids = component.add(doc)

    again = nlp(doc.text, disable=["knn_ue_entities"])
    again.set_ents([Span(again, 2, 4, label="PERSON")])
    component(again)
    assert again.ents[0]._.neighbors[0]["id"] in ids and again.ents[0]._.neighbors[0]["distance"] < 1e-3


def test_texts_on_both_sides_are_fitted_on_and_not_stored():
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": MAP})
    both = examples(nlp, 60, seed=2)

    with pytest.warns(UserWarning, match=r"60 of 12\d texts to store are also validation texts"):
        component.fit([*examples(nlp, 60, seed=1), *both], both)
    with pytest.raises(InvalidInputError, match="got 0 and 60: add some"):
        component.fit(both, both)


def test_familiar_is_the_p_value_of_the_library(nlp):
    component = nlp.get_pipe("knn_ue_entities")
    doc = nlp(TEXT)

    (answer,) = component.pipe_([[word.text for word in doc]])

    assert [ent._.familiar for ent in doc.ents] == pytest.approx([one.familiarity for one in answer.entities])
    assert all(0 < ent._.familiar <= 1 for ent in doc.ents)


def test_words_never_seen_are_less_familiar(nlp):
    usual = [ent._.familiar for text in examples(nlp, 40, seed=21, noise=0.0) for ent in nlp(text.reference.text).ents]
    strange = [
        ent._.familiar for text in examples(nlp, 40, seed=21, noise=1.0) for ent in nlp(text.reference.text).ents
    ]

    assert np.mean(strange) < np.mean(usual)


def test_what_is_added_stays_in_memory_until_to_disk(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    opened = spacy.load(tmp_path / "saved")
    n_stored = stored_words(opened)
    doc = corrected(opened)

    opened.get_pipe("knn_ue_entities").add(doc)

    assert stored_words(spacy.load(tmp_path / "saved")) == n_stored
    opened.to_disk(tmp_path / "saved")  # over the folder it came from
    assert stored_words(spacy.load(tmp_path / "saved")) == n_stored + len(doc)


def test_adapted_scores_are_used_kept_and_forgotten(nlp, tmp_path):
    nlp.to_disk(tmp_path / "saved")
    opened = spacy.load(tmp_path / "saved")
    component = opened.get_pipe("knn_ue_entities")
    before = scores(opened(TEXT))

    found = component.adapt(
        [labeled_doc(opened, x) for x in examples(opened, 60, seed=31, noise=1.0)], domain="strange"
    )

    assert "entities" in found.units and scores(opened(TEXT)) == before
    component.domain = "strange"
    adapted = scores(opened(TEXT))
    assert (adapted != before) == found.applied
    opened.to_disk(tmp_path / "adapted")
    again = spacy.load(tmp_path / "adapted", config={"components": {"knn_ue_entities": {"domain": "strange"}}})
    assert scores(again(TEXT)) == adapted
    component.domain = None
    component.forget_domain("strange")
    assert scores(opened(TEXT)) == before


def corrected(nlp):
    doc = nlp.make_doc("Zorbl thanked Quux Foobar today.")
    doc.set_ents([Span(doc, 0, 1, label="LOC"), Span(doc, 2, 4, label="PER")], default="outside")
    return doc


def labeled_doc(nlp, example):
    doc = nlp.make_doc(example.reference.text)
    doc.set_ents([Span(doc, ent.start, ent.end, label=ent.label_) for ent in example.reference.ents], default="outside")
    return doc


def stored_words(nlp):
    (store,) = nlp.get_pipe("knn_ue_entities").pipe_.calibrator_.stores.values()
    return len(store)


def test_unfitted_component_raises_not_fitted():
    nlp = trained_pipeline()
    nlp.add_pipe("knn_ue_entities")

    with pytest.raises(NotFittedError, match="knn_ue_entities"):
        nlp(TEXT)


def test_initialize_fits_by_the_examples_of_spacy():
    nlp = trained_pipeline()
    nlp.add_pipe("knn_ue_entities", config={"map": MAP})
    training = examples(nlp, 100, seed=1)

    nlp.get_pipe("knn_ue_entities").initialize(lambda: training, nlp=nlp)

    assert scores(nlp(TEXT))


def test_few_entities_are_warned_of():
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": MAP})

    with pytest.warns(UserWarning, match="fewer than 50"):
        component.fit(examples(nlp, 8, seed=1))

    assert scores(nlp(TEXT))


def test_attributes_may_have_other_names():
    nlp = trained_pipeline()
    component = EntityConfidence(nlp, map=MAP, attributes={"confidence": "trust"})
    component.fit(examples(nlp, 80, seed=1), examples(nlp, 80, seed=2))

    doc = component(nlp(TEXT))

    assert all(0 < ent._.trust < 1 for ent in doc.ents)


def test_an_unknown_attribute_is_refused():
    with pytest.raises(InvalidInputError, match="attributes must be among"):
        EntityConfidence(spacy.blank("en"), attributes={"certainty": "x"})


def test_a_source_that_is_not_there_names_the_components():
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": MAP, "source": "nerr"})

    with pytest.raises(InvalidInputError, match="no component 'nerr', only ner, knn_ue_entities"):
        component.fit(examples(nlp, 4, seed=1))


def test_labeled_entities_are_aligned_with_the_words_of_the_pipeline(nlp):
    from spacy.tokens import Doc
    from spacy.training import Example

    gold = Doc(nlp.vocab, words=["Ada", "Turing's", "dog"], spaces=[True, True, False])
    gold.set_ents([Span(gold, 0, 1, label="PER")], default="outside")

    (found,) = gold_docs(nlp, [Example(nlp.make_doc(gold.text), gold)], skip=["knn_ue_entities"], batch_size=4)

    assert [word.text for word in found.doc] == ["Ada", "Turing", "'s", "dog"] and found.entities == ((0, 1, "PER"),)


@pytest.mark.parametrize("kind", ["spacy", "offsets", "spans", "tokens", "conll"])
def test_a_file_of_each_kind_gives_the_same_entities(nlp, tmp_path, kind):
    path = tmp_path / {"spacy": "gold.spacy", "conll": "gold.conll"}.get(kind, "gold.jsonl")
    doc = nlp.make_doc("Ada Turing met Oslo")
    doc.set_ents([Span(doc, 0, 2, label="PER"), Span(doc, 3, 4, label="LOC")], default="outside")
    words, tags = [word.text for word in doc], ["B-PER", "I-PER", "O", "B-LOC"]
    offsets = [[0, 10, "PER"], [15, 19, "LOC"]]
    if kind == "spacy":
        DocBin(docs=[doc]).to_disk(path)
    elif kind == "conll":
        path.write_text("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)))
    else:
        spans = [{"start": start, "end": end, "label": label} for start, end, label in offsets]
        rows = {"offsets": {"text": doc.text, "entities": offsets}, "spans": {"text": doc.text, "spans": spans}}
        path.write_text(json.dumps(rows.get(kind, {"tokens": words, "tags": tags})) + "\n")

    (found,) = read_examples(nlp, path)

    assert [(ent.text, ent.label_) for ent in found.reference.ents] == [("Ada Turing", "PER"), ("Oslo", "LOC")]


def test_a_file_that_is_no_doc_bin_is_refused_in_one_sentence(nlp, tmp_path):
    (tmp_path / "bad.spacy").write_bytes(b"not a DocBin")

    with pytest.raises(InvalidInputError, match="must be a DocBin as spaCy writes it"):
        read_examples(nlp, tmp_path / "bad.spacy")
