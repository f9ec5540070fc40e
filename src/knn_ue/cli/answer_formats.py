"""Finished JSON lines of answers -> CSV or parquet."""

import csv
import json
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

_BATCH_ROWS = 4096


def convert(lines: Path, target: BinaryIO, suffix: str) -> None:
    """Write the answers in the file `lines` to `target`; lists and objects become JSON in one column."""
    columns = list(dict.fromkeys(name for record in _records(lines) for name in record))
    if suffix.lower() == ".csv":
        text = TextIOWrapper(target, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows([_cell(record.get(name)) for name in columns] for record in _records(lines))
        text.detach()
        return
    _write_parquet(lines, target, columns)


def _write_parquet(lines: Path, target: BinaryIO, columns: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, _arrow_type(pa, lines, name)) for name in columns])
    with pq.ParquetWriter(target, schema) as writer:
        batch: list[dict[str, Any]] = []
        for record in _records(lines):
            batch.append({name: _typed(record.get(name), schema.field(name).type, pa) for name in columns})
            if len(batch) == _BATCH_ROWS:
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch = []
        if batch:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _arrow_type(pa: Any, lines: Path, name: str) -> Any:
    kinds = {_kind(value) for record in _records(lines) if (value := record.get(name)) is not None}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def _kind(value: Any) -> type:
    """Return the type of a value; that of a number which no column of numbers takes is a text."""
    return str if isinstance(value, int) and not -(2**63) <= value < 2**63 else type(value)


def _typed(value: Any, kind: Any, pa: Any) -> Any:
    return str(_cell(value)) if kind == pa.string() and value is not None else value


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict, bool)) else value


def _records(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
