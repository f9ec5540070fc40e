"""Texts that clients stored reach a terminal, a report or a log without what would steer it."""

import json

import pytest

from knn_ue.answers import NeighborExample
from knn_ue.evaluation.tables import escaped
from knn_ue.shown import on_one_line, visible

EVIL = "a film\x1b]0;title\x07\x1b[2J\x9b31mred\r\nknn-ue: all is well\u202e\u2066\u2028end"


@pytest.mark.parametrize("shown", [visible, on_one_line, escaped])
def test_nothing_that_steers_a_terminal_is_left(shown):
    said = shown(EVIL)

    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert "\\u001b[2J" in said


def test_a_stored_text_cannot_begin_a_line():
    near = NeighborExample(id=1, label="pos", distance=0.5, text=EVIL, agrees=True)

    assert near.line().count("\n") == 0
    assert on_one_line("a\nb\u2028c") == "a b c"


def test_json_says_the_same_after_it_was_made_visible():
    assert json.loads(visible(json.dumps({"text": EVIL}, ensure_ascii=False))) == {"text": EVIL}


def test_ordinary_texts_of_any_script_stay_as_they_are():
    text = "naïve 映画 שלום مرحبا 👩‍🔬\ttab\nline"

    assert visible(text) == text
