"""A file of answers, one JSON line a row: written beside its place, moved when whole, continued after a crash."""

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from knn_ue.data import PairRow, Row, TaggedRow
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.storage import storage_errors

Answer = dict[str, Any]
_TOLERANCE = 1e-3  # what padding and the order of sums may change in float32, and more


class AnswerFile:
    """`output` while it is being written: the lines so far are in `part`."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.part = output.with_name(f"{output.name}.part")
        self.n_lines = 0
        self.n_abstained = 0

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Raise unless the answers may be written."""
        if self.output.is_dir():
            raise StorageError(f"{self.output} is a folder: name a file")
        if self.output.exists() and not overwrite:
            raise StorageError(f"{self.output} already exists: pass --overwrite or choose another file")
        if not self.output.parent.is_dir():
            raise StorageError(f"the folder {self.output.parent} does not exist: make it first")
        if self.part.is_symlink() or (self.part.exists() and not self.part.is_file()):
            raise StorageError(f"{self.part} is not a plain file: remove it, or choose another output")
        if self.part.exists() and not resume and not overwrite:
            raise StorageError(
                f"{self.part} holds the answers of an unfinished run: continue with --resume, or pass --overwrite"
            )

    @contextmanager
    def open(self, *, resume: bool) -> Iterator[BinaryIO]:
        """Yield the part file at its end; if the block ends well it becomes the output, else it stays for --resume."""
        failure = f"{self.output} cannot be written"
        way_out = "make room or choose another place; --resume continues what is kept"
        with storage_errors(failure, way_out), self.part.open("a+b") as file:
            self._lock(file)
            try:
                if not resume:
                    file.truncate(0)
                yield file
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):  # what is wrong is told by the first error
                    file.flush()
                if not os.fstat(file.fileno()).st_size:
                    self.part.unlink()
                raise
            self.part.replace(self.output)

    def keep_complete(self, file: BinaryIO, rows: Iterator[Row]) -> tuple[Row, Answer] | None:
        """Cut off what is not a complete line, move `rows` past those that have one, and return the last of them."""
        file.seek(0)
        end, last = 0, None
        for line in file:
            answer = _parsed(line)
            if answer is None:
                break
            row = next(rows, None)
            if row is None:
                raise InvalidInputError(f"{self.part} has more answers than the input has rows: it is of another input")
            self.n_lines += 1
            if not is_about(answer, row):
                raise InvalidInputError(
                    f"line {self.n_lines} of {self.part} is not about row {self.n_lines} of the input: "
                    "give the same input, or start again with --overwrite"
                )
            self.n_abstained += _abstains(answer)
            end += len(line)
            last = row, answer
        file.truncate(end)
        file.seek(0, os.SEEK_END)
        return last

    def write(self, file: BinaryIO, row: Row, answer: Answer) -> None:
        """Append the answer to one row."""
        line = json.dumps(input_of(row) | answer, ensure_ascii=False, allow_nan=False)
        file.write(line.encode("utf-8", "replace") + b"\n")
        self.n_lines += 1
        self.n_abstained += _abstains(answer)

    def _lock(self, file: BinaryIO) -> None:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between our opening the file and locking it, its writer may have finished and moved it to the output.
            if self.part.exists() and os.path.samestat(os.fstat(file.fileno()), self.part.stat()):
                return
        raise StorageError(f"{self.part} is being written by another process: wait for it")


def input_of(row: Row) -> Answer:
    """Return what an answer repeats of its row; the words of a tagged sentence are in the answer itself.

    >>> from knn_ue.data import TextRow
    >>> input_of(TextRow("a fine film", "pos"))
    {'text': 'a fine film'}
    """
    if isinstance(row, TaggedRow):
        return {}
    if isinstance(row, PairRow):
        return {"premise": row.premise, "hypothesis": row.hypothesis}
    return {"text": row.text}


def is_about(answer: Answer, row: Row) -> bool:
    """Say whether `answer` belongs to `row`."""
    if isinstance(row, TaggedRow):
        return [word["word"] for word in answer.get("words", ())] == list(row.tokens)
    return all(answer.get(key) == value for key, value in input_of(row).items())


def same_answer(first: Any, second: Any) -> bool:
    """Compare two answers; numbers may differ by what float32 rounds."""
    if isinstance(first, dict) and isinstance(second, dict):
        compare = {"neighbors": _same_distances}
        return first.keys() == second.keys() and all(compare.get(k, same_answer)(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same_answer, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(first == second)


def _same_distances(first: Any, second: Any) -> bool:
    # Copies of one text are stored at distances that differ by rounding alone, so their order may change.
    return same_answer(*([near["distance"] for near in neighbors] for neighbors in (first, second)))


def _abstains(answer: Answer) -> bool:
    return bool(answer.get("abstained")) or any(entity["abstained"] for entity in answer.get("entities", ()))


def _parsed(line: bytes) -> Answer | None:
    """Return the answer on a complete line, None on one that a crash cut short."""
    if not line.endswith(b"\n"):
        return None
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
