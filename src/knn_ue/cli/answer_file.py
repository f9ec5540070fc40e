"""A file of answers, one JSON line per row: written beside its place, moved when whole, continued after a crash."""

import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from knn_ue.data import Row, TaggedRow
from knn_ue.errors import InvalidInputError, StorageError, require
from knn_ue.folder import storage_errors
from knn_ue.folder.disk import file_state, move_new, sync, take_lock
from knn_ue.pipeline.answers import abstains, answer_line, encoded, input_of

Answer = dict[str, Any]
_TOLERANCE = 1e-3  # what padding and the order of sums may change in float32, and more


class AnswerFile:
    """`output` while it is being written: the lines so far are in `part`.

    What the two files are when the object is made is what the user agreed to replace: what another process writes
    there later is left alone.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.part = output.with_name(f"{output.name}.part")
        self._before = {path: file_state(path) for path in (self.output, self.part)}
        self.n_lines = 0
        self.n_abstained = 0

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Raise unless the answers may be written."""
        suffix = self.output.suffix.lower()  # any that is not named here is JSON lines
        if suffix == ".parquet":
            require("pyarrow", extra="frames", purpose=f"writing {self.output.name}")
        if suffix in (".tsv", ".xlsx", ".gz"):
            raise InvalidInputError(
                f"answers are written as .jsonl, .csv or .parquet, got {self.output.name!r}: choose one of these"
            )
        if self.output.is_dir():
            raise StorageError(f"{self.output} is a folder: choose a file name")
        if self.output.is_symlink() or (self.output.exists() and not self.output.is_file()):
            # It would be replaced by the finished file: /dev/stdout for the whole machine, if root asks for it.
            raise StorageError(f"{self.output} is a link, pipe or device: choose a regular file")
        if self.output.exists() and not overwrite:
            raise StorageError(f"{self.output} already exists: pass --overwrite or choose another file")
        if not self.output.parent.is_dir():
            raise StorageError(f"the folder {self.output.parent} does not exist: create it first")
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
        with storage_errors(failure, way_out), _opened(self.part) as file:
            locked = take_lock(file.fileno(), seconds=0)
            # Between our opening the file and locking it, its writer may have finished and moved it to the output.
            same = self.part.exists() and os.path.samestat(os.fstat(file.fileno()), self.part.stat())
            if not locked or not same:
                raise StorageError(f"{self.part} is being written by another process: wait for it")
            try:
                self._check_unchanged(self.output)
                if not resume and os.fstat(file.fileno()).st_size:
                    self._check_unchanged(self.part)
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
            self._check_unchanged(self.output)
            if self.output.suffix.lower() in (".csv", ".parquet"):
                self._convert()
            else:
                self._move(self.part)

    def _convert(self) -> None:
        from knn_ue.cli.answer_formats import convert

        draft = self.output.with_name(f".{self.output.name}.{secrets.token_hex(4)}.draft")
        with draft.open("xb") as file:  # never what is there, or what a link of somebody leads to
            try:
                convert(self.part, file, self.output.suffix)
                file.flush()
                os.fsync(file.fileno())
                self._move(draft)
            finally:
                draft.unlink(missing_ok=True)
        self.part.unlink()

    def _move(self, finished: Path) -> None:
        if self._before[self.output] is not None:
            finished.replace(self.output)
            sync(self.output.parent)
            return
        try:
            move_new(finished, self.output)
        except FileExistsError:
            raise self._changed(self.output) from None

    def keep_complete(self, file: BinaryIO, rows: Iterator[Row]) -> tuple[tuple[Row, Answer] | None, Iterator[Row]]:
        """Cut off a last line that is not complete; return the last row that has one, and the rows that have none.

        Nothing is cut unless every line is an answer to its row and the last one at least begins like one: a file that
        this command did not write is left as it is.
        """
        file.seek(0)
        end, last = 0, None
        for number, line in enumerate(file, start=1):
            row = next(rows, None)
            if row is None:
                raise InvalidInputError(f"{self.part} has more answers than the input has rows: it is of another input")
            if not line.endswith(b"\n") and _is_begun(line, row):
                rows = chain((row,), rows)
                break
            answer = _parsed(line)
            if answer is None:
                raise InvalidInputError(
                    f"line {number} of {self.part} is not an answer: move the file away if this command did not write "
                    "it, or start again with --overwrite"
                )
            if not is_about(answer, row):
                raise InvalidInputError(
                    f"line {number} of {self.part} is not about row {number} of the input: "
                    "give the same input, or start again with --overwrite"
                )
            self.n_lines = number
            self.n_abstained += abstains(answer)
            end += len(line)
            last = row, answer
        file.truncate(end)
        file.seek(0, os.SEEK_END)
        return last, rows

    def write(self, file: BinaryIO, row: Row, answer: Answer) -> None:
        """Append the answer to one row."""
        file.write(answer_line(row, answer))
        self.n_lines += 1
        self.n_abstained += abstains(answer)

    def _check_unchanged(self, path: Path) -> None:
        if file_state(path) != self._before[path]:
            raise self._changed(path)

    def _changed(self, path: Path) -> StorageError:
        return StorageError(
            f"{path} was written by another process meanwhile and is left as it is: choose another output, or move it "
            "away and continue with --resume"
        )


def _opened(path: Path) -> BinaryIO:
    """Open a file to append to it, never through a link."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666), "a+b")


def is_about(answer: Answer, row: Row) -> bool:
    """Say whether `answer` belongs to `row`."""
    if isinstance(row, TaggedRow):
        words = answer.get("words")
        if not isinstance(words, list) or not all(isinstance(word, dict) for word in words):
            return False
        return [word.get("word") for word in words] == list(row.tokens)
    return all(answer.get(key) == value for key, value in input_of(row).items())


def same_answer(first: Any, second: Any) -> bool:
    """Compare two answers; numbers may differ by what float32 rounds."""
    if isinstance(first, dict) and isinstance(second, dict):
        # A p-value moves by whole validation rows: rounding may take it across one, and across the false-alarm rate.
        compare = {"neighbors": _same_distances, "familiarity": _any_two, "unfamiliar": _any_two}
        return first.keys() == second.keys() and all(compare.get(k, same_answer)(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same_answer, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(first == second)


def _any_two(_first: Any, _second: Any) -> bool:
    return True


def _same_distances(first: Any, second: Any) -> bool:
    # Copies of one text are stored at distances that differ by rounding alone, so their order may change.
    return same_answer(*([near["distance"] for near in neighbors] for neighbors in (first, second)))


def _is_begun(line: bytes, row: Row) -> bool:
    """Say whether an unfinished line is the begin of an answer to `row`; a crash may leave zeros at its end."""
    begin = encoded(input_of(row))[:-1]
    found = line.rstrip(b"\0")
    return found.startswith(begin) or begin.startswith(found)


def _parsed(line: bytes) -> Answer | None:
    """Return the answer on a complete line, None where there is none."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and line.endswith(b"\n") else None
