"""Files of labeled text -> rows, one at a time: memory stays flat over a file of any size."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from knn_ue.arrays import check_choice
from knn_ue.data.conll import read_conll
from knn_ue.data.fields import Record, check_text, drawn_from, pair_row, text_row, tokens_and_tags
from knn_ue.data.limits import RAISE_WORDS, Limits, default_limits
from knn_ue.data.lines import Place, check_file, read_lines
from knn_ue.data.rows import Row, TaggedRow, TextRow, at_least_one
from knn_ue.data.sources import is_named, read_named
from knn_ue.data.tables import read_table
from knn_ue.data.tags import Sentence, TagScheme, tagged_rows
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task, task_name

JSON_LINES = (".jsonl", ".ndjson", ".json")
TABLES = {".csv": ",", ".tsv": "\t"}
COLUMNS = (".conll", ".iob", ".iob1", ".iob2", ".bio", ".bioes", ".bilou", ".tsv", ".txt")


def read_rows(
    source: str | Path,
    task: str,
    *,
    labeled: bool = True,
    scheme: TagScheme = "auto",
    limits: Limits | None = None,
) -> Iterator[Row]:
    """Yield the rows of a file or of a named source: `vader:movies`, `hub:owner/name:split`, `paper:imdb:test`.

    Files, each allowed with .gz: JSON lines (.jsonl, .ndjson, .json); CSV and TSV with a header; for tagging CoNLL
    columns (.conll, .iob2, .bio, .tsv, .txt and their like); without labels .txt, one text or sentence a line. With
    `labeled=False` labels need not be there and are left out. `scheme` is how tags are written; rows hold IOB2.
    A bad line raises `InvalidInputError` with file, line, rule, value and way out; no row is dropped silently. So does
    a row or a sentence of a file that is larger than `limits`.
    """
    task = task_name(task)
    check_choice(scheme, "scheme", get_args(TagScheme))
    if isinstance(source, str) and is_named(source):
        return read_named(source, task, labeled=labeled, scheme=scheme)
    return read_file(Path(source).expanduser(), task, labeled=labeled, scheme=scheme, limits=limits)


def read_file(
    path: Path, task: Task, *, labeled: bool = True, scheme: TagScheme = "auto", limits: Limits | None = None
) -> Iterator[Row]:
    """Yield the rows of one file, whose extension says how it is written."""
    limits = limits or default_limits()
    check_file(path)
    extension = _extension(path)
    if TASKS[task].is_tagging:
        return at_least_one(_read_tagged(path, extension, limits, labeled=labeled, scheme=scheme), str(path))
    if extension == ".txt":
        return at_least_one(_read_plain(path, task, limits, labeled=labeled), str(path))
    if extension in JSON_LINES:
        records = read_json_lines(path, limits)
    elif extension in TABLES:
        needed = TASKS[task].keys(labeled=labeled)
        records = read_table(path, delimiter=TABLES[extension], needed=needed, limits=limits)
    else:
        raise _unknown(path, extension, [*JSON_LINES, *TABLES, ".txt"])
    build = pair_row if TASKS[task].is_pair else text_row
    return at_least_one((build(record, place, labeled=labeled) for place, record in records), str(path))


def read_json_lines(path: Path, limits: Limits) -> Iterator[tuple[Place, Record]]:
    """Yield the JSON object of each line with its place; blank lines hold none."""
    for place, line in read_lines(path, limits):
        line = line.strip()
        if not line:
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise place.error(
                f"a line must be one JSON object ({error.msg} at column {error.colno})",
                line,
                "write one complete object a line",
            ) from None
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists without end
            raise place.error(f"a line must be one JSON object ({error})", line, "simplify the line") from None
        if not isinstance(record, dict):
            raise place.error("a line must be a JSON object", line, 'write {"text": ..., "label": ...}')
        yield place, record


def _read_tagged(path: Path, extension: str, limits: Limits, *, labeled: bool, scheme: TagScheme) -> Iterator[Row]:
    if extension not in (*JSON_LINES, *COLUMNS):
        raise _unknown(path, extension, [*JSON_LINES, *COLUMNS])
    if extension == ".txt" and not labeled:
        return _read_sentences(path, limits)
    if labeled and scheme == "auto" and not path.is_file():
        raise InvalidInputError(
            f"{path} can be read only once, but finding the tag scheme takes two passes: "
            "state the scheme or save it as a file"
        )

    def read() -> Iterator[Sentence]:
        if extension in COLUMNS:
            yield from read_conll(path, labeled=labeled, limits=limits)
            return
        for place, record in read_json_lines(path, limits):
            _check_words(record.get("tokens"), place, limits)
            tokens, tags = tokens_and_tags(record, place, labeled=labeled)
            extra = drawn_from(record, place, labeled=labeled)
            yield Sentence(tokens, tags, (place,) * len(tokens), extra)

    return tagged_rows(read, scheme, labeled=labeled)


def _read_plain(path: Path, task: Task, limits: Limits, *, labeled: bool) -> Iterator[TextRow]:
    if labeled or TASKS[task].is_pair:
        lacks = "labels" if labeled else "pairs of texts"
        raise InvalidInputError(f"{path} is a .txt file, which cannot hold {lacks}: use JSON lines, CSV or TSV")
    return (TextRow(check_text(line.rstrip("\r\n"), "a line", place)) for place, line in read_lines(path, limits))


def _read_sentences(path: Path, limits: Limits) -> Iterator[TaggedRow]:
    for place, line in read_lines(path, limits):
        if line.startswith("-DOCSTART-"):
            raise place.error(
                "a .txt file without labels has one sentence a line, this one looks like CoNLL columns",
                line.strip(),
                "rename it to .conll",
            )
        words = check_text(line, "a line", place).split()
        _check_words(words, place, limits)
        yield TaggedRow(tuple(words))


def _check_words(words: object, place: Place, limits: Limits) -> None:
    if isinstance(words, list) and len(words) > limits.sentence_words:
        raise place.error(limits.words_rule, len(words), RAISE_WORDS)


def _extension(path: Path) -> str:
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix


def _unknown(path: Path, extension: str, known: list[str]) -> InvalidInputError:
    return InvalidInputError(
        f"{path} must end in one of {', '.join(known)} (each also with .gz) for this task, "
        f"got {extension!r}: rename or convert it"
    )
