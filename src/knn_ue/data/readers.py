"""Files, frames and data sets of labeled text -> rows, one at a time: memory stays flat over a file of any size.

JSON lines and plain text are read here, every other format in a file of its own.
"""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import get_args

from knn_ue.arrays import check_choice
from knn_ue.data.columns import Columns
from knn_ue.data.conll import read_conll
from knn_ue.data.datasets import IN_MEMORY, is_dataset, load_saved, rows_of
from knn_ue.data.faults import OnError, stop
from knn_ue.data.frames import frame_records, is_frame
from knn_ue.data.label_studio import read_array
from knn_ue.data.lines import Limits, Place, check_file, default_limits, read_lines
from knn_ue.data.parquet import read_parquet
from knn_ue.data.reading import Reading, Record, Records, at_least_one, check_text
from knn_ue.data.rows import Row, TaggedRow, TextRow
from knn_ue.data.sources import NAMED, read_named
from knn_ue.data.tables import read_table
from knn_ue.data.tags import TagScheme, tagged_rows
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, task_name

JSON_FILES = (".jsonl", ".ndjson", ".json")
TABLES = {".csv": ",;\t", ".tsv": "\t"}
PARQUET = (".parquet",)
COLUMNS = (".conll", ".iob", ".iob1", ".iob2", ".bio", ".bioes", ".bilou", ".tsv", ".txt")


def read_rows(
    source: object,
    task: str,
    *,
    labeled: bool = True,
    scheme: TagScheme = "auto",
    limits: Limits | None = None,
    columns: Columns | None = None,
    extras: bool = False,
    on_error: OnError = stop,
) -> Iterator[Row]:
    """Yield the rows of a file, a named source, a DataFrame or a `datasets.Dataset`.

    Named sources: `vader:movies`, `hub:owner/name:split`, `paper:imdb:test`. Files: JSON lines or one JSON array
    (.jsonl, .ndjson, .json), CSV and TSV with a header, parquet, a folder that `Dataset.save_to_disk` wrote; for
    tagging CoNLL columns (.conll, .iob2, .bio, .tsv, .txt and their like); without labels .txt, one text per line, and
    for tagging whatever has a column of texts in place of words. All but parquet may be compressed (.gz). Frames are
    those that narwhals knows, pandas and polars among them.

    `columns` names columns that are not called as our keys. With `labeled=False` labels need not be there and are left
    out; with `extras` each row keeps all columns that are no input. `scheme` is how tags are written; rows hold IOB2.
    A bad row raises `InvalidInputError` with place, rule, value and way out, unless `on_error` takes the error and
    returns: then the row is left out. So is a row or a sentence that is larger than `limits`.
    """
    check_choice(scheme, "scheme", get_args(TagScheme))
    reading = Reading(
        task=task_name(task),
        labeled=labeled,
        scheme=scheme,
        columns={} if columns is None or columns == Columns() else columns.of(task_name(task), labeled=labeled),
        limits=limits or default_limits(),
        extras=extras,
        on_error=on_error,
    )
    if isinstance(source, str) and source.startswith(NAMED):
        return read_named(source, reading)
    if isinstance(source, (str, Path)):
        return read_file(Path(source).expanduser(), reading)
    if is_frame(source):
        return at_least_one(reading.rows(lambda: frame_records(source, reading)), "the frame")
    if is_dataset(source):
        return rows_of(source, IN_MEMORY, reading)
    raise InvalidInputError(
        f"rows must be read from a file, a named source, a DataFrame or a datasets.Dataset, got {type(source).__name__}"
    )


