"""Training rows -> a verifier beside the method: the reader learns the labels from a sample of their texts."""

from collections.abc import Sequence

import numpy as np

from knn_ue.calibrators import Calibrator, Verified
from knn_ue.encoding.inputs import Example, class_numbers
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task
from knn_ue.types import Outputs
from knn_ue.verifying import Reader, open_reader, read_inputs
from knn_ue.verifying.opened import MAX_STUDIED, learn_classes

AUTO = "auto"
_AUTO_READER = "instant"


def reads(task: Task, verifier: "str | Reader | None") -> bool:
    """Return whether there is a verifier for the task; raise where one was named and there is none."""
    if verifier is None:
        return False
    if TASKS[task].is_tagging:
        if verifier == AUTO:
            return False
        raise InvalidInputError(f"a verifier reads texts or pairs, got task {task!r}: leave out verifier")
    return True


def with_verifier(
    calibrator: Calibrator,
    train: Sequence[Example] | Outputs,
    class_names: Sequence[str],
    verifier: "str | Reader",
    *,
    seed: int,
) -> Verified:
    """Return the calibrator, not fitted yet, with a reader beside it that learned from at most `MAX_STUDIED` rows."""
    reader = open_reader(_AUTO_READER if verifier == AUTO else verifier) if isinstance(verifier, str) else verifier
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:MAX_STUDIED])
    if isinstance(train, Outputs):
        sample = train.take(chosen)
        texts, pairs, gold = sample.texts, sample.pairs, sample.require_labels("the verifier")
    else:
        examples = [train[row] for row in chosen]
        texts, pairs = [example.parts[0] for example in examples], None
        if len(examples[0].parts) == 2:
            pairs = [(example.parts[0], example.parts[1]) for example in examples]
        gold = class_numbers(examples, class_names)
    learned = learn_classes(read_inputs(reader, texts, pairs), gold, n_classes=len(class_names))
    return Verified(calibrator, reader, learned)
