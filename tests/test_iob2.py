"""The one reader of IOB2: what a tag is, what a tag set is, and where entities are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue import iob2
from knn_ue.data.tags import is_tag
from knn_ue.encoding import Example
from knn_ue.entities.spans import TagSet, is_tagged
from knn_ue.metrics import mark_entities
from knn_ue.training.labels import label_names
from knn_ue.types import Outputs

kinds = st.sampled_from(["PER", "LOC", "WORK-OF-ART", "a", "-"])
tags = st.one_of(
    st.sampled_from(["O", "B", "I"]), st.builds("{}-{}".format, st.sampled_from("BI"), kinds)
)  # every form that the docstring of iob2 calls a tag
texts = st.one_of(tags, st.text(max_size=5), st.sampled_from(["B-", "I-", "S-PER", "NOUN", "o", "BI", ""]))


@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (["O", "B-PER", "I-PER"], True),
        (["O", "B", "I"], True),
        (["B-PER"], True),
        (["O"], False),
        ([], False),
        (["O", "B-"], False),
        (["O", "BI"], False),
        (["O", "S-PER"], False),
        (["NOUN", "VERB"], False),
    ],
)
def test_a_tag_set_is_tags_of_which_one_marks_an_entity(names, answer):
    assert iob2.is_tag_set(names) is answer


@given(st.lists(texts, max_size=5, unique=True))
def test_metrics_entities_and_training_agree_on_what_a_tag_set_is(names):
    answer = iob2.is_tag_set(names)

    assert mark_entities(names) is answer
    if len(names) > 1:
        assert is_tagged(Outputs(logits=np.zeros((1, len(names))), groups=[0], class_names=names)) is answer
    if answer:
        made = label_names([Example(tuple(names), tuple(names))], "token-classification")
        assert iob2.is_tag_set(made)
        assert set(names) <= set(made)


@given(texts)
def test_every_tag_of_ours_is_a_tag_to_the_file_readers(text):
    assert iob2.split_tag(text) is None or is_tag(text)


@given(st.lists(tags, min_size=2, max_size=6, unique=True))
def test_a_tag_set_numbers_the_type_of_every_tag(names):
    found = TagSet.of(names)

    read = ["O" if kind < 0 else found.names[kind] for kind in found.kind]
    assert read == ["O" if name == "O" else iob2.parse_tag(name)[1] for name in names]


@settings(deadline=None)  # the first call imports scikit-learn
@given(st.lists(tags, max_size=12))
def test_entities_are_those_of_seqeval(sequence):
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")

    assert iob2.extract_entities(sequence) == seqeval.get_entities(sequence)


@given(st.lists(tags, min_size=1, max_size=8), st.lists(tags, min_size=1, max_size=8))
def test_a_sentence_reads_the_same_alone_and_after_another(first, second):
    names, (spans,) = iob2.find_spans([first + second], np.array([0, len(first)]))

    together = [(names[kind], start, end) for kind, start, end in spans.T.tolist()]
    moved = [(kind, start + len(first), end + len(first)) for kind, start, end in iob2.extract_entities(second)]
    assert together == iob2.extract_entities(first) + moved
