"""One batch of many requests through the model: encode once, search once, and cut the results apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Literal

import numpy as np

from knn_ue.answers import AnyAnswer, SentenceAnswer
from knn_ue.arrays import FloatArray
from knn_ue.calibrators.contract import Calibrator, Found, take_found
from knn_ue.encoding import Example
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import Fitted
from knn_ue.pipeline.answers import of_rows
from knn_ue.pipeline.domains import answer_in_domains, asked_domains, calibrator_of, scale_of
from knn_ue.pipeline.fitted import closeness, shown_neighbors
from knn_ue.serving.work.explaining import Why, explain_rows, in_words_of
from knn_ue.serving.work.state import Served
from knn_ue.types import Outputs

Kind = Literal["answer", "explain", "encode"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one request wants of the model; without `abstain_below` the fitted decisions apply.

    `domain` is for examples that name none.
    """

    kind: Kind
    examples: Sequence[Example]
    top: int = 0
    top_k: int | None = None
    abstain_below: float | None = None
    domain: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Done:
    """What one request gets: answers (with `why` if it asked), or the outputs of the model; and from which folder.

    `near` is the distance and agreement of the neighbors of each row; None where the method looks at none.
    """

    served: Served
    answers: list[AnyAnswer]
    why: list[list[Why]]
    outputs: Outputs
    near: tuple[FloatArray, FloatArray] | None = None


def run_batch(served: Served, works: Sequence[Work]) -> list[Done | Exception]:
    """Return the result of each work, all of them from one pass through the model."""
    examples = [example for work in works for example in work.examples]
    outputs = served.pipe.encoder.encode(examples, with_labels=False)
    cuts = _cuts(works, tagging=outputs.groups is not None)
    refused = {number: error for number, work in enumerate(works) if (error := _refusal(served, work)) is not None}
    asked = [number for number, work in enumerate(works) if work.kind != "encode" and number not in refused]
    answered: dict[int, Done | Exception] = {**refused}
    if asked:
        answered |= _answer(served, works, outputs, cuts, asked)
    return [
        answered.get(number)
        or Done(
            served=served,
            answers=[],
            why=[],
            outputs=outputs if len(works) == 1 else outputs.take(slice(cuts[number], cuts[number + 1])),
        )
        for number in range(len(works))
    ]


def _answer(
    served: Served, works: Sequence[Work], outputs: Outputs, cuts: Sequence[int], asked: Sequence[int]
) -> dict[int, Done]:
    fitted = served.pipe.fitted_
    rows = np.concatenate([np.arange(cuts[number], cuts[number + 1]) for number in asked])
    wanted = outputs if len(rows) == len(outputs) else outputs.take(rows)
    calibrator = _frozen(fitted.calibrator)
    found = calibrator.search(wanted)
    answers = answer_in_domains(
        [_for_domain(example, works[number]) for number in asked for example in works[number].examples],
        wanted,
        fitted,
        base=calibrator,
        abstain_below=[works[number].abstain_below for number in asked for _ in works[number].examples],
        top=max(works[number].top for number in asked),
        top_k=max((works[number].top_k or 0 for number in asked), default=0) or None,
        found=found,
    )
    neighbors = shown_neighbors(found)
    near = None if neighbors is None else closeness(neighbors, wanted.predicted)
    searched = calibrator.searched(wanted)
    looked_up = np.ones(len(wanted), dtype=bool) if searched is None else searched
    done: dict[int, Done] = {}
    first_answer = first_row = 0
    for number in asked:
        work = works[number]
        mine = [_as_asked(answer, work) for answer in answers[first_answer : first_answer + len(work.examples)]]
        part = slice(first_row, first_row + cuts[number + 1] - cuts[number])
        first_answer, first_row = first_answer + len(work.examples), part.stop
        taken = wanted.take(part)
        why: list[list[Why]] = []
        if work.kind == "explain":
            why = _explained(fitted, calibrator, work, taken, take_found(found, part))
            if taken.groups is None:
                known = of_rows([row for rows in why for row in rows], taken, fitted.familiarity)
                why = [[row] for row in known]
            if calibrator.judges_given and taken.groups is None:
                why = [[in_words_of(answer, row) for row in rows] for answer, rows in zip(mine, why, strict=True)]
        done[number] = Done(
            served=served,
            answers=mine,
            why=why,
            outputs=taken,
            near=None if near is None else (near[0][part][looked_up[part]], near[1][part][looked_up[part]]),
        )
    return done