def read_file(path: Path, reading: Reading) -> Iterator[Row]:
    """Yield the rows of one file, whose extension says how it is written."""
    check_file(path, or_folder=True)
    if path.is_dir():
        return rows_of(load_saved(path), str(path), reading)
    extension = Path(path.name.lower().removesuffix(".gz")).suffix
    tagging = TASKS[reading.task].is_tagging
    known = [*JSON_FILES, *PARQUET, *COLUMNS] if tagging else [*JSON_FILES, *PARQUET, *TABLES, ".txt"]
    if tagging and not reading.labeled:
        known.append(".csv")  # of texts
    if extension not in known:
        raise InvalidInputError(
            f"{path} must end in one of {', '.join(known)} (each but .parquet also with .gz) for {reading.task}, "
            f"got {extension!r}: rename or convert it"
        )
    if tagging:
        rows = _read_tagged(path, extension, reading)
    elif extension == ".txt":
        rows = _read_plain(path, reading)
    else:
        rows = reading.rows(lambda: _records(path, extension, reading))
    return at_least_one(rows, str(path))


def _records(path: Path, extension: str, reading: Reading) -> Records:
    if extension in PARQUET:
        return read_parquet(path, reading)
    if extension in JSON_FILES:
        return read_json(path, reading.limits, reading.on_error)
    return read_table(
        path,
        delimiters=TABLES[extension],
        needed=reading.needed(["text"]),
        extras=reading.extras,
        limits=reading.limits,
        on_error=reading.on_error,
    )


def read_json(path: Path, limits: Limits, on_error: OnError) -> Iterator[tuple[Place, Record]]:
    """Yield each JSON object with its place: one per line, blank lines aside, or the items of one array."""
    lines = read_lines(path, limits)
    found = False
    for place, line in lines:
        if not line.strip():
            continue
        if not found and line.lstrip().startswith("["):
            yield from read_array(path, chain([(place, line)], lines), on_error)
            return
        found = True
        try:
            record = _object(line.strip(), place)
        except InvalidInputError as error:
            on_error(error)
            continue
        yield place, record


def _object(line: str, place: Place) -> Record:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise place.error(
            f"a line must be one JSON object ({error.msg} at column {error.colno})",
            line,
            "write one complete object per line",
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists without end
        raise place.error(f"a line must be one JSON object ({error})", line, "simplify the line") from None
    if not isinstance(record, dict):
        raise place.error("a line must be a JSON object", line, 'write {"text": ..., "label": ...}')
    return record


def _read_tagged(path: Path, extension: str, reading: Reading) -> Iterator[Row]:
    if extension == ".txt" and not reading.labeled:
        return _read_sentences(path, reading)
    if reading.labeled and reading.scheme == "auto" and not path.is_file():
        raise InvalidInputError(
            f"{path} can be read only once, but finding the tag scheme takes two passes: "
            "state the scheme or save it as a file"
        )
    if extension in COLUMNS:
        return tagged_rows(
            lambda: read_conll(path, labeled=reading.labeled, limits=reading.limits),
            reading.scheme,
            labeled=reading.labeled,
        )
    return reading.rows(lambda: _records(path, extension, reading))


def _read_plain(path: Path, reading: Reading) -> Iterator[TextRow]:
    if reading.labeled or TASKS[reading.task].is_pair:
        lacks = "labels" if reading.labeled else "pairs of texts"
        raise InvalidInputError(f"{path} is a .txt file, which cannot hold {lacks}: use JSON lines, CSV or TSV")
    return _lines(path, reading)


def _lines(path: Path, reading: Reading) -> Iterator[TextRow]:
    for place, line in read_lines(path, reading.limits):
        try:
            text = check_text(line.rstrip("\r\n"), "a line", place)
        except InvalidInputError as error:
            reading.on_error(error)
            continue
        yield TextRow(text, place=place)


def _read_sentences(path: Path, reading: Reading) -> Iterator[TaggedRow]:
    for place, line in read_lines(path, reading.limits):
        if line.startswith("-DOCSTART-"):
            raise place.error(
                "a .txt file without labels has one sentence per line, this one looks like CoNLL columns",
                line.strip(),
                "rename it to .conll",
            )
        try:
            text = check_text(line.rstrip("\r\n"), "a line", place)
            words = text.split()
            reading.check_words(words, place)
        except InvalidInputError as error:
            reading.on_error(error)
            continue
        yield TaggedRow(tuple(words), raw_text=text, place=place)
