"""Tag schemes: conversion keeps the entities, seqeval being the judge."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from knn_ue.data import convert_tags, read_rows
from knn_ue.errors import InvalidInputError

quick = settings(max_examples=150, deadline=None)
KINDS = ["PER", "LOC", "WORK-OF-ART"]
# A sentence is a list of (type or None, length): entities and gaps.
spans = st.lists(st.tuples(st.sampled_from([None, *KINDS]), st.integers(1, 3)), min_size=1, max_size=6)
any_tags = st.lists(st.sampled_from(["O", *(f"{p}-{k}" for p in "BIES" for k in ("PER", "LOC"))]), max_size=8)


def iob2(spans: list[tuple[str | None, int]]) -> list[str]:
    return [
        "O" if kind is None else f"{'I' if word else 'B'}-{kind}" for kind, length in spans for word in range(length)
    ]


def iob1(spans: list[tuple[str | None, int]]) -> list[str]:
    touching = [before == kind for (before, _), (kind, _) in zip([(None, 0), *spans], spans, strict=False)]
    return [
        "O" if kind is None else f"{'B' if touches and not word else 'I'}-{kind}"
        for (kind, length), touches in zip(spans, touching, strict=True)
        for word in range(length)
    ]


def bioes(spans: list[tuple[str | None, int]]) -> list[str]:
    return [
        "O" if kind is None else ("S" if length == 1 else "B" + "I" * (length - 2) + "E")[word] + f"-{kind}"
        for kind, length in spans
        for word in range(length)
    ]


def bilou(spans: list[tuple[str | None, int]]) -> list[str]:
    return [tag.replace("E-", "L-", 1).replace("S-", "U-", 1) for tag in bioes(spans)]


@quick
@given(spans)
@pytest.mark.parametrize("scheme", [iob1, iob2, bioes, bilou])
def test_every_scheme_becomes_the_same_iob2(scheme, spans: list[tuple[str | None, int]]) -> None:
    assert convert_tags(scheme(spans), scheme.__name__) == tuple(iob2(spans))


@quick
@given(spans)
@pytest.mark.parametrize("scheme", [iob1, bioes])
def test_conversion_keeps_the_entities_of_seqeval(scheme, spans: list[tuple[str | None, int]]) -> None:
    tags = scheme(spans)

    assert get_entities(list(convert_tags(tags, scheme.__name__))) == get_entities(tags)


@quick
@given(spans)
@pytest.mark.parametrize("scheme", [iob1, iob2, bioes, bilou])
def test_the_scheme_is_found_from_the_tags(scheme, spans: list[tuple[str | None, int]]) -> None:
    spans = [("PER", 2), (None, 1), *spans]

    assert convert_tags(scheme(spans), "auto") == tuple(iob2(spans))


@quick
@given(any_tags)
def test_tags_are_either_refused_or_keep_their_entities(tags: list[str]) -> None:
    try:
        converted = convert_tags(tags, "auto")
    except InvalidInputError:
        return

    assert get_entities(list(converted)) == get_entities(tags)


@quick
@given(any_tags)
def test_converted_tags_are_iob2(tags: list[str]) -> None:
    try:
        converted = convert_tags(tags, "auto")
    except InvalidInputError:
        return

    assert convert_tags(converted, "iob2") == converted


def test_tags_without_a_type_are_converted() -> None:
    assert convert_tags(["B", "E", "O", "S"], "bioes") == ("B", "I", "O", "B")


@pytest.mark.parametrize(
    ("scheme", "tags", "token", "words"),
    [
        ("iob2", ["O", "I-PER"], 2, "I-PER must continue an entity of its type .iob2., got 'O I-PER'"),
        ("iob2", ["B-PER", "I-LOC"], 2, "I-LOC must continue an entity of its type"),
        ("iob2", ["B-PER", "E-PER"], 2, "tags of the scheme iob2 begin with one of OBI, got 'E-PER'"),
        ("bioes", ["B-PER", "O"], 2, "an entity of type 'PER' must end with E"),
        ("bioes", ["S-PER", "E-PER"], 2, "E-PER must continue an entity of its type"),
        ("bioes", ["O", "B-PER"], 2, "an entity of type 'PER' must end with E"),
        ("bioes", ["S-PER", "U-PER"], 2, "tags of the scheme bioes begin with one of OBIES"),
        ("bilou", ["B-PER", "I-PER"], 2, "an entity of type 'PER' must end with L"),
        ("iob1", ["per"], 1, "a tag must be O, B-TYPE, I-TYPE"),
    ],
)
def test_an_impossible_sequence_is_an_error_at_its_token(scheme, tags: list[str], token: int, words: str) -> None:
    with pytest.raises(InvalidInputError, match=f"the tags, token {token}: {words}"):
        convert_tags(tags, scheme)


def test_the_scheme_is_found_over_the_whole_file(write) -> None:
    path = write("a.conll", "Ada I-PER\n\nParis I-LOC\nRome B-LOC\n")

    rows = list(read_rows(path, "token-classification"))

    assert [row.tags for row in rows] == [("B-PER",), ("B-LOC", "B-LOC")]


def test_a_stated_scheme_overrides_what_the_file_looks_like(write) -> None:
    path = write("a.conll", "Ada B-PER\nLovelace I-PER\nin O\nParis I-LOC\n")

    (row,) = read_rows(path, "token-classification", scheme="iob1")

    assert row.tags == ("B-PER", "I-PER", "O", "B-LOC")


def test_an_entity_left_open_is_an_error_at_the_line_of_its_last_word(write) -> None:
    path = write("a.conll", "Ada S-PER\n\nNew B-LOC\nYork I-LOC\n\nfine O\n")

    with pytest.raises(InvalidInputError, match=r"a\.conll, line 4: an entity of type 'LOC' must end with E"):
        list(read_rows(path, "token-classification"))
