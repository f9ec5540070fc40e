"""The lines of a text file, plain or gzip, one at a time, each with the place that an error message names.

`Limits` say how large a row may be and how long a pipe is waited for: a file that is not what it seems must not take
all memory or time.
"""

import gzip
import io
import os
import select
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from knn_ue.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What `read_rows` accepts; the command line raises it with the options that stand before the command.

    `row_bytes` of one row, a CSV record of many lines included (`--max-row-mib`); `sentence_words` of one sentence
    (`--max-words`); `pipe_seconds` until a pipe gives its first byte (`--pipe-seconds`).
    """

    row_bytes: int = 4 << 20
    sentence_words: int = 100_000
    pipe_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InvalidInputError(f"{name} must be a number above 0, got {value!r}")

    @property
    def row_rule(self) -> str:
        """The rule that a long row breaks."""
        return f"a row must be shorter than {self.row_bytes / (1 << 20):g} MiB"

    @property
    def words_rule(self) -> str:
        """The rule that a long sentence breaks."""
        return f"a sentence must have at most {self.sentence_words} words"


@dataclass(frozen=True)
class WayOut:
    """How to go on where a limit is reached, in Python and at a command line."""

    python: str
    shell: str


RAISE_ROW = WayOut(
    "check line ends and quotes, or raise it: read_rows(limits=Limits(row_bytes=N))",
    "check line ends and quotes, or raise it: knn-ue --max-row-mib N ...",
)
RAISE_WORDS = WayOut(
    "split the sentence, or raise it: read_rows(limits=Limits(sentence_words=N))",
    "split the sentence with blank lines, or raise it: knn-ue --max-words N ...",
)
RAISE_PIPE = WayOut(
    "start its writer, or raise it: read_rows(limits=Limits(pipe_seconds=S))",
    "start its writer, or raise it: knn-ue --pipe-seconds S ...",
)

_default: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 (frozen)


def default_limits() -> Limits:
    """Return the limits where none are given."""
    return _default.get()


@contextmanager
def use_limits(limits: Limits) -> Iterator[None]:
    """Let readers that are started in the block, and are given no limits, have these."""
    token = _default.set(limits)
    try:
        yield
    finally:
        _default.reset(token)


_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: the line of a file, or the row of a data set."""

    source: str
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.source}, {self.unit} {self.number}"

    def error(self, rule: str, value: object, way_out: str, *, shell: str | None = None) -> InvalidInputError:
        """Return the error that names the place, the rule, the value and the way out (`shell`: at a command line).

        >>> str(Place("a.jsonl", 3).error("text must be a string", 7, "quote it"))
        'a.jsonl, line 3: text must be a string, got 7: quote it'
        """
        said = f"{self}: {rule}, got {shorten(value)}: "
        return InvalidInputError(said + way_out, shell=said + (shell or way_out))


def shorten(value: object) -> str:
    """Return how `value` looks, cut to what fits into one sentence.

    >>> shorten("x" * 1000)[-8:]
    "xxxx'..."
    """
    if isinstance(value, str):
        return repr(value[:_SHOWN]) + ("..." if len(value) > _SHOWN else "")
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def check_file(path: Path, *, or_folder: bool = False) -> None:
    """Raise unless `path` is a file, or else a folder where that will do, that may be opened."""
    try:
        path.stat()
    except FileNotFoundError:
        raise InvalidInputError(
            f"the file {path} does not exist: check the path "
            "(or use a named source: vader:movies, hub:owner/name:split, paper:imdb:test)"
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{shorten(str(path))} cannot be opened ({_reason(error)}): check the path") from None
    if not or_folder and path.is_dir():
        raise InvalidInputError(
            f"{path} is a folder, but a file is needed: pass a file in it (a folder is read only where "
            "datasets.Dataset.save_to_disk wrote it)"
        )


def read_lines(path: Path, limits: Limits) -> Iterator[tuple[Place, str]]:
    """Yield each line with its place, line end included, from a UTF-8 file that may be compressed with gzip."""
    try:
        opened = _open_pipe(path, limits) if stat.S_ISFIFO(path.stat().st_mode) else path.open("rb")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be opened ({_reason(error)}): check its permissions") from None
    with opened as raw:
        # Told by the content, since a compressed file often loses its .gz on the way.
        compressed = raw.peek(2)[:2] == _GZIP_MAGIC
        if path.suffix == ".gz" and raw.peek(1) and not compressed:
            raise InvalidInputError(f"{path} is not a gzip file although its name ends in .gz: compress or rename it")
        if not compressed:
            yield from _decoded(raw, path, limits)
            return
        with gzip.GzipFile(fileobj=raw) as unpacked, io.BufferedReader(unpacked) as stream:
            yield from _decoded(stream, path, limits)


def _decoded(stream: BinaryIO, path: Path, limits: Limits) -> Iterator[tuple[Place, str]]:
    for number in count(1):
        place = Place(str(path), number)
        try:
            line = stream.readline(limits.row_bytes + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InvalidInputError(
                f"{path} is a broken gzip file, unreadable from line {number} on ({_reason(error)}): "
                "copy or compress it again"
            ) from None
        except OSError as error:
            raise InvalidInputError(f"{path} cannot be read ({_reason(error)}): check the disk") from None
        if not line:
            return
        if len(line) > limits.row_bytes:
            raise place.error(limits.row_rule, line[:_SHOWN], RAISE_ROW.python, shell=RAISE_ROW.shell)
        if number == 1:
            if line.startswith(_UTF16_MARKS):
                raise InvalidInputError(f"{path} is written in UTF-16 or UTF-32, but UTF-8 is needed: save it as UTF-8")
            line = line.removeprefix(_UTF8_MARK)
        if b"\0" in line:
            raise place.error(
                "a text file must not hold NUL bytes", line, "save text as UTF-8, or check that it is text"
            )
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            value = line[max(0, error.start - 10) : error.end + 10]
            raise place.error(f"byte {error.start + 1} is not UTF-8", value, "save the file as UTF-8") from None
        yield place, text


def _open_pipe(path: Path, limits: Limits) -> io.BufferedReader:
    """Open a pipe without waiting for its writer, and wait for its first byte, or its end, for a limited time."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(1000 * limits.pipe_seconds):
            rule = f"{path} is a pipe to which nobody wrote for {limits.pipe_seconds:g} s: "
            raise InvalidInputError(rule + RAISE_PIPE.python, shell=rule + RAISE_PIPE.shell)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
