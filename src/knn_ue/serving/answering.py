"""One batch of many requests through the model: encode once, search once, and cut the results apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.calibrators import Calibrator, Found
from knn_ue.encoding import Example
from knn_ue.pipeline.answers import Answer, tagged_answers, text_answers
from knn_ue.pipeline.fitted import closeness, shown_neighbors
from knn_ue.serving.explaining import explain_rows
from knn_ue.serving.state import Served
from knn_ue.types import Outputs

Kind = Literal["answer", "explain", "encode"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one request wants of the model; `threshold` None is the fitted one."""

    kind: Kind
    examples: Sequence[Example]
    top: int = 0
    threshold: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Done:
    """What one request gets: answers (with `why` if it asked), or the outputs of the model; and from which folder.

    `distance` and `agreement` are what drift is measured by; None where the method looks at no neighbors.
    """

    served: Served
    answers: list[Answer]
    why: list[list[dict[str, Any]]]
    outputs: Outputs
    distance: FloatArray | None = None
    agreement: FloatArray | None = None


def run_batch(served: Served, works: Sequence[Work]) -> list[Done | Exception]:
    """Return the result of each work, all of them from one pass through the model."""
    examples = [example for work in works for example in work.examples]
    outputs = served.pipe.encoder.encode(examples, with_labels=False)
    cuts = _cuts(served, works)
    asked = [number for number, work in enumerate(works) if work.kind != "encode"]
    answered = _answer(served, works, outputs, cuts, asked) if asked else {}
    return [
        answered.get(number)
        or Done(served=served, answers=[], why=[], outputs=outputs.take(slice(cuts[number], cuts[number + 1])))
        for number in range(len(works))
    ]


def _answer(
    served: Served, works: Sequence[Work], outputs: Outputs, cuts: Sequence[int], asked: Sequence[int]
) -> dict[int, Done]:
    pipe = served.pipe
    rows = np.concatenate([np.arange(cuts[number], cuts[number + 1]) for number in asked])
    wanted = outputs if len(rows) == len(outputs) else outputs.take(rows)
    examples = [example for number in asked for example in works[number].examples]
    thresholds = [pipe.abstention_threshold(works[n].threshold) for n in asked for _ in works[n].examples]
    calibrator = _frozen(pipe.calibrator_)
    found = calibrator.search(wanted)
    top = max(works[number].top for number in asked)
    if pipe.task == "token-classification":
        answers = tagged_answers(examples, wanted, calibrator, threshold=thresholds, top=top, found=found)
    else:
        answers = text_answers(wanted, calibrator, threshold=thresholds, top=top, found=found)
    near = _closeness(found, wanted)
    done: dict[int, Done] = {}
    first_answer = first_row = 0
    for number in asked:
        work = works[number]
        mine = [_cut_neighbors(a, work.top) for a in answers[first_answer : first_answer + len(work.examples)]]
        part = slice(first_row, first_row + cuts[number + 1] - cuts[number])
        first_answer, first_row = first_answer + len(work.examples), part.stop
        taken = wanted.take(part)
        done[number] = Done(
            served=served,
            answers=mine,
            why=_why(served, work, taken, calibrator) if work.kind == "explain" else [],
            outputs=taken,
            distance=None if near is None else near[0][part],
            agreement=None if near is None else near[1][part],
        )
    return done


def _cuts(served: Served, works: Sequence[Work]) -> list[int]:
    """Return where the rows of each work begin, and where the last ends; in tagging each word is a row."""
    words = served.pipe.task == "token-classification"
    sizes = [sum(len(e.parts) for e in work.examples) if words else len(work.examples) for work in works]
    return [0, *accumulate(sizes)]


def _frozen(calibrator: Calibrator) -> Calibrator:
    """Return the calibrator over its stores as they are now, so that a batch never sees half of a change."""
    return calibrator.with_stores({name: store.snapshot() for name, store in calibrator.stores.items()})


def _closeness(found: Found, outputs: Outputs) -> tuple[FloatArray, FloatArray] | None:
    neighbors = shown_neighbors(found)
    return None if neighbors is None else closeness(neighbors, outputs.predicted)


def _why(served: Served, work: Work, outputs: Outputs, calibrator: Calibrator) -> list[list[dict[str, Any]]]:
    rows = explain_rows(served, outputs, calibrator, top=work.top)
    if served.pipe.task != "token-classification":
        return [[row] for row in rows]
    parted, first = [], 0
    for example in work.examples:
        parted.append(rows[first : first + len(example.parts)])
        first += len(example.parts)
    return parted


def _cut_neighbors(answer: Answer, top: int) -> Answer:
    if "entities" in answer:
        entities = [entity | {"neighbors": entity["neighbors"][:top]} for entity in answer["entities"]]
        return answer | {"entities": entities}
    return answer | {"neighbors": answer["neighbors"][:top]}
