"""Tagged sentences whose truth is known, a reader that sees it well, and spans that a judged model got partly wrong."""

from dataclasses import dataclass

import numpy as np

from knn_ue.entities import Spans
from knn_ue.iob2 import extract_entities

TYPES = ("LOC", "PER")


@dataclass(frozen=True)
class Marked:
    """Word vectors, gold tags, and what the judged model marked, with own evidence that knows something."""

    vectors: np.ndarray
    tags: list
    spans: Spans
    own: np.ndarray

    def from_sentence(self, number):
        """The sentences from this one on."""
        start = int(self.spans.starts[number])
        kept = self.spans.first >= start
        return Marked(
            self.vectors[start:],
            self.tags[start:],
            Spans(
                kind=self.spans.kind[kept],
                first=self.spans.first[kept] - start,
                last=self.spans.last[kept] - start,
                starts=self.spans.starts[number:] - start,
                n_words=self.spans.n_words - start,
            ),
            self.own[kept],
        )


def marked_sentences(n_sentences, seed, noise=0.5):
    """Sentences of 8 words with entities of one to three words; one span in three is wrong in type or border."""
    rng = np.random.default_rng(seed)
    names = ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")]
    tags, found, own = [], [], []
    for sentence in range(n_sentences):
        places = sorted(rng.choice([0, 3, 6], size=rng.integers(1, 3), replace=False).tolist())
        line = ["O"] * 8
        for place in places:
            length, kind = int(rng.integers(1, 3)), TYPES[rng.integers(2)]
            line[place : place + length] = [f"B-{kind}", *[f"I-{kind}"] * (length - 1)][: 8 - place]
        for kind, first, last in extract_entities(line):
            number, wrong = TYPES.index(kind), rng.random() < 1 / 3
            if wrong and rng.random() < 0.5:
                number = 1 - number
            elif wrong:
                last = min(last + 1, 7) if last == first else first
            wrong &= (TYPES[number], first, last) not in extract_entities(line)
            found.append((number, 8 * sentence + first, 8 * sentence + last))
            own.append((0.0 if wrong else 1.0) + rng.normal())
        tags += line
    kind, first, last = np.array(found).T
    centers = 0.5 * np.eye(len(names), 16)
    codes = np.array([names.index(tag) for tag in tags])
    vectors = (centers[codes] + 0.25 * noise * rng.normal(size=(len(codes), 16))).astype(np.float32)
    spans = Spans(kind=kind, first=first, last=last, starts=8 * np.arange(n_sentences), n_words=8 * n_sentences)
    return Marked(vectors, tags, spans, np.array(own))
