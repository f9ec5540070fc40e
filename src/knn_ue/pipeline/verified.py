"""Training rows -> a verifier beside the method: the reader learns the labels from a sample of their texts.

A tagger's verifier learns from the validation sentences alone.
"""

from collections.abc import Sequence

import numpy as np

from knn_ue.arrays import IntArray
from knn_ue.calibrators import Calibrator, Verified, VerifiedEntities
from knn_ue.encoding.inputs import Example, class_numbers
from knn_ue.errors import InvalidInputError, MissingExtraError
from knn_ue.hub_access import cache_only
from knn_ue.tasks import TASKS, Task
from knn_ue.types import Outputs
from knn_ue.verifying import Reader, WordReader, open_reader, read_inputs
from knn_ue.verifying.opened import MAX_STUDIED, learn_classes
from knn_ue.verifying.spans import MIN_SENTENCES

AUTO = "auto"
TRIED = ("minilm", "instant")  # where it is left to us: the first that is here; nothing is downloaded


def with_verifier(
    calibrator: Calibrator,
    task: Task,
    train: Sequence[Example] | Outputs,
    validation: Outputs,
    class_names: Sequence[str],
    verifier: "str | Reader",
    *,
    seed: int,
) -> Calibrator:
    """Return the calibrator, not fitted yet, with a reader beside it that learned from at most `MAX_STUDIED` rows.

    Where the choice is left to us and there is nothing to learn from, the calibrator is returned as it is.
    """
    if TASKS[task].is_tagging:
        if verifier == AUTO and not calibrator.scores_entities:
            return calibrator
        reader = word_reader_for(verifier, validation)
        return calibrator if reader is None else VerifiedEntities(calibrator, reader)
    reader = _opened(verifier, of_words=False)
    assert reader is not None  # one is always there
    texts, pairs, gold = _sample(train, class_names, seed)
    return Verified(
        calibrator, reader, learn_classes(read_inputs(reader, texts, pairs), gold, n_classes=len(class_names))
    )


def word_reader_for(verifier: "str | Reader | None", labeled: Outputs) -> "Reader | None":
    """Return what reads words for a verifier; None where none is wanted, or "auto" finds none or too few sentences."""
    n_sentences = 0 if labeled.groups is None else len(np.unique(labeled.groups))
    if verifier is None or (verifier == AUTO and n_sentences < MIN_SENTENCES):
        return None
    return _opened(verifier, of_words=True)


def _sample(
    train: Sequence[Example] | Outputs, class_names: Sequence[str], seed: int
) -> tuple[Sequence[str] | None, Sequence[tuple[str, str]] | None, IntArray]:
    """Return the texts or pairs of a random sample, and their classes."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:MAX_STUDIED])
    if isinstance(train, Outputs):
        sample = train.take(chosen)
        return sample.texts, sample.pairs, sample.require_labels("the verifier")
    examples = [train[row] for row in chosen]
    pairs = None
    if len(examples[0].parts) == 2:
        pairs = [(example.parts[0], example.parts[1]) for example in examples]
    return [example.parts[0] for example in examples], pairs, class_numbers(examples, class_names)


def _opened(verifier: "str | Reader", *, of_words: bool) -> "Reader | None":
    """Return the reader that was named, or the first that can be opened; None where none of those reads words."""
    if verifier != AUTO:
        return open_reader(verifier) if isinstance(verifier, str) else verifier
    for name in TRIED:
        try:
            with cache_only():
                reader = open_reader(name)
        except (InvalidInputError, MissingExtraError):
            continue
        if not of_words or isinstance(reader, WordReader):
            return reader
    return None
