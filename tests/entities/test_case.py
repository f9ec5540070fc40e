"""What capitals say: only in sentences of usual case, and not of the first word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from knn_ue.entities import find_entities
from knn_ue.entities.evidence import WordCase
from knn_ue.types import Outputs

NAMES = ("O", "B-PER", "I-PER")
WORDS = st.sampled_from(
    [
        "Oslo",
        "oslo",
        "the",
        "The",
        "@",
        "#",
        "#Oslo",
        "ana",
        "1811",
        ",",
        ".",
        "?",
        "I",
        "I'm",
        '"',
        "iPhone",
        "ÉCOLE",
        "é",
    ]
)


def spans_of(*tags):
    numbers = [NAMES.index(tag) for tag in tags]
    outputs = Outputs(logits=np.eye(len(NAMES))[numbers], groups=[0] * len(tags), class_names=NAMES)
    return find_entities(outputs, outputs.predicted)


def ends_of(words, tags):
    spans = spans_of(*tags.split())
    case = WordCase.of(words.split(), [0])
    return case.small_end(spans).tolist(), case.capital_beside(spans).tolist()


@given(st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=4))
def test_the_case_of_words_equals_that_of_loops(sentences):
    words = [word for sentence in sentences for word in sentence]
    starts = np.cumsum([0, *[len(sentence) for sentence in sentences[:-1]]]).tolist()

    case = WordCase.of(words, starts)

    expected = [row for sentence in sentences for row in reference.word_case(sentence)]
    found = np.column_stack([case.telling, case.small, case.capital])
    np.testing.assert_array_equal(found, np.array(expected))
    expected = [row for sentence in sentences for row in reference.standing_out(sentence)]
    np.testing.assert_array_equal(np.column_stack([case.meant, case.stands_out]), np.array(expected))


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("In Oslo it rains", "Oslo"),
        ("it rains in Oslo", "Oslo"),  # careless, but whoever wrote it used a capital
        ("it rains in oslo", None),  # no capital at all: they say nothing
        ("Rain in oslo", ""),
        ("IN OSLO IT RAINS", None),
        ("Rain Hits Oslo in June", "Hits Oslo June"),  # usual case: a list of names looks like this, too
        ("rain Hits Oslo in June", None),
        ("it rains , I think", None),
        ("it rains , I think , in Oslo", "Oslo"),
        ("@ Ana it rains in Oslo", "Oslo"),
        ("it rains . Again in Oslo", "Oslo"),
        ("1811 , 1812", None),
    ],
)
def test_words_stand_out_where_capitals_are_meant(words, chosen):
    case = WordCase.of(words.split(), [0])

    assert case.meant.any() == case.meant.all() == (chosen is not None)
    assert " ".join(np.array(words.split())[case.stands_out]) == (chosen or "")


@pytest.mark.parametrize(
    ("words", "tags", "small_end", "capital_beside"),
    [
        ("In Oslo it rains", "O B-PER O O", [0], [0]),
        ("In Oslo it rains", "O B-PER I-PER O", [1], [0]),
        ("In New York it rains", "O O B-PER O O", [0], [1]),
        ("In New York it rains", "O B-PER I-PER O O", [0], [0]),
        ("In New York it rains", "O B-PER B-PER O O", [0, 0], [0, 0]),
        ("Oslo rains", "O B-PER", [1], [0]),  # the first word is always capitalized
        ("IN NEW YORK IT RAINS", "O O B-PER O O", [0], [0]),  # shouting
        ("in New York it rains", "O O B-PER I-PER O", [0], [0]),  # careless
        ("Ask @ ana now", "O B-PER I-PER O", [0], [0]),
        ("Ask #ana now", "O B-PER O", [0], [0]),
        ("Ask @ ana now", "O O B-PER O", [0], [1]),  # cut from its mark
        ("ask ana @ home", "O B-PER O O", [0], [0]),  # the mark belongs to what follows
        ("Ask 1811 now", "O B-PER O", [0], [0]),
    ],
)
def test_ends_and_neighbors_of_entities(words, tags, small_end, capital_beside):
    assert ends_of(words, tags) == (small_end, capital_beside)
