"""What a run will do, written down before it begins: its inputs and their parts, the UE folder, the options.

Plain JSON lines are cut into byte ranges; any other file is one part. A run that is resumed makes the manifest again:
where it differs, an input or the folder was changed, and answers of two states would be mixed.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from knn_ue.arrays import check_positive
from knn_ue.data import Columns, read_rows
from knn_ue.data.rows import Row
from knn_ue.errors import InvalidInputError
from knn_ue.folder import head_of
from knn_ue.tasks import Task

FORMAT = 1
_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20
_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Lines of one file: the bytes from `start` to `end`, or the whole file where `end` is None."""

    number: int
    path: str
    start: int = 0
    end: int | None = None
    first_line: int = 1
    n_lines: int | None = None
    first_row: int = 0  # lines in all parts before it

    @property
    def name(self) -> str:
        """The file with its answers."""
        return f"part-{self.number:06d}.jsonl"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The parts of a run and what their answers depend on."""

    inputs: tuple[dict[str, Any], ...]
    ue: str
    options: dict[str, Any]
    parts: tuple[Part, ...]

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        parts = [asdict(part) for part in self.parts]
        return {"format": FORMAT, "inputs": list(self.inputs), "ue": self.ue, "options": self.options, "parts": parts}

    def check_same(self, before: Any, place: Path) -> None:
        """Raise where an earlier run, whose manifest was `before`, did something else."""
        now = self.to_plain()
        if before == now:
            return
        names = {"inputs": "an input", "parts": "an input", "ue": "the UE folder", "options": "an option"}
        known = isinstance(before, dict)
        changed = [words for key, words in names.items() if not known or before.get(key) != now[key]]
        raise InvalidInputError(
            f"{changed[0] if changed else 'the format'} has changed since the run in {place} began: give what it had, "
            "or start again in another folder"
        )


def plan(inputs: Sequence[str | Path], ue: Path, options: dict[str, Any], *, part_rows: int, cut: bool) -> Manifest:
    """Read all inputs once, for their fingerprints and the places to cut them at; files stay whole unless `cut`."""
    check_positive(part_rows, "part_rows")
    if not inputs:
        raise InvalidInputError("a run needs at least one input file: pass one")
    parts: list[Part] = []
    facts: list[dict[str, Any]] = []
    n_before = 0
    for path in map(Path, inputs):
        if not path.is_file():
            raise InvalidInputError(f"{path} is not a file: pass files that every worker can read")
        found, ranges, n_lines = _scan(path, part_rows)
        facts.append(found)
        if not cut or not _is_plain_json_lines(path):
            ranges = [(0, None, 1, n_lines)]
        for start, end, first_line, count in ranges:
            parts.append(
                Part(
                    number=len(parts),
                    path=str(path.absolute()),
                    start=start,
                    end=end,
                    first_line=first_line,
                    n_lines=count,
                    first_row=n_before + first_line - 1,
                )
            )
        n_before += n_lines
    return Manifest(inputs=tuple(facts), ue=head_of(ue).generation, options=options, parts=tuple(parts))


def rows_of(
    part: Part, task: Task, *, labeled: bool, columns: Columns | None = None, extras: bool = False
) -> Iterator[Row]:
    """Yield the rows of a part; an error names the line of the whole file."""
    read = partial(read_rows, task=task, labeled=labeled, columns=columns or Columns(), extras=extras)
    if part.end is None:
        yield from read(part.path)
        return
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        content = file.read(part.end - part.start)
    if not content.strip():
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl", prefix="knn-ue-") as copy:
        copy.write(content)
        copy.flush()
        try:
            yield from read(copy.name)
        except InvalidInputError as error:
            place = re.compile(re.escape(copy.name) + r"(, line (\d+))?")
            line = part.first_line - 1
            raise InvalidInputError(
                place.sub(lambda m: f"{part.path}, line {line + int(m[2] or 1)}", str(error))
            ) from None


def _is_plain_json_lines(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix.lower() in _LINES and file.read(2) != _GZIP_MAGIC


def _scan(path: Path, part_rows: int) -> tuple[dict[str, Any], list[tuple[int, int | None, int, int | None]], int]:
    """Return the fingerprint of a file, its ranges of `part_rows` lines, and the number of its lines."""
    digest = hashlib.sha256()
    ranges: list[tuple[int, int | None, int, int | None]] = []
    start = place = 0
    first_line = 1
    n_lines = 0
    ends_with_newline = True
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            at = 0
            while (found := block.find(b"\n", at)) >= 0:
                at = found + 1
                n_lines += 1
                if n_lines - first_line + 1 == part_rows:
                    ranges.append((start, place + at, first_line, part_rows))
                    start, first_line = place + at, n_lines + 1
            ends_with_newline = block.endswith(b"\n")
            place += len(block)
    n_lines += not ends_with_newline
    if place > start:
        ranges.append((start, place, first_line, n_lines - first_line + 1))
    facts = {"path": os.path.realpath(path), "bytes": place, "sha256": digest.hexdigest()}
    return facts, ranges, n_lines
