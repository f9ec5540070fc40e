"""Entities as tools write them down: where they stand, which of two that overlap stands, and what is refused."""

import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.marked import read_marked, split_text

WORDS = ["Ada", "Lovelace", "met", "Ada", "in", "Oslo", "."]
TEXT = "Ada Lovelace met Ada in Oslo."


def places(answer):
    return [(one.kind, one.first, one.last) for one in answer.found]


def of_text(entities):
    return read_marked(entities, [], "row 0", text=TEXT, places=split_text(TEXT))


@pytest.mark.parametrize(
    "entities",
    [
        [{"text": "Oslo", "type": "LOC"}],
        [{"text": "Oslo", "label": "LOC"}],
        [{"start": 5, "end": 6, "type": "LOC"}],
        {"LOC": ["Oslo"]},
        {"LOC": "Oslo", "PER": None},
        ["O", "O", "O", "O", "O", "B-LOC", "O"],
        '[{"text": "Oslo", "type": "LOC"}]',
        '{"LOC": ["Oslo"]}',
    ],
    ids=str,
)
def test_every_shape_says_the_same(entities):
    answer = read_marked(entities, WORDS, "row 0")

    assert places(answer) == [("LOC", 5, 5)] and answer.not_found == ()


@pytest.mark.parametrize(
    "entity",
    [{"text": "Oslo"}, {"start": 24, "end": 28}, {"start_char": 24, "end_char": 28}, {"start": 25, "end": 27}],
    ids=str,
)
def test_in_a_text_start_and_end_are_characters(entity):
    assert places(of_text([entity | {"type": "LOC"}])) == [("LOC", 5, 5)]


def test_a_string_stands_wherever_its_words_do():
    assert places(read_marked({"PER": ["Ada"]}, WORDS, "row 0")) == [("PER", 0, 0), ("PER", 3, 3)]


@pytest.mark.parametrize("text", ["Ad", "slo", "da Love"])
def test_a_part_of_a_word_is_not_found(text):
    answer = read_marked([{"text": text, "type": "PER"}], WORDS, "row 0")

    assert answer.found == () and answer.not_found == (text,)


@pytest.mark.parametrize(("text", "words"), [("Goldman, Sachs", "Goldman , Sachs"), ("U.S.", "U.S."), ("A  B", "A B")])
def test_white_space_around_marks_does_not_matter(text, words):
    assert places(read_marked({"ORG": [text]}, words.split(), "row 0")) == [("ORG", 0, len(words.split()) - 1)]


def test_case_counts_only_where_it_helps():
    words = ["US", "us", "Us"]

    assert places(read_marked({"LOC": ["US"]}, words, "row 0")) == [("LOC", 0, 0)]
    assert places(read_marked({"LOC": ["uS"]}, words, "row 0")) == [("LOC", 0, 0), ("LOC", 1, 1), ("LOC", 2, 2)]


def test_of_two_that_overlap_the_surer_stands():
    sure = [
        {"text": "Ada Lovelace", "type": "PER", "confidence": 0.4},
        {"text": "Lovelace", "type": "LOC", "confidence": 0.9},
    ]

    assert places(read_marked(sure, WORDS, "row 0")) == [("LOC", 1, 1)]


def test_of_two_that_overlap_and_say_nothing_the_longer_stands():
    both = [{"text": "Lovelace", "type": "LOC"}, {"text": "Ada Lovelace", "type": "PER"}]

    assert places(read_marked(both, WORDS, "row 0")) == [("PER", 0, 1)]


def test_a_confidence_of_the_row_is_that_of_entities_without_one():
    marks = [{"text": "Oslo", "type": "LOC"}, {"text": "Lovelace", "type": "PER", "score": 0.5}]

    answer = read_marked(marks, WORDS, "row 0", confidence=0.7)

    assert [one.confidence for one in answer.found] == [0.5, 0.7]


@pytest.mark.parametrize("nothing", [None, "", [], {}, float("nan"), {"PER": []}])
def test_nothing_marks_nothing(nothing):
    assert read_marked(nothing, WORDS, "row 0").tags(7) == ("O",) * 7


def test_tags_are_iob2():
    answer = read_marked({"PER": ["Ada Lovelace", "Ada"]}, WORDS, "row 0")

    assert answer.tags(7) == ("B-PER", "I-PER", "O", "B-PER", "O", "O", "O")


@pytest.mark.parametrize(
    ("entities", "message"),
    [
        (7, "must be a list of entities or tags, got '7'"),
        ("not JSON", "must be a JSON list of entities or tags, got 'not JSON'"),
        (["O"], "row 0 has 7 words but 1 tags as its answer"),
        (["O"] * 6 + ["LOC"], "has the tag 'LOC', which is not IOB2"),
        ([{"text": "Oslo"}], "has no type"),
        ([["Oslo", "LOC"]], 'must be {"text", "type"} or {"start", "end", "type"}'),
        ([{"text": "Oslo", "type": "LOC", "confidence": 95}], "must lie within 0 and 1, got 95: write 0.95"),
        ([{"start": 1.5, "end": 2, "type": "LOC"}], "start of an entity of row 0 must be a whole number, got '1.5'"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused(entities, message):
    with pytest.raises(InvalidInputError) as error:
        read_marked(entities, WORDS, "row 0")

    assert message in str(error.value)


@pytest.mark.parametrize("entity", [{"start": 6, "end": 9}, {"start": -1, "end": 1}, {"start": 2, "end": 2}])
def test_places_outside_the_sentence_are_not_found(entity):
    assert read_marked([entity | {"type": "LOC"}], WORDS, "row 0").found == ()


def test_split_text_joins_to_the_text_again():
    text = "It's 3.5 %, café—no?"

    assert "".join(text[start:end] for start, end in split_text(text)) == text.replace(" ", "")
