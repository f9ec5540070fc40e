"""A verifier beside an estimator of texts: what a reader learned from the rows, cross-fitted as the estimator is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.calibrators.top_label import with_top
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs
from knn_ue.verifying import RawViews, Reader, open_reader, read_outputs, take_rows
from knn_ue.verifying.logistic import log_odds
from knn_ue.verifying.opened import MAX_STUDIED, Gain, Join, LearnedClasses, fit_join, learn_classes, measure_gain


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedVerifier:
    """What the reader learned, how it is joined with the calibrated score, and what that gained."""

    reader: "str | Reader"
    learned: LearnedClasses
    join: Join
    gain: Gain

    def predict_proba(self, probs: FloatArray, outputs: Outputs) -> FloatArray:
        """Return calibrated `probs` (n, classes) with the joined probability of each predicted class."""
        if not len(probs):
            return probs
        predicted = outputs.predicted
        own = log_odds(probs[np.arange(len(probs)), predicted])
        seen = self.learned.probs(read_outputs(_opened(self.reader), outputs))
        return with_top(probs, predicted, self.join.scores(seen, predicted, own))


def fit_verifier(
    reader: "str | Reader",
    texts: Sequence[str] | None,
    labels: IntArray,
    folds: Sequence[tuple[IntArray, IntArray]],
    held_out: Outputs,
    probs: FloatArray,
    *,
    seed: int,
) -> FittedVerifier:
    """Learn from the rows' texts and labels (n,), and join on the `held_out` rows with calibrated `probs`.

    With `folds`, each a pair of rows to learn from and to hold out, the held-out rows are those of all folds in order,
    and each is read by what the others taught; without any they are other rows than these.
    """
    if texts is None or held_out.texts is None:
        raise InvalidInputError("a verifier reads texts, X holds something else: pass texts, or leave out verifier")
    opened, n_classes, started = _opened(reader), held_out.n_classes, perf_counter()
    views = opened.read(list(texts))
    milliseconds = 1000 * (perf_counter() - started) / len(texts)
    learned = _learned(views, labels, np.arange(len(labels)), n_classes, seed)
    if folds:
        taught = [_learned(views, labels, train, n_classes, seed) for train, _ in folds]
        asked = [{name: take_rows(x, test) for name, x in views.items()} for _, test in folds]
        read = np.concatenate([one.probs(rows) for one, rows in zip(taught, asked, strict=True)])
    else:
        read = learned.probs(read_outputs(opened, held_out))
    predicted, gold = held_out.predicted, held_out.require_labels("the verifier")
    own = log_odds(probs[np.arange(len(probs)), predicted])
    gain = replace(measure_gain(read, predicted, gold, own), milliseconds=milliseconds)
    return FittedVerifier(reader=reader, learned=learned, join=fit_join(read, predicted, gold, own), gain=gain)


def _learned(views: RawViews, labels: IntArray, rows: IntArray, n_classes: int, seed: int) -> LearnedClasses:
    chosen = np.sort(np.random.default_rng(seed).permutation(rows)[:MAX_STUDIED])
    return learn_classes({name: take_rows(x, chosen) for name, x in views.items()}, labels[chosen], n_classes=n_classes)


def _opened(reader: "str | Reader") -> Reader:
    return open_reader(reader) if isinstance(reader, str) else reader
