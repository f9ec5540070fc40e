"""Encoders that read rows in pieces: what a PyTorch model and its export share, from rows to `Outputs`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from knn_ue.encoding.contract import Encoder
from knn_ue.encoding.forward import Arrays, Piece, Pieces, batches_by_length, text_pieces
from knn_ue.encoding.inputs import Example, all_labeled, class_numbers, read_examples, windows
from knn_ue.encoding.words import tagging_pieces, word_in_context
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS
from knn_ue.types import Outputs, Step, join_columns


class Forward(Protocol):
    """Pieces in, arrays by name out: `features`, `logits`, `views` and `layers.<i>`, one row a position."""

    def __call__(self, batch: Sequence[Piece]) -> Arrays:
        """Run the model on pieces of similar length."""
        ...

    def empty_arrays(self, n_rows: int = 0) -> Arrays:
        """Return zeros in the shape of what a call returns for `n_rows` rows."""
        ...


class PiecewiseEncoder(Encoder):
    """An encoder whose tokenizer makes pieces of rows and whose `forward` reads them in batches of similar length."""

    options: Any
    tokenizer: Any
    forward: Forward
    _position_of: Callable[[Sequence[int]], int]
    ignores_case: bool

    def encode(self, rows: Iterable[object], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Encode examples, or rows of any shape that `inputs` reads.

        `progress(done, total)` is called after every batch, `total` None where it is unknown.

        `with_labels=False` leaves labels unread, as out-of-domain data with other classes needs.
        """
        total = len(rows) if isinstance(rows, Sequence) else None
        columns: dict[str, list[Any]] = {}
        for part in self._encode_windows(rows, with_labels, progress, total):
            for name, values in part.items():
                columns.setdefault(name, []).append(values)
        if not columns:
            columns = {name: [values] for name, values in self.forward.empty_arrays().items()}
        return self._joined(columns)

    def encode_batches(self, rows: Iterable[object], *, with_labels: bool = True) -> Iterator[Outputs]:
        """Yield the `Outputs` of a bounded number of rows at a time, in order; memory does not grow with the input."""
        for part in self._encode_windows(rows, with_labels):
            yield self._joined({name: [values] for name, values in part.items()})

    def _joined(self, columns: dict[str, list[Any]]) -> Outputs:
        sees_case = TASKS[self.task].is_tagging and not self.ignores_case
        return join_columns(columns, class_names=self.class_names, sees_case=sees_case)

    def _encode_windows(
        self, rows: Iterable[object], with_labels: bool, progress: Step | None = None, total: int | None = None
    ) -> Iterator[dict[str, Any]]:
        labeled: bool | None = None
        start = 0
        for examples in windows(read_examples(rows, self.task), batch_size=self.options.batch_size):
            part = self._describe(examples, start)
            if with_labels:
                labeled = all_labeled(examples, start=start, expected=labeled)
                if labeled:
                    part["labels"] = class_numbers(examples, self.class_names, start=start)
            made = self.pieces_of(examples)
            self.n_encoded += len(examples)
            self.n_truncated += made.n_truncated
            arrays = self.forward.empty_arrays(made.n_rows)
            done = 0
            for batch in batches_by_length(made.pieces, self.options.batch_size):
                rows_of_batch = np.concatenate([piece.rows for piece in batch])
                for name, values in self.forward(batch).items():
                    arrays[name][rows_of_batch] = values
                done += len(batch)
                if progress is not None:
                    progress(start + len(examples) * done // len(made.pieces), total)
            start += len(examples)
            if progress is not None and not made.pieces:
                progress(start, total)
            yield part | arrays

    def pieces_of(self, examples: Sequence[Example]) -> Pieces:
        """Tokenize the examples as this encoder reads them."""
        task, max_length = TASKS[self.task], self.options.max_length or 0
        capacity = max_length - self.tokenizer.num_special_tokens_to_add(pair=task.is_pair)
        if capacity < 1:
            raise InvalidInputError(f"max_length={max_length} leaves no room beside the special tokens: raise it")
        if task.is_tagging:
            return tagging_pieces(self.tokenizer, examples, capacity=capacity)
        return text_pieces(self.tokenizer, examples, max_length=max_length, position_of=self._position_of)

    def _describe(self, examples: Sequence[Example], start: int) -> dict[str, Any]:
        if TASKS[self.task].is_pair:
            return {"pairs": [example.parts for example in examples]}
        if not TASKS[self.task].is_tagging:
            return {"texts": [example.parts[0] for example in examples]}
        width = self.options.context_words
        texts = [word_in_context(e.parts, i, width=width) for e in examples for i in range(len(e.parts))]
        lengths = [len(example.parts) for example in examples]
        groups = np.repeat(np.arange(start, start + len(examples)), lengths)
        return {"texts": texts, "groups": groups, "words": [word for example in examples for word in example.parts]}
