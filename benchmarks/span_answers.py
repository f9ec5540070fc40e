"""Recorded answers of extractors on CoNLL++: what `spans_study.py` reads. They are for measurement only."""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from knn_ue.iob2 import extract_entities

TYPES = {"person": "PER", "organization": "ORG", "location": "LOC", "miscellaneous": "MISC"}
NAMES = ("PER", "ORG", "LOC", "MISC", "another type")
_SHORT = {"PERSON": "PER", "ORGANIZATION": "ORG", "LOCATION": "LOC", "MISC": "MISC"}
_LONGEST = 45  # answers of one sentence


def read_sentences(path: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words and the tags of a file in CoNLL columns, without the lines that begin a document."""
    blocks = [block.splitlines() for block in path.read_text(encoding="utf-8").split("\n\n")]
    rows = [[line.split(" ") for line in block if line and not line.startswith("-DOCSTART-")] for block in blocks]
    rows = [row for row in rows if row]
    return [[line[0] for line in row] for row in rows], [[line[-1] for line in row] for row in rows]


def read_answers(path: Path) -> list[list[dict[str, str]]]:
    """Return the entities of each answer: those of its first JSON object; none where it cannot be read."""
    with path.open(newline="", encoding="utf-8") as file:
        answers = [row[0] for row in csv.reader(file)][1:]
    return [list(_entities(answer)) for answer in answers]


def _entities(answer: str) -> Iterator[dict[str, str]]:
    found = re.search(r"\{.*?\}", answer, re.DOTALL)
    try:
        said = json.loads(found[0]) if found else {}
    except ValueError:
        return
    for name, many in said.items():
        if name in TYPES and isinstance(many, list):
            yield from ({"text": one, "type": TYPES[name]} for one in many if isinstance(one, str) and one.strip())


def read_stated(
    path: Path, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]
) -> dict[int, list[dict[str, object]]]:
    """Return the entities of ChatGPT with the confidence that it stated, by the number of their sentence.

    The file lists, sentence after sentence, what is right or was answered, but neither sentences nor their numbers. A
    run of answers belongs to a sentence if the right ones are just its entities and the others stand in it; the runs
    are those that cover most answers. Sentences without any entity are not found, nor are a sixth of the answers.
    """
    answers = json.loads(path.read_text(encoding="utf-8"))
    known = defaultdict(list)
    for number, (own, marks) in enumerate(zip(words, tags, strict=True)):
        known[frozenset(" ".join(own[x : y + 1]) for _, x, y in extract_entities(marks))].append(number)
    texts = [f" {' '.join(own)} " for own in words]
    best, back = [0.0] * (len(answers) + 1), [(max(0, n - 1), ()) for n in range(len(answers) + 1)]
    for start in range(len(answers)):
        if best[start] > best[start + 1]:
            best[start + 1], back[start + 1] = best[start], (start, ())
        right, others = set(), set()
        for end in range(start + 1, min(len(answers), start + _LONGEST) + 1):
            last = answers[end - 1]
            (others if last["truth"] == "O" else right).add(last["entity"])
            fits = [n for n in known.get(frozenset(right), ()) if right and all(x in texts[n] for x in others)]
            value = best[start] + (end - start) - 0.3  # of runs that cover as much, the fewer
            if fits and value > best[end]:
                best[end], back[end] = value, (start, tuple(fits))
    runs, end = [], len(answers)
    while end > 0:
        start, fits = back[end]
        runs.append((answers[start:end], fits))
        end = start
    found: dict[int, list[dict[str, object]]] = {}
    for run, fits in reversed(runs):
        number = next((n for n in fits if n not in found), None)
        if number is not None:
            found[number] = [
                {
                    "text": x["entity"],
                    "type": _SHORT.get(x["close_pred"], NAMES[-1]),
                    "confidence": x["CConf"] / 100,
                }
                for x in run
                if x["close_pred"] != "O"
            ]
    return found
