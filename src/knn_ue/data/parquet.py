"""Parquet files, a batch of rows at a time; a row that is too long is refused before its texts are made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.data.frames import check_columns
from knn_ue.data.lines import RAISE_ROW, Place
from knn_ue.data.reading import Reading, Record
from knn_ue.errors import InvalidInputError, KnnUeError, require

_BATCH_ROWS = 1024
_AT_ONCE = 1 << 26  # bytes of rows that are made at once


def read_parquet(path: Path, reading: Reading) -> Iterator[tuple[Place, Record]]:
    """Yield each row as a mapping from column to value; only the columns that are needed are read."""
    require("pyarrow", extra="frames", purpose=f"reading {path.name}")
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            check_columns(names, reading, Place(str(path), 1, "row"))
            texts = [column.path for column in file.schema if column.physical_type == "BYTE_ARRAY"]
        # One text that many rows share is kept once: a small file must not become a large batch.
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            wanted = names if reading.extras else reading.wanted(names)
            for batch in file.iter_batches(_BATCH_ROWS, columns=[name for name in wanted if name in names]):
                sizes = _checked_sizes(batch, path, number, reading)
                for record in _records(batch, sizes):
                    number += 1
                    yield Place(str(path), number, "row"), record
    except KnnUeError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        reason = str(error).split("\n")[0][:200] or "it does not fit into memory"
        raise InvalidInputError(f"{path} is not a readable parquet file ({reason}): write it again") from None


def _checked_sizes(batch: Any, path: Path, before: int, reading: Reading) -> npt.NDArray[np.int64]:
    """Return the bytes of each row; raise where one is longer than a row may be."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _sizes(column)
    limits = reading.limits
    if len(sizes) and sizes.max() > limits.row_bytes:
        row = int(np.argmax(sizes > limits.row_bytes))
        place = Place(str(path), before + row + 1, "row")
        raise place.error(limits.row_rule, f"{sizes[row]} bytes", RAISE_ROW.python, shell=RAISE_ROW.shell)
    return sizes


def _records(batch: Any, sizes: npt.NDArray[np.int64]) -> Iterator[Record]:
    if sizes.sum() > _AT_ONCE:
        for row in range(len(sizes)):
            yield from batch.slice(row, 1).to_pylist()
        return
    columns = [column.dictionary_decode() if hasattr(column, "dictionary") else column for column in batch.columns]
    yield from type(batch).from_arrays(columns, names=batch.schema.names).to_pylist()


def _sizes(column: Any) -> npt.NDArray[np.int64]:
    """Return how many bytes the value of each row has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        known = _sizes(column.dictionary)
        rows = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return known[rows] if len(known) else np.zeros(len(column), np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        lengths: npt.NDArray[np.int64] = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = np.cumsum(pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
        totals = np.concatenate(([0], np.cumsum(_sizes(column.flatten()), dtype=np.int64)))
        return np.diff(totals[np.concatenate(([0], ends))]) + np.diff(ends, prepend=0)
    if pa.types.is_struct(kind):
        inner = np.zeros(len(column), np.int64)
        for field in column.flatten():
            inner += _sizes(field)
        return inner
    return np.full(len(column), max(8, column.nbytes // max(1, len(column))), np.int64)
