"""One batch of many requests through the model: encode once, search once, and cut the results apart."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from knn_ue.arrays import FloatArray
from knn_ue.calibrators import DensityAwareCalibration, KnnUE, LogitScaling
from knn_ue.encoding import Example
from knn_ue.pipeline.answers import Answer, tagged_answers, text_answers
from knn_ue.pipeline.fitted import closeness
from knn_ue.serving.explaining import explain_rows
from knn_ue.serving.state import Served
from knn_ue.stores import Datastore
from knn_ue.tasks import TASKS
from knn_ue.types import Neighbors, Outputs

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


class _Snapshot:
    """A datastore as it is now, for one batch, which remembers the last neighbors it found."""

    def __init__(self, store: Datastore) -> None:
        self._store = store.detached()
        self.found: Neighbors | None = None

    def __len__(self) -> int:
        return len(self._store)

    def search(self, features: FloatArray, n_neighbors: int) -> Neighbors:
        self.found = self._store.search(features, n_neighbors)
        return self.found

    def texts_of(self, ids: Sequence[int]) -> list[str | None]:
        return self._store.texts_of(ids)


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
    calibrator, snapshot = _frozen(pipe.calibrator_)
    top = max(works[number].top for number in asked)
    if TASKS[pipe.task].is_tagging:
        answers = tagged_answers(examples, wanted, calibrator, threshold=thresholds, top=top)
    else:
        answers = text_answers(wanted, calibrator, threshold=thresholds, top=top)
    near = None if snapshot is None else _closeness(calibrator, snapshot, wanted)
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
    task = TASKS[served.pipe.task]
    sizes = [sum(task.n_rows(example.parts) for example in work.examples) for work in works]
    return [0, *accumulate(sizes)]


def _frozen(calibrator: LogitScaling) -> tuple[LogitScaling, _Snapshot | None]:
    """Return the calibrator over its datastores as they are now, so that a batch never sees half of a change."""
    frozen: LogitScaling = copy(calibrator)
    if isinstance(frozen, KnnUE) and isinstance(frozen.store, Datastore):
        frozen.store = snapshot = _Snapshot(frozen.store)
        return frozen, snapshot
    if isinstance(frozen, DensityAwareCalibration):
        snapshots = [_Snapshot(store) for store in frozen.stores if isinstance(store, Datastore)]
        frozen.stores = snapshots
        return frozen, snapshots[-1]
    return frozen, None


def _closeness(calibrator: LogitScaling, snapshot: _Snapshot, outputs: Outputs) -> tuple[FloatArray, FloatArray] | None:
    n_neighbors: int = getattr(calibrator, "n_neighbors", 0)
    found = snapshot.found
    if found is None or found.ids.shape != (len(outputs), n_neighbors):
        # The last search was another one: that of the neighbors to show.
        calibrator.weight(outputs)
        found = snapshot.found
    return None if found is None else closeness(found, outputs.predicted)


def _why(served: Served, work: Work, outputs: Outputs, calibrator: LogitScaling) -> list[list[dict[str, Any]]]:
    rows = explain_rows(served, outputs, calibrator, top=work.top)
    if not TASKS[served.pipe.task].is_tagging:
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
