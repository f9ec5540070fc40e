import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.data.perturb import KINDS, perturbed_rows

TEXTS = [((f"word{n} of a film that was long and slow",), ("pos" if n % 2 else "neg",)) for n in range(20)]
PAIRS = [((f"premise {n} is here", f"hypothesis {n} is there"), ("neutral",)) for n in range(20)]
SENTENCES = [(("Ada", "Lovelace", "saw", "old", "Oslo"), ("B-PER", "I-PER", "O", "O", "B-LOC")) for _ in range(200)]


@pytest.mark.parametrize(
    ("rows", "task"), [(TEXTS, "text-classification"), (PAIRS, "text-pair"), (SENTENCES, "token-classification")]
)
def test_every_row_has_one_copy_and_most_of_them_differ(rows, task):
    copies = perturbed_rows(rows, task)

    assert len(copies) == len(rows) and copies == perturbed_rows(rows, task)
    assert sum(copy != row for copy, row in zip(copies, rows, strict=True)) > len(rows) / 2
    assert all(part.strip() for parts, _ in copies for part in parts)


def test_labels_stay_and_a_text_is_joined_with_one_of_its_label_only():
    copies = perturbed_rows(TEXTS, "text-classification")

    assert [labels for _, labels in copies] == [labels for _, labels in TEXTS]
    for (text,), (label,) in copies[KINDS.index("joined") :: len(KINDS)]:
        numbers = [int(word.removeprefix("word")) for word in text.split() if word.startswith("word")]
        assert {("pos" if number % 2 else "neg") for number in numbers} == {label}


def test_both_texts_of_a_pair_change():
    copies = perturbed_rows(PAIRS, "text-pair")

    assert any(copy[0][1] != row[0][1] for copy, row in zip(copies, PAIRS, strict=True))


def test_tags_go_with_their_words():
    of_word = {"Ada": "PER", "Lovelace": "PER", "Oslo": "LOC"}

    for kind, (words, tags) in zip(KINDS * 40, perturbed_rows(SENTENCES, "token-classification"), strict=True):
        assert len(words) == len(tags)
        if kind in ("dropped", "cut", "joined"):
            assert all((tag[2:] or None) == of_word.get(word) for word, tag in zip(words, tags, strict=True))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_no_entity_begins_inside_itself(seed):
    for _, tags in perturbed_rows(SENTENCES[:10], "token-classification", seed=seed):
        for before, tag in zip(("O", *tags), tags, strict=False):
            assert not tag.startswith("I-") or before[2:] == tag[2:]