def _refusal(served: Served, work: Work) -> Exception | None:
    """Return why a work cannot be done: it may name a domain that was forgotten since the request was read."""
    if work.kind != "encode":
        try:
            asked_domains(served.pipe.fitted_, work.examples, work.domain)
        except InvalidInputError as error:
            return error
    return None


def _for_domain(example: Example, work: Work) -> Example:
    return example if work.domain is None or example.domain else replace(example, domain=work.domain)


def _explained(fitted: Fitted, base: Calibrator, work: Work, outputs: Outputs, found: Found) -> list[list[Why]]:
    """Return the reasons of each example, by the calibrator of its domain."""
    domains = asked_domains(fitted, work.examples, work.domain)
    tagging = outputs.groups is not None
    if len(set(domains)) == 1:
        reasons = explain_rows(outputs, calibrator_of(fitted, domains[0], base=base), found, top=work.top)
        reasons = [replace(row, adapted_to=scale_of(fitted, domains[0])) for row in reasons]
        return _by_example(reasons, work.examples, tagging=tagging)
    ends = list(accumulate(n_rows_of(work.examples, tagging=tagging)))
    return [
        [
            replace(row, adapted_to=scale_of(fitted, domain))
            for row in explain_rows(
                outputs.take(slice(start, end)),
                calibrator_of(fitted, domain, base=base),
                take_found(found, slice(start, end)),
                top=work.top,
            )
        ]
        for domain, start, end in zip(domains, [0, *ends], ends, strict=False)
    ]


def _frozen(calibrator: Calibrator) -> Calibrator:
    """Return the calibrator over its stores as they are now, so that a batch never sees half of a change."""
    return calibrator.with_stores({name: store.detached() for name, store in calibrator.stores.items()})


def _cuts(works: Sequence[Work], *, tagging: bool) -> list[int]:
    """Return where the rows of each work begin, and where the last ends; in tagging each word is a row."""
    return [0, *accumulate(sum(n_rows_of(work.examples, tagging=tagging)) for work in works)]


def n_rows_of(examples: Sequence[Example], *, tagging: bool) -> list[int]:
    """Return how many rows each example is: one, or in tagging one a word."""
    return [len(example.parts) if tagging else 1 for example in examples]


def _by_example(rows: list[Why], examples: Sequence[Example], *, tagging: bool) -> list[list[Why]]:
    """Return the reasons of each example: one for a text or pair, one for each word of a sentence."""
    ends = list(accumulate(n_rows_of(examples, tagging=tagging)))
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _as_asked(answer: AnyAnswer, work: Work) -> AnyAnswer:
    """Return the answer with as many neighbors and labels as its own request asked for."""
    if isinstance(answer, SentenceAnswer):
        entities = tuple(replace(entity, neighbors=entity.neighbors[: work.top]) for entity in answer.entities)
        words = tuple(replace(word, probabilities=_likely(word.probabilities, work.top_k)) for word in answer.words)
        return replace(answer, entities=entities, words=words)
    likely = _likely(answer.probabilities, work.top_k)
    return replace(answer, neighbors=answer.neighbors[: work.top], probabilities=likely)


def _likely(probabilities: Mapping[str, float] | None, top_k: int | None) -> dict[str, float] | None:
    return None if probabilities is None or top_k is None else dict(islice(probabilities.items(), top_k))
