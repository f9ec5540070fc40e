"""The records users are given: one JSON shape, and a new optional field is one line."""

import json
from dataclasses import dataclass, fields

import pytest

from knn_ue.answers import (
    Answer,
    Entity,
    EntityExplanation,
    Explanation,
    MissedEntity,
    NeighborExample,
    SentenceAnswer,
    SentenceExplanation,
    Word,
)

NEAR = NeighborExample(id=3, label="pos", distance=0.5, text=None, agrees=True)
RECORDS = (Answer, Entity, Word, MissedEntity, SentenceAnswer, Explanation, EntityExplanation, SentenceExplanation)


def test_what_has_no_value_is_left_out_unless_the_field_is_always_there():
    answer = Answer(label=None, score=0.5, raw_score=0.9, abstained=True, would_be="pos", neighbors=(NEAR,))

    assert answer.to_dict() == {
        "label": None,
        "score": 0.5,
        "raw_score": 0.9,
        "abstained": True,
        "would_be": "pos",
        "neighbors": [{"id": 3, "label": "pos", "distance": 0.5, "text": None, "agrees": True}],
    }


def test_a_sentence_becomes_lists_of_dicts():
    word = Word(word="Oslo", tag="B-LOC", score=0.5, raw_score=0.9, abstained=False)
    entity = Entity(type="LOC", text="Oslo", start=0, end=1, score=0.5, raw_score=0.9, abstained=False, neighbors=())
    missed = MissedEntity(type="PER", text="Ada", start=1, end=2, score=0.3)

    answer = SentenceAnswer(words=(word,), entities=(entity,), score=0.4, none_missed=0.9, missed=(missed,))

    plain = answer.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["words"] == [{"word": "Oslo", "tag": "B-LOC", "score": 0.5, "raw_score": 0.9, "abstained": False}]
    assert plain["missed"] == [{"type": "PER", "text": "Ada", "start": 1, "end": 2, "score": 0.3}]


def test_a_new_optional_field_is_in_the_json_where_it_has_a_value():
    @dataclass(frozen=True, kw_only=True)
    class Later(Answer):
        familiarity: float | None = None

    given = {"label": "pos", "score": 0.5, "raw_score": 0.9, "abstained": False, "neighbors": ()}

    assert Later(**given, familiarity=0.2).to_dict() == Answer(**given).to_dict() | {"familiarity": 0.2}
    assert Later(**given).to_dict() == Answer(**given).to_dict()


@pytest.mark.parametrize("record", RECORDS)
def test_every_record_calls_the_same_thing_by_the_same_name(record):
    names = {field.name for field in fields(record)}

    assert not names & {"confidence", "raw_confidence", "predicted", "predicted_name", "label_name", "first", "last"}


def test_an_explanation_reads_as_text():
    explanation = Explanation(
        text="a film",
        label="pos",
        score=0.6,
        raw_score=0.9,
        weight=0.5,
        distance_term=0.2,
        label_term=0.3,
        usual_distance_term=0.4,
        usual_label_term=0.3,
        usual_score=0.7,
        n_agreeing=1,
        n_neighbors=1,
        raised_by=(),
        lowered_by=("more distant neighbors than usual",),
        neighbors=(NEAR,),
    )

    assert str(explanation).splitlines() == [
        "a film",
        "pos: 90.0 % -> 60.0 %",
        "  Model-wide: in a typical neighborhood, calibration lowers the model's 90.0 % to 70.0 %.",
        "  This input: its neighborhood lowers that to 60.0 %, because of more distant neighbors than usual.",
        "  1 of the 1 nearest training examples are labeled pos, as predicted.",
        "  agrees     0.500  pos  id 3",
    ]
