"""What people and Presidio are shown of a scored doc."""

import re

import pytest

spacy = pytest.importorskip("spacy")

from spacy.tokens import DocBin, Span  # noqa: E402

from knn_ue import UncertaintyPipeline  # noqa: E402
from knn_ue.errors import InvalidInputError  # noqa: E402
from knn_ue.spacy import render  # noqa: E402
from knn_ue.spacy.fitting import fit_pipeline  # noqa: E402
from pipelines import WORDS, fit  # noqa: E402
from tiny_models import save_tiny_model, tagged_rows  # noqa: E402
from tiny_spacy import examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
TEXT = "Ada Turing met Grace Hopper <in> Oslo today."


@pytest.fixture(scope="module")
def nlp():
    nlp = trained_pipeline()
    component = nlp.add_pipe("knn_ue_entities", config={"map": {"PERSON": "PER", "GPE": "LOC"}})
    component.fit(examples(nlp, 80, seed=1), examples(nlp, 80, seed=2))
    return nlp


def test_the_picture_has_a_number_for_each_entity_and_escapes_the_text(nlp):
    doc = nlp(TEXT)

    shown = render(doc)

    for ent in doc.ents:
        assert f"{ent.label_} {ent._.confidence:.2f}" in shown
    assert "&lt;" in shown and "<in" not in shown and f"none missed: {doc._.confidence:.2f}" in shown


def test_the_picture_without_its_tags_is_the_text(nlp):
    shown = re.sub(r"<span.*?</span>|<p.*?</p>|<[^>]*>", "", render(nlp(TEXT)))

    assert shown.replace("&lt;", "<").replace("&gt;", ">") == TEXT


def test_a_missed_span_has_a_dashed_frame_and_a_question_mark(nlp):
    doc = nlp(TEXT, disable=["knn_ue_entities"])
    doc.set_ents([], default="outside")
    nlp.get_pipe("knn_ue_entities")(doc)

    shown = render(doc, page=True)

    assert "dashed" in shown and re.search(r"(PER|LOC)\? [01]\.\d\d", shown) and shown.startswith("<!DOCTYPE html>")


def test_an_entity_without_a_score_is_shown_without_a_number(nlp):
    doc = nlp(TEXT, disable=["knn_ue_entities"])
    doc.set_ents([Span(doc, 0, 2, label="DATE")])
    nlp.get_pipe("knn_ue_entities")(doc)

    assert "DATE</span>" in render(doc)


def test_presidio_gets_the_confidence_as_its_score(nlp):
    pytest.importorskip("presidio_analyzer")
    from knn_ue.spacy.presidio import calibrated_analyzer

    analyzer = calibrated_analyzer(nlp)

    found = analyzer.analyze(TEXT, language="en", entities=["PERSON", "LOCATION"])
    expected = {(ent.start_char, ent.end_char): ent._.confidence for ent in nlp(TEXT).ents}
    assert {(one.start, one.end): one.score for one in found} == pytest.approx(expected)
    sure = analyzer.analyze(TEXT, language="en", entities=["PERSON", "LOCATION"], score_threshold=0.99)
    assert len(sure) < len(found)


def test_presidio_leaves_out_what_has_no_score_unless_told(nlp):
    pytest.importorskip("presidio_analyzer")
    from knn_ue.spacy.presidio import CalibratedSpacyRecognizer

    only_places = CalibratedSpacyRecognizer(nlp, types={"GPE": "LOCATION"})

    assert {one.entity_type for one in only_places.analyze(TEXT, [])} == {"LOCATION"}
    with pytest.raises(InvalidInputError, match="unscored must be None or between 0 and 1"):
        CalibratedSpacyRecognizer(nlp, unscored=2.0)


def test_the_scores_of_a_span_categorizer_are_calibrated_too():
    nlp = trained_pipeline(component="spancat")
    component = nlp.add_pipe("knn_ue_entities", config={"source": "spancat", "map": {"PERSON": "PER", "GPE": "LOC"}})
    component.fit(examples(nlp, 60, seed=1), examples(nlp, 60, seed=2))

    doc = nlp(TEXT)

    scored = [span for span in doc.spans["sc"] if span._.confidence is not None]
    assert scored and all(0 < span._.confidence < 1 for span in scored)


def test_the_spans_of_a_categorizer_may_be_its_labels(tmp_path):
    nlp = trained_pipeline(component="spancat")
    labeled = DocBin()
    for example in examples(nlp, 120, seed=3):
        doc = nlp.make_doc(example.reference.text)
        spans = [doc[ent.start : ent.end] for ent in example.reference.ents]
        kinds = [ent.label_ for ent in example.reference.ents]
        own = [Span(doc, span.start, span.end, label=kind) for span, kind in zip(spans, kinds, strict=True)]
        doc.spans["sc"] = [*own, *(Span(doc, x.start, x.start + 1, label=x.label_) for x in own)]  # some overlap
        labeled.add(doc)
    labeled.to_disk(tmp_path / "spans.spacy")
    nlp.to_disk(tmp_path / "plain")

    done = fit_pipeline(
        str(tmp_path / "plain"),
        str(tmp_path / "spans.spacy"),
        None,
        tmp_path / "fitted",
        source="spancat",
        renamed={"PERSON": "PER", "GPE": "LOC"},
    )
    opened = spacy.load(tmp_path / "fitted")

    assert done.types == ("LOC", "PER") and done.n_entities > 50
    doc = opened(TEXT)
    scored = [span for span in doc.spans["sc"] if span._.confidence is not None]
    (answer,) = UncertaintyPipeline.load(tmp_path / "fitted" / "knn_ue_entities")(TEXT)
    assert [round(x._.confidence, 5) for x in sorted(scored)] == [round(x.score, 5) for x in answer.entities]
    assert scored


def test_a_tagger_of_ours_sets_entities_and_their_confidence(tmp_path):
    pipe = fit(
        save_tiny_model(tmp_path / "model", family="bert", task=WORDS), WORDS, method="knn-ue-entity", n_neighbors=4
    )
    pipe.save(tmp_path / "ue")
    nlp = spacy.blank("en")
    nlp.add_pipe("knn_ue_tagger", config={"ue": str(tmp_path / "ue")})
    words = tagged_rows(6)[0]["tokens"]

    (doc,) = nlp.pipe([spacy.tokens.Doc(nlp.vocab, words=words)])

    (answer,) = pipe([words])
    assert [(ent.start, ent.end, ent.label_) for ent in doc.ents] == [(x.start, x.end, x.type) for x in answer.entities]
    assert [ent._.confidence for ent in doc.ents] == pytest.approx([x.score for x in answer.entities])
    assert doc._.confidence == pytest.approx(answer.score)
