"""Rows through the encoder, a window at a time: familiarity looks at the views of each, and nobody keeps them.

Views are several times as wide as features. Of the training rows a random sample is kept until the training space is
measured, of the validation rows only their scores.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.encoding.contract import Encoder
from knn_ue.encoding.inputs import Example, windows
from knn_ue.familiarity import Familiarity, TrainingSpace
from knn_ue.tasks import TASKS
from knn_ue.types import Outputs, Step

_LAYER = "layers."
_LISTS = ("texts", "pairs", "words")
MAX_MEASURED = 5000  # training rows that the training space is measured on


class SampledViews:
    """Keeps the views of about `MAX_MEASURED` of `n_rows` training rows, each with the same probability."""

    def __init__(self, n_rows: int, *, seed: int) -> None:
        self._share = min(1.0, MAX_MEASURED / max(1, n_rows))
        self._random = np.random.default_rng(seed)
        self._parts: list[FloatArray] = []

    def look(self, outputs: Outputs) -> None:
        """Sample the rows of one window."""
        if outputs.views is not None:
            self._parts.append(outputs.views[self._random.random(len(outputs)) < self._share])

    def space(self) -> TrainingSpace | None:
        """Return what was measured, None where the encoder has no views or there were no rows."""
        if not sum(map(len, self._parts)):
            return None
        views = np.concatenate(self._parts)
        self._parts.clear()
        return TrainingSpace.measure_views([views[:, number] for number in range(views.shape[1])])


class ScoredViews:
    """Scores validation rows against a training space, and makes the familiarity of them."""

    def __init__(self, space: TrainingSpace | None) -> None:
        self._space = space
        self._parts: list[FloatArray] = []

    def look(self, outputs: Outputs) -> None:
        """Score the rows of one window."""
        if self._space is not None and outputs.views is not None:
            self._parts.append(self._space.score(outputs))

    def familiarity(self, validation: Outputs, false_alarm_rate: float) -> Familiarity | None:
        """Return the fitted familiarity; None where any row had no views."""
        scores = np.concatenate(self._parts) if self._parts else np.zeros(0)
        if self._space is None or not len(scores) or len(scores) != len(validation):
            return None
        return Familiarity(self._space, false_alarm_rate=false_alarm_rate).fit_scores(scores, validation)


def has_views(encoder: Encoder) -> bool:
    """Say whether the outputs of the encoder have views, without which there is no familiarity."""
    return encoder.encode([]).views is not None


def encode_looking(
    encoder: Encoder, examples: Sequence[Example], look: Callable[[Outputs], None], progress: Step | None = None
) -> Outputs:
    """Encode examples without their views; `look` sees each window with them. Without views it is one call."""
    if not has_views(encoder) or not examples:
        return replace(encoder.encode(examples, progress=progress), views=None)
    columns: dict[str, list[Any]] = {}
    done = 0
    for window in windows(examples, batch_size=encoder.options.batch_size):
        outputs = encoder.encode(window, progress=None if progress is None else _shifted(progress, done, len(examples)))
        look(outputs)
        for name, values in _columns(outputs).items():
            columns.setdefault(name, []).append(values)
        done += len(window)
    groups = None
    if TASKS[encoder.task].is_tagging:
        groups = np.repeat(np.arange(len(examples)), [len(example.parts) for example in examples])
    return _joined(columns, groups, outputs.class_names)


def look_at(outputs: Outputs, look: Callable[[Outputs], None]) -> Outputs:
    """Let `look` see outputs that were encoded before, and return them without their views."""
    look(outputs)
    return replace(outputs, views=None)


def _columns(outputs: Outputs) -> dict[str, Any]:
    names = ("logits", "features", "labels", "words", "pairs" if outputs.pairs is not None else "texts")
    columns = {name: getattr(outputs, name) for name in names}
    columns |= {f"{_LAYER}{number}": layer for number, layer in enumerate(outputs.layers or ())}
    return {name: values for name, values in columns.items() if values is not None}


def _joined(columns: dict[str, list[Any]], groups: IntArray | None, class_names: Sequence[str] | None) -> Outputs:
    """Return the rows of all windows in one record; each column is released once joined."""
    joined: dict[str, Any] = {}
    for name in list(columns):
        parts = columns.pop(name)
        joined[name] = list(chain.from_iterable(parts)) if name in _LISTS else np.concatenate(parts)
    layers = [joined.pop(name) for name in list(joined) if name.startswith(_LAYER)]
    return Outputs(**joined, layers=layers or None, groups=groups, class_names=class_names)


def _shifted(progress: Step, done: int, total: int) -> Step:
    return lambda more, _total: progress(done + more, total)
