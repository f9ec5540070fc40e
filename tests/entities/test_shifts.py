"""The strange sentences that knn-ue-entity was chosen on: their tags are right, and they are strange."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from knn_ue.iob2 import find_spans

PLACE = Path(__file__).parents[2] / "benchmarks" / "entity_shifts.py"


def tagged(sentence):
    tokens, tags = zip(*(word.split("/") for word in sentence.split()), strict=True)
    return {"tokens": list(tokens), "tags": list(tags)}


ROWS = [
    tagged(
        "The/O University/B-ORG of/I-ORG Oslo/I-ORG ,/O Norway/B-LOC and/O John/B-PER Smith/I-PER met/O today/O ./O"
    ),
    tagged(
        "Ann/B-PER Lee/I-PER ,/O Peter/B-PER Jones/I-PER and/O Maria/B-PER left/O Paris/B-LOC for/O Berlin/B-LOC ./O"
    ),
] * 5


@pytest.fixture(scope="module")
def shifts():
    spec = importlib.util.spec_from_file_location("entity_shifts", PLACE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def entities_of(row):
    names, (found,) = find_spans([row["tags"]], np.array([0]))
    rows = zip(*(part.tolist() for part in found[:3]), strict=True)
    return [(names[kind], tuple(row["tokens"][first : last + 1])) for kind, first, last in rows]


@pytest.mark.parametrize("style", ["bare", "typos", "invented", "swapped", "jumbled", "fragment", "listed"])
def test_every_style_keeps_tags_right_and_changes_the_words(shifts, style):
    changed = shifts.shifted(ROWS, style)

    assert [row["tokens"] for row in changed] != [row["tokens"] for row in ROWS]
    assert all(len(row["tokens"]) == len(row["tags"]) for row in changed)
    for row, old in zip(changed, ROWS, strict=True):
        now, was = entities_of(row), entities_of(old)
        if style in ("bare", "jumbled", "listed"):
            assert now == was
        elif style == "fragment":
            assert set(now) <= set(was)
        else:
            assert [kind for kind, _ in now] == [kind for kind, _ in was]
        assert not any(tag.startswith("I-") for tag in row["tags"][:1])


def test_a_list_has_nothing_between_its_entities(shifts):
    assert all("O" not in row["tags"] for row in shifts.shifted(ROWS, "listed"))


def test_the_styles_are_the_same_every_time(shifts):
    assert all(shifts.shifted(ROWS, style) == shifts.shifted(ROWS, style) for style in shifts.SHIFTS)
